"""Kafka 4.4 starts on a copy of our log directory, every file in it as we left it, and believes each of them: nobody is locked in.

Kafka never was there before. It is formatted for the node, the topic and the directory that our files name (FormatWithTopic), so that its own metadata agree with them; only the
folder of our voter, __ottla_meta, stays away. That it read a file shows in its own words and tools, and in what it does when that file says something else."""
import random
import re
import shutil

import pytest

import batch
from admin import Admin, error
from apache_kafka import Kafka
from harness import TOP
from java import TOOLS, java, need_java

pytestmark = pytest.mark.timeout(300)
BASE = batch.now_ms() - 600000  # recent: a producer is forgotten a day after its last record
STARTS, BATCHES = 30, 40        # batches before the log start is moved, and in all
LOUD = ("org.apache.kafka.storage.internals.log", "kafka.log", "kafka.server.BrokerServer", "kafka.server.KafkaRaftServer")


def value(i, j):
    """Bytes that no codec makes smaller: the records fill several segments."""
    return f"{i}-{j}:".encode() + random.Random(1000 * i + j).randbytes(4000)


def write(admin, topic, producer, epoch, batches=range(BATCHES), sequence=0):
    """Records in several codecs and segments, some of an idempotent producer; gives its next sequence."""
    for i in batches:
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[i % 5]
        stamps = [BASE + 1000 * i + j for j in range(20)]
        by_id = (producer, epoch, sequence) if i % 2 else (-1, -1, -1)
        sequence += 20 * (i % 2)
        data = batch.build([value(i, j) for j in range(20)], codec=codec, timestamps=stamps, producer=by_id)
        assert error(admin.produce_raw(topic, data)) == "NONE"
    return sequence


def write_and_trim(admin, topic, producer, epoch):
    """The start moves to 100 and the recovery point is noted behind three quarters; gives what is to be read."""
    sequence = write(admin, topic, producer, epoch, range(STARTS))
    assert admin.delete_records(topic, 100)["lowWatermark"] == 100  # answered when the checkpoints are on disk
    write(admin, topic, producer, epoch, range(STARTS, BATCHES), sequence)
    return admin.records(topic, 100)


def offsets(admin, topic, leader_epoch):
    """What both brokers must agree on."""
    end = admin.epoch_end(topic, leader_epoch)
    times = [admin.list_offset(topic, BASE + t)["offset"] for t in (0, 7003, 20000, 39019, 39020)]
    return [admin.list_offset(topic, t)["offset"] for t in (-1, -2, -3)], times, (end["leaderEpoch"], end["endOffset"])


def properties(path):
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def checkpoint(data, name):
    """{folder: offset} of one of the files."""
    head, count, *rows = (data / name).read_text().splitlines()
    assert head == "0" and int(count) == len(rows)
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in map(str.split, rows)}


def topic_id(folder):
    version, line = (folder / "partition.metadata").read_text().splitlines()
    assert version == "version: 0"
    return line.removeprefix("topic_id: ")


class Left:
    """A directory of ours, and what there is to be found in it."""

    def __init__(self, broker, name, end):
        self.name = name
        with broker.connect() as c:
            admin = Admin(c)
            admin.create(name)
            self.producer, self.epoch = admin.producer_id()
            self.records = write_and_trim(admin, name, self.producer, self.epoch)
            self.leader_epoch = admin.describe(name)["partitions"][0]["leaderEpoch"]
            self.wanted = offsets(admin, name, self.leader_epoch)
        if end == "stop":
            broker.stop()
        broker.kill()
        self.data, self.folder = broker.data, broker.partition(name)
        self.bases = sorted(int(p.stem) for p in self.folder.glob("*.log"))
        assert len(self.bases) >= 4
        self.recovery_point = checkpoint(self.data, "recovery-point-offset-checkpoint")[self.folder.name]
        assert checkpoint(self.data, "log-start-offset-checkpoint")[self.folder.name] == 100
        assert self.recovery_point >= 20 * STARTS
        self.meta, self.topic_id = properties(self.data / "meta.properties"), topic_id(self.folder)

    def copy_to(self, kafka):
        """Kafka formatted for our ids, but for that of the cluster, then all that we left, over it."""
        java(str(TOP / "tests" / "interop" / "java" / "FormatWithTopic.java"), kafka.data, self.meta["node.id"], "q1Sh-9ISIaOQhd3OGwVXJg", self.name, self.topic_id,
             self.meta["directory.id"], self.leader_epoch, timeout_s=120)
        shutil.copytree(self.data, kafka.data, dirs_exist_ok=True, ignore=lambda _, names: {"__ottla_meta"} & set(names))
        assert properties(kafka.data / "meta.properties") == self.meta
        for path in self.data.rglob("*"):
            copied = kafka.data / path.relative_to(self.data)
            if path.is_file() and "__ottla_meta" not in path.parts:
                assert copied.read_bytes() == path.read_bytes()
        return kafka


