"""kill -9 in storms of creations, deletions, DeleteRecords and appends over many segments; also during stops and starts.

OTTLA_KILL_ROUNDS  rounds (5), OTTLA_KILL_SEED  seed of the moments and of the load.
"""
import os
import random
import threading
import time

import pytest

import batch
from admin import Admin, error
from kill_test import no_complaints, recovery_leaves_no_complaints

ROUNDS = int(os.environ.get("OTTLA_KILL_ROUNDS", "5"))
SEED = int(os.environ.get("OTTLA_KILL_SEED", "1"))
SETTINGS = dict(log_segment_bytes="1048576", log_flush_offset_checkpoint_interval_ms="200",
                replica_high_watermark_checkpoint_interval_ms="200")
pytestmark = [pytest.mark.kill, pytest.mark.long, pytest.mark.timeout(180 + 30 * ROUNDS)]


class Topic:
    def __init__(self, name):
        self.name, self.there = name, False  # there: True, False, None when a request was cut off
        self.begin()

    def begin(self):
        self.acknowledged, self.sent, self.start, self.start_asked = {}, 0, 0, 0


class Worker:
    """One client with three topics of its own: whatever is acknowledged is noted, whatever was cut off is unknown."""

    def __init__(self, broker, name, number):
        self.broker, self.random = broker, random.Random(SEED * 100 + number)
        self.topics = [Topic(f"{name}-{number}-{i}") for i in range(3)]
        self.wrong = []

    def run(self, ending):
        while not ending.is_set():
            try:
                with self.broker.connect(timeout_s=5) as c:
                    while not ending.is_set():
                        self.step(Admin(c), self.random.choice(self.topics))
            except (OSError, EOFError):
                time.sleep(0.01)  # poll: until the server is back

    def step(self, admin, topic):
        if topic.there is None:
            topic.there = admin.describe(topic.name)["errorCode"] == 0
        elif not topic.there:
            topic.begin()
            topic.there = None
            topic.there = error(admin.create(topic.name, check=False)) in ("NONE", "TOPIC_ALREADY_EXISTS")
        elif self.random.random() < 0.03:
            topic.there = None
            topic.there = error(admin.delete(topic.name, check=False)) != "NONE"
        elif self.random.random() < 0.03 and topic.acknowledged:
            before = max(topic.acknowledged) // 2
            topic.start_asked = max(topic.start_asked, before)
            answer = admin.delete_records(topic.name, before)
            if answer["errorCode"] == 0:
                topic.start = max(topic.start, answer["lowWatermark"])
        else:
            self.append(admin, topic)

    def append(self, admin, topic):
        topic.sent += 1
        value = b"%d:" % topic.sent + self.random.randbytes(self.random.randrange(10, 60000))
        answer = admin.produce_raw(topic.name, batch.build([value]), acks=self.random.choice([1, -1]))
        if answer["errorCode"] == 0:
            if answer["baseOffset"] in topic.acknowledged:
                self.wrong.append(f"{topic.name}: offset {answer['baseOffset']} was given twice")
            topic.acknowledged[answer["baseOffset"]] = value


def check(admin, topic, names):
    assert topic.there is None or topic.there == (topic.name in names), f"{topic.name}: {topic.there}"
    if topic.name not in names or topic.there is False:
        return
    start = admin.list_offset(topic.name, -2)["offset"]
    assert topic.start <= start <= topic.start_asked, (topic.name, start)
    stored = {r[0]: r[3] for r in admin.records(topic.name, start)}
    lost = [o for o, value in topic.acknowledged.items() if o >= start and stored.get(o) != value]
    assert not lost, f"{topic.name}: {len(lost)} of {len(topic.acknowledged)} acknowledged records lost, first {lost[0]}"
    numbers = [int(value.split(b":")[0]) for _, value in sorted(stored.items())]
    assert numbers == sorted(set(numbers)), f"{topic.name}: not in order, once"


@pytest.mark.parametrize("mode", ["pwritev", "mmap"])
def test_a_storm_of_topics_and_kills_loses_nothing_acknowledged(own_broker, tmp_path, name, mode):
    moments = random.Random(SEED)
    broker = own_broker(log_append_io=mode, **SETTINGS)
    workers = [Worker(broker, name[-40:], n) for n in range(4)]
    for number in range(ROUNDS):
        ending = threading.Event()
        threads = [threading.Thread(target=w.run, args=(ending,)) for w in workers]
        for t in threads:
            t.start()
        time.sleep(0.5 + moments.random())  # poll: any moment of the load
        if moments.random() < 0.4:
            broker.process.terminate()
            time.sleep(moments.random() * 0.06)  # poll: any moment of the stop
        broker.kill()
        ending.set()
        for t in threads:
            t.join(30)
        for _ in range(moments.choice([0, 0, 3])):
            broker.start(wait=False)
            time.sleep(moments.random() * 0.15)  # poll: any moment of the start
            broker.kill()
        if number == ROUNDS - 1 or number % 10 == 5:
            recovery_leaves_no_complaints(broker, tmp_path / "copy")
        broker.start()
        with broker.connect(timeout_s=30) as c:
            names = {t["name"] for t in Admin(c).metadata(everything=True)["topics"]}
            for w in workers:
                assert not w.wrong, w.wrong[:3]
                for topic in w.topics:
                    check(Admin(c), topic, names)
    assert sum(len(t.acknowledged) for w in workers for t in w.topics) > 0
    broker.stop()
    no_complaints(broker)
