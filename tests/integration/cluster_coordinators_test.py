"""Coordinators of groups and transactions where not every broker has a replica of each internal topic's partition: a small replication factor, brokers that came later."""
import json

import harness
import pytest
from admin import NAMES, Admin

GROUP, TRANSACTION = 0, 1
FEW = {"offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 2, "transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1,
       "transaction.state.log.num.partitions": 6, "auto.leader.rebalance.enable": "false"}


def coordinator(connection, key, kind):
    answer = connection.ask("FindCoordinator", 4, {"keyType": kind, "coordinatorKeys": [key]})["coordinators"][0]
    return answer["nodeId"] if answer["errorCode"] == 0 else None


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Of three brokers one has no partition of __consumer_offsets, and each has only some of __transaction_state."""
    from cluster import Cluster
    if harness.EXTERNAL:
        pytest.skip("needs servers of its own")
    cluster = Cluster(tmp_path_factory.mktemp("coordinators") / "few", 3, **FEW)
    try:
        cluster.start()
        with cluster.nodes[1].connect(timeout_s=40) as c:
            Admin(c).create("t", check=False)
            harness.until(lambda: coordinator(c, "g", GROUP), 30, "the coordinator of a group")
            harness.until(lambda: coordinator(c, "x", TRANSACTION), 30, "the coordinator of a transaction")
        yield cluster
    finally:
        cluster.close()


def of_group(cluster, key):
    with cluster.nodes[1].connect() as c:
        return harness.until(lambda: coordinator(c, key, GROUP), 30, "a coordinator")


def without_offsets(cluster):
    """The broker that has no partition of __consumer_offsets."""
    with cluster.nodes[1].connect() as c:
        rows = c.ask("Metadata", 12, {"topics": [{"name": "__consumer_offsets"}], "allowAutoTopicCreation": False})["topics"][0]["partitions"]
    return (set(cluster.nodes) - {i for row in rows for i in row["replicaNodes"]}).pop()


def test_each_broker_lists_its_own_groups(few):
    with few.nodes[of_group(few, "listed")].connect() as c:
        harness.until(lambda: c.ask("OffsetCommit", 8, commit("listed"))["topics"][0]["partitions"][0]["errorCode"] == 0, 30, "an offset")
    found = []
    for node in few.nodes.values():
        with node.connect() as c:
            answer = c.ask("ListGroups", 4, {"statesFilter": []})
        assert NAMES[answer["errorCode"]] == "NONE", node.id
        found += [row["groupId"] for row in answer["groups"]]
    assert found.count("listed") == 1
    for node in few.nodes.values():
        status, _, body = harness.http(node.rest + "/v1/groups")
        assert status == 200 and "partial" not in json.loads(body), (node.id, body)
        assert "listed" in [row["group"] for row in json.loads(body)["items"]]


def commit(group):
    return {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [{"name": "t", "partitions": [
        {"partitionIndex": 0, "committedOffset": 7, "committedLeaderEpoch": -1, "committedMetadata": ""}]}]}


def test_who_does_not_coordinate_a_group_says_so(few):
    other = next(i for i in few.nodes if i not in (of_group(few, "other"), without_offsets(few)))
    for i in (other, without_offsets(few)):
        with few.nodes[i].connect() as c:
            assert NAMES[c.ask("OffsetCommit", 8, commit("other"))["topics"][0]["partitions"][0]["errorCode"]] == "NOT_COORDINATOR", i
            assert NAMES[c.ask("Heartbeat", 4, {"groupId": "other", "generationId": 1, "memberId": "m"})["errorCode"]] == "NOT_COORDINATOR", i
            assert NAMES[c.ask("DescribeGroups", 5, {"groups": ["other"]})["groups"][0]["errorCode"]] == "NOT_COORDINATOR", i
            assert NAMES[c.ask("DeleteGroups", 2, {"groupsNames": ["other"]})["results"][0]["errorCode"]] == "NOT_COORDINATOR", i


def test_who_does_not_coordinate_a_transaction_says_so(few):
    with few.nodes[1].connect() as c:
        owner = harness.until(lambda: coordinator(c, "mine", TRANSACTION), 30, "a coordinator")
    for i in set(few.nodes) - {owner}:
        with few.nodes[i].connect() as c:
            assert NAMES[c.ask("InitProducerId", 4, {"transactionalId": "mine", "transactionTimeoutMs": 60000})["errorCode"]] == "NOT_COORDINATOR", i
            assert NAMES[c.ask("DescribeTransactions", 0, {"transactionalIds": ["mine"]})["transactionStates"][0]["errorCode"]] == "NOT_COORDINATOR", i


def test_offsets_join_a_transaction_whose_coordinator_has_no_partition_of_them(few):
    there = without_offsets(few)
    with few.nodes[there].connect(timeout_s=40) as c, few.nodes[of_group(few, "once")].connect(timeout_s=40) as group:
        mine = next(f"once-{i}" for i in range(100) if coordinator(c, f"once-{i}", TRANSACTION) == there)

        def init():
            answer = c.ask("InitProducerId", 4, {"transactionalId": mine, "transactionTimeoutMs": 60000})
            return answer if answer["errorCode"] == 0 else None
        made = harness.until(init, 30, "a producer id")
        who = {"transactionalId": mine, "producerId": made["producerId"], "producerEpoch": made["producerEpoch"]}
        assert NAMES[c.ask("AddOffsetsToTxn", 3, {**who, "groupId": "once"})["errorCode"]] == "NONE"
        answer = group.ask("TxnOffsetCommit", 3, {**who, "groupId": "once", "generationIdOrMemberEpoch": -1, "memberId": "", "topics": commit("once")["topics"]})
        assert NAMES[answer["topics"][0]["partitions"][0]["errorCode"]] == "NONE"
        assert NAMES[c.ask("EndTxn", 3, {**who, "committed": True})["errorCode"]] == "NONE"

        def offset():
            row = group.ask("OffsetFetch", 7, {"groupId": "once", "topics": [{"name": "t", "partitionIndexes": [0]}], "requireStable": True})["topics"][0]["partitions"][0]
            return row["committedOffset"] if row["errorCode"] == 0 else None
        harness.until(lambda: offset() == 7, 30, "the offset is committed")
