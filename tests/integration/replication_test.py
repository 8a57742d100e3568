"""Partitions on three brokers: acks=all and what it promises when brokers die, who is in sync, and what clients of any kind see of it. Real processes on loopback."""
import json
import random
import threading
import time

import batch
import harness
import pytest
from admin import Admin, error
from cluster_load import end_of
from confluent_kafka import OFFSET_END, Consumer, KafkaError, Producer, TopicPartition
from java import TOOLS, java, need_java


def started(cluster):
    """All of them may lead."""
    cluster.start()
    cluster.controller()
    for i in cluster.nodes:
        cluster.wait_state(i, "running", of=list(cluster.nodes))
    return cluster


def create(node, name, **how):
    with node.connect(timeout_s=40) as c:
        return Admin(c).create(name, check=False, **how)


def parts_of(node, name):
    with node.connect() as c:
        topic = Admin(c).describe(name)
    return {p["partitionIndex"]: p for p in topic["partitions"]}


def wait_isr(cluster, name, members, bound_s=60):
    """Until every living broker says that each partition has these members."""
    def look():
        seen = [parts_of(node, name) for node in cluster.living()]
        return all(seen) and all(p["errorCode"] == 0 and set(p["isrNodes"]) == set(members) for parts in seen for p in parts.values())
    harness.until(look, bound_s, lambda: f"isr {members}: {[parts_of(node, name) for node in cluster.living()]}", 0.1)


class Load:
    """A producer with acks=all on a thread of its own; acknowledged: {partition: [(offset, value)]}."""

    def __init__(self, bootstrap, topic, **settings):
        self.topic = topic
        self.producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "message.timeout.ms": 60000, "topic.metadata.refresh.interval.ms": 1000,
                                  "retry.backoff.ms": 50, "retry.backoff.max.ms": 200, "reconnect.backoff.max.ms": 500, **settings})
        self.acknowledged, self.failed, self.sent = {}, [], 0
        self.ended = False
        self.longest_gap, self.last = 0.0, time.monotonic()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _report(self, error, message):
        if error is not None:
            self.failed.append((error, message.value()))
            return
        now = time.monotonic()
        self.longest_gap = max(self.longest_gap, now - self.last)
        self.last = now
        self.acknowledged.setdefault(message.partition(), []).append((message.offset(), message.value()))

    def _run(self):
        while not self.ended:
            try:
                self.producer.produce(self.topic, b"%d" % self.sent, on_delivery=self._report)
                self.sent += 1
            except BufferError:
                self.producer.poll(0.05)
            self.producer.poll(0.001)

    def count(self):
        return sum(len(rows) for rows in self.acknowledged.values())

    def stop(self):
        self.ended = True
        self.thread.join(60)
        assert self.producer.flush(60) == 0
        return self


