#!/usr/bin/env python3
"""./dev bench: ottla and Kafka 4.4 on the same machine, in turn, the same load; medians, both sides and their ratio.

Costs are CPU seconds of the server process for a gigabyte (10^9 bytes of records before compression), or microseconds for a
request; wall times are told but depend on what else the machine does. `ottla` has ottla.durability=replicated, which promises
what Kafka promises; `default` is ottla as it comes, which with one broker syncs before it shows a record. In rows that say "synced" all sides sync before
they answer (Kafka by log.flush.interval.messages=1). `bare` is the least
that a server can spend: receive and pwrite, sendfile, or receive and answer. The page cache is full before a load (page_cache.py). Nothing here fails a test.
"""
import argparse
import json
import os
import random
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
sys.path.insert(0, str(TOP / "tests" / "bench"))
import batch  # noqa: E402
import commits_bench  # noqa: E402
import grpc_bench  # noqa: E402
import groups_bench  # noqa: E402
import harness  # noqa: E402
import java  # noqa: E402
import page_cache  # noqa: E402
import three_bench  # noqa: E402
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
    configs = {"ottla.durability": "replicated"}

    def __init__(self, directory, synced=False):
        self.server = harness.Broker(directory, **{**self.configs, **({"ottla.durability": "fsync"} if synced else {})})

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


class OttlaDefault(Ottla):
    name = "default"
    configs = {}


class Apache:
    name = "kafka"

    def __init__(self, directory, synced=False):
        self.server = Kafka(directory, heap=("-Xms1g", "-Xmx1g"), **({"log_flush_interval_messages": 1} if synced else {})).format()

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


def run_loader(*words):
    done = subprocess.run([str(w) for w in (loader(), *words)], stdout=subprocess.PIPE, check=True, timeout=900)
    return json.loads(done.stdout)


def load(side, mode, topic, gigabytes, records, record_bytes, *more, partitions=4):
    """CPU seconds of the server, and what the loader says."""
    if gigabytes >= page_cache.WORTH_GB:
        page_cache.fill()
    begin = cpu_s(side.server.process.pid)
    done = run_loader(mode, "127.0.0.1", side.server.port, topic, partitions, int(gigabytes * 1e9), records, record_bytes, *more)
    return cpu_s(side.server.process.pid) - begin, done


# what is sent: name -> gigabytes, records a batch, record bytes, in flight, codec
PRODUCE = {
    "1 MB batches of 1 KB": (2.0, 1000, 1000, 4, "none"),
    "1 MB batches of 100 B": (1.0, 8700, 100, 4, "none"),
    "16 KB batches of 1 KB": (1.0, 16, 1000, 16, "none"),
    "16 KB batches of 100 B": (0.5, 145, 100, 16, "none"),
    "1 MB batches of 1 KB, lz4": (3.0, 1000, 1000, 4, "lz4"),
    "1 MB batches of 1 KB, zstd": (3.0, 1000, 1000, 4, "zstd"),
    "16 KB batches of 1 KB, lz4": (1.0, 16, 1000, 16, "lz4"),
}
REQUESTS = {"one record, pipelined": (0.1, 1, 1000, 16, "none"), "one record, ping-pong": (0.02, 1, 1000, 1, "none")}
SHAPES = {**PRODUCE, **REQUESTS}
FETCH = {"fetch, 1 MiB": (4, 1 << 20, 1), "fetch, 64 KiB": (2, 64 << 10, 1), "fetch, 1 MiB, 64 consumers": (6, 1 << 20, 64)}


def per_request(name):
    return name in REQUESTS


def topic_of(name):
    return re.sub(r"[^A-Za-z0-9]+", "-", name)


