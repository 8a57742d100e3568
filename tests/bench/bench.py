#!/usr/bin/env python3
"""./dev bench: ottla and Kafka 4.4 on the same machine, in turn, the same load; medians, both sides and their ratio.

Costs are CPU seconds of the server process for a gigabyte (10^9 bytes); wall times are told but depend on what else the
machine does. `bare` is the least that a server can spend: receive and pwrite, or sendfile. Nothing here fails a test.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "integration"))
import batch  # noqa: E402
import harness  # noqa: E402
from admin import Admin  # noqa: E402
from harness import until  # noqa: E402
from apache_kafka import Kafka  # noqa: E402

MANY = 4000
TICKS = os.sysconf("SC_CLK_TCK")


def loader():
    return next((TOP / "build" / "release").rglob("bench_loader"))


def cpu_s(pid):
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / TICKS


def rss_mib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


class Ottla:
    name = "ottla"

    def __init__(self, directory):
        self.server = harness.Broker(directory)

    def start(self):
        self.server.start(wait=False)
        until(self.answering, 120, self.server.log_tail, step_s=0.001)

    def answering(self):
        assert self.server.alive(), self.server.log_tail()
        try:
            with self.server.connect(timeout_s=5) as c:
                return c.ask("ApiVersions", 0)["errorCode"] == 0
        except (OSError, EOFError):
            return False


class Apache:
    name = "kafka"

    def __init__(self, directory):
        self.server = Kafka(directory, heap=("-Xms1g", "-Xmx1g")).format()

    def start(self):
        self.server.start(180, 0.005)


def all_led(server, topic, partitions, bound_s=180):
    """Until every partition takes and gives: ListOffsets without an error on all of them."""
    body = {"replicaId": -1, "topics": [{"name": topic, "partitions": [{"partitionIndex": p, "timestamp": -1} for p in range(partitions)]}]}
    with server.connect(timeout_s=60) as c:
        until(lambda: all(p["errorCode"] == 0 for p in c.ask("ListOffsets", 7, body)["topics"][0]["partitions"]), bound_s, "all led",
              step_s=0.005)


def start_empty(side):
    begin = time.monotonic()
    side.start()
    return {"start, empty": ((time.monotonic() - begin) * 1000, "ms")}


def create_many(side):
    body = {"topics": [{"name": "many", "numPartitions": MANY, "replicationFactor": 1}], "timeoutMs": 60000}
    with side.server.connect(timeout_s=120) as c:
        begin = time.monotonic()
        answer = c.ask("CreateTopics", 7, body)["topics"][0]
        assert answer["errorCode"] == 0, answer
    all_led(side.server, "many", MANY)
    return {f"create {MANY} partitions": (time.monotonic() - begin, "s")}


def idle(side, what):
    pid = side.server.process.pid
    begin = cpu_s(pid)
    time.sleep(5)  # poll: idleness is what is measured
    return {f"resident, {what}": (rss_mib(pid), "MiB"), f"idle CPU, {what}": ((cpu_s(pid) - begin) / 5 * 1000, "ms/s")}


def restart_many(side):
    with side.server.connect(timeout_s=120) as c:
        for first in range(0, MANY, 500):
            c.ask("Produce", 9, {"acks": 1, "timeoutMs": 60000, "topicData": [{"name": "many", "partitionData": [
                {"index": p, "records": batch.build([b"x" * 100])} for p in range(first, first + 500)]}]})
    side.server.kill()
    begin = time.monotonic()
    side.start()
    all_led(side.server, "many", MANY)
    return {f"start with {MANY} partitions after kill -9": (time.monotonic() - begin, "s")}


def load(side, mode, topic, gigabytes, records, record_bytes, *more):
    words = [loader(), mode, "127.0.0.1", side.server.port, topic, 4, int(gigabytes * 1e9), records, record_bytes, *more]
    begin = cpu_s(side.server.process.pid)
    done = json.loads(subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, check=True, timeout=600).stdout)
    return (cpu_s(side.server.process.pid) - begin) / (done["bytes"] / 1e9), done["seconds"]


def produce_and_fetch(side):
    out = {}
    with side.server.connect(timeout_s=60) as c:
        for topic in ("small", "large"):
            Admin(c).create(topic, partitions=4)
    shapes = {"small": ("1 KB batches", 0.2, 1, 1000), "large": ("16 KB batches", 1.0, 16, 1000)}
    for topic, (what, gigabytes, records, record_bytes) in shapes.items():
        load(side, "produce", topic, gigabytes / 5, records, record_bytes, 1, 16)  # warm: a JVM compiles first
        cost, seconds = load(side, "produce", topic, gigabytes, records, record_bytes, 1, 16)
        out[f"produce acks=1, {what}"] = (cost, "CPU s/GB")
        out[f"produce acks=1, {what}, rate"] = (gigabytes * 1000 / seconds, "MB/s")
    load(side, "fetch", "large", 1, 16, 1000, 1 << 20)
    out["fetch, 1 MiB"] = (load(side, "fetch", "large", 4, 16, 1000, 1 << 20)[0], "CPU s/GB")
    out["fetch, 64 KiB"] = (load(side, "fetch", "large", 2, 16, 1000, 64 << 10)[0], "CPU s/GB")
    return out


def bare(directory):
    """The cost of the least possible server for the load of produce_and_fetch."""
    out, file = {}, directory / "bare"

    def one(mode, client, gigabytes, records, *more):
        port = harness.free_ports(1)[0]
        server = subprocess.Popen([str(loader()), mode, str(port), str(file)])

        def go():
            words = [loader(), client, "127.0.0.1", port, "large", 4, int(gigabytes * 1e9), records, 1000, *more]
            done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            return done.returncode == 0 and json.loads(done.stdout)
        done = until(go, 60, "the bare server")
        _, _, usage = os.wait4(server.pid, 0)
        server.returncode = 0
        return (usage.ru_utime + usage.ru_stime) / (done["bytes"] / 1e9)
    out["produce acks=1, 1 KB batches"] = one("sink", "produce", 0.2, 1, 1, 16)
    out["produce acks=1, 16 KB batches"] = one("sink", "produce", 1, 16, 1, 16)
    out["fetch, 1 MiB"] = one("source", "fetch", 4, 16, 1 << 20)
    out["fetch, 64 KiB"] = one("source", "fetch", 2, 16, 64 << 10)
    return out


TARGETS = {"start, empty": 50, f"start with {MANY} partitions after kill -9": 1, f"create {MANY} partitions": 0.5,
           "resident, empty": 64, f"resident, {MANY} partitions": 64 + MANY * 4 / 1024, "idle CPU, empty": 1,
           f"idle CPU, {MANY} partitions": 5}
HIGHER_IS_BETTER = re.compile("rate$")


def one_round(make, root, only):
    """All measurements of one side; each kind of run has a fresh directory."""
    out = {}
    runs = [("start|resident, empty|idle CPU, empty", [start_empty, lambda s: idle(s, "empty")]),
            (f"{MANY}", [start_empty, create_many, lambda s: idle(s, f"{MANY} partitions"), restart_many]),
            ("produce|fetch", [start_empty, produce_and_fetch])]
    for words, steps in runs:
        if only and not re.search(only, words) and not re.search(words, only):
            continue
        directory = Path(tempfile.mkdtemp(dir=root))
        os.sync()  # what the last one left to write would be charged to this one
        side = make(directory)
        try:
            for step in steps:
                for name, value in step(side).items():
                    out.setdefault(name, value)
        finally:
            side.server.kill()
            shutil.rmtree(directory, ignore_errors=True)
    return out


def number(value):
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def report(results, bare_costs, path):
    rows = []
    measured = next(rounds[0] for rounds in results.values())
    for name, (_, unit) in measured.items():
        medians = {side: statistics.median(r[name][0] for r in rounds) if rounds and name in rounds[0] else None
                   for side, rounds in results.items()}
        ours, theirs, target = medians.get("ottla"), medians.get("kafka"), TARGETS.get(name)
        ratio = None if not theirs or not ours else ours / theirs if HIGHER_IS_BETTER.search(name) else theirs / ours
        rows.append({"name": name, "unit": unit, "ottla": ours, "kafka": theirs, "bare": bare_costs.get(name), "ratio": ratio,
                     "target": target, "met": None if target is None or ours is None else ours <= target})
    print(f"{'':<42} {'ottla':>8} {'kafka':>8} {'bare':>8}  {'unit':<9} {'better by':>9} {'target':>8}")
    for r in rows:
        met = {True: "met", False: "MISSED", None: ""}[r["met"]]
        print(f"{r['name']:<42} {number(r['ottla']):>8} {number(r['kafka']):>8} {number(r['bare']):>8}  {r['unit']:<9} "
              f"{number(r['ratio']):>8}x {number(r['target']):>8} {met}")
    if path:
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=["ottla", "kafka"], action="append")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    makers = {c.name: c for c in (Ottla, Apache) if not args.side or c.name in args.side}
    results = {side: [] for side in makers}
    try:
        bare_costs = bare(root) if not args.only or re.search("produce|fetch", args.only) else {}
        for number_of_round in range(args.rounds):
            for side, make in makers.items():  # in turn, so that a busy minute hits both
                print(f"round {number_of_round + 1} of {args.rounds}: {side}", file=sys.stderr, flush=True)
                results[side].append(one_round(make, root, args.only))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    report(results, bare_costs, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
