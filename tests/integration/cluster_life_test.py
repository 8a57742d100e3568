"""What operators do to a cluster that works: restarts one after the other, growth from one to three to five brokers. Producers and readers go on, and clients are told nothing but what they try again after."""
import threading
import time

import batch
import harness
import pytest
import wire
from admin import NAMES
from cluster_load import PASSING, Reader, Writer, check, create, parts_of, read_all, whole
from cluster_ops_test import leaders, rest
from cluster_test import add_voter, topics_of, voters
from confluent_kafka import Consumer, TopicPartition
from replication_test import started


def retriable():
    rows = [row.split("\t") for row in (wire.SCHEMA.parent / "errors.txt").read_text().splitlines() if not row.startswith("#")]
    return {row[1] for row in rows if row[2] == "yes"}


class Plain(threading.Thread):
    """A client without a library: finds the leader, writes with acks=all, and notes each error code that it is told."""

    def __init__(self, cluster, topic):
        super().__init__(daemon=True)
        self.cluster, self.topic, self.codes, self.acknowledged, self.ended, self.failure = cluster, topic, {}, 0, False, None
        self.start()

    def run(self):
        turn = 0
        while not self.ended:
            turn += 1
            try:
                node = self.cluster.living()[turn % len(self.cluster.living())]
                row = parts_of(node, self.topic).get((self.topic, 0))
                if row is None or row["leaderId"] < 0:
                    time.sleep(0.02)  # poll
                    continue
                with self.cluster.nodes[row["leaderId"]].connect(timeout_s=10) as c:
                    self.write(c)
            except (OSError, EOFError, ZeroDivisionError, IndexError):
                time.sleep(0.02)  # poll: a closed connection is no error of the protocol
            except Exception as e:  # told by stop()
                self.failure = e
                return

    def write(self, c):
        while not self.ended:
            answer = c.ask("Produce", 9, {"acks": -1, "timeoutMs": 5000, "topicData": [{"name": self.topic, "partitionData": [{"index": 0, "records": batch.build([b"plain:0:"])}]}]})
            code = answer["responses"][0]["partitionResponses"][0]["errorCode"]
            if code != 0:
                self.codes[NAMES[code]] = self.codes.get(NAMES[code], 0) + 1
                return
            self.acknowledged += 1
            time.sleep(0.01)  # poll: the pace

    def stop(self):
        self.ended = True
        self.join(30)
        assert self.failure is None, self.failure
        return self


def given(group):
    """Was a consumer given a record? What else it is told must be something that it tries again after."""
    message = group.poll(0.01)
    if message is not None and message.error() is not None:
        assert message.error().code() in PASSING or NAMES.get(message.error().code()) in retriable(), message.error()
    return message is not None and message.error() is None


def assert_fetched_until_handed_over(cluster, stopped):
    """Nobody was refused what the one that stopped had yet to hand over: lines begin with their time."""
    over = next(line for line in reversed(cluster.nodes[stopped].log().splitlines()) if "handed_over" in line)
    begun = next(line for line in reversed(cluster.nodes[stopped].log().splitlines()) if "server stopping" in line)
    failed = [line for node in cluster.nodes.values() for line in node.log().splitlines() if f"fetch_failed leader={stopped} " in line and begun < line < over]
    assert not failed, f"while {begun} … {over}: {failed}"


@pytest.mark.timeout(180)
def test_a_rolling_restart_costs_no_record_and_no_error(make):
    cluster = started(make())
    for topic in ("all", "one"):
        create(cluster.nodes[1], topic, 6, min_insync_replicas=2)
    create(cluster.nodes[1], "plain", 1, min_insync_replicas=2)
    topics = ("all", "one", "plain")
    whole(cluster, topics)
    at = cluster.bootstrap()
    writers = [Writer(at, "all", "all"), Writer(at, "one", "one", acks="1")]
    readers = [Reader(at, topic, 6) for topic in ("all", "one")]
    plain = Plain(cluster, "plain")
    group = Consumer({"bootstrap.servers": at, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0})
    group.subscribe(["all"])
    for i in cluster.nodes:
        before = [w.count() for w in writers]
        harness.until(lambda: all(w.count() > b + 300 for w, b in zip(writers, before)) and given(group), 40, "load between restarts")
        cluster.nodes[i].stop()
        assert f"handed_over node={i} complete=yes" in cluster.nodes[i].log()
        assert_fetched_until_handed_over(cluster, i)
        cluster.start_one(i)
        whole(cluster, topics)
    harness.until(lambda: group.commit(asynchronous=False), 30, "a commit")
    group.close()
    for writer in writers:
        writer.stop()
    plain.stop()
    assert plain.acknowledged > 100 and set(plain.codes) <= retriable(), plain.codes
    for writer, reader in zip(writers, readers):
        assert writer.failed == [], writer.failed[:5]
        rows = read_all(at, writer.topic, 6)
        harness.until(lambda: reader.wrong or reader.count() >= sum(map(len, rows.values())), 30, "the reader")
        assert check(rows, [writer], [reader.stop()]) == [], "acks=1 lost records to a restart"
    cluster.stop()