def produce_and_fetch(side):
    out = {}
    with side.server.connect(timeout_s=60) as c:
        for name in SHAPES:
            Admin(c).create(topic_of(name), partitions=4)
    for name, (gigabytes, records, record_bytes, in_flight, codec) in SHAPES.items():
        load(side, "produce", topic_of(name), gigabytes / 10, records, record_bytes, 1, in_flight, codec)
        cpu, done = load(side, "produce", topic_of(name), gigabytes, records, record_bytes, 1, in_flight, codec)
        if per_request(name):
            out[f"produce, {name}"] = (cpu * 1e6 / done["requests"], "CPU us")
        else:
            out[f"produce, {name}"] = (cpu / (done["plain_bytes"] / 1e9), "CPU s/GB")
            out[f"produce, {name}, rate"] = (done["plain_bytes"] / 1e6 / done["seconds"], "MB/s")
    topic = topic_of("1 MB batches of 1 KB")
    load(side, "fetch", topic, 1, 1000, 1000, 1 << 20)
    for name, (gigabytes, max_bytes, connections) in FETCH.items():
        source = topic if max_bytes > 64 << 10 else topic_of("16 KB batches of 1 KB")
        cpu, done = load(side, "fetch", source, gigabytes, 1000 if source == topic else 16, 1000, max_bytes, connections)
        out[name] = (cpu / (done["bytes"] / 1e9), "CPU s/GB")
    return out


def append_io(side):
    """One record at a time by each log.append.io: what `auto`, the default, was chosen by."""
    out = {}
    for mode in ("pwritev", "mmap", "auto") if isinstance(side, Ottla) else ():
        with tempfile.TemporaryDirectory(dir=side.server.data.parent) as directory:
            other = type(side)(Path(directory))
            other.server.settings["log_append_io"] = mode
            other.start()
            try:
                with other.server.connect(timeout_s=60) as c:
                    for name in REQUESTS:
                        Admin(c).create(topic_of(name), partitions=4)
                for name, (gigabytes, records, record_bytes, in_flight, codec) in REQUESTS.items():
                    load(other, "produce", topic_of(name), gigabytes / 10, records, record_bytes, 1, in_flight, codec)
                    cpu, done = load(other, "produce", topic_of(name), gigabytes, records, record_bytes, 1, in_flight, codec)
                    out[f"log.append.io={mode}, {name}"] = (cpu * 1e6 / done["requests"], "CPU us")
            finally:
                other.server.kill()
    return out


def clients(side):
    """What applications send: librdkafka, and Kafka's own performance tools, with their usual batching."""
    out = {}
    with side.server.connect(timeout_s=60) as c:
        for topic in ("rdkafka", "perf"):
            Admin(c).create(topic, partitions=4)
    at, pid = f"127.0.0.1:{side.server.port}", side.server.process.pid
    program = next((TOP / "build" / "release").rglob("bench_librdkafka"), None)

    def measured(what, gigabytes, words):
        begin = cpu_s(pid)
        done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, check=True, timeout=900)
        out[what] = ((cpu_s(pid) - begin) / gigabytes, "CPU s/GB")
        return done.stdout

    if program:
        words = [program, "produce", at, "rdkafka"]
        subprocess.run([str(w) for w in (*words, int(1e8), 1000, 5, 1000000, "none")], stdout=subprocess.DEVNULL, check=True, timeout=300)
        measured("librdkafka produces, 1 KB, linger 5 ms", 1.0, [*words, int(1e9), 1000, 5, 1000000, "none"])
        measured("librdkafka produces, 1 KB, lz4", 1.0, [*words, int(1e9), 1000, 5, 1000000, "lz4"])
        measured("librdkafka consumes", 2.0, [program, "consume", at, "rdkafka", 4, int(2e9)])
    tool = java.command("org.apache.kafka.tools.ProducerPerformance", "--topic", "perf", "--num-records", 500000, "--record-size", 1000,
                        "--throughput", -1, "--producer-props", f"bootstrap.servers={at}", "acks=1", heap=("-Xmx512m",))
    measured("kafka-producer-perf-test, 1 KB, 16 KB batches", 0.5, tool)
    return out


