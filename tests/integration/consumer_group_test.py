"""Consumer groups of the new protocol (group.protocol=consumer) with real clients: librdkafka through confluent-kafka, Kafka's Java consumer and its tools."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from admin import Admin
from harness import TOP, until
from java import TOOLS, command, java, need_java

pytestmark = pytest.mark.timeout(240)
FAST = {"group_consumer_heartbeat_interval_ms": 300, "group_consumer_min_heartbeat_interval_ms": 300, "group_consumer_session_timeout_ms": 3000,
        "group_consumer_min_session_timeout_ms": 3000, "group_consumer_assignment_interval_ms": 0, "group_initial_rebalance_delay_ms": 0,
        "group_min_session_timeout_ms": 3000}
NEW = ["group.protocol=consumer"]
CLASSIC = ["group.protocol=classic", "partition.assignment.strategy=cooperative-sticky", "session.timeout.ms=3000", "heartbeat.interval.ms=300"]
SCRIPT = Path(__file__).with_name("group_member.py")
NODE_MODULES = TOP / "build" / "node" / "node_modules"


class Member:
    """A consumer in a process of its own: what it has, and what it read as (topic, partition, offset)."""

    def __init__(self, broker, group, topic, settings, words=None):
        self.process = subprocess.Popen(words or [sys.executable, SCRIPT, broker.bootstrap, group, topic, *settings], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env={**os.environ, "NODE_MODULES": str(NODE_MODULES)})
        self.has, self.read = set(), []
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self):
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break                          # killed in the middle of it
            word, *rest = line.split()
            if word == "has":
                self.has = {int(p) for p in rest[0].split(",")} if rest else set()
            else:
                self.read.append((rest[0], int(rest[1]), int(rest[2])))

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(120)
        self.thread.join(10)
        self.has = set()


@pytest.fixture
def members():
    """A function that starts members; those that still run are killed at the end."""
    made = []

    def make(*args):
        made.append(Member(*args))
        return made[-1]

    yield make
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait(120)


@pytest.fixture(scope="module")
def fast(run_directory):
    import harness
    if harness.EXTERNAL or not harness.BINARY.exists():
        pytest.skip("needs a server of its own")
    broker = harness.Broker(run_directory / "consumer-groups", **FAST)
    try:
        yield broker.start()
        broker.stop()
    finally:
        broker.kill()


def settled(group, total):
    """Each partition has one owner, and the loads differ by one at most."""
    sizes = sorted(len(m.has) for m in group)
    return sum(sizes) == total and len(set().union(*(m.has for m in group))) == total and sizes[-1] - sizes[0] <= 1


def shows(group):
    return lambda: f"{[(m.process.pid, sorted(m.has)) for m in group]}"


def create(broker, topic, partitions):
    with broker.connect() as connection:
        Admin(connection).create(topic, partitions=partitions)


def produce(broker, topic, count, partitions):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for i in range(count):
        producer.produce(topic, value=b"v%d" % i, partition=i % partitions)
    assert producer.flush(30) == 0


ADMINS = {}                                    # kept: a client that goes takes its futures along


def admin_of(broker):
    return ADMINS.setdefault(broker.bootstrap, AdminClient({"bootstrap.servers": broker.bootstrap}))


def describe(broker, group):
    return admin_of(broker).describe_consumer_groups([group])[group].result(20)


def group_type(broker, group):
    listed = admin_of(broker).list_consumer_groups().result(20).valid
    return next(g.type.name for g in listed if g.group_id == group)


def test_members_come_read_everything_and_go(fast, name, members):
    create(fast, name, 6)
    produce(fast, name, 600, 6)
    group = [members(fast, name, name, NEW)]
    until(lambda: settled(group, 6), 20, "one member has all")
    group += [members(fast, name, name, NEW), members(fast, name, name, NEW)]
    until(lambda: settled(group, 6), 20, shows(group))
    until(lambda: len({r for m in group for r in m.read}) == 600, 30, "everything was read")
    group.pop().end()
    until(lambda: settled(group, 6), 20, shows(group))
    group.pop().end(signal.SIGKILL)
    until(lambda: settled(group, 6), 20, shows(group))
    told = describe(fast, name)
    assert told.state.name == "STABLE"
    assert len(told.members) == 1 and len(told.members[0].assignment.topic_partitions) == 6
    group.pop().end()
    assert describe(fast, name).state.name == "EMPTY"
    offsets = admin_of(fast).list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result(20).topic_partitions
    assert sum(p.offset for p in offsets) == 600


def test_a_member_that_hangs_is_put_out_and_comes_back(fast, name, members):
    create(fast, name, 4)
    group = [members(fast, name, name, NEW), members(fast, name, name, NEW)]
    until(lambda: settled(group, 4), 20, shows(group))
    group[0].process.send_signal(signal.SIGSTOP)
    until(lambda: len(group[1].has) == 4, 20, shows(group))
    group[0].process.send_signal(signal.SIGCONT)
    until(lambda: settled(group, 4), 20, shows(group))


def test_a_static_member_takes_its_place_again(fast, name, members):
    create(fast, name, 4)
    static = [*NEW, "group.instance.id=one"]
    group = [members(fast, name, name, static), members(fast, name, name, NEW)]
    until(lambda: settled(group, 4), 20, shows(group))
    had = set(group[0].has)
    group[0].end()                             # says that it will be back
    group[0] = members(fast, name, name, static)
    until(lambda: group[0].has == had, 20, shows(group))
    assert len(group[1].has) == 2


@pytest.mark.long
def test_a_regular_expression_follows_topics(fast, name, members):
    create(fast, name + ".a", 2)
    create(fast, name + "-other", 3)
    group = [members(fast, name, "^" + re.escape(name) + r"\..*", NEW)]
    until(lambda: len(group[0].has) == 2, 20, shows(group))
    create(fast, name + ".b", 4)
    until(lambda: len(describe(fast, name).members[0].assignment.topic_partitions) == 6, 30, "the new topic is in")


def test_a_group_goes_to_the_new_protocol_and_back_while_it_reads(fast, name, members):
    create(fast, name, 4)
    produce(fast, name, 400, 4)
    old = [members(fast, name, name, CLASSIC), members(fast, name, name, CLASSIC)]
    until(lambda: settled(old, 4), 30, shows(old))
    everybody = list(old)
    assert group_type(fast, name) == "CLASSIC"
    new = [members(fast, name, name, NEW)]
    until(lambda: settled(old + new, 4), 30, shows(old + new))
    assert group_type(fast, name) == "CONSUMER"
    old.pop().end()
    new.append(members(fast, name, name, NEW))
    old.pop().end()
    until(lambda: settled(new, 4), 30, shows(new))
    produce(fast, name, 400, 4)
    back = [members(fast, name, name, CLASSIC), members(fast, name, name, CLASSIC)]
    until(lambda: settled(new + back, 4), 30, shows(new + back))
    for m in new:
        m.end()
    until(lambda: settled(back, 4), 30, shows(back))
    assert group_type(fast, name) == "CLASSIC"
    everybody += new + back
    wanted = {(name, p, o) for p in range(4) for o in range(200)}
    until(lambda: {r for m in everybody for r in m.read} == wanted, 30, lambda: f"unread: {sorted(wanted - {r for m in everybody for r in m.read})[:20]}")


def test_a_restart_of_the_server_loses_no_group(own_broker, name, members):
    broker = own_broker(**{**FAST, "group_consumer_session_timeout_ms": 30000})        # a restart may take longer than three seconds
    create(broker, name, 4)
    group = [members(broker, name, name, NEW), members(broker, name, name, NEW)]
    until(lambda: settled(group, 4), 20, shows(group))
    had = [set(m.has) for m in group]
    broker.kill()
    broker.start()
    produce(broker, name, 40, 4)
    until(lambda: sum(len(m.read) for m in group) >= 40, 30, "they go on")
    assert [m.has for m in group] == had


def java_describe(broker, group, *more):
    return java(TOOLS + "consumer.group.ConsumerGroupCommand", "--bootstrap-server", broker.bootstrap, "--describe", "--group", group, *more)


def test_java_consumer_and_tool(fast, name, members):
    need_java()
    create(fast, name, 3)
    produce(fast, name, 90, 3)
    text = java(TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", fast.bootstrap, "--topic", name, "--group", name, "--from-beginning", "--max-messages", 90,
                "--timeout-ms", 30000, "--command-property", "group.protocol=consumer")
    assert len([line for line in text.splitlines() if line.startswith("v")]) == 90
    group = [members(fast, name, name, NEW)]
    until(lambda: settled(group, 3), 20, shows(group))
    lag = java_describe(fast, name)
    assert len(re.findall(rf"{re.escape(name)}\s+{re.escape(name)}\s+\d\s+30\s+30\s+0", lag)) == 3, lag
    assert re.search(r"uniform\s+Stable", java_describe(fast, name, "--state")), java_describe(fast, name, "--state")
    shown = java_describe(fast, name, "--members", "--verbose")
    assert "1" in shown and "rdkafka" in shown, shown


def test_commits_from_outside_and_of_another_epoch_are_refused(fast, name, members):
    create(fast, name, 2)
    group = [members(fast, name, name, NEW)]
    until(lambda: settled(group, 2), 20, shows(group))
    refused = admin_of(fast).alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 5)])])[name].result(20)
    assert refused.topic_partitions[0].error.code() == KafkaError.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin_of(fast).delete_consumer_groups([name])[name].result(20)
    group[0].end()
    admin_of(fast).alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 5)])])[name].result(20)
    admin_of(fast).delete_consumer_groups([name])[name].result(20)


@pytest.mark.long
def test_a_group_may_have_time_outs_of_its_own(own_broker, name, members):
    broker = own_broker(**{**FAST, "group_consumer_max_session_timeout_ms": 60000})
    need_java()
    create(broker, name, 2)
    configs = [TOOLS + "ConfigCommand", "--bootstrap-server", broker.bootstrap, "--entity-type", "groups", "--entity-name", name]
    java(*configs, "--alter", "--add-config", "consumer.heartbeat.interval.ms=1000,consumer.session.timeout.ms=20000")
    refused = java(*configs, "--alter", "--add-config", "consumer.session.timeout.ms=90000", check=False)
    assert "within the broker's bounds [3000, 60000]" in refused, refused
    shown = java(*configs, "--describe")
    assert "consumer.session.timeout.ms=20000" in shown and "GROUP_CONFIG" in shown, shown
    with broker.connect() as connection:
        until(lambda: connection.ask("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": [name]})["coordinators"][0]["errorCode"] == 0, 20, "a coordinator")
        body = {"groupId": name, "memberId": "m", "memberEpoch": 0, "instanceId": None, "rackId": None, "rebalanceTimeoutMs": 5000,
                "subscribedTopicNames": [name], "subscribedTopicRegex": None, "serverAssignor": None, "topicPartitions": []}
        answer = connection.ask("ConsumerGroupHeartbeat", 1, body)
        assert (answer["errorCode"], answer["heartbeatIntervalMs"]) == (0, 1000)
        assert [len(t["partitions"]) for t in answer["assignment"]["topicPartitions"]] == [2]
    broker.kill()
    broker.start()
    assert "consumer.session.timeout.ms=20000" in java(*configs, "--describe")
    java(*configs, "--alter", "--delete-config", "consumer.session.timeout.ms,consumer.heartbeat.interval.ms")
    assert "GROUP_CONFIG" not in java(*configs, "--describe")


class JavaMember:
    """Kafka's console consumer as a member; it prints the partition and the offset of each record."""

    def __init__(self, broker, group, topic):
        words = command(TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group, "--from-beginning",
                        "--command-property", "group.protocol=consumer", "--command-property", "auto.commit.interval.ms=200",
                        "--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true")
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.read = []
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self):
        for line in self.process.stdout:
            found = re.match(r"Partition:(\d+)\tOffset:(\d+)\t", line)
            if found:
                self.read.append((int(found[1]), int(found[2])))


