"""Three brokers as one cluster: founding, elections, requests through any of them, deaths and comings back. Real processes on loopback."""
import contextlib
import json
import socket
import subprocess
import urllib.error

import batch
import harness
import pytest
from admin import Admin, error
from cluster import STEADY


def free(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


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


def reached(node):
    """(status, headers, body) of a probe, None as long as nobody listens."""
    try:
        return harness.http(node.rest + "/healthz", timeout_s=5)
    except ConnectionRefusedError:
        return None
    except urllib.error.URLError as e:
        if isinstance(e.reason, ConnectionRefusedError):
            return None
        raise


def test_a_founder_that_waits_for_others_says_so(make):
    """Its REST door answers from the start: a probe hears that it lives, is not ready, and why; nobody waits for an answer that does not come."""
    cluster = make()
    node = cluster.start_one(1, wait=False)
    status, _, body = harness.until(lambda: reached(node), harness.READY_S, "the REST door")
    assert (status, json.loads(body)) == (200, {"status": "ok"})
    status, headers, body = harness.http(node.rest + "/readyz?verbose", timeout_s=5)
    assert status == 503 and headers["Retry-After"] == "1"
    assert json.loads(body)["status"] == "not_ready" and "starting" in json.loads(body)["reason"]
    status, headers, body = harness.http(node.rest + "/v1/topics", "POST", b'{"name":"t"}', {"Content-Type": "application/json"}, timeout_s=5)
    assert status == 503 and headers["Content-Type"] == "application/problem+json" and "starting" in json.loads(body)["detail"]
    with socket.create_connection(("127.0.0.1", node.rest_port)):          # one that says nothing does not keep the others out
        assert harness.http(node.rest + "/healthz", timeout_s=10)[0] == 200
    harness.until(lambda: "waiting_for_cluster" in node.log(), harness.READY_S, "the line that says for whom")
    assert "missing=2,3" in node.log()
    told = subprocess.run([harness.BINARY, "doctor", "--api", node.rest, "--data", node.directory], capture_output=True, text=True, timeout=60, check=False).stdout
    assert "answers, and does not serve yet" in told and "no server answers" not in told
    cluster.start()
    assert harness.http(node.rest + "/readyz")[0] == 200
    cluster.stop()


def test_a_broker_without_the_replica_does_not_say_that_there_is_none(make):
    """Kafka's reassignment tool names directories right away, and comes again where the replica is not there yet."""
    cluster = make().start()
    assert create(cluster.nodes[1], "here", partitions=1, replication=1)["errorCode"] == 0
    leader = topics_of(cluster.nodes[1])["here"]["partitions"][0]["leaderId"]
    for i, node in cluster.nodes.items():
        harness.until(lambda node=node: "here" in topics_of(node), 10, "the topic everywhere")
        with node.connect() as c:
            path = c.ask("DescribeLogDirs", 4, {"topics": None})["results"][0]["logDir"]
            answer = c.ask("AlterReplicaLogDirs", 2, {"dirs": [{"path": path, "topics": [{"name": "here", "partitions": [0, 9]}, {"name": "nowhere", "partitions": [0]}]}]})
        errors = [error(p) for t in answer["results"] for p in t["partitions"]]
        assert errors == ["NONE" if i == leader else "REPLICA_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION"]
    cluster.stop()


def test_a_broker_without_the_replica_says_who_leads(make):
    """KIP-951 where a partition was moved away: whoever held it knows the leader from the metadata, and its clients need no round for that."""
    cluster = make().start()
    assert create(cluster.nodes[1], "here", partitions=1, replication=1)["errorCode"] == 0
    part = topics_of(cluster.nodes[1])["here"]["partitions"][0]
    leader = cluster.nodes[part["leaderId"]]
    place = {"nodeId": leader.id, "host": "127.0.0.1", "port": int(leader.bootstrap.rsplit(":", 1)[1]), "rack": None}
    for node in cluster.nodes.values():
        harness.until(lambda node=node: "here" in topics_of(node), 10, "the topic everywhere")
        if node is leader:
            continue
        topic_id = topics_of(node)["here"]["topicId"]
        for version in (12, 16):
            name = {"topicId": topic_id} if version >= 13 else {"topic": "here"}
            with node.connect() as c:
                answer = c.ask("Fetch", version, {"maxWaitMs": 100, "minBytes": 1, "maxBytes": 1 << 20, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": -1, "forgottenTopicsData": [], "rackId": "",
                                                  **({"replicaId": -1} if version < 15 else {}), "topics": [{**name, "partitions": [{
                                                      "partition": 0, "currentLeaderEpoch": -1, "fetchOffset": 0, "lastFetchedEpoch": -1, "logStartOffset": -1, "partitionMaxBytes": 1 << 20}]}]})
            row = answer["responses"][0]["partitions"][0]
            assert (error(row), row["currentLeader"]) == ("NOT_LEADER_OR_FOLLOWER", {"leaderId": leader.id, "leaderEpoch": part["leaderEpoch"]})
            assert version < 16 or answer["nodeEndpoints"] == [place]
        for version in (10, 13):
            name = {"topicId": topic_id} if version >= 13 else {"name": "here"}
            with node.connect() as c:
                answer = c.ask("Produce", version, {"transactionalId": None, "acks": 1, "timeoutMs": 1000, "topicData": [{**name, "partitionData": [{"index": 0, "records": batch.build([b"x"])}]}]})
            row = answer["responses"][0]["partitionResponses"][0]
            assert (error(row), row["currentLeader"]) == ("NOT_LEADER_OR_FOLLOWER", {"leaderId": leader.id, "leaderEpoch": part["leaderEpoch"]})
            assert answer["nodeEndpoints"] == [place]
    cluster.stop()


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


def seen(admin, name):
    """(error, leaders) of a topic as that broker's next answer has them."""
    row = admin.describe(name)
    return error(row), [p["leaderId"] for p in row["partitions"]]


@pytest.mark.smoke
def test_what_was_changed_shows_in_the_next_answer_of_every_broker(make):
    """Five brokers, two of them without a vote: whoever took the request, and whoever is asked next (compatibility trap M3)."""
    cluster = make(5, broker_session_timeout_ms=20000, **STEADY).start()       # nobody is taken for gone who only got no processor
    for i in cluster.nodes:
        cluster.wait_state(i, "running")
    with contextlib.ExitStack() as stack:
        admins = [Admin(stack.enter_context(node.connect(timeout_s=40))) for node in cluster.nodes.values()]
        for turn in range(10):
            name, by = f"turn-{turn}", admins[turn % 5]
            assert error(by.create(name, partitions=2, replication=3, check=False)) == "NONE"
            for admin in admins:
                err, leaders = seen(admin, name)
                assert err == "NONE" and len(leaders) == 2 and min(leaders) >= 1, (turn, leaders)
            grown = by.connection.ask("CreatePartitions", 3, {"topics": [{"name": name, "count": 4, "assignments": None}], "timeoutMs": 10000})["results"]
            assert error(grown[0]) == "NONE"
            for admin in admins:
                err, leaders = seen(admin, name)
                assert err == "NONE" and len(leaders) == 4 and min(leaders) >= 1, (turn, leaders)
            set_ = {"resourceType": 2, "resourceName": name, "configs": [{"name": "retention.ms", "configOperation": 0, "value": str(1000 + turn)}]}
            assert error(by.connection.ask("IncrementalAlterConfigs", 1, {"resources": [set_], "validateOnly": False})["responses"][0]) == "NONE"
            for admin in admins:
                assert admin.describe_configs(2, name, ["retention.ms"])["configs"][0]["value"] == str(1000 + turn), turn
            by.delete(name)
            assert [seen(admin, name)[0] for admin in admins] == ["UNKNOWN_TOPIC_OR_PARTITION"] * 5, turn
        silent = next(i for i in cluster.nodes if i != cluster.controller())
        cluster.pause(silent)                          # who says nothing is waited for a second at most, and holds up nobody for good
        others = [admin for i, admin in zip(cluster.nodes, admins) if i != silent]
        assert error(others[0].create("beside", partitions=2, check=False)) == "NONE"
        assert [seen(admin, "beside")[0] for admin in others] == ["NONE"] * 4
        cluster.go_on(silent)
        cluster.wait_state(silent, "running")
    cluster.stop()


def test_topics_are_made_and_grow_while_a_broker_is_away(make):
    cluster = make().start()
    leader = cluster.controller()
    gone = next(i for i in cluster.nodes if i != leader)
    cluster.kill(gone)
    cluster.wait_state(gone, "fenced")
    one = cluster.nodes[leader]
    assert create(one, "t", partitions=2, replication=3, min_insync_replicas=2)["errorCode"] == 0
    assert create(one, "more", replication=4)["errorCode"] == 38            # INVALID_REPLICATION_FACTOR: three are registered
    with one.connect(timeout_s=40) as c:
        grown = c.ask("CreatePartitions", 3, {"topics": [{"name": "t", "count": 3, "assignments": None}], "timeoutMs": 10000, "validateOnly": False})["results"][0]
        assert grown["errorCode"] == 0, grown
    parts = topics_of(one)["t"]["partitions"]
    assert len(parts) == 3 and all(p["replicaNodes"][2] == gone and gone not in p["isrNodes"] and len(p["isrNodes"]) == 2 for p in parts), parts
    first = next(p for p in parts if p["partitionIndex"] == 0)["leaderId"]
    with cluster.nodes[first].connect(timeout_s=40) as c:
        harness.until(lambda: Admin(c).produce_raw("t", batch.build([b"x"]))["errorCode"] == 0, 20, "acknowledged by two")
    cluster.start_one(gone)
    harness.until(lambda: all(len(p["isrNodes"]) == 3 for p in topics_of(one)["t"]["partitions"]), 30, lambda: f"all in sync: {topics_of(one)}")


INTERNAL = {0: "__consumer_offsets", 1: "__transaction_state"}


def found(node, kind):
    """Asks for a coordinator, which makes the topic; its error."""
    with node.connect(timeout_s=40) as c:
        return error(c.ask("FindCoordinator", 4, {"keyType": kind, "coordinatorKeys": ["k"]})["coordinators"][0])


def test_internal_topics_are_made_for_those_too_who_are_away(make):
    """Made with two replicas they would have two for good, and what groups committed would go with the second broker that dies."""
    cluster = make(offsets_topic_num_partitions=2, transaction_state_log_num_partitions=2).start()
    leader = cluster.controller()
    gone = next(i for i in cluster.nodes if i != leader)
    cluster.kill(gone)
    cluster.wait_state(gone, "fenced")
    one = cluster.nodes[leader]
    for kind, topic in INTERNAL.items():
        harness.until(lambda kind=kind: found(one, kind) == "NONE", 20, "a coordinator")
        parts = topics_of(one)[topic]["partitions"]
        assert all(len(p["replicaNodes"]) == 3 and p["replicaNodes"][2] == gone and len(p["isrNodes"]) == 2 for p in parts), parts
    cluster.start_one(gone)
    for topic in INTERNAL.values():
        harness.until(lambda topic=topic: all(len(p["isrNodes"]) == 3 for p in topics_of(one)[topic]["partitions"]), 30, lambda: f"all in sync: {topics_of(one)}")


def test_internal_topics_wait_for_the_voters_of_a_cluster_that_begins(make):
    """A client asks again and again while the first broker serves already and the others are about to."""
    cluster = make(offsets_topic_num_partitions=2).start(wait=False)

    def asked():
        try:
            return found(cluster.nodes[1], 0) == "NONE"
        except OSError:
            return False
    harness.until(asked, harness.READY_S, "a coordinator", 0.002)
    parts = topics_of(cluster.nodes[1])[INTERNAL[0]]["partitions"]
    assert all(len(p["replicaNodes"]) == 3 for p in parts), parts


def test_every_replica_tells_who_produces(make):
    """Kafka's transactions tool asks a broker about all that it holds, led there or not; UNKNOWN_TOPIC_OR_PARTITION of a partition that there is would be asked again for a minute."""
    cluster = make().start()
    one = cluster.nodes[1]
    assert create(one, "t", replication=3)["errorCode"] == create(one, "sole", replication=1)["errorCode"] == 0
    first, home = (topics_of(one)[name]["partitions"][0]["leaderId"] for name in ("t", "sole"))

    def told(at, name):
        with cluster.nodes[at].connect() as c:
            row = c.ask("DescribeProducers", 0, {"topics": [{"name": name, "partitionIndexes": [0]}]})["topics"][0]["partitions"][0]
        return row["errorCode"], [(p["producerId"], p["producerEpoch"], p["lastSequence"]) for p in row["activeProducers"]]
    with cluster.nodes[first].connect(timeout_s=40) as c:
        number, epoch = Admin(c).producer_id()
        harness.until(lambda: Admin(c).produce_raw("t", batch.build([b"x", b"y"], producer=(number, epoch, 0)))["errorCode"] == 0, 20, "written")
    for at in cluster.nodes:
        harness.until(lambda at=at: told(at, "t") == (0, [(number, epoch, 1)]), 20, lambda at=at: f"told at {at}: {told(at, 't')}")
        harness.until(lambda at=at: told(at, "sole") == ((0 if at == home else 6), []), 20, lambda at=at: f"told at {at}: {told(at, 'sole')}")      # NOT_LEADER_OR_FOLLOWER
        assert told(at, "nada")[0] == 3                                     # UNKNOWN_TOPIC_OR_PARTITION


def test_the_quorum_tells_at_every_broker_who_is_behind(make):
    cluster = make().start()
    leader = cluster.controller()
    gone, stays = (i for i in cluster.nodes if i != leader)

    def rows(at):
        part = quorum(cluster.nodes[at])[0]
        return part["highWatermark"], {v["replicaId"]: v for v in part["currentVoters"]}

    def level(at, who):
        end, seen = rows(at)
        return all(seen[i]["logEndOffset"] == end and 0 < seen[i]["lastCaughtUpTimestamp"] <= seen[i]["lastFetchTimestamp"] for i in who)
    for at in cluster.nodes:
        harness.until(lambda at=at: level(at, cluster.nodes), 30, lambda at=at: f"all have all, asked at {at}: {rows(at)}")
    cluster.kill(gone)
    cluster.wait_state(gone, "fenced")
    assert create(cluster.nodes[stays], "after")["errorCode"] == 0
    for at in (leader, stays):
        harness.until(lambda at=at: level(at, (leader, stays)), 30, lambda at=at: f"two have all, asked at {at}: {rows(at)}")
        end, seen = rows(at)
        assert seen[gone]["logEndOffset"] < end and seen[gone]["lastFetchTimestamp"] < seen[stays]["lastFetchTimestamp"], seen
        assert seen[gone]["lastCaughtUpTimestamp"] <= seen[gone]["lastFetchTimestamp"], seen
    cluster.start_one(gone)
    for at in cluster.nodes:
        harness.until(lambda at=at: level(at, cluster.nodes), 30, lambda at=at: f"all have all again, asked at {at}: {rows(at)}")


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


def test_a_paused_broker_is_fenced_when_its_session_ends_and_comes_back_by_itself(make):
    cluster = make().start()
    leader = cluster.controller()
    other = next(i for i in cluster.nodes if i != leader)
    cluster.pause(other)
    cluster.wait_state(other, "fenced", bound_s=20)
    cluster.go_on(other)
    cluster.wait_state(other, "running", of=[1, 2, 3])
    cluster.stop()


@pytest.mark.smoke
def test_a_paused_coordinator_is_replaced_and_follows_when_it_wakes(make):
    cluster = make().start()
    first = cluster.controller()
    rest = [i for i in cluster.nodes if i != first]
    term = quorum(cluster.nodes[first])[0]["leaderEpoch"]
    cluster.pause(first)
    cluster.controller(of=rest, not_in=[first])
    assert create(cluster.nodes[rest[0]], "meanwhile")["errorCode"] == 0
    cluster.go_on(first)
    cluster.controller()                           # all name the same one, also who woke as the old one; on a busy machine it may be elected again
    assert quorum(cluster.nodes[first])[0]["leaderEpoch"] > term
    harness.until(lambda: "meanwhile" in topics_of(cluster.nodes[first]), 10, "what was decided meanwhile")
    cluster.wait_state(first, "running", of=[1, 2, 3])
    assert create(cluster.nodes[first], "after")["errorCode"] == 0
    cluster.stop()


def test_a_killed_broker_is_fenced_at_once_and_a_stopped_one_hands_over(make):
    cluster = make(broker_session_timeout_ms=60000, **STEADY).start()          # no session ends in this test
    leader = cluster.controller()
    killed, stopped = [i for i in cluster.nodes if i != leader]
    cluster.kill(killed)
    cluster.wait_state(killed, "fenced")
    assert "broker_gone node=%d" % killed in cluster.nodes[leader].log()
    cluster.start_one(killed)
    cluster.wait_state(killed, "running")
    cluster.nodes[stopped].stop()
    assert "handed_over node=%d complete=yes" % stopped in cluster.nodes[stopped].log()
    cluster.start_one(stopped)
    cluster.wait_state(stopped, "running")
    assert "last_stop=clean" in cluster.nodes[stopped].log() and "last_stop=process_crash" in cluster.nodes[killed].log()


def test_without_a_majority_nothing_is_decided_and_nothing_hangs(make):
    cluster = make().start()
    first = cluster.controller()
    left = next(i for i in cluster.nodes if i != first)
    for i in cluster.nodes:
        if i != left:
            cluster.kill(i)
    with cluster.nodes[left].connect(timeout_s=40) as c:
        body = {"topics": [{"name": "lonely", "numPartitions": 1, "replicationFactor": 1}], "timeoutMs": 1500}
        assert c.ask("CreateTopics", 7, body)["topics"][0]["errorCode"] == 7           # REQUEST_TIMED_OUT
    assert "lonely" not in topics_of(cluster.nodes[left])          # reads are served from what is known

    def ready():
        status, _, body = harness.http(cluster.nodes[left].rest + "/readyz?verbose", timeout_s=5)
        return status, {c["name"]: c["ok"] for c in json.loads(body)["checks"]}["coordinator_heard"]
    harness.until(lambda: ready() == (503, False), 20, ready)      # clients are better sent to others, until a coordinator answers again
    cluster.start_one(next(i for i in cluster.nodes if i != left))
    harness.until(lambda: ready() == (200, True), 30, ready)
    cluster.nodes[left].stop()


def secret_file(path, text, mode=0o600):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_brokers_with_one_secret_form_a_cluster_and_others_do_not_get_in(make, run_directory):
    good = secret_file(run_directory / "secrets/good", "a secret of more than sixteen bytes\n")
    bad = secret_file(run_directory / "secrets/bad", "another one of more than sixteen bytes")
    cluster = make(peer_secret_file=good)
    cluster.configure(cluster.nodes[3], **{"peer.secret.file": bad})
    for node in cluster.nodes.values():
        node.start(wait=False)
    harness.until(lambda: "peer.secret.file is not the same" in cluster.nodes[3].log() + cluster.nodes[1].log(), 20, "the refusal")
    assert all("leading=yes" not in node.log() for node in cluster.nodes.values())     # no founding without the third
    cluster.nodes[3].stop()
    cluster.configure(cluster.nodes[3])
    cluster.start()
    cluster.controller()
    for settings in ({"peer.secret.file": bad}, {"peer.secret.file": ""}):
        cluster.kill(3)
        cluster.configure(cluster.nodes[3], **settings)
        cluster.start_one(3, wait=False)
        cluster.wait_state(3, "fenced")
        harness.until(lambda: "waiting_for_coordinator" in cluster.nodes[3].log() or "hello_failed" in cluster.nodes[3].log(), 20, cluster.nodes[3].log_tail)


def test_a_peer_listener_off_loopback_wants_a_secret(run_directory, make):
    cluster = make(1, peer_listeners="0.0.0.0:0", peer_advertised_listeners="127.0.0.1:1")
    node = cluster.nodes[1]
    node.start(wait=False)
    assert node.process.wait(120) != 0
    node.process = None
    assert "without peer.secret.file anybody" in node.log()
    node.settings["peer.secret.file"] = str(secret_file(run_directory / "secrets/short", "short"))
    node.start(wait=False)
    assert node.process.wait(120) != 0
    node.process = None
    assert "too short" in node.log()


def test_a_broker_alone_opens_no_peer_listener(own_broker):
    broker = own_broker()
    listening = harness.subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=False).stdout
    mine = [line for line in listening.splitlines() if f"pid={broker.process.pid}," in line]
    assert len(mine) <= 3, mine                    # Kafka, REST, gRPC
    assert "peer" not in broker.log()