def transactions(side):
    """Kafka's own producer, one transaction after the other; their number is the growth of the epoch (KIP-890), the wall time is told with it."""
    with side.server.connect(timeout_s=60) as c:
        Admin(c).create("txn", partitions=4)
        at, pid, out = f"127.0.0.1:{side.server.port}", side.server.process.pid, {}
        for what, transactional_id in (("warm", "bench-0"), ("transactions of 5 ms, 100 B records", "bench-1")):
            tool = java.command("org.apache.kafka.tools.ProducerPerformance", "--topic", "txn", "--num-records", 20000 if what == "warm" else 60000,
                                "--record-size", 100, "--throughput", 5000, "--transactional-id", transactional_id, "--transaction-duration-ms", 5,
                                "--producer-props", f"bootstrap.servers={at}", heap=("-Xmx512m",))
            begin, begin_s = cpu_s(pid), time.monotonic()
            subprocess.run([str(w) for w in tool], stdout=subprocess.DEVNULL, check=True, timeout=600)
            used, wall_s = cpu_s(pid) - begin, time.monotonic() - begin_s
            count = c.ask("DescribeTransactions", 0, {"transactionalIds": [transactional_id]})["transactionStates"][0]["producerEpoch"]
            if what != "warm":
                out[what] = (used / count * 1000, "CPU s/1000")
                out["transactions, one after the other, rate"] = (count / wall_s, "1/s")
    return out


# what is compacted: name -> gigabytes, records a batch, record bytes, distinct batches, codec
COMPACT = {"1 KB records": (1.0, 1000, 1000, 100, "none"), "100 B records": (0.5, 8000, 100, 20, "none"), "1 KB records, zstd": (1.0, 1000, 1000, 100, "zstd")}


def alter(c, kind, name, **configs):
    answer = c.ask("IncrementalAlterConfigs", 1, {"validateOnly": False, "resources": [{"resourceType": kind, "resourceName": name, "configs": [
        {"name": key.replace("_", "."), "configOperation": 0, "value": value} for key, value in configs.items()]}]})
    assert answer["responses"][0]["errorCode"] == 0, answer


def cleaned(side, topic):
    """Where the cleaner has come to in it, by the file that both keep."""
    path = Path(side.server.data) / "cleaner-offset-checkpoint"
    rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return next((int(row[2]) for row in rows if row[0] == topic), 0)


