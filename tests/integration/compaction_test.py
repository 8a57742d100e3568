"""Compaction as users meet it: the last value of each key after the cleaner was there, through kill -9, read by Kafka's tools and by Kafka itself."""
import json
import random
import re
import shutil
import time

import pytest

from admin import Admin
from apache_kafka import Kafka
from harness import http, until
from java import TOOLS, java
from segment_files_test import BAD

pytestmark = pytest.mark.timeout(180)
QUICK = {"log_cleaner_backoff_ms": "100", "log_retention_check_interval_ms": "500"}
FILES = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)|leader-epoch-checkpoint")
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}


def copy_partition(source, target):
    """Our files over Kafka's own of the same partition; Kafka keeps its partition.metadata (its topic id)."""
    for old in target.iterdir():
        if FILES.fullmatch(old.name):
            old.unlink()
    copied = [shutil.copy2(p, target / p.name) for p in source.iterdir() if FILES.fullmatch(p.name)]
    assert any(str(p).endswith(".log") for p in copied)


def metric(broker, name, **labels):
    want = "".join(f'{k}="{v}"' for k, v in labels.items())
    total = 0.0
    for line in http(broker.rest + "/metrics")[2].decode().splitlines():
        if line.startswith("ottla_" + name) and re.match(r"[ {]", line[len("ottla_" + name):]) and want in line:
            total += float(line.rsplit(" ", 1)[1])
    return total


def create(broker, name, **more):
    with broker.connect() as c:
        Admin(c).create(name, **{k.replace(".", "_"): v for k, v in {**COMPACT, **more}.items()})


def write(broker, topic, state, count, seed, keys=1500, tombstones=0.02, codec="none", idempotent=True):
    """Random updates; state is what must be found in the end. The last records fill up segments, so that all before lie in sealed ones."""
    from confluent_kafka import Producer
    chance, errors = random.Random(seed), []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 5, "enable.idempotence": idempotent,
                         "queue.buffering.max.messages": 100000})
    for i in range(count):
        key = b"key-%d" % chance.randrange(keys)
        value = None if chance.random() < tombstones else b"%d:%d:" % (seed, i) + chance.randbytes(chance.randrange(150))
        state[key] = value
        while True:
            try:
                producer.produce(topic, value, key, 0, on_delivery=lambda e, m: errors.append(e) if e else None)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(60) == 0 and not errors, errors[:3]


def read(broker, topic):
    """Every record from the beginning: (offset, key, value) in order."""
    from confluent_kafka import Consumer, TopicPartition
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, deadline = [], time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline, "no end of the partition"
        for message in consumer.consume(5000, 1.0):
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                consumer.close()
                return found
            found.append((message.offset(), message.key(), message.value()))


def same(found, state):
    offsets = [o for o, _, _ in found]
    assert offsets == sorted(set(offsets))
    last = {key: value for _, key, value in found}
    assert {k: v for k, v in last.items() if v is not None} == {k: v for k, v in state.items() if v is not None}
    return last


def view(broker, topic):
    status, _, body = http(f"{broker.rest}/v1/topics/{topic}/partitions/0")
    assert status == 200
    return json.loads(body)["compaction"]


def segments(broker, topic):
    status, _, body = http(f"{broker.rest}/v1/topics/{topic}/partitions/0/segments?limit=1000")
    assert status == 200
    return json.loads(body)["items"]


def compacted(broker, topic, least=1):
    """Until the cleaner has nothing left to do there."""
    def done():
        active = int(segments(broker, topic)[-1]["base_offset"])    # dirty_bytes may be of a look before the last segment was sealed
        now = view(broker, topic)
        return (metric(broker, "cleaner_runs_total", result="ok") >= least and now["state"] == "idle" and int(now["dirty_bytes"]) == 0 and now["last_at"]
                and int(now["first_dirty_offset"]) >= active and now)
    return until(done, 60, lambda: f"compaction: {view(broker, topic)} {broker.log_tail(5)}")