def add_voter(node, voter, timeout_ms=20000):
    with node.connect(timeout_s=60) as c:
        return c.ask("AddRaftVoter", 1, {"clusterId": None, "timeoutMs": timeout_ms, "voterId": voter,
                                         "voterDirectoryId": bytes(16), "listeners": [], "ackWhenCommitted": True})


def remove_voter(node, voter):
    with node.connect(timeout_s=60) as c:
        return c.ask("RemoveRaftVoter", 0, {"clusterId": None, "voterId": voter, "voterDirectoryId": bytes(16)})


def voters(node):
    return {v["replicaId"] for v in quorum(node)[0]["currentVoters"]}


def test_one_grows_to_three_voters_while_it_runs(make):
    cluster = make()
    one, two, three = cluster.nodes.values()
    cluster.configure(one, **{"coordinator.voters": ""})           # began alone, with nothing but a listener for peers
    for node in (two, three):
        cluster.configure(node, **{"coordinator.voters": "", "coordinator.join": f"1@{cluster.place(1)}"})
    one.start()
    assert create(one, "early", partitions=2)["errorCode"] == 0
    two.start()
    three.start()
    assert "early" in topics_of(three) and voters(three) == {1}
    assert create(three, "by-a-follower")["errorCode"] == 0
    assert add_voter(two, 2)["errorCode"] == 0                     # any broker takes it
    assert add_voter(one, 3)["errorCode"] == 0
    assert add_voter(one, 3)["errorCode"] == 126                   # DUPLICATE_VOTER
    assert add_voter(one, 8, timeout_ms=100)["errorCode"] not in (0, 126)
    harness.until(lambda: voters(two) == {1, 2, 3}, 10, lambda: voters(two))
    cluster.kill(1)
    cluster.controller(of=[2, 3], not_in=[1])
    assert create(two, "without-the-first")["errorCode"] == 0
    one.start()
    harness.until(lambda: "without-the-first" in topics_of(one), 10, "what was decided meanwhile")
    assert remove_voter(one, 2)["errorCode"] == 0
    assert remove_voter(one, 2)["errorCode"] == 127                # VOTER_NOT_FOUND
    assert voters(one) == {1, 3}
    cluster.stop()