def move(cluster, through, plan):
    """{topic: {partition: replicas}}: moved, and all in sync."""
    body = {"timeoutMs": 10000, "topics": [{"name": t, "partitions": [{"partitionIndex": p, "replicas": r} for p, r in rows.items()]} for t, rows in plan.items()]}
    with cluster.nodes[through].connect(timeout_s=40) as c:
        answer = c.ask("AlterPartitionReassignments", 0, body)
    assert answer["errorCode"] == 0 and all(p["errorCode"] == 0 for t in answer["responses"] for p in t["partitions"]), answer

    def there():
        rows = parts_of(cluster.nodes[through], *plan)
        return all(rows.get((t, p), {}).get("replicaNodes") == r and set(rows[t, p]["isrNodes"]) == set(r) for t, parts in plan.items() for p, r in parts.items())
    harness.until(there, 90, lambda: f"moved: {parts_of(cluster.nodes[through], *plan)}", 0.1)


def spread(cluster, through, ids, topics):
    """Three replicas of each partition over these brokers, leaders in turn."""
    rows = parts_of(cluster.nodes[through], *topics)
    plan = {}
    for number, (topic, index) in enumerate(sorted(rows)):
        plan.setdefault(topic, {})[index] = [ids[(number + k) % len(ids)] for k in range(3)]
    move(cluster, through, plan)


@pytest.mark.timeout(240)
def test_one_broker_grows_to_three_and_to_five_under_load(make):
    cluster = make(5)
    cluster.configure(cluster.nodes[1], **{"coordinator.voters": ""})          # it began alone
    for i in (2, 3, 4, 5):
        cluster.configure(cluster.nodes[i], **{"coordinator.voters": "", "coordinator.join": f"1@{cluster.place(1)}"})
    cluster.start_one(1)
    create(cluster.nodes[1], "t", 4, replication=1)
    writer, reader = Writer(cluster.bootstrap(), "t", "w"), Reader(cluster.bootstrap(), "t", 4)
    group = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0})
    group.subscribe(["t"])
    harness.until(lambda: writer.count() > 200 and given(group), 30, "load")
    committed = {row.partition: row.offset for row in group.commit(asynchronous=False)}
    for new in ((2, 3), (4, 5)):
        for i in new:
            cluster.start_one(i)
        for i in new:
            answer = add_voter(cluster.nodes[i], i)
            assert answer["errorCode"] == 0, f"{i}: {answer}\n{cluster.nodes[i].log_tail(20)}"
        cluster.wait_state(new[-1], "running", of=[1])
        ids = [node.id for node in cluster.living()]
        assert voters(cluster.nodes[1]) == set(ids)
        spread(cluster, new[0], ids, [t for t in topics_of(cluster.nodes[1]) if t != "__ottla_events"])
        before = writer.count()
        harness.until(lambda: writer.count() > before + 200, 40, lambda: f"load on {ids}: {writer.failed[:3]}")
    assert {i for p in parts_of(cluster.nodes[5], "t").values() for i in p["replicaNodes"]} == {1, 2, 3, 4, 5}
    group.close()
    for victim in (1, 2):                          # the first one is not missed, nor one more: five vote
        cluster.kill(victim)
        cluster.controller(of=[3, 4, 5], not_in=range(1, victim + 1))
        harness.until(lambda: all(p["leaderId"] in (3, 4, 5) for p in parts_of(cluster.nodes[4], "t").values()) if victim == 2 else True, 40, "leaders among the living")
        before = writer.count()
        harness.until(lambda: writer.count() > before + 200, 60, lambda: f"load without {victim}: {writer.count() - before}, {writer.failed[:3]}")
    again = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "g"})
    rows = again.committed([TopicPartition("t", p) for p in committed], timeout=30)
    assert {row.partition: row.offset for row in rows} == committed
    again.close()
    writer.stop()
    assert writer.failed == []
    rows = read_all(cluster.bootstrap(), "t", 4)
    harness.until(lambda: reader.wrong or reader.count() >= sum(map(len, rows.values())), 30, "the reader")
    check(rows, [writer], [reader.stop()])


