"""Producers, readers and what must hold between them, for tests that kill, cut and starve brokers.

Values are "NAME:NUMBER:" with the producer's name and its count. `check` compares what was acknowledged, what readers saw on the way and what is there at the end:
nothing that acks=all acknowledged is lost; nothing of an idempotent producer is there twice or out of order; what a reader saw is still there; acks=1 lost no more than it may, and what brokers say.
"""
import collections
import select
import subprocess
import threading
import time

import batch
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from harness import TOP, until
from java import command, need_java

QUICK = {"socket.timeout.ms": 3000, "request.timeout.ms": 2500, "message.timeout.ms": 120000, "topic.metadata.refresh.interval.ms": 1000, "retry.backoff.ms": 50,
         "retry.backoff.max.ms": 200, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 300, "log_level": 0}
PASSING = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
Acknowledged = collections.namedtuple("Acknowledged", "partition offset value era epoch", defaults=[None])       # epoch: None where nobody told it


class Writer:
    """librdkafka on a thread of its own. acks "all": idempotent; "1": one request in flight, so that its own retries keep the order. era: what the test is doing meanwhile, noted with each
    acknowledgement (a callable)."""

    def __init__(self, bootstrap, topic, name, acks="all", pace_s=0.002, era=lambda: 0, **settings):
        self.topic, self.name, self.idempotent, self.pace_s, self.era = topic, name, acks == "all", pace_s, era
        kind = {"enable.idempotence": True} if self.idempotent else {"acks": acks, "max.in.flight.requests.per.connection": 1}
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "error_cb": self._told, **QUICK, **kind, **settings})
        self.acknowledged, self.failed, self.sent, self.ended = [], [], 0, False
        self.longest_gap_s, self.last = 0.0, time.monotonic()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _told(self, error):
        if error.fatal():
            self.failed.append((error, None, self.era()))

    def _report(self, error, message):
        if error is not None:
            self.failed.append((error, message.value(), self.era()))
            return
        now = time.monotonic()
        self.longest_gap_s, self.last = max(self.longest_gap_s, now - self.last), now
        self.acknowledged.append(Acknowledged(message.partition(), message.offset(), message.value(), self.era()))

    def _run(self):
        while not self.ended:
            try:
                self.producer.produce(self.topic, b"%s:%d:%s" % (self.name.encode(), self.sent, b"x" * (self.sent * 7919 % 200)), on_delivery=self._report)
                self.sent += 1
            except BufferError:
                pass
            except KafkaException as e:         # fatal: told already
                self.failed.append((e, None, self.era()))
                return
            self.producer.poll(0)
            time.sleep(self.pace_s)  # poll: the pace

    def count(self):
        return len(self.acknowledged)

    def stop(self):
        self.ended = True
        self.thread.join(60)
        left = self.producer.flush(130)
        assert left == 0, f"{self.name}: {left} records were never answered"
        return self