def test_brokers_come_to_a_lone_voter_that_was_started_again_and_come_back_to_it(make):
    """It sends no heartbeats to who does not vote, and changes nothing that would be told: who leads is heard by asking."""
    cluster = make(2)
    one, two = cluster.nodes.values()
    cluster.configure(one, **{"coordinator.voters": ""})
    cluster.configure(two, **{"coordinator.voters": "", "coordinator.join": f"1@{cluster.place(1)}"})
    one.start()
    assert create(one, "early")["errorCode"] == 0
    one.stop()
    one.start()
    two.start()
    assert "early" in topics_of(two)
    assert create(two, "by-the-new-one")["errorCode"] == 0
    two.stop()
    two.start()
    assert cluster.controller() == 1
    cluster.stop()


def test_a_broker_that_is_gone_for_good_is_forgotten(make):
    cluster = make(4, voters=3).start()
    cluster.controller()

    def forget(node, broker):
        with cluster.nodes[node].connect(timeout_s=40) as c:
            return c.ask("UnregisterBroker", 0, {"brokerId": broker})
    assert forget(1, 4)["errorCode"] == 42 and forget(1, 4)["errorMessage"]        # INVALID_REQUEST: it lives
    assert forget(2, 9)["errorCode"] == 102                        # BROKER_ID_NOT_REGISTERED
    cluster.nodes[4].stop()
    cluster.wait_state(4, "fenced")
    assert forget(3, 4)["errorCode"] == 0
    assert 4 not in cluster.brokers(3)             # who asked sees it at once
    cluster.stop()


