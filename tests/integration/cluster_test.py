"""Three brokers as one cluster: founding, elections, requests through any of them, deaths and comings back. Real processes on loopback."""
import harness
import pytest
from admin import Admin
from cluster import Cluster


@pytest.fixture
def make(run_directory, request):
    """A function that makes clusters; a failed test shows their logs."""
    if harness.EXTERNAL:
        pytest.skip("needs servers of its own")
    made = []

    def one(count=3, **how):
        made.append(Cluster(run_directory / f"cluster-{request.node.name[:60]}-{len(made)}", count, **how))
        return made[-1]
    yield one
    for cluster in made:
        for node in cluster.nodes.values():
            node.no_reports()
        cluster.close()


def topics_of(node):
    with node.connect() as c:
        return {t["name"]: t for t in c.ask("Metadata", 12, {"topics": None, "allowAutoTopicCreation": False})["topics"]}


def quorum(node):
    with node.connect() as c:
        answer = c.ask("DescribeQuorum", 2, {"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]})
    assert answer["errorCode"] == 0
    return answer["topics"][0]["partitions"][0], answer["nodes"]


def create(node, name, **how):
    with node.connect(timeout_s=40) as c:
        return Admin(c).create(name, check=False, **how)


@pytest.mark.smoke
def test_three_brokers_found_a_cluster_and_survive_its_coordinator(make):
    cluster = make().start()
    first = cluster.controller()
    parts, nodes = quorum(cluster.nodes[2])
    assert parts["leaderId"] == first and {v["replicaId"] for v in parts["currentVoters"]} == {1, 2, 3}
    assert {n["listeners"][0]["port"] for n in nodes} == {n.peer_port for n in cluster.nodes.values()}
    for i, node in cluster.nodes.items():          # every broker takes the request, the coordinator decides
        assert create(node, f"by-{i}", partitions=2)["errorCode"] == 0
        assert f"by-{i}" in topics_of(node)        # who asked sees it at once
    assert create(cluster.nodes[3], "by-1")["errorCode"] == 36             # TOPIC_ALREADY_EXISTS
    cluster.kill(first)
    second = cluster.controller(not_in=[first])
    cluster.wait_state(first, "fenced")
    other = next(node for node in cluster.living() if node.id != second)
    assert create(other, "after")["errorCode"] == 0
    harness.until(lambda: all("after" in topics_of(node) for node in cluster.living()), 10, "the topic everywhere")
    cluster.start_one(first)
    cluster.wait_state(first, "running")
    assert {"by-1", "by-2", "by-3", "after"} <= set(topics_of(cluster.nodes[first]))
    assert quorum(cluster.nodes[first])[0]["leaderEpoch"] >= 2
    cluster.stop()


def test_a_whole_cluster_comes_back_with_what_it_knew(make):
    cluster = make().start()
    assert create(cluster.nodes[1], "kept", partitions=3)["errorCode"] == 0
    for node in cluster.nodes.values():
        node.kill()
    cluster.start()
    cluster.controller()
    assert all("kept" in topics_of(node) for node in cluster.nodes.values())
    cluster.stop()
    cluster.start()
    assert all("kept" in topics_of(node) for node in cluster.nodes.values())


def test_a_start_that_waits_for_others_can_be_stopped(make):
    cluster = make()
    node = cluster.nodes[2]
    node.start(wait=False)
    harness.until(lambda: "not_reached node=1" in node.log() and "not_reached node=3" in node.log(), 20, node.log_tail)
    node.stop()
    cluster.start()                                # and leaves nothing behind that would stop the founding
    cluster.controller()
