"""A broker of Kafka 4.4 as the leader of our follower's fetcher: what tests/interop/mirror.c reads from it is the same, byte for byte, offsets and leader epochs included."""
import base64
import json
import subprocess

import pytest

import batch
from admin import Admin, error
from apache_kafka import Kafka
from harness import PRESET, TOP, until
from java import need_java

pytestmark = pytest.mark.timeout(400)
PROGRAM = TOP / "build" / PRESET / "tests" / "interop" / "mirror"
CODECS = ("none", "gzip", "snappy", "snappy-xerial", "lz4", "zstd")
FETCH, LIST_OFFSETS, API_VERSIONS = 1, 2, 18


class Mirror:
    """The program, and what it follows."""

    def __init__(self, directory, name, topic_id):
        self.directory, self.name = directory, name
        directory.mkdir(exist_ok=True)
        words = [str(PROGRAM), str(directory), name, "0", base64.urlsafe_b64encode(topic_id).decode().rstrip("=")]
        self.log = open(directory.parent / f"{directory.name}.log", "ab")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
            self.process.wait(120)
        self.log.close()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def follow(self, kafka, epoch):
        assert self.say(f"leader 1000 {kafka.port} {epoch}") == "ok\n"

    def state(self):
        return json.loads(self.say("state"))

    def wait(self, what, **facts):
        until(lambda: all(self.state()[key] == value for key, value in facts.items()), 60, lambda: f"{what}: {self.state()}, wanted {facts}")

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(240) == 0
        self.process = None

    def folder(self):
        return self.directory / f"{self.name}-0"


def batches(folder, start=0):
    """The batches on a disk whose last record is not below start."""
    found = [one for path in sorted(folder.glob("*.log")) for one in batch.read(path.read_bytes())]
    return [one for one in found if one.base_offset + one.last_delta >= start]


def assert_same(mirror, kafka, start=0):
    """Both were stopped."""
    ours, theirs = batches(mirror.folder(), start), batches(kafka.data / f"{mirror.name}-0", start)
    assert [one.base_offset for one in ours] == [one.base_offset for one in theirs] != []
    for one, other in zip(ours, theirs):
        assert (one.leader_epoch, one.raw) == (other.leader_epoch, other.raw), f"at {one.base_offset}"


def epochs(folder):
    return (folder / "leader-epoch-checkpoint").read_text()


def fill(admin, name, rounds=3):
    """Batches of each codec, some of a producer with an id."""
    producer, epoch = admin.producer_id()
    sequence = 0
    for i in range(rounds * len(CODECS)):
        values = [f"{i}-{j}".encode() * 50 for j in range(7)]
        by_id = (producer, epoch, sequence) if i % 2 else (-1, -1, -1)
        sequence += 7 * (i % 2)
        assert error(admin.produce_raw(name, batch.build(values, codec=CODECS[i % len(CODECS)], producer=by_id))) == "NONE"
    return rounds * len(CODECS) * 7


def transactions(kafka, name):
    """One that is committed, one that is aborted, one that stays open."""
    from confluent_kafka import Producer
    left = []
    for i, end in enumerate(("commit_transaction", "abort_transaction", None)):
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"mirrored-{i}", "transaction.timeout.ms": 600000, "log_level": 0})
        producer.init_transactions(60)
        producer.begin_transaction()
        for j in range(5):
            producer.produce(name, f"{end} {j}")
        producer.flush(60)
        if end is None:
            left.append(producer)
        else:
            getattr(producer, end)(60)
    return left


@pytest.fixture
def kafka(tmp_path):
    need_java()
    made = Kafka(tmp_path / "kafka")
    try:
        yield made.format().start()
    finally:
        made.kill()


def leads(kafka, name):
    """(topic id, leader epoch)."""
    with kafka.connect() as c:
        admin = Admin(c)
        row = admin.wait_for_leader(name)
        return row["topicId"], row["partitions"][0]["leaderEpoch"]


def end_of(kafka, name):
    with kafka.connect() as c:
        return Admin(c).list_offset(name, -1)["offset"]


def told(mirror):
    """What it said last when it did not give the partition: error, leader and leader epoch."""
    refused = mirror.state()["refused"]
    return refused["error"], refused["leader"], refused["leader_epoch"]


