"""kill -9 of the real server under load: what was acknowledged is there, in order, once; what a reader saw stays.

OTTLA_KILL_ROUNDS  rounds (5), OTTLA_KILL_SEED  seed of the moments at which the server dies.
"""
import os
import random
import shutil
import subprocess
import sys
import threading
import time

import pytest

import batch
from admin import Admin, error
from harness import TOP, Broker, until

sys.path.insert(0, str(TOP / "tests" / "interop"))
ROUNDS = int(os.environ.get("OTTLA_KILL_ROUNDS", "5"))
SEED = int(os.environ.get("OTTLA_KILL_SEED", "1"))
IDEMPOTENT, ALL, ONE = range(3)
SETTINGS = {IDEMPOTENT: {"enable.idempotence": True}, ALL: {"acks": "all", "max.in.flight.requests.per.connection": 1},
            ONE: {"acks": "1", "max.in.flight.requests.per.connection": 1}}
pytestmark = [pytest.mark.kill, pytest.mark.timeout(120 + 60 * ROUNDS)]


class Load:
    """One producer on one partition: numbers its records and keeps what was acknowledged."""

    def __init__(self, broker, topic, partition, codec):
        from confluent_kafka import Producer
        self.topic, self.partition = topic, partition
        self.acknowledged, self.errors, self.sent = [], [], 0
        self.random = random.Random(SEED * 10 + partition)
        self.left, self.ending = None, threading.Event()
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 2, "message.timeout.ms": 120000,
                                  "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20,
                                  "queue.buffering.max.messages": 2000, "compression.type": codec, "log_level": 0, "error_cb": self.told,
                                  **SETTINGS[partition]})
        self.thread = threading.Thread(target=self.run)

    def delivered(self, err, message):
        if err is not None:
            self.errors.append(str(err))
        else:
            self.acknowledged.append((message.offset(), int(message.value().split(b":")[0])))

    def told(self, err):
        if err.fatal():
            self.errors.append(str(err))

    def reached(self, count):
        assert not self.errors, f"partition {self.partition}: {self.errors[:3]}"
        return len(self.acknowledged) >= count

    def run(self):
        from confluent_kafka import KafkaException
        while not self.ending.is_set():
            for _ in range(20):
                try:
                    self.producer.produce(self.topic, b"%d:" % self.sent + b"x" * self.random.randrange(300), None, self.partition,
                                          self.delivered)
                    self.sent += 1
                except BufferError:
                    break
                except KafkaException as e:  # fatal: an idempotent producer gives up
                    self.errors.append(str(e))
                    return
            self.producer.poll(0.005)
        self.left = self.producer.flush(100)

    def end(self):
        self.ending.set()
        self.thread.join(130)
        assert not self.thread.is_alive() and self.left == 0, f"{self.left} records were never acknowledged"
        assert not self.errors, self.errors[:3]


class Reader:
    """Tails all partitions and keeps what it saw; out of range or a gap is a failure."""

    def __init__(self, broker, topic):
        from confluent_kafka import Consumer, TopicPartition
        self.seen, self.errors = {p: {} for p in SETTINGS}, []
        self.ending = threading.Event()
        self.consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False,
                                  "auto.offset.reset": "error", "log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100})
        self.consumer.assign([TopicPartition(topic, p, 0) for p in SETTINGS])
        self.thread = threading.Thread(target=self.run)

    def run(self):
        from confluent_kafka import KafkaError
        passing = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._PARTITION_EOF}
        while not self.ending.is_set():
            for m in self.consumer.consume(1000, 0.1):
                if m.error():
                    if m.error().code() not in passing:
                        self.errors.append(str(m.error()))
                    continue
                seen = self.seen[m.partition()]
                if m.offset() != len(seen) or m.offset() in seen:
                    self.errors.append(f"partition {m.partition()}: offset {m.offset()} after {len(seen)} records")
                seen[m.offset()] = int(m.value().split(b":")[0])
        self.consumer.close()

    def end(self):
        self.ending.set()
        self.thread.join(60)
        assert not self.errors, self.errors[:5]


def stored(admin, topic, partition):
    """{offset: number} of all that is in the log, by our own raw reader."""
    out, offset = {}, 0
    while True:
        part = admin.fetch(topic, offset, partition=partition, max_bytes=8 << 20)
        assert part["errorCode"] == 0, part
        got = batch.read(part["records"])
        if not got:
            assert offset == part["highWatermark"] == admin.list_offset(topic, -1, partition)["offset"]
            return out
        for b in got:
            assert b.base_offset == offset and b.crc_is_valid(), "a gap or a bad checksum"
            for r in b.records:
                out[r[0]] = int(r[3].split(b":")[0])
            offset = b.base_offset + b.last_delta + 1