def test_a_dead_voter_is_replaced_by_an_empty_one(make):
    import shutil
    cluster = make(coordinator_auto_readmit="false").start()
    leader = cluster.controller()
    lost = next(i for i in cluster.nodes if i != leader)
    with cluster.nodes[leader].connect() as c:     # not on the broker that is lost: it is the only copy
        topic = {"name": "kept", "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": 0, "brokerIds": [leader]}]}
        assert c.ask("CreateTopics", 7, {"topics": [topic], "timeoutMs": 10000})["topics"][0]["errorCode"] == 0
    cluster.kill(lost)
    shutil.rmtree(cluster.nodes[lost].data)
    cluster.start_one(lost)                        # registers once its former self is fenced; it follows and does not vote
    assert "kept" in topics_of(cluster.nodes[lost])
    cluster.controller()                           # without a vote to lose, the two others may have changed roles while one of them got no processor
    assert remove_voter(cluster.nodes[lost], lost)["errorCode"] == 0
    assert add_voter(cluster.nodes[lost], lost)["errorCode"] == 0
    third = next(i for i in cluster.nodes if i not in (leader, lost))
    cluster.kill(third)                            # now its vote is needed
    cluster.controller()                           # third may have been it
    assert create(cluster.nodes[lost], "with-the-new-one")["errorCode"] == 0
    cluster.start_one(third)
    cluster.stop()


