"""The gRPC door against a real server: what is written there is what Kafka clients read, and the reverse; streams; every error path; limits; the end."""
import itertools
import queue
import socket
import threading
import time

import pytest

import batch
from clients_test import kcat
from harness import PRESET, STOP_S, http, until
from grpc_stubs import channel, grpc, pb, pb_grpc, refused, split, values

BATCHES = pb.PAYLOAD_FORMAT_RECORD_BATCHES


@pytest.fixture
def log(broker):
    with channel(broker) as made:
        yield pb_grpc.LogStub(made)


def record(value, **more):
    return pb.Record(value=value, **more)


def produce(log, topic, *contents, **more):
    return log.Produce(pb.ProduceRequest(topic=topic, records=[record(c) for c in contents], **more), timeout=20)


def subscribe(log, topic, start=pb.START_EARLIEST, **more):
    return log.Subscribe(pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic=topic, start=start)], **more), timeout=60)


def follow(stream, count):
    """The first `count` records of a subscription."""
    out = []
    for message in stream:
        out += message.records
        if len(out) >= count:
            return out
    raise AssertionError("the stream ended")


def open_calls_of(broker, method=""):
    text = http(broker.rest + "/metrics")[2].decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("ottla_grpc_calls{" + (f'method="{method}"' if method else "")))


# ---- the same bytes through both doors