def test_what_kafka_leads_is_followed_byte_for_byte(kafka, tmp_path):
    with kafka.connect() as c:
        admin = Admin(c)
        admin.create("m", segment_bytes=1048576)
        fill(admin, "m")
        topic_id, epoch = leads(kafka, "m")
        with Mirror(tmp_path / "mirror", "m", topic_id) as mirror:
            mirror.follow(kafka, epoch)
            mirror.wait("caught up", end=end_of(kafka, "m"), high_watermark=end_of(kafka, "m"), start=0)
            fill(admin, "m", 1)                # while it is read
            open_ones = transactions(kafka, "m")
            end = end_of(kafka, "m")
            mirror.wait("transactions too", end=end, high_watermark=end)
            asked = mirror.state()["asked"]
            assert asked[f"{API_VERSIONS}:0"] >= 1 and f"{FETCH}:18" in asked, "the newest version that both know"
            kafka.stop()                       # and comes back: the partition has another epoch
            kafka.start()
            later, more = leads(kafka, "m"), 0
            assert later[0] == topic_id and later[1] > epoch
            until(lambda: told(mirror) == ("FENCED_LEADER_EPOCH", 1, later[1]), 60, lambda: f"told of the new epoch {later[1]}: {mirror.state()}")
            mirror.follow(kafka, later[1])
            with kafka.connect() as again:
                more = fill(Admin(again), "m", 1)
            mirror.wait("the new epoch", end=end + more, high_watermark=end + more)
            mirror.stop()
            del open_ones
            kafka.stop()
            assert_same(mirror, kafka)
            assert epochs(mirror.folder()) == epochs(kafka.data / "m-0")
            assert (mirror.folder() / f"{0:020}.txnindex").read_bytes() == (kafka.data / "m-0" / f"{0:020}.txnindex").read_bytes() != b""


def test_a_log_that_kafka_deleted_in_front_of_us_goes_on_where_it_begins(kafka, tmp_path):
    """Kafka refuses the offset without a word on where its log begins; here within a batch, which it gives whole."""
    with kafka.connect() as c:
        admin = Admin(c)
        admin.create("m")
        fill(admin, "m")
        topic_id, epoch = leads(kafka, "m")
        assert error(admin.delete_records("m", 10)) == "NONE"
        with Mirror(tmp_path / "mirror", "m", topic_id) as mirror:
            mirror.follow(kafka, epoch)
            end = end_of(kafka, "m")
            mirror.wait("from within a batch on", start=10, end=end, high_watermark=end)
            assert any(key.startswith(f"{LIST_OFFSETS}:") for key in mirror.state()["asked"])
            assert mirror.say("nobody") == "ok\n"
            fill(admin, "m")
            start = end + 21
            assert error(admin.delete_records("m", start)) == "NONE"
            fill(admin, "m")
            mirror.follow(kafka, epoch)
            mirror.wait("behind what is gone", start=start, end=end_of(kafka, "m"))
            mirror.stop()
            kafka.stop()
            assert_same(mirror, kafka, start)


def cut_last(folder, count):
    """As if a leader without the last batches had been elected; where its log ends now."""
    path = sorted(folder.glob("*.log"))[-1]
    found = batch.read(path.read_bytes())
    path.write_bytes(b"".join(one.raw for one in found[:-count]))
    for name in ("*.index", "*.timeindex", "*.snapshot"):
        for other in folder.glob(name):
            other.unlink()
    (folder.parent / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return found[-count].base_offset


def test_a_history_that_parts_from_kafkas_is_cut_where_it_does(kafka, tmp_path):
    with kafka.connect() as c:
        admin = Admin(c)
        admin.create("m")
        fill(admin, "m")
        topic_id, epoch = leads(kafka, "m")
    with Mirror(tmp_path / "mirror", "m", topic_id) as mirror:
        mirror.follow(kafka, epoch)
        end = end_of(kafka, "m")
        mirror.wait("caught up", end=end, high_watermark=end)
        assert mirror.say("nobody") == "ok\n"
        kafka.stop()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (kafka.data / name).unlink()
        left = cut_last(kafka.data / "m-0", 4)
        kafka.start()
        later = leads(kafka, "m")[1]
        assert end_of(kafka, "m") == left < end
        with kafka.connect() as c:
            Admin(c).produce("m", *[f"other {i}" for i in range(100)])
        mirror.follow(kafka, later)
        mirror.wait("its history", end=left + 100, high_watermark=left + 100)
        mirror.stop()
        kafka.stop()
        assert_same(mirror, kafka)
        assert epochs(mirror.folder()) == epochs(kafka.data / "m-0")
