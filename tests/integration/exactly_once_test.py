"""Exactly once in, exactly once out: transactional producers while the server is killed again and again, and what read_committed readers find afterwards."""
import random
import subprocess
import threading
import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from admin import Admin
from harness import TOP, until
from java import command, need_java

PARTITIONS = 3


class Writer(threading.Thread):
    """One transactional id: transactions of a few records over the partitions; remembers what became of each."""

    def __init__(self, broker, topic, number, stop):
        super().__init__(daemon=True)
        self.broker, self.topic, self.number, self.stop = broker, topic, number, stop
        self.fates = {}                        # transaction -> (fate, values)
        self.random = random.Random(number)
        self.failure = None

    def producer(self):
        made = Producer({"bootstrap.servers": self.broker.bootstrap, "transactional.id": f"{self.topic}-{self.number}", "linger.ms": 0,
                         "transaction.timeout.ms": 10000, "log_level": 2, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50})
        until(lambda: self.begin(made), 60, "init_transactions")
        return made

    @staticmethod
    def begin(made):
        try:
            made.init_transactions(5)
            return True
        except KafkaException as e:
            if not e.args[0].retriable():
                raise
            return False

    def settle(self, made, act):
        """Commit or abort, again while that may help: True when it is done."""
        for _ in range(60):
            try:
                act(5)
                return True
            except KafkaException as e:
                if not e.args[0].retriable():
                    raise
        return False

    def give_up(self, made, asked):
        """Abort after an error: the producer to go on with, and the fate. asked: a commit was asked for, which may have been decided although librdkafka had no answer that it could use;
        the abort is then refused as the opposite of what was (as Kafka does before version 2), and that is the end of this producer."""
        try:
            return made, "aborted" if self.settle(made, made.abort_transaction) else "unknown"
        except KafkaException as e:
            if not asked or e.args[0].code() != KafkaError.INVALID_TXN_STATE:
                raise
            return self.producer(), "unknown"

    def run(self):
        try:
            self.work()
        except Exception as e:  # told by the test
            self.failure = e

    def work(self):
        made, count = self.producer(), 0
        while not self.stop.is_set():
            count += 1
            name = f"{self.number}-{count}"
            values = [(self.random.randrange(PARTITIONS), f"{name}-{i}".encode()) for i in range(self.random.randint(1, 8))]
            commit = self.random.random() < 0.8
            fate = "aborted"
            try:
                made.begin_transaction()
                for partition, value in values:
                    made.produce(self.topic, value=value, partition=partition)
                if commit:
                    fate = "unknown"
                    fate = "committed" if self.settle(made, made.commit_transaction) else "unknown"
                elif not self.settle(made, made.abort_transaction):
                    fate = "unknown"
            except KafkaException as e:
                error = e.args[0]
                if error.txn_requires_abort():
                    made, fate = self.give_up(made, asked=fate == "unknown")
                elif error.fatal():
                    made = self.producer()
                else:
                    raise
            self.fates[name] = (fate, values)
        made.flush(5)


def read_all(broker, topic, ends):
    """What read_committed sees up to these ends: {partition: values}."""
    seen = {}
    for partition, end in ends.items():
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 2,
                             "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        values, until_s = [], time.monotonic() + 60
        while time.monotonic() < until_s:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if not message.error():
                values.append(message.value())
                continue
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            if consumer.position([TopicPartition(topic, partition)])[0].offset >= end:
                break
        seen[partition] = values
        consumer.close()
    return seen


def judge(writers, seen):
    places = {}
    for partition, values in seen.items():
        assert len(set(values)) == len(values), "a record twice"
        places.update({(partition, value): n for n, value in enumerate(values)})
    counts = {"committed": 0, "aborted": 0, "unknown": 0}
    for writer in writers:
        for name, (fate, values) in writer.fates.items():
            there = [place in places for place in values]
            assert all(there) or not any(there), f"half of {name} ({fate}): {there}"
            assert fate != "committed" or all(there), f"{name} was committed and is not there"
            assert fate != "aborted" or not any(there), f"{name} was aborted and is there"
            order = [places[place] for place in values if place in places]
            by_partition = {}
            for (partition, value), n in zip([p for p in values if p in places], order):
                by_partition.setdefault(partition, []).append(n)
            assert all(sorted(ns) == ns for ns in by_partition.values()), f"{name} out of order"
            counts[fate] += 1
    return counts


def loop(own_broker, name, seconds, writer_count, kill_every_s, java_count=0):
    broker = own_broker()
    with broker.connect() as connection:
        Admin(connection).create(name, partitions=PARTITIONS)
    end, stop = time.monotonic() + seconds, threading.Event()
    writers = [Writer(broker, name, i, stop) for i in range(writer_count)]
    for writer in writers:
        writer.start()
    if java_count:
        writers.append(JavaWriters(broker, name, seconds, java_count))
    kills = 0

    def committed():
        return sum(fate == "committed" for writer in writers for fate, _ in list(writer.fates.values()))
    try:
        while time.monotonic() < end:
            before = committed()
            time.sleep(kill_every_s)  # poll
            until(lambda: writer_count == 0 or committed() > before or any(writer.failure for writer in writers), 60, "a transaction between two kills")
            broker.kill()
            broker.start()
            kills += 1
    finally:
        stop.set()
    for writer in writers:
        writer.join(120)
        assert not writer.is_alive(), "a writer hangs"
        if writer.failure:
            raise writer.failure

    def quiet():
        with broker.connect() as c:
            states = c.ask("ListTransactions", 1, {"stateFilters": ["Ongoing", "PrepareCommit", "PrepareAbort"], "producerIdFilters": [], "durationFilter": -1})
        return not states["transactionStates"]
    until(quiet, 40, "every transaction to end")
    with broker.connect() as connection:
        admin = Admin(connection)
        ends = {p: admin.list_offset(name, -1, p)["offset"] for p in range(PARTITIONS)}
        stable = {p: admin.list_offset(name, -1, p, isolation=1)["offset"] for p in range(PARTITIONS)}
    assert stable == ends
    counts = judge(writers, read_all(broker, name, ends))
    assert counts["committed"] > 0 and kills > 0
    print(f"{counts} {kills} kills")


class JavaWriters:
    """The same with Kafka's own producers, which speak version 2 of the protocol."""

    def __init__(self, broker, topic, seconds, count):
        need_java()
        source = TOP / "tests" / "interop" / "java" / "Transactional.java"
        self.process = subprocess.Popen(command(str(source), broker.bootstrap, topic, PARTITIONS, count, seconds), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.fates = {}
        self.failure = None

    def join(self, timeout_s):
        out, err = self.process.communicate(timeout=timeout_s)
        assert b"DONE" in out, err[-3000:]
        for line in out.decode().splitlines():
            if line.startswith("T "):
                _, name, fate, *values = line.split()
                self.fates[name] = (fate, [(int(partition), value.encode()) for partition, value in (v.split(":", 1) for v in values)])

    def is_alive(self):
        return self.process.poll() is None


@pytest.mark.kill
@pytest.mark.timeout(180)
def test_transactions_survive_kill(own_broker, name):
    loop(own_broker, name, 8, 4, 1.5)


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.timeout(900)
def test_transactions_survive_many_kills(own_broker, name):
    loop(own_broker, name, 180, 8, 2.0, java_count=4)


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.timeout(300)
def test_java_transactions_survive_kill(own_broker, name):
    loop(own_broker, name, 30, 0, 3.0, java_count=4)
