"""Kafka's own tools against three brokers: what they show of replicas, and what they move; Kafka Streams and transactions while the brokers that lead them are killed."""
import json
import re
import subprocess
import time
from collections import Counter

import exactly_once_test
import harness
import pytest
import streams_test
from admin import Admin
from cluster_load import create, parts_of, whole
from cluster_test import quorum
from confluent_kafka import Producer
from java import TOOLS, command, java, need_java
from replication_test import started

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def _java():
    need_java()


def tool(cluster, name, *arguments, check=True):
    at = ["--bootstrap-server", cluster.bootstrap()]
    text = java(TOOLS + name, *([*arguments, *at] if name == "ClusterTool" else [*at, *arguments]), check=check)       # one tool has it behind its command, another before, the rest anywhere
    assert not check or "\tat " not in text, text
    return text


def rows_of(text):
    """{partition: {column: value}} of what kafka-topics --describe prints."""
    out = {}
    for line in text.splitlines():
        if "Partition: " in line:
            words = dict(re.findall(r"(\w+): (\S*)", line.replace("\t", " ")))
            out[int(words["Partition"])] = words
    return out


def others_lead(cluster, topics, gone):
    """Until somebody else leads whatever a broker that is away led."""
    one = cluster.living()[0]
    harness.until(lambda: (rows := parts_of(one, *topics)) and all(row["leaderId"] not in (-1, gone) for row in rows.values()), 60, lambda: f"others than {gone} lead: {parts_of(one, *topics)}", 0.1)


def members(words, column):
    return {int(i) for i in words[column].split(",") if i}


def test_topics_show_who_is_in_sync_and_who_could_lead(make):
    cluster = started(make())
    create(cluster.nodes[1], "t", 3, min_insync_replicas=3)
    whole(cluster, ["t"])
    shown = rows_of(tool(cluster, "TopicCommand", "--describe", "--topic", "t"))
    assert len(shown) == 3 and all(members(row, "Isr") == {1, 2, 3} and members(row, "Elr") == set() for row in shown.values()), shown
    for what in ("--under-replicated-partitions", "--at-min-isr-partitions", "--under-min-isr-partitions", "--unavailable-partitions"):
        assert ("t" in tool(cluster, "TopicCommand", "--describe", what)) == (what == "--at-min-isr-partitions"), what
    cluster.kill(2)
    harness.until(lambda: all(set(p["isrNodes"]) == {1, 3} for p in parts_of(cluster.nodes[1], "t").values()), 30, "an ISR of two")
    shown = rows_of(tool(cluster, "TopicCommand", "--describe", "--topic", "t"))
    assert all(members(row, "Isr") == {1, 3} and members(row, "Elr") == {2} and row["Leader"] in "13" for row in shown.values()), shown       # below three: who left may still lead
    for what in ("--under-replicated-partitions", "--under-min-isr-partitions"):
        assert len(rows_of(tool(cluster, "TopicCommand", "--describe", what))) >= 3, what
    cluster.start_one(2)
    whole(cluster, ["t"])
    shown = rows_of(tool(cluster, "TopicCommand", "--describe", "--topic", "t"))
    assert all(members(row, "Isr") == {1, 2, 3} and members(row, "Elr") == set() for row in shown.values()), shown