def test_a_voter_that_comes_back_empty_votes_again_by_itself(make):
    import shutil
    cluster = make().start()
    leader = cluster.controller()
    lost, third = (i for i in cluster.nodes if i != leader)
    assert create(cluster.nodes[leader], "kept")["errorCode"] == 0
    cluster.kill(lost)
    shutil.rmtree(cluster.nodes[lost].data)
    cluster.start_one(lost)
    assert "kept" in topics_of(cluster.nodes[lost])
    harness.until(lambda: "readmitted" in cluster.nodes[lost].log(), 30, lambda: cluster.nodes[lost].log_tail())
    cluster.kill(third)                            # now its vote is needed
    cluster.controller(bound_s=30)
    assert create(cluster.nodes[lost], "with-the-new-one")["errorCode"] == 0
    cluster.start_one(third)
    cluster.stop()


def test_a_lost_majority_is_given_up_by_an_operators_word(make):
    import shutil
    cluster = make().start()
    left = cluster.controller()
    row = {"name": "kept", "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": 0, "brokerIds": [left]}]}
    with cluster.nodes[left].connect() as c:
        assert c.ask("CreateTopics", 7, {"topics": [row], "timeoutMs": 10000})["topics"][0]["errorCode"] == 0
    node, gone = cluster.nodes[left], [i for i in cluster.nodes if i != left]

    def force(*more):
        words = [harness.BINARY, "cluster", "force-voters", "--data", str(node.data), *more]
        return subprocess.run(words, capture_output=True, text=True, timeout=240)
    answer = force()
    assert answer.returncode == 4 and "a server runs on it" in answer.stderr, answer
    for i in cluster.nodes:
        cluster.kill(i)
    for i in gone:
        shutil.rmtree(cluster.nodes[i].data)
    answer = force()
    assert answer.returncode == 2 and "Nothing was changed" in answer.stdout, answer
    assert force("--confirm", "another").returncode == 2
    cluster_id = answer.stderr.rsplit("--confirm ", 1)[1].split()[0]
    answer = force("--confirm", cluster_id)
    assert answer.returncode == 0 and f"node {left} is the only voter now" in answer.stdout, answer
    cluster.start_one(left)
    assert "kept" in topics_of(node)
    assert "metadata_may_be_lost" in node.log()
    status, _, body = harness.http(node.rest + "/v1/health/checks/metadata_whole")
    assert status == 503 and json.loads(body)["count"] == 1
    for i in gone:                                 # empty now: they follow, and vote when somebody says so
        cluster.start_one(i)
    assert add_voter(cluster.nodes[gone[0]], gone[0])["errorCode"] == 0
    assert create(cluster.nodes[gone[1]], "after")["errorCode"] == 0
    cluster.stop()


