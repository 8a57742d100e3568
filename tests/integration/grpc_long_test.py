"""The gRPC door under load: many streams, a million calls, restarts, and a count of what is copied."""
import os
import re
import subprocess
import threading
import time

import pytest

import batch
from clients_test import kcat
from grpc_stubs import channel, grpc, pb, pb_grpc, split
from harness import TOP, http, until

BATCHES = pb.PAYLOAD_FORMAT_RECORD_BATCHES


def record(value):
    return pb.Record(value=value)


def anonymous_kib(broker):
    lines = open(f"/proc/{broker.process.pid}/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


def test_record_bytes_are_not_copied_on_fetch(own_broker, tmp_path):
    """memcpy and memmove of the whole process are interposed: what they take out of mapped segments is next to nothing beside what sendmsg is handed from there."""
    shim = tmp_path / "copy_counter.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fno-builtin", "-o", shim, TOP / "tests/integration/copy_counter.c", "-ldl"], check=True, timeout=240)
    broker = own_broker(start=False)
    broker.wrap = ["env", f"LD_PRELOAD={shim}"]
    broker.start()
    with channel(broker) as made:
        log = pb_grpc.LogStub(made)
        one = batch.build([b"x" * 1000] * 900)
        log.Produce(pb.ProduceRequest(topic="t", record_batches=one), timeout=20)
        log.Fetch(pb.FetchRequest(topic="t", format=BATCHES), timeout=20)
        for _ in range(20):
            log.Produce(pb.ProduceRequest(topic="t", record_batches=one), timeout=20)
        got = sum(len(log.Fetch(pb.FetchRequest(topic="t", offset=900 * i, format=BATCHES), timeout=20).record_batches) for i in range(20))
    broker.stop()
    copied, sent = map(int, re.search(r"copy_counter copied=(\d+) sent=(\d+)", broker.log()).groups())
    assert sent >= got
    assert copied < sent / 1000


