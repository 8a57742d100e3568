"""Configuration changes, directories, partitions, producers, elections, reassignments, quorum, features, telemetry, quotas and
credentials of one broker: the answers are those of Kafka 4.4 with one node and no authorizer (run with OTTLA_TEST_BOOTSTRAP
against one). Where ours differ on purpose the test says so and runs against ours alone."""
import gzip
import struct

import pytest

import harness
from admin import error

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
ours_only = pytest.mark.skipif(bool(harness.EXTERNAL), reason="Kafka answers otherwise")


@pytest.fixture
def ask(admin):
    return admin.connection.ask


@pytest.fixture
def node(admin):
    return admin.metadata()["brokers"][0]["nodeId"]


def incremental(ask, kind, name, *changes, version=1, validate_only=False):
    """changes: (key, operation, value). The error of the one resource."""
    body = {"resources": [{"resourceType": kind, "resourceName": name, "configs": [
        {"name": k, "configOperation": op, "value": v} for k, op, v in changes]}], "validateOnly": validate_only}
    answer = ask("IncrementalAlterConfigs", version, body)["responses"]
    assert len(answer) == 1 and (answer[0]["resourceType"], answer[0]["resourceName"]) == (kind, name)
    assert (answer[0]["errorCode"] == 0) == (answer[0]["errorMessage"] is None)
    return error(answer[0])


def alter(ask, kind, name, configs, version=2, validate_only=False):
    body = {"resources": [{"resourceType": kind, "resourceName": name, "configs": [
        {"name": k, "value": v} for k, v in configs.items()]}], "validateOnly": validate_only}
    return error(ask("AlterConfigs", version, body)["responses"][0])


def config(admin, kind, name, key):
    """(value, source) of one key; None when it is not told."""
    for row in admin.describe_configs(kind, name, [key])["configs"]:
        return row["value"], row["configSource"]


# ---- configuration changes (M9)

@pytest.mark.parametrize("changes,want", [
    ([("retention.ms", SET, "1000")], "NONE"),
    ([("nope.key", SET, "1")], "INVALID_CONFIG"),
    ([("retention.ms", SET, "abc")], "INVALID_CONFIG"),
    ([("retention.ms", SET, "-5")], "INVALID_CONFIG"),
    ([("retention.ms", SET, None)], "INVALID_REQUEST"),
    ([("retention.ms", DELETE, None)], "NONE"),
    ([("nope.key", DELETE, None)], "NONE"),
    ([("retention.ms", APPEND, "5")], "INVALID_CONFIG"),
    ([("nope.key", APPEND, "5")], "INVALID_CONFIG"),
    ([("cleanup.policy", APPEND, "foo")], "INVALID_CONFIG"),
    ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], "INVALID_REQUEST"),
    ([], "NONE"),
    ([("segment.bytes", SET, "13")], "INVALID_CONFIG"),
    ([("preallocate", SET, "maybe")], "INVALID_CONFIG"),
    ([("compression.type", SET, "lzx")], "INVALID_CONFIG"),
    ([("remote.storage.enable", SET, "true")], "INVALID_CONFIG"),
    ([("leader.replication.throttled.replicas", SET, "0:1,1:2")], "NONE"),
    ([("leader.replication.throttled.replicas", SET, "*")], "NONE"),
    ([("leader.replication.throttled.replicas", SET, "zz")], "INVALID_CONFIG"),
])
@pytest.mark.parametrize("version", [0, 1])
def test_changes_of_a_topic(ask, topic, version, changes, want):
    assert incremental(ask, TOPIC, topic, *changes, version=version) == want