@pytest.mark.smoke
def test_what_grpc_writes_kcat_reads(broker, log, topic):
    answer = log.Produce(pb.ProduceRequest(topic=topic, records=[
        record(b"one", key=b"k", timestamp_ms=1700000000000, headers=[pb.Header(key="h", value=b"x")]), record(b"two"),
        pb.Record(key=b"gone", tombstone=True), pb.Record(empty_key=True, value=b"")]), timeout=20)
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (0, -1, 0)
    out, _ = kcat(broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o|%K|%k|%S|%s|%h\n")
    assert out.splitlines() == ["0|1|k|3|one|h=x", "1|-1||3|two|", "2|4|gone|-1||", "3|0||0||"]
    out, _ = kcat(broker, "-C", "-t", topic, "-o", "beginning", "-c", 1, "-q", "-f", "%T")
    assert out == "1700000000000"


@pytest.mark.smoke
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_kcat_writes_grpc_reads(broker, log, topic, codec):
    kcat(broker, "-P", "-t", topic, "-K:", "-z", codec, "-H", "a=b", data="".join(f"k{i}:v{i}\n" for i in range(500)).encode())
    answer = log.Fetch(pb.FetchRequest(topic=topic, offset=100), timeout=20)
    assert [(r.offset, r.key, r.value, r.headers[0].key, r.headers[0].value) for r in answer.records] == [
        (i, f"k{i}".encode(), f"v{i}".encode(), "a", b"b") for i in range(100, 500)]
    assert (answer.next_offset, answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (500, 500, 500, 0)


@pytest.mark.smoke
def test_batches_are_the_bytes_of_the_log(broker, log, topic):
    for i in range(3):
        made = batch.build([b"%d-%d" % (i, k) for k in range(10)], codec="lz4")
        assert log.Produce(pb.ProduceRequest(topic=topic, record_batches=made), timeout=20).base_offset == 10 * i
    answer = log.Fetch(pb.FetchRequest(topic=topic, format=BATCHES), timeout=20)
    stored = next(broker.partition(topic).glob("*.log")).read_bytes()
    assert answer.record_batches == stored[:len(answer.record_batches)]
    assert (answer.next_offset, len(split(answer.record_batches))) == (30, 3)
    # from the middle: the batch that holds the offset is given whole; cut by max_bytes only between batches
    one = len(split(answer.record_batches)[0])
    answer = log.Fetch(pb.FetchRequest(topic=topic, offset=15, max_bytes=one + 30, format=BATCHES), timeout=20)
    assert (len(answer.record_batches), answer.next_offset) == (one, 20)


@pytest.mark.parametrize("compression", ["GZIP", "SNAPPY", "LZ4", "ZSTD"])
def test_records_are_packed_with_the_codec_asked_for(broker, log, topic, compression):
    log.Produce(pb.ProduceRequest(topic=topic, compression=f"COMPRESSION_{compression}", records=[record(b"x" * 1000) for _ in range(100)]), timeout=20)
    stored = log.Fetch(pb.FetchRequest(topic=topic, format=BATCHES), timeout=20).record_batches
    assert len(stored) < 20000
    assert split(stored)[0][22] & 7 == batch.CODECS[compression.lower()]
    assert values(log.Fetch(pb.FetchRequest(topic=topic), timeout=20)) == [b"x" * 1000] * 100


def test_the_server_chooses_partitions_as_kafka_clients_do(broker, admin, log, name):
    admin.create(name, partitions=5)
    keys = [f"key-{i}" for i in range(50)]
    answer = log.Produce(pb.ProduceRequest(topic=name, partition=-1, records=[pb.Record(key=k.encode(), value=k.encode()) for k in keys]), timeout=20)
    assert len(answer.positions) == 50 and len({p.partition for p in answer.positions}) == 5
    kcat(broker, "-P", "-t", name, "-K:", "-X", "partitioner=murmur2_random", data="".join(f"{k}:{k}\n" for k in keys).encode())
    for partition in range(5):
        read = log.Fetch(pb.FetchRequest(topic=name, partition=partition), timeout=20)
        ours = [(p.offset, k) for p, k in zip(answer.positions, keys) if p.partition == partition]
        assert [(r.offset, r.key.decode()) for r in read.records][:len(ours)] == ours
        assert sorted(r.key for r in read.records[len(ours):]) == sorted(k.encode() for _, k in ours)
    log.Produce(pb.ProduceRequest(topic=name, partition=-1, records=[record(b"no key")]), timeout=20)


def test_idempotent_records_are_written_once(log, topic):
    producer = log.InitProducer(pb.InitProducerRequest(), timeout=20)
    def send(sequence, epoch=producer.producer_epoch):
        return pb.ProduceRequest(topic=topic, records=[record(b"%d" % sequence)], producer=pb.Producer(id=producer.producer_id, epoch=epoch, sequence=sequence))
    assert [log.Produce(send(s), timeout=20).base_offset for s in (0, 0, 1, 1, 0)] == [0, 0, 1, 1, 0]
    assert refused(log.Produce, send(7), timeout=20)[1].reason == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert values(log.Fetch(pb.FetchRequest(topic=topic), timeout=20)) == [b"0", b"1"]


def test_a_missing_topic_is_made_by_the_first_append(log, name):
    assert produce(log, name, b"first").base_offset == 0
    answer = log.Metadata(pb.MetadataRequest(topics=[name + "-2"], allow_auto_topic_creation=True), timeout=20)
    assert answer.topics[0].error.name in ("", "LEADER_NOT_AVAILABLE")
    until(lambda: not log.Metadata(pb.MetadataRequest(topics=[name + "-2"]), timeout=20).topics[0].HasField("error"), 20, "made")


def test_metadata(broker, admin, log, name):
    admin.create(name, partitions=3)
    answer = log.Metadata(pb.MetadataRequest(topics=[name, "not-" + name, "bad/name"]), timeout=20)
    assert [(b.id, b.address) for b in answer.brokers] == [(1, f"127.0.0.1:{broker.more_ports[1]}")]
    assert answer.controller_id == 1 and answer.cluster_id
    good, missing, bad = answer.topics
    assert [(p.index, p.leader_id, list(p.replica_ids), list(p.isr_ids)) for p in good.partitions] == [(i, 1, [1], [1]) for i in range(3)]
    assert len(good.id) == 22
    assert (missing.error.name, missing.error.retriable, bad.error.name) == ("UNKNOWN_TOPIC_OR_PARTITION", True, "INVALID_TOPIC_EXCEPTION")
    assert name in [t.name for t in log.Metadata(pb.MetadataRequest(), timeout=20).topics]


def test_list_offsets(log, topic):
    for i in range(5):
        log.Produce(pb.ProduceRequest(topic=topic, records=[record(b"x", timestamp_ms=1700000000000 + 1000 * i)]), timeout=20)
    def ask(spec, **more):
        return pb.ListOffsetsPartition(topic=topic, spec=spec, **more)
    answer = log.ListOffsets(pb.ListOffsetsRequest(partitions=[ask(pb.OFFSET_SPEC_LATEST), ask(pb.OFFSET_SPEC_EARLIEST),
        ask(pb.OFFSET_SPEC_TIMESTAMP, timestamp_ms=1700000001500), ask(pb.OFFSET_SPEC_TIMESTAMP, timestamp_ms=1900000000000),
        ask(pb.OFFSET_SPEC_MAX_TIMESTAMP), pb.ListOffsetsPartition(topic=topic, partition=9)]), timeout=20)
    assert [(p.offset, p.timestamp_ms) for p in answer.partitions] == [(5, -1), (0, -1), (2, 1700000002000), (-1, -1), (4, 1700000004000), (-1, -1)]
    assert answer.partitions[5].error.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_fetch_waits_for_data_and_no_longer_than_asked(log, topic):
    begin = time.monotonic()
    assert values(log.Fetch(pb.FetchRequest(topic=topic, max_wait_ms=200), timeout=20)) == []
    assert time.monotonic() - begin >= 0.19
    waiting = log.Fetch.future(pb.FetchRequest(topic=topic, max_wait_ms=60000), timeout=50)
    produce(log, topic, b"woken")
    assert values(waiting.result(20)) == [b"woken"]
    # a deadline that is nearer than max_wait_ms gets an answer before it passes; on a busy machine that answer may come too late
    assert until(lambda: _tries(lambda: [log.Fetch(pb.FetchRequest(topic=topic, offset=1, max_wait_ms=60000), timeout=1)]), 10, "an answer before the deadline")[0].next_offset == 1


# ---- streams

@pytest.mark.smoke
def test_a_stream_acknowledges_in_order(broker, admin, log, name):
    admin.create(name, partitions=3)
    requests = [pb.ProduceStreamRequest(topic=name, partition=i % 4, id=1000 + i, acks=(pb.ACKS_ALL, pb.ACKS_LEADER)[i % 2],
                                        compression=("COMPRESSION_UNSPECIFIED", "COMPRESSION_ZSTD")[i % 2], records=[record(b"%d" % i)]) for i in range(400)]
    acks = [a for message in log.ProduceStream(iter(requests), timeout=60) for a in message.acknowledgements]
    assert [a.id for a in acks] == [r.id for r in requests]
    assert [a.error.name for a in acks] == ["", "", "", "UNKNOWN_TOPIC_OR_PARTITION"] * 100
    for partition in range(3):
        assert [a.base_offset for a in acks if a.partition == partition] == list(range(100))
        wanted = [r.records[0].value for r in requests if r.partition == partition]
        def read():  # what ACKS_LEADER acknowledged can be read once it is committed, which may be a little later
            return values(log.Fetch(pb.FetchRequest(topic=name, partition=partition), timeout=20))
        until(lambda: len(read()) == 100, 20, lambda: len(read()))
        assert read() == wanted


def test_a_stream_without_acknowledgements_ends_at_an_error(log, topic):
    good = [pb.ProduceStreamRequest(topic=topic, acks=pb.ACKS_NONE, records=[record(b"%d" % i)]) for i in range(10)]
    assert list(log.ProduceStream(iter(good), timeout=20)) == []
    until(lambda: len(log.Fetch(pb.FetchRequest(topic=topic), timeout=20).records) == 10, 20, "written")
    bad = [pb.ProduceStreamRequest(topic=topic, partition=7, acks=pb.ACKS_NONE, records=[record(b"x")])]
    code, details = refused(log.ProduceStream, iter(bad), timeout=20)
    assert (code, details.reason, details.metadata["partition"]) == ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION", "7")


def test_a_stream_tells_a_request_that_it_cannot_decode_and_goes_on(log, topic):
    requests = [pb.ProduceStreamRequest(topic=topic, id=1), pb.ProduceStreamRequest(topic=topic, id=2, records=[record(b"x")], record_batches=b"y"),
                pb.ProduceStreamRequest(topic=topic, id=3, record_batches=b"no batch"), pb.ProduceStreamRequest(topic=topic, id=4, records=[record(b"good")])]
    acks = [a for m in log.ProduceStream(iter(requests), timeout=20) for a in m.acknowledgements]
    assert [(a.id, a.error.name) for a in acks] == [(1, "INVALID_REQUEST"), (2, "INVALID_REQUEST"), (3, "INVALID_RECORD"), (4, "")]


@pytest.mark.smoke
def test_a_subscription_gives_what_is_there_and_what_comes(broker, log, topic):
    produce(log, topic, *[b"%d" % i for i in range(10)])
    stream = subscribe(log, topic)
    assert [r.offset for r in follow(stream, 10)] == list(range(10))
    kcat(broker, "-P", "-t", topic, "-z", "lz4", data=b"10\n11\n12\n")
    assert [(r.offset, r.value) for r in follow(stream, 3)] == [(i, b"%d" % i) for i in (10, 11, 12)]
    stream.cancel()


@pytest.mark.parametrize("start,more,first", [(pb.START_EARLIEST, {}, 0), (pb.START_LATEST, {}, 5), (pb.START_UNSPECIFIED, {}, 5), (pb.START_OFFSET, {"offset": 3}, 3),
                                              (pb.START_TIMESTAMP, {"timestamp_ms": 1700000001500}, 2), (pb.START_TIMESTAMP, {"timestamp_ms": 1900000000000}, 5)])
def test_where_a_subscription_begins(log, topic, start, more, first):
    for i in range(5):
        log.Produce(pb.ProduceRequest(topic=topic, records=[record(b"x", timestamp_ms=1700000000000 + 1000 * i)]), timeout=20)
    stream = log.Subscribe(pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic=topic, start=start, **more)]), timeout=20)
    beat = next(stream)
    assert [(p.topic, p.next_offset, p.high_watermark, p.log_end_offset) for p in beat.heartbeat.partitions] == [(topic, first, 5, 5)]
    produce(log, topic, b"next")
    assert [r.offset for r in follow(stream, 6 - first)] == list(range(first, 6))
    stream.cancel()


