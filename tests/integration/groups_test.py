"""Consumer groups of the classic protocol with real clients: librdkafka, kafka-python, kafkajs, Java's console consumer and its tools; offsets over restarts and kills."""
import json
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import harness
from admin import Admin
from java import TOOLS, command, java, need_java

pytestmark = pytest.mark.timeout(150)
QUICK = {"group_initial_rebalance_delay_ms": 200}


@pytest.fixture(scope="module")
def quick(run_directory):
    """A broker whose groups do not wait three seconds for their second member."""
    if harness.EXTERNAL:
        pytest.skip("needs a server of its own")
    broker = harness.Broker(run_directory / "groups", **QUICK)
    try:
        broker.start()
        yield broker
        broker.stop()
    finally:
        broker.kill()


@pytest.fixture
def topic(quick, name):
    with quick.connect() as connection:
        Admin(connection).create(name, partitions=4)
    return name


def fill(broker, topic, count):
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for i in range(count):
        producer.produce(topic, key=str(i), value=f"v{i}", partition=i % 4)
    assert producer.flush(30) == 0


class Member:
    """A librdkafka member in a thread of its own: polls, commits each record, remembers what it saw and owned."""

    def __init__(self, broker, topic, group, **more):
        self.consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
                                  "session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "topic.metadata.refresh.interval.ms": 2000, **more})
        self.seen, self.owned, self.assigns, self.stopping = [], set(), 0, False
        incremental = more.get("partition.assignment.strategy") == "cooperative-sticky"

        def assigned(consumer, partitions):
            self.assigns += 1
            self.owned = (self.owned if incremental else set()) | {p.partition for p in partitions}

        def revoked(consumer, partitions):
            self.owned -= {p.partition for p in partitions}

        self.consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping:
            message = self.consumer.poll(0.1)
            if message is None or message.error():
                continue
            self.seen.append((message.partition(), message.offset()))
            try:
                self.consumer.commit(message, asynchronous=True)
            except KafkaException:
                pass  # rebalancing: it comes again
        self.consumer.close()

    def stop(self):
        self.stopping = True
        self.thread.join(30)


def crash_after_joining(broker, topic, group, strategy):
    """A member in a process of its own, to be killed."""
    script = ("import sys\nfrom confluent_kafka import Consumer\n"
              "c = Consumer({'bootstrap.servers': sys.argv[1], 'group.id': sys.argv[3], 'session.timeout.ms': 6000, 'heartbeat.interval.ms': 500,"
              " 'partition.assignment.strategy': sys.argv[4]})\nc.subscribe([sys.argv[2]])\nwhile True: c.poll(0.2)\n")
    return subprocess.Popen([sys.executable, "-c", script, broker.bootstrap, topic, group, strategy], stderr=subprocess.DEVNULL)


def all_owned(members):
    owned = [p for m in members for p in m.owned]
    return sorted(owned) == [0, 1, 2, 3]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_share_a_topic_and_lose_nothing(quick, topic, strategy):
    fill(quick, topic, 200)
    more = {"partition.assignment.strategy": strategy}
    members = [Member(quick, topic, topic, **more) for _ in range(2)]
    harness.until(lambda: all_owned(members) and all(m.owned for m in members), 30, "both have partitions")
    third = Member(quick, topic, topic, **more)
    harness.until(lambda: third.owned and all_owned([*members, third]), 30, "the third has some too")
    members.pop().stop()
    harness.until(lambda: all_owned([*members, third]), 30, "who leaves is replaced at once")
    members.pop().stop()
    crashing = crash_after_joining(quick, topic, topic, strategy)
    harness.until(lambda: len(third.owned) == 2, 30, "a member in a process of its own has its share")
    crashing.kill()
    crashing.wait(10)
    harness.until(lambda: len(third.owned) == 4, 30, "who crashes is replaced after its session")
    fill(quick, topic, 40)
    harness.until(lambda: {p for p, _ in third.seen} == {0, 1, 2, 3}, 30, "the last one reads all")
    third.stop()
    consumer = Consumer({"bootstrap.servers": quick.bootstrap, "group.id": topic})
    committed = consumer.committed([TopicPartition(topic, p) for p in range(4)], timeout=10)
    assert sum(p.offset for p in committed) <= 240
    consumer.close()


def test_a_static_member_comes_back_without_a_rebalance(quick, topic):
    fill(quick, topic, 40)
    one = Member(quick, topic, topic, **{"group.instance.id": "one", "session.timeout.ms": 30000})
    two = Member(quick, topic, topic, **{"group.instance.id": "two", "session.timeout.ms": 30000})
    harness.until(lambda: all_owned([one, two]) and one.owned and two.owned, 30, "both have partitions")
    assigns, owned = one.assigns, set(two.owned)
    two.stop()  # a static member leaves no group when it closes
    again = Member(quick, topic, topic, **{"group.instance.id": "two", "session.timeout.ms": 30000})
    harness.until(lambda: again.owned == owned, 20, "the same partitions")
    assert one.assigns == assigns
    one.stop()
    again.stop()