@pytest.mark.timeout(180)
def test_a_broker_is_emptied_under_load_and_forgotten(make):
    cluster = started(make(4, voters=3))
    create(cluster.nodes[1], "t", 4, assignments=[[4, 1, 2], [1, 4, 3], [2, 3, 4], [4, 3, 1]], min_insync_replicas=2)
    whole(cluster, ["t"])
    at = cluster.bootstrap()
    writers, reader = [Writer(at, "t", "all"), Writer(at, "t", "one", acks="1")], Reader(at, "t", 4)
    harness.until(lambda: all(w.count() > 200 for w in writers), 40, "load")

    def forget():
        with cluster.nodes[2].connect(timeout_s=40) as c:
            return c.ask("UnregisterBroker", 0, {"brokerId": 4})["errorCode"]
    assert forget() != 0                           # it lives, and holds what nobody may forget
    spread(cluster, 1, [1, 2, 3], [t for t in topics_of(cluster.nodes[1]) if t != "__ottla_events"])
    before = [w.count() for w in writers]
    harness.until(lambda: all(w.count() > b + 200 for w, b in zip(writers, before)), 40, "load without it")
    cluster.nodes[4].stop()
    cluster.wait_state(4, "fenced")
    assert forget() == 0
    del cluster.nodes[4]
    whole(cluster, ["t"])
    before = [w.count() for w in writers]
    harness.until(lambda: all(w.count() > b + 200 for w, b in zip(writers, before)), 40, "load behind it")
    for writer in writers:
        assert writer.stop().failed == [], writer.failed[:3]
    rows = read_all(cluster.bootstrap(), "t", 4)
    harness.until(lambda: reader.wrong or reader.count() >= sum(map(len, rows.values())), 30, "the reader")
    check(rows, writers, [reader.stop()])
    cluster.stop()


@pytest.mark.timeout(240)
def test_leaders_that_are_moved_lose_nothing_that_acks_1_acknowledged(make):
    """Drains, elections and reassignments, again and again, while nothing but a leader's own log vouches for what is acknowledged."""
    cluster, parts = started(make(auto_leader_rebalance_enable="false")), 6
    create(cluster.nodes[1], "one", parts, min_insync_replicas=2)
    whole(cluster, ["one"])
    at = cluster.bootstrap()
    writers = [Writer(at, "one", f"w{i}", acks="1", pace_s=0.001, **{"linger.ms": i}) for i in range(3)]
    led = set()

    def loaded():
        led.add(tuple(sorted(leaders(cluster.nodes[1], "one").items())))
        before = [w.count() for w in writers]
        harness.until(lambda: all(w.count() > b + 100 for w, b in zip(writers, before)), 40, lambda: f"load: {[w.failed[:2] for w in writers]}")

    def home():
        items = rest(cluster.nodes[1], "POST", "/v1/elections", {"type": "preferred", "dry_run": False}, expect=(200, 207))[1]["items"]
        assert all(i["error"] is None for i in items), items
        rows = parts_of(cluster.nodes[1], "one")
        harness.until(lambda: all(p["leaderId"] == p["replicaNodes"][0] for p in parts_of(cluster.nodes[1], "one").values()), 20, lambda: f"at home: {rows}")
    for turn in range(6):
        drained = 1 + turn % 3
        loaded()
        rest(cluster.nodes[1], "PUT", f"/v1/brokers/{drained}/maintenance", expect=(200, 202))
        harness.until(lambda of=drained: of not in leaders(cluster.nodes[1], "one").values(), 30, lambda: f"drained: {leaders(cluster.nodes[1], 'one')}")
        loaded()
        rest(cluster.nodes[1], "DELETE", f"/v1/brokers/{drained}/maintenance", expect=204)
        home()
        loaded()
        # one replica fewer, and it is the leader that goes; then all three again, another one preferred
        move(cluster, 1, {"one": {p: [1 + (p + turn + k) % 3 for k in (1, 2)] for p in range(parts)}})
        loaded()
        move(cluster, 1, {"one": {p: [1 + (p + turn + k) % 3 for k in (2, 0, 1)] for p in range(parts)}})
        home()
    for writer in writers:
        assert writer.stop().failed == [], writer.failed[:3]
    assert len(led) > 6
    assert check(read_all(at, "one", parts), writers) == []
    cluster.stop()