def test_a_subscription_to_all_partitions_with_heartbeats(admin, log, name):
    admin.create(name, partitions=4)
    stream = log.Subscribe(pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic=name, partition=-1, start=pb.START_EARLIEST)], heartbeat_interval_ms=50,
                                               format=BATCHES), timeout=60)
    assert sorted(p.partition for p in next(stream).heartbeat.partitions) == [0, 1, 2, 3]
    for partition in range(4):
        log.Produce(pb.ProduceRequest(topic=name, partition=partition, records=[record(b"x")]), timeout=20)
    seen, beats = {}, {}
    for message in stream:
        if message.record_batches:
            seen[message.partition] = message.next_offset
        for p in message.heartbeat.partitions:
            beats[p.partition] = (p.next_offset, p.log_end_offset)
        if beats == {p: (1, 1) for p in range(4)}:
            break
    assert seen == {p: 1 for p in range(4)}
    stream.cancel()


def test_a_reader_that_does_not_read_costs_one_message(broker, log, topic):
    if PRESET == "tsan":
        pytest.skip("its own memory is in the way")
    made = batch.build([b"x" * 1000] * 900)
    for _ in range(40):
        log.Produce(pb.ProduceRequest(topic=topic, record_batches=made), timeout=20)
    def resident():
        lines = open(f"/proc/{broker.process.pid}/status").read().splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])
    with channel(broker) as slow:
        before = resident()
        streams = [pb_grpc.LogStub(slow).Subscribe(pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic=topic, start=pb.START_EARLIEST)],
                                                                      format=BATCHES), timeout=60) for _ in range(20)]
        for stream in streams:
            next(stream)
        time.sleep(0.5)  # poll: it must not go on growing
        assert resident() - before < 30 << 10, "KiB"
        got = sum(len(split(m.record_batches)) for m in itertools.takewhile(lambda m: m.next_offset < 36000, streams[0]))
        assert got == 39
        for stream in streams:
            stream.cancel()


