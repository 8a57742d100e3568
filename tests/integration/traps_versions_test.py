"""Compatibility traps N and A: version negotiation, order of answers, silence after acks=0, advertised addresses."""
import pytest

import batch
import harness
import wire
from admin import ERRORS, Admin, error
from harness import free_ports, until
from wire import NO_ID, Connection

MINIMA = {"Produce": 0, "Fetch": 4, "ListOffsets": 1, "Metadata": 0, "OffsetCommit": 2, "OffsetFetch": 1, "FindCoordinator": 0,
          "JoinGroup": 0, "Heartbeat": 0, "LeaveGroup": 0, "SyncGroup": 0, "DescribeGroups": 0, "ListGroups": 0,
          "SaslHandshake": 0, "InitProducerId": 0, "AddPartitionsToTxn": 0, "AddOffsetsToTxn": 0, "EndTxn": 0,
          "TxnOffsetCommit": 0, "CreateTopics": 2, "DeleteTopics": 1, "OffsetForLeaderEpoch": 2, "DescribeConfigs": 1}
KAFKA_2_8 = {"Produce": 9, "Fetch": 12, "ListOffsets": 6, "Metadata": 11, "FindCoordinator": 3, "ApiVersions": 3,
             "CreateTopics": 7, "DeleteTopics": 6, "DeleteRecords": 2, "InitProducerId": 4, "OffsetForLeaderEpoch": 4,
             "DescribeConfigs": 4, "CreatePartitions": 3, "DescribeCluster": 0, "SaslHandshake": 1, "DescribeAcls": 2,
             "CreateAcls": 2, "DeleteAcls": 2}
SERVED = ["ApiVersions", "Metadata", "Produce", "Fetch", "ListOffsets", "InitProducerId", "CreateTopics", "DeleteTopics",
          "CreatePartitions", "DeleteRecords", "OffsetForLeaderEpoch", "DescribeConfigs", "DescribeCluster", "FindCoordinator",
          "SaslHandshake", "DescribeAcls", "CreateAcls", "DeleteAcls"]
BY_KEY = {wire.message(n + "Request").api: n for n in wire.api_ranges() if (wire.SCHEMA / f"{n}Request.txt").exists()}


def advertised(connection, version=3):
    answer = connection.ask("ApiVersions", version, {"clientSoftwareName": "wire", "clientSoftwareVersion": "1"} if version > 2 else {})
    assert answer["errorCode"] == 0
    return {BY_KEY.get(k["apiKey"], k["apiKey"]): (k["minVersion"], k["maxVersion"]) for k in answer["apiKeys"]}


@pytest.mark.smoke
def test_apiversions_of_an_unknown_version_gets_error_35_in_layout_0(broker):
    with broker.connect() as c:
        for version in (6, 99, 32767):
            sent = c.send("ApiVersions", version, b"\x00")
            correlation, answer = c.receive("ApiVersions", 0)
            assert correlation == sent and error(answer) == "UNSUPPORTED_VERSION"
            assert 18 in [k["apiKey"] for k in answer["apiKeys"]]
        assert advertised(c)["Metadata"][0] == 0  # the connection lives on


def test_apiversions_answers_have_header_0_in_every_version(broker):
    with broker.connect() as c:
        for version in range(0, 6):
            sent = c.send("ApiVersions", version, {"clientSoftwareName": "w", "clientSoftwareVersion": "1"} if version > 2 else {})
            frame = c.frame()
            assert int.from_bytes(frame[:4], "big") == sent
            assert wire.decode("ApiVersionsResponse", version, frame[4:])["errorCode"] == 0


def test_other_flexible_answers_have_header_1(broker):
    with broker.connect() as c:
        c.send("Metadata", 9, {"topics": []})
        frame = c.frame()
        assert frame[4] == 0 and wire.decode("MetadataResponse", 9, frame[5:])["brokers"]


def test_apiversions_may_be_asked_again_and_again(broker):
    with broker.connect() as c:
        assert advertised(c, 3) == advertised(c, 0) == advertised(c, 4)


@pytest.mark.parametrize("software", [("bad name", "1"), ("ok", "1 0"), ("", "1"), ("ok", ""), ("-lead", "1"), ("ok", "1\u00e9")])
def test_odd_software_names_get_invalid_request_and_no_close(broker, software):
    with broker.connect() as c:
        answer = c.ask("ApiVersions", 3, {"clientSoftwareName": software[0], "clientSoftwareVersion": software[1]})
        assert error(answer) == "INVALID_REQUEST"
        assert advertised(c)