class JavaWriter:
    """Kafka's own producer, idempotent and acks=all; at work when it is made, which takes longer than some rounds of faults on a busy machine."""

    def __init__(self, bootstrap, topic, name, partitions, per_second=200):
        need_java()
        source = TOP / "tests" / "interop" / "java" / "Load.java"
        self.topic, self.name, self.idempotent, self.acknowledged, self.failed = topic, name, True, [], []
        self.process = subprocess.Popen(command(str(source), bootstrap, topic, partitions, per_second, name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        try:
            until(lambda: select.select([self.process.stdout], [], [], 0)[0], 60, "Kafka's producer at work", 0.1)
            assert self.process.stdout.readline() == b"BEGUN\n", "Kafka's producer ended"
        except AssertionError:
            self.close()
            raise

    def stop(self):
        out, _ = self.process.communicate(b"x\n", timeout=600)
        assert out.endswith(b"DONE\n"), out[-2000:]
        for line in out.decode().splitlines():
            kind, *words = line.split(" ", 3)
            if kind == "A":
                self.acknowledged.append(Acknowledged(int(words[0]), int(words[1]), words[2].encode(), None))
            elif kind == "F":
                self.failed.append((line, None, None))
        return self

    def close(self):
        self.process.kill()
        self.process.wait(120)


class Reader:
    """Tails a topic and keeps what it saw; a gap, a step back or an offset out of range is a failure. rack: reads from the replicas there."""

    def __init__(self, bootstrap, topic, partitions, rack=None):
        self.topic, self.seen, self.wrong, self.ended = topic, {p: {} for p in range(partitions)}, [], False
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"reader-{topic}-{rack}", "enable.auto.commit": False, "auto.offset.reset": "error", "fetch.wait.max.ms": 100,
                                  **{k: v for k, v in QUICK.items() if k not in ("request.timeout.ms", "message.timeout.ms")}, **({"client.rack": rack} if rack else {})})
        self.consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ended:
            for message in self.consumer.consume(1000, 0.1):
                if message.error() is not None:
                    if message.error().code() not in PASSING:
                        self.wrong.append(str(message.error()))
                    continue
                seen = self.seen[message.partition()]
                if message.offset() != len(seen):
                    self.wrong.append(f"{self.topic}-{message.partition()}: offset {message.offset()} after {len(seen)} records")
                seen[message.offset()] = message.value()
        self.consumer.close()

    def count(self):
        return sum(map(len, self.seen.values()))

    def stop(self):
        self.ended = True
        self.thread.join(60)
        return self


def end_of(consumer, topic, partition):
    """The high watermark, from whoever leads by then: leaders may be on their way."""
    def ask():
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
        except KafkaException as error:
            assert error.args[0].code() in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE,
                                            KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError._TRANSPORT), error
            return None
    return until(ask, 60, f"the end of {topic}-{partition}")[1]