@pytest.mark.smoke
def test_cancelled_and_overdue_calls_leave_nothing_behind(broker, log, topic):
    def open_calls():
        return open_calls_of(broker)
    streams = [subscribe(log, topic) for _ in range(20)]
    for stream in streams:
        next(stream)
    waiting = [log.Fetch.future(pb.FetchRequest(topic=topic, max_wait_ms=60000)) for _ in range(20)]
    until(lambda: open_calls() >= 40, 20, open_calls)
    for one in streams + waiting:
        one.cancel()
    until(lambda: open_calls() == 0, 20, open_calls)
    code, _ = refused(log.Subscribe, pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic=topic)]), timeout=0.3)
    assert code == "DEADLINE_EXCEEDED"
    until(lambda: open_calls() == 0, 20, open_calls)
    produce(log, topic, b"still here")


# ---- errors

@pytest.mark.smoke
@pytest.mark.parametrize("method,request_,code,reason", [
    ("Produce", lambda t: pb.ProduceRequest(records=[pb.Record()]), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("Produce", lambda t: pb.ProduceRequest(topic=t), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("Produce", lambda t: pb.ProduceRequest(topic=t, acks=9, records=[pb.Record()]), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("Produce", lambda t: pb.ProduceRequest(topic=t, partition=9, records=[pb.Record()]), "NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("Produce", lambda t: pb.ProduceRequest(topic="a/b", records=[pb.Record()]), "INVALID_ARGUMENT", "INVALID_TOPIC_EXCEPTION"),
    ("Produce", lambda t: pb.ProduceRequest(topic=t, record_batches=b"rubbish"), "INVALID_ARGUMENT", "INVALID_RECORD"),
    ("Produce", lambda t: pb.ProduceRequest(topic=t, record_batches=batch.build([b"x"])[:-1] + b"?"), "INTERNAL", "CORRUPT_MESSAGE"),
    ("Produce", lambda t: pb.ProduceRequest(topic=t, record_batches=batch.build([b"x" * 2000000])), "RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE"),
    ("Produce", lambda t: pb.ProduceRequest(topic=t, records=[record(b"x" * 700000), record(b"x" * 700000)]), "RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE"),
    ("Fetch", lambda t: pb.FetchRequest(), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("Fetch", lambda t: pb.FetchRequest(topic=t, offset=5), "OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE"),
    ("Fetch", lambda t: pb.FetchRequest(topic=t, partition=1), "NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("Fetch", lambda t: pb.FetchRequest(topic=t, leader_epoch_plus_one=99), "UNAVAILABLE", "UNKNOWN_LEADER_EPOCH"),
    ("Fetch", lambda t: pb.FetchRequest(topic=t, format=7), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("Subscribe", lambda t: pb.SubscribeRequest(), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("Subscribe", lambda t: pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic="not-" + t)]), "NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("Subscribe", lambda t: pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic="not-" + t, partition=-1)]), "NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("Subscribe", lambda t: pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic=t, start=3, offset=9)]), "OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE"),
    ("Subscribe", lambda t: pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic=t)] * 2), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("Subscribe", lambda t: pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic=t, partition=i) for i in range(1001)]), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("ListOffsets", lambda t: pb.ListOffsetsRequest(), "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ("ListOffsets", lambda t: pb.ListOffsetsRequest(partitions=[pb.ListOffsetsPartition(topic=t, partition=9)]), "NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("InitProducer", lambda t: pb.InitProducerRequest(producer=pb.Producer()), "INVALID_ARGUMENT", "INVALID_REQUEST"),
])
def test_errors_are_a_status_and_an_error_info(log, topic, method, request_, code, reason):
    got, details = refused(getattr(log, method), request_(topic), timeout=20)
    assert (got, details.reason) == (code, reason)
    assert details.metadata["kafka_code"].lstrip("-").isdigit() and details.metadata["retriable"] in ("true", "false")
    produce(log, topic, b"still served")