def test_advertised_minima_are_those_of_kafka(broker):
    with broker.connect() as c:
        ranges = advertised(c)
    for name in SERVED:
        assert name in ranges, f"{name} is not advertised"
    for name, low in MINIMA.items():
        if name in ranges:
            assert ranges[name][0] == low, name
    for name, (low, high) in ranges.items():
        assert name in wire.api_ranges() and high <= wire.api_ranges()[name][1], f"{name} {low}-{high} is beyond the schemas"
    for name in SERVED:
        assert ranges[name][1] == wire.api_ranges()[name][1], f"{name}: not all versions of Kafka 4.4"


def test_versions_of_kafka_2_8_are_served(broker):
    with broker.connect() as c:
        ranges = advertised(c)
    for name, high in KAFKA_2_8.items():
        assert ranges[name][1] >= high, name


def bodies(topic, topic_id):
    """A harmless request of each served API: {name: function of the version}."""
    part = {"partitionIndex": 0}
    acl = {"resourceTypeFilter": 1, "patternTypeFilter": 1, "operation": 1, "permissionType": 1}
    return {
        "ApiVersions": lambda v: {"clientSoftwareName": "w", "clientSoftwareVersion": "1"} if v > 2 else {},
        "Metadata": lambda v: {"topics": [{"name": topic}]},
        "Produce": lambda v: {"acks": -1, "timeoutMs": 5000, "topicData": [
            {**({"topicId": topic_id} if v > 12 else {"name": topic}),
             "partitionData": [{"index": 0, "records": batch.build([b"v%d" % v])}]}]},
        "Fetch": lambda v: Admin.fetch_body(topic, version=v, topic_id=topic_id),
        "ListOffsets": lambda v: {"replicaId": -1, "topics": [{"name": topic, "partitions": [{**part, "timestamp": -1}]}]},
        "InitProducerId": lambda v: {"transactionalId": None, "transactionTimeoutMs": 60000},
        "CreateTopics": lambda v: {"topics": [{"name": topic, "numPartitions": 1, "replicationFactor": 1}], "timeoutMs": 5000},
        "DeleteTopics": lambda v: {"timeoutMs": 5000, **({"topics": [{"name": topic + "-none"}]} if v > 5 else
                                                         {"topicNames": [topic + "-none"]})},
        "CreatePartitions": lambda v: {"topics": [{"name": topic, "count": 1, "assignments": None}], "timeoutMs": 5000},
        "DeleteRecords": lambda v: {"timeoutMs": 5000, "topics": [{"name": topic, "partitions": [{**part, "offset": 0}]}]},
        "OffsetForLeaderEpoch": lambda v: {"replicaId": -2, "topics": [{"topic": topic, "partitions": [
            {"partition": 0, "leaderEpoch": 0}]}]},
        "DescribeConfigs": lambda v: {"resources": [{"resourceType": 2, "resourceName": topic, "configurationKeys": None}]},
        "DescribeCluster": lambda v: {},
        "FindCoordinator": lambda v: {"coordinatorKeys": ["g"]} if v > 3 else {"key": "g"},
        "SaslHandshake": lambda v: {"mechanism": "PLAIN"},
        "DescribeAcls": lambda v: acl,
        "CreateAcls": lambda v: {"creations": [{"resourceType": 2, "resourceName": "x", "resourcePatternType": 3,
                                                "principal": "User:a", "host": "*", "operation": 3, "permissionType": 3}]},
        "DeleteAcls": lambda v: {"filters": [acl]},
    }


ALLOWED = {"CreateTopics": {"TOPIC_ALREADY_EXISTS"}, "DeleteTopics": {"UNKNOWN_TOPIC_OR_PARTITION"},
           "CreatePartitions": {"INVALID_PARTITIONS"}, "SaslHandshake": {"ILLEGAL_SASL_STATE", "UNSUPPORTED_SASL_MECHANISM"},
           "DescribeAcls": {"SECURITY_DISABLED"}, "CreateAcls": {"SECURITY_DISABLED"}, "DeleteAcls": {"SECURITY_DISABLED"},
           "FindCoordinator": {"COORDINATOR_NOT_AVAILABLE"}}


def errors_in(value):
    """Every error code anywhere in an answer."""
    if isinstance(value, dict):
        for k, v in value.items():
            if k == "errorCode":
                yield v
            yield from errors_in(v)
    elif isinstance(value, list):
        for v in value:
            yield from errors_in(v)