def test_kafka_python_in_a_group(quick, topic):
    from kafka import KafkaConsumer
    from kafka.structs import TopicPartition as Place
    fill(quick, topic, 100)
    consumer = KafkaConsumer(topic, bootstrap_servers=quick.bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False, consumer_timeout_ms=20000)
    seen = []
    for record in consumer:
        seen.append(record.value)
        if len(seen) == 100:
            break
    assert len(set(seen)) == 100
    consumer.commit()
    assert sum(consumer.committed(Place(topic, p)) for p in range(4)) == 100
    consumer.close()
    admin = AdminClient({"bootstrap.servers": quick.bootstrap})
    state = admin.describe_consumer_groups([topic])[topic].result(timeout=10)
    assert state.state.name == "EMPTY"


def test_kafkajs_in_a_group(quick, topic):
    modules = harness.TOP / "build" / "node" / "node_modules"
    if not shutil.which("node") or not (modules / "kafkajs").is_dir():
        pytest.skip("no node or no kafkajs (./dev setup)")
    fill(quick, topic, 60)
    script = """
const { Kafka, logLevel } = require(process.argv[2] + '/kafkajs');
const kafka = new Kafka({ brokers: [process.argv[3]], logLevel: logLevel.ERROR });
(async () => {
  const consumer = kafka.consumer({ groupId: process.argv[4] }); let count = 0;
  await consumer.connect(); await consumer.subscribe({ topic: process.argv[4], fromBeginning: true });
  const all = new Promise(resolve => consumer.run({ eachMessage: async () => { if (++count === 60) resolve(); } }));
  await all; await consumer.stop(); await consumer.disconnect(); console.log('count', count);
})().catch(e => { console.error(e); process.exit(1); });
"""
    done = subprocess.run(["node", "-e", script, "x", str(modules), quick.bootstrap, topic], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "count 60" in done.stdout, done.stdout + done.stderr


def test_offsets_and_groups_outlive_a_restart_and_a_kill(own_broker, name):
    broker = own_broker(**QUICK)
    with broker.connect() as connection:
        Admin(connection).create(name, partitions=4)
    fill(broker, name, 80)
    acknowledged = {}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "enable.auto.commit": False})
    for offset in range(1, 11):
        for p in range(4):
            done = consumer.commit(offsets=[TopicPartition(name, p, offset, metadata=f"m{offset}")], asynchronous=False)
            assert done[0].error is None
            acknowledged[p] = offset
    consumer.close()
    for crash in (True, False):
        broker.kill() if crash else broker.stop()
        broker.start()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name})
        committed = consumer.committed([TopicPartition(name, p) for p in range(4)], timeout=20)
        assert {p.partition: p.offset for p in committed} == acknowledged
        assert {p.metadata for p in committed} == {"m10"}
        consumer.close()


def commit(connection, group, topic, offset):
    answer = connection.ask("OffsetCommit", 9, {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [
        {"name": topic, "partitions": [{"partitionIndex": 0, "committedOffset": offset, "committedLeaderEpoch": -1, "committedMetadata": ""}]}]})
    return answer["topics"][0]["partitions"][0]["errorCode"]


