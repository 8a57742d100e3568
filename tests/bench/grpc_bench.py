"""The gRPC part of ./dev bench: the same work through the gRPC door, the Kafka door, and a C core server with nothing behind it.

CPU is of the server process. `bare` answers, counts or sends and does no more; what a door may cost is 1.3 times that and the append.
"""
import json
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
UNARY = {"32 in flight": (40000, 32), "one at a time": (8000, 1)}
STREAMS = {"64 KB": (0.8, 64 << 10, 32), "1 MB": (1.0, 1000 << 10, 8)}


def loader():
    return next((TOP / "build" / "release").rglob("bench_grpc_loader"))


def run(cpu_s, pid, *words):
    """(CPU seconds of the server, what the loader says)."""
    begin = cpu_s(pid)
    done = json.loads(subprocess.run([str(loader()), *map(str, words)], stdout=subprocess.PIPE, check=True, timeout=600).stdout)
    return cpu_s(pid) - begin, done


def work(cpu_s, pid, address, topics):
    """Every measurement against one server: {what: (value, unit)}."""
    out = {}
    run(cpu_s, pid, "unary", address, topics["unary"], 2000, 1000, 32)
    for name, (count, in_flight) in UNARY.items():
        cpu, done = run(cpu_s, pid, "unary", address, topics["unary"], count, 1000, in_flight)
        out[f"unary 1 KB, {name}"] = (cpu / done["requests"] * 1e6, "CPU us")
        out[f"unary 1 KB, {name}, rate"] = (done["requests"] / done["seconds"], "calls/s")
        for percentile in ("p50", "p99", "p999"):
            out[f"unary 1 KB, {name}, {percentile}"] = (done[f"{percentile}_us"], "us")
    cpu, done = run(cpu_s, pid, "stream", address, topics["unary"], int(5e7), 1000, 64)
    out["produce stream, 1 KB"] = (cpu / done["requests"] * 1e6, "CPU us")
    out["produce stream, 1 KB, rate"] = (done["requests"] / done["seconds"], "messages/s")
    acknowledged(out, "produce stream, 1 KB", done)
    for name, (gigabytes, batch_bytes, in_flight) in STREAMS.items():
        run(cpu_s, pid, "stream", address, topics[name], int(gigabytes * 1e8), batch_bytes, in_flight)
        cpu, done = run(cpu_s, pid, "stream", address, topics[name], int(gigabytes * 1e9), batch_bytes, in_flight)
        out[f"produce stream, {name}"] = (cpu / (done["bytes"] / 1e9), "CPU s/GB")
        out[f"produce stream, {name}, rate"] = (done["bytes"] / 1e6 / done["seconds"], "MB/s")
        acknowledged(out, f"produce stream, {name}", done)
    for name, (gigabytes, _, _) in STREAMS.items():
        run(cpu_s, pid, "subscribe", address, topics[name], int(4e8), 1 << 20)
        cpu, done = run(cpu_s, pid, "subscribe", address, topics[name], int(gigabytes * 1e9), 1 << 20)
        out[f"subscribe, {name} batches"] = (cpu / (done["bytes"] / 1e9), "CPU s/GB")
        out[f"subscribe, {name} batches, rate"] = (done["bytes"] / 1e6 / done["seconds"], "MB/s")
        between(out, f"subscribe, {name} batches", done)
    return out


def consume(cpu_s, pid, address, topics):
    """Subscribe's work as the one member of a group that acknowledges each message; the group is a new one each time."""
    out = {}
    for name, (gigabytes, _, _) in STREAMS.items():
        cpu, done = run(cpu_s, pid, "consume", address, topics[name], int(gigabytes * 5e8), 1 << 20, f"bench-{name}")
        out[f"consume, {name} batches, acknowledged"] = (cpu / (done["bytes"] / 1e9), "CPU s/GB")
        out[f"consume, {name} batches, acknowledged, rate"] = (done["bytes"] / 1e6 / done["seconds"], "MB/s")
        between(out, f"consume, {name} batches, acknowledged", done)
    return out


def acknowledged(out, name, done):
    for percentile in ("p50", "p99"):
        out[f"{name}, ack {percentile}"] = (done[f"{percentile}_us"] / 1000, "ms")


def between(out, name, done):
    """Of a MiB: between two messages; of the Kafka door, from fetch to the end of its answer."""
    for percentile in ("p50", "p99"):
        out[f"{name}, message {percentile}"] = (done[f"{percentile}_us"] / 1000, "ms")