@pytest.mark.long
def test_java_consumers_join_die_and_leave_beside_librdkafka(fast, name, members):
    need_java()
    create(fast, name, 6)
    java_members = [JavaMember(fast, name, name), JavaMember(fast, name, name)]
    try:
        group = [members(fast, name, name, NEW)]
        owners = lambda: sorted(len(m.assignment.topic_partitions) for m in describe(fast, name).members)  # noqa: E731
        until(lambda: owners() == [2, 2, 2], 40, "three share", step_s=0.3)
        produce(fast, name, 600, 6)
        everything = {(p, o) for p in range(6) for o in range(100)}
        seen = lambda: {r for m in java_members for r in m.read} | {(p, o) for m in group for _, p, o in m.read}  # noqa: E731
        until(lambda: seen() == everything, 40, "all is read")
        java_members[0].process.kill()
        until(lambda: owners() == [3, 3], 40, "two share", step_s=0.3)
        java_members[1].process.terminate()
        until(lambda: owners() == [6], 40, "one has all", step_s=0.3)
        produce(fast, name, 60, 6)
        until(lambda: seen() >= {(p, o) for p in range(6) for o in range(110)}, 40, "it goes on where they were")
    finally:
        for m in java_members:
            m.process.kill()
            m.process.wait(120)


