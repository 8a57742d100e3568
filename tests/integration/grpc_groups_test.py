"""Groups over gRPC: offsets committed and fetched, and members behind Consume that share a group with each other and with Kafka's consumers."""
import collections
import queue
import threading
import time

import pytest

from admin import Admin
from grpc_stubs import channel, grpc, kept_open, pb, pb_grpc, refused
from harness import PRESET, http, until

EARLIEST, LATEST = pb.START_EARLIEST, pb.START_LATEST


@pytest.fixture
def log(broker):
    with channel(broker) as made:
        yield pb_grpc.LogStub(made)


def produce(log, topic, count, partition=0, first=0):
    log.Produce(pb.ProduceRequest(topic=topic, partition=partition, records=[pb.Record(value=b"%d" % i) for i in range(first, first + count)]), timeout=20)


def commit(log, group, *offsets, **more):
    parts = [pb.GroupOffset(topic=t, partition=p, offset=o) for t, p, o in offsets]
    return log.CommitOffsets(pb.CommitOffsetsRequest(group=group, offsets=parts, **more), timeout=20)


def committed(log, group, *parts, **more):
    asked = [pb.GroupPartition(topic=t, partition=p) for t, p in parts]
    answer = log.FetchOffsets(pb.FetchOffsetsRequest(group=group, partitions=asked, **more), timeout=20)
    return {(o.topic, o.partition): o.offset for o in answer.offsets}


class Member:
    """A Consume stream whose records are acknowledged as they come (or not: hold), with what the server said."""

    def __init__(self, stub, group, *topics, hold=False, **more):
        self.requests = queue.SimpleQueue()
        self.hold, self.records, self.held = hold, [], []
        self.committed, self.assigned, self.revoking = {}, {}, {}
        self.member_id, self.code, self.details, self.events = "", None, "", 0
        join = pb.ConsumeJoin(group=group, topics=topics, **{"start": EARLIEST, **more})
        self.requests.put(pb.ConsumeRequest(join=join))
        self.stream = stub.Consume(iter(self.requests.get, None), timeout=300)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            for message in self.stream:
                self._take(message)
            self.code = "OK"
        except grpc.RpcError as error:
            self.code, self.details = error.code().name, error.details()

    def _take(self, message):
        if message.HasField("assignment"):
            self.events += 1
            self.member_id = message.assignment.member_id
            self.revoking = {(p.topic, p.partition): p for p in message.assignment.revoking}
            self.assigned = {(p.topic, p.partition): p for p in message.assignment.assigned}
        for p in message.committed:
            self.committed[p.topic, p.partition] = p.next_offset
        if message.HasField("position"):
            self.records += [(message.position.topic, message.position.partition, r.offset, r.value) for r in message.records]
            if self.hold:
                self.held.append(message.position)
            else:
                self.acknowledge(message.position)

    def acknowledge(self, *positions):
        self.requests.put(pb.ConsumeRequest(acknowledge=positions))

    def leave(self):
        self.requests.put(None)
        self.thread.join(30)
        assert self.code == "OK", (self.code, self.details)

    def kill(self):
        self.stream.cancel()
        self.thread.join(30)


@pytest.fixture
def member(broker):
    made, channels = [], []

    def make(*words, **more):
        opened = channel(broker, **{"grpc.use_local_subchannel_pool": 1})
        channels.append(opened)
        made.append(Member(pb_grpc.LogStub(opened), *words, **more))
        return made[-1]

    yield make
    for one in made:
        one.kill()
    for opened in channels:
        opened.close()


# ---- offsets