def test_an_unknown_method_is_refused_at_once(broker):
    with channel(broker) as made:
        code, _ = refused(made.unary_unary("/ottla.v1.Log/Nothing"), b"", timeout=20)
        assert code == "UNIMPLEMENTED"
        code, details = refused(made.unary_unary("/ottla.v1.Log/Fetch"), b"\x0a\xff", timeout=20)
        assert (code, details.reason) == ("INVALID_ARGUMENT", "INVALID_REQUEST")
        code, _ = refused(made.unary_unary("/ottla.v1.Log/Produce"), b"", timeout=20, compression=grpc.Compression.Gzip)
        assert code == "UNIMPLEMENTED"  # inflated before its size is looked at: record batches bring their own compression


def test_a_deleted_topic_ends_its_readers(broker, admin, log, topic):
    produce(log, topic, b"x")
    stream = subscribe(log, topic)
    assert len(follow(stream, 1)) == 1
    admin.delete(topic)
    code, details = refused(list, stream)
    assert (code, details.reason, details.metadata["topic"]) == ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION", topic)


# ---- limits and settings

def test_a_message_above_the_limit_is_refused(own_broker):
    broker = own_broker(grpc_max_message_bytes=100000, grpc_max_concurrent_streams=3, grpc_calls_max=5)
    with channel(broker) as made, channel(broker, **{"grpc.use_local_subchannel_pool": 1}) as other:
        log = pb_grpc.LogStub(made)
        assert refused(log.Produce, pb.ProduceRequest(topic="t", records=[record(b"x" * 100001)]), timeout=20)[0] == "RESOURCE_EXHAUSTED"
        produce(log, "t", b"x" * 90000)
        # three streams fill a connection: a fourth call waits for one of them
        streams = [subscribe(log, "t") for _ in range(3)]
        for stream in streams:
            next(stream)
        fourth = log.Metadata.future(pb.MetadataRequest(), timeout=20)
        with pytest.raises(grpc.FutureTimeoutError):
            fourth.result(0.3)
        # and another connection gets what grpc.calls.max leaves
        more = pb_grpc.LogStub(other)
        held = [subscribe(more, "t") for _ in range(2)]
        for stream in held:
            next(stream)
        code, details = refused(more.Metadata, pb.MetadataRequest(), timeout=20)
        assert (code, details.reason) == ("RESOURCE_EXHAUSTED", "THROTTLING_QUOTA_EXCEEDED")
        for stream in streams + held:
            stream.cancel()
        assert fourth.result(20).cluster_id


