"""Replication, elections, groups and transactions at once for a few seconds: what the thread sanitizer is to see together (fetchers, append lanes, changes of roles, the coordinator's thread)."""
import random
import threading

import harness
import pytest
from admin import Admin
from cluster_load import Reader, Writer, check, create, parts_of, read_all, whole
from cluster_life_test import move
from confluent_kafka import Consumer, KafkaException, Producer
from replication_test import started


class Transactions(threading.Thread):
    """One short transaction after the other; what a death on the way costs them is other tests' matter."""

    def __init__(self, bootstrap, topic):
        super().__init__(daemon=True)
        self.topic, self.ended, self.done = topic, False, 0
        self.producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "linger.ms": 0, "log_level": 0, "reconnect.backoff.max.ms": 300, "transaction.timeout.ms": 60000})
        self.start()

    def run(self):
        try:
            self.producer.init_transactions(30)
            while not self.ended:
                self.producer.begin_transaction()
                for i in range(3):
                    self.producer.produce(self.topic, b"txn:%d:" % self.done, partition=i)
                self.producer.commit_transaction(30) if self.done % 4 else self.producer.abort_transaction(30)
                self.done += 1
        except KafkaException:
            return

    def stop(self):
        self.ended = True
        self.join(60)


@pytest.mark.smoke
@pytest.mark.timeout(240)
def test_replication_at_work_with_all_roles_changing(make):
    cluster = started(make())
    chance = random.Random(3)
    create(cluster.nodes[1], "t", 6, min_insync_replicas=2)
    create(cluster.nodes[1], "other", 6, min_insync_replicas=2, segment_bytes=1048576, ottla_durability="replicated+fsync")
    topics = ("t", "other")
    whole(cluster, topics)
    at = cluster.bootstrap()
    writers = [Writer(at, "t", "w"), Writer(at, "other", "o", **{"linger.ms": 0}), Writer(at, "t", "one", acks="1")]
    readers = [Reader(at, "t", 6), Reader(at, "other", 6)]
    create(cluster.nodes[2], "txn", 3, min_insync_replicas=2)
    transactions = Transactions(at, "txn")
    group = Consumer({"bootstrap.servers": at, "group.id": "g", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 100, "log_level": 0})
    group.subscribe(["t"])

    def load(count=100):
        before = writers[0].count()
        harness.until(lambda: group.poll(0.01) is not None and writers[0].count() > before + count, 60, lambda: f"load: {writers[0].count() - before}, {writers[0].failed[:3]}")
    load()
    for number in range(3):                        # leaders move, replicas leave and come back
        rows = parts_of(cluster.nodes[1], "t")
        move(cluster, number + 1, {"t": {p: chance.sample([1, 2, 3], 3) for _, p in rows}})
        with cluster.nodes[number + 1].connect(timeout_s=40) as c:
            c.ask("ElectLeaders", 2, {"electionType": 0, "topicPartitions": None, "timeoutMs": 10000})
        load()
    move(cluster, 1, {"other": {p: [1, 2] for p in range(6)}})
    move(cluster, 2, {"other": {p: [2, 3, 1] for p in range(6)}})
    cluster.kill(3)
    load()
    cluster.start_one(3)
    whole(cluster, topics)
    cluster.nodes[2].stop()
    cluster.start_one(2)
    whole(cluster, topics)
    leader = cluster.controller()
    cluster.pause(leader)
    cluster.controller(of=[i for i in cluster.nodes if i != leader], not_in=[leader])
    cluster.go_on(leader)
    whole(cluster, topics)
    load()
    with cluster.nodes[parts_of(cluster.nodes[1], "other")["other", 0]["leaderId"]].connect() as c:
        Admin(c).delete_records("other", 10)
    transactions.stop()
    group.close()
    for writer in writers:
        writer.stop()
        assert writer.failed == [], writer.failed[:3]
    rows = read_all(at, "t", 6)
    check(rows, [w for w in writers if w.topic == "t"], [readers[0].stop()], may_lose=lambda one: True)
    readers[1].stop()
    assert not readers[1].wrong, readers[1].wrong[:3]
    kept = read_all(at, "other", 6)                # but for what was deleted
    gone = [one for one in writers[1].acknowledged if one.offset is not None and (one.partition != 0 or one.offset >= 10) and kept[one.partition].get(one.offset) != one.value]
    assert not gone, f"{len(gone)} of {writers[1].count()} acknowledged records are gone, first {gone[0]}"
    assert transactions.done > 0 and all(w.acknowledged for w in writers), "who got nowhere has shown nothing"
    cluster.stop()