def append(root):
    """What the append alone costs: CPU us of a lone batch of 1 KB, CPU s/GB of larger ones."""
    out, file = {}, root / "append.log"
    for name, size, total in (("1 KB", 1070, 5e7), *((n, b, g * 1e9) for n, (g, b, _) in STREAMS.items())):
        done = json.loads(subprocess.run([str(loader()), "append", str(file), str(int(total)), str(size)], stdout=subprocess.PIPE, check=True, timeout=600).stdout)
        file.unlink()
        out[name] = done["cpu_s"] / done["requests"] * 1e6 if name == "1 KB" else done["cpu_s"] / (done["bytes"] / 1e9)
    return {**{f"unary 1 KB, {n}": out["1 KB"] for n in UNARY}, "produce stream, 1 KB": out["1 KB"], **{f"produce stream, {n}": out[n] for n in STREAMS}}


def bare(cpu_s, root, free_ports):
    file = root / "bare.log"
    with open(file, "wb") as out:
        for _ in range(256):
            out.write(b"x" * (1 << 20))
    address = f"127.0.0.1:{free_ports(1)[0]}"
    server = subprocess.Popen([str(loader()), "bare", address, str(file)], stdout=subprocess.PIPE)
    try:
        assert server.stdout.readline() == b"ready\n"
        return work(cpu_s, server.pid, address, {"unary": "t", "64 KB": "t", "1 MB": "t"})
    finally:
        server.kill()
        server.wait(30)
        file.unlink()


def kafka_door(load, side):
    """The same work through the Kafka door of the same server."""
    out = {}
    for name, (count, in_flight) in UNARY.items():
        cpu, done = load(side, "produce", "k-unary", count * 1000 / 1e9, 1, 1000, 1, in_flight)
        out[f"unary 1 KB, {name}"] = (cpu / done["requests"] * 1e6, "CPU us")
        out[f"unary 1 KB, {name}, rate"] = (done["requests"] / done["seconds"], "calls/s")
        for percentile in ("p50", "p99", "p999"):
            out[f"unary 1 KB, {name}, {percentile}"] = (done[f"{percentile}_us"], "us")
    cpu, done = load(side, "produce", "k-unary", 0.05, 1, 1000, 1, 64)
    out["produce stream, 1 KB"] = (cpu / done["requests"] * 1e6, "CPU us")
    out["produce stream, 1 KB, rate"] = (done["requests"] / done["seconds"], "messages/s")
    acknowledged(out, "produce stream, 1 KB", done)
    for name, (gigabytes, batch_bytes, in_flight) in STREAMS.items():
        topic = "k-" + name.replace(" ", "-")
        load(side, "produce", topic, gigabytes / 10, batch_bytes // 1000, 1000, 1, in_flight)
        cpu, done = load(side, "produce", topic, gigabytes, batch_bytes // 1000, 1000, 1, in_flight)
        out[f"produce stream, {name}"] = (cpu / (done["bytes"] / 1e9), "CPU s/GB")
        out[f"produce stream, {name}, rate"] = (done["bytes"] / 1e6 / done["seconds"], "MB/s")
        acknowledged(out, f"produce stream, {name}", done)
        load(side, "fetch", topic, gigabytes / 4, batch_bytes // 1000, 1000, 1 << 20)
        cpu, done = load(side, "fetch", topic, gigabytes, batch_bytes // 1000, 1000, 1 << 20)
        out[f"subscribe, {name} batches"] = (cpu / (done["bytes"] / 1e9), "CPU s/GB")
        out[f"subscribe, {name} batches, rate"] = (done["bytes"] / 1e6 / done["seconds"], "MB/s")
        between(out, f"subscribe, {name} batches", done)
    return out


def table(rounds):
    """rounds: [{"grpc": {...}, "kafka door": {...}, "bare": {...}, "append": {...}}]; the least cost and the best rate of the rounds. The aim: 1.3 times bare, and the append."""
    def best(side, name):
        values = [r[side][name] for r in rounds if name in r[side]]
        if not values:
            return None
        return (max if values[0][1].endswith("/s") and not values[0][1].startswith("CPU") else min)(v for v, _ in values)

    def text(value):
        return "-" if value is None else format(value, ".3g" if value < 1000 else ".0f")
    rows = []
    print("| gRPC | unit | gRPC door | Kafka door | bare core | append | aim | |\n|---|---|---|---|---|---|---|---|")
    for name, (_, unit) in rounds[0]["grpc"].items():
        ours, kafka, least = (best(side, name) for side in ("grpc", "kafka door", "bare"))
        writes = min((r["append"].get(name, 0) for r in rounds), default=0)
        aim = 1.3 * least + writes if unit.startswith("CPU") and least else None
        met = "" if aim is None else "met" if ours <= aim else "MISSED"
        print(f"| {name} | {unit} | {text(ours)} | {text(kafka)} | {text(least)} | {text(writes or None)} | {text(aim)} | {met} |")
        rows.append({"name": name, "unit": unit, "grpc": ours, "kafka": kafka, "bare": least, "append": writes, "aim": aim, "met": met})
    return rows
