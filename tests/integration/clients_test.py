"""Clients that nobody here wrote: kcat and librdkafka, confluent-kafka, kafka-python. No consumer groups yet: partitions by hand."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from harness import TOP, until

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


# ---- kcat

def kcat(broker, *arguments, data=None, timeout_s=120, client="kcat"):
    if not shutil.which(client):
        pytest.skip(f"no {client}")
    done = subprocess.run([client, "-b", broker.bootstrap, *map(str, arguments)], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout_s)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


@pytest.mark.smoke
@pytest.mark.parametrize("codec", CODECS)
def test_kcat_round_trip(broker, topic, codec):
    data = "".join(f"k{i}:v{i}\n" for i in range(1000)).encode()
    kcat(broker, "-P", "-t", topic, "-K:", "-z", codec, "-H", "a=b", data=data)
    out, _ = kcat(broker, "-C", "-t", topic, "-p", 0, "-o", "beginning", "-e", "-q", "-f", "%o %k %s %h\n")
    assert out.splitlines() == [f"{i} k{i} v{i} a=b" for i in range(1000)]


def test_kcat_metadata(broker, admin, name):
    admin.create(name, partitions=3)
    meta = json.loads(kcat(broker, "-L", "-J", "-t", name)[0])
    assert meta["brokers"][0]["name"] == broker.bootstrap
    assert [len(t["partitions"]) for t in meta["topics"]] == [3]


def test_kcat_offsets_tail_and_query_by_time(broker, admin, topic):
    base = 1700000000000
    for i in range(10):
        admin.produce(topic, f"v{i}", timestamps=[base + 1000 * i])
    assert kcat(broker, "-C", "-t", topic, "-p", 0, "-o", -3, "-e", "-q")[0].split() == ["v7", "v8", "v9"]
    assert kcat(broker, "-C", "-t", topic, "-p", 0, "-o", f"s@{base + 4000}", "-c", 2, "-e", "-q")[0].split() == ["v4", "v5"]
    assert "offset 6" in kcat(broker, "-Q", "-t", f"{topic}:0:{base + 5500}")[0]


def test_kcat_creates_a_topic_by_writing_to_it(broker, name):
    kcat(broker, "-P", "-t", name, data=b"first\n")
    out, _ = kcat(broker, "-C", "-t", name, "-o", "beginning", "-e", "-q")
    assert out == "first\n"


@pytest.mark.parametrize("settings", [["acks=0"], ["acks=1"], ["acks=all"], ["enable.idempotence=true"],
                                      ["enable.idempotence=true", "compression.codec=zstd"], ["api.version.request=false",
                                                                                            "broker.version.fallback=0.11.0"]])
def test_kcat_with_settings(broker, admin, topic, settings):
    flags = [word for s in settings for word in ("-X", s)]
    kcat(broker, "-P", "-t", topic, *flags, data=b"".join(b"%d\n" % i for i in range(500)))
    until(lambda: admin.list_offset(topic, -1)["offset"] == 500, 10, "500 records")
    assert kcat(broker, "-C", "-t", topic, "-p", 0, "-o", "beginning", "-c", 500, "-q")[0].split() == [str(i) for i in range(500)]


FEATURES = {"MsgVer1", "MsgVer2", "ApiVersion", "ThrottleTime", "LZ4", "OffsetTime", "IdempotentProducer", "ZSTD", "SaslHandshake"}


def enabled(lines):
    return {line.split("Enabling feature ")[1].split()[0] for line in lines if "Enabling feature " in line}


def test_librdkafka_finds_its_features(broker):
    _, log = kcat(broker, "-L", "-X", "debug=feature")
    # before 2.3 these two ask for Fetch 2, which Kafka 4 does not serve either
    assert FEATURES - {"MsgVer1", "ThrottleTime"} <= enabled(log.splitlines())


def test_the_current_librdkafka_finds_its_features(broker):
    script = ("import sys; from confluent_kafka import Producer; "
              "Producer({'bootstrap.servers': sys.argv[1], 'debug': 'feature'}).list_topics(timeout=10)")
    done = subprocess.run([sys.executable, "-c", script, broker.bootstrap], stderr=subprocess.PIPE, timeout=120)
    assert FEATURES <= enabled(done.stderr.decode().splitlines())


# ---- confluent-kafka (the current librdkafka)

def confluent(broker, **more):
    return {"bootstrap.servers": broker.bootstrap, **{k.replace("_", "."): v for k, v in more.items()}}


def confluent_produce(broker, topic, values, partition=0, **settings):
    """(offset, value) of every acknowledged record; errors are failures."""
    from confluent_kafka import Producer
    acknowledged = []

    def delivered(err, message):
        assert err is None, err
        acknowledged.append((message.offset(), message.value()))
    producer = Producer(confluent(broker, **settings))
    for i, value in enumerate(values):
        while True:
            try:
                producer.produce(topic, value, f"k{i}", partition, delivered, headers=[("n", str(i))])
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0
    return acknowledged


def confluent_read(broker, topic, count, partition=0, offset=0, **settings):
    from confluent_kafka import Consumer, TopicPartition
    consumer = Consumer(confluent(broker, group_id="none", enable_auto_commit=False, enable_auto_offset_store=False, **settings))
    consumer.assign([TopicPartition(topic, partition, offset)])
    got = []
    try:
        def more():
            for m in consumer.consume(1000, 0.2):
                assert m.error() is None, m.error()
                got.append((m.offset(), m.value()))
            return len(got) >= count
        until(more, 60, lambda: f"{count} records, got {len(got)}", step_s=0)
    finally:
        consumer.close()
    return got


@pytest.mark.smoke
@pytest.mark.parametrize("codec", CODECS)
def test_confluent_round_trip(broker, topic, codec):
    values = [b"%06d" % i + b"x" * (i % 300) for i in range(5000)]
    sent = confluent_produce(broker, topic, values, compression_type=codec, enable_idempotence=True, linger_ms=5)
    assert sorted(sent) == list(enumerate(values))
    assert confluent_read(broker, topic, 5000) == list(enumerate(values))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_confluent_acks(broker, topic, acks):
    values = [b"%d" % i for i in range(2000)]
    confluent_produce(broker, topic, values, acks=acks)
    assert confluent_read(broker, topic, 2000) == list(enumerate(values))


def test_confluent_large_records(broker, topic):
    values = [bytes([i]) * 900000 for i in range(8)]
    confluent_produce(broker, topic, values)
    assert confluent_read(broker, topic, 8) == list(enumerate(values))


def test_confluent_admin(broker, name):
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec
    client = AdminClient(confluent(broker))
    client.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "5000"})])[name].result(20)
    until(lambda: name in client.list_topics(timeout=10).topics, 10, "the topic")
    assert len(client.list_topics(name, timeout=10).topics[name].partitions) == 2
    client.create_partitions([NewPartitions(name, 4)])[name].result(20)
    until(lambda: len(client.list_topics(name, timeout=10).topics[name].partitions) == 4, 10, "four partitions")
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    assert client.describe_configs([resource])[resource].result(20)["retention.ms"].value == "5000"
    cluster = client.describe_cluster().result(20)
    assert len(cluster.cluster_id) == 22 and [n.port for n in cluster.nodes] == [broker.port]
    confluent_produce(broker, name, [b"x"] * 5, partition=3)
    latest = client.list_offsets({TopicPartition(name, 3): OffsetSpec.latest()})
    assert next(iter(latest.values())).result(20).offset == 5
    gone = client.delete_records([TopicPartition(name, 3, 2)])
    assert next(iter(gone.values())).result(20).low_watermark == 2
    with pytest.raises(KafkaException):
        client.create_topics([NewTopic(name, 1, 1)])[name].result(20)
    client.delete_topics([name])[name].result(20)
    until(lambda: name not in client.list_topics(timeout=10).topics, 10, "the deletion")


def test_confluent_offsets_for_times(broker, admin, topic):
    from confluent_kafka import Consumer, TopicPartition
    for i in range(5):
        admin.produce(topic, f"v{i}", timestamps=[1700000000000 + 1000 * i])
    consumer = Consumer(confluent(broker, group_id="none"))
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 20) == (0, 5)
        found = consumer.offsets_for_times([TopicPartition(topic, 0, 1700000002500)], 20)
        assert found[0].offset == 3
    finally:
        consumer.close()


# ---- kafka-python

@pytest.mark.smoke
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_kafka_python_round_trip(broker, topic, codec):
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec)  # no version setting
    futures = [producer.send(topic, b"v%d" % i, b"k%d" % i, partition=0) for i in range(500)]
    assert [f.get(30).offset for f in futures] == list(range(500))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=20000)
    consumer.assign([TopicPartition(topic, 0)])
    got = [(m.offset, m.key, m.value) for _, m in zip(range(500), consumer)]
    consumer.close()
    assert got == [(i, b"k%d" % i, b"v%d" % i) for i in range(500)]


def test_kafka_python_offsets(broker, admin, topic):
    from kafka import KafkaConsumer, TopicPartition
    for i in range(6):
        admin.produce(topic, f"v{i}", timestamps=[1700000000000 + 1000 * i])
    p = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None)
    try:
        assert consumer.beginning_offsets([p])[p] == 0 and consumer.end_offsets([p])[p] == 6
        assert consumer.offsets_for_times({p: 1700000003500})[p].offset == 4
    finally:
        consumer.close()


OLD_CLIENT = """
import sys
from kafka import KafkaConsumer, KafkaProducer, TopicPartition, __version__
assert __version__ == "2.0.2", __version__
bootstrap, topic = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=bootstrap)
assert producer.config["api_version"] >= (2, 5), producer.config["api_version"]
futures = [producer.send(topic, b"v%d" % i, partition=0) for i in range(100)]
assert [f.get(20).offset for f in futures] == list(range(100))
consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20000)
consumer.assign([TopicPartition(topic, 0)])
assert [m.value for _, m in zip(range(100), consumer)] == [b"v%d" % i for i in range(100)]
"""


def test_kafka_python_2_0_2_infers_its_version(broker, topic):
    folder = TOP / "build" / "python-old"
    if not folder.is_dir():
        pytest.skip("no build/python-old (./dev setup)")
    done = subprocess.run([sys.executable, "-c", OLD_CLIENT, broker.bootstrap, topic], env={**os.environ, "PYTHONPATH": str(folder)},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
    assert done.returncode == 0, done.stdout.decode()


# ---- kafkajs

@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_kafkajs_without_a_version_setting(broker, name, codec):
    modules = TOP / "build" / "node" / "node_modules"
    if not shutil.which("node") or not modules.is_dir():
        pytest.skip("no node or no build/node (./dev setup)")
    done = subprocess.run(["node", TOP / "tests/interop/node/kafkajs.js", broker.bootstrap, name, codec, "50"],
                          env={**os.environ, "NODE_PATH": str(modules)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
    assert done.returncode == 0, done.stderr.decode()
    got = json.loads(done.stdout)
    assert [b["port"] for b in got["brokers"]] == [broker.port] and got["partitions"] == 2
    assert sorted((s["partition"], s["errorCode"], s["baseOffset"]) for s in got["sent"]) == [(0, 0, "0"), (1, 0, "0")]
    assert {o["partition"]: (o["low"], o["high"]) for o in got["offsets"]} == {0: ("0", "25"), 1: ("0", "25")}
    assert {o["partition"]: o["offset"] for o in got["byTime"]} == {0: "0", 1: "0"}
    assert {o["partition"]: o["low"] for o in got["after"]} == {0: "1", 1: "0"}


# ---- Go

@pytest.fixture(scope="module")
def go_client():
    """franz-go's program, built once; a skip where there is no Go, or none of its modules."""
    if not shutil.which("go"):
        pytest.skip("no go")
    source, target = TOP / "tests/interop/go", TOP / "build" / "go" / "interop"
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["go", "build", "-o", str(target), "."], cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout.decode()
    return target


@pytest.mark.parametrize("part", ["codecs", "group", "transactions"])
@pytest.mark.timeout(420)
def test_franz_go(broker, name, go_client, part):
    done = subprocess.run([str(go_client), broker.bootstrap, name, part], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=110)
    assert done.returncode == 0 and done.stdout.decode().endswith("ok\n"), done.stdout.decode()