@pytest.mark.smoke
@pytest.mark.parametrize("api", SERVED)
def test_every_advertised_version_is_served(broker, topic, admin, api):
    topic_id = admin.topic_id(topic)
    admin.producer_id()
    with broker.connect() as c:
        low, high = advertised(c)[api]
        low = max(low, wire.api_ranges()[api][0])
        for version in range(low, high + 1):
            answer = c.ask(api, version, bodies(topic, topic_id)[api](version))
            names = {n for n in (next(k for k, v in ERRORS.items() if v == e) for e in errors_in(answer)) if n != "NONE"}
            assert names <= ALLOWED.get(api, set()), (version, answer)
            if api in ("CreateTopics", "SaslHandshake", "CreateAcls"):
                assert names, "the expected refusal is missing"


def test_unserved_versions_and_apis_close_the_connection(broker):
    for api, version in (("Metadata", 14), ("Fetch", 3), ("Produce", 2), ("Fetch", 19)):
        with broker.connect() as c:
            c.socket.sendall(wire.request_bytes(api, version, b"\0" * 8))
            assert c.closed_by_peer(), (api, version)
    with broker.connect() as c:
        c.socket.sendall(b"\0\0\0\x0e" + b"\x27\x0f\0\0" + b"\0\0\0\1" + b"\0\4abcd")
        assert c.closed_by_peer(), "an unknown api key"


def test_fetch_12_is_served(broker, topic, admin):
    admin.produce(topic, "a")
    assert batch.records(admin.fetch(topic, 0, 12)["records"])[0][3] == b"a"


def test_topic_ids_are_stable_and_serve_the_id_versions(broker, topic, admin):
    with broker.connect() as c:
        ranges = advertised(c)
    assert ranges["Fetch"][1] >= 13 and ranges["Produce"][1] >= 13 and ranges["Metadata"][1] >= 12
    topic_id = admin.topic_id(topic)
    assert topic_id != NO_ID
    for version in (10, 11, 12, 13):
        assert admin.describe(topic, version)["topicId"] == topic_id
    assert error(admin.produce_raw(topic, batch.build([b"x"]), version=13, topic_id=topic_id)) == "NONE"
    part = admin.fetch(topic, version=13, topic_id=topic_id)
    assert batch.records(part["records"])[0][3] == b"x"
    by_id = admin.connection.ask("Metadata", 12, {"topics": [{"topicId": topic_id, "name": None}]})["topics"][0]
    assert by_id["name"] == topic and by_id["errorCode"] == 0


def test_produce_12_goes_with_finalized_transaction_version_2(broker):
    with broker.connect() as c:
        for version in (3, 4, 5):
            answer = c.ask("ApiVersions", version, {"clientSoftwareName": "w", "clientSoftwareVersion": "1"})
            produce = next(k for k in answer["apiKeys"] if k["apiKey"] == 0)
            assert produce["maxVersion"] >= 12
            final = {f["name"]: f["maxVersionLevel"] for f in answer["finalizedFeatures"]}
            assert final.get("transaction.version") == 2 and answer["finalizedFeaturesEpoch"] >= 0


def test_features_with_minimum_0_are_only_in_apiversions_4_and_later(broker):
    with broker.connect() as c:
        ask = {v: c.ask("ApiVersions", v, {"clientSoftwareName": "w", "clientSoftwareVersion": "1"}) for v in (3, 4)}
    assert all(f["minVersion"] >= 1 for f in ask[3]["supportedFeatures"])
    minima = {f["name"]: f["minVersion"] for f in ask[4]["supportedFeatures"]}
    assert minima.get("transaction.version") == 0


def test_unknown_tags_are_ignored(broker, topic):
    with broker.connect() as c:
        body = {"topics": [{"name": topic, "_tags": [(5, b"five")]}], "_tags": [(0, b""), (9, b"x" * 300), (1 << 20, b"y")]}
        plain = c.ask("Metadata", 12, {"topics": [{"name": topic}]})
        assert c.ask("Metadata", 12, body, tags=[(7, b"seven")]) == plain


def test_bytes_behind_a_request_are_ignored(broker, topic):
    """librdkafka 2.16 leaves three behind Metadata 13."""
    with broker.connect() as c:
        for version in (1, 9, 13):
            c.send("Metadata", version, wire.encode("MetadataRequest", version, {"topics": [{"name": topic}]}) + b"\0\0\0")
            assert c.receive("Metadata", version)[1]["topics"][0]["name"] == topic


# ---- order and silence