def test_records_of_a_topic_that_only_lost_voters_knew_are_set_aside(make):
    """A broker runs on through it, another one starts afterwards with its directory; what was deleted in the regular way is deleted."""
    import shutil
    cluster = make(5, voters=3).start()
    left = cluster.controller()
    node, gone, hosts = cluster.nodes[left], [i for i in (1, 2, 3) if i != left], (4, 5)

    def made(topic, on):
        row = {"name": topic, "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": 0, "brokerIds": [on]}]}
        with cluster.nodes[on].connect(timeout_s=40) as c:
            told = []
            harness.until(lambda: told.append(c.ask("CreateTopics", 7, {"topics": [row], "timeoutMs": 20000})["topics"][0]["errorCode"]) or told[-1] == 0, 40, lambda: told)   # who just came back may still be fenced
            Admin(c).wait_for_leader(topic)
            assert Admin(c).produce(topic, f"of {topic}") == 0
    for i in hosts:
        made(f"kept-{i}", i)
        made(f"deleted-{i}", i)
    cluster.nodes[5].stop()
    with cluster.nodes[4].connect(timeout_s=40) as c:
        for i in hosts:
            Admin(c).delete(f"deleted-{i}")
    cluster.kill(left)                             # with all that there was so far
    cluster.start_one(5)
    cluster.controller(of=[*gone, *hosts])
    for i in hosts:
        made(f"lost-{i}", i)
    cluster.kill(5)
    for i in gone:
        cluster.kill(i)
        shutil.rmtree(cluster.nodes[i].data)
    words = [harness.BINARY, "cluster", "force-voters", "--data", str(node.data)]
    cluster_id = subprocess.run(words, capture_output=True, text=True, timeout=240).stderr.rsplit("--confirm ", 1)[1].split()[0]
    subprocess.run([*words, "--confirm", cluster_id], check=True, capture_output=True, timeout=240)
    for i in (left, 5):
        cluster.start_one(i)
    harness.until(lambda: list(cluster.nodes[4].data.glob("lost-4-0.*-stray")), 60, cluster.nodes[4].log_tail)
    assert "kept_as_stray" in cluster.nodes[4].log()
    for i in hosts:
        host = cluster.nodes[i]
        names = topics_of(host)
        assert f"lost-{i}" not in names and f"kept-{i}" in names
        folder, = host.data.glob(f"lost-{i}-0*")
        assert i == 5 or folder.name.endswith("-stray")
        assert f"of lost-{i}".encode() in b"".join(path.read_bytes() for path in folder.glob("*.log"))
        assert (host.data / f"kept-{i}-0").exists() and not list(host.data.glob(f"deleted-{i}-0*"))
    made("after", 4)                               # the one that ran on knows who decides now
    cluster.start_one(gone[0])                     # a former voter, empty, while nothing changes
    assert {"after", "kept-4"} <= topics_of(cluster.nodes[gone[0]]).keys()
    cluster.kill(4)
    cluster.start_one(4)
    assert cluster.controller(of=[left, gone[0], *hosts]) == left
    for i in (left, gone[0], *hosts):
        cluster.kill(i)