def node_member(broker, group, topic):
    if not shutil.which("node") or not (NODE_MODULES / "@platformatic" / "kafka").is_dir():
        pytest.skip("no node, or no @platformatic/kafka in build/node (./dev setup)")
    return ["node", str(TOP / "tests" / "interop" / "node" / "group_member.mjs"), broker.bootstrap, group, topic]


@pytest.fixture(scope="module")
def go_member():
    """franz-go's program, built once."""
    if not shutil.which("go"):
        pytest.skip("no go")
    target = TOP / "build" / "go" / "interop"
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["go", "build", "-o", str(target), "."], cwd=TOP / "tests" / "interop" / "go", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout.decode()
    return lambda broker, group, topic: [str(target), broker.bootstrap, topic, "member", group]


def one_of_another_client_beside_librdkafka(broker, name, members, words):
    """They share, one dies, one leaves, one comes: nothing is left unread, and the group is of the new protocol."""
    create(broker, name, 6)
    produce(broker, name, 60, 6)
    first = members(broker, name, name, [], words)
    until(lambda: first.has == set(range(6)) and len(first.read) == 60, 40, shows([first]))
    assert group_type(broker, name) == "CONSUMER"
    second = members(broker, name, name, NEW)
    third = members(broker, name, name, [], words)
    until(lambda: settled([first, second, third], 6), 30, shows([first, second, third]))
    first.end(signal.SIGKILL)
    until(lambda: settled([second, third], 6), 30, shows([second, third]))
    produce(broker, name, 60, 6)
    second.end()
    until(lambda: third.has == set(range(6)), 30, shows([third]))
    produce(broker, name, 60, 6)
    wanted = {(name, p, o) for p in range(6) for o in range(30)}
    until(lambda: {r for m in (first, second, third) for r in m.read} == wanted, 30, "all was read by somebody")
    fourth = members(broker, name, name, [], words)
    until(lambda: settled([third, fourth], 6), 30, shows([third, fourth]))
    third.end()
    until(lambda: fourth.has == set(range(6)), 30, shows([fourth]))


