"""Topics that come and go, and come again by the same name, while brokers are killed, stopped and paused: what acks=all acknowledged is there as long as its topic is, nothing of a topic that was
there before by that name, and nothing of one that is gone stays on a disk.

OTTLA_CLUSTER_ROUNDS  a third of these rounds is made (12), OTTLA_CLUSTER_SEED  seed of what happens and when.
"""
import os
import random
import threading
import time

import batch
import harness
import pytest
from admin import Admin
from cluster_load import parts_of, whole
from cluster_test import topics_of
from heal_test import log_bytes
from replication_test import read_all, started

ROUNDS = (int(os.environ.get("OTTLA_CLUSTER_ROUNDS", "12")) + 2) // 3
SEED = int(os.environ.get("OTTLA_CLUSTER_SEED", "1"))
GOING = (OSError, EOFError)
pytestmark = [pytest.mark.kill, pytest.mark.cluster, pytest.mark.timeout(240 + 30 * ROUNDS)]


class Topic:
    """One name after the other: a name is used again when its topic is known to be gone, and left alone for ever once nobody can say what became of a request."""

    def __init__(self, stem):
        self.stem, self.names, self.lives, self.again = stem, 0, 0, 0
        self.new_name()

    def new_name(self):
        self.names += 1
        self.name, self.id, self.used = f"{self.stem}-{self.names}", None, False

    def begin(self, topic_id):
        self.id, self.acknowledged, self.leader = topic_id, {}, None
        self.lives += 1
        self.again += self.used
        self.used = True

    def value(self, number):
        return b"%s/%d:%d:" % (self.name.encode(), self.lives, number)


class Worker(threading.Thread):
    def __init__(self, cluster, number):
        super().__init__(daemon=True)
        self.cluster, self.chance, self.ended, self.failure = cluster, random.Random(SEED * 100 + number), False, None
        self.topics = [Topic(f"s{number}-{i}") for i in range(2)]
        self.sent = self.acknowledged = self.made = self.deleted = 0
        self.start()

    def run(self):
        try:
            while not self.ended:
                self.step(self.chance.choice(self.topics))
                time.sleep(0.002)  # poll: the pace
        except Exception as e:  # told by stop()
            self.failure = e

    def ask(self, of, act):
        """What act(admin) says there, None when the connection went."""
        try:
            with self.cluster.nodes[of].connect(timeout_s=5) as c:
                return act(Admin(c))
        except GOING:
            return None

    def step(self, topic):
        anybody = self.chance.choice(list(self.cluster.nodes))
        if topic.id is None:
            self.create(topic, anybody)
        elif self.chance.random() < 0.02:
            self.delete(topic, anybody)
        else:
            self.append(topic, anybody)

    def create(self, topic, of):
        body = {"topics": [{"name": topic.name, "numPartitions": 1, "replicationFactor": 3, "configs": [{"name": "min.insync.replicas", "value": "2"}]}], "timeoutMs": 4000}
        row = self.ask(of, lambda admin: admin.connection.ask("CreateTopics", 7, body)["topics"][0])
        if row is None or row["errorCode"] != 0:
            topic.new_name()
            return
        topic.begin(row["topicId"])
        self.made += 1

    def delete(self, topic, of):
        row = self.ask(of, lambda admin: admin.delete(topic.name, check=False))
        if row is None or row["errorCode"] != 0:
            topic.new_name()
        topic.id = None
        self.deleted += row is not None and row["errorCode"] == 0

    def append(self, topic, anybody):
        if topic.leader is None:
            told = self.ask(anybody, lambda admin: admin.describe(topic.name))
            if told is None or told["errorCode"] != 0 or told["topicId"] != topic.id or told["partitions"][0]["leaderId"] not in self.cluster.nodes:
                return
            topic.leader = told["partitions"][0]["leaderId"]
        self.sent += 1
        value = topic.value(self.sent)
        row = self.ask(topic.leader, lambda admin: admin.produce_raw(topic.name, batch.build([value]), version=13, topic_id=topic.id))
        if row is None or row["errorCode"] != 0:
            topic.leader = None
            return
        assert row["baseOffset"] not in topic.acknowledged, f"{topic.name}: offset {row['baseOffset']} was given twice"
        topic.acknowledged[row["baseOffset"]] = value
        self.acknowledged += 1

    def stop(self):
        self.ended = True
        self.join(60)
        assert self.failure is None, self.failure