def recovered(log):
    """Base offsets of the segments that Kafka read through at its start."""
    return [int(base) for base in re.findall(r"Recovering unflushed segment (\d+)", log)]


def from_recovery_point(bases, point):
    return [b for i, b in enumerate(bases) if i + 1 == len(bases) or bases[i + 1] > point]


@pytest.fixture
def kafka(tmp_path):
    need_java()
    made = Kafka(tmp_path / "kafka", loud=LOUD)
    yield made
    made.kill()


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_kafka_takes_a_copy_of_a_directory(own_broker, kafka, name, end):
    left = Left(own_broker(log_segment_bytes="1048576"), name, end)
    left.copy_to(kafka).start()
    with kafka.connect(timeout_s=30) as c:
        admin = Admin(c)
        admin.wait_for_leader(name)
        assert admin.records(name, 100) == left.records
        epochs = offsets(admin, name, left.leader_epoch)
        assert epochs == left.wanted
        repeat = batch.build([value(39, j) for j in range(20)], codec="zstd", timestamps=[BASE + 39000 + j for j in range(20)], producer=(left.producer, left.epoch, 380))
        answer = admin.produce_raw(name, repeat)
        assert (error(answer), answer["baseOffset"]) == ("NONE", 780), "Kafka did not find the producer's last batch"
        assert admin.list_offset(name, -1)["offset"] == 800
        assert c.ask("DescribeCluster", 1, {"endpointType": 1})["clusterId"] == left.meta["cluster.id"]
    log = kafka.log()
    if end == "kill":       # the recovery point is believed: what lies below it is not read
        assert "Skipping recovery" not in log
        assert recovered(log) == from_recovery_point(left.bases, left.recovery_point)
        assert left.bases[0] not in recovered(log) and len(recovered(log)) < len(left.bases)
    else:                   # so is the mark of a clean stop
        assert re.search(r"Skipping recovery of 1 logs from .* since clean shutdown file was found", log) and recovered(log) == []
    loaded = re.findall(rf"Completed load of Log\(dir=\S*/{re.escape(name)}-0, topicId=([\w-]{{22}}),.* logStartOffset=(\d+), logEndOffset=(\d+)\)", log)
    assert loaded == [(left.topic_id, "100", "800")], [line for line in log.splitlines() if name in line][:20]
    noise = [line for line in log.splitlines() if name in line and re.search(r"corrupt|ERROR|exception|stray|invalid", line, re.I)]
    assert not noise, noise[:5]
    assert topic_id(kafka.data / f"{name}-0") == left.topic_id
    told_by_tools(kafka, left)


def told_by_tools(kafka, left):
    at = ("--bootstrap-server", kafka.bootstrap)
    assert f"{left.name}:0:100" in java(TOOLS + "GetOffsetShell", *at, "--topic", left.name, "--time", "earliest").splitlines()
    assert f"TopicId: {left.topic_id}" in java(TOOLS + "TopicCommand", *at, "--describe", "--topic", left.name)
    assert left.meta["cluster.id"] in java(TOOLS + "ClusterTool", "cluster-id", *at)
    log = next((kafka.data / "__cluster_metadata-0").glob("*.log"))
    told = java(TOOLS + "DumpLogSegments", "--cluster-metadata-decoder", "--files", log)
    (registered,) = [line for line in told.splitlines() if '"REGISTER_BROKER_RECORD"' in line]
    assert left.meta["directory.id"] in registered, "the directory that our meta.properties names is the one that Kafka registered"


@pytest.mark.long
def test_kafka_refuses_a_meta_properties_of_another_node(own_broker, kafka, name):
    left = Left(own_broker(log_segment_bytes="1048576"), name, "kill")
    path = left.copy_to(kafka).data / "meta.properties"
    path.write_text(path.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(AssertionError):
        kafka.start()
    assert re.search(r"node.?id.*\b2\b|\b2\b.*node.?id", kafka.log(), re.I), kafka.log()[-2000:]


@pytest.mark.long
def test_kafka_puts_aside_what_another_partition_metadata_names(own_broker, kafka, name):
    left = Left(own_broker(log_segment_bytes="1048576"), name, "kill")
    left.copy_to(kafka)
    (kafka.data / f"{name}-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ")
    kafka.start()
    with kafka.connect(timeout_s=30) as c:
        Admin(c).wait_for_leader(name)
        assert Admin(c).list_offset(name, -1)["offset"] == 0
    assert list(kafka.data.glob(f"{name}-0*-stray")) and "stray" in kafka.log()


@pytest.mark.long
def test_kafka_misses_checkpoints_that_are_not_there(own_broker, kafka, name):
    """Without ours it begins at the first record there is, and reads every segment."""
    left = Left(own_broker(log_segment_bytes="1048576"), name, "kill")
    left.copy_to(kafka)
    for lost in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (kafka.data / lost).unlink()
    kafka.start()
    with kafka.connect(timeout_s=30) as c:
        Admin(c).wait_for_leader(name)
        assert Admin(c).list_offset(name, -2)["offset"] == 0
    assert recovered(kafka.log()) == left.bases