def test_a_node_client_joins_reads_dies_and_leaves(fast, name, members):
    one_of_another_client_beside_librdkafka(fast, name, members, node_member(fast, name, name))


def test_franz_go_joins_reads_dies_and_leaves(fast, name, members, go_member):
    one_of_another_client_beside_librdkafka(fast, name, members, go_member(fast, name, name))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_clients_of_every_kind_churn_and_no_partition_waits_ten_seconds(fast, name, members, go_member):
    """librdkafka, franz-go, Node's and Java's clients come, leave and are killed at random. What the group says of owners is looked at all the while."""
    need_java()
    chance, partitions = random.Random(11), 12
    create(fast, name, partitions)
    kinds = {"librdkafka": lambda: members(fast, name, name, NEW), "go": lambda: members(fast, name, name, [], go_member(fast, name, name)),
             "node": lambda: members(fast, name, name, [], node_member(fast, name, name)), "java": lambda: JavaMember(fast, name, name)}
    group, everybody, sent, unowned_since = [], [], 0, None

    def come(kind):
        group.append(kinds[kind]())
        everybody.append(group[-1])

    def shared():
        """Each partition has an owner and each living member is there; and no partition was without one for ten seconds."""
        nonlocal unowned_since
        given = [len(m.assignment.topic_partitions) for m in describe(fast, name).members]
        unowned_since = None if sum(given) == partitions else unowned_since or time.monotonic()
        assert unowned_since is None or time.monotonic() - unowned_since < 10, f"{partitions - sum(given)} partitions wait"
        return sum(given) == partitions and len(given) == len(group) and max(given) - min(given) <= 1

    try:
        come("librdkafka")
        until(lambda: group[0].has == set(range(partitions)), 40, shows(group[:1]))
        for kind in ("go", "node", "java"):
            come(kind)
        until(shared, 60, "all kinds share", step_s=0.2)
        for _ in range(30):
            if len(group) < 3 or len(group) < 7 and chance.random() < 0.5:
                come(chance.choice(sorted(kinds)))
            else:
                one = group.pop(chance.randrange(len(group)))
                one.process.send_signal(chance.choice([signal.SIGTERM, signal.SIGKILL]))
            until(shared, 60, lambda: f"{len(group)} share", step_s=0.2)
            produce(fast, name, 60, partitions)
            sent += 5
        wanted = {(p, o) for p in range(partitions) for o in range(sent)}
        until(lambda: {r[-2:] for m in everybody for r in m.read} == wanted, 60, "all was read by somebody")
    finally:
        for m in everybody:
            if m.process.poll() is None:
                m.process.kill()
            m.process.wait(120)