def test_reassign_partitions_moves_and_throttles(make, tmp_path):
    cluster = started(make(4, voters=3))
    create(cluster.nodes[1], "t", 4, assignments=[[1, 2], [2, 3], [3, 1], [1, 3]])
    whole(cluster, ["t"])
    with cluster.nodes[parts_of(cluster.nodes[1], "t")["t", 0]["leaderId"]].connect() as c:
        Admin(c).produce("t", *(["x" * 1000] * 100))
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
    text = tool(cluster, "reassign.ReassignPartitionsCommand", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3,4")
    proposed = json.loads([line for line in text.splitlines() if line.startswith("{")][-1])
    assert {i for p in proposed["partitions"] for i in p["replicas"]} <= {2, 3, 4}
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": i, "replicas": [4, 2]} for i in range(4)]}))
    file = ["--reassignment-json-file", plan]
    assert "Successfully started" in tool(cluster, "reassign.ReassignPartitionsCommand", "--execute", *file, "--throttle", 50000000)
    told = tool(cluster, "ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", 4)
    assert "replication.throttled.rate=50000000" in told, told
    harness.until(lambda: "no longer" not in (said := tool(cluster, "reassign.ReassignPartitionsCommand", "--verify", *file, "--preserve-throttles")) and said.count("is completed") == 4, 60, "the moves", 1)
    text = tool(cluster, "reassign.ReassignPartitionsCommand", "--verify", *file)
    assert text.count("is completed") == 4 and "Clearing broker-level throttles" in text, text
    assert "throttled" not in tool(cluster, "ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", 4)
    assert "throttled" not in tool(cluster, "ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "t")
    assert "No partition reassignments found" in tool(cluster, "reassign.ReassignPartitionsCommand", "--list")
    assert all(p["replicaNodes"] == [4, 2] for p in parts_of(cluster.nodes[1], "t").values())
    # one that does not end, since of several fetches each has to wait for the rate of one byte a second, is listed and cancelled
    with cluster.nodes[parts_of(cluster.nodes[1], "t")["t", 0]["leaderId"]].connect() as c:
        for _ in range(4):
            Admin(c).produce("t", *(["x" * 1000] * 900))
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [4, 3]}]}))
    assert "Successfully started" in tool(cluster, "reassign.ReassignPartitionsCommand", "--execute", *file, "--throttle", 1)
    assert "t-0" in tool(cluster, "reassign.ReassignPartitionsCommand", "--list")
    assert "Successfully cancelled" in tool(cluster, "reassign.ReassignPartitionsCommand", "--cancel", *file)
    assert "No partition reassignments found" in tool(cluster, "reassign.ReassignPartitionsCommand", "--list")
    assert parts_of(cluster.nodes[1], "t")["t", 0]["replicaNodes"] == [4, 2]