def topics_survive(broker, name, kept, gone):
    """Every acknowledged creation and deletion of a topic is still true."""
    with broker.connect() as c:
        present = {t["name"] for t in Admin(c).metadata(everything=True)["topics"]}
    assert kept <= present, kept - present
    assert not gone & present, gone & present


def change_topics(broker, name, number, kept, gone):
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(f"{name}-{number}")
        kept.add(f"{name}-{number}")
        assert admin.produce(f"{name}-{number}", "only") == 0
        if number >= 2:
            admin.delete(f"{name}-{number - 2}")
            kept.remove(f"{name}-{number - 2}")
            gone.add(f"{name}-{number - 2}")


MANY = 40  # above what a restart syncs one by one


def make_many(broker, name):
    with broker.connect() as c:
        Admin(c).create(name, partitions=MANY)
        for p in range(MANY):
            assert Admin(c).produce(name, f"{p}:", partition=p, acks=1) == 0


def no_complaints(broker):
    import dump_log_segments
    from java import need_java
    need_java()
    complaints, files, batches = dump_log_segments.check([broker.data])
    assert not complaints, complaints[:10]
    assert files > 0 and batches > 0


def recovery_leaves_no_complaints(broker, scratch):
    """Of what a kill left behind: another server recovers a copy, is killed before it was told anything, and Kafka's tool reads what recovery left."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    subprocess.run(["cp", "-a", broker.data, scratch / "data"], check=True)  # with its times: retention goes by them
    other = Broker(scratch, **broker.settings)
    try:
        other.start()
    finally:
        other.kill()
    assert "ready version" in other.log()
    no_complaints(other)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_nothing_acknowledged_is_lost_by_kill_9(own_broker, tmp_path, name, codec):
    rounds = max(2, ROUNDS // 2)
    moments = random.Random(SEED)
    broker = own_broker(log_segment_bytes="1048576")
    with broker.connect() as c:
        Admin(c).create(name, partitions=3)
    kept, gone = {name}, set()
    if codec != "none":
        make_many(broker, name + "-many")
        kept.add(name + "-many")
    loads, reader = [Load(broker, name, p, codec) for p in SETTINGS], Reader(broker, name)
    for one in [*loads, reader]:
        one.thread.start()
    try:
        for number in range(rounds):
            before = [len(one.acknowledged) for one in loads]
            until(lambda: all(o.reached(b + 500) for o, b in zip(loads, before)), 60,
                  lambda: f"acknowledgements in round {number}: {[len(o.acknowledged) for o in loads]}")
            change_topics(broker, name, number, kept, gone)
            time.sleep(moments.random() * 0.3)  # poll: any moment is as good, the seed names it
            broker.kill()
            if number == rounds - 1 or number % 10 == 5:
                recovery_leaves_no_complaints(broker, tmp_path / "copy")
            broker.start()
            topics_survive(broker, name, kept, gone)
        for load in loads:
            load.end()
        with broker.connect(timeout_s=30) as c:
            logs = [stored(Admin(c), name, p) for p in SETTINGS]
            many = [stored(Admin(c), name + "-many", p) for p in range(MANY)] if name + "-many" in kept else []
        assert many in ([], [{0: p} for p in range(MANY)])
        for p, load in enumerate(loads):
            lost = [(offset, number) for offset, number in load.acknowledged if logs[p].get(offset) != number]
            assert not lost, f"partition {p}: {len(lost)} of {len(load.acknowledged)} acknowledged records lost, first {lost[0]}"
        ends = [max(offset for offset, _ in load.acknowledged) + 1 for load in loads]
        until(lambda: all(len(reader.seen[p]) >= ends[p] for p in SETTINGS), 60, "the reader at the end")
    finally:
        for one in [*loads, reader]:
            one.ending.set()
        for one in [*loads, reader]:
            one.thread.join(130)
    reader.end()
    for p in SETTINGS:
        vanished = [offset for offset, number in reader.seen[p].items() if logs[p].get(offset) != number]
        assert not vanished, f"partition {p}: {len(vanished)} records that a reader saw are gone, first offset {vanished[0]}"
    assert list(logs[IDEMPOTENT].values()) == list(range(loads[IDEMPOTENT].sent)), "not in order, once"
    for p in (ALL, ONE):
        first = list(dict.fromkeys(logs[p].values()))
        assert first == sorted(first) == list(range(loads[p].sent)), f"partition {p}: first appearances are not in order"
    broker.stop()
    no_complaints(broker)
    print(f"{rounds} rounds, {sum(o.sent for o in loads)} records")


def test_kill_9_right_after_start_and_during_stop(own_broker, tmp_path, name):
    """A server that dies before it is ready, or while it ends, comes back with everything."""
    broker = own_broker()
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name, partitions=4)
        for p in range(4):
            for i in range(50):
                assert admin.produce(name, f"{p}-{i}" + "x" * 500, partition=p) == i
    moments = random.Random(SEED + 1)
    for number in range(max(4, ROUNDS // 2)):
        if number % 2:
            broker.kill()
        else:
            broker.process.terminate()
            time.sleep(moments.random() * 0.05)  # poll: any moment of the stop
            broker.kill()
        broker.start(wait=False)
        time.sleep(moments.random() * 0.05)  # poll: any moment of the start
        broker.kill()
        if number < 2:  # once after a stop that was cut short, once after a crash
            recovery_leaves_no_complaints(broker, tmp_path / "copy")
        broker.start()
        with broker.connect() as c:
            admin = Admin(c)
            for p in range(4):
                assert len(admin.records(name, partition=p)) == 50 + number
                assert admin.produce(name, "more", partition=p) == 50 + number
    broker.stop()
    no_complaints(broker)


def test_a_new_topic_of_a_deleted_ones_name_keeps_its_records(own_broker, name):
    """What the checkpoint files say of the deleted topic (log start 90, end 100) is not believed of the new one."""
    broker = own_broker(log_flush_offset_checkpoint_interval_ms="200", replica_high_watermark_checkpoint_interval_ms="200")
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name)
        for i in range(100):
            admin.produce(name, f"old-{i}")
        assert admin.delete_records(name, 90)["lowWatermark"] == 90
        start = broker.data / "log-start-offset-checkpoint"
        until(lambda: start.exists() and f"{name} 0 90" in start.read_text(), 20, "a checkpoint")
        admin.delete(name)
        for number in range(3):  # in the same run, and in one that starts with the old rows
            if number:
                admin.delete(name)
            admin.create(name)
            for i in range(10):
                assert admin.produce(name, f"new-{number}-{i}") == i
    for _ in range(3):  # three quick restarts: rows of partitions that are still opening stay
        broker.kill()
        broker.start()
    with broker.connect() as c:
        admin = Admin(c)
        assert admin.list_offset(name, -2)["offset"] == 0
        assert [r[3] for r in admin.records(name)] == [b"new-2-%d" % i for i in range(10)]
        assert admin.delete_records(name, 5)["lowWatermark"] == 5
        until(lambda: f"{name} 0 5" in start.read_text(), 20, "a checkpoint")
    for _ in range(3):
        broker.kill()
        broker.start()
    with broker.connect() as c:
        assert Admin(c).list_offset(name, -2)["offset"] == 5
        Admin(c).delete(name)
    broker.kill()  # rows without a folder: of a topic that a later run makes again
    broker.start()
    with broker.connect() as c:
        Admin(c).create(name)
        assert Admin(c).produce(name, "a") == 0
    broker.kill()
    broker.start()
    with broker.connect() as c:
        assert [r[3] for r in Admin(c).records(name)] == [b"a"]


def test_a_folder_under_the_id_of_another_topic_is_set_aside(own_broker, name):
    """Somebody copied it in: a new topic of that name begins empty and works, and the folder is kept under another name."""
    broker = own_broker()
    with broker.connect() as c:
        Admin(c).create(name)
        assert Admin(c).produce(name, "old") == 0
    broker.kill()
    other = f"{name}-b"
    shutil.copytree(broker.partition(name), broker.partition(other))
    broker.start()
    with broker.connect() as c:
        Admin(c).create(other)
        assert Admin(c).produce(other, "new") == 0
    broker.kill()
    broker.start()
    with broker.connect() as c:
        assert [r[3] for r in Admin(c).records(other)] == [b"new"]
        assert [r[3] for r in Admin(c).records(name)] == [b"old"]
    assert len(list(broker.data.glob(f"{other}-0.*-stray"))) == 1 and "folder_set_aside" in broker.log()


def test_a_second_server_on_the_same_directory_is_refused(own_broker):
    first = own_broker()
    second = Broker(first.directory)
    second.log_path = first.directory / "second.log"
    second.start(wait=False)
    try:
        until(lambda: not second.alive(), 20, "the second server's end")
        assert second.process.returncode not in (0, None) and "lock" in second.log().lower()
        assert first.ready()
    finally:
        second.kill()
    first.kill()  # the lock dies with its owner
    first.start()


def test_a_restart_without_clean_stop_keeps_the_answers_of_the_admin(own_broker, name):
    broker = own_broker()
    for number in range(6):
        with broker.connect() as c:
            admin = Admin(c)
            admin.create(f"{name}-{number}", partitions=number + 1, retention_ms=1000000 + number)
            for old in range(number):
                assert len(admin.describe(f"{name}-{old}")["partitions"]) == old + 1
                config = {e["name"]: e["value"] for e in admin.describe_configs(2, f"{name}-{old}")["configs"]}
                assert config["retention.ms"] == str(1000000 + old)
            assert error(admin.describe(f"{name}-{number}")) == "NONE"
        broker.kill()
        broker.start()