@pytest.mark.smoke
def test_offsets_are_what_kafkas_clients_see(broker, admin, log, name):
    from confluent_kafka import Consumer, TopicPartition
    admin.create(name, partitions=3)
    assert committed(log, name, (name, 0)) == {(name, 0): -1}
    answer = log.CommitOffsets(pb.CommitOffsetsRequest(group=name, offsets=[pb.GroupOffset(topic=name, partition=1, offset=7, metadata="here", leader_epoch_plus_one=1),
                                                                           pb.GroupOffset(topic="not-" + name, offset=1)]), timeout=20)
    assert [(o.partition, o.error.name) for o in answer.offsets] == [(1, ""), (0, "UNKNOWN_TOPIC_OR_PARTITION")]
    kafka = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name})
    assert [p.offset for p in kafka.committed([TopicPartition(name, 1)], timeout=20)] == [7]
    kafka.commit(offsets=[TopicPartition(name, 2, 9)], asynchronous=False)
    kafka.close()
    assert committed(log, name) == {(name, 1): 7, (name, 2): 9}
    assert committed(log, name, (name, 2), (name, 0)) == {(name, 2): 9, (name, 0): -1}
    stored = log.FetchOffsets(pb.FetchOffsetsRequest(group=name, partitions=[pb.GroupPartition(topic=name, partition=1)]), timeout=20).offsets[0]
    assert (stored.metadata, stored.leader_epoch_plus_one) == ("here", 1)