def test_leaders_are_elected(make):
    cluster = started(make())
    create(cluster.nodes[1], "t", 3, assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    whole(cluster, ["t"])
    cluster.nodes[2].stop()
    cluster.start_one(2)
    whole(cluster, ["t"])
    assert parts_of(cluster.nodes[1], "t")["t", 1]["leaderId"] == 3
    text = tool(cluster, "LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert "Successfully completed leader election (PREFERRED) for partitions t-1" in text, text
    harness.until(lambda: all(p["leaderId"] == p["replicaNodes"][0] for p in parts_of(cluster.nodes[1], "t").values()), 10, "preferred leaders")
    assert "Valid replica already elected for partitions t-1" in tool(cluster, "LeaderElectionCommand", "--election-type", "preferred", "--topic", "t", "--partition", 1)


def test_configs_log_dirs_and_api_versions_of_every_broker(make):
    cluster = started(make())
    create(cluster.nodes[1], "t", 1)
    whole(cluster, ["t"])
    with cluster.nodes[parts_of(cluster.nodes[1], "t")["t", 0]["leaderId"]].connect() as c:
        Admin(c).produce("t", *(["x" * 1000] * 20))
    for i in cluster.nodes:
        about = ["--entity-type", "brokers", "--entity-name", i]
        tool(cluster, "ConfigCommand", "--alter", *about, "--add-config", f"log.cleaner.threads={i + 1}")
    for i in cluster.nodes:
        assert f"log.cleaner.threads={i + 1} " in tool(cluster, "ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", i), i
    text = tool(cluster, "LogDirsCommand", "--describe", "--topic-list", "t")
    told = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    sizes = {b["broker"]: [p["size"] for d in b["logDirs"] for p in d["partitions"]] for b in told["brokers"]}
    assert sorted(sizes) == [1, 2, 3] and len({size for one in sizes.values() for size in one}) == 1, sizes
    assert all(p["offsetLag"] == 0 for b in told["brokers"] for d in b["logDirs"] for p in d["partitions"])
    text = tool(cluster, "BrokerApiVersionsCommand")
    assert len(re.findall(r"\(id: \d rack: null", text)) == 3 and text.count("Produce(0): ") == 3, text[:2000]


def test_replicas_are_verified(make):
    """Kafka's tool reads all replicas, followers too, and compares their checksums."""
    cluster = started(make())
    create(cluster.nodes[1], "t", 2)
    whole(cluster, ["t"])
    producer = Producer({"bootstrap.servers": cluster.bootstrap()})
    for i in range(2000):
        producer.produce("t", b"%d" % i * 20)
    assert producer.flush(30) == 0
    words = command(TOOLS + "ReplicaVerificationTool", "--broker-list", cluster.bootstrap(), "--topics-include", "t", "--report-interval-ms", 500, "--max-wait-ms", 200)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, ends = [], time.monotonic() + 60
        while time.monotonic() < ends and sum("max lag is 0" in line for line in said) < 3:
            said.append(process.stdout.readline())
    finally:
        process.kill()
        process.wait(120)
    assert sum("max lag is 0" in line for line in said) >= 3, said
    assert not any("mismatch" in line.lower() or "exception" in line.lower() for line in said), said


def test_the_quorum_and_its_changes(make):
    cluster = started(make(4, voters=3))
    leader = cluster.controller()
    text = tool(cluster, "MetadataQuorumCommand", "describe", "--status")
    assert re.search(rf"LeaderId:\s+{leader}\b", text) and all(re.search(rf'CurrentVoters:.*"id": {i}\b', text) for i in (1, 2, 3)), text
    text = tool(cluster, "MetadataQuorumCommand", "describe", "--replication")
    assert re.search(rf"(?m)^{leader}\s.*Leader", text) and len(re.findall(r"(?m)^[123]\s.*Follower", text)) == 2 and re.search(r"(?m)^4\s.*Observer", text), text
    gone = next(i for i in (1, 2, 3) if i != leader)
    directory = re.search(rf"(?m)^{gone}\s+(\S+)", text).group(1)
    tool(cluster, "MetadataQuorumCommand", "remove-controller", "--controller-id", gone, "--controller-directory-id", directory)
    assert {v["replicaId"] for v in quorum(cluster.nodes[4])[0]["currentVoters"]} == {1, 2, 3} - {gone}


def test_the_quorum_shows_who_is_behind(make):
    cluster = started(make())
    leader = cluster.controller()
    gone = next(i for i in cluster.nodes if i != leader)
    cluster.kill(gone)
    cluster.wait_state(gone, "fenced")
    create(cluster.nodes[leader], "t", 3)
    text = tool(cluster, "MetadataQuorumCommand", "describe", "--replication")
    lags = {int(i): int(lag) for i, lag in re.findall(r"(?m)^(\d)\s+\S+\s+-?\d+\s+(\d+)\s", text)}
    assert lags.keys() == {1, 2, 3} and lags[leader] == 0 < lags[gone], text
    text = tool(cluster, "MetadataQuorumCommand", "describe", "--status")
    assert int(re.search(r"MaxFollowerLag:\s+(\d+)", text).group(1)) > 0, text


def test_transactions_are_told_by_every_broker(make):
    """Also what a broker only follows: who looks for hanging transactions asks a broker about all that it holds."""
    cluster = started(make())
    create(cluster.nodes[1], "t", 2, min_insync_replicas=2)
    whole(cluster, ["t"])
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "transactional.id": "open", "transaction.timeout.ms": 120000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"x", partition=0)
    assert producer.flush(30) == 0

    def say(*words):
        return java(TOOLS + "TransactionsCommand", "--bootstrap-server", cluster.bootstrap(), *words)
    assert re.search(r"(?m)^open\s+\d+\s+\d+\s+Ongoing", say("list"))
    assert re.search(r"(?m)^\d\s+open\s.*Ongoing.*\st-0\s", described := say("describe", "--transactional-id", "open")), described
    for i in cluster.nodes:
        told = say("describe-producers", "--topic", "t", "--partition", 0, "--broker-id", i)
        assert re.search(r"(?m)^\d+\s+0\s+\S+\s+0\s+\d+\s+0\s*$", told), told           # its epoch, its last sequence, where its transaction began
        found = say("find-hanging", "--broker-id", i)
        assert "ERROR" not in found and len(found.strip().splitlines()) == 1, found      # not yet: it is as old as no transaction that hangs
    say("abort", "--topic", "t", "--partition", 0, "--start-offset", 0)
    assert re.search(r"(?m)^-?\d+\s.*None\s*$", told := say("describe-producers", "--topic", "t", "--partition", 0)), told


def lines_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_the_verifiable_clients_and_what_tools_say_of_offsets(make, tmp_path):
    """Kafka's verifiable producer is acknowledged all that it sent though a leader dies; its consumer reads all of it; groups, ends of logs and their beginnings are the same at every broker."""
    cluster = started(make())
    create(cluster.nodes[1], "t", 3, min_insync_replicas=2)
    whole(cluster, ["t"])
    at, count = cluster.bootstrap(), 6000
    words = command(TOOLS + "VerifiableProducer", "--bootstrap-server", at, "--topic", "t", "--max-messages", count, "--throughput", 1500, "--acks", -1)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = [process.stdout.readline() for _ in range(count // 4)]
        victim = parts_of(cluster.nodes[1], "t")["t", 0]["leaderId"]
        cluster.kill(victim)
        said += process.communicate(timeout=180)[0].splitlines()
    finally:
        process.kill()
        process.wait(120)
    told = lines_of("\n".join(said))
    sums = next(one for one in told if one["name"] == "tool_data")
    assert (sums["sent"], sums["acked"]) == (count, count), said[-5:]
    cluster.start_one(victim)
    whole(cluster, ["t"])
    ends = Counter(one["partition"] for one in told if one["name"] == "producer_send_success")
    at = cluster.bootstrap()
    read = lines_of(java(TOOLS + "VerifiableConsumer", "--bootstrap-server", at, "--topic", "t", "--group-id", "g", "--max-messages", count, "--reset-policy", "earliest", timeout_s=120))
    assert sum(one["count"] for one in read if one["name"] == "records_consumed") >= count, read[-5:]
    for node in cluster.nodes.values():
        text = java(TOOLS + "GetOffsetShell", "--bootstrap-server", node.bootstrap, "--topic", "t", "--time", "latest")
        found = {int(p): int(end) for p, end in re.findall(r"(?m)^t:(\d+):(\d+)$", text)}
        assert found.keys() == {0, 1, 2} and all(found[p] >= ends[p] for p in found) and sum(found.values()) >= count, text
        text = java(TOOLS + "consumer.group.ConsumerGroupCommand", "--bootstrap-server", node.bootstrap, "--describe", "--group", "g")
        rows = re.findall(r"(?m)^g\s+t\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s", text)
        assert {int(p): int(end) for p, _, end, _ in rows} == found and all(int(end) - int(here) == int(lag) for _, here, end, lag in rows), text
        text = java(TOOLS + "FeatureCommand", "--bootstrap-server", node.bootstrap, "describe")
        assert re.search(r"(?m)^Feature: metadata\.version\s.*FinalizedVersionLevel: \S+", text), text
    plan = tmp_path / "delete.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": p, "offset": 10 + p} for p in range(3)]}))
    text = tool(cluster, "DeleteRecordsCommand", "--offset-json-file", plan)
    assert all(re.search(rf"partition: t-{p}\s+low_watermark: {10 + p}\b", text) for p in range(3)), text
    text = tool(cluster, "GetOffsetShell", "--topic", "t", "--time", "earliest")
    assert set(re.findall(r"(?m)^t:\d:\d+$", text)) == {"t:0:10", "t:1:11", "t:2:12"}, text


