"""Kafka's own clients and tools against the server: console producer and consumer, perf test, topics, configs, offsets."""
import re
import threading

import pytest

from java import TOOLS, java, need_java

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def _java():
    need_java()


def lines(count, stem="line"):
    return [f"{stem}-{i}" for i in range(count)]


def produce(broker, topic, values, *more):
    data = "".join(v + "\n" for v in values).encode()
    return java(TOOLS + "ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", topic, *more, data=data)


def consume(broker, topic, count, *more, partition=0, offset="earliest"):
    text = java(TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", partition,
                "--offset", offset, "--max-messages", count, "--timeout-ms", 30000, *more)
    return [line for line in text.splitlines() if not line.startswith("Processed a total")]


def test_console_producer_and_consumer_by_partition(broker, admin, name):
    admin.create(name, partitions=3)
    produce(broker, name, lines(300))
    ends = [admin.list_offset(name, -1, p)["offset"] for p in range(3)]
    assert sum(ends) == 300
    seen = [line for p in range(3) if ends[p] for line in consume(broker, name, ends[p], partition=p)]
    assert sorted(seen) == sorted(lines(300))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_console_round_trip_with_codec(broker, topic, codec):
    produce(broker, topic, lines(200), "--compression-codec", codec)
    assert consume(broker, topic, 200) == lines(200)