def test_lists_grow_and_shrink(ask, admin, topic):
    def policy():
        return set(filter(None, config(admin, TOPIC, topic, "cleanup.policy")[0].split(",")))
    assert incremental(ask, TOPIC, topic, ("cleanup.policy", APPEND, "compact")) == "NONE"
    assert policy() == {"delete", "compact"}
    assert incremental(ask, TOPIC, topic, ("cleanup.policy", APPEND, "compact")) == "NONE"
    assert policy() == {"delete", "compact"}
    assert incremental(ask, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")) == "NONE"
    assert policy() == {"compact"}
    assert incremental(ask, TOPIC, topic, ("cleanup.policy", DELETE, None)) == "NONE"
    assert config(admin, TOPIC, topic, "cleanup.policy") == ("delete", 5)


def test_names_that_are_no_topic(ask):
    change = ("retention.ms", SET, "5")
    assert incremental(ask, TOPIC, "not-there", change) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert incremental(ask, TOPIC, "bad name", change) == "INVALID_TOPIC_EXCEPTION"
    assert incremental(ask, TOPIC, "", change) == "INVALID_REQUEST"
    assert incremental(ask, 3, "x", change) == "INVALID_REQUEST"
    assert incremental(ask, 0, "x", change) == "INVALID_REQUEST"


def test_each_resource_once(ask, topic):
    one = {"resourceType": TOPIC, "resourceName": topic, "configs": [{"name": "retention.ms", "configOperation": SET, "value": "5"}]}
    answer = ask("IncrementalAlterConfigs", 1, {"resources": [one, one], "validateOnly": False})["responses"]
    assert [error(a) for a in answer] == ["INVALID_REQUEST"] * 2


def test_validate_only_changes_nothing(ask, admin, topic):
    assert incremental(ask, TOPIC, topic, ("retention.ms", SET, "77"), validate_only=True) == "NONE"
    assert incremental(ask, TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True) == "INVALID_CONFIG"
    assert alter(ask, TOPIC, topic, {"retention.ms": "77"}, validate_only=True) == "NONE"
    assert config(admin, TOPIC, topic, "retention.ms")[1] == 5


@pytest.mark.parametrize("version", [0, 1, 2])
def test_alter_configs_replaces_the_whole_set(ask, admin, topic, version):
    assert incremental(ask, TOPIC, topic, ("retention.ms", SET, "5000")) == "NONE"
    assert alter(ask, TOPIC, topic, {"segment.ms": "60000"}, version) == "NONE"
    assert config(admin, TOPIC, topic, "segment.ms") == ("60000", 1)
    assert config(admin, TOPIC, topic, "retention.ms") == ("604800000", 5)
    assert alter(ask, TOPIC, topic, {"segment.ms": None}, version) == "INVALID_REQUEST"
    assert alter(ask, TOPIC, topic, {"no.such": "1"}, version) == "INVALID_CONFIG"
    assert config(admin, TOPIC, topic, "segment.ms") == ("60000", 1)
    assert alter(ask, TOPIC, topic, {}, version) == "NONE"
    assert config(admin, TOPIC, topic, "segment.ms") == ("604800000", 5)


@pytest.mark.parametrize("key,value,want", [
    ("log.cleaner.threads", "1", "NONE"),
    ("node.id", "2", "INVALID_REQUEST"),
    ("num.partitions", "2", "INVALID_REQUEST"),
    ("message.max.bytes", "x", "INVALID_REQUEST"),
    ("min.insync.replicas", "2", "INVALID_CONFIG"),
    ("message.max.bytes", "-2", "INVALID_REQUEST"),
    ("log.retention.ms", None, "INVALID_REQUEST"),
])
def test_changes_of_a_broker(ask, node, key, value, want):
    assert incremental(ask, BROKER, str(node), (key, SET, value)) == want
    if key != "min.insync.replicas":          # which Kafka does not let go of either
        assert incremental(ask, BROKER, str(node), (key, DELETE, None)) == "NONE"


def test_a_broker_and_the_cluster_default(ask, admin, node):
    key = "log.retention.ms"

    def shown(want):
        """With us at once; elsewhere the answer may come before the broker has applied it."""
        harness.until(lambda: config(admin, BROKER, str(node), key) == want, 10 if harness.EXTERNAL else 0, f"{want} shown")
    try:
        assert incremental(ask, BROKER, "", (key, SET, "86400001")) == "NONE"
        shown(("86400001", 3))
        assert config(admin, BROKER, "", key) == ("86400001", 3)
        assert incremental(ask, BROKER, str(node), (key, SET, "86400002")) == "NONE"
        shown(("86400002", 2))
    finally:
        assert incremental(ask, BROKER, str(node), (key, DELETE, None)) == "NONE"
        assert incremental(ask, BROKER, "", (key, DELETE, None)) == "NONE"
    harness.until(lambda: config(admin, BROKER, str(node), key)[1] in (4, 5), 10 if harness.EXTERNAL else 0, "the default again")


def test_names_that_are_no_broker(ask, node):
    change = ("log.retention.ms", SET, "86400001")
    for name in (str(node + 76), "abc", "99999999999", "-1"):
        assert incremental(ask, BROKER, name, change) == "INVALID_REQUEST"
    assert incremental(ask, BROKER, "", ("listeners", SET, "PLAINTEXT://:1")) == "INVALID_REQUEST"


@ours_only
def test_where_we_are_stricter(ask, node, topic):
    """Kafka stores an unknown broker key that nobody reads, and answers UNKNOWN_SERVER_ERROR to an operation that is none."""
    assert incremental(ask, BROKER, str(node), ("my.key", SET, "2")) == "INVALID_CONFIG"
    assert incremental(ask, TOPIC, topic, ("retention.ms", 9, "2")) == "INVALID_REQUEST"
    assert incremental(ask, GROUP, "x", ("interval.ms", SET, "1000")) == "INVALID_CONFIG"


def test_log_levels(ask, admin, node):
    name = str(node)
    assert incremental(ask, LOGGER, name, ("root", SET, "LOUD")) == "INVALID_CONFIG"
    assert incremental(ask, LOGGER, name, ("no.such.logger", SET, "INFO")) == "INVALID_CONFIG"
    assert incremental(ask, LOGGER, name, ("no.such.logger", DELETE, None)) == "INVALID_CONFIG"
    assert incremental(ask, LOGGER, name, ("root", APPEND, "INFO")) == "INVALID_REQUEST"
    assert incremental(ask, LOGGER, name, ("root", DELETE, None)) == "INVALID_REQUEST"
    assert incremental(ask, LOGGER, str(node + 76), ("root", SET, "INFO")) == "INVALID_REQUEST"
    assert alter(ask, LOGGER, name, {"root": "INFO"}) == "INVALID_REQUEST"
    before = config(admin, LOGGER, name, "root")
    assert incremental(ask, LOGGER, name, ("root", SET, "DEBUG"), validate_only=True) == "NONE"
    assert config(admin, LOGGER, name, "root") == before
    assert incremental(ask, LOGGER, name, ("root", SET, "WARN")) == "NONE"
    assert config(admin, LOGGER, name, "root") == ("WARN", 6)
    assert incremental(ask, LOGGER, name, ("root", SET, before[0])) == "NONE"


def test_resources_are_listed(ask, node, topic):
    def listed(version, **body):
        return {(r["resourceName"], r.get("resourceType")) for r in ask("ListConfigResources", version, body)["configResources"]}
    everything = listed(1, resourceTypes=[])
    assert {(topic, TOPIC), (str(node), BROKER), (str(node), LOGGER)} <= everything
    assert listed(1, resourceTypes=[TOPIC]) == {r for r in everything if r[1] == TOPIC}
    assert listed(1, resourceTypes=[BROKER, LOGGER]) == {(str(node), BROKER), (str(node), LOGGER)}
    assert error(ask("ListConfigResources", 1, {"resourceTypes": [9, TOPIC]})) == "UNSUPPORTED_VERSION"
    assert ask("ListConfigResources", 0)["errorCode"] == 0


# ---- directories (M10)

@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs(ask, admin, name, version):
    admin.create(name, partitions=3)
    admin.produce(name, "x" * 5000, partition=2)
    answer = ask("DescribeLogDirs", version, {"topics": [{"topic": name, "partitions": [0, 2, 7]}, {"topic": "not-there", "partitions": [0]}]})
    [directory] = answer["results"]
    assert error(directory) == "NONE" and directory["logDir"].startswith("/")
    [topic] = directory["topics"]
    sizes = {p["partitionIndex"]: p["partitionSize"] for p in topic["partitions"]}
    assert topic["name"] == name and sizes.keys() == {0, 2} and sizes[0] == 0 and sizes[2] > 5000
    assert all(p["offsetLag"] == 0 and not p["isFutureKey"] for p in topic["partitions"])
    if version >= 4:
        assert 0 < directory["usableBytes"] <= directory["totalBytes"]
    everything = ask("DescribeLogDirs", version, {"topics": None})["results"][0]["topics"]
    assert {p["partitionIndex"] for t in everything if t["name"] == name for p in t["partitions"]} == {0, 1, 2}
    assert ask("DescribeLogDirs", version, {"topics": []})["results"][0]["topics"] == []


@pytest.mark.parametrize("version", [1, 2])
def test_replicas_stay_in_their_directory(ask, topic, version):
    here = ask("DescribeLogDirs", 4, {"topics": None})["results"][0]["logDir"]

    def move(path, **topics):
        answer = ask("AlterReplicaLogDirs", version, {"dirs": [{"path": path, "topics": [{"name": n, "partitions": p} for n, p in topics.items()]}]})
        return {(t["topicName"], p["partitionIndex"]): error(p) for t in answer["results"] for p in t["partitions"]}
    assert move(here, **{topic: [0, 9], "nada": [0]}) == {
        (topic, 0): "NONE", (topic, 9): "UNKNOWN_TOPIC_OR_PARTITION", ("nada", 0): "UNKNOWN_TOPIC_OR_PARTITION"}
    assert move("/nowhere", **{topic: [0]}) == {(topic, 0): "LOG_DIR_NOT_FOUND"}
    assert move("relative", **{topic: [0]}) == {(topic, 0): "LOG_DIR_NOT_FOUND"}


# ---- partitions

def partitions(ask, *names, limit=2000, cursor=None):
    body = {"topics": [{"name": n} for n in names], "responsePartitionLimit": limit,
            "cursor": cursor and {"topicName": cursor[0], "partitionIndex": cursor[1]}}
    answer = ask("DescribeTopicPartitions", 0, body)
    rows = [(t["name"], p["partitionIndex"]) for t in answer["topics"] for p in t["partitions"]]
    after = answer["nextCursor"]
    return answer["topics"], rows, after and (after["topicName"], after["partitionIndex"])


@pytest.fixture
def pair(admin, name):
    admin.create(name + "-a", partitions=2)
    admin.create(name + "-b", partitions=3)
    return name + "-a", name + "-b"


def test_partitions_in_pages(ask, pair):
    a, b = pair
    whole = [(a, 0), (a, 1), (b, 0), (b, 1), (b, 2)]
    topics, rows, after = partitions(ask, b, a, b)
    assert rows == whole and after is None
    assert topics[0]["topicAuthorizedOperations"] == 3576 and topics[0]["topicId"] != bytes(16)
    part = topics[1]["partitions"][2]
    assert part["leaderId"] >= 0 and part["replicaNodes"] == part["isrNodes"] == [part["leaderId"]]
    assert part["eligibleLeaderReplicas"] == part["lastKnownElr"] == part["offlineReplicas"] == []
    for limit in (-1, 0, 1, 2, 3, 5):
        seen, cursor = [], None
        for _ in range(6):
            _, rows, cursor = partitions(ask, a, b, limit=limit, cursor=cursor)
            assert len(rows) <= max(limit, 1)
            seen += rows
            if cursor is None:
                break
        assert seen == whole


def test_partitions_of_odd_cursors_and_names(ask, pair):
    a, b = pair
    assert partitions(ask, b, cursor=(b, 9))[1:] == ([], None)
    assert error(partitions(ask, b, cursor=(b, -1))[0][0]) == "INVALID_REQUEST"
    assert error(partitions(ask, b, cursor=(a, 0))[0][0]) == "INVALID_REQUEST"
    assert partitions(ask, cursor=(a + "-gone", 7))[1][:3] == [(b, 0), (b, 1), (b, 2)]
    assert error(partitions(ask, "nada-" + a)[0][0]) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error(partitions(ask, "bad name")[0][0]) == "INVALID_TOPIC_EXCEPTION"


def test_producers(ask, admin, topic):
    number, epoch = admin.producer_id()
    admin.produce(topic, "x", "y", producer=(number, epoch, 0))
    answer = ask("DescribeProducers", 0, {"topics": [{"name": topic, "partitionIndexes": [0, 3]}, {"name": "bad name", "partitionIndexes": [0]}]})
    good, none = answer["topics"][0]["partitions"]
    [row] = good["activeProducers"]
    assert (row["producerId"], row["producerEpoch"], row["lastSequence"]) == (number, epoch, 1)
    assert row["lastTimestamp"] > 0 and row["coordinatorEpoch"] == -1 and row["currentTxnStartOffset"] == -1
    assert error(none) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error(answer["topics"][1]["partitions"][0]) == "INVALID_TOPIC_EXCEPTION"


# ---- placement

@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("kind", [0, 1])
def test_elections_are_not_needed(ask, topic, version, kind):
    if version == 0 and kind == 1:
        pytest.skip("v0 has only preferred elections")
    def elect(topics):
        answer = ask("ElectLeaders", version, {**({"electionType": kind} if version else {}), "topicPartitions": topics, "timeoutMs": 5000})
        assert answer.get("errorCode", 0) == 0
        return {(t["topic"], p["partitionId"]): error(p) for t in answer["replicaElectionResults"] for p in t["partitionResult"]}
    assert elect([{"topic": topic, "partitions": [0, 9]}, {"topic": "nada", "partitions": [0]}]) == {
        (topic, 0): "ELECTION_NOT_NEEDED", (topic, 9): "UNKNOWN_TOPIC_OR_PARTITION", ("nada", 0): "UNKNOWN_TOPIC_OR_PARTITION"}
    assert elect(None) == {} and elect([]) == {}


def test_an_election_type_that_is_none(ask, topic):
    answer = ask("ElectLeaders", 2, {"electionType": 2, "topicPartitions": [{"topic": topic, "partitions": [0]}], "timeoutMs": 5000})
    assert error(answer) == error(answer["replicaElectionResults"][0]["partitionResult"][0]) == "INVALID_REQUEST"


@pytest.mark.parametrize("version", [0, 1])
def test_reassignments(ask, node, topic, version):
    def move(replicas, partition=0, name=topic):
        answer = ask("AlterPartitionReassignments", version, {"timeoutMs": 5000, "topics": [{"name": name, "partitions": [
            {"partitionIndex": partition, "replicas": replicas}]}]})
        assert error(answer) == "NONE"
        return error(answer["responses"][0]["partitions"][0])
    assert move([node]) == "NONE"
    for bad in ([99], [node, 99], [], [node, node], [-1]):
        assert move(bad) == "INVALID_REPLICA_ASSIGNMENT"
    assert move(None) == "NO_REASSIGNMENT_IN_PROGRESS"
    assert move([node], 9) == move(None, 9) == move([node], 0, "nada") == "UNKNOWN_TOPIC_OR_PARTITION"
    for topics in (None, [], [{"name": topic, "partitionIndexes": [0, 9]}]):
        answer = ask("ListPartitionReassignments", 0, {"topics": topics})
        assert error(answer) == "NONE" and answer["topics"] == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum(ask, node, topic, version):
    def quorum(**topics):
        return ask("DescribeQuorum", version, {"topics": [{"topicName": n, "partitions": [{"partitionIndex": i} for i in p]} for n, p in topics.items()]})
    answer = quorum(__cluster_metadata=[0])
    part = answer["topics"][0]["partitions"][0]
    assert error(answer) == error(part) == "NONE" and part["leaderId"] == node and part["leaderEpoch"] >= 1
    [voter] = part["currentVoters"]
    assert voter["replicaId"] == node and part["observers"] == [] and voter["logEndOffset"] == part["highWatermark"] > 0
    if version >= 2:
        assert [n["nodeId"] for n in answer["nodes"]] == [node] and answer["nodes"][0]["listeners"][0]["port"] > 0
    for other in ({topic: [0]}, {"__cluster_metadata": [1]}, {"__cluster_metadata": [0, 1]}):
        assert {error(p) for p in quorum(**other)["topics"][0]["partitions"]} == {"UNKNOWN_TOPIC_OR_PARTITION"}
    assert quorum()["topics"] == []


# ---- features

@pytest.mark.parametrize("version", [0, 1, 2])
def test_features(ask, version):
    def update(*features, kind=1, **more):
        return ask("UpdateFeatures", version, {"timeoutMs": 5000, "featureUpdates": [
            {"feature": f, "maxVersionLevel": n, **({"upgradeType": kind} if version else {})} for f, n in features], **more})
    good = update(("transaction.version", 2))
    assert error(good) == "NONE" and len(good.get("results", [])) == (version < 2)
    for bad in (("transaction.version", 9), ("metadata.version", 34), ("metadata.version", 32), ("foo.version", 1), ("transaction.version", 1), ("transaction.version", 0), ("transaction.version", -1)):
        answer = update(("transaction.version", 2) if version else bad, bad)
        assert error(answer) == ("INVALID_UPDATE_VERSION" if version else error(answer)) and answer.get("results", []) == []
        assert error(answer) != "NONE"
    if version:
        assert error(update(("transaction.version", 2), kind=9)) == "INVALID_UPDATE_VERSION"
    assert error(update()) == "NONE"


def test_levels_go_up_and_down_and_stay(own_broker):
    """One server of its own: what is set is for the whole cluster."""
    with own_broker(ottla_metadata_version="29", offsets_topic_num_partitions="1").connect() as c:
        def level(feature):
            answer = c.ask("ApiVersions", 4, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"})
            return {f["name"]: f["maxVersionLevel"] for f in answer["finalizedFeatures"]}.get(feature, 0)

        def update(*features, kind=1, **more):
            return error(c.ask("UpdateFeatures", 2, {"timeoutMs": 5000, "featureUpdates": [
                {"feature": f, "maxVersionLevel": n, "upgradeType": kind} for f, n in features], **more}))

        def heartbeat():
            return error(c.ask("ConsumerGroupHeartbeat", 1, {
                "groupId": "g", "memberId": "AAAAAAAAAAAAAAAAAAAAAA", "memberEpoch": 0, "rebalanceTimeoutMs": 10000, "subscribedTopicNames": ["t"], "topicPartitions": []}))
        assert level("metadata.version") == 29 and heartbeat() in ("NONE", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
        assert update(("metadata.version", 24), kind=2) == "NONE" and level("metadata.version") == 24
        assert update(("metadata.version", 22), kind=2) == "INVALID_UPDATE_VERSION" and level("metadata.version") == 24
        assert update(("metadata.version", 33), ("group.version", 0)) == "INVALID_UPDATE_VERSION" and level("metadata.version") == 24     # all or nothing
        assert update(("metadata.version", 33), validateOnly=True) == "NONE" and level("metadata.version") == 24
        assert update(("metadata.version", 33)) == "NONE" and level("metadata.version") == 33
        assert update(("group.version", 0), ("transaction.version", 1), ("share.version", 0), kind=2) == "NONE"
        assert (level("group.version"), level("transaction.version")) == (0, 1)
        assert heartbeat() == "UNSUPPORTED_VERSION"
        [described] = c.ask("ConsumerGroupDescribe", 1, {"groupIds": ["g"]})["groups"]
        assert error(described) == "UNSUPPORTED_VERSION"
        assert update(("group.version", 1)) == "NONE" and heartbeat() != "UNSUPPORTED_VERSION"


# ---- what clients push about themselves

def test_telemetry(ask):
    first = ask("GetTelemetrySubscriptions", 0, {"clientInstanceId": bytes(16)})
    client = first["clientInstanceId"]
    assert error(first) == "NONE" and client != bytes(16) and first["acceptedCompressionTypes"] == [4, 3, 1, 2]
    assert first["telemetryMaxBytes"] == 1 << 20 and first["pushIntervalMs"] > 0 and first["requestedMetrics"] == []
    same = ask("GetTelemetrySubscriptions", 0, {"clientInstanceId": bytes(range(16))})
    assert same["clientInstanceId"] == bytes(range(16))

    def push(client, number, kind=0, size=1, last=False):
        return error(ask("PushTelemetry", 0, {"clientInstanceId": client, "subscriptionId": number, "terminating": last, "compressionType": kind, "metrics": bytes(size)}))
    assert push(bytes(16), first["subscriptionId"]) == "INVALID_REQUEST"
    assert push(bytes(range(1, 17)), 1) == "UNKNOWN_SUBSCRIPTION_ID"


CLIENT_METRICS = 16


@pytest.fixture
def subscribe(ask):
    """subscribe(NAME, key=value…): a subscription that goes when the test ends."""
    names = []

    def one(name, **configs):
        names.append(name)
        return incremental(ask, CLIENT_METRICS, name, *((key.replace("_", "."), SET, value) for key, value in configs.items()))
    yield one
    for name in names:
        incremental(ask, CLIENT_METRICS, name, *((key, DELETE, None) for key in ("metrics", "interval.ms", "match")))


def test_subscriptions_to_client_metrics(ask, subscribe):
    assert subscribe("one", metrics="a.,b.", interval_ms="60000") == "NONE"
    assert subscribe("two", metrics="*", match="client_id=nobody") == "NONE"
    assert subscribe("", metrics="*") == "INVALID_REQUEST"
    assert subscribe("three", interval_ms="99") == "INVALID_REQUEST"
    assert subscribe("three", interval_ms="x") == "INVALID_CONFIG"
    assert subscribe("three", match="client_id") == "INVALID_CONFIG"
    assert subscribe("three", **{"retention_ms": "1"}) == "INVALID_REQUEST"
    assert incremental(ask, CLIENT_METRICS, "one", ("metrics", APPEND, "c.,a."), ("interval.ms", SET, "70000")) == "NONE"
    assert incremental(ask, CLIENT_METRICS, "one", ("metrics", SUBTRACT, "b.")) == "NONE"
    assert incremental(ask, CLIENT_METRICS, "one", ("interval.ms", APPEND, "1")) == "INVALID_CONFIG"
    for version in (0, 1):
        listed = ask("ListConfigResources", version, {"resourceTypes": [CLIENT_METRICS]} if version else {})["configResources"]
        assert {r["resourceName"] for r in listed} == {"one", "two"}
    [answer] = ask("DescribeConfigs", 4, {"resources": [{"resourceType": CLIENT_METRICS, "resourceName": "one", "configurationKeys": None}]})["results"]
    told = {c["name"]: (c["value"], c["configSource"]) for c in answer["configs"]}
    assert told == {"metrics": ("a.,c.", 7), "interval.ms": ("70000", 7), "match": ("", 5)}
    assert incremental(ask, CLIENT_METRICS, "one", ("metrics", DELETE, None), ("interval.ms", DELETE, None)) == "NONE"
    assert {r["resourceName"] for r in ask("ListConfigResources", 0, {})["configResources"]} == {"two"}


@ours_only      # Kafka serves these two only with a plugin that takes what is pushed
def test_a_client_is_asked_for_what_the_subscriptions_that_match_it_say(broker, subscribe):
    def told(software="apache-kafka-java", version="4.4.0", client_id="tester"):
        with broker.connect() as c:
            c.ask("ApiVersions", 3, {"clientSoftwareName": software, "clientSoftwareVersion": version})
            answer = c.ask("GetTelemetrySubscriptions", 0, {"clientInstanceId": bytes(range(16))}, client=client_id)
            return sorted(answer["requestedMetrics"]), answer["pushIntervalMs"], answer["subscriptionId"]
    nothing = told()
    assert nothing[:2] == ([], 300000)
    assert subscribe("java", metrics="a., b.", interval_ms="60000", match="client_software_name=.*java") == "NONE"
    assert subscribe("old", metrics="b.,c.", interval_ms="20000", match="client_software_version=3\\..*,client_source_address=127\\.0\\.0\\.1") == "NONE"
    assert subscribe("mine", metrics="*", interval_ms="30000", match="client_id=test") == "NONE"
    assert subscribe("nobody", metrics="z.", match="client_source_port=0") == "NONE"
    java = told()
    assert java[:2] == (["a.", "b."], 60000) and java[2] != nothing[2] and told() == java
    assert told(version="3.9.1")[:2] == (["a.", "b.", "c."], 20000)
    assert told(software="librdkafka", version="3.9.1")[:2] == (["b.", "c."], 20000)
    assert told(software="librdkafka")[:2] == ([], 300000)
    assert told(client_id="test")[:2] == (["*"], 30000)       # the whole text has to match: "tester" did not
    assert subscribe("java", metrics="d.") == "NONE"
    assert told()[0] == ["d."] and told()[2] != java[2]


@ours_only
def test_telemetry_is_bounded(ask, subscribe):
    assert subscribe("all", metrics="*", interval_ms="3600000") == "NONE"
    told = ask("GetTelemetrySubscriptions", 0, {"clientInstanceId": bytes(range(16))})
    assert told["requestedMetrics"] == ["*"] and told["pushIntervalMs"] == 3600000

    def push(kind=0, size=0, last=False):
        return error(ask("PushTelemetry", 0, {"clientInstanceId": told["clientInstanceId"], "subscriptionId": told["subscriptionId"],
                                              "terminating": last, "compressionType": kind, "metrics": bytes(size)}))
    assert push(size=(1 << 20) + 1) == "TELEMETRY_TOO_LARGE"
    assert push(kind=5) == "UNSUPPORTED_COMPRESSION_TYPE"
    assert [push(), push(), push(last=True), push(last=True)] == ["NONE", "THROTTLING_QUOTA_EXCEEDED", "NONE", "INVALID_REQUEST"]


def otlp(**metrics):
    """MetricsData with a delta sum for each whole number and a gauge for each other one."""
    def field(number, data):
        return bytes([number << 3 | 2]) + varint(len(data)) + data

    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    def metric(name, value):
        if isinstance(value, int):
            return field(1, name.encode()) + field(7, field(1, b"\x31" + struct.pack("<q", value)) + b"\x10\x01\x18\x01")
        return field(1, name.encode()) + field(5, field(1, b"\x21" + struct.pack("<d", value)))
    return field(1, field(2, b"".join(field(2, metric(name.replace("_", "."), value)) for name, value in metrics.items())))


@ours_only
def test_what_clients_push_is_kept_by_their_software(broker, subscribe):
    assert subscribe("often", metrics="*", interval_ms="100") == "NONE"

    def push(client, data, kind=0, software="pusher"):
        with broker.connect() as c:
            c.ask("ApiVersions", 3, {"clientSoftwareName": software, "clientSoftwareVersion": "1.0"})
            number = c.ask("GetTelemetrySubscriptions", 0, {"clientInstanceId": client})["subscriptionId"]
            return error(c.ask("PushTelemetry", 0, {"clientInstanceId": client, "subscriptionId": number, "terminating": False, "compressionType": kind, "metrics": data}))

    def told(name, software="pusher"):
        text = harness.http(broker.rest + "/metrics")[2].decode()
        lines = [line for line in text.splitlines() if line.startswith("ottla_client_metrics_value{") and f'"{software}"' in line and f'metric="{name}"' in line]
        return [float(line.rsplit(" ", 1)[1]) for line in lines]
    one, two, three = (bytes([n] * 16) for n in (1, 2, 3))
    assert push(one, otlp(records_sent=5, latency_max=1.5)) == "NONE"
    assert push(two, gzip.compress(otlp(records_sent=7, latency_max=0.5)), kind=1) == "NONE"
    assert push(three, otlp(records_sent=100), software="another") == "NONE"
    assert told("records.sent") == [12] and told("latency.max") == [0.5] and told("records.sent", "another") == [100]
    assert push(bytes([4] * 16), b"\0nonsense") == "INVALID_RECORD"
    assert push(bytes([5] * 16), b"nonsense", kind=4) == "INVALID_RECORD"
    assert push(bytes([6] * 16), gzip.compress(bytes(6 << 20)), kind=1) == "INVALID_RECORD"       # more than is looked at


@ours_only
def test_librdkafka_pushes_what_it_is_asked_for(broker, subscribe, topic):
    from confluent_kafka import Producer
    assert subscribe("librdkafka", metrics="org.apache.kafka.producer.", interval_ms="200", match="client_software_name=.*librdkafka|confluent.*") == "NONE"
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    def told():
        producer.produce(topic, b"x")
        producer.flush(10)
        text = harness.http(broker.rest + "/metrics")[2].decode()
        return [line for line in text.splitlines() if line.startswith("ottla_client_metrics_value{") and 'metric="org.apache.kafka.producer.' in line]
    harness.until(told, 30, "metrics of librdkafka", step_s=0.1)


# ---- quotas and credentials: none

@pytest.mark.parametrize("components,want", [
    ([], "NONE"), ([("user", 0, "u")], "NONE"), ([("user", 2, None)], "NONE"), ([("ip", 1, None)], "NONE"),
    ([("foo", 0, "u")], "UNSUPPORTED_VERSION"), ([("user", 7, "u")], "INVALID_REQUEST"), ([("user", 0, "u")] * 2, "INVALID_REQUEST"),
    ([("user", 0, "u"), ("ip", 0, "1.2.3.4")], "INVALID_REQUEST"), ([("", 0, "u")], "INVALID_REQUEST")])
@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_none(ask, version, components, want):
    answer = ask("DescribeClientQuotas", version, {"components": [{"entityType": t, "matchType": m, "match": v} for t, m, v in components], "strict": True})
    assert error(answer) == want and answer["entries"] == ([] if want == "NONE" else None)


def quota(ask, entity, key, value=0.0, remove=False):
    [entry] = ask("AlterClientQuotas", 1, {"validateOnly": True, "entries": [{
        "entity": [{"entityType": t, "entityName": n} for t, n in entity], "ops": [{"key": key, "value": value, "remove": remove}]}]})["entries"]
    assert [(e["entityType"], e["entityName"]) for e in entry["entity"]] == list(entity)
    return error(entry)


def test_changes_of_quotas_are_checked(ask):
    user = [("user", "u")]
    assert quota(ask, user, "foo", 1.0) == "INVALID_REQUEST"
    assert quota(ask, [("foo", "u")], "consumer_byte_rate", 1.0) == "INVALID_REQUEST"
    assert quota(ask, [], "consumer_byte_rate", 1.0) == "INVALID_REQUEST"
    assert quota(ask, user, "consumer_byte_rate", -1.0) == "INVALID_REQUEST"
    assert quota(ask, user, "consumer_byte_rate", remove=True) == "NONE"


@ours_only
def test_a_quota_that_nobody_would_enforce_is_refused(ask):
    assert quota(ask, [("user", None)], "consumer_byte_rate", 1000.0) == "INVALID_REQUEST"
    assert quota(ask, [("ip", "1.2.3.4")], "connection_creation_rate", 5.0) == "INVALID_REQUEST"


def test_credentials_are_none(ask):
    def users(*names):
        answer = ask("DescribeUserScramCredentials", 0, {"users": None if names == (None,) else [{"name": n} for n in names]})
        assert error(answer) == "NONE"
        return {r["user"]: error(r) for r in answer["results"]}
    assert users(None) == users() == {}
    assert users("bob", "bob", "al", "") == {"bob": "DUPLICATE_RESOURCE", "al": "RESOURCE_NOT_FOUND", "": "RESOURCE_NOT_FOUND"}
