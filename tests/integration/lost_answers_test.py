"""Changes whose answer is lost on its way from the coordinator: who asked tries again, and what is said then is what happened, or that nobody knows. Real processes behind proxies."""
import json
from concurrent.futures import ThreadPoolExecutor

import harness
from cluster_load import create
from cluster_ops_test import get, rest
from elections_test import leader_of, wait_leader
from replication_test import started, wait_isr

# the coordinator stays where it is, however busy the machine: else the answer comes another way
QUIET = {"auto_leader_rebalance_enable": "false", "ottla_unclean_election_wait_ms": 500, "coordinator_election_timeout_ms": 5000, "broker_session_timeout_ms": 15000}


def roles(cluster):
    """The coordinator; another broker, which is asked; who is left."""
    first = cluster.controller()
    asked, *others = [i for i in cluster.nodes if i != first]
    return first, asked, others


def losing(cluster, first, asked, ask, happened):
    """What ask() answers when the coordinator's answer to broker `asked` is held until happened(), and then lost with its connection."""
    proxy = cluster.proxies[first]
    proxy.hold(to=False, back=True, of=[asked])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask)
        harness.until(happened, 30, "the change", 0.02)
        proxy.cut(of=[asked])
        proxy.heal()
        return answer.result(60)


def patch(node, topic, changes, etag):
    status, _, body = harness.http(f"{node.rest}/v1/topics/{topic}/config", "PATCH", json.dumps(changes).encode(), {"Content-Type": "application/json", "If-Match": etag}, timeout_s=60)
    return status, json.loads(body)


def etag_of(node, topic):
    return harness.http(f"{node.rest}/v1/topics/{topic}/config")[1]["ETag"]


def value_of(node, topic, key):
    return get(node, f"/v1/topics/{topic}/config/{key}")["value"]


def test_a_change_with_a_version_is_no_conflict_with_itself(make):
    cluster = started(make(proxied=True, **QUIET))
    first, asked, _ = roles(cluster)
    node, coordinator = cluster.nodes[asked], cluster.nodes[first]
    create(node, "t", 2)
    etag = etag_of(node, "t")
    status, body = losing(cluster, first, asked, lambda: patch(node, "t", {"retention.ms": "86400000", "segment.ms": None}, etag), lambda: value_of(coordinator, "t", "retention.ms") == "86400000")
    assert status == 200, body
    assert etag_of(node, "t") == etag_of(coordinator, "t") != etag

    def overwritten():                             # somebody else changes it before the second attempt: what became of the first nobody knows
        if value_of(coordinator, "t", "retention.ms") != "7200000":
            return False
        return rest(coordinator, "PATCH", "/v1/topics/t/config", {"retention.ms": "3600000"}, expect=200)
    etag = etag_of(node, "t")
    status, body = losing(cluster, first, asked, lambda: patch(node, "t", {"retention.ms": "7200000"}, etag), overwritten)
    # a broker that was slow to hear of the other change saw its own in force, and may say so
    assert status == 200 or (status == 504 and body["outcome"] == "unknown"), (status, body)
    status, body = patch(node, "t", {"retention.ms": "1"}, etag)       # and a conflict is one
    assert status == 412 and body["outcome"] == "not_applied", (status, body)
    etag = etag_of(node, "t")

    def grow():
        status, _, body = harness.http(f"{node.rest}/v1/topics/t/partitions", "POST", b'{"count": 5}', {"Content-Type": "application/json", "If-Match": etag}, timeout_s=60)
        return status, json.loads(body)
    status, body = losing(cluster, first, asked, grow, lambda: get(coordinator, "/v1/topics/t")["partitions"] == 5)
    assert status == 200, body
    cluster.stop()


def test_what_is_undone_or_forgotten_twice_is_told_as_it_is(make):
    cluster = started(make(4, voters=3, proxied=True, **QUIET))
    first = cluster.controller()
    asked, other = [i for i in (1, 2, 3) if i != first]
    node, coordinator = cluster.nodes[asked], cluster.nodes[first]
    create(node, "t", 0, assignments=[[asked, other]])
    wait_isr(cluster, "t", [asked, other])
    cluster.nodes[4].stop()
    cluster.wait_state(4, "fenced")

    def moving():
        return get(coordinator, "/v1/reassignments")["total"]
    rest(node, "POST", "/v1/reassignments", {"moves": [{"topic": "t", "partition": 0, "replicas": [asked, 4]}], "dry_run": False}, expect=202)
    assert moving() == 1                           # and goes on for ever: who is to have it is away
    status, body = losing(cluster, first, asked, lambda: rest(node, "DELETE", "/v1/reassignments/t/0"), lambda: moving() == 0)
    assert status == 504 and body["outcome"] == "unknown", (status, body)
    assert rest(node, "DELETE", "/v1/reassignments/t/0", expect=404)[1]["outcome"] == "not_applied"
    status, body = losing(cluster, first, asked, lambda: rest(node, "DELETE", "/v1/brokers/4"), lambda: 4 not in cluster.brokers(first))
    assert status == 204, body
    rest(node, "DELETE", "/v1/brokers/4", expect=404)
    cluster.stop()


def test_an_election_that_was_made_is_not_told_as_needless(make):
    cluster = started(make(4, voters=3, proxied=True, **QUIET))
    first = cluster.controller()
    asked, other = [i for i in (1, 2, 3) if i != first]
    node, coordinator = cluster.nodes[asked], cluster.nodes[first]
    create(node, "t", 0, assignments=[[4, other]])
    wait_isr(cluster, "t", [4, other])
    cluster.nodes[4].stop()
    wait_leader(cluster, "t", [other])
    cluster.start_one(4)
    wait_isr(cluster, "t", [4, other])

    def elect(kind, **more):
        return rest(node, "POST", "/v1/elections", {"type": kind, "dry_run": False, "partitions": [{"topic": "t", "partition": 0}], **more}, timeout_s=60)
    status, body = losing(cluster, first, asked, lambda: elect("preferred"), lambda: leader_of(cluster, first, "t") == 4)
    assert status == 200 and body["items"][0]["new_leader"] == 4, body
    assert elect("preferred")[0] == 409
    cluster.kill(other)
    wait_isr(cluster, "t", [4])
    cluster.kill(4)
    wait_leader(cluster, "t", [-1])
    cluster.start_one(other)
    cluster.wait_state(other, "running", of=[first, asked])
    assert leader_of(cluster, first, "t") == -1
    status, body = losing(cluster, first, asked, lambda: elect("unclean", accept_data_loss=True), lambda: leader_of(cluster, first, "t") == other)
    assert status == 200 and body["items"][0]["new_leader"] == other, body
    assert elect("unclean", accept_data_loss=True)[0] == 409
    assert coordinator.alive()
    cluster.stop()


def test_a_stop_says_of_a_change_on_its_way_that_it_may_have_been_made(make):
    cluster = started(make(proxied=True, **QUIET))
    first, asked, _ = roles(cluster)
    node, coordinator = cluster.nodes[asked], cluster.nodes[first]
    create(node, "t", 1)
    proxy = cluster.proxies[first]
    proxy.hold(to=False, back=True, of=[asked])
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(lambda: rest(node, "PATCH", "/v1/topics/t/config", {"retention.ms": "86400000"}, timeout_s=60))
        harness.until(lambda: value_of(coordinator, "t", "retention.ms") == "86400000", 30, "the change", 0.02)
        stop = pool.submit(node.stop)
        status, body = answer.result(60)
        assert status == 504 and body["outcome"] == "unknown", (status, body)
        proxy.heal()
        stop.result(60)
    cluster.stop()