@pytest.mark.smoke
def test_answers_come_in_the_order_of_requests(broker, topic, admin):
    with broker.connect() as c:
        slow = Admin.fetch_body(topic, wait_ms=400, min_bytes=1 << 20)
        sent = [(c.send("Fetch", 12, slow), "Fetch", 12)]
        for i in range(20):
            name, version, body = [("Metadata", 12, {"topics": [{"name": topic}]}), ("ApiVersions", 0, {}),
                                   ("ListOffsets", 7, bodies(topic, NO_ID)["ListOffsets"](7)),
                                   ("Produce", 9, bodies(topic, NO_ID)["Produce"](9))][i % 4]
            sent.append((c.send(name, version, body), name, version))
        for correlation, name, version in sent:
            assert c.receive(name, version)[0] == correlation


def test_acks_0_is_never_answered(broker, topic, admin):
    with broker.connect() as c:
        for i in range(3):
            c.send("Produce", 9, {"acks": 0, "timeoutMs": 1000, "topicData": [
                {"name": topic, "partitionData": [{"index": 0, "records": batch.build([b"silent"])}]}]})
        asked = c.send("Metadata", 12, {"topics": []})
        assert c.receive("Metadata", 12)[0] == asked
    until(lambda: len(admin.records(topic)) == 3, 10, "the three records")


def test_an_error_with_acks_0_closes_the_connection(broker, topic):
    with broker.connect() as c:
        c.send("Produce", 9, {"acks": 0, "timeoutMs": 1000, "topicData": [
            {"name": topic, "partitionData": [{"index": 0, "records": batch.build([b"x"], count=9)}]}]})
        assert c.closed_by_peer()


def test_a_cut_or_oversized_request_closes_only_its_connection(broker):
    for raw in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\2\0\x12", b"GET / HTTP/1.1\r\n\r\n"):
        with broker.connect() as c:
            c.socket.sendall(raw)
            assert c.closed_by_peer(), raw
    with broker.connect() as c:
        assert advertised(c)


# ---- advertised address

def test_the_advertised_address_is_the_one_reached(broker):
    with broker.connect() as c:
        answer = c.ask("Metadata", 12, {"topics": []})
    assert (answer["brokers"][0]["host"], answer["brokers"][0]["port"]) == ("127.0.0.1", broker.port)


def test_each_listener_advertises_the_address_that_was_reached(own_broker):
    broker = own_broker(start=False)
    second = free_ports(1)[0]
    broker.settings = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
                       "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},INNER://127.0.0.2:{second}",
                       "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT"}
    broker.start()
    for host, port in (("127.0.0.1", broker.port), ("127.0.0.2", second)):
        with Connection(f"{host}:{port}") as c:
            answer = c.ask("Metadata", 12, {"topics": []})["brokers"][0]
            assert (answer["host"], answer["port"]) == (host, port)


def test_localhost_over_ipv6_advertises_ipv6(own_broker):
    broker = own_broker(start=False)
    second = free_ports(1)[0]
    broker.settings = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT",
                       "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},SIX://[::1]:{second}",
                       "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT"}
    if not harness.has_ipv6():
        pytest.skip("no IPv6 on this machine")
    broker.start()
    with Connection(f"::1:{second}") as c:
        answer = c.ask("Metadata", 12, {"topics": []})["brokers"][0]
        assert (answer["host"].strip("[]"), answer["port"]) == ("::1", second)


def test_a_configured_name_is_advertised(own_broker):
    broker = own_broker(start=False)
    broker.settings = {"advertised_listeners": "PLAINTEXT://kafka.example:19092"}
    broker.start()
    with broker.connect() as c:
        for version in (0, 12):
            answer = c.ask("Metadata", version, {"topics": [] if version else [{"name": "none-such"}]})["brokers"][0]
            assert (answer["host"], answer["port"]) == ("kafka.example", 19092)


# ---- what the operator sees of refused clients

def test_a_refused_version_is_logged_once_per_client_and_counted(own_broker):
    broker = own_broker()
    for _ in range(3):
        with broker.connect() as c:
            c.ask("ApiVersions", 3, {"clientSoftwareName": "trap-client", "clientSoftwareVersion": "9.8.7"})
            c.socket.sendall(wire.request_bytes("Metadata", 77, b"\0" * 8))
            assert c.closed_by_peer()
    lines = [line for line in broker.log().splitlines() if "trap-client" in line and "Metadata" in line]
    assert len(lines) == 1, lines
    for word in ("9.8.7", "127.0.0.1", "77", "13"):
        assert word in lines[0], lines[0]
    if not harness.HAS_REST:
        return
    status, _, text = harness.http(broker.rest + "/metrics")
    assert status == 200
    counted = [line for line in text.decode().splitlines() if "trap-client" in line and "9.8.7" in line]
    assert counted and sum(float(line.rsplit(" ", 1)[1]) for line in counted) == 3, counted
