"""What the network and strangers do to a cluster: connections cut, held and half-cut by proxies; bytes that nobody of ours would send, on the peer listener."""
import json
import random
import select
import socket
import struct

import harness
import pytest
from cluster import STEADY
from cluster_test import create, quorum, topics_of
from wire import Connection, encode, request_bytes


def coord_message(**fields):
    """CoordPeerMessage, version in front, as our coordinators send it."""
    return struct.pack(">h", 0) + encode("CoordPeerMessage", 0, fields)


def hello(connection, node_id, expects, proof=b"", nonce=bytes(32)):
    return connection.ask("PeerHello", 0, {"nodeId": node_id, "expects": expects, "clusterId": None, "host": "127.0.0.1", "port": 1, "nonce": nonce, "proof": proof})


def test_a_coordinator_that_is_cut_off_is_replaced_and_comes_back(make):
    cluster = make(proxied=True).start()
    first = cluster.controller()
    rest = [i for i in cluster.nodes if i != first]
    cluster.proxies[first].cut()                   # nobody reaches it; it reaches the others, whose answers come back
    second = cluster.controller(of=rest, not_in=[first])
    assert create(cluster.nodes[rest[0]], "cut")["errorCode"] == 0
    cluster.proxies[first].heal()
    assert cluster.controller() in rest + [first]
    harness.until(lambda: "cut" in topics_of(cluster.nodes[first]), 20, "what was decided meanwhile")
    cluster.wait_state(first, "running", of=[1, 2, 3])
    assert second in rest
    cluster.stop()


@pytest.mark.parametrize("direction", ["to", "back"])
def test_half_cut_connections_of_the_coordinator_stop_nobody_for_long(make, direction):
    cluster = make(proxied=True).start()
    first = cluster.controller()
    rest = [i for i in cluster.nodes if i != first]
    cluster.proxies[first].hold(to=direction == "to", back=direction == "back")        # open, and silent one way
    made = create(cluster.nodes[rest[0]], "half")          # by the old coordinator over its own connections, or by a new one
    assert made["errorCode"] == 0, made
    harness.until(lambda: all("half" in topics_of(cluster.nodes[i]) for i in rest), 30, "the topic")
    cluster.proxies[first].heal()
    cluster.controller()
    harness.until(lambda: "half" in topics_of(cluster.nodes[first]), 20, "the topic on the one that was cut")
    cluster.wait_state(first, "running", of=[1, 2, 3])
    cluster.stop()