def compaction(side):
    """CPU of compacting a gigabyte of updates, each key written about as often as the batches repeat; the cleaner waits until all is written."""
    out = {}
    with side.server.connect(timeout_s=60) as c:
        admin = Admin(c)
        alter(c, 4, "", log_cleaner_backoff_ms="200")
        for name, (gigabytes, records, record_bytes, distinct, codec) in COMPACT.items():
            topic = topic_of("compact " + name)
            admin.create(topic, cleanup_policy="compact", segment_bytes="104857600", min_cleanable_dirty_ratio="0.01", min_compaction_lag_ms="3600000")
            chance = random.Random(1)
            batches = [batch.build([chance.randbytes(record_bytes // 2) + b"x" * (record_bytes // 2) for _ in range(records)],
                                   keys=[b"%020d" % chance.randrange(distinct * records) for _ in range(records)], codec=codec) for _ in range(distinct)]
            count = int(gigabytes * 1e9 / records / record_bytes)
            for i in range(count):
                assert admin.produce_raw(topic, batches[i % distinct], acks=1)["errorCode"] == 0
            time.sleep(2)  # poll: what the load left to do is not the cleaner's
            begin, pid = cpu_s(side.server.process.pid), side.server.process.pid
            started = time.monotonic()
            alter(c, 2, topic, min_compaction_lag_ms="0")
            until(lambda: cleaned(side, topic) > count * records // 2, 300, "compaction")
            out[f"compact, {name}"] = ((cpu_s(pid) - begin) / gigabytes, "CPU s/GB")
            out[f"compact, {name}, rate"] = (gigabytes * 1000 / (time.monotonic() - started), "MB/s")
    return out


PACE = (2000, 16, 1000)  # requests a second, records, bytes: 32 MB/s, about half of what the slowest side takes of such batches here


def latency(side):
    out = {}
    with side.server.connect(timeout_s=60) as c:
        for topic in ("paced", "cold"):
            Admin(c).create(topic, partitions=4)
    rate, records, record_bytes = PACE
    load(side, "produce", "cold", 2.0, 1000, 1000, 1, 4)
    load(side, "pace", "paced", 0.1, records, record_bytes, 1, rate)
    scan = None
    for what in ("", ", with a cold scan"):
        if what:
            drop_caches(side)
            scan = subprocess.Popen([str(w) for w in (loader(), "fetch", "127.0.0.1", side.server.port, "cold", 4, int(20e9), 1000, 1000, 1 << 20)],
                                    stdout=subprocess.DEVNULL)
        done = load(side, "pace", "paced", 10 * rate * records * record_bytes / 1e9, records, record_bytes, 1, rate)[1]
        for percentile in ("p50", "p99", "p999"):
            out[f"produce latency {percentile}{what}"] = (done[f"{percentile}_ms"], "ms")
    if scan:
        scan.kill()
        scan.wait()
    return out


def drop_caches(side):
    """The files of the cold topic leave the page cache, as those of an old topic have left it."""
    os.sync()
    for path in Path(side.server.data if hasattr(side.server, "data") else side.server.directory).rglob("*.log"):
        if "cold" in str(path.parent.name):
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bare(directory):
    """The cost of the least possible server for the load of produce_and_fetch; the decoder that checks compressed batches is in neither."""
    out, file = {}, directory / "bare"

    def one(mode, path, client, gigabytes, records, record_bytes, *more):
        port = harness.free_ports(1)[0]
        if gigabytes >= page_cache.WORTH_GB:
            page_cache.fill()
        server = subprocess.Popen([str(loader()), mode, str(port), str(path)])

        def go():
            words = [loader(), client, "127.0.0.1", port, "large", 4, int(gigabytes * 1e9), records, record_bytes, *more]
            done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            return done.returncode == 0 and json.loads(done.stdout)
        done = until(go, 60, "the bare server")
        _, _, usage = os.wait4(server.pid, 0)
        server.returncode = 0
        return usage.ru_utime + usage.ru_stime, done
    for name, (gigabytes, records, record_bytes, in_flight, codec) in SHAPES.items():
        cpu, done = one("sink", "-" if per_request(name) and in_flight == 1 else file, "produce", gigabytes, records, record_bytes, 1, in_flight, codec)
        out[f"produce, {name}"] = cpu * 1e6 / done["requests"] if per_request(name) else cpu / (done["plain_bytes"] / 1e9)
    one("sink", file, "produce", 1, 1000, 1000, 1, 4)
    for name, (gigabytes, max_bytes, connections) in FETCH.items():
        if connections == 1:
            cpu, done = one("source", file, "fetch", gigabytes, 1000, 1000, max_bytes)
            out[name] = cpu / (done["bytes"] / 1e9)
    file.unlink()
    return out


# the most that ottla may cost; and how many times less than Kafka, how many times the bare server at most
TARGETS = {"start, empty": 50, f"start with {MANY} partitions after kill -9": 1, f"create {MANY} partitions": 0.5,
           "resident, empty": 64, f"resident, {MANY} partitions": 64 + MANY * 4 / 1024, "idle CPU, empty": 1,
           f"idle CPU, {MANY} partitions": 5, "three: leader killed, acknowledged again": 1.5, "three: leader and coordinator killed, acknowledged again": 4,
           "three: leader paused, acknowledged again": 9}    # the session of a broker, from the last word that came of it
AGAINST = [(r"^produce, .*(lz4|zstd)$", 1, None), (r"^produce, one record, pipelined$", 12, None), (r"^produce, one record, ping-pong$", None, 1.5),
           (r"^compact, .*(records|zstd)$", 5, None), (r"^transactions of", 5, None), (r"^offset commits of .*(other|once|synced)$", 5, None),
           (r"^(new|classic) group of .*CPU$", 5, None), (r"^heartbeat of", 5, None), (r"^start with the offsets", 5, None), (r"^produce, .* (KB|B)$", 8, 1.5), (r"^fetch, 1 MiB$", 2, 1.3), (r"^three: acks=all, .* KB$", 6, None)]
HIGHER_IS_BETTER = re.compile("rate$")


def groups(side):
    """A rebalance of 50 members of the new group protocol, and what a heartbeat costs."""
    topic = topic_of("group")
    with side.server.connect(timeout_s=60) as c:
        Admin(c).create(topic, partitions=groups_bench.PARTITIONS)
    commits_bench.coordinator(side, topic)
    return groups_bench.rebalances(side, topic, commits_bench.fine_cpu_s)


def classic_groups(side):
    topic = topic_of("classic group")
    with side.server.connect(timeout_s=60) as c:
        Admin(c).create(topic, partitions=commits_bench.PARTITIONS)
    return commits_bench.rebalances(side, topic)


def commits(side, where=""):
    with side.server.connect(timeout_s=60) as c:
        Admin(c).create("committed", partitions=4)
    return commits_bench.commits(side, "committed", cpu_s, where)


def restart_groups(side):
    with side.server.connect(timeout_s=60) as c:
        Admin(c).create("committed", partitions=4)
    return commits_bench.restart(side, "committed")


def one_round(make, root, only):
    """All measurements of one side; each kind of run has a fresh directory."""
    out = {}
    runs = [("new group", [start_empty, groups]), ("classic group", [start_empty, classic_groups]), ("offset commits", [start_empty, commits]),
            ("synced offset commits", [start_empty, lambda s: commits(s, ", synced")]), ("offsets of groups", [start_empty, restart_groups]), ("latency", [start_empty, latency]), ("librdkafka|clients|perf-test", [start_empty, clients]),
            ("start|resident, empty|idle CPU, empty", [start_empty, lambda s: idle(s, "empty")]),
            (f"{MANY}", [start_empty, create_many, lambda s: idle(s, f"{MANY} partitions"), restart_many]),
            ("append.io", [start_empty, append_io]), ("compact", [start_empty, compaction]), ("transactions", [start_empty, transactions]),
            ("produce|fetch", [start_empty, produce_and_fetch])]
    for words, steps in runs:
        if only and not re.search(only, words) and not re.search(words, only):
            continue
        directory = Path(tempfile.mkdtemp(dir=root))
        os.sync()  # what the last one left to write would be charged to this one
        side = make(directory, synced="synced" in words)
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


def judge(name, ours, theirs, least):
    """(target in words, met) or (None, None)."""
    if name in TARGETS:
        return f"<= {number(TARGETS[name])}", ours <= TARGETS[name]
    for pattern, times_kafka, times_bare in AGAINST:
        if not re.search(pattern, name):
            continue
        words, met = [], True
        if times_kafka and theirs:
            words.append(f"kafka/{times_kafka}")
            met &= ours * times_kafka <= theirs
        if times_bare and least:
            words.append(f"bare*{times_bare}")
            met &= ours <= least * times_bare
        return (", ".join(words), met) if words else (None, None)
    return None, None


def report(results, bare_costs, path):
    rows = []
    units = {}
    for name, (_, unit) in (row for rounds in results.values() for figures in rounds for row in figures.items()):
        units.setdefault(name, unit)
    for name, unit in units.items():
        found = {side: [r[name][0] for r in rounds if name in r] for side, rounds in results.items()}
        medians = {side: statistics.median(values) if values else None for side, values in found.items()}
        ours, theirs, least = medians.get("ottla"), medians.get("kafka"), bare_costs.get(name)
        ratio = None if not theirs or not ours else ours / theirs if HIGHER_IS_BETTER.search(name) else theirs / ours
        target, met = judge(name, ours, theirs, least) if ours is not None else (None, None)
        rows.append({"name": name, "unit": unit, "ottla": ours, "ottla_default": medians.get("default"), "kafka": theirs, "bare": least,
                     "ratio": ratio, "target": target, "met": met})
    print(f"{'':<58} {'ottla':>8} {'default':>8} {'kafka':>8} {'bare':>8}  {'unit':<9} {'better by':>9}  target")
    for r in rows:
        met = {True: "met", False: "MISSED", None: ""}[r["met"]]
        print(f"{r['name']:<58} {number(r['ottla']):>8} {number(r['ottla_default']):>8} {number(r['kafka']):>8} {number(r['bare']):>8}  {r['unit']:<9} "
              f"{number(r['ratio']):>8}x  {r['target'] or ''} {met}".rstrip())
    if path:
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")


def grpc_rounds(root, rounds):
    """The gRPC door beside the Kafka door of the same server and beside the bare core, in turn."""
    out = []
    for number_of_round in range(rounds):
        print(f"round {number_of_round + 1} of {rounds}: grpc", file=sys.stderr, flush=True)
        side = Ottla(Path(tempfile.mkdtemp(dir=root)))
        start_empty(side)
        try:
            topics = {"unary": "g-unary", "64 KB": "g-64", "1 MB": "g-1m"}
            with side.server.connect(timeout_s=60) as c:
                for topic in (*topics.values(), "k-unary", "k-64-KB", "k-1-MB"):
                    Admin(c).create(topic)
            address = f"127.0.0.1:{side.server.more_ports[1]}"
            figures = {"grpc": grpc_bench.work(cpu_s, side.server.process.pid, address, topics)}
            figures["grpc"].update(grpc_bench.consume(cpu_s, side.server.process.pid, address, topics))
            figures["kafka door"] = grpc_bench.kafka_door(lambda s, mode, topic, gigabytes, *more: load(s, mode, topic, gigabytes, *more, partitions=1), side)
        finally:
            side.server.kill()
            shutil.rmtree(side.server.directory, ignore_errors=True)
        figures["bare"] = grpc_bench.bare(cpu_s, root, harness.free_ports)
        figures["append"] = grpc_bench.append(root)
        out.append(figures)
    grpc_bench.table(out)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-warm-up", action="store_true", help="count the first round too")
    parser.add_argument("--one-core", action="store_true", help="all on one core: costs that repeat within a few percent on a busy machine too, since no wake-up "
                        "crosses cores; rates and latencies mean nothing then")
    parser.add_argument("--side", choices=["ottla", "default", "kafka"], action="append")
    args = parser.parse_args()
    if args.one_core:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # what is started from here inherits it
    root = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    makers = {c.name: c for c in (Ottla, OttlaDefault, Apache) if not args.side or c.name in args.side}
    results = {side: [] for side in makers}
    try:
        if not args.only or re.search(args.only, "grpc"):
            grpc_figures = grpc_rounds(root, args.rounds)
            if args.only == "grpc":
                if args.json:
                    Path(args.json).write_text(json.dumps({"grpc": grpc_figures}, indent=1) + "\n")
                return 0
        bare_costs = bare(root) if not args.only or re.search("produce|fetch", args.only) else {}
        warm_up = 1 if "kafka" in makers and not args.no_warm_up else 0
        for number_of_round in range(args.rounds + warm_up):
            for side, make in makers.items():  # in turn, so that a busy minute hits both
                what = f"round {number_of_round + 1 - warm_up} of {args.rounds}" if number_of_round >= warm_up else "a round to warm up"
                print(f"{what}: {side}", file=sys.stderr, flush=True)
                figures = one_round(make, root, args.only)
                if number_of_round >= warm_up and side != "default" and (not args.only or re.search(args.only, "three")):
                    figures.update(three_bench.one_round(side, root))
                if number_of_round >= warm_up:
                    results[side].append(figures)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    report(results, bare_costs, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
