"""The tools against Kafka 4.4 itself, and a partition directory that it wrote taken in by `ottla log adopt`."""
import json
import os
import shutil

import pytest

from admin import Admin
from apache_kafka import Kafka
from cli_test import ALL, CODECS, ottla
from harness import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


class Both:
    """What `ottla(...)` wants to know of a broker, of Kafka: no REST."""
    def __init__(self, kafka):
        self.bootstrap, self.rest = kafka.bootstrap, None


def lines(codec, count):
    return "".join(f"key-{i % 50} {codec} {i} {os.urandom(60).hex()}\n" for i in range(count)).encode()


def leading(kafka, topic):
    def ask():
        with kafka.connect() as c:
            return Admin(c).list_offset(topic, -1)["errorCode"] == 0
    until(ask, 60, f"the leader of {topic} at work")


def test_tools_against_kafka_and_its_directory_taken_in(own_broker, tmp_path):
    kafka = Kafka(tmp_path / "kafka").format().start()
    try:
        sent = b""
        with kafka.connect() as c:
            Admin(c).create("orders", segment_bytes=1048576, min_cleanable_dirty_ratio="0.9")
        for i, codec in enumerate(CODECS):
            if i == 3:  # another leader epoch
                kafka.stop()
                kafka.start()
                leading(kafka, "orders")
            data = lines(codec, 4000)
            acked = ottla(Both(kafka), "produce", "orders", "-f", "%k %v\\n", "-z", codec, "-o", "ndjson", data=data).out.decode().splitlines()
            assert sum(json.loads(line)["records"] for line in acked) == 4000
            sent += data
        assert ottla(Both(kafka), "consume", "orders", *ALL, "-f", "%k %v\\n").out == sent
        assert ottla(Both(kafka), "consume", "orders", "--from", "-3", "--until", "end", "-f", "%k %v\\n").out == b"".join(sent.splitlines(True)[-3:])
        ottla(Both(kafka), "produce", "made-by-asking", data="x\n")
        assert ottla(Both(kafka), "consume", "made-by-asking", *ALL).out == b"x\n"
        ottla(Both(kafka), "consume", "not-there", status=3)
        kafka.stop()
    finally:
        kafka.kill()
    source = kafka.data / "orders-0"
    epochs = {json.loads(line)["partitionLeaderEpoch"] for path in source.glob("*.log")
              for line in ottla(None, "log", "dump", path, "-o", "ndjson").out.splitlines() if b'"row":"batch"' in line}
    assert len(epochs) > 1
    ottla(None, "log", "verify", source)
    before = {p.name: p.read_bytes() for p in source.iterdir() if p.is_file()}

    broker = own_broker(start=False)
    told = ottla(None, "log", "adopt", source, "--topic", "orders", "--partitions", 2, "--data", broker.data).out.decode()
    assert told.startswith("orders-0: offsets 0 to 20000, ")
    assert {p.name: p.read_bytes() for p in source.iterdir() if p.is_file()} == before  # the source is only read
    broker.start()
    assert ottla(broker, "consume", "orders", *ALL, "-p", 0, "-f", "%k %v\\n").out == sent
    ottla(broker, "produce", "orders", "-p", 0, data="more\n")
    assert ottla(broker, "consume", "orders", "-p", 0, "--from", 20000, "--until", "end").out == b"more\n"
    assert "stop the server" in ottla(None, "log", "adopt", source, "--topic", "other", "--data", broker.data, status=4).err
    broker.kill()  # and what was taken in stands a crash
    broker.start()
    assert ottla(broker, "topic", "offsets", "orders", "-o", "json").json["items"][0]["log_end_offset"] == 20001
    broker.stop()
    ottla(None, "log", "verify", broker.data)
    assert "holds records already" in ottla(None, "log", "adopt", source, "--topic", "orders", "--data", broker.data, status=4).err

    damaged = tmp_path / "orders-1"
    shutil.copytree(source, damaged)
    last = sorted(damaged.glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[:-10])
    assert "nothing was changed" in ottla(None, "log", "adopt", damaged, "--topic", "orders", "--data", broker.data, status=8).err
    assert "were left behind" in ottla(None, "log", "adopt", damaged, "--topic", "orders", "--data", broker.data, "--cut-damaged-tail").out.decode()
    broker.start()
    kept = ottla(broker, "consume", "orders", *ALL, "-p", 1, "-f", "%k %v\\n").out
    assert 0 < len(kept) < len(sent) and sent.startswith(kept)