def test_strangers_on_the_peer_listener_change_nothing(make):
    cluster = make(**STEADY).start()
    leader = cluster.controller()
    node = cluster.nodes[leader]
    term = quorum(node)[0]["leaderEpoch"]
    place = f"127.0.0.1:{node.peer_port}"
    rng = random.Random(7)

    def ends(data):
        with socket.create_connection(("127.0.0.1", node.peer_port), timeout=20) as s:
            s.sendall(data)
            try:
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass

    silent = socket.create_connection(("127.0.0.1", node.peer_port), timeout=20)       # says no hello, and is closed for that
    with socket.create_connection(("127.0.0.1", node.peer_port), timeout=20) as s:     # and nobody is given a buffer of 4097 bytes before it
        s.sendall(b"\0\0\x10\1")
        assert s in select.select([silent, s], [], [], 20)[0], "it waits for the hello like the one that came before it"
        assert s.recv(1) == b""
    # without a hello nothing is served
    for name in ("PeerMessage", "PeerAsk", "PeerLogEnds", "Metadata", "Fetch", "CreateTopics"):
        with Connection(place) as c:
            with pytest.raises((EOFError, OSError)):
                c.ask(name, 0 if name.startswith("Peer") else 12 if name != "CreateTopics" else 7, b"")
    # hellos that cannot be
    for node_id, expects, nonce in ((-1, leader, bytes(32)), (leader, leader, bytes(32)), (9, leader + 1, bytes(32)), (9, leader, b""), (9, leader, bytes(33))):
        with Connection(place) as c:
            assert hello(c, node_id, expects, nonce=nonce)["errorCode"] != 0
    # a stranger who may speak (there is no secret here) and says what cannot be
    with Connection(place) as c:
        assert hello(c, 9, leader)["errorCode"] == 0
        empty = {"ask": 0, "validateOnly": False, "ifVersion": -1}
        for ask in (-1, 0, 1, 2, 8, 10, 60, 100, 127):
            assert c.ask("PeerAsk", 0, {**empty, "ask": ask})["error"] != "NONE"
        beat = {"brokerId": leader, "brokerEpoch": 1, "appliedVersion": 1, "wantFence": True, "wantShutdown": True}
        assert c.ask("PeerAsk", 0, {**empty, "ask": 1, "heartbeat": beat})["error"] == "INVALID_REQUEST"      # not in another's name
        assert c.ask("PeerAsk", 0, {**empty, "ask": 1, "heartbeat": {**beat, "brokerId": 9}})["error"] == "BROKER_ID_NOT_REGISTERED"
        elect = {"topicId": bytes(16), "partition": 0, "candidate": 9, "partitionEpoch": 0, "loss": 1, "lossFrom": 0, "answers": [{"brokerId": 9, "brokerEpoch": 1}] * 65}
        assert c.ask("PeerAsk", 0, {**empty, "ask": 11, "elect": elect})["error"] == "INVALID_REQUEST"
        assert c.ask("PeerAsk", 0, {**empty, "ask": 11, "elect": {**elect, "answers": []}})["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
        many = [{"topicId": bytes(16), "partition": p, "partitionEpoch": 0} for p in range(-1, 2000)]
        said = c.ask("PeerLogEnds", 0, {"partitions": many})["partitions"]
        assert 0 < len(said) < len(many) and {end["state"] for end in said} == {2}
        for data in (b"", b"\0", b"\0\0", bytes(64), b"\xff" * 64, rng.randbytes(1000)):
            assert c.ask("PeerMessage", 0, {"message": data})["errorCode"] == 0        # taken, and thrown away
        mark = {"term": 2000000000, "version": 1 << 60, "stateHash": 1}
        for kind in range(1, 14):                  # well-formed, of nobody's cluster, and under another's name
            for sender in (9, 1, 2, 3):
                for cluster_hash in (0, 1):
                    c.ask("PeerMessage", 0, {"message": coord_message(
                        kind=kind, cluster=cluster_hash, sender=sender, dirId=bytes(16), term=2000000000, leader=9, accepted=mark, committed=mark, base=mark, round=1, answer=1,
                        clusterId="x", key=b"k", data=b"d")})
    # bytes that are no requests
    for data in (b"", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\4\x27\x10\0\0", b"GET / HTTP/1.1\r\n\r\n", rng.randbytes(4096),
                 request_bytes("PeerHello", 0, b"\xff" * 200, 1), request_bytes("PeerAsk", 0, b"\xff" * 200, 1)):
        ends(data)
    assert silent.recv(1) == b""
    silent.close()
    assert cluster.controller() == leader and quorum(node)[0]["leaderEpoch"] == term
    assert create(node, "unmoved")["errorCode"] == 0
    cluster.stop()


def test_a_broker_that_waits_for_others_answers_who_asks_too_early(make):
    """Its peer listener is open before there is metadata or a log: who asks then is told so, and no question ends the process."""
    cluster = make()
    node = cluster.start_one(1, wait=False)
    place = f"127.0.0.1:{node.peer_port}"

    def is_open():
        try:
            socket.create_connection(("127.0.0.1", node.peer_port), timeout=5).close()
        except OSError:
            return False
        return True
    harness.until(is_open, 30, "the peer listener")
    with Connection(place) as c:                   # without a hello, as anybody may
        about = {"clientSoftwareName": "x", "clientSoftwareVersion": "1"}
        assert c.ask("ApiVersions", 5, {**about, "clusterId": "another", "nodeId": -1})["errorCode"] == 0
        assert c.ask("ApiVersions", 5, {**about, "clusterId": None, "nodeId": 2})["errorCode"] != 0
        assert hello(c, 9, 1)["errorCode"] == 0
        topics = [{"name": "t", "partitions": [{"index": 0, "offset": 5}, {"index": 1, "offset": -1}]}]
        parts = c.ask("PeerLag", 0, {"topics": topics})["parts"]
        assert [part["errorCode"] for part in parts] == [6, 6] and {part["highWatermark"] for part in parts} == {-1}
        assert {end["state"] for end in c.ask("PeerLogEnds", 0, {"partitions": [{"topicId": bytes(16), "partition": 0, "partitionEpoch": 0}]})["partitions"]} == {1}
        assert c.ask("PeerRest", 0, {"method": 0, "target": "/v1/cluster", "timeoutMs": 100, "answerBytesMax": 1000})["status"] == 0
    assert node.alive()
    cluster.start()
    assert create(node, "later")["errorCode"] == 0
    cluster.stop()


def test_peers_that_fall_silent_within_a_message_hold_nobody_up_for_long(make):
    """As many as fill the memory for what peers say: their connections end, and the broker is heard again, without waiting for the two minutes that clients have."""
    cluster = make(broker_session_timeout_ms=9000, ottla_memory_bytes=192000000).start()
    first = cluster.controller()
    half = [Connection(f"127.0.0.1:{cluster.nodes[first].peer_port}", timeout_s=1) for _ in range(8)]
    for c in half:
        assert hello(c, 9, first)["errorCode"] == 0
    for c in half:
        c.socket.sendall(struct.pack(">i", 50000000) + b"\x27\x11\0\0")
    for c in half:
        assert c.closed_by_peer(40)
        c.socket.close()
    harness.until(lambda: create(cluster.nodes[first], "heard")["errorCode"] in (0, 36), 60, "a topic on the broker that could not be heard")
    for i in cluster.nodes:
        cluster.wait_state(i, "running", of=[1, 2, 3])
    cluster.stop()


def pool(node, name):
    told = json.loads(harness.http(node.rest + "/v1/diagnostics/memory")[2])
    return next((int(p["used_bytes"]), int(p["cap_bytes"])) for p in told["pools"] if p["name"] == name)


def test_a_broker_is_heard_while_large_messages_do_not_come(make):
    """They fill the memory for what is large and stay as long as a peer may be silent. Heartbeats, votes, hellos and questions have room of their own; what is said is, too."""
    cluster = make(broker_session_timeout_ms=120000, ottla_memory_bytes=192000000, **STEADY).start()
    first = cluster.controller()
    node = cluster.nodes[first]
    term = quorum(node)[0]["leaderEpoch"]
    half = [Connection(f"127.0.0.1:{node.peer_port}", timeout_s=1) for _ in range(8)]
    for c in half:
        assert hello(c, 9, first)["errorCode"] == 0
    for c in half:
        c.socket.sendall(struct.pack(">i", 50000000) + b"\x27\x11\0\0")

    harness.until(lambda: pool(node, "peers")[0] >= 100000000, 20, "two that are beyond the cap")
    for i in cluster.nodes:
        assert create(cluster.nodes[i], f"meanwhile-{i}")["errorCode"] == 0
    with Connection(f"127.0.0.1:{node.peer_port}", timeout_s=20) as c:         # on either loop
        assert hello(c, 9, first)["errorCode"] == 0
    with Connection(f"127.0.0.1:{node.peer_port}", timeout_s=20) as c:
        assert hello(c, 9, first)["errorCode"] == 0
    for i in cluster.nodes:
        cluster.wait_state(i, "running", of=[1, 2, 3])
    assert pool(node, "peers")[0] >= 100000000                      # they were there all the time
    assert cluster.controller() == first and quorum(node)[0]["leaderEpoch"] == term
    for c in half:
        c.socket.close()
    cluster.stop()


def test_a_crowd_that_says_no_hello_keeps_nobody_out(make):
    """Each with a request begun: they hold no more than half of the memory for small requests, those that came first go, and who says hello is heard."""
    cluster = make(broker_session_timeout_ms=120000, socket_listen_backlog_size=1000, ottla_memory_bytes=192000000, **STEADY).start()
    first = cluster.controller()
    node = cluster.nodes[first]
    term = quorum(node)[0]["leaderEpoch"]
    crowd = []
    for i in range(600):
        s = socket.create_connection(("127.0.0.1", node.peer_port), timeout=20)
        s.sendall(struct.pack(">i", 4096) + b"\x27\x10")
        crowd.append(s)
        if i % 100 == 99:
            with Connection(f"127.0.0.1:{node.peer_port}", timeout_s=20) as c:
                assert hello(c, 9, first)["errorCode"] == 0
            used, cap = pool(node, "peer_requests")
            assert used <= cap * 3 / 4                     # with what brokers say meanwhile
    assert crowd[0].recv(1) == b""
    assert "probation_max" in node.log()
    assert create(node, "heard")["errorCode"] == 0
    assert cluster.controller() == first and quorum(node)[0]["leaderEpoch"] == term
    for s in crowd:
        s.close()
    cluster.stop()


def pour(port, data):
    """A connection that sends that as long as it is taken, and never reads."""
    s = socket.create_connection(("127.0.0.1", port), timeout=20)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(1)
    try:
        for at in range(0, len(data), 65536):
            s.sendall(data[at:at + 65536])
    except (TimeoutError, ConnectionError):
        pass
    return s


def goes_on(cluster, first, term, name):
    assert cluster.controller() == first and quorum(cluster.nodes[first])[0]["leaderEpoch"] == term
    for i, node in cluster.nodes.items():
        assert create(node, f"{name}-{i}")["errorCode"] == 0
    for i in cluster.nodes:
        cluster.wait_state(i, "running", of=[1, 2, 3])


def test_strangers_that_read_no_answers_hold_little(make):
    """Each asks for versions again and again before it says who it is."""
    cluster = make(broker_session_timeout_ms=4000, ottla_memory_bytes=192000000, **STEADY).start()
    first = cluster.controller()
    node = cluster.nodes[first]
    term = quorum(node)[0]["leaderEpoch"]
    ask = request_bytes("ApiVersions", 0, {}) * 400000             # more than the sockets take
    before = sum(pool(node, name)[0] for name in ("responses", "peer_responses"))
    deaf = [pour(node.peer_port, ask) for _ in range(3)]
    held = sum(pool(node, name)[0] for name in ("responses", "peer_responses")) - before
    assert held < 100000, held
    goes_on(cluster, first, term, "strangers")
    for s in deaf:
        s.close()
    cluster.stop()


def test_clients_that_read_no_answers_silence_no_broker(make):
    """They hold all the memory that there is for answers to clients: other clients are answered, and the broker stays the coordinator that it was."""
    cluster = make(broker_session_timeout_ms=4000, ottla_memory_bytes=192000000, **STEADY).start()
    first = cluster.controller()
    node = cluster.nodes[first]
    assert create(node, "wide", partitions=300)["errorCode"] == 0
    term = quorum(node)[0]["leaderEpoch"]
    ask = request_bytes("Metadata", 12, {"topics": [{"name": "wide"}], "allowAutoTopicCreation": False}) * 4000
    deaf = [pour(node.port, ask) for _ in range(3)]
    cap = pool(node, "responses")[1]
    harness.until(lambda: pool(node, "responses")[0] >= cap, 20, lambda: f"the memory for answers is taken: {pool(node, 'responses')}")
    goes_on(cluster, first, term, "deaf")
    assert pool(node, "responses")[0] >= cap           # they were there all the time
    for s in deaf:
        s.close()
    cluster.stop()


@pytest.mark.long
def test_kills_and_pauses_of_coordinators_lose_nothing_that_was_answered(make):
    """Twelve rounds: whatever was answered with success is there on every broker in the end, and the cluster always finds a coordinator again."""
    cluster = make().start()
    rng = random.Random(11)
    known = set()
    for number in range(12):
        victim = cluster.controller()
        how = rng.choice(["kill", "pause", "stop"])
        other = rng.choice([i for i in cluster.nodes if i != victim])
        {"kill": cluster.kill, "pause": cluster.pause, "stop": lambda i: cluster.nodes[i].stop()}[how](victim)
        for k in range(3):
            made = create(cluster.nodes[other], f"round-{number}-{k}")
            if made["errorCode"] == 0:
                known.add(f"round-{number}-{k}")
        cluster.go_on(victim) if how == "pause" else cluster.start_one(victim)
        cluster.wait_state(victim, "running", of=[1, 2, 3])
    assert len(known) >= 30
    for node in cluster.nodes.values():
        harness.until(lambda node=node: known <= set(topics_of(node)), 20, lambda node=node: known - set(topics_of(node)))
    cluster.stop()