@pytest.mark.parametrize("codec", ["none", pytest.param("zstd", marks=pytest.mark.long)])
def test_the_last_value_of_each_key_is_what_a_consumer_finds(own_broker, name, codec):
    broker, state = own_broker(**QUICK), {}
    create(broker, name)
    write(broker, name, state, 40000, seed=1, codec=codec)
    compacted(broker, name)
    found = read(broker, name)
    same(found, state)
    # all but the active segment holds each key once
    assert len(found) < (12000 if codec == "none" else 30000)
    write(broker, name, state, 20000, seed=2, codec=codec)
    compacted(broker, name, 2)
    same(read(broker, name), state)
    broker.stop()
    broker.start()
    same(read(broker, name), state)
    assert int(view(broker, name)["first_dirty_offset"]) > 0     # kept in cleaner-offset-checkpoint
    assert f"{name} 0 " in (broker.data / "cleaner-offset-checkpoint").read_text()
    assert metric(broker, "cleaner_uncleanable_partitions") == 0


@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.long)])
def test_kill_9_in_the_middle_of_cleaning(own_broker, name, rounds):
    broker, state = own_broker(log_cleaner_io_max_bytes_per_second="6000000", **QUICK), {}
    create(broker, name)
    chance = random.Random(7)
    for round_ in range(rounds):
        write(broker, name, state, 25000, seed=10 + round_)
        until(lambda: view(broker, name)["state"] == "running" or metric(broker, "cleaner_runs_total", result="ok") > 0, 30, "a run")
        time.sleep(chance.random() * 1.2)  # poll: the moment of the kill is a matter of chance
        broker.kill()
        broker.start()
        same(read(broker, name), state)
    broker.kill()
    broker.settings["log_cleaner_io_max_bytes_per_second"] = "1e9"
    broker.start()
    compacted(broker, name)
    same(read(broker, name), state)
    left = [p.name for p in broker.partition(name).iterdir() if p.name.endswith((".cleaned", ".swap"))]
    assert not left, left


def test_a_run_ends_with_its_topic_and_with_the_server(own_broker, name):
    broker = own_broker(log_cleaner_io_max_bytes_per_second="100000", **QUICK)
    for topic in (name, name + "-too"):
        create(broker, topic)
        write(broker, topic, {}, 15000, seed=6)
    until(lambda: metric(broker, "cleaner_running") == 1, 20, "a run")       # it would take a minute
    running = next(t for t in (name, name + "-too") if view(broker, t)["state"] == "running")
    with broker.connect() as c:
        Admin(c).delete(running)
    until(lambda: not broker.partition(running).exists() and not list(broker.data.glob(running + "*-delete")), 10, "its files gone")
    until(lambda: metric(broker, "cleaner_running") == 1, 20, "the other one's run")
    begin = time.monotonic()
    broker.stop()
    assert "flushed=yes" in broker.log() and time.monotonic() - begin < 60


def test_compact_and_delete_does_both(own_broker, name):
    broker, state = own_broker(**QUICK), {}
    create(broker, name, **{"cleanup.policy": "compact,delete", "retention.ms": "3600000"})
    write(broker, name, state, 30000, seed=3)
    compacted(broker, name)
    same(read(broker, name), state)
    with broker.connect() as c:
        admin = Admin(c)
        answer = c.ask("IncrementalAlterConfigs", 1, {"resources": [{"resourceType": 2, "resourceName": name, "configs": [
            {"name": "retention.ms", "configOperation": 0, "value": "1"}]}], "validateOnly": False})
        assert answer["responses"][0]["errorCode"] == 0
        until(lambda: admin.list_offset(name, -2)["offset"] > 20000, 20, "retention of compacted segments")