def test_keys_headers_offsets_and_timestamps(broker, topic):
    values = [f"h1:{i},h2:x\tk{i}\tv{i}" for i in range(5)]
    produce(broker, topic, values, "--reader-property", "parse.headers=true", "--reader-property", "parse.key=true")
    more = [w for p in ("print.key", "print.headers", "print.offset", "print.timestamp") for w in ("--formatter-property", p + "=true")]
    got = consume(broker, topic, 3, *more, offset=2)
    assert [re.sub(r"CreateTime:\d+", "T", line).split("\t") for line in got] == [
        ["T", f"Offset:{i}", f"h1:{i},h2:x", f"k{i}", f"v{i}"] for i in (2, 3, 4)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_producer_perf(broker, admin, topic, acks):
    text = java(TOOLS + "ProducerPerformance", "--topic", topic, "--num-records", 50000, "--record-size", 200, "--throughput", -1,
                "--command-property", f"acks={acks}", "--command-property", f"enable.idempotence={'true' if acks == 'all' else 'false'}",
                "--bootstrap-server", broker.bootstrap)
    assert "50000 records sent" in text
    offset = 0
    if acks == "0":
        from harness import until
        until(lambda: admin.list_offset(topic, -1)["offset"] == 50000, 30, "50000 records")
    while offset < 50000:
        from batch import read
        for b in read(admin.fetch(topic, offset)["records"]):
            assert b.base_offset == offset and b.crc_is_valid()
            offset += b.last_delta + 1


def test_topic_command(broker, name):
    bootstrap = ["--bootstrap-server", broker.bootstrap]
    assert f"Created topic {name}" in java(TOOLS + "TopicCommand", *bootstrap, "--create", "--topic", name, "--partitions", 3,
                                           "--replication-factor", 1, "--config", "retention.ms=7200000")
    assert name in java(TOOLS + "TopicCommand", *bootstrap, "--list").split()
    text = java(TOOLS + "TopicCommand", *bootstrap, "--describe", "--topic", name)
    assert "PartitionCount: 3" in text and "retention.ms=7200000" in text and re.search(r"Partition: 2\s+Leader: \d+", text)
    java(TOOLS + "TopicCommand", *bootstrap, "--alter", "--topic", name, "--partitions", 5)
    assert "PartitionCount: 5" in java(TOOLS + "TopicCommand", *bootstrap, "--describe", "--topic", name)
    assert "already exists" in java(TOOLS + "TopicCommand", *bootstrap, "--create", "--topic", name, check=False)
    java(TOOLS + "TopicCommand", *bootstrap, "--delete", "--topic", name)
    assert name not in java(TOOLS + "TopicCommand", *bootstrap, "--list").split()


def test_get_offset_shell(broker, admin, name):
    admin.create(name, partitions=2)
    admin.produce(name, *"abc")
    admin.produce(name, "d", partition=1)
    admin.delete_records(name, 2)
    for at, wanted in ((-1, {"0:3", "1:1"}), (-2, {"0:2", "1:0"})):
        text = java(TOOLS + "GetOffsetShell", "--bootstrap-server", broker.bootstrap, "--topic", name, "--time", at)
        assert {line.removeprefix(name + ":") for line in text.split() if line.startswith(name)} == wanted


def test_delete_records_command(broker, admin, topic, tmp_path):
    admin.produce(topic, *"abcde")
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions":[{"topic":"%s","partition":0,"offset":3}],"version":1}' % topic)
    text = java(TOOLS + "DeleteRecordsCommand", "--bootstrap-server", broker.bootstrap, "--offset-json-file", plan)
    assert "low_watermark: 3" in text


def test_config_command_describes(broker, admin, name):
    admin.create(name, retention_ms=99000)
    text = java(TOOLS + "ConfigCommand", "--bootstrap-server", broker.bootstrap, "--describe", "--all", "--entity-type", "topics",
                "--entity-name", name)
    assert "retention.ms=99000" in text and "segment.bytes=1073741824" in text
    node = admin.metadata()["brokers"][0]["nodeId"]
    text = java(TOOLS + "ConfigCommand", "--bootstrap-server", broker.bootstrap, "--describe", "--all", "--entity-type", "brokers",
                "--entity-name", node)
    assert "num.partitions=" in text


def test_api_versions_and_cluster_tools(broker):
    text = java(TOOLS + "BrokerApiVersionsCommand", "--bootstrap-server", broker.bootstrap)
    assert re.search(r"Produce\(0\): \d+ to 13", text) and re.search(r"Fetch\(1\): 4 to 18", text)
    assert re.search(r"Cluster ID: [\w-]{22}", java(TOOLS + "ClusterTool", "cluster-id", "--bootstrap-server", broker.bootstrap))


def test_acl_command_says_there_is_no_authorizer(broker):
    text = java(TOOLS + "AclCommand", "--bootstrap-server", broker.bootstrap, "--list", check=False)
    assert "SecurityDisabled" in text or "No Authorizer" in text


def test_producers_and_a_consumer_at_once(broker, admin, topic):
    threads = [threading.Thread(target=produce, args=(broker, topic, lines(500, f"p{n}"))) for n in range(2)]
    for t in threads:
        t.start()
    got = consume(broker, topic, 1000)
    for t in threads:
        t.join()
    for n in range(2):
        assert [line for line in got if line.startswith(f"p{n}-")] == lines(500, f"p{n}")


def test_config_command_alters(broker, topic):
    alter = ["--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", "topics", "--entity-name", topic]
    assert "Completed updating config" in java(TOOLS + "ConfigCommand", *alter, "--add-config", "retention.ms=7200000,cleanup.policy=compact")
    text = java(TOOLS + "TopicCommand", "--bootstrap-server", broker.bootstrap, "--describe", "--topic", topic)
    assert "retention.ms=7200000" in text and "cleanup.policy=compact" in text
    java(TOOLS + "ConfigCommand", *alter, "--delete-config", "cleanup.policy")
    assert "cleanup.policy" not in java(TOOLS + "TopicCommand", "--bootstrap-server", broker.bootstrap, "--describe", "--topic", topic)
    bad = java(TOOLS + "ConfigCommand", *alter, "--add-config", "retention.ms=banana", check=False)
    assert "Invalid value" in bad or "InvalidConfiguration" in bad, bad


def test_log_dirs_command(broker, admin, topic):
    admin.produce(topic, "x" * 500)
    text = java(TOOLS + "LogDirsCommand", "--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", topic)
    assert f'"partition":"{topic}-0"' in text


def test_features_and_quorum_commands(broker):
    assert "transaction.version" in java(TOOLS + "FeatureCommand", "--bootstrap-server", broker.bootstrap, "describe")
    assert "LeaderId" in java(TOOLS + "MetadataQuorumCommand", "--bootstrap-server", broker.bootstrap, "describe", "--status")
