"""Compatibility traps M: metadata, topics, configs, and exactly one result per asked item."""
import pytest

import batch
import harness
import wire
from admin import Admin, error
from harness import until
from wire import NO_ID


def ours(broker):
    """Promises that go beyond Kafka's are checked on our own server only."""
    return isinstance(broker, harness.Broker)


# ---- metadata

def test_metadata_0_empty_list_means_all_topics(topic, admin):
    answer = admin.connection.ask("Metadata", 0, {"topics": []})
    assert topic in [t["name"] for t in answer["topics"]]


@pytest.mark.parametrize("version", [1, 4, 9, 13])
def test_metadata_null_means_all_and_empty_means_none(topic, admin, version):
    everything = admin.connection.ask("Metadata", version, {"topics": None})
    assert topic in [t["name"] for t in everything["topics"]]
    nothing = admin.connection.ask("Metadata", version, {"topics": []})
    assert nothing["topics"] == [] and nothing["brokers"]


@pytest.mark.smoke
def test_metadata_always_lists_the_answering_broker_and_its_controller(broker, admin, topic):
    for version in range(0, 14):
        for topics in ([{"name": topic}], []):
            answer = admin.connection.ask("Metadata", version, {"topics": topics})
            assert [(b["host"], b["port"]) for b in answer["brokers"]] == [("127.0.0.1", broker.port)]
            if version > 0:
                assert answer["controllerId"] in [-1, *(b["nodeId"] for b in answer["brokers"])]


def test_an_unknown_topic_is_named_in_the_answer(admin, name):
    for version in (4, 9, 12):
        answer = admin.metadata(name, version=version)["topics"]
        assert len(answer) == 1 and answer[0]["name"] == name and error(answer[0]) == "UNKNOWN_TOPIC_OR_PARTITION"
    unknown = admin.connection.ask("Metadata", 12, {"topics": [{"topicId": b"\1" * 16, "name": None}]})["topics"][0]
    assert error(unknown) == "UNKNOWN_TOPIC_ID"


def test_an_invalid_topic_name_is_refused(admin):
    for bad in ("a b", "a/b", "\u00fc", ".", "..", "x" * 250):
        assert error(admin.metadata(bad, create=True)["topics"][0]) == "INVALID_TOPIC_EXCEPTION", bad


@pytest.mark.smoke
def test_success_of_an_admin_request_shows_in_the_next_answer(broker, admin, name):
    bound = 0 if ours(broker) else 10
    for round_number in range(5):
        topic = f"{name}-{round_number}"
        body = {"topics": [{"name": topic, "numPartitions": 2, "replicationFactor": 1}], "timeoutMs": 10000}
        assert error(admin.connection.ask("CreateTopics", 7, body)["topics"][0]) == "NONE"
        with broker.connect() as c:
            other = Admin(c)
            until(lambda: [p["leaderId"] >= 0 for p in other.describe(topic)["partitions"]] == [True] * 2, bound, "created")
            until(lambda: error(other.produce_raw(topic, batch.build([b"x"]), 1)) == "NONE", bound, "writable")
            grown = admin.connection.ask("CreatePartitions", 3, {"topics": [{"name": topic, "count": 5, "assignments": None}],
                                                                 "timeoutMs": 10000})["results"]
            assert error(grown[0]) == "NONE"
            until(lambda: [p["leaderId"] >= 0 for p in other.describe(topic)["partitions"]] == [True] * 5, bound, "grown")
            admin.delete(topic)
            until(lambda: error(other.describe(topic)) == "UNKNOWN_TOPIC_OR_PARTITION", bound, "deleted")