def test_damage_is_shown_and_the_partition_goes_on(own_broker, name):
    broker, state = own_broker(log_cleaner_enable="false", **QUICK), {}
    create(broker, name)
    write(broker, name, state, 20000, seed=4)
    broker.stop()
    first = broker.partition(name) / f"{0:020}.log"
    with open(first, "r+b") as f:
        f.seek(500000)
        f.write(b"damage")
    broker.settings["log_cleaner_enable"] = "true"
    broker.start()
    shown = until(lambda: view(broker, name)["state"] == "uncleanable" and view(broker, name), 20, "an uncleanable partition")
    assert shown["error"] == "CORRUPT" and 0 <= int(shown["damaged_offset"]) < 20000
    until(lambda: metric(broker, "cleaner_uncleanable_partitions") == 1, 5, "the metric")
    write(broker, name, {}, 100, seed=5)
    with broker.connect() as c:
        assert Admin(c).list_offset(name, -1)["offset"] == 20100


def test_kafka_reads_a_compacted_directory(own_broker, name):
    broker, state = own_broker(**QUICK), {}
    create(broker, name, **{"delete.retention.ms": "60000"})
    for i, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        write(broker, name, state, 6000, seed=20 + i, codec=codec, keys=3000)
    compacted(broker, name)
    same(read(broker, name), state)
    broker.stop()
    names = ",".join(str(p) for p in sorted(broker.partition(name).glob("0*")) if p.suffix in (".log", ".index", ".timeindex", ".snapshot"))
    text = java(TOOLS + "DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", names)
    assert not BAD.search(text), text[max(0, BAD.search(text).start() - 300):BAD.search(text).end() + 100]
    assert "deleteHorizonMs: OptionalLong[" in text
    last = {}
    for line in text.splitlines():
        record = re.match(r"\| offset: (\d+) .* key: (key-\d+)(?: payload: (.*))?$", line)
        if record:
            last[record.group(2).encode()] = record.group(3)
    alive = {k for k, v in state.items() if v is not None}
    assert {k for k, v in last.items() if v is not None} >= alive
    data = sum(p.stat().st_size for p in broker.partition(name).glob("*.log"))
    assert data > 0


@pytest.mark.long
def test_kafkas_own_compaction_tester(own_broker):
    broker = own_broker(log_cleaner_min_cleanable_ratio="0.01", log_segment_bytes="1048576", log_cleaner_delete_retention_ms="100", **QUICK)
    text = java(TOOLS + "LogCompactionTester", "--bootstrap-server", broker.bootstrap, "--messages", 150000, "--duplicates", 5, "--topics", 2, "--percent-deletes", 10,
                "--sleep", 10, timeout_s=150, check=False)
    assert "Data verification is completed" in text, text[-2000:]
    assert metric(broker, "cleaner_runs_total", result="ok") >= 2


@pytest.mark.long
def test_kafka_itself_goes_on_with_a_compacted_directory(own_broker, tmp_path, name):
    broker, state = own_broker(**QUICK), {}
    create(broker, name)
    write(broker, name, state, 40000, seed=30)
    compacted(broker, name)
    ours = read(broker, name)
    broker.stop()
    kafka = Kafka(tmp_path / "kafka", log_cleaner_backoff_ms="200").format().start()
    try:
        with kafka.connect() as c:
            Admin(c).create(name, **{k.replace(".", "_"): v for k, v in COMPACT.items()})
        kafka.stop()
        for leftover in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (kafka.data / leftover).unlink(missing_ok=True)
        shutil.copy2(broker.data / "cleaner-offset-checkpoint", kafka.data / "cleaner-offset-checkpoint")
        copy_partition(broker.partition(name), kafka.data / f"{name}-0")
        kafka.start()
        theirs = read(kafka, name)
        assert theirs[-1000:] == ours[-1000:]
        same(theirs, state)
        write(kafka, name, state, 20000, seed=31, idempotent=False)      # its producer ids begin at 0 again, and it knows of ours
        same(read(kafka, name), state)
    finally:
        kafka.kill()