def committed(connection, group, topic):
    answer = connection.ask("OffsetFetch", 7, {"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0]}], "requireStable": False})
    row = answer["topics"][0]["partitions"][0]
    return row["committedOffset"] if row["errorCode"] == 0 else None


def test_commits_survive_kills_in_the_middle(own_broker, name):
    broker = own_broker(**QUICK)
    with broker.connect() as connection:
        Admin(connection).create(name, partitions=1)
        assert connection.ask("FindCoordinator", 2, {"key": name, "keyType": 0})["errorCode"] == 0
    last = tried = 0
    for round_ in range(4):
        def kill(enough=last + 20, later_s=0.2 * round_):
            try:
                harness.until(lambda: last >= enough, 30, "commits before the kill")
            finally:
                time.sleep(later_s)  # poll: any moment
                broker.kill()
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            with broker.connect() as connection:
                while True:
                    tried += 1
                    if commit(connection, name, name, tried) == 0:
                        last = tried
        except (OSError, EOFError):
            pass
        killer.join()
        broker.start()
        with broker.connect() as connection:
            found = harness.until(lambda: committed(connection, name, name), 20, "the group is loaded")
        assert 0 < last <= found <= tried


def test_a_topic_made_anew_begins_without_offsets(quick, name):
    with quick.connect() as connection:
        admin = Admin(connection)
        admin.create(name, partitions=1)
        consumer = Consumer({"bootstrap.servers": quick.bootstrap, "group.id": name})
        consumer.commit(offsets=[TopicPartition(name, 0, 7)], asynchronous=False)
        admin.delete(name)
        admin.create(name, partitions=1)
        harness.until(lambda: consumer.committed([TopicPartition(name, 0)], timeout=10)[0].offset < 0, 10, "the old offset is gone")
        consumer.close()


# ---- Java's tools

def consumer_groups(broker, *arguments):
    return java(TOOLS + "consumer.group.ConsumerGroupCommand", "--bootstrap-server", broker.bootstrap, *arguments)


def rows(text, topic):
    return {int(m.group(1)): m.group(0).split() for m in re.finditer(rf"^\S+\s+{re.escape(topic)}\s+(\d+)\s.*$", text, re.M)}


@pytest.mark.long
def test_java_console_consumer_and_the_groups_tool(quick, topic):
    need_java()
    fill(quick, topic, 80)
    text = java(TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", quick.bootstrap, "--topic", topic, "--group", topic, "--from-beginning", "--max-messages", 80,
                "--timeout-ms", 30000)
    assert len([line for line in text.splitlines() if line.startswith("v")]) == 80
    assert topic in consumer_groups(quick, "--list")
    text = consumer_groups(quick, "--describe", "--group", topic)
    assert {p: row[3] for p, row in rows(text, topic).items()} == {p: "20" for p in range(4)}, text
    assert "Empty" in consumer_groups(quick, "--describe", "--group", topic, "--state")
    text = consumer_groups(quick, "--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest", "--execute")
    assert {row.split()[3] for row in text.splitlines() if topic in row and re.search(r"\s\d+\s+\d+\s*$", row)} == {"0"}, text
    consumer_groups(quick, "--reset-offsets", "--group", topic, "--topic", f"{topic}:1", "--shift-by", "5", "--execute")
    text = consumer_groups(quick, "--describe", "--group", topic)
    assert rows(text, topic)[1][3:6] == ["5", "20", "15"], text
    consumer_groups(quick, "--delete-offsets", "--group", topic, "--topic", topic)
    assert not rows(consumer_groups(quick, "--describe", "--group", topic), topic)
    consumer_groups(quick, "--delete", "--group", topic)
    assert topic not in consumer_groups(quick, "--list")


def documents(text):
    """JSON objects one behind the other, with or without line ends."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        value, end = decoder.raw_decode(text, at)
        yield value
        at = text.find("{", end)


def test_kafkas_formatters_read_the_offsets_topic(quick, topic):
    need_java()
    member = Member(quick, topic, topic)
    harness.until(lambda: len(member.owned) == 4, 30, "all partitions")
    member.stop()
    consumer = Consumer({"bootstrap.servers": quick.bootstrap, "group.id": topic})
    consumer.commit(offsets=[TopicPartition(topic, 2, 77, metadata="here")], asynchronous=False)
    consumer.close()
    seen = {}
    def mine(formatter, wanted):
        """The tool ends when nothing came for so long, which on a busy machine may be before anything has."""
        for quiet_ms in (4000, 15000, 45000):
            words = command(TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", quick.bootstrap, "--topic", "__consumer_offsets", "--from-beginning", "--formatter",
                            f"org.apache.kafka.tools.consumer.{formatter}", "--timeout-ms", quiet_ms)
            done = subprocess.run(words, capture_output=True, text=True, timeout=240)
            seen[formatter] = [r for r in documents(done.stdout) if r["key"]["data"].get("group") == topic]
            if any(wanted(r) for r in seen[formatter]):
                return seen[formatter]
        raise AssertionError(f"{seen[formatter]}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    commits = [r for r in mine("OffsetsMessageFormatter", lambda r: r["key"]["data"].get("partition") == 2) if r["key"]["data"].get("partition") == 2]
    assert commits[-1]["value"]["data"]["offset"] == 77
    assert commits[-1]["value"]["data"]["metadata"].rstrip("\0") == "here"  # the Python client counts the C string's end
    groups = [r for r in mine("GroupMetadataMessageFormatter", lambda r: r.get("value")) if r.get("value")]
    assert groups[-1]["value"]["data"]["members"] == []
    assert any(len(r["value"]["data"]["members"]) == 1 for r in groups)


@pytest.mark.parametrize("codec", [4, 1])
def test_committed_offsets_are_compressed_where_that_is_wanted(own_broker, name, codec):
    """In order, and found again; what belongs to a transaction stays plain, as its guards want it."""
    import batch
    broker = own_broker(offsets_topic_compression_codec=str(codec), offsets_topic_num_partitions="1", **QUICK)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "enable.auto.commit": False})
    with broker.connect() as connection:
        Admin(connection).create(name, partitions=4)
    for offset in range(1, 60):
        consumer.commit(offsets=[TopicPartition(name, p, offset, metadata="m" * 500) for p in range(4)], asynchronous=offset % 5 != 0)
    consumer.commit(offsets=[TopicPartition(name, p, 60) for p in range(4)], asynchronous=False)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(name, 0, 70)], consumer.consumer_group_metadata(), 20)
    producer.commit_transaction(20)
    consumer.close()
    for killed in (False, True):
        if killed:
            broker.kill()
            broker.start()
        again = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name})
        assert [p.offset for p in again.committed([TopicPartition(name, p) for p in range(4)], timeout=20)] == [70, 60, 60, 60]
        again.close()
    broker.stop()
    codecs = {False: set(), True: set()}
    for log in sorted(broker.partition("__consumer_offsets").glob("*.log")):
        for one in batch.read(log.read_bytes()):
            codecs[bool(one.attributes & 0x30)].add(one.attributes & 7)
    assert codecs == {False: {codec}, True: {0}}
