"""Keys of the configuration that rule what brokers say to each other, each by what it changes. tests/config_effects.txt says which test shows which key."""
import subprocess

import harness
import pytest
import wire
from cluster_load import create
from confluent_kafka import Producer
from grpc_stubs import channel, pb, pb_grpc, refused
from replication_test import started, wait_isr

FETCH = wire.message("FetchRequest").api


def started_with(make, **settings):
    """Three brokers that reach each other through proxies."""
    return started(make(proxied=True, **settings))


def frames(data):
    """The whole ones of what was heard of a connection."""
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        if at + 4 + size > len(data):
            return
        yield data[at + 4:at + 4 + size]
        at += 4 + size


def fetches(proxy):
    """[(client id, request)] of all fetches that came to this broker, in the order of each connection."""
    out = []
    for heard in list(proxy.heard or ()):
        for frame in frames(bytes(heard.heard)):
            if int.from_bytes(frame[:2], "big") == FETCH:
                version = int.from_bytes(frame[2:4], "big")
                cursor = wire.Cursor(frame)
                header = wire.decode_fields(wire.message("RequestHeader").fields, 2, True, cursor)
                out.append((header["clientId"], wire.decode("FetchRequest", version, frame[cursor.pos:])))
    return out


def fill(node, topic, partitions, value=b"x" * 100):
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all", "linger.ms": 0})
    for i in range(partitions):
        producer.produce(topic, value, partition=i)
    assert producer.flush(30) == 0


def test_what_a_follower_asks_for(make, name):
    cluster = started_with(make, replica_fetch_wait_max_ms=321, replica_fetch_min_bytes=2, replica_fetch_max_bytes=12345, replica_fetch_response_max_bytes=54321)
    for proxy in cluster.proxies.values():
        proxy.listen()
    create(cluster.nodes[1], name, 3)
    fill(cluster.nodes[1], name, 3)
    wait_isr(cluster, name, [1, 2, 3])
    found = [request for proxy in cluster.proxies.values() for _, request in fetches(proxy)]
    named = [partition for request in found for topic in request["topics"] for partition in topic["partitions"]]
    assert named
    assert {(r["maxWaitMs"], r["minBytes"], r["maxBytes"]) for r in found} == {(321, 2, 54321)}
    assert {p["partitionMaxBytes"] for p in named} == {12345}


@pytest.mark.parametrize("fetchers", [1, 3])
def test_as_many_streams_of_fetches_as_are_wanted(make, name, fetchers):
    cluster = started_with(make, num_replica_fetchers=fetchers)
    for proxy in cluster.proxies.values():
        proxy.listen()
    create(cluster.nodes[1], name, 24)

    def streams():
        fill(cluster.nodes[1], name, 24)
        return {client for proxy in cluster.proxies.values() for client, _ in fetches(proxy)}
    harness.until(lambda: f"broker-2-fetcher-{fetchers}" in streams(), 60, lambda: f"the stream behind the last: {streams()}")
    assert not [client for client in streams() if int(client.rsplit("-", 1)[1]) > fetchers]


def established(node, ports):
    """What the system tells of this broker's connections to or at those ports."""
    out = subprocess.run(["ss", "-tnmpiH", "state", "established"], capture_output=True, text=True, check=True, timeout=120).stdout
    return [line for line in out.replace("\n\t", " ").splitlines()
            if f"pid={node.process.pid}," in line and any(f":{port} " in line.split("users:")[0] for port in ports)]


def receive_buffers(node, ports):
    """The system doubles what is asked for."""
    return {int(line.split(",rb")[1].split(",")[0]) for line in established(node, ports)}


def test_congestion_control_among_brokers(make, name):
    cluster = started(make(peer_congestion_control="reno"))
    create(cluster.nodes[1], name, 3)
    wait_isr(cluster, name, [1, 2, 3])
    mine = [line for node in cluster.nodes.values() for line in established(node, [node.peer_port]) if line.split()[2].endswith(f":{node.peer_port}")]
    assert mine and all(" reno " in line for line in mine)


def test_the_receive_buffer_of_a_connection_to_a_leader(make, name):
    cluster = started_with(make, replica_socket_receive_buffer_bytes=30000)
    create(cluster.nodes[1], name, 3)
    wait_isr(cluster, name, [1, 2, 3])
    ports = [proxy.port for proxy in cluster.proxies.values()]
    harness.until(lambda: 60000 in receive_buffers(cluster.nodes[2], ports), 30, lambda: receive_buffers(cluster.nodes[2], ports))


def test_a_silent_leader_is_connected_to_anew(make, name):
    cluster = started_with(make, replica_socket_timeout_ms=300, replica_fetch_wait_max_ms=100, replica_lag_time_max_ms=60000)
    controller = cluster.controller()
    leader, follower = [i for i in cluster.nodes if i != controller]
    create(cluster.nodes[1], name, 1, assignments=[[leader, follower]])
    wait_isr(cluster, name, [leader, follower])
    proxy = cluster.proxies[leader]
    proxy.listen()
    proxy.hold(to=False, back=True, of=[follower])       # alive, and heard by the coordinator: only its answers to the follower stay away
    harness.until(lambda: len([h for h in proxy.heard if h.source == follower]) >= 2, 30, lambda: f"two more connections: {proxy.heard}")
    proxy.heal()
    fill(cluster.nodes[1], name, 1)
    wait_isr(cluster, name, [leader, follower])


def pause_followers(cluster, leader):
    for i in cluster.nodes:
        if i != leader:
            cluster.pause(i)


def test_a_grpc_producer_waits_for_the_isr_no_longer_than_that(make, name):
    cluster = started_with(make, request_timeout_ms=400, broker_session_timeout_ms=60000, coordinator_election_timeout_ms=30000)
    create(cluster.nodes[1], name, 1, assignments=[[1, 2, 3]])
    wait_isr(cluster, name, [1, 2, 3])
    pause_followers(cluster, 1)
    with channel(cluster.nodes[1]) as one:
        code, details = refused(pb_grpc.LogStub(one).Produce, pb.ProduceRequest(topic=name, records=[pb.Record(value=b"x")]), timeout=25)
    assert (code, details.reason) == ("DEADLINE_EXCEEDED", "REQUEST_TIMED_OUT")


def test_a_commit_of_offsets_waits_for_the_isr_no_longer_than_that(make, name):
    cluster = started_with(make, offsets_commit_timeout_ms=400, broker_session_timeout_ms=60000, coordinator_election_timeout_ms=30000, offsets_topic_num_partitions=1)
    create(cluster.nodes[1], name, 1)
    body = {"groupId": name, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [{"name": name, "partitions": [{"partitionIndex": 0, "committedOffset": 7}]}]}

    def code_of(node):
        with node.connect(timeout_s=25) as c:
            return c.ask("OffsetCommit", 8, body)["topics"][0]["partitions"][0]["errorCode"]
    with cluster.nodes[1].connect(timeout_s=25) as c:
        c.ask("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": [name]})       # makes the topic
    leader = harness.until(lambda: next((i for i, node in cluster.nodes.items() if code_of(node) == 0), None), 60, "a group coordinator")
    wait_isr(cluster, "__consumer_offsets", [1, 2, 3])
    pause_followers(cluster, leader)
    assert code_of(cluster.nodes[leader]) == wire.error_codes()["COORDINATOR_NOT_AVAILABLE"]
