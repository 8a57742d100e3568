"""Kafka 4.4 starts on a copy of our partition directories and finds the same log: nobody is locked in."""
import re
import shutil

import pytest

import batch
from admin import Admin, error
from apache_kafka import Kafka

pytestmark = pytest.mark.timeout(240)
BASE = batch.now_ms() - 600000  # recent: a producer is forgotten a day after its last record
FILES = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)|leader-epoch-checkpoint")


def write(admin, topic, producer, epoch):
    """Records in several codecs and segments, some of an idempotent producer, the start moved; gives them all."""
    sequence = 0
    for i in range(40):
        values = [f"{i}-{j}:".encode() + b"x" * 2000 for j in range(20)]
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[i % 5]
        stamps = [BASE + 1000 * i + j for j in range(20)]
        by_id = (producer, epoch, sequence) if i % 2 else (-1, -1, -1)
        sequence += 20 * (i % 2)
        assert error(admin.produce_raw(topic, batch.build(values, codec=codec, timestamps=stamps, producer=by_id))) == "NONE"
    assert admin.delete_records(topic, 100)["lowWatermark"] == 100
    return admin.records(topic, 100)


def copy_partition(source, target):
    """Our files over Kafka's own of the same partition; Kafka keeps its partition.metadata (its topic id)."""
    for old in target.iterdir():
        if FILES.fullmatch(old.name):
            old.unlink()
    copied = [shutil.copy2(p, target / p.name) for p in source.iterdir() if FILES.fullmatch(p.name)]
    assert any(str(p).endswith(".log") for p in copied)


@pytest.mark.parametrize("end", ["kill", pytest.param("stop", marks=pytest.mark.long)])
def test_kafka_takes_a_copy_of_a_directory(own_broker, tmp_path, name, end):
    ours = own_broker(log_segment_bytes="1048576")
    with ours.connect() as c:
        admin = Admin(c)
        admin.create(name)
        producer, epoch = admin.producer_id()
        records = write(admin, name, producer, epoch)
        leader_epoch = admin.describe(name)["partitions"][0]["leaderEpoch"]
        wanted = offsets(admin, name, leader_epoch)
    ours.kill()
    if end == "stop":
        ours.start()
        ours.stop()
    kafka = Kafka(tmp_path / "kafka").format().start()
    try:
        with kafka.connect() as c:
            Admin(c).create(name)
        kafka.stop()
        for leftover in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (kafka.data / leftover).unlink(missing_ok=True)
        (kafka.data / "log-start-offset-checkpoint").write_text(f"0\n1\n{name} 0 100\n")
        copy_partition(ours.partition(name), kafka.data / f"{name}-0")
        kafka.start()
        with kafka.connect(timeout_s=30) as c:
            admin = Admin(c)
            admin.wait_for_leader(name)
            assert admin.records(name, 100) == records
            assert offsets(admin, name, leader_epoch) == wanted
            last = [b"39-%d:" % j + b"x" * 2000 for j in range(20)]
            repeat = batch.build(last, codec="zstd", timestamps=[BASE + 39000 + j for j in range(20)],
                                 producer=(producer, epoch, 380))
            answer = admin.produce_raw(name, repeat)
            assert (error(answer), answer["baseOffset"]) == ("NONE", 780), "Kafka did not find the producer's last batch"
            assert admin.list_offset(name, -1)["offset"] == 800
        noise = [line for line in kafka.log().splitlines() if name in line and re.search(r"corrupt|ERROR|exception", line, re.I)]
        assert not noise, noise[:5]
    finally:
        kafka.kill()


def offsets(admin, topic, leader_epoch):
    """What both brokers must agree on."""
    end = admin.epoch_end(topic, leader_epoch)
    times = [admin.list_offset(topic, BASE + t)["offset"] for t in (0, 7003, 20000, 39019, 39020)]
    return [admin.list_offset(topic, t)["offset"] for t in (-1, -2, -3)], times, (end["leaderEpoch"], end["endOffset"])