def test_heartbeats_come_at_the_servers_interval(own_broker):
    broker = own_broker(grpc_heartbeat_interval_ms=100)
    with channel(broker) as made:
        log = pb_grpc.LogStub(made)
        produce(log, "t", b"x")
        begin = time.monotonic()
        assert all(m.HasField("heartbeat") for m in itertools.islice(subscribe(log, "t", start=pb.START_LATEST), 5))
        assert time.monotonic() - begin >= 0.3


def test_an_idle_connection_and_an_old_one_are_closed(own_broker):
    broker = own_broker(grpc_connection_max_idle_ms=300, grpc_connection_max_age_ms=600000)
    seen = []
    with channel(broker) as made:
        pb_grpc.LogStub(made).Metadata(pb.MetadataRequest(), timeout=20)
        made.subscribe(seen.append)
        until(lambda: grpc.ChannelConnectivity.IDLE in seen, 20, lambda: seen)
        pb_grpc.LogStub(made).Metadata(pb.MetadataRequest(), timeout=20)
    aged = own_broker(grpc_connection_max_age_ms=300)
    seen = []
    with channel(aged) as made:
        log = pb_grpc.LogStub(made)
        produce(log, "t", b"x")
        made.subscribe(seen.append)
        until(lambda: log.Metadata(pb.MetadataRequest(), timeout=20) and grpc.ChannelConnectivity.IDLE in seen, 20, lambda: seen)