@pytest.mark.parametrize("version", [3, 4, 9, 12])
def test_a_topic_is_created_through_metadata_when_asked(admin, name, version):
    first = admin.metadata(name, version=version, create=True)["topics"][0]
    assert error(first) in ("NONE", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION")
    until(lambda: admin.describe(name)["partitions"], 5, "the new topic")
    admin.wait_for_leader(name)
    assert admin.produce(name, "x") == 0


def test_a_topic_is_not_created_when_not_asked(admin, name):
    assert error(admin.metadata(name, create=False)["topics"][0]) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert name not in [t["name"] for t in admin.metadata(everything=True)["topics"]]


def test_a_topic_is_not_created_when_switched_off(own_broker, name):
    broker = own_broker(auto_create_topics_enable="false")
    with broker.connect() as c:
        for _ in range(2):
            assert error(Admin(c).metadata(name, create=True)["topics"][0]) == "UNKNOWN_TOPIC_OR_PARTITION"


# ---- CreateTopics

def test_create_with_defaults(admin, name):
    made = admin.create(name, partitions=-1, replication=-1)
    assert made["numPartitions"] >= 1 and made["replicationFactor"] == 1
    assert len(admin.describe(name)["partitions"]) == made["numPartitions"]


def test_create_5_and_later_gives_configs_and_7_the_id(admin, name):
    for version in range(2, 8):
        made = admin.create(f"{name}-{version}", version=version, retention_ms=12345)
        if version >= 5:
            config = {c["name"]: c for c in made["configs"]}
            assert config["retention.ms"]["value"] == "12345" and config["retention.ms"]["configSource"] == 1
            assert config["segment.bytes"]["configSource"] in (4, 5) and made["numPartitions"] == 1
        if version >= 7:
            assert made["topicId"] == admin.topic_id(f"{name}-{version}") != NO_ID


@pytest.mark.parametrize("how, wanted", [
    (dict(replication=2), "INVALID_REPLICATION_FACTOR"), (dict(replication=0), "INVALID_REPLICATION_FACTOR"),
    (dict(replication=-2), "INVALID_REPLICATION_FACTOR"), (dict(partitions=0), "INVALID_PARTITIONS"),
    (dict(partitions=-2), "INVALID_PARTITIONS"), (dict(no_such_key="1"), "INVALID_CONFIG"),
    (dict(retention_ms="soon"), "INVALID_CONFIG"), (dict(cleanup_policy="shred"), "INVALID_CONFIG"),
    (dict(segment_bytes="1"), "INVALID_CONFIG"), (dict(max_message_bytes="-1"), "INVALID_CONFIG")])
def test_create_refuses_with_the_right_error_and_changes_nothing(admin, name, how, wanted):
    answer = admin.create(name, check=False, **how)
    assert error(answer) == wanted and answer["errorMessage"]
    assert error(admin.describe(name)) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_replication_factor_above_the_brokers_is_refused_with_numbers(admin, name):
    text = admin.create(name, replication=3, check=False)["errorMessage"]
    assert "3" in text and "1" in text


def test_names_are_checked_on_create(admin, name):
    for bad in ("", ".", "..", "a b", "a/b", "x" * 250, "\u00fc"):
        assert error(admin.create(bad, check=False)) == "INVALID_TOPIC_EXCEPTION", bad
    admin.create("x" * 200 + name[-40:].replace("_", "-").replace(".", "-"))


def test_names_that_collide_in_dot_and_underscore_are_refused(admin, name):
    stem = name.replace("_", "-").replace(".", "-")
    admin.create(stem + ".a_b")
    assert error(admin.create(stem + "_a.b", check=False)) == "INVALID_TOPIC_EXCEPTION"
    assert error(admin.create(stem + ".a_b", check=False)) == "TOPIC_ALREADY_EXISTS"


def test_validate_only_changes_nothing(admin, name):
    assert error(admin.create(name, partitions=3, validate_only=True)) == "NONE"
    assert error(admin.describe(name)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error(admin.create(name, replication=9, validate_only=True, check=False)) == "INVALID_REPLICATION_FACTOR"


def test_an_assignment_is_taken_or_refused(broker, admin, name):
    node = admin.metadata()["brokers"][0]["nodeId"]

    def create(topic, brokers, **more):
        body = {"topics": [{"name": topic, "numPartitions": -1, "replicationFactor": -1, "assignments": [
            {"partitionIndex": i, "brokerIds": b} for i, b in enumerate(brokers)], **more}], "timeoutMs": 5000}
        return error(admin.connection.ask("CreateTopics", 7, body)["topics"][0])
    assert create(name, [[node], [node]]) == "NONE"
    assert len(admin.wait_for_leader(name, 2)["partitions"]) == 2
    assert create(name + "-a", [[node + 7]]) == "INVALID_REPLICA_ASSIGNMENT"
    assert create(name + "-b", [[node, node]]) == "INVALID_REPLICA_ASSIGNMENT"
    assert create(name + "-c", [[node]], numPartitions=2) in ("INVALID_REQUEST", "INVALID_PARTITIONS", "INVALID_REPLICA_ASSIGNMENT")


# ---- one result per item

def test_admin_answers_hold_one_result_per_item(admin, name, topic):
    create = admin.connection.ask("CreateTopics", 7, {"timeoutMs": 5000, "topics": [
        {"name": n, "numPartitions": 1, "replicationFactor": r} for n, r in
        ((name + "-1", 1), (name + "-2", 5), (topic, 1), ("bad name", 1))]})["topics"]
    assert {t["name"]: error(t) for t in create} == {
        name + "-1": "NONE", name + "-2": "INVALID_REPLICATION_FACTOR", topic: "TOPIC_ALREADY_EXISTS",
        "bad name": "INVALID_TOPIC_EXCEPTION"} and len(create) == 4
    grow = admin.connection.ask("CreatePartitions", 3, {"timeoutMs": 5000, "topics": [
        {"name": n, "count": c, "assignments": None} for n, c in ((name + "-1", 2), (topic, 1), (name + "-none", 3))]})["results"]
    assert {t["name"]: error(t) for t in grow} == {
        name + "-1": "NONE", topic: "INVALID_PARTITIONS", name + "-none": "UNKNOWN_TOPIC_OR_PARTITION"} and len(grow) == 3
    offsets = admin.connection.ask("ListOffsets", 7, {"replicaId": -1, "topics": [
        {"name": n, "partitions": [{"partitionIndex": i, "timestamp": -1} for i in (0, 9)]} for n in (topic, name + "-none")]})
    assert {(t["name"], p["partitionIndex"]): error(p) for t in offsets["topics"] for p in t["partitions"]} == {
        (topic, 0): "NONE", (topic, 9): "UNKNOWN_TOPIC_OR_PARTITION", (name + "-none", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        (name + "-none", 9): "UNKNOWN_TOPIC_OR_PARTITION"}
    trim = admin.connection.ask("DeleteRecords", 2, {"timeoutMs": 5000, "topics": [
        {"name": n, "partitions": [{"partitionIndex": i, "offset": 0} for i in (0, 9)]} for n in (topic, name + "-none")]})
    assert {(t["name"], p["partitionIndex"]): error(p) for t in trim["topics"] for p in t["partitions"]} == {
        (topic, 0): "NONE", (topic, 9): "UNKNOWN_TOPIC_OR_PARTITION", (name + "-none", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        (name + "-none", 9): "UNKNOWN_TOPIC_OR_PARTITION"}
    configs = admin.connection.ask("DescribeConfigs", 4, {"resources": [
        {"resourceType": 2, "resourceName": n, "configurationKeys": None} for n in (topic, name + "-none")]})["results"]
    assert [error(r) for r in sorted(configs, key=lambda r: r["errorCode"])] == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
    delete = admin.connection.ask("DeleteTopics", 5, {"topicNames": [name + "-1", name + "-none"], "timeoutMs": 5000})["responses"]
    assert {t["name"]: error(t) for t in delete} == {name + "-1": "NONE", name + "-none": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_a_name_given_twice_is_refused(admin, name):
    twice = {"name": name, "numPartitions": 1, "replicationFactor": 1}
    answer = admin.connection.ask("CreateTopics", 7, {"topics": [twice, twice], "timeoutMs": 5000})["topics"]
    assert answer and {error(t) for t in answer} == {"INVALID_REQUEST"}
    assert error(admin.describe(name)) == "UNKNOWN_TOPIC_OR_PARTITION"


# ---- topic ids

@pytest.mark.smoke
def test_a_recreated_topic_is_another_topic(broker, admin, topic):
    old = admin.describe(topic)
    producer, epoch = admin.producer_id()
    for sequence in range(3):
        admin.produce(topic, "x", producer=(producer, epoch, sequence))
    admin.delete(topic)
    until(lambda: error(admin.describe(topic)) == "UNKNOWN_TOPIC_OR_PARTITION", 10, "the deletion")
    admin.create(topic)
    new = admin.describe(topic)
    assert new["topicId"] not in (old["topicId"], NO_ID)
    assert admin.list_offset(topic, -1)["offset"] == 0 and admin.records(topic) == []
    if ours(broker):
        assert new["partitions"][0]["leaderEpoch"] > old["partitions"][0]["leaderEpoch"]
    assert error(admin.produce_raw(topic, batch.build([b"y"]), version=13, topic_id=old["topicId"])) == "UNKNOWN_TOPIC_ID"
    assert error(admin.fetch(topic, version=13, topic_id=old["topicId"])) == "UNKNOWN_TOPIC_ID"
    asked = admin.connection.ask("Metadata", 12, {"topics": [{"topicId": old["topicId"], "name": None}]})["topics"]
    assert [error(t) for t in asked] == ["UNKNOWN_TOPIC_ID"]
    gone = admin.connection.ask("DeleteTopics", 6, {"topics": [{"name": None, "topicId": old["topicId"]}], "timeoutMs": 5000})
    assert [error(t) for t in gone["responses"]] == ["UNKNOWN_TOPIC_ID"]
    assert admin.produce(topic, "first", producer=(producer, epoch, 7)) == 0  # no producer state: any first sequence


def test_delete_by_id(admin, topic):
    topic_id = admin.topic_id(topic)
    gone = admin.connection.ask("DeleteTopics", 6, {"topics": [{"name": None, "topicId": topic_id}], "timeoutMs": 5000})
    assert [(error(t), t["topicId"]) for t in gone["responses"]] == [("NONE", topic_id)]
    until(lambda: error(admin.describe(topic)) == "UNKNOWN_TOPIC_OR_PARTITION", 10, "the deletion")


# ---- configs and cluster

def test_describe_configs_of_a_topic_is_complete(admin, name):
    admin.create(name, retention_ms=777)
    result = admin.describe_configs(2, name)
    assert error(result) == "NONE"
    configs = {c["name"]: c for c in result["configs"]}
    table = (wire.SCHEMA.parent / "configs-topic.txt").read_text().splitlines()
    for key in [row.split("\t")[0] for row in table if row[0] != "#" and not row.startswith("internal.")]:
        assert key in configs, key
        c = configs[key]
        assert c["configSource"] in (1, 2, 3, 4, 5) and 1 <= c["configType"] <= 9 and c["documentation"], c
        assert c["synonyms"] or c["configSource"] == 5, c
    assert (configs["retention.ms"]["value"], configs["retention.ms"]["configSource"]) == ("777", 1)
    assert [s["name"] for s in configs["retention.ms"]["synonyms"]][0] == "retention.ms"
    assert configs["cleanup.policy"]["value"] == "delete" and configs["cleanup.policy"]["configType"] == 7


def test_describe_configs_leaves_out_what_is_not_asked(admin, topic):
    result = admin.describe_configs(2, topic, ["retention.ms", "no.such.key"], synonyms=False, documentation=False)
    assert [c["name"] for c in result["configs"]] == ["retention.ms"]
    assert result["configs"][0]["synonyms"] == [] and not result["configs"][0]["documentation"]


def test_describe_configs_of_the_broker_has_what_tools_look_for(admin):
    node = admin.metadata()["brokers"][0]["nodeId"]
    configs = {c["name"]: c for c in admin.describe_configs(4, str(node))["configs"]}
    for key in ("num.partitions", "default.replication.factor", "auto.create.topics.enable", "log.cleanup.policy",
                "message.max.bytes", "log.retention.ms", "log.segment.bytes", "listeners", "log.dirs"):
        assert key in configs, key
    assert configs["auto.create.topics.enable"]["configType"] == 1 and int(configs["num.partitions"]["value"]) >= 1
    assert configs["log.dirs"]["readOnly"]
    other = admin.describe_configs(4, str(node + 5))
    assert error(other) == "INVALID_REQUEST"


@pytest.mark.smoke
def test_the_cluster_id_is_in_every_answer_and_stable(admin):
    ids = {admin.metadata(version=v)["clusterId"] for v in range(2, 14)}
    ids |= {admin.connection.ask("DescribeCluster", v, {})["clusterId"] for v in (0, 1, 2)}
    assert len(ids) == 1 and len(ids.pop()) == 22


def test_the_cluster_id_and_topic_id_survive_a_restart(own_broker, name):
    broker = own_broker()
    with broker.connect() as c:
        Admin(c).create(name)
        before = Admin(c).metadata()["clusterId"], Admin(c).topic_id(name)
    broker.stop()
    broker.start()
    with broker.connect() as c:
        assert (Admin(c).metadata()["clusterId"], Admin(c).topic_id(name)) == before


def test_describe_cluster_names_this_broker(broker, admin):
    for version in (0, 1, 2):
        answer = admin.connection.ask("DescribeCluster", version, {})
        assert error(answer) == "NONE"
        assert [(b["host"], b["port"]) for b in answer["brokers"]] == [("127.0.0.1", broker.port)]
        assert answer["controllerId"] in [-1, *(b["brokerId"] for b in answer["brokers"])]


def test_answers_without_security_are_those_of_kafka(admin):
    sasl = admin.connection.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
    assert error(sasl) == "ILLEGAL_SASL_STATE"
    acl = {"resourceTypeFilter": 1, "patternTypeFilter": 1, "operation": 1, "permissionType": 1}
    assert error(admin.connection.ask("DescribeAcls", 3, acl)) == "SECURITY_DISABLED"
    made = admin.connection.ask("CreateAcls", 3, {"creations": 2 * [
        {"resourceType": 2, "resourceName": "x", "resourcePatternType": 3, "principal": "User:a", "host": "*", "operation": 3,
         "permissionType": 3}]})["results"]
    assert [error(r) for r in made] == ["SECURITY_DISABLED"] * 2
    gone = admin.connection.ask("DeleteAcls", 3, {"filters": [acl, acl]})["filterResults"]
    assert [error(r) for r in gone] == ["SECURITY_DISABLED"] * 2


def test_find_coordinator_names_this_broker(admin):
    node = admin.metadata()["brokers"][0]["nodeId"]

    def ready():
        answer = admin.connection.ask("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["g1", "g2"]})["coordinators"]
        assert [c["key"] for c in answer] == ["g1", "g2"]
        return all(error(c) == "NONE" and c["nodeId"] == node for c in answer)
    until(ready, 20, "a coordinator")
    old = admin.connection.ask("FindCoordinator", 0, {"key": "g1"})
    assert error(old) == "NONE" and old["nodeId"] == node
    wrong = admin.connection.ask("FindCoordinator", 4, {"keyType": 9, "coordinatorKeys": ["g1"]})["coordinators"]
    assert [error(c) for c in wrong] == ["INVALID_REQUEST"]