def test_a_broker_is_unregistered(make):
    cluster = started(make(4, voters=3))
    said = tool(cluster, "ClusterTool", "list-endpoints")
    assert all(str(node.port) in said for node in cluster.nodes.values()), said
    cluster.nodes[4].stop()
    cluster.wait_state(4, "fenced")
    assert "is no longer registered" in tool(cluster, "ClusterTool", "unregister", "--id", 4)
    harness.until(lambda: 4 not in cluster.brokers(1), 10, lambda: cluster.brokers(1))
    assert str(cluster.nodes[4].port) not in tool(cluster, "ClusterTool", "list-endpoints")


class At:
    """A cluster in the place of a broker, for the helpers of other tests: any of its brokers will do."""

    def __init__(self, cluster):
        self.cluster, self.bootstrap = cluster, cluster.bootstrap()


@pytest.mark.kill
@pytest.mark.timeout(600)
def test_word_count_is_exact_through_failovers(make, tmp_path):
    """Kafka Streams with exactly_once_v2: the brokers that coordinate its group and its transactions are killed, and one that leads its input."""
    cluster = started(make(group_initial_rebalance_delay_ms=100))
    for topic in ("lines", "counts"):
        create(cluster.nodes[1], topic, 2, min_insync_replicas=2)
    at = At(cluster)
    app = streams_test.WordCount(at, "words", "lines", "counts", tmp_path / "state")
    try:
        app.wait_running()
        producer = Producer({"bootstrap.servers": at.bootstrap, "enable.idempotence": True, "log_level": 2, "linger.ms": 5, "topic.metadata.refresh.interval.ms": 1000})
        expected = Counter()

        def coordinator(kind, key):
            with cluster.living()[0].connect() as c:
                return c.ask("FindCoordinator", 4, {"keyType": kind, "coordinatorKeys": [key]})["coordinators"][0]["nodeId"]
        victims = {120: lambda: coordinator(0, "words"), 300: lambda: parts_of(cluster.living()[0], "lines")["lines", 0]["leaderId"], 480: cluster.controller}
        for number in range(600):
            line = [streams_test.WORDS[(number * 7 + i) % len(streams_test.WORDS)] for i in range(5)]
            expected.update(line)
            producer.produce("lines", value=" ".join(line), partition=number % 2)
            producer.poll(0.02)
            if number in victims:
                victim = victims[number]()
                cluster.kill(victim)
                others_lead(cluster, ["lines", "counts"], victim)
                cluster.start_one(victim)
                whole(cluster, ["lines", "counts"])
        assert producer.flush(60) == 0
        harness.until(lambda: streams_test.counts(at, "counts", 2)[0] == expected, 120, lambda: (streams_test.counts(at, "counts", 2)[0], expected, app.lines), step_s=2)
        assert "CLOSED" in app.stop()
    finally:
        app.kill()
    last, seen = streams_test.counts(at, "counts", 2)
    assert last == expected
    assert set(seen.values()) == {1}, "a count told twice"
    assert all(seen[word, n] for word in expected for n in range(1, expected[word] + 1)), "a count left out"