def test_a_cluster_that_moves_to_other_addresses_comes_up_there(make):
    cluster = make().start()
    assert create(cluster.nodes[1], "moved")["errorCode"] == 0
    cluster.stop()
    for node, port in zip(cluster.nodes.values(), harness.free_ports(3)):
        node.peer_port = port
    for node in cluster.nodes.values():
        cluster.configure(node)
    cluster.start()                                # what the metadata says of addresses is old, what the list says is not
    cluster.controller()
    assert all("moved" in topics_of(node) for node in cluster.nodes.values())
    cluster.kill(3)                                # one alone: the others' lists are old then, and it says where it is
    cluster.nodes[3].peer_port = harness.free_ports(1)[0]
    cluster.configure(cluster.nodes[3])
    cluster.start_one(3)
    cluster.wait_state(3, "running")
    cluster.stop()


def test_the_command_line_changes_who_votes(make):
    cluster = make(2, voters=1).start()            # the second follows the first, and is no voter
    def tool(*words):
        ran = harness.subprocess.run([harness.BINARY, "cluster", "voters", *words, "-b", cluster.nodes[2].bootstrap], capture_output=True, text=True, timeout=240, check=False)
        return ran.returncode, ran.stdout + ran.stderr
    assert tool("list", "-o", "json")[1].count('"broker"') == 1
    assert tool("add", "2") == (0, "broker 2 votes\n")
    assert tool()[1].count("127.0.0.1:") == 2
    code, said = tool("add", "2")
    assert code != 0 and "DUPLICATE_VOTER" in said
    assert tool("replace", "2")[0] == 0
    assert tool("remove", "2") == (0, "broker 2 votes no more\n")
    assert tool("add")[0] == 2 and tool("elect")[0] == 2
    cluster.stop()