@pytest.mark.long
def test_no_change_of_members_takes_longer_than_ten_seconds(fast, name, members):
    """Members of both protocols come, leave, are killed and stopped in turn, at random: each time the group settles, and at the end nothing was left unread."""
    chance = random.Random(7)
    create(fast, name, 12)
    group, everybody, sent = [members(fast, name, name, NEW)], [], 0
    everybody.append(group[0])
    until(lambda: settled(group, 12), 20, shows(group))
    for _ in range(24):
        what = chance.choice(["new", "new", "classic", "leave", "kill", "stop"])
        if what in ("new", "classic") and len(group) < 6 or len(group) == 1:
            group.append(members(fast, name, name, CLASSIC if what == "classic" else NEW))
            everybody.append(group[-1])
        elif what == "stop":
            one = chance.choice(group)
            one.process.send_signal(signal.SIGSTOP)
            others = [m for m in group if m is not one]
            until(lambda: settled(others, 12), 10, shows(group))
            one.process.send_signal(signal.SIGCONT)
        else:
            group.pop(chance.randrange(len(group))).end(signal.SIGTERM if what == "leave" else signal.SIGKILL)
        until(lambda: settled(group, 12), 10, shows(group))
        produce(fast, name, 60, 12)
        sent += 5
    wanted = {(name, p, o) for p in range(12) for o in range(sent)}
    until(lambda: {r for m in everybody for r in m.read} == wanted, 30, "all was read by somebody")
