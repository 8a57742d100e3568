"""Transactions over gRPC: what is committed counts, what is aborted does not, offsets go with them, and Kafka's clients see the same."""
import pytest

import batch
from clients_test import kcat
from grpc_stubs import channel, pb, pb_grpc, refused, split, values
from harness import until


@pytest.fixture
def log(broker):
    with channel(broker) as made:
        yield pb_grpc.LogStub(made)


class Transactional:
    """A transactional producer that counts its sequences."""

    def __init__(self, log, transactional_id, **more):
        self.log, self.id = log, transactional_id
        self._take(log.InitProducer(pb.InitProducerRequest(transactional_id=transactional_id, **more), timeout=20))

    def _take(self, answer):
        if (answer.producer_id, answer.producer_epoch) != (getattr(self, "producer_id", None), getattr(self, "epoch", None)):
            self.sequences = {}
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def producer(self, sequence=0):
        return pb.Producer(id=self.producer_id, epoch=self.epoch, sequence=sequence)

    def send(self, topic, *contents, partition=0):
        sequence = self.sequences.get((topic, partition), 0)
        self.sequences[topic, partition] = sequence + len(contents)
        return self.log.Produce(pb.ProduceRequest(topic=topic, partition=partition, transactional_id=self.id, producer=self.producer(sequence),
                                                  records=[pb.Record(value=c) for c in contents]), timeout=20)

    def end(self, commit):
        self._take(self.log.EndTransaction(pb.EndTransactionRequest(transactional_id=self.id, producer=self.producer(), commit=commit), timeout=20))


def read(log, topic, partition=0, committed=True):
    isolation = pb.ISOLATION_LEVEL_READ_COMMITTED if committed else pb.ISOLATION_LEVEL_READ_UNCOMMITTED
    return values(log.Fetch(pb.FetchRequest(topic=topic, partition=partition, isolation_level=isolation), timeout=20))


@pytest.mark.smoke
def test_what_is_committed_counts_and_what_is_aborted_does_not(broker, admin, log, name):
    admin.create(name, partitions=2)
    producer = Transactional(log, "t-" + name)
    producer.send(name, b"a")
    producer.send(name, b"b", partition=1)
    assert (read(log, name), read(log, name, committed=False)) == ([], [b"a"])
    producer.end(commit=True)
    until(lambda: (read(log, name), read(log, name, 1)) == ([b"a"], [b"b"]), 20, "the markers are written")
    producer.send(name, b"gone", b"gone too")
    producer.end(commit=False)
    producer.send(name, b"c")
    producer.end(commit=True)
    until(lambda: read(log, name) == [b"a", b"c"], 20, lambda: read(log, name))
    assert kcat(broker, "-C", "-t", name, "-p", 0, "-o", "beginning", "-e", "-q", "-X", "isolation.level=read_committed")[0].split() == ["a", "c"]
    assert read(log, name, committed=False) == [b"a", b"gone", b"gone too", b"c"]


def test_a_stream_of_batches_in_a_transaction(log, topic):
    producer = Transactional(log, "t-" + topic)
    stamped = [batch.build([b"%d" % i], producer=(producer.producer_id, producer.epoch, i), attributes=0x10) for i in range(5)]
    requests = [pb.ProduceStreamRequest(topic=topic, id=i, transactional_id=producer.id, record_batches=b) for i, b in enumerate(stamped)]
    acks = [a for m in log.ProduceStream(iter(requests), timeout=20) for a in m.acknowledgements]
    assert [(a.id, a.error.name) for a in acks] == [(i, "") for i in range(5)]
    producer.end(commit=True)
    until(lambda: read(log, topic) == [b"%d" % i for i in range(5)], 20, lambda: read(log, topic))
    whole = log.Fetch(pb.FetchRequest(topic=topic, format=pb.PAYLOAD_FORMAT_RECORD_BATCHES), timeout=20)
    assert all(int.from_bytes(b[21:23], "big") & 0x10 for b in split(whole.record_batches))


def test_whoever_takes_the_id_fences_the_one_before(log, topic):
    first = Transactional(log, "t-" + topic)
    first.send(topic, b"left open")
    second = Transactional(log, "t-" + topic)
    assert (second.producer_id, second.epoch > first.epoch) == (first.producer_id, True)
    code, details = refused(first.send, topic, b"late")
    assert details.reason in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
    assert refused(first.end, True)[1].reason == "PRODUCER_FENCED"
    second.send(topic, b"new")
    second.end(commit=True)
    until(lambda: read(log, topic) == [b"new"], 20, lambda: read(log, topic))


def test_offsets_go_with_the_transaction(log, topic):
    group = "g-" + topic

    def stored(**more):
        return log.FetchOffsets(pb.FetchOffsetsRequest(group=group, partitions=[pb.GroupPartition(topic=topic)], **more), timeout=20).offsets[0].offset

    def move(producer, offset):
        log.CommitOffsets(pb.CommitOffsetsRequest(group=group, transactional_id=producer.id, producer=producer.producer(),
                                                  offsets=[pb.GroupOffset(topic=topic, offset=offset)]), timeout=20)

    producer = Transactional(log, "t-" + topic)
    producer.send(topic, b"x")
    move(producer, 5)
    assert stored() == -1
    code, details = refused(stored, require_stable=True)
    assert (code, details.reason) == ("UNAVAILABLE", "UNSTABLE_OFFSET_COMMIT")
    producer.end(commit=True)
    until(lambda: stored() == 5, 20, stored)
    move(producer, 9)
    producer.end(commit=False)
    until(lambda: _stable(stored) == 5, 20, stored)


def _stable(stored):
    import grpc
    try:
        return stored(require_stable=True)
    except grpc.RpcError:
        return None


def test_a_transaction_that_takes_too_long_is_aborted(log, topic):
    producer = Transactional(log, "t-" + topic, transaction_timeout_ms=1000)
    producer.send(topic, b"late")
    until(lambda: log.ListOffsets(pb.ListOffsetsRequest(partitions=[pb.ListOffsetsPartition(topic=topic)], isolation_level=pb.ISOLATION_LEVEL_READ_COMMITTED), timeout=20)
          .partitions[0].offset == 2, 60, "it was aborted")
    assert read(log, topic) == []
    assert refused(producer.end, True)[1].reason in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE")


@pytest.mark.parametrize("method,request_,code,reason", [
    ("EndTransaction", lambda t: pb.EndTransactionRequest(producer=pb.Producer()), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("EndTransaction", lambda t: pb.EndTransactionRequest(transactional_id=t), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("EndTransaction", lambda t: pb.EndTransactionRequest(transactional_id="no-" + t, producer=pb.Producer()), "INVALID_ARGUMENT", "INVALID_PRODUCER_ID_MAPPING"),
    ("InitProducer", lambda t: pb.InitProducerRequest(transactional_id=t, transaction_timeout_ms=-1), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("InitProducer", lambda t: pb.InitProducerRequest(transactional_id=t, transaction_timeout_ms=2000000000), "INVALID_ARGUMENT", "INVALID_TRANSACTION_TIMEOUT"),
    ("InitProducer", lambda t: pb.InitProducerRequest(transactional_id="t" * 40000), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("Produce", lambda t: pb.ProduceRequest(topic=t, transactional_id=t, records=[pb.Record()]), "INVALID_ARGUMENT", "INVALID_REQUEST"),
])
def test_transactions_that_cannot_be(log, topic, method, request_, code, reason):
    got, details = refused(getattr(log, method), request_(topic), timeout=20)
    assert (got, details.reason) == (code, reason)