def read_all(bootstrap, topic, partitions=1):
    """{partition: [(offset, value)]} of what a read_committed consumer sees."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    # a leader that is new gives out less than was acknowledged until its followers have fetched, which is an end too; where the log ends it says only then
    ends = {p: end_of(consumer, topic, p) for p in range(partitions)}
    rows, ended, until = {p: [] for p in range(partitions)}, set(), time.monotonic() + 60
    while len(ended) < partitions and time.monotonic() < until:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            if message.error().code() == KafkaError._PARTITION_EOF and message.offset() >= ends[message.partition()]:
                ended.add(message.partition())
            continue
        rows[message.partition()].append((message.offset(), message.value()))
    consumer.close()
    assert len(ended) == partitions
    return rows


def check_nothing_lost(load, rows, once=False):
    for partition, acknowledged in load.acknowledged.items():
        there = dict(rows[partition])
        for offset, value in acknowledged:
            assert there.get(offset) == value, f"{partition}:{offset} acknowledged as {value}, found {there.get(offset)}"
        if once:
            values = [value for _, value in rows[partition]]
            assert len(values) == len(set(values)), "written twice"
            numbers = [int(value) for value in values]
            assert numbers == sorted(numbers), "out of order"


def test_limits_of_clients_do_not_keep_brokers_apart(make):
    """Each broker has more connections from the others than a client may have here, and says more at a time."""
    cluster = started(make(max_connections=5, max_connections_per_ip=2, socket_request_max_bytes=4000))
    assert create(cluster.nodes[1], "t", partitions=300, replication=3, min_insync_replicas=3)["errorCode"] == 0
    for node in cluster.nodes.values():
        with node.connect() as c:
            for p, row in parts_of(node, "t").items():
                if row["leaderId"] == node.id:
                    assert error(Admin(c).produce_raw("t", batch.build([b"x"]), partition=p)) == "NONE"
    wait_isr(cluster, "t", [1, 2, 3])
    with cluster.nodes[1].connect(), cluster.nodes[1].connect():
        assert cluster.nodes[1].connect().closed_by_peer()
    cluster.stop()


@pytest.mark.smoke
def test_nothing_acknowledged_is_lost_when_the_leader_dies(make):
    cluster = started(make())
    assert create(cluster.nodes[1], "t", partitions=3, replication=3, min_insync_replicas=2)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    load = Load(cluster.bootstrap(), "t", **{"enable.idempotence": True})
    harness.until(lambda: load.count() > 200, 30, lambda: f"acknowledgements: {load.count()}, {load.failed[:3]}")
    victim = parts_of(cluster.nodes[1], "t")[0]["leaderId"]
    cluster.kill(victim)
    before = load.count()
    harness.until(lambda: load.count() > before + 500, 40, lambda: f"acknowledgements after the death: {load.count() - before}, {load.failed[:3]}")
    wait_isr(cluster, "t", {1, 2, 3} - {victim})
    cluster.start_one(victim)
    wait_isr(cluster, "t", [1, 2, 3])
    load.stop()
    assert load.failed == []
    check_nothing_lost(load, read_all(cluster.bootstrap(), "t", 3), once=True)
    print(f"acknowledged {load.count()}, longest gap {load.longest_gap:.2f} s")


def test_batches_repeated_to_the_next_leader_keep_their_offsets(make):
    """Whose answers were lost with the leader: the last five of a producer are known by its follower too, an older one is out of order as it was there."""
    cluster = started(make())
    assert create(cluster.nodes[1], "t", partitions=1, replication=3, min_insync_replicas=2)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    victim = parts_of(cluster.nodes[1], "t")[0]["leaderId"]

    def send(c, i):
        answer = Admin(c).produce_raw("t", batch.build([b"a", b"b"], producer=(producer, epoch, 2 * i)))
        return error(answer), answer["baseOffset"]
    with cluster.nodes[victim].connect(timeout_s=40) as c:
        producer, epoch = Admin(c).producer_id()
        assert [send(c, i) for i in range(6)] == [("NONE", 2 * i) for i in range(6)]
        assert send(c, 0)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    cluster.kill(victim)
    asked = cluster.living()[0]
    leader = harness.until(lambda: (i := parts_of(asked, "t")[0]["leaderId"]) not in (-1, victim) and i, 30, "another leader")
    with cluster.nodes[leader].connect(timeout_s=40) as c:
        harness.until(lambda: send(c, 5) == ("NONE", 10), 30, "the new leader at work")
        assert [send(c, i) for i in (1, 4, 2, 3, 5)] == [("NONE", 2 * i) for i in (1, 4, 2, 3, 5)]
        assert send(c, 0)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        assert send(c, 6) == ("NONE", 12)
    cluster.start_one(victim)
    wait_isr(cluster, "t", [1, 2, 3])
    for how in ("kill", "stop"):                   # of all of them: nobody remembers, the logs tell
        for i in cluster.nodes if how == "kill" else ():
            cluster.kill(i)
        if how == "stop":
            cluster.stop()
        started(cluster)
        wait_isr(cluster, "t", [1, 2, 3])
        with cluster.nodes[parts_of(cluster.nodes[1], "t")[0]["leaderId"]].connect(timeout_s=40) as c:
            harness.until(lambda: send(c, 6) == ("NONE", 12), 30, f"the leader at work after the {how} of all")
            assert [send(c, i) for i in (2, 5, 4, 3, 6)] == [("NONE", 2 * i) for i in (2, 5, 4, 3, 6)], how
            assert send(c, 1)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER", how
    rows = read_all(cluster.bootstrap(), "t")[0]
    assert [offset for offset, _ in rows] == list(range(14)), "written twice"


def test_min_insync_replicas_is_kept_by_brokers_that_live_and_changed_while_they_do(make):
    """Of a topic by its own value, of another by the default of all brokers; a client with acks=all is refused before anything is written, and goes on as soon as it may."""
    cluster = started(make(4, voters=3, auto_leader_rebalance_enable="false", min_insync_replicas=1))
    for name, own in (("own", {"min.insync.replicas": "3"}), ("default", {})):
        body = {"topics": [{"name": name, "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": 0, "brokerIds": [1, 2, 4]}],
                            "configs": [{"name": key, "value": value} for key, value in own.items()]}], "timeoutMs": 10000}
        assert ask(cluster.nodes[3], "CreateTopics", 7, body)["topics"][0]["errorCode"] == 0
        wait_isr(cluster, name, [1, 2, 4])

    def put(name, acks=-1):
        leader = parts_of(cluster.nodes[3], name)[0]["leaderId"]
        answer = ask(cluster.nodes[leader], "Produce", 9, {"acks": acks, "timeoutMs": 5000, "topicData": [{"name": name, "partitionData": [{"index": 0, "records": batch.build([b"x"])}]}]})
        row = answer["responses"][0]["partitionResponses"][0]
        if row["errorCode"] == 0:
            acknowledged[name].append(row["baseOffset"])
        return error(row), row["baseOffset"]

    def set_(kind, resource, value):
        row = {"resourceType": kind, "resourceName": resource, "configs": [{"name": "min.insync.replicas", "configOperation": 0 if value else 1, "value": value}]}
        assert ask(cluster.nodes[3], "IncrementalAlterConfigs", 1, {"resources": [row], "validateOnly": False})["responses"][0]["errorCode"] == 0
    topic, brokers, acknowledged = 2, 4, {"own": [], "default": []}
    for name in acknowledged:
        harness.until(lambda name=name: put(name) == ("NONE", 0), 20, f"{name}: acknowledged by three")
    cluster.kill(4)
    wait_isr(cluster, "own", [1, 2])
    wait_isr(cluster, "default", [1, 2])
    assert put("own")[0] == "NOT_ENOUGH_REPLICAS" and put("default") == ("NONE", 1)
    assert put("own", acks=1) == ("NONE", 1)       # what was refused was not written
    set_(brokers, "", "3")
    harness.until(lambda: put("default")[0] == "NOT_ENOUGH_REPLICAS", 10, "the default of all brokers")
    set_(topic, "own", "2")
    harness.until(lambda: put("own") == ("NONE", 2), 10, "the topic's own")
    set_(topic, "own", None)                       # back to the default
    harness.until(lambda: put("own")[0] == "NOT_ENOUGH_REPLICAS", 10, "the default again")
    cluster.start_one(4)
    for name, offsets in acknowledged.items():
        wait_isr(cluster, name, [1, 2, 4])
        harness.until(lambda name=name: put(name)[0] == "NONE", 20, f"{name}: three again")
        assert set(offsets) <= {offset for offset, _ in read_all(cluster.bootstrap(), name)[0]} and offsets == sorted(set(offsets))


def test_every_leader_tells_where_epochs_ended(make):
    """OffsetForLeaderEpoch is what clients find a cut by (KIP-320): each that leads says the same of all epochs before its own, whoever led then, and after a start of all."""
    cluster = started(make(auto_leader_rebalance_enable="false"))
    assert create(cluster.nodes[1], "t", partitions=1, replication=3, min_insync_replicas=2)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    ends = {}

    def tells():
        """Whoever leads, of what was before; and appends something of its own epoch."""
        part = parts_of(cluster.living()[0], "t")[0]
        epoch = part["leaderEpoch"]
        assert epoch not in ends
        with cluster.nodes[part["leaderId"]].connect(timeout_s=40) as c:
            admin = Admin(c)
            harness.until(lambda: admin.list_offset("t", -1)["errorCode"] == 0, 30, "the leader at work")
            told = {before: admin.epoch_end("t", before, current=epoch) for before in ends}
            assert {before: (error(row), row["leaderEpoch"], row["endOffset"]) for before, row in told.items()} == {before: ("NONE", before, end) for before, end in ends.items()}
            later = admin.epoch_end("t", epoch + 5)
            assert (error(later), later["leaderEpoch"], later["endOffset"]) == ("NONE", -1, -1)
            if epoch > 0:
                assert error(admin.epoch_end("t", epoch, current=epoch - 1)) == "FENCED_LEADER_EPOCH"
            values = [b"x"] * (3 + len(ends))
            ends[epoch] = admin.produce("t", *values) + len(values)
        return part["leaderId"]
    for order in ([1, 2, 3], [2, 3, 1], [3, 1, 2]):
        def leads(order=order):
            ask(cluster.nodes[1], "AlterPartitionReassignments", 0, {"timeoutMs": 10000, "topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "replicas": order}]}]})
            ask(cluster.nodes[1], "ElectLeaders", 2, {"electionType": 0, "topicPartitions": [{"topic": "t", "partitions": [0]}], "timeoutMs": 10000})
            return parts_of(cluster.nodes[1], "t")[0]["leaderId"] == order[0]
        harness.until(leads, 30, lambda: parts_of(cluster.nodes[1], "t"), 0.2)
        assert tells() == order[0]
    cluster.kill(3)
    harness.until(lambda: parts_of(cluster.living()[0], "t")[0]["leaderId"] in (1, 2), 30, "another leader")
    tells()
    cluster.start_one(3)
    wait_isr(cluster, "t", [1, 2, 3])
    for i in cluster.nodes:
        cluster.kill(i)
    started(cluster)
    wait_isr(cluster, "t", [1, 2, 3])
    tells()
    assert len(ends) == 5
    cluster.stop()


def test_who_waits_at_an_idle_end_sees_no_cut_when_leaders_change(make):
    """librdkafka asks the next leader where the epoch ended that ListOffsets told it: one in which nobody wrote. An answer that says it is unknown is "log truncation detected" to it, and the consumer begins anew."""
    cluster = started(make(auto_leader_rebalance_enable="false"))
    assert create(cluster.nodes[1], "t", partitions=1, replication=3)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    node = cluster.nodes[1]
    producer = Producer({"bootstrap.servers": cluster.bootstrap()})

    def put(value):
        producer.produce("t", value)
        assert producer.flush(20) == 0

    def lead(first):
        order = [first, *(i for i in cluster.nodes if i != first)]
        ask(node, "AlterPartitionReassignments", 0, {"timeoutMs": 10000, "topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "replicas": order}]}]})
        ask(node, "ElectLeaders", 2, {"electionType": 0, "topicPartitions": [{"topic": "t", "partitions": [0]}], "timeoutMs": 10000})
        return parts_of(node, "t")[0]["leaderId"] == first
    first = parts_of(node, "t")[0]["leaderId"]
    others = [i for i in cluster.nodes if i != first]
    put(b"before")
    harness.until(lambda: lead(others[0]), 30, lambda: parts_of(node, "t"), 0.2)
    stats, seen, errors = {}, [], []
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "g", "auto.offset.reset": "error", "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 300,
                         "statistics.interval.ms": 100, "stats_cb": lambda text: stats.update(json.loads(text))})
    consumer.assign([TopicPartition("t", 0, OFFSET_END)])

    def reads_from(leader):
        message = consumer.poll(0.1)
        if message is not None:
            (seen if message.error() is None else errors).append(message.value())
        part = stats.get("topics", {}).get("t", {}).get("partitions", {}).get("0", {})
        return errors != [] or (part.get("leader"), part.get("fetch_state")) == (leader, "active")
    harness.until(lambda: reads_from(others[0]), 30, lambda: stats.get("topics"))
    harness.until(lambda: lead(others[1]), 30, lambda: parts_of(node, "t"), 0.2)
    harness.until(lambda: reads_from(others[1]), 30, lambda: stats.get("topics"))
    assert (seen, errors) == ([], [])
    put(b"after")
    harness.until(lambda: reads_from(-2) or seen, 30, lambda: stats.get("topics"))
    assert (seen, errors) == ([b"after"], [])
    consumer.close()


def test_a_paused_leader_is_replaced_and_cannot_harm(make):
    cluster = started(make())
    assert create(cluster.nodes[1], "t", partitions=1, replication=3, min_insync_replicas=2)["errorCode"] == 0
    load = Load(cluster.bootstrap(), "t", **{"enable.idempotence": True, "socket.timeout.ms": 3000, "request.timeout.ms": 2000})
    harness.until(lambda: load.count() > 100, 30, lambda: f"acknowledgements: {load.count()}, {load.failed[:3]}")
    victim = parts_of(cluster.nodes[1], "t")[0]["leaderId"]
    cluster.pause(victim)
    before = load.count()
    harness.until(lambda: load.count() > before + 300, 40, lambda: f"acknowledgements after the pause: {load.count() - before}, {load.failed[:3]}")
    cluster.go_on(victim)
    wait_isr(cluster, "t", [1, 2, 3])
    load.stop()
    assert load.failed == []
    check_nothing_lost(load, read_all(cluster.bootstrap(), "t", 1), once=True)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_survive_the_death_of_their_coordinator(make, protocol):
    cluster = started(make())
    assert create(cluster.nodes[1], "t", partitions=2, replication=3, min_insync_replicas=2)["errorCode"] == 0
    load = Load(cluster.bootstrap(), "t")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False, "group.protocol": protocol,
                         **({"session.timeout.ms": 10000} if protocol == "classic" else {}), "reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 1000})
    consumer.subscribe(["t"])
    seen, committed = {0: [], 1: []}, {}

    def read(count):
        until = time.monotonic() + 60
        goal = sum(map(len, seen.values())) + count
        while sum(map(len, seen.values())) < goal:
            assert time.monotonic() < until, f"{sum(map(len, seen.values()))} of {goal} read"
            message = consumer.poll(1)
            if message is None or message.error() is not None:
                continue
            seen[message.partition()].append(message.offset())

    def commit():
        until = time.monotonic() + 40
        while True:
            try:
                for row in consumer.commit(asynchronous=False):
                    assert row.error is None, row
                    if row.offset >= 0:            # nothing was read of the others since
                        committed[row.partition] = row.offset
                return
            except Exception as error:
                assert time.monotonic() < until, error
                consumer.poll(0.1)
    read(100)
    commit()
    def assert_committed():
        again = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "g", "log_level": 0})
        rows = again.committed([TopicPartition("t", p) for p in committed], timeout=30)
        assert {row.partition: row.offset for row in rows} == committed
        again.close()
    with cluster.nodes[1].connect() as c:
        coordinator = c.ask("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["g"]})["coordinators"][0]["nodeId"]
    cluster.kill(coordinator)
    assert_committed()                             # what the one that died had acknowledged, before anything new is
    read(200)
    commit()
    load.stop()
    consumer.close()
    assert load.failed == [] and committed
    assert_committed()


def test_members_keep_their_place_when_their_coordinator_dies(make):
    """Whoever coordinates next knows the member, its generation and what it was given. A join that nobody has synced yet is not of the group, as with Kafka."""
    cluster = started(make())
    assert create(cluster.nodes[1], "t", partitions=2, replication=3, min_insync_replicas=2)["errorCode"] == 0

    def coordinator():
        with cluster.living()[0].connect() as c:
            return c.ask("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["g"]})["coordinators"][0]["nodeId"]

    def ask(api, version, body):
        """The answer of whoever coordinates by now and has read its shard."""
        def look():
            node = cluster.nodes.get(coordinator())
            if node is None or node.process is None:
                return None
            with node.connect(timeout_s=40) as c:
                answer = c.ask(api, version, body)
            return answer if error(answer) not in ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR") else None
        return harness.until(look, 60, f"an answer to {api}", 0.05)

    who = {"groupId": "g", "groupInstanceId": None}
    wish = {**who, "sessionTimeoutMs": 30000, "rebalanceTimeoutMs": 20000, "protocolType": "consumer", "protocols": [{"name": "range", "metadata": b"m"}]}
    who["memberId"] = ask("JoinGroup", 5, {**wish, "memberId": ""})["memberId"]
    wish["memberId"] = who["memberId"]
    who["generationId"] = ask("JoinGroup", 5, wish)["generationId"]
    given = [{"memberId": who["memberId"], "assignment": b"all"}]
    assert error(ask("SyncGroup", 3, {**who, "assignments": given})) == "NONE"
    for how in ("kill", "stop", "kill"):
        gone = coordinator()
        cluster.kill(gone) if how == "kill" else cluster.nodes[gone].stop()
        assert error(ask("Heartbeat", 3, who)) == "NONE", how
        assert ask("SyncGroup", 3, {**who, "assignments": []})["assignment"] == b"all", how
        cluster.start_one(gone)
        wait_isr(cluster, "t", cluster.nodes)
        assert error(ask("Heartbeat", 3, who)) == "NONE", how
    later = ask("JoinGroup", 5, wish)["generationId"]
    cluster.kill(coordinator())
    assert later > who["generationId"]
    assert error(ask("SyncGroup", 3, {**who, "generationId": later, "assignments": given})) == "ILLEGAL_GENERATION"
    assert error(ask("Heartbeat", 3, who)) == "NONE"


def test_transactions_survive_the_death_of_their_coordinator(make):
    cluster = started(make())
    assert create(cluster.nodes[1], "t", partitions=2, replication=3, min_insync_replicas=2)["errorCode"] == 0
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "transactional.id": "tx", "transaction.timeout.ms": 30000, "reconnect.backoff.max.ms": 500,
                         "topic.metadata.refresh.interval.ms": 1000})
    producer.init_transactions(60)
    committed = set()

    def transact(number, abort=False):
        producer.begin_transaction()
        for i in range(5):
            producer.produce("t", b"%d-%d" % (number, i), partition=i % 2)
        if abort:
            producer.abort_transaction(60)
            return
        producer.commit_transaction(60)
        committed.update(b"%d-%d" % (number, i) for i in range(5))
    for number in range(10):
        transact(number, abort=number % 3 == 2)
    with cluster.nodes[1].connect() as c:
        coordinator = c.ask("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": ["tx"]})["coordinators"][0]["nodeId"]
    producer.begin_transaction()
    for i in range(4):
        producer.produce("t", b"open-%d" % i, partition=i % 2)
    producer.flush(30)
    cluster.kill(coordinator)
    producer.commit_transaction(60)
    committed.update(b"open-%d" % i for i in range(4))
    for number in range(10, 20):
        transact(number, abort=number % 3 == 2)
    rows = read_all(cluster.bootstrap(), "t", 2)
    values = [value for part in rows.values() for _, value in part]
    assert sorted(values) == sorted(committed)


def isolated(cluster, topic):
    """(last stable offset, high watermark, values that a committed reader is given) of the one partition, from whoever leads; None while nobody says."""
    leader = parts_of(cluster.living()[0], topic)[0]["leaderId"]
    if leader not in cluster.nodes or not cluster.nodes[leader].alive():
        return None
    with cluster.nodes[leader].connect(timeout_s=40) as c:
        admin, seen, offset = Admin(c), [], 0
        ends = [admin.list_offset(topic, -1, isolation=level) for level in (1, 0)]
        if any(row["errorCode"] for row in ends):
            return None
        while offset < ends[0]["offset"]:
            part = admin.fetch(topic, offset, isolation=1)
            batches = batch.read(part["records"])
            if part["errorCode"] or not batches:
                return None
            assert part["lastStableOffset"] >= ends[0]["offset"], "it went back"
            aborted = {row["producerId"]: row["firstOffset"] for row in part["abortedTransactions"] or []}
            seen += [value for one in batches if not one.control and one.base_offset < aborted.get(one.producer_id, 1 << 62) for _, _, _, value in one.records]
            offset = batches[-1].base_offset + batches[-1].last_delta + 1
    return ends[0]["offset"], ends[1]["offset"], seen


def test_an_open_transaction_holds_committed_readers_at_every_leader_and_ends_at_its_timeout(make):
    """The last stable offset goes on where it was when the leader dies; and a transaction whose coordinator and producer are gone is ended by the next one, at its time."""
    cluster = started(make(auto_leader_rebalance_enable="false"))
    assert create(cluster.nodes[1], "t", partitions=1, replication=3, min_insync_replicas=2)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])

    def begins(name, values, timeout_ms):
        producer = Producer({"bootstrap.servers": ",".join(node.bootstrap for node in cluster.nodes.values()), "transactional.id": name, "transaction.timeout.ms": timeout_ms,
                             "reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 1000, "log_level": 0})
        producer.init_transactions(60)
        producer.begin_transaction()
        for value in values:
            producer.produce("t", value, partition=0)
        assert producer.flush(30) == 0
        return producer
    first = begins("first", [b"a0", b"a1"], 600000)
    first.commit_transaction(60)                   # offsets 0 and 1, its marker at 2
    held = begins("held", [b"b0", b"b1", b"b2"], 600000)
    for _ in range(2):
        victim = parts_of(cluster.living()[0], "t")[0]["leaderId"]
        assert harness.until(lambda: isolated(cluster, "t"), 30, "the leader at work") == (3, 6, [b"a0", b"a1"])
        cluster.kill(victim)
        harness.until(lambda of=victim: parts_of(cluster.living()[0], "t")[0]["leaderId"] not in (-1, of), 30, "another leader")
        assert harness.until(lambda: isolated(cluster, "t"), 30, "the next leader at work") == (3, 6, [b"a0", b"a1"])
        cluster.start_one(victim)
        wait_isr(cluster, "t", [1, 2, 3])
    held.commit_transaction(60)
    harness.until(lambda: isolated(cluster, "t") == (7, 7, [b"a0", b"a1", b"b0", b"b1", b"b2"]), 30, lambda: isolated(cluster, "t"))
    left = begins("left", [b"c0", b"c1"], 4000)
    with cluster.nodes[1].connect() as c:
        coordinator = c.ask("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": ["left"]})["coordinators"][0]["nodeId"]
    cluster.kill(coordinator)
    harness.until(lambda: (found := isolated(cluster, "t")) and found[0] == found[1] == 10, 60, lambda: isolated(cluster, "t"))
    assert isolated(cluster, "t")[2] == [b"a0", b"a1", b"b0", b"b1", b"b2"]
    del left


def ask(node, api, version, body):
    with node.connect(timeout_s=40) as c:
        return c.ask(api, version, body)


def test_leaders_and_replicas_move_at_an_operators_word(make):
    cluster = started(make(4, voters=3))
    assert create(cluster.nodes[1], "t", partitions=4, replication=2)["errorCode"] == 0
    load = Load(cluster.bootstrap(), "t", **{"enable.idempotence": True})
    harness.until(lambda: load.count() > 200, 30, lambda: f"acknowledgements: {load.count()}, {load.failed[:3]}")
    part = parts_of(cluster.nodes[1], "t")[0]
    away, stays = part["replicaNodes"]
    target = [next(i for i in cluster.nodes if i not in part["replicaNodes"]), stays]
    answer = ask(cluster.nodes[1], "AlterPartitionReassignments", 0, {"timeoutMs": 10000, "topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "replicas": target}]}]})
    assert answer["responses"][0]["partitions"][0]["errorCode"] == 0

    def moved():
        now = parts_of(cluster.nodes[2], "t")[0]
        return now["replicaNodes"] == target and set(now["isrNodes"]) == set(target) and now["leaderId"] in target
    harness.until(moved, 40, lambda: parts_of(cluster.nodes[2], "t")[0], 0.1)
    harness.until(lambda: ask(cluster.nodes[3], "ListPartitionReassignments", 0, {"timeoutMs": 10000, "topics": None})["topics"] == [], 10, "nothing on the move, there too")
    folder = next(p for p in (cluster.directory / f"node-{away}").rglob("t-1")) .parent / "t-0" if list((cluster.directory / f"node-{away}").rglob("t-1")) else None
    if folder is not None:
        harness.until(lambda: not folder.exists(), 20, "the folder of the replica that left")
    # the leader goes to the first replica when it is asked for, and stays where it is otherwise
    part = parts_of(cluster.nodes[1], "t")[1]
    first, second = part["replicaNodes"]
    cluster.kill(first)
    harness.until(lambda: parts_of(cluster.nodes[second], "t")[1]["leaderId"] == second, 30, "another leader")
    cluster.start_one(first)
    harness.until(lambda: set(parts_of(cluster.nodes[second], "t")[1]["isrNodes"]) == {first, second}, 40, "both in sync")
    answer = ask(cluster.nodes[second], "ElectLeaders", 2, {"electionType": 0, "topicPartitions": [{"topic": "t", "partitions": [1, 9]}], "timeoutMs": 10000})
    assert [p["errorCode"] for p in answer["replicaElectionResults"][0]["partitionResult"]] == [0, 3]
    harness.until(lambda: parts_of(cluster.nodes[second], "t")[1]["leaderId"] == first, 10, "the preferred leader")
    load.stop()
    assert load.failed == []
    check_nothing_lost(load, read_all(cluster.bootstrap(), "t", 4), once=True)



def test_a_replica_that_was_moved_away_from_a_broker_that_was_down_leaves_its_disk(make):
    cluster = started(make())
    for topic in ("t", "u"):
        placed = {"name": topic, "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": i, "brokerIds": [1, 2]} for i in range(2)]}
        assert ask(cluster.nodes[1], "CreateTopics", 7, {"topics": [placed], "timeoutMs": 10000})["topics"][0]["errorCode"] == 0
        wait_isr(cluster, topic, [1, 2])
    with cluster.nodes[1].connect() as c:
        for topic in ("t", "u"):
            for partition in range(2):
                Admin(c).wait_for_leader(topic, 2)
                harness.until(lambda: Admin(c).produce_raw(topic, batch.build([b"a"]), partition=partition)["errorCode"] == 0, 20, "written")
    folders = lambda: sorted(path.name for path in cluster.nodes[1].data.glob("[tu]-*"))
    assert folders() == ["t-0", "t-1", "u-0", "u-1"]
    cluster.kill(1)
    answer = ask(cluster.nodes[2], "AlterPartitionReassignments", 0, {"timeoutMs": 10000, "topics": [{"name": "t", "partitions": [{"partitionIndex": i, "replicas": [2, 3]} for i in range(2)]}]})
    assert [p["errorCode"] for p in answer["responses"][0]["partitions"]] == [0, 0]
    wait_isr(cluster, "t", [2, 3])
    harness.until(lambda: ask(cluster.nodes[3], "ListPartitionReassignments", 0, {"timeoutMs": 10000, "topics": None})["topics"] == [], 20, "moved")
    cluster.start_one(1)
    wait_isr(cluster, "u", [1, 2])
    harness.until(lambda: folders() == ["u-0", "u-1"], 20, folders)
    assert not list(cluster.nodes[1].data.glob("*-stray"))
    cluster.stop()

def test_consumers_read_from_the_replica_in_their_rack(make):
    cluster = make(**{"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"})
    for i, node in cluster.nodes.items():
        cluster.configure(node, **{"broker.rack": f"rack-{i}"})
    started(cluster)
    assert create(cluster.nodes[1], "t", partitions=1, replication=3)["errorCode"] == 0
    load = Load(cluster.bootstrap(), "t")
    harness.until(lambda: load.count() > 100, 30, lambda: f"acknowledgements: {load.count()}, {load.failed[:3]}")
    load.stop()
    leader = parts_of(cluster.nodes[1], "t")[0]["leaderId"]
    near = next(i for i in cluster.nodes if i != leader)

    def fetch(node, rack):
        answer = ask(cluster.nodes[node], "Fetch", 12, {"replicaId": -1, "maxWaitMs": 500, "minBytes": 1, "maxBytes": 1 << 20, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": -1,
                     "topics": [{"topic": "t", "partitions": [{"partition": 0, "currentLeaderEpoch": -1, "fetchOffset": 0, "lastFetchedEpoch": -1, "logStartOffset": -1,
                                                               "partitionMaxBytes": 1 << 20}]}], "forgottenTopicsData": [], "rackId": rack})
        row = answer["responses"][0]["partitions"][0]
        return row["errorCode"], row["preferredReadReplica"], len(row["records"] or b"")
    assert fetch(leader, f"rack-{near}") == (0, near, 0)
    assert fetch(leader, f"rack-{leader}")[:2] == (0, -1) and fetch(leader, "")[2] > 0
    error, _, bytes_there = fetch(near, f"rack-{near}")
    assert error == 0 and bytes_there > 0
    assert fetch(near, "")[0] == 6                 # NOT_LEADER_OR_FOLLOWER
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "near", "client.rack": f"rack-{near}", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    seen = []
    harness.until(lambda: [seen.append(m) for m in consumer.consume(500, 1) if m.error() is None] is not None and len(seen) >= load.count(), 40, lambda: f"{len(seen)} of {load.count()} read")
    consumer.close()


@pytest.mark.long
@pytest.mark.timeout(180)
def test_java_producers_and_tools_through_a_death(make):
    """Java's producer (idempotent, acks=all) loses nothing when a leader dies under it; Kafka's tools show the ISR, and move a replica."""
    need_java()
    cluster = started(make())
    assert create(cluster.nodes[1], "t", partitions=2, replication=3, min_insync_replicas=2)["errorCode"] == 0
    said = []
    thread = threading.Thread(target=lambda: said.append(java(
        TOOLS + "ProducerPerformance", "--topic", "t", "--num-records", 20000, "--record-size", 100, "--throughput", 2500, "--bootstrap-server", cluster.bootstrap(),
        "--command-property", "acks=all", "delivery.timeout.ms=60000", "request.timeout.ms=5000", "linger.ms=5", timeout_s=120, check=False)))
    thread.start()
    leader = parts_of(cluster.nodes[1], "t")[0]["leaderId"]
    reader = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "watch"})
    harness.until(lambda: reader.get_watermark_offsets(TopicPartition("t", 0), timeout=10)[1] > 2000, 60, "records")
    cluster.kill(leader)
    wait_isr(cluster, "t", {1, 2, 3} - {leader})
    cluster.start_one(leader)
    thread.join(120)
    assert said and "20000 records sent" in said[0], said
    wait_isr(cluster, "t", [1, 2, 3])
    reader.close()
    assert sum(len(rows) for rows in read_all(cluster.bootstrap(), "t", 2).values()) == 20000
    shown = java(TOOLS + "TopicCommand", "--bootstrap-server", cluster.bootstrap(), "--describe", "--topic", "t")
    isrs = [sorted(line.split("Isr:")[1].split()[0].split(",")) for line in shown.splitlines() if "Isr:" in line]
    assert isrs == [["1", "2", "3"]] * 2, shown


@pytest.mark.parametrize("follower", ["slow", "gone"])
def test_a_stop_waits_for_the_end_of_the_log(make, follower):
    """acks=1 and a stop right behind: a follower that hangs for 4 s costs nothing, one that never takes the record is named."""
    cluster = started(make(broker_session_timeout_ms=60000, ottla_shutdown_handover_timeout_ms=30000 if follower == "slow" else 5000))
    first = cluster.controller()
    leader, other = [i for i in cluster.nodes if i != first]
    with cluster.nodes[leader].connect(timeout_s=40) as c:
        topic = {"name": "t", "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": 0, "brokerIds": [leader, other, first]}]}
        assert c.ask("CreateTopics", 7, {"topics": [topic], "timeoutMs": 10000})["topics"][0]["errorCode"] == 0
        admin = Admin(c)
        harness.until(lambda: admin.produce_raw("t", batch.build([b"before"]), acks=-1)["errorCode"] == 0, 20, "a record in all replicas")
        wait_isr(cluster, "t", [1, 2, 3])
        cluster.pause(other)
        assert admin.produce_raw("t", batch.build([b"end"]), acks=1)["errorCode"] == 0
    stop = threading.Thread(target=cluster.nodes[leader].stop)
    stop.start()
    if follower == "slow":
        time.sleep(4)  # poll: this is how long it hangs
        cluster.go_on(other)
    stop.join(harness.STOP_S)
    log = cluster.nodes[leader].log()
    assert ("tails_not_replicated" in log) == (follower == "gone"), cluster.nodes[leader].log_tail(20)
    if follower == "slow":
        assert f"handed_over node={leader} complete=yes" in log
        harness.until(lambda: parts_of(cluster.nodes[first], "t")[0]["leaderId"] == other, 20, lambda: parts_of(cluster.nodes[first], "t"))
        assert [value for _, value in read_all(cluster.bootstrap(), "t")[0]][-1] == b"end"


@pytest.mark.long
def test_leaders_go_home(make):
    """By themselves, once their preferred replica is back in sync; not where that is switched off, where the share allows it, or too soon."""
    for settings, goes in [({"leader.imbalance.check.interval.seconds": 1}, True), ({"leader.imbalance.check.interval.seconds": 1, "auto.leader.rebalance.enable": "false"}, False),
                           ({"leader.imbalance.check.interval.seconds": 1, "leader.imbalance.per.broker.percentage": 100}, False),
                           ({"leader.imbalance.check.interval.seconds": 1, "ottla.leader.imbalance.unfenced.ms": 600000}, False)]:
        cluster = started(make(**settings))
        assert create(cluster.nodes[1], "t", partitions=6, replication=3)["errorCode"] == 0
        cluster.nodes[2].stop()
        cluster.start_one(2)
        wait_isr(cluster, "t", [1, 2, 3])

        def home():
            return all(p["leaderId"] == p["replicaNodes"][0] for p in parts_of(cluster.nodes[1], "t").values())
        if goes:
            harness.until(home, 20, lambda: parts_of(cluster.nodes[1], "t"), 0.1)
        else:
            harness.never(home, 5, "leaders moved")
        cluster.close()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
def test_rounds_of_deaths_pauses_and_restarts(make, seed):
    """Twelve rounds; at most one broker is away at a time, so that nothing acknowledged may be lost, written twice or out of order."""
    cluster = started(make())
    chance = random.Random(seed)
    assert create(cluster.nodes[1], "t", partitions=3, replication=3, min_insync_replicas=2)["errorCode"] == 0
    load = Load(cluster.bootstrap(), "t", **{"enable.idempotence": True, "socket.timeout.ms": 3000, "request.timeout.ms": 2000, "message.timeout.ms": 120000})
    for number in range(12):
        victim, how = chance.choice(list(cluster.nodes)), chance.choice(["kill", "pause", "stop"])
        before = load.count()
        print(f"round {number}: {how} {victim}, {before} acknowledged")
        if how == "kill":
            cluster.kill(victim)
        elif how == "pause":
            cluster.pause(victim)
        else:
            cluster.nodes[victim].stop()
        harness.until(lambda: load.count() > before + chance.randrange(50, 400), 60, lambda: f"{load.count() - before} acknowledged in round {number} ({how} {victim}), {load.failed[:3]}")
        if how == "pause":
            cluster.go_on(victim)
        else:
            cluster.start_one(victim)
        wait_isr(cluster, "t", [1, 2, 3])
    load.stop()
    assert load.failed == []
    check_nothing_lost(load, read_all(cluster.bootstrap(), "t", 3), once=True)
    print(f"acknowledged {load.count()}, longest gap {load.longest_gap:.2f} s")
