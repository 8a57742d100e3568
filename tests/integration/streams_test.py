"""Kafka Streams on top: word count with exactly_once_v2, through kills of the server and of the application."""
import subprocess
import threading
import time
from collections import Counter

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from admin import Admin
from harness import TOP, until
from java import JARS, command, need_java

WORDS = "the quick brown fox jumps over the lazy dog and runs away from the hunter".split()


class WordCount:
    def __init__(self, broker, application, source, target, state):
        need_java()
        if not list(JARS.glob("kafka-streams-*.jar")):
            pytest.skip("no kafka-streams in build/jars (./dev setup)")
        java = command(str(TOP / "tests" / "interop" / "java" / "WordCount.java"), broker.bootstrap, application, source, target, state)
        self.process = subprocess.Popen(java, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(line.strip() for line in self.process.stdout), daemon=True)
        self.reader.start()

    def wait_running(self):
        until(lambda: "RUNNING" in self.lines or self.process.poll() is not None, 90, lambda: self.lines)
        assert "RUNNING" in self.lines, self.lines

    def stop(self):
        self.process.stdin.close()
        self.process.wait(240)
        self.reader.join(10)
        return self.lines

    def kill(self):
        self.process.kill()
        self.process.wait(120)


def counts(broker, topic, partitions):
    """The last count of each word that read_committed shows, and how often each (word, count) came."""
    last, seen = {}, Counter()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "isolation.level": "read_committed", "enable.auto.commit": False,
                         "enable.partition.eof": True, "log_level": 2})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    ended, end = set(), time.monotonic() + 30
    while len(ended) < partitions and time.monotonic() < end:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
            continue
        word, count = message.key().decode(), int.from_bytes(message.value(), "big")
        last[word] = count
        seen[word, count] += 1
    consumer.close()
    return last, seen


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.timeout(600)
def test_word_count_is_exact_through_kills(own_broker, name, tmp_path):
    broker = own_broker(group_initial_rebalance_delay_ms=100)
    source, target = name + "-in", name + "-out"
    with broker.connect() as connection:
        admin = Admin(connection)
        admin.create(source, partitions=2)
        admin.create(target, partitions=2)
    app = WordCount(broker, name, source, target, tmp_path / "state")
    app.wait_running()
    lines = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 2, "linger.ms": 5})
    expected = Counter()
    for number in range(600):
        line = [WORDS[(number * 7 + i) % len(WORDS)] for i in range(5)]
        expected.update(line)
        lines.produce(source, value=" ".join(line), partition=number % 2)
        lines.poll(0.02)
        if number in (150, 400):
            broker.kill()
            broker.start()
        if number == 280:
            app.kill()
            app = WordCount(broker, name, source, target, tmp_path / "state")
    assert lines.flush(60) == 0
    until(lambda: counts(broker, target, 2)[0] == expected, 120, lambda: (counts(broker, target, 2)[0], expected, app.lines), step_s=2)
    told = app.stop()
    assert "CLOSED" in told, told
    last, seen = counts(broker, target, 2)
    assert last == expected
    assert set(seen.values()) == {1}, "a count told twice"
    assert all(seen[word, n] for word in expected for n in range(1, expected[word] + 1)), "a count left out"