def test_three_brokers_for_trying_are_one_command(run_directory):
    directory = run_directory / "dev-three"
    directory.mkdir()
    base = harness.free_run(30)
    log = open(directory / "out", "w+", encoding="utf-8")
    process = harness.subprocess.Popen([harness.BINARY, "server", "--dev", "3", "--set", f"listeners=PLAINTEXT://127.0.0.1:{base}", "--set", "num.partitions=2"],
                                       cwd=directory, stdout=log, stderr=log, stdin=harness.subprocess.DEVNULL)
    try:
        def running(count):
            try:
                status, _, body = harness.http(f"http://127.0.0.1:{base + 13}/v1/brokers", timeout_s=2)
            except OSError:
                return False
            rows = json.loads(body)["items"] if status == 200 else []          # 503 while it waits for the others
            return sum(row["state"] == "running" for row in rows) == count
        harness.until(lambda: running(3), 30, lambda: (directory / "out").read_text())
        harness.until(lambda: "all are ready." in (directory / "out").read_text(), 30, lambda: (directory / "out").read_text())
        assert f"export OTTLA_API=http://127.0.0.1:{base + 3}\n" in (directory / "out").read_text()
        victim = int((directory / "out").read_text().split("broker 1  pid ")[1].split()[0])
        harness.os.kill(victim, harness.signal.SIGKILL)
        harness.until(lambda: "broker 1 was ended by signal 9" in (directory / "out").read_text() and running(2), 30, "the death seen")
        process.send_signal(harness.signal.SIGHUP)
        harness.until(lambda: running(3) and "broker 1 was started again: pid" in (directory / "out").read_text(), 30, "it is back")
        harness.until(lambda: (directory / "out").read_text().count("all are ready.") == 2, 30, "which is told")
        process.send_signal(harness.signal.SIGTERM)
        assert process.wait(240) == 0
        assert not running(1) and (directory / "ottla-dev/3.log").exists()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(240)
        log.close()


@pytest.mark.parametrize("count", [2, 4])
def test_brokers_for_trying_of_which_some_do_not_vote(run_directory, count):
    directory = run_directory / f"dev-{count}"
    directory.mkdir()
    base = harness.free_run(40)
    with open(directory / "out", "w+", encoding="utf-8") as log:
        process = harness.subprocess.Popen([harness.BINARY, "server", "--dev", str(count), "--set", f"listeners=PLAINTEXT://127.0.0.1:{base}"], cwd=directory, stdout=log, stderr=log,
                                           stdin=harness.subprocess.DEVNULL)
        try:
            harness.until(lambda: "all are ready." in (directory / "out").read_text(), 30, lambda: (directory / "out").read_text())
            rows = json.loads(harness.http(f"http://127.0.0.1:{base + 3}/v1/brokers", timeout_s=5)[2])["items"]
            assert len(rows) == count and sum(row["is_voter"] for row in rows) == count - 1
            process.send_signal(harness.signal.SIGTERM)
            assert process.wait(240) == 0
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(240)


def test_no_broker_for_trying_starts_where_a_port_is_taken(tmp_path):
    base = harness.free_run(30)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", base + 12))   # gRPC of the second
        taken.listen(1)
        done = harness.subprocess.run([harness.BINARY, "server", "--dev", "3", "--set", f"listeners=PLAINTEXT://127.0.0.1:{base}"], cwd=tmp_path, timeout=120,
                                      stdout=harness.subprocess.PIPE, stderr=harness.subprocess.STDOUT, text=True)
    assert done.returncode == 1 and "broker 2" in done.stdout and str(base + 12) in done.stdout and "pid" in done.stdout, done.stdout
    assert free(base) and not list((tmp_path / "ottla-dev").glob("*.log"))


@pytest.mark.parametrize("lease", ["none", "strict"])
def test_with_a_strict_lease_a_lonely_leader_takes_no_acks_1(make, lease):
    cluster = make(ottla_leader_lease=lease).start()
    leader = cluster.controller()
    lonely = next(i for i in cluster.nodes if i != leader)
    with cluster.nodes[lonely].connect(timeout_s=40) as c:
        topic = {"name": "t", "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": 0, "brokerIds": [lonely]}]}
        assert c.ask("CreateTopics", 7, {"topics": [topic], "timeoutMs": 10000})["topics"][0]["errorCode"] == 0
        admin = Admin(c)
        harness.until(lambda: admin.produce_raw("t", batch.build([b"a"]), acks=1)["errorCode"] == 0, 20, "a record taken")
        for i in cluster.nodes:
            if i != lonely:
                cluster.pause(i)                   # no coordinator, and nobody who says so
        if lease == "strict":
            harness.until(lambda: admin.produce_raw("t", batch.build([b"b"]), acks=1)["errorCode"] == 6, 20, "NOT_LEADER_OR_FOLLOWER once the lease is over")
            assert admin.produce_raw("t", batch.build([b"c"]), acks=-1)["errorCode"] == 0         # acks=all needs no lease
            for i in cluster.nodes:
                cluster.go_on(i)
            harness.until(lambda: admin.produce_raw("t", batch.build([b"d"]), acks=1)["errorCode"] == 0, 20, "the lease is back")
        else:
            ends = harness.time.monotonic() + 3
            while harness.time.monotonic() < ends:
                assert admin.produce_raw("t", batch.build([b"b"]), acks=1)["errorCode"] == 0      # as Kafka: until it learns better
                harness.time.sleep(0.2)  # poll