@pytest.mark.long
def test_pings_too_often_close_a_connection(own_broker):
    def ends_with(broker):
        with channel(broker, **{"grpc.keepalive_time_ms": 1000, "grpc.keepalive_permit_without_calls": 1, "grpc.http2.max_pings_without_data": 0}) as made:
            log = pb_grpc.LogStub(made)
            produce(log, "t", b"x")
            return refused(log.Subscribe, pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic="t")], heartbeat_interval_ms=60000), timeout=8)[0]
    assert ends_with(own_broker(grpc_ping_interval_min_ms=10000)) == "UNAVAILABLE"
    assert ends_with(own_broker(grpc_ping_interval_min_ms=10)) == "DEADLINE_EXCEEDED"


def test_a_stream_that_is_held_back_at_its_bytes_in_flight_ends_well(own_broker):
    broker = own_broker(grpc_stream_inflight_bytes_max=100000)
    with channel(broker) as made:
        log = pb_grpc.LogStub(made)
        produce(log, "t", b"x")
        requests = [pb.ProduceStreamRequest(topic="t", id=i, records=[record(b"x" * 50000)]) for i in range(50)]
        acks = [a for m in log.ProduceStream(iter(requests), timeout=60) for a in m.acknowledgements]
        assert [a.id for a in acks] == list(range(50)) and not any(a.HasField("error") for a in acks)


def test_a_dead_peer_is_found_by_pings_that_it_does_not_answer(own_broker):
    broker = own_broker(grpc_keepalive_time_ms=300, grpc_keepalive_timeout_ms=300)
    with socket.create_connection(("127.0.0.1", broker.more_ports[1]), 20) as dead:
        dead.settimeout(20)
        dead.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        seen = b""
        while piece := dead.recv(65536):
            seen += piece
    assert bytes([0, 0, 8, 6, 0]) in seen, "a PING frame"


def test_an_empty_list_of_listeners_switches_the_door_off(own_broker):
    broker = own_broker(grpc_listeners="")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.more_ports[1]), 5)
    with channel(broker) as made:
        assert refused(pb_grpc.LogStub(made).Metadata, pb.MetadataRequest(), timeout=5)[0] == "UNAVAILABLE"


def test_the_fuse_of_the_library_and_a_stop_with_a_stuck_reader(own_broker):
    """A reader that takes nothing cannot hold up a stop beyond grpc.shutdown.grace.ms; with grpc.memory.bytes far too small, calls are closed and the server lives."""
    broker = own_broker(grpc_shutdown_grace_ms=200)
    with channel(broker) as made:
        log = pb_grpc.LogStub(made)
        for _ in range(10):
            log.Produce(pb.ProduceRequest(topic="t", record_batches=batch.build([b"x" * 1000] * 900)), timeout=20)
        stuck = log.Subscribe(pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic="t", start=pb.START_EARLIEST)], format=BATCHES), timeout=10 * STOP_S)
        next(stuck)
        broker.stop()                          # which waits for no more than STOP_S
    small = own_broker(grpc_memory_bytes=1 << 20)
    with channel(small) as made:
        log = pb_grpc.LogStub(made)
        request = pb.ProduceRequest(topic="t", record_batches=batch.build([b"x" * 1000] * 900))

        def wave():  # what is closed depends on how messages arrive: some wave meets the fuse
            calls = [log.Produce.future(request, timeout=20) for _ in range(60)]
            return {call.code().name for call in calls} - {"OK"}

        until(wave, 60, "a call was closed")
    assert small.alive()