def kill(cluster, chance):
    some = chance.sample(list(cluster.nodes), chance.choice([1, 1, 1, 2, 3]))
    for one in some:
        cluster.kill(one)
    return lambda: [cluster.start_one(one, wait=False) for one in some]


def stop(cluster, chance):
    one = chance.choice(list(cluster.nodes))
    cluster.nodes[one].stop()
    return lambda: cluster.start_one(one, wait=False)


def pause(cluster, chance):
    one = chance.choice(list(cluster.nodes))
    cluster.pause(one)
    return lambda: cluster.go_on(one)


def check(cluster, topic):
    rows = dict(read_all(cluster.bootstrap(), topic.name)[0])
    lost = [offset for offset, value in topic.acknowledged.items() if rows.get(offset) != value]
    assert not lost, f"{topic.name}: {len(lost)} of {len(topic.acknowledged)} acknowledged records are gone, first {lost[0]}: {topic.acknowledged[lost[0]]}, found {rows.get(lost[0])}"
    foreign = [value for value in rows.values() if not value.startswith(topic.value(0)[:-2])]
    assert not foreign, f"{topic.name}: of another topic: {foreign[:3]}"
    numbers = [int(value.split(b":")[1]) for _, value in sorted(rows.items())]
    assert numbers == sorted(set(numbers)) and sorted(rows) == list(range(len(rows))), f"{topic.name}: not in order, once"


def folders(node):
    return {path.name for path in node.data.glob("s*-*-*-0") if path.is_dir()}


def test_topics_that_come_and_go_keep_what_was_acknowledged(make, capsys):
    cluster, chance = started(make()), random.Random(SEED)
    workers = [Worker(cluster, number) for number in range(3)]

    def grow(by):
        before = sum(w.acknowledged for w in workers)
        harness.until(lambda: any(w.failure for w in workers) or sum(w.acknowledged for w in workers) > before + by, 90,
                      lambda: f"acknowledgements: {sum(w.acknowledged for w in workers) - before}; {[(t.name, t.id, t.leader) for w in workers for t in w.topics]}")
        assert not any(w.failure for w in workers), [w.failure for w in workers]
    try:
        grow(100)
        for number in range(ROUNDS):
            fault = chance.choice([kill, kill, stop, pause])
            undo = fault(cluster, chance)
            time.sleep(chance.random() * 4)  # poll: any moment
            undo()
            harness.until(lambda: all(node.ready() for node in cluster.nodes.values()), harness.READY_S, "all are there")
            print(f"round {number} {fault.__name__}: {[(w.acknowledged, w.made, w.deleted) for w in workers]}")
            grow(100)
        harness.until(lambda: any(w.failure for w in workers) or sum(t.again for w in workers for t in w.topics) > 0, 60, "a name that is used again")
        for worker in workers:
            worker.stop()
    finally:
        for worker in workers:
            worker.ended = True
    topics = [t for w in workers for t in w.topics if t.id is not None]
    assert topics
    whole(cluster, [t.name for t in topics])
    for topic in topics:
        assert parts_of(cluster.nodes[1], topic.name)[topic.name, 0]["errorCode"] == 0
        check(cluster, topic)
    there = {f"{name}-0" for name in topics_of(cluster.nodes[1]) if name.startswith("s")}
    harness.until(lambda: all(folders(node) <= there for node in cluster.nodes.values()), 60, lambda: f"of topics that are gone: {[folders(node) - there for node in cluster.nodes.values()]}", 0.2)
    cluster.stop()
    for topic in topics:
        logs = [log_bytes(node, topic.name) for node in cluster.nodes.values()]
        assert len(logs[0]) == 1 and logs[0] == logs[1] == logs[2], f"{topic.name}: replicas differ"
    made, deleted = sum(w.made for w in workers), sum(w.deleted for w in workers)
    again = sum(t.again for w in workers for t in w.topics)
    with capsys.disabled():
        print(f"\n{ROUNDS} rounds: {sum(w.acknowledged for w in workers)} acknowledged in {made} topics, {deleted} of them deleted, {again} by a name that was there before")