@pytest.mark.kill
@pytest.mark.timeout(400)
def test_transactions_are_whole_through_failovers(make):
    """librdkafka's and Kafka's own transactional producers while one broker after the other is killed, paused and stopped."""
    cluster = started(make())
    create(cluster.nodes[1], "t", exactly_once_test.PARTITIONS, min_insync_replicas=2)
    at, stop = At(cluster), time.monotonic() + 60
    writers = [exactly_once_test.Writer(at, "t", i, stop) for i in range(4)]
    for writer in writers:
        writer.start()
    writers.append(exactly_once_test.JavaWriters(at, "t", 60, 3))
    number = 0
    while time.monotonic() < stop:
        number += 1
        victim, how = number % 3 + 1, ("kill", "pause", "stop")[number // 3 % 3]
        if how == "pause":
            cluster.pause(victim)
            cluster.wait_state(victim, "fenced")
            cluster.go_on(victim)
        else:
            cluster.nodes[victim].stop() if how == "stop" else cluster.kill(victim)
            others_lead(cluster, ["t"], victim)
            cluster.start_one(victim)
        whole(cluster, ["t"])
    for writer in writers:
        writer.join(120)
        assert not writer.is_alive(), "a writer hangs"
        if writer.failure:
            raise writer.failure

    def ongoing():
        out = []
        for node in cluster.nodes.values():
            with node.connect() as c:
                out += c.ask("ListTransactions", 1, {"stateFilters": ["Ongoing", "PrepareCommit", "PrepareAbort"], "producerIdFilters": [], "durationFilter": -1})["transactionStates"]
        return out
    harness.until(lambda: not ongoing(), 60, lambda: f"every transaction to end: {ongoing()}", 0.5)
    ends = {}
    for (_, p), row in parts_of(cluster.nodes[1], "t").items():
        with cluster.nodes[row["leaderId"]].connect() as c:
            ends[p] = Admin(c).list_offset("t", -1, p)["offset"]
            assert Admin(c).list_offset("t", -1, p, isolation=1)["offset"] == ends[p], "the last stable offset stays behind"
    counts = exactly_once_test.judge(writers, exactly_once_test.read_all(at, "t", ends))
    assert counts["committed"] > 0
    print(f"{counts}, {number} faults")