@pytest.mark.long
def test_ten_thousand_short_streams(own_broker):
    broker = own_broker()
    with channel(broker) as made:
        log = pb_grpc.LogStub(made)
        log.Produce(pb.ProduceRequest(topic="t", records=[record(b"x")]), timeout=20)

        def work(count):
            for i in range(count):
                stream = log.Subscribe(pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic="t", start=pb.START_EARLIEST)]), timeout=60)
                next(stream)
                if i % 2:
                    next(stream)
                stream.cancel()
                list(log.ProduceStream(iter([pb.ProduceStreamRequest(topic="t", acks=pb.ACKS_LEADER, records=[record(b"y")])]), timeout=60))

        work(200)
        before = anonymous_kib(broker)
        threads = [threading.Thread(target=work, args=(1225,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
        until(lambda: log.ListOffsets(pb.ListOffsetsRequest(partitions=[pb.ListOffsetsPartition(topic="t")]), timeout=20).partitions[0].offset == 5101, 60, "all written")
        assert anonymous_kib(broker) - before < 20 << 10


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_growth_over_a_million_calls(own_broker):
    loader = next((TOP / "build" / "release").rglob("bench_grpc_loader"), None)
    if loader is None:
        pytest.skip("no bench_grpc_loader")
    broker = own_broker()
    with channel(broker) as made:
        pb_grpc.LogStub(made).Produce(pb.ProduceRequest(topic="t", records=[record(b"x")]), timeout=20)

    def calls(count):
        subprocess.run([loader, "unary", f"127.0.0.1:{broker.more_ports[1]}", "t", str(count), "100", "32"], check=True, stdout=subprocess.DEVNULL, timeout=900)

    calls(100000)
    before = anonymous_kib(broker)
    calls(1000000)
    assert anonymous_kib(broker) - before < 8 << 10, "KiB"


@pytest.mark.long
def test_a_restart_under_load_loses_nothing_acknowledged(own_broker):
    """Four stops, two of them kill -9, under a stream of idempotent appends that is taken up again: every acknowledged record is there, once, in order."""
    broker = own_broker()
    stop, acknowledged = threading.Event(), []
    with channel(broker, **{"grpc.max_reconnect_backoff_ms": 200, "grpc.initial_reconnect_backoff_ms": 100, "grpc.min_reconnect_backoff_ms": 100}) as made:
        log = pb_grpc.LogStub(made)
        log.Produce(pb.ProduceRequest(topic="t", records=[record(b"first")]), timeout=20)
        producer = log.InitProducer(pb.InitProducerRequest(), timeout=20)

        def requests(first):
            number = first
            while not stop.is_set():
                yield pb.ProduceStreamRequest(topic="t", id=number, acks=pb.ACKS_ALL, records=[record(b"%d" % number)],
                                              producer=pb.Producer(id=producer.producer_id, epoch=producer.producer_epoch, sequence=number))
                number += 1
                while number - len(acknowledged) >= 5 and not stop.is_set():  # as many batches of a producer as a broker knows again
                    time.sleep(0.001)  # poll

        def work():
            while not stop.is_set():
                try:
                    for message in log.ProduceStream(requests(len(acknowledged)), timeout=120):
                        for ack in message.acknowledgements:
                            assert ack.id == len(acknowledged), ack
                            if ack.HasField("error"):
                                assert ack.error.retriable, ack
                                break
                            acknowledged.append(ack.base_offset)
                        else:
                            continue
                        break
                except grpc.RpcError as error:
                    if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                        raise
                    time.sleep(0.05)  # poll

        thread = threading.Thread(target=work)
        thread.start()
        for how in (broker.stop, broker.kill, broker.kill, broker.stop):
            before = len(acknowledged)
            until(lambda: len(acknowledged) > before + 500 or not thread.is_alive(), 60, lambda: len(acknowledged))
            how()
            broker.start()
        stop.set()
        thread.join(60)
        count = len(acknowledged)
    lines = kcat(broker, "-C", "-t", "t", "-o", "beginning", "-e", "-q", "-f", "%o %s\n")[0].splitlines()
    assert lines[0] == "0 first" and count > 1500
    assert [int(line.split()[1]) for line in lines[1:]] == list(range(len(lines) - 1))
    assert [int(line.split()[0]) for line in lines[1:count + 1]] == acknowledged


def drop_cache(path):
    """The pages of a file leave the page cache; nobody may have mapped it."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def metric(broker, name):
    text = http(broker.rest + "/metrics")[2].decode()
    return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " ")), 0)


def cold_reads(broker):
    return metric(broker, "ottla_log_cold_reads_total")


def test_cold_ranges_and_more_than_one_window_come_whole(own_broker):
    """A segment of 70 MB whose pages are dropped: ranges are read in by an I/O thread first, and messages cross the windows of 64 MiB in which a segment is mapped."""
    broker = own_broker()
    with channel(broker) as made:
        log = pb_grpc.LogStub(made)
        one = batch.build([b"x" * 1000] * 900)
        for _ in range(78):
            log.Produce(pb.ProduceRequest(topic="t", record_batches=one, acks=pb.ACKS_LEADER), timeout=20)
        segment = next(broker.partition("t").glob("*.log"))
        drop_cache(segment)
        before, got, end = cold_reads(broker), [], 0
        stream = log.Subscribe(pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic="t", start=pb.START_EARLIEST)], format=BATCHES, max_bytes=5 << 20), timeout=60)
        for message in stream:
            got += [message.record_batches] if message.record_batches else []
            end = max(end, message.next_offset)
            if end == 78 * 900:
                break
        stream.cancel()
        assert cold_reads(broker) > before, "the cold path"
        data = b"".join(got)
        assert len(data) > 67 << 20 and data == segment.read_bytes()[:len(data)]
        # one message across the border
        answer = log.Fetch(pb.FetchRequest(topic="t", offset=20 * 900, format=BATCHES, max_bytes=60 << 20), timeout=60)
        assert answer.record_batches == data[20 * len(one):][:len(answer.record_batches)] and 20 * len(one) + len(answer.record_batches) > 67 << 20
        windows = [line for line in open(f"/proc/{broker.process.pid}/maps").read().splitlines() if line.endswith(".log")]
        assert len(windows) >= 2


@pytest.mark.long
def test_a_cold_log_is_followed_to_its_end(own_broker):
    """Many segments of 1 MiB, whose pages are dropped while the server is away."""
    broker = own_broker(log_segment_bytes=1 << 20)
    with channel(broker) as made:
        log = pb_grpc.LogStub(made)
        one = batch.build([b"x" * 1000] * 100)
        for _ in range(100):
            log.Produce(pb.ProduceRequest(topic="t", record_batches=one), timeout=20)
        broker.stop()
        for segment in broker.partition("t").glob("*.log"):
            drop_cache(segment)
        broker.start()
        before, end, batches = cold_reads(broker), 0, 0
        stream = log.Subscribe(pb.SubscribeRequest(partitions=[pb.SubscribePartition(topic="t", start=pb.START_EARLIEST)], format=BATCHES), timeout=60, wait_for_ready=True)
        for message in stream:
            batches += len(split(message.record_batches))
            end = max(end, message.next_offset)
            if end == 10000:
                break
        assert batches == 100 and cold_reads(broker) > before
        stream.cancel()


@pytest.mark.long
def test_a_crowd_that_gave_up_holds_nothing_up(own_broker):
    """Hundreds of subscriptions with large messages that nobody reads, then cancelled: work that was waiting for them is left, and the stop is clean and quick."""
    broker = own_broker(ottla_io_threads=4)
    topics, channels, streams = [f"t{i}" for i in range(3)], [], []
    with channel(broker) as made:
        log = pb_grpc.LogStub(made)
        one = batch.build([b"x" * 100] * 9000)
        for topic in topics:
            for _ in range(18):
                log.Produce(pb.ProduceRequest(topic=topic, record_batches=one), timeout=20)
        ask = pb.SubscribeRequest(max_bytes=16000000, partitions=[pb.SubscribePartition(topic=topic, start=pb.START_EARLIEST) for topic in topics])
        for _ in range(8):
            channels.append(grpc.insecure_channel(f"127.0.0.1:{broker.more_ports[1]}",
                                                  options=[("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]))
            streams += [pb_grpc.LogStub(channels[-1]).Subscribe(ask) for _ in range(50)]
        until(lambda: metric(broker, 'ottla_sent_bytes_total{path="copy"}') > 30 << 20, 60, "the first messages are under way")
        started = time.monotonic()
        log.Produce(pb.ProduceRequest(topic="t0", record_batches=one), timeout=20)
        assert time.monotonic() - started < 5, "an append waited for subscribers"
        for stream in streams:
            stream.cancel()
        started = time.monotonic()
        broker.stop()
        assert time.monotonic() - started < 10, f"the stop waited for calls that had ended:\n{broker.log_tail()}"
        assert "flushed=no" not in broker.log()
    for one in channels:
        one.close()