def read_all(bootstrap, topic, partitions, bound_s=120):
    """{partition: {offset: value}} of all that consumers see."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    # a leader that is new gives out less than was acknowledged until its followers have fetched, which is an end too; where the log ends it says only then
    ends = {p: end_of(consumer, topic, p) for p in range(partitions)}
    rows, ended, until_s = {p: {} for p in range(partitions)}, set(), time.monotonic() + bound_s
    while len(ended) < partitions and time.monotonic() < until_s:
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                rows[message.partition()][message.offset()] = message.value()
            elif message.error().code() == KafkaError._PARTITION_EOF and message.offset() >= ends[message.partition()]:
                ended.add(message.partition())
    consumer.close()
    assert len(ended) == partitions, f"{topic}: the ends of {set(range(partitions)) - ended} were not reached in {bound_s} s"
    return rows


def batches_of(cluster, topic, partition, offsets):
    """{offset: (producer id, producer epoch, base sequence)} of records, as the log of a replica has it."""
    node = next(node for node in cluster.nodes.values() if node.partition(topic, partition).exists())
    batches = [one for path in sorted(node.partition(topic, partition).glob("*.log")) for one in batch.read(path.read_bytes())]
    return {record[0]: (one.producer_id, one.producer_epoch, one.base_sequence) for one in batches for record in one.records if record[0] in offsets}


def check_once(writer, partition, records, batch_of):
    """What an idempotent producer wrote lies there once and in order. Whoever was refused for good may have begun a new epoch and sent again under it what it had not heard of, which no broker can
    tell from something new (librdkafka issue 4953): of one epoch nothing is there twice all the same, nor of a producer that nobody refused."""
    places = collections.defaultdict(list)
    for offset, value in sorted(records.items()):
        if value.startswith(writer.name.encode() + b":"):
            places[int(value.split(b":")[1])].append(offset)
    for number, offsets in places.items():
        if len(offsets) > 1:
            told = batch_of(writer.topic, partition, offsets)
            assert writer.failed and len({one[:2] for one in told.values()}) == len(offsets), \
                f"{writer.topic}-{partition}: record {number} of {writer.name} is there twice, (producer id, epoch, base sequence) by offset: {told or offsets}"
    assert list(places) == sorted(places), f"{writer.topic}-{partition}: records of {writer.name} out of order"


def check(rows, writers, readers=(), may_lose=lambda one: False, batch_of=lambda *_: {}):
    """rows: read_all of the topic when all have stopped. Gives the records that acks=1 lost; may_lose(record) says whether it may have lost that one; batch_of(topic, partition,
    offsets) gives what batches_of does."""
    lost, values = [], {p: set(records.values()) for p, records in rows.items()}
    for writer in writers:
        for one in writer.acknowledged:
            # without an offset: a repetition of what was written long before, of which the broker knows that it is there and no more where
            if one.value not in values[one.partition] if one.offset is None else rows[one.partition].get(one.offset) != one.value:
                lost.append(one)
                allowed = not writer.idempotent and may_lose(one)
                assert allowed, f"{writer.topic}-{one.partition}:{one.offset} of epoch {one.epoch} acknowledged as {one.value[:40]} to {writer.name} ({one.era}), found {rows[one.partition].get(one.offset)}"
        if writer.idempotent:
            for partition, records in rows.items():
                check_once(writer, partition, records, batch_of)
    for reader in readers:
        assert not reader.wrong, reader.wrong[:5]
        for partition, seen in reader.seen.items():
            gone = [o for o, value in seen.items() if rows[partition].get(o) != value]
            assert not gone, f"{reader.topic}-{partition}: a reader saw {len(gone)} records that are gone or others now, first at {gone[0]}: {seen[gone[0]][:40]}, now {rows[partition].get(gone[0])}"
    return lost


# ---- a cluster, as tests wait for it

def parts_of(node, *topics):
    """{(topic, index): row} of Metadata at one broker; empty while it does not answer."""
    try:
        with node.connect(timeout_s=5) as c:
            answer = c.ask("Metadata", 12, {"topics": [{"name": t} for t in topics], "allowAutoTopicCreation": False})
    except (OSError, EOFError):
        return {}
    return {(t["name"], p["partitionIndex"]): {**p, "errorCode": p["errorCode"] or t["errorCode"]} for t in answer["topics"] for p in t["partitions"]}


def whole(cluster, topics, bound_s=90):
    """Until every broker lives and says that all replicas of these topics are in sync and led. The seconds it took."""
    begin = time.monotonic()

    def look():
        for node in cluster.nodes.values():
            assert node.alive(), f"broker {node.id} ended with {node.process and node.process.returncode}:\n{node.log_tail(60)}"
        for node in cluster.nodes.values():
            rows = parts_of(node, *topics)
            if not rows or any(p["errorCode"] or p["leaderId"] < 0 or set(p["isrNodes"]) != set(p["replicaNodes"]) for p in rows.values()):
                return False
        return True

    def words():
        told = [(node.id, [(key, p["leaderId"], p["replicaNodes"], p["isrNodes"]) for key, p in parts_of(node, *topics).items() if set(p["isrNodes"]) != set(p["replicaNodes"])])
                for node in cluster.nodes.values()]
        return f"all in sync: {told}"
    until(look, bound_s, words, 0.1)
    return time.monotonic() - begin


def create(node, topic, partitions, replication=3, assignments=None, **configs):
    row = {"name": topic, "numPartitions": -1 if assignments else partitions, "replicationFactor": -1 if assignments else replication,
           "assignments": [{"partitionIndex": i, "brokerIds": ids} for i, ids in enumerate(assignments or [])],
           "configs": [{"name": k.replace("_", "."), "value": str(v)} for k, v in configs.items()]}
    with node.connect(timeout_s=40) as c:
        answer = c.ask("CreateTopics", 7, {"topics": [row], "timeoutMs": 30000})["topics"][0]
    assert answer["errorCode"] == 0, answer
