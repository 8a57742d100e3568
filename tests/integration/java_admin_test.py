"""Kafka's own admin tools against the server, end to end: what they change is there, what they show is right, and none prints a stack trace."""
import json
import re

import pytest

from java import TOOLS, java, need_java

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def _java():
    need_java()


@pytest.fixture
def tool(broker):
    """A function that runs a tool against the broker."""
    def run(name, *arguments, check=True):
        text = java(TOOLS + name, "--bootstrap-server", broker.bootstrap, *arguments, check=check)
        assert not check or "\tat " not in text, text
        return text
    return run


@pytest.fixture
def node(admin):
    return admin.metadata()["brokers"][0]["nodeId"]


def test_configs_of_a_topic(tool, topic):
    about = ["--entity-type", "topics", "--entity-name", topic]
    tool("ConfigCommand", "--alter", *about, "--add-config", "retention.ms=86400000,cleanup.policy=[compact,delete]")
    text = tool("ConfigCommand", "--describe", *about)
    assert "retention.ms=86400000" in text and "cleanup.policy=compact,delete" in text
    tool("ConfigCommand", "--alter", *about, "--delete-config", "retention.ms")
    text = tool("ConfigCommand", "--describe", *about)
    assert "retention.ms" not in text and "cleanup.policy=compact,delete" in text
    assert "InvalidConfigurationException" in tool("ConfigCommand", "--alter", *about, "--add-config", "no.such.key=1", check=False)


def test_configs_of_a_broker_and_the_cluster(tool, node):
    for about in (["--entity-type", "brokers", "--entity-name", node], ["--entity-type", "brokers", "--entity-default"]):
        tool("ConfigCommand", "--alter", *about, "--add-config", "log.cleaner.threads=2")
        assert "log.cleaner.threads=2" in tool("ConfigCommand", "--describe", *about)
        tool("ConfigCommand", "--alter", *about, "--delete-config", "log.cleaner.threads")
        assert "log.cleaner.threads" not in tool("ConfigCommand", "--describe", *about)


def test_configs_of_loggers(tool, node):
    about = ["--entity-type", "broker-loggers", "--entity-name", node]
    assert "root=INFO" in tool("ConfigCommand", "--describe", *about)
    tool("ConfigCommand", "--alter", *about, "--add-config", "net=WARN")
    assert "net=WARN" in tool("ConfigCommand", "--describe", *about)
    tool("ConfigCommand", "--alter", *about, "--add-config", "net=INFO")


def test_configs_of_all_entities(tool, topic):
    text = tool("ConfigCommand", "--describe", "--entity-type", "topics")
    assert topic in text
    for kind in ("users", "clients", "ips"):
        tool("ConfigCommand", "--describe", "--entity-type", kind)


def test_log_dirs(tool, admin, topic):
    admin.produce(topic, "x" * 3000)
    text = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    told = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    [part] = [p for b in told["brokers"] for d in b["logDirs"] for p in d["partitions"]]
    assert part["partition"] == topic + "-0" and part["size"] > 3000 and part["offsetLag"] == 0


def test_leader_election(tool, topic):
    for kind in ("preferred", "unclean"):
        tool("LeaderElectionCommand", "--election-type", kind, "--topic", topic, "--partition", 0)
        tool("LeaderElectionCommand", "--election-type", kind, "--all-topic-partitions")


def test_reassignment(tool, topic, node, tmp_path):
    plan, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [node], "log_dirs": ["any"]}]}))
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    assert topic in tool("reassign.ReassignPartitionsCommand", "--generate", "--topics-to-move-json-file", topics, "--broker-list", node)
    assert "Successfully started" in tool("reassign.ReassignPartitionsCommand", "--execute", "--reassignment-json-file", plan)
    assert "is completed" in tool("reassign.ReassignPartitionsCommand", "--verify", "--reassignment-json-file", plan)
    assert "No partition reassignments found" in tool("reassign.ReassignPartitionsCommand", "--list")


def test_metadata_quorum(tool, node):
    text = tool("MetadataQuorumCommand", "describe", "--status")
    assert re.search(rf"LeaderId:\s+{node}\b", text) and re.search(r"ClusterId:\s+[\w-]{22}", text)
    assert re.search(rf"(?m)^{node}\s.*Leader", tool("MetadataQuorumCommand", "describe", "--replication"))


def test_features(tool):
    assert re.search(r"metadata\.version\s+SupportedMinVersion: 3\.3-IV3\s+SupportedMaxVersion: 4\.4-IV2\s+FinalizedVersionLevel: 4\.4-IV2", tool("FeatureCommand", "describe"))
    assert re.search(r"transaction\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2", tool("FeatureCommand", "describe"))


def test_api_versions_show_what_is_served(tool):
    text = tool("BrokerApiVersionsCommand")
    for one in (r"IncrementalAlterConfigs\(44\): 0 to 1", r"DescribeLogDirs\(35\): 1 to 5", r"DescribeTopicPartitions\(75\): 0 "):
        assert re.search(one, text), one


def test_topics(tool, admin, name):
    tool("TopicCommand", "--create", "--topic", name, "--partitions", 2, "--config", "segment.bytes=1048576")
    assert "segment.bytes=1048576" in tool("TopicCommand", "--describe", "--topic", name)
    for what in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions", "--topics-with-overrides"):
        assert (name in tool("TopicCommand", "--describe", what)) == (what == "--topics-with-overrides")
    tool("TopicCommand", "--alter", "--topic", name, "--partitions", 3)
    assert "PartitionCount: 3" in tool("TopicCommand", "--describe", "--topic", name)
    assert "not be an increase" in tool("TopicCommand", "--alter", "--topic", name, "--partitions", 2, check=False)


def test_producers_of_a_partition(tool, admin, topic):
    number, epoch = admin.producer_id()
    admin.produce(topic, "x", producer=(number, epoch, 0))
    assert re.search(rf"(?m)^{number}\s+{epoch}\s", tool("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", 0))


def test_client_metrics(tool):
    tool("ClientMetricsCommand", "--alter", "--name", "java", "--metrics", "org.apache.kafka.producer.", "--interval", "60000", "--match", "client_software_name=.*java")
    text = tool("ClientMetricsCommand", "--describe", "--name", "java")
    for one in ("interval.ms=60000", "metrics=org.apache.kafka.producer.", "match=client_software_name=.*java"):
        assert one in text
    assert "java" in tool("ClientMetricsCommand", "--list")
    tool("ClientMetricsCommand", "--delete", "--name", "java")
    assert "java" not in tool("ClientMetricsCommand", "--list")