@pytest.mark.parametrize("method,request_,code,reason", [
    ("CommitOffsets", lambda t: pb.CommitOffsetsRequest(offsets=[pb.GroupOffset(topic=t)]), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("CommitOffsets", lambda t: pb.CommitOffsetsRequest(group=t), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("CommitOffsets", lambda t: pb.CommitOffsetsRequest(group=t, offsets=[pb.GroupOffset(topic=t, offset=-1)]), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("CommitOffsets", lambda t: pb.CommitOffsetsRequest(group=t, transactional_id="x", offsets=[pb.GroupOffset(topic=t)]), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("CommitOffsets", lambda t: pb.CommitOffsetsRequest(group=t, offsets=[pb.GroupOffset(topic="not-" + t)]), "NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("CommitOffsets", lambda t: pb.CommitOffsetsRequest(group=t, offsets=[pb.GroupOffset(topic=t, metadata="x" * 5000)]), "INVALID_ARGUMENT", "OFFSET_METADATA_TOO_LARGE"),
    ("CommitOffsets", lambda t: pb.CommitOffsetsRequest(group="g" * 256, offsets=[pb.GroupOffset(topic=t)]), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("FetchOffsets", lambda t: pb.FetchOffsetsRequest(), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("FetchOffsets", lambda t: pb.FetchOffsetsRequest(group=t, partitions=[pb.GroupPartition()]), "INVALID_ARGUMENT", "INVALID_REQUEST"),
])
def test_offsets_that_cannot_be(log, topic, method, request_, code, reason):
    got, details = refused(getattr(log, method), request_(topic), timeout=20)
    assert (got, details.reason) == (code, reason)


def test_a_commit_that_cannot_be_says_why(log, topic):
    for request, words in [(pb.CommitOffsetsRequest(group=topic), "there are no offsets"),
                           (pb.CommitOffsetsRequest(group="g" * 40000, offsets=[pb.GroupOffset(topic=topic)]), "255 bytes at most")]:
        with pytest.raises(grpc.RpcError) as failure:
            log.CommitOffsets(request, timeout=20)
        assert words in failure.value.details()


# ---- members

@pytest.mark.smoke
def test_a_member_reads_and_what_it_acknowledges_is_committed(log, member, topic):
    produce(log, topic, 100)
    one = member("g-" + topic, topic)
    until(lambda: one.committed == {(topic, 0): 100}, 30, lambda: (one.code, one.details, one.committed))
    assert [r[2] for r in one.records] == list(range(100))
    assert committed(log, "g-" + topic) == {(topic, 0): 100}
    one.leave()
    produce(log, topic, 5, first=100)
    two = member("g-" + topic, topic)
    until(lambda: len(two.records) == 5, 30, lambda: two.records)
    assert [r[2] for r in two.records] == list(range(100, 105))


def test_records_that_were_not_acknowledged_come_again_to_the_next_member(log, member, topic):
    produce(log, topic, 10)
    one = member("g-" + topic, topic, hold=True, format=pb.PAYLOAD_FORMAT_RECORD_BATCHES, max_bytes=1)
    until(lambda: one.held, 30, lambda: (one.code, one.details))
    produce(log, topic, 10, first=10)
    until(lambda: len(one.held) == 2, 30, lambda: one.held)
    one.acknowledge(one.held[0])
    until(lambda: one.committed == {(topic, 0): 10}, 30, lambda: one.committed)
    one.kill()
    two = member("g-" + topic, topic)
    until(lambda: len(two.records) == 10, 30, lambda: two.records)
    assert two.records[0][2] == 10


def test_a_part_of_a_message_may_be_acknowledged(log, member, topic):
    produce(log, topic, 10)
    one = member("g-" + topic, topic, hold=True)
    until(lambda: one.held, 30, lambda: (one.code, one.details))
    assert one.held[0].next_offset == 10
    one.acknowledge(pb.ConsumePosition(topic=topic, next_offset=4, assignment_id=one.held[0].assignment_id), pb.ConsumePosition())
    one.leave()  # what was said before it is committed
    assert one.committed == {(topic, 0): 4} and committed(log, "g-" + topic) == {(topic, 0): 4}


def test_no_more_is_given_than_may_be_unacknowledged(log, member, topic):
    for i in range(20):
        log.Produce(pb.ProduceRequest(topic=topic, records=[pb.Record(value=b"x" * 1000)]), timeout=20)
    one = member("g-" + topic, topic, hold=True, max_bytes=1000, max_unacknowledged_bytes=2500)
    until(lambda: len(one.held) == 3, 30, lambda: len(one.held))
    time.sleep(0.3)  # poll: no more come
    assert len(one.held) == 3
    one.acknowledge(one.held[0])
    until(lambda: len(one.held) == 4, 30, lambda: len(one.held))
    time.sleep(0.3)  # poll: no more come
    assert len(one.held) == 4
    one.acknowledge(one.held[3])
    until(lambda: len(one.held) == 7, 30, lambda: len(one.held))


def test_a_partition_goes_only_when_what_was_given_is_acknowledged(admin, log, member, name):
    admin.create(name, partitions=4)
    for p in range(4):
        produce(log, name, 10, partition=p)
    one = member("g-" + name, name, hold=True)
    until(lambda: len(one.records) == 40, 30, lambda: len(one.records))
    two = member("g-" + name, name)
    until(lambda: len(one.revoking) == 2, 30, lambda: one.revoking)
    for p in range(4):
        produce(log, name, 5, partition=p, first=10)
    until(lambda: len(one.records) == 50, 30, lambda: len(one.records))  # the two that stay go on
    assert two.records == [] and two.assigned == {}
    going = set(one.revoking)
    first, *others = [p for p in one.held if (p.topic, p.partition) in going]
    one.acknowledge(first)
    until(lambda: (first.topic, first.partition) in one.committed, 30, lambda: one.committed)
    assert two.assigned == {}  # the protocol lets them go together
    one.acknowledge(*others)
    until(lambda: set(two.assigned) == going, 30, lambda: two.assigned)
    until(lambda: len(two.records) == 10, 30, lambda: two.records)
    assert {r[2] for r in two.records} == set(range(10, 15))  # not what was acknowledged
    assert set(one.assigned) == {(name, p) for p in range(4)} - going


def test_who_does_not_acknowledge_loses_a_partition_in_the_end(admin, log, member, name):
    admin.create(name, partitions=2)
    for p in range(2):
        produce(log, name, 10, partition=p)
    one = member("g-" + name, name, hold=True, rebalance_timeout_ms=300)
    until(lambda: len(one.records) == 20, 30, lambda: len(one.records))
    two = member("g-" + name, name)
    until(lambda: len(two.records) == 10, 30, lambda: (two.records, two.assigned))
    late = next(p for p in one.held if (p.topic, p.partition) not in one.assigned)
    one.acknowledge(late)  # passed over: it is another's now
    kept = next(p for p in one.held if (p.topic, p.partition) in one.assigned)
    one.acknowledge(kept)
    until(lambda: one.committed, 30, lambda: one.committed)
    assert set(one.committed) == {(name, kept.partition)}


@pytest.mark.parametrize("later", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_pattern_takes_all_topics_that_match(admin, log, member, name, later):
    for topic, count in ((name + ".a", 3), ("x" + name + ".b", 3)):
        admin.create(topic, partitions=1)
        produce(log, topic, count)
    one = member("g-" + name, topic_pattern=name.replace("-", "[-]") + r"\..*")
    until(lambda: len(one.records) == 3, 30, lambda: (one.code, one.details))
    assert set(one.assigned) == {(name + ".a", 0)}
    if later:  # the group looks for new topics each ten seconds
        admin.create(name + ".b", partitions=1)
        produce(log, name + ".b", 4)
        until(lambda: len(one.records) == 7, 60, lambda: one.records)
        assert set(one.assigned) == {(name + ".a", 0), (name + ".b", 0)}


@pytest.mark.parametrize("start,first,told", [(EARLIEST, 0, -1), (LATEST, 10, 10), (pb.START_UNSPECIFIED, 10, 10), (pb.START_TIMESTAMP, 5, 5)])
def test_where_a_partition_begins_that_has_no_commit(log, member, topic, start, first, told):
    for i in range(10):
        log.Produce(pb.ProduceRequest(topic=topic, records=[pb.Record(value=b"x", timestamp_ms=1700000000000 + 1000 * i)]), timeout=20)
    one = member("g-" + topic, topic, hold=True, start=start, timestamp_ms=1700000004500)
    until(lambda: (topic, 0) in one.assigned, 30, lambda: (one.code, one.details))
    assert one.assigned[topic, 0].next_offset == first
    until(lambda: committed(log, "g-" + topic, (topic, 0)) == {(topic, 0): told}, 30, "a start that others would not find is committed at once")
    produce(log, topic, 1)
    until(lambda: len(one.records) == 11 - first, 30, lambda: one.records)
    assert one.records[0][2] == first


def test_offsets_that_retention_has_passed_by(broker, admin, log, member, topic):
    produce(log, topic, 10)
    commit(log, "g-" + topic, (topic, 0, 2))
    admin.delete_records(topic, 5)
    one = member("g-" + topic, topic)
    until(lambda: [r[2] for r in one.records] == list(range(5, 10)), 30, lambda: (one.code, one.details, one.records))
    until(lambda: one.committed == {(topic, 0): 10}, 30, lambda: one.committed)


def test_a_topic_that_is_deleted_goes_away_quietly(admin, log, member, name):
    admin.create(name + "-a", partitions=1)
    admin.create(name + "-b", partitions=1)
    one = member("g-" + name, name + "-a", name + "-b", hold=True)
    produce(log, name + "-a", 3)
    until(lambda: len(one.records) == 3 and len(one.assigned) == 2, 30, lambda: (one.records, one.assigned))
    admin.delete(name + "-a")
    until(lambda: set(one.assigned) == {(name + "-b", 0)}, 30, lambda: (one.assigned, one.code, one.details))
    produce(log, name + "-b", 3)
    until(lambda: len(one.records) == 6, 30, lambda: one.records)


def test_a_topic_made_anew_is_another_one(admin, log, member, name):
    """What was read of the old one, and is acknowledged late, is not committed for the new one."""
    admin.create(name, partitions=1)
    produce(log, name, 5)
    one = member("g-" + name, name, hold=True)
    until(lambda: len(one.records) == 5, 30, lambda: (one.code, one.details))
    admin.delete(name)
    admin.create(name, partitions=1)
    one.acknowledge(*one.held)
    produce(log, name, 3)
    until(lambda: [r[2] for r in one.records] == [0, 1, 2, 3, 4, 0, 1, 2], 30, lambda: (one.records, one.assigned, one.code, one.details))
    assert committed(log, "g-" + name, (name, 0)) == {(name, 0): -1}
    one.acknowledge(*one.held)
    until(lambda: committed(log, "g-" + name, (name, 0)) == {(name, 0): 3}, 30, lambda: (one.committed, one.code, one.details))


@pytest.mark.parametrize("requests,code,reason", [
    ([], "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ([lambda t: pb.ConsumeRequest()], "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ([lambda t: pb.ConsumeRequest(join=pb.ConsumeJoin(group=t))], "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ([lambda t: pb.ConsumeRequest(join=pb.ConsumeJoin(topics=[t]))], "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ([lambda t: pb.ConsumeRequest(join=pb.ConsumeJoin(group=t, topics=[t], topic_pattern=t))], "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ([lambda t: pb.ConsumeRequest(join=pb.ConsumeJoin(group=t, topics=[t], start=pb.START_OFFSET))], "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ([lambda t: pb.ConsumeRequest(join=pb.ConsumeJoin(group=t, topics=[t], format=9))], "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ([lambda t: pb.ConsumeRequest(join=pb.ConsumeJoin(group=t, topic_pattern="("))], "INVALID_ARGUMENT", "INVALID_REGULAR_EXPRESSION"),
    ([lambda t: pb.ConsumeRequest(join=pb.ConsumeJoin(group=t, topics=[t], assignor="mine"))], "INVALID_ARGUMENT", "UNSUPPORTED_ASSIGNOR"),
    ([lambda t: pb.ConsumeRequest(join=pb.ConsumeJoin(group=t, topics=[t]))] * 2, "INVALID_ARGUMENT", "INVALID_REQUEST"),
])
def test_joins_that_cannot_be(log, topic, requests, code, reason):
    for stream in (iter, lambda list_: kept_open(*list_) if list_ else iter(list_)):  # whether its side ends with them or not
        got, details = refused(log.Consume, stream([make(topic) for make in requests]), timeout=20)
        assert (got, details.reason) == (code, reason)


def test_who_joins_and_ends_its_side_at_once_is_in_and_out(log, topic):
    said = list(log.Consume(iter([pb.ConsumeRequest(join=pb.ConsumeJoin(group="g-" + topic, topics=[topic]))]), timeout=20))
    assert all(m.assignment.member_id for m in said)


def test_an_acknowledgement_of_what_was_not_given_ends_the_stream(log, member, topic):
    produce(log, topic, 10)
    one = member("g-" + topic, topic, hold=True)
    until(lambda: one.held, 30, lambda: (one.code, one.details))
    one.acknowledge(pb.ConsumePosition(topic=topic, next_offset=11, assignment_id=one.held[0].assignment_id))
    until(lambda: one.code == "INVALID_ARGUMENT", 30, lambda: (one.code, one.details))
    assert "beyond" in one.details
    assert committed(log, "g-" + topic) == {}


def test_a_member_that_was_taken_out_joins_again_in_the_server(broker, log, member, topic):
    produce(log, topic, 10)
    one = member("g-" + topic, topic)
    until(lambda: one.committed == {(topic, 0): 10}, 30, lambda: (one.code, one.details))
    events = one.events
    evict(broker, "g-" + topic, one.member_id)
    produce(log, topic, 5, first=10)
    until(lambda: one.events > events and one.committed == {(topic, 0): 15}, 60, lambda: (one.events, one.committed, one.code, one.details))
    seen = [r[2] for r in one.records]  # what it was given while it was out cannot be committed, and comes again
    assert [seen.count(o) for o in range(10)] == [1] * 10 and set(seen) == set(range(15))
    assert one.code is None


def evict(broker, group, member_id):
    status, _, body = http(f"{broker.rest}/v1/groups/{group}/members/{member_id}", method="DELETE")
    assert status in (200, 202, 204), body


def test_a_newer_stream_of_the_same_member_takes_its_place(log, member, topic):
    produce(log, topic, 10)
    one = member("g-" + topic, topic)
    until(lambda: one.committed == {(topic, 0): 10}, 30, lambda: (one.code, one.details))
    two = member("g-" + topic, topic, member_id=one.member_id)
    until(lambda: one.code == "ABORTED", 30, lambda: one.code)
    until(lambda: set(two.assigned) == {(topic, 0)}, 30, lambda: (two.code, two.details))
    assert two.member_id == one.member_id
    produce(log, topic, 5, first=10)
    until(lambda: [r[2] for r in two.records] == list(range(10, 15)), 30, lambda: two.records)


def test_a_static_member_finds_its_partitions_when_it_comes_back(admin, log, member, name):
    admin.create(name, partitions=2)
    one, two = member("g-" + name, name, instance_id="one"), member("g-" + name, name, instance_id="two")
    until(lambda: len(one.assigned) == 1 and len(two.assigned) == 1, 30, lambda: (one.assigned, two.assigned, one.details))
    has, others = set(one.assigned), set(two.assigned)
    one.leave()
    for p in range(2):
        produce(log, name, 3, partition=p)
    until(lambda: len(two.records) == 3, 30, lambda: two.records)
    again = member("g-" + name, name, instance_id="one")
    until(lambda: set(again.assigned) == has and len(again.records) == 3, 30, lambda: (again.assigned, again.code, again.details))
    assert set(two.assigned) == others and len(two.records) == 3


def test_read_committed_passes_over_what_was_aborted(broker, log, member, topic):
    producer = log.InitProducer(pb.InitProducerRequest(transactional_id="tx-" + topic), timeout=20)
    sequence, epoch = 0, producer.producer_epoch
    for commit_it in (False, True):
        log.Produce(pb.ProduceRequest(topic=topic, transactional_id="tx-" + topic, records=[pb.Record(value=b"%d" % commit_it)],
                                      producer=pb.Producer(id=producer.producer_id, epoch=epoch, sequence=sequence)), timeout=20)
        ended = log.EndTransaction(pb.EndTransactionRequest(transactional_id="tx-" + topic, producer=pb.Producer(id=producer.producer_id, epoch=epoch), commit=commit_it), timeout=20)
        sequence, epoch = (0, ended.producer_epoch) if ended.producer_epoch != epoch else (sequence + 1, epoch)
    one = member("g-" + topic, topic, isolation_level=pb.ISOLATION_LEVEL_READ_COMMITTED)
    until(lambda: [r[3] for r in one.records] == [b"1"], 30, lambda: (one.records, one.code, one.details))
    until(lambda: one.committed == {(topic, 0): 4}, 30, lambda: one.committed)  # behind the marker, too


def test_a_server_that_stops_says_so_and_nothing_is_repeated(own_broker):
    broker = own_broker()
    with channel(broker, **{"grpc.max_reconnect_backoff_ms": 200, "grpc.initial_reconnect_backoff_ms": 100, "grpc.min_reconnect_backoff_ms": 100}) as made:
        log = pb_grpc.LogStub(made)
        produce(log, "t", 100)
        one = Member(log, "g", "t")
        until(lambda: one.committed == {("t", 0): 100}, 30, lambda: (one.code, one.details))
        broker.stop()
        until(lambda: one.code == "UNAVAILABLE" and "join again" in one.details, 30, lambda: (one.code, one.details))
        broker.start()
        until(lambda: _tries(lambda: produce(log, "t", 5, first=100) or True), 30, "reconnected")
        two = Member(log, "g", "t", member_id=one.member_id)
        until(lambda: [r[2] for r in two.records] == list(range(100, 105)), 30, lambda: (two.records, two.code, two.details))
        two.leave()


def _tries(call):
    try:
        return call()
    except grpc.RpcError:
        return None


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_thousand_members_that_come_and_go_leave_nothing_behind(own_broker):
    if PRESET in ("asan", "tsan"):
        pytest.skip("what they keep of freed memory is in the way")
    broker = own_broker()
    with broker.connect() as connection:
        Admin(connection).create("t", partitions=8)

    def resident_kib():
        return int(next(line for line in open(f"/proc/{broker.process.pid}/status").read().splitlines() if line.startswith("RssAnon")).split()[1])

    def work(stub, number, count):
        for i in range(count):
            requests = queue.SimpleQueue()
            requests.put(pb.ConsumeRequest(join=pb.ConsumeJoin(group=f"g{number}", topics=["t"], start=EARLIEST)))
            stream = stub.Consume(iter(requests.get, None), timeout=60)
            assert next(stream).assignment.member_id
            if i % 2:
                requests.put(None)
                list(stream)
            else:
                stream.cancel()
                requests.put(None)

    with channel(broker) as made:
        stub = pb_grpc.LogStub(made)
        for p in range(8):
            produce(stub, "t", 10, partition=p)
        work(stub, 0, 100)
        before = resident_kib()
        threads = [threading.Thread(target=work, args=(stub, number, 225)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(250)
        assert resident_kib() - before < 20 << 10

        def open_calls():
            lines = http(broker.rest + "/metrics")[2].decode().splitlines()
            return [line for line in lines if line.startswith('ottla_grpc_calls{method="Consume"')]

        until(lambda: open_calls() == ['ottla_grpc_calls{method="Consume"} 0'], 30, open_calls)


# ---- sharing, under load and kills

class Checker:
    """What the members of a group together read: nothing is lost, and nothing that was told as committed comes again."""

    def __init__(self, broker, topic, partitions):
        self.topic, self.partitions, self.lock = topic, partitions, threading.Lock()
        self.committed, self.read = collections.Counter(), collections.Counter()
        self.repeated, self.sent, self.stop = [], [0] * partitions, threading.Event()
        self.broker = broker

    def took(self, partition, offset):
        with self.lock:
            self.read[partition, offset] += 1
            if offset < self.committed[partition]:
                self.repeated.append((partition, offset))

    def commits(self, partition, offset):
        with self.lock:
            self.committed[partition] = max(self.committed[partition], offset)

    def load(self):
        """Appends to all partitions until stop."""
        with channel(self.broker, **{"grpc.use_local_subchannel_pool": 1}) as made:
            log = pb_grpc.LogStub(made)
            while not self.stop.is_set():
                for p in range(self.partitions):
                    try:
                        produce(log, self.topic, 10, partition=p, first=self.sent[p])
                        self.sent[p] += 10
                    except grpc.RpcError:
                        pass  # the server is away: what became of it shows at the end
                time.sleep(0.005)  # poll

    def done(self, log):
        """All is committed, as the server says it: a kill may have cut the word about the last ones."""
        at = committed(log, "g")
        return all(at.get((self.topic, p), 0) >= self.sent[p] > 0 for p in range(self.partitions))

    def verdict(self):
        assert self.repeated == []
        missing = [(p, o) for p in range(self.partitions) for o in range(self.sent[p]) if self.read[p, o] == 0]
        assert missing == []


class Checked(Member):
    """A member that tells the checker, acknowledges message by message, and joins again whatever ends its stream."""

    def __init__(self, stub, checker, group, topic, **more):
        self.checker, self.joins, self.stopping = checker, 0, False
        self.again = lambda: Member.__init__(self, stub, group, topic, max_bytes=400, **more)
        self.again()

    def _run(self):
        self.joins += 1
        super()._run()
        if not self.stopping and self.code != "OK":
            time.sleep(0.1)  # poll
            self.again()

    def _take(self, message):
        for p in message.committed:
            self.checker.commits(p.partition, p.next_offset)
        if message.HasField("position"):
            for r in message.records:
                self.checker.took(message.position.partition, r.offset)
        super()._take(message)

    def kill(self):
        self.stopping = True
        super().kill()


def kafka_member(broker, checker, group, topic, stop, protocol):
    from confluent_kafka import Consumer, KafkaException
    settings = {"group.protocol": "consumer"} if protocol == "consumer" else {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 6000,
                                                                              "heartbeat.interval.ms": 300}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **settings})
    consumer.subscribe([topic])
    while not stop.is_set():
        message = consumer.poll(0.05)
        if message is None or message.error():
            continue
        checker.took(message.partition(), message.offset())
        try:
            for p in consumer.commit(message, asynchronous=False):
                if p.error is None:
                    checker.commits(p.partition, p.offset)
        except KafkaException:
            pass  # rebalancing: it comes again
    consumer.close()


@pytest.mark.parametrize("protocol", ["consumer", pytest.param("classic", marks=pytest.mark.long)])
def test_members_of_both_doors_share_a_group_and_one_is_killed(own_broker, protocol):
    """Three gRPC members and one of Kafka's, under load: one is killed and comes back, another leaves. Nothing that was told as committed comes again, nothing is missing."""
    broker = own_broker(group_consumer_heartbeat_interval_ms=300, group_consumer_min_heartbeat_interval_ms=300, group_consumer_assignment_interval_ms=0)
    checker, stop = None, threading.Event()
    with channel(broker) as made:
        log = pb_grpc.LogStub(made)
        with broker.connect() as connection:
            Admin(connection).create("t", partitions=6)
        checker = Checker(broker, "t", 6)
        channels = [channel(broker, **{"grpc.use_local_subchannel_pool": 1}) for _ in range(4)]
        stubs = [pb_grpc.LogStub(c) for c in channels]
        loader = threading.Thread(target=checker.load)
        kafka = threading.Thread(target=kafka_member, args=(broker, checker, "g", "t", stop, protocol))
        members = []

        def join(at):
            members.append(Checked(stubs[at], checker, "g", "t", rebalance_timeout_ms=5000))

        def settled(some, least, most):
            until(lambda: all(least <= len(m.assigned) <= most for m in some), 60, lambda: [(m.assigned, m.code, m.details) for m in some])

        try:
            loader.start()
            join(0)
            kafka.start()
            join(1)
            join(2)
            settled(members, 1, 2)
            members[0].kill()
            join(3)
            settled(members[1:], 1, 2)
            members[1].leave()
            settled(members[2:], 2, 2)
            checker.stop.set()
            loader.join(60)
            until(lambda: checker.done(log), 60, lambda: (checker.sent, checker.committed))
        finally:
            checker.stop.set()
            stop.set()
            kafka.join(60)
        for one in members[2:]:
            one.leave()
        for one in channels:
            one.close()
        assert committed(log, "g") == {("t", p): checker.sent[p] for p in range(6)}
    checker.verdict()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_members_go_through_a_kill_of_the_server(own_broker):
    """kill -9 of the server under load, three times: members join again with their member ids, and nothing that was told as committed comes again."""
    broker = own_broker()
    options = {"grpc.max_reconnect_backoff_ms": 200, "grpc.initial_reconnect_backoff_ms": 100, "grpc.min_reconnect_backoff_ms": 100, "grpc.use_local_subchannel_pool": 1}
    with broker.connect() as connection:
        Admin(connection).create("t", partitions=4)
    channels = [channel(broker, **options) for _ in range(3)]
    checker = Checker(broker, "t", 4)

    def load():  # idempotent, so that what is sent again is written once
        log = pb_grpc.LogStub(channels[2])
        producer = log.InitProducer(pb.InitProducerRequest(), timeout=20)
        while not checker.stop.is_set():
            for p in range(4):
                request = pb.ProduceRequest(topic="t", partition=p, records=[pb.Record(value=b"%d" % (checker.sent[p] + i)) for i in range(10)],
                                            producer=pb.Producer(id=producer.producer_id, epoch=producer.producer_epoch, sequence=checker.sent[p]))
                until(lambda: _tries(lambda: log.Produce(request, timeout=10)), 60, "written")
                checker.sent[p] += 10

    loader = threading.Thread(target=load)
    loader.start()
    members = [Checked(pb_grpc.LogStub(channels[i]), checker, "g", "t", member_id=f"member-{i}") for i in range(2)]
    for _ in range(3):
        before = sum(checker.committed.values())
        until(lambda: sum(checker.committed.values()) > before + 2000, 100, lambda: (checker.committed, [(m.code, m.details) for m in members]))
        broker.kill()
        broker.start()
    checker.stop.set()
    loader.join(60)
    until(lambda: checker.done(pb_grpc.LogStub(channels[2])), 60, lambda: (checker.sent, checker.committed))
    for one in members:
        one.kill()
    for one in channels:
        one.close()
    assert min(m.joins for m in members) >= 4
    checker.verdict()