def test_more_than_the_memory_for_requests_waits_in_line(own_broker):
    broker = own_broker(queued_max_request_bytes=2000000)
    made = batch.build([b"x" * 1000] * 900)
    with channel(broker) as one, channel(broker, **{"grpc.use_local_subchannel_pool": 1}) as two:
        logs = [pb_grpc.LogStub(one), pb_grpc.LogStub(two)]
        produce(logs[0], "t", b"first")
        calls = [logs[i % 2].Produce.future(pb.ProduceRequest(topic="t", record_batches=made), timeout=60) for i in range(40)]
        streams = [log.ProduceStream(iter([pb.ProduceStreamRequest(topic="t", id=i, record_batches=made) for i in range(20)]), timeout=60) for log in logs]
        for stream in streams:
            assert [a.id for m in stream for a in m.acknowledgements if not a.HasField("error")] == list(range(20))
        assert sorted(call.result(60).base_offset for call in calls)[-1] <= 1 + 900 * 79
        assert logs[0].ListOffsets(pb.ListOffsetsRequest(partitions=[pb.ListOffsetsPartition(topic="t")]), timeout=20).partitions[0].offset == 1 + 900 * 80


def test_two_brokers_cannot_share_a_port(own_broker, broker):
    second = own_broker(start=False)
    second.more_ports[1] = broker.more_ports[1]
    second.start(wait=False)
    assert second.process.wait(120) != 0
    second.process = None
    assert "Address already in use" in second.log()


# ---- the end

def test_a_stop_tells_clients_to_connect_again(own_broker):
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    broker = own_broker()
    with channel(broker) as made:
        log, health = pb_grpc.LogStub(made), health_pb2_grpc.HealthStub(made)
        produce(log, "t", b"x")
        assert health.Check(health_pb2.HealthCheckRequest(service="ottla.v1.Log"), timeout=20).status == 1
        assert refused(health.Check, health_pb2.HealthCheckRequest(service="nobody"), timeout=20)[0] == "NOT_FOUND"
        subscribed, watched = subscribe(log, "t"), health.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert (len(follow(subscribed, 1)), next(watched).status) == (1, 1)
        pending = queue.Queue()
        stream = log.ProduceStream(iter(pending.get, None), timeout=60)
        for i in range(5):
            pending.put(pb.ProduceStreamRequest(topic="t", id=i, records=[record(b"y")]))
        assert next(stream).acknowledgements[0].id == 0
        waiting = log.Fetch.future(pb.FetchRequest(topic="t", offset=1, min_bytes=1 << 20, max_wait_ms=60000), timeout=60)
        until(lambda: open_calls_of(broker, "Fetch") == 1, 20, "it waits")
        stopper = threading.Thread(target=broker.stop)
        stopper.start()
        assert [m.status for m in _until_error(watched)] == [2]
        assert watched.code().name == "UNAVAILABLE"
        list(_until_error(stream))
        assert (stream.code().name, "connect again" in stream.details()) == ("UNAVAILABLE", True)
        list(_until_error(subscribed))
        assert (subscribed.code().name, "next_offset" in subscribed.details()) == ("UNAVAILABLE", True)
        assert waiting.result(20).next_offset >= 1
        pending.put(None)
        stopper.join(60)
        broker.start()
        until(lambda: _tries(lambda: produce(log, "t", b"again")), 30, "reconnected")


def _until_error(stream):
    try:
        yield from stream
    except grpc.RpcError:
        pass


def _tries(call):
    try:
        return call()
    except grpc.RpcError:
        return None


def test_metrics_of_the_door(broker, log, topic):
    produce(log, topic, b"x")
    refused(log.Fetch, pb.FetchRequest(topic=topic, offset=99), timeout=20)
    log.Fetch(pb.FetchRequest(topic=topic, format=BATCHES), timeout=20)
    text = http(broker.rest + "/metrics")[2].decode()
    def value(series):
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(series + " "))
    assert value('ottla_grpc_requests_total{method="Produce",status="OK"}') >= 1
    assert value('ottla_grpc_requests_total{method="Fetch",status="OUT_OF_RANGE"}') >= 1
    assert value('ottla_grpc_request_duration_seconds_count{method="Produce"}') >= 1
    assert value('ottla_sent_bytes_total{path="mapped"}') > 60
    assert value("ottla_grpc_received_bytes_total") > 0
