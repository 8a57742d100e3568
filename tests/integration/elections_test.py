"""Leaders when nobody who has everything lives, and the ledger of what is lost by it: power cuts of all machines, unclean elections, logs that are cut. Real processes on loopback."""
import json
import re
import shutil
import struct

import batch
import harness
import pytest
from admin import Admin
from java import TOOLS, java, need_java
from replication_test import create, parts_of, started, wait_isr

QUICK = {"ottla.unclean.election.wait.ms": 1000, "replica.high.watermark.checkpoint.interval.ms": 200}


def value_of(number):
    return b"%04d" % number


def produce(cluster, node, name, first, count, acks=-1):
    """A batch for each, so that a log can be cut between any two; their offsets."""
    with cluster.nodes[node].connect(timeout_s=30) as c:
        admin = Admin(c)
        return [admin.produce(name, value_of(n), acks=acks) for n in range(first, first + count)]


def values(cluster, node, name):
    with cluster.nodes[node].connect(timeout_s=30) as c:
        return {offset: bytes(value) for offset, _, _, value in Admin(c).records(name)}


def leader_of(cluster, node, name):
    return parts_of(cluster.nodes[node], name)[0]["leaderId"]


def row_of(cluster, name):
    """Of its one partition, as broker 1 sees it."""
    rows = harness.until(lambda: cluster.nodes[1].view(f"/v1/topics/{name}/partitions"), 10, f"the partitions of {name}")["items"]
    row, = [row for row in rows if row["partition"] == 0]
    return row


def wait_leader(cluster, name, leaders, bound_s=40):
    return harness.until(lambda: (found := {leader_of(cluster, node.id, name) for node in cluster.living()}) and len(found) == 1 and found <= set(leaders) and found.pop(), bound_s,
                         lambda: f"a leader of {leaders}: {[parts_of(node, name) for node in cluster.living()]}", 0.1)


def losses(cluster, node, **filters):
    answer = harness.until(lambda: cluster.nodes[node].view("/v1/losses?limit=1000"), 10, f"the ledger of {node}")
    return [row for row in answer["items"] if row["broker"] == node and all(row[key] == value for key, value in filters.items())]


def power_cut(node):
    """The page cache is gone as far as the next start can know."""
    (node.data / "__ottla_meta" / "meta.boot").unlink()


def cut_log(node, name, kept):
    """What the disk of a machine lost: whole batches at the end."""
    path = node.partition(name) / ("0" * 20 + ".log")
    data, at = path.read_bytes(), 0
    for _ in range(kept):
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    with open(path, "r+b") as file:
        file.truncate(at)


def wait_checkpoint(cluster, node, name, end):
    checkpoint = cluster.nodes[node].data / "replication-offset-checkpoint"
    harness.until(lambda: checkpoint.exists() and f"{name} 0 {end}" in checkpoint.read_text(), 20, "the high watermark on disk")


def with_partition(cluster, name, replicas, **configs):
    with cluster.nodes[1].connect(timeout_s=40) as c:
        answer = c.ask("CreateTopics", 7, {"topics": [{"name": name, "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": 0, "brokerIds": replicas}],
                                                       "configs": [{"name": key, "value": str(value)} for key, value in configs.items()]}], "timeoutMs": 30000, "validateOnly": False})
    assert answer["topics"][0]["errorCode"] == 0, answer
    harness.until(lambda: all(0 in parts_of(cluster.nodes[i], name) for i in replicas), 10, "the topic everywhere")
    wait_isr(cluster, name, replicas)


def set_config(cluster, node, name, key, value):
    status, _, body = harness.http(f"{cluster.nodes[node].rest}/v1/topics/{name}/config", "PATCH", json.dumps({key: value}).encode(), {"Content-Type": "application/json"})
    assert status == 200, body


@pytest.mark.smoke
def test_a_power_cut_of_all_machines_needs_no_operator(make):
    """The one that has most leads, whoever led before; nothing that any disk kept is lost, and the ledger says from where on something may be."""
    cluster = started(make(**QUICK))
    with_partition(cluster, "t", [1, 2, 3], **{"ottla.durability": "replicated", "min.insync.replicas": 2})
    assert create(cluster.nodes[1], "many", partitions=20, replication=3, **{"ottla.durability": "replicated"})["errorCode"] == 0
    wait_isr(cluster, "many", [1, 2, 3])
    produce(cluster, 1, "t", 0, 60)
    wait_checkpoint(cluster, 2, "t", 60)           # else it does not know any more what was committed, and the entry begins lower
    for i in cluster.nodes:
        cluster.kill(i)
    for i, kept in ((1, 40), (2, 50), (3, 30)):
        power_cut(cluster.nodes[i])
        cut_log(cluster.nodes[i], "t", kept)
    cluster.start()
    assert wait_leader(cluster, "t", [2]) == 2
    harness.until(lambda: all(p["leaderId"] >= 0 for p in parts_of(cluster.nodes[1], "many").values()), 30, lambda: parts_of(cluster.nodes[1], "many"), 0.1)
    wait_isr(cluster, "t", [1, 2, 3])
    assert values(cluster, 2, "t") == {n: value_of(n) for n in range(50)}
    entry, = harness.until(lambda: losses(cluster, 2, topic="t"), 10, "the entry")
    assert (entry["kind"], entry["reason"], entry["from_offset"], entry["end_offset"], entry["kept"]["what"]) == ("election", "crash", 50, None, "nothing")
    assert [row for i in (1, 3) for row in losses(cluster, i, topic="t")] == []        # they were behind: nothing of theirs was cut
    def noted():
        return [row["partition"] for i in cluster.nodes for row in losses(cluster, i, topic="many")]
    harness.until(lambda: sorted(noted()) == list(range(20)), 10, lambda: f"an entry for each: {sorted(noted())}")
    assert produce(cluster, 2, "t", 100, 1) == [50]
    shown = harness.http(cluster.nodes[2].rest + "/metrics")[2].decode()
    assert f"ottla_loss_ledger_entries {len(losses(cluster, 2))}\n" in shown
    cluster.stop()
    cluster.start()
    assert losses(cluster, 2, topic="t") == [entry]                                    # noted once


def test_one_whose_machine_is_still_away_is_waited_for(make):
    cluster = started(make(**QUICK))
    with_partition(cluster, "t", [1, 2, 3], **{"ottla.durability": "replicated", "min.insync.replicas": 2})
    produce(cluster, 1, "t", 0, 30)
    for i in cluster.nodes:
        cluster.kill(i)
    for i, kept in ((1, 10), (2, 30), (3, 20)):
        power_cut(cluster.nodes[i])
        cut_log(cluster.nodes[i], "t", kept)
    cluster.nodes[1].start(wait=False)
    cluster.nodes[3].start(wait=False)
    cluster.nodes[1].wait_ready()
    cluster.nodes[3].wait_ready()
    cluster.wait_state(2, "fenced", of=[1, 3])
    harness.never(lambda: leader_of(cluster, 1, "t") in (1, 3), 4, "somebody leads")
    cluster.start_one(2)
    assert wait_leader(cluster, "t", [2]) == 2
    wait_isr(cluster, "t", [1, 2, 3])
    assert values(cluster, 2, "t") == {n: value_of(n) for n in range(30)}


def test_an_older_copy_of_a_clean_directory_does_not_lead(make):
    """It has a clean marker, of the stop before the last: its broker was eligible when it stopped, and the copy lacks what was acknowledged since."""
    cluster = started(make(4, voters=1, **QUICK))
    with_partition(cluster, "t", [2, 3, 4], **{"ottla.durability": "replicated", "min.insync.replicas": 2})
    produce(cluster, leader_of(cluster, 1, "t"), "t", 0, 30)
    data, copy = cluster.nodes[4].data, cluster.nodes[4].directory / "copy"
    cluster.nodes[4].stop()
    shutil.copytree(data, copy)
    assert (copy / ".kafka_cleanshutdown").exists()
    cluster.start_one(4)
    wait_isr(cluster, "t", [2, 3, 4])
    produce(cluster, leader_of(cluster, 1, "t"), "t", 30, 30)
    cluster.nodes[2].stop()
    wait_isr(cluster, "t", [3, 4])
    cluster.nodes[4].stop()
    wait_isr(cluster, "t", [3])
    assert row_of(cluster, "t")["elr"] == [4]
    cluster.kill(3)
    harness.until(lambda: row_of(cluster, "t")["leader"] is None, 30, lambda: f"nobody leads: {row_of(cluster, 't')}", 0.1)
    assert row_of(cluster, "t")["elr"] == [3, 4]
    shutil.rmtree(data)
    copy.rename(data)
    cluster.start_one(4)
    cluster.wait_state(4, "running", of=[1])
    row = row_of(cluster, "t")
    assert (row["leader"], row["isr"], row["elr"]) == (None, [], [3]), row
    cluster.start_one(3)
    assert wait_leader(cluster, "t", [3]) == 3
    wait_isr(cluster, "t", [3, 4])
    cluster.start_one(2)
    wait_isr(cluster, "t", [2, 3, 4])
    assert values(cluster, 3, "t") == {n: value_of(n) for n in range(60)}
    assert [row for i in (2, 3, 4) for row in losses(cluster, i, topic="t") if row["kind"] == "election"] == []
    cluster.stop()


def unclean(cluster, name, **configs):
    """Broker 1 has 50 records more than 2, all acknowledged, and dies; 2 is there."""
    with_partition(cluster, name, [1, 2], **configs)
    produce(cluster, 1, name, 0, 50)
    cluster.kill(2)
    wait_isr(cluster, name, [1])
    produce(cluster, 1, name, 50, 30)
    wait_checkpoint(cluster, 1, name, 80)
    cluster.kill(1)
    cluster.start_one(2)
    cluster.wait_state(2, "running", of=[2, 3])


def check_ledger(cluster, name, reason):
    """The old leader comes back: what it has to give up is in its ledger and in the file beside, record for record what no reader finds any more."""
    entry, = harness.until(lambda: losses(cluster, 2, topic=name), 10, "the election's entry")
    assert (entry["kind"], entry["reason"], entry["from_offset"], entry["end_offset"]) == ("election", reason, 50, None)
    produce(cluster, 2, name, 1000, 5)
    cluster.start_one(1)
    wait_isr(cluster, name, [1, 2])
    there = values(cluster, 2, name)
    assert there == {**{n: value_of(n) for n in range(50)}, **{50 + n: value_of(1000 + n) for n in range(5)}}
    missing = {n: value_of(n) for n in range(80) if there.get(n) != value_of(n)}
    cut, = losses(cluster, 1, topic=name)

    def whole(node, query):                        # who does not answer within two seconds is left out, and named
        return harness.until(lambda: (found := cluster.nodes[node].view("/v1/losses?" + query)) and not found.get("partial") and found, 20, f"the ledgers of all at {node}")
    everywhere = whole(3, "limit=1000")["items"]   # any broker tells of all, in the same order
    assert [(row["broker"], row["kind"]) for row in everywhere if row["topic"] == name] == [(1, "cut"), (2, "election")]
    first = whole(3, "limit=1")
    assert first["items"] == everywhere[:1] and whole(2, "limit=1000&page_token=" + first["next_page_token"])["items"] == everywhere[1:]
    assert (cut["kind"], cut["reason"], cut["from_offset"], cut["end_offset"], cut["high_watermark"], cut["kept"]["what"]) == ("cut", reason, 50, 80, 80, "all")
    def told():                                # the cut itself names the entry
        return [e for e in (cluster.nodes[3].view("/v1/events?types=records_cut&limit=100") or {"items": []})["items"] if e["topic"] == name]
    event, = harness.until(told, 20, "the event of the cut")
    assert (event["broker"], event["number"], event["from_offset"], event["end_offset"], event["epochs"], event["folder"]) == (1, cut["number"], 50, 80, cut["epochs"], cut["kept"]["folder"])
    assert set(missing) == set(range(cut["from_offset"], cut["end_offset"]))
    file = f"{cut['kept']['folder']}/{50:020}.log"
    data = open(file, "rb").read()
    assert len(data) == cut["kept"]["bytes"] == cut["cut_bytes"]
    assert {offset: bytes(value) for offset, _, _, value in batch.records(data)} == missing
    return cut, file


@pytest.mark.smoke
def test_unclean_elections_are_made_where_they_are_allowed_and_what_they_cost_is_told(make):
    cluster = started(make(**QUICK))
    unclean(cluster, "t")
    harness.never(lambda: leader_of(cluster, 2, "t") == 2, 4, "somebody leads: it is not allowed")
    set_config(cluster, 2, "t", "unclean.leader.election.enable", "true")
    wait_leader(cluster, "t", [2])
    shown = [harness.http(node.rest + "/metrics?compat=jmx")[2].decode() for node in cluster.living()]     # by the one that coordinates
    assert sum(text.count('ottla_controller_elections_total{type="unclean"} 1\n') for text in shown) == 1
    assert sum(text.count('kafka_controller_controllerstats_uncleanleaderelections_total{type="unclean"} 1\n') for text in shown) == 1
    assert not any('uncleanleaderelections_total{type="clean"}' in text for text in shown)
    cut, file = check_ledger(cluster, "t", "unclean")
    assert cut["epochs"][0]["start_offset"] == 50 and cut["last_epoch"] < cut["leader_epoch"]
    if (harness.TOP / "build" / "jars").is_dir():
        need_java()
        text = java(TOOLS + "DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", file)
        assert [line.rsplit("payload: ", 1)[1] for line in text.splitlines() if "payload: " in line] == [value_of(n).decode() for n in range(50, 80)]
    def told(node, number):
        answer = cluster.nodes[node].view("/v1/events?types=records_lost&limit=100") or {"items": []}
        return [event for event in answer["items"] if event.get("broker") == node and event.get("number") == number]
    event = harness.until(lambda: told(1, cut["number"]), 20, "the event")[0]
    assert (event["topic"], event["partition"], event["kind"], event["reason"], event["from_offset"], event["end_offset"]) == ("t", 0, "cut", "unclean", 50, 80)
    cluster.stop()
    cluster.start()
    assert losses(cluster, 1, topic="t") == [cut]
    harness.until(lambda: cluster.nodes[1].view("/v1/events?types=records_lost&limit=100"), 20, "events")
    assert len(told(1, cut["number"])) == 1        # it is told once


def test_the_default_of_all_brokers_allows_unclean_elections_as_soon_as_it_is_set(make):
    cluster = started(make(**QUICK))
    unclean(cluster, "t")
    harness.never(lambda: leader_of(cluster, 2, "t") == 2, 3, "somebody leads: it is not allowed")
    status, _, body = harness.http(cluster.nodes[3].rest + "/v1/cluster/config", "PATCH", b'{"unclean.leader.election.enable": "true"}', {"Content-Type": "application/json"})
    assert status == 200, body
    wait_leader(cluster, "t", [2])
    check_ledger(cluster, "t", "unclean")


def test_a_machine_that_lost_what_it_held_does_not_lead_while_somebody_has_it(make):
    """Both are eligible when they die; of one the machine went, and the end of its log. It is there first, and waits for the other."""
    cluster = started(make(5, voters=3, **QUICK))
    with_partition(cluster, "t", [4, 5], **{"ottla.durability": "replicated", "min.insync.replicas": 2})
    produce(cluster, 4, "t", 0, 30)
    cluster.kill(4)
    wait_isr(cluster, "t", [5])
    cluster.kill(5)
    harness.until(lambda: row_of(cluster, "t")["leader"] is None, 30, lambda: row_of(cluster, "t"), 0.1)
    assert sorted(row_of(cluster, "t")["elr"]) == [4, 5], row_of(cluster, "t")
    power_cut(cluster.nodes[5])
    cut_log(cluster.nodes[5], "t", 10)
    cluster.start_one(5)
    cluster.wait_state(5, "running", of=[1])
    row = row_of(cluster, "t")
    assert (row["leader"], row["isr"], row["elr"]) == (None, [], [4]), row
    cluster.start_one(4)
    assert wait_leader(cluster, "t", [4]) == 4
    wait_isr(cluster, "t", [4, 5])
    assert values(cluster, 4, "t") == {n: value_of(n) for n in range(30)}
    assert [row for i in (4, 5) for row in losses(cluster, i, topic="t") if row["kind"] == "election"] == []
    wait_checkpoint(cluster, 5, "t", 30)
    cluster.kill(4)                                # and it has all of it again
    wait_leader(cluster, "t", [5])
    assert values(cluster, 5, "t") == {n: value_of(n) for n in range(30)}


def test_an_operator_makes_the_longest_log_lead(make):
    """Kafka's tool at any broker; of two that lag the longer one, the last known leader waited for in vain."""
    need_java()
    cluster = started(make(5, **QUICK))            # 1, 2 and 3 vote
    with_partition(cluster, "t", [4, 5, 3])
    produce(cluster, 4, "t", 0, 20)
    cluster.kill(5)
    wait_isr(cluster, "t", [4, 3])
    produce(cluster, 4, "t", 20, 30)
    cluster.kill(3)
    wait_isr(cluster, "t", [4])
    produce(cluster, 4, "t", 50, 30)
    cluster.kill(4)
    cluster.start_one(5)
    cluster.start_one(3)
    for i in (3, 5):
        cluster.wait_state(i, "running", of=[1, 2, 3, 5])
    text = java(TOOLS + "LeaderElectionCommand", "--bootstrap-server", cluster.nodes[1].bootstrap, "--election-type", "unclean", "--topic", "t", "--partition", "0")
    assert "Successfully completed leader election (UNCLEAN)" in text, text
    wait_leader(cluster, "t", [3])
    wait_isr(cluster, "t", [3, 5])
    assert len(values(cluster, 3, "t")) == 50
    entry, = losses(cluster, 3, topic="t")
    assert (entry["reason"], entry["from_offset"]) == ("operator", 50)


def test_what_is_kept_of_a_cut_is_bounded(make):
    cluster = started(make(**QUICK, **{"ottla.loss.keep.partition.bytes": 1000}))
    unclean(cluster, "t", **{"unclean.leader.election.enable": "true"})
    wait_leader(cluster, "t", [2])
    cluster.start_one(1)
    wait_isr(cluster, "t", [1, 2])
    cut, = losses(cluster, 1, topic="t")
    assert cut["kept"]["what"] == "part" and 0 < cut["kept"]["bytes"] <= 1000 and 50 < cut["kept"]["end_offset"] < 80
    file = f"{cut['kept']['folder']}/{50:020}.log"
    assert [offset for offset, *_ in batch.records(open(file, "rb").read())] == list(range(50, cut["kept"]["end_offset"]))
    cluster.close()
    cluster = started(make(**QUICK, **{"ottla.loss.keep.bytes": 0, "unclean.leader.election.enable": "true"}))
    unclean(cluster, "t")
    wait_leader(cluster, "t", [2])
    cluster.start_one(1)
    wait_isr(cluster, "t", [1, 2])
    cut, = losses(cluster, 1, topic="t")
    assert (cut["from_offset"], cut["end_offset"], cut["kept"]) == (50, 80, {"what": "no_room", "bytes": 0, "end_offset": None, "folder": None})


def test_what_nobody_was_promised_needs_no_entry(make):
    """Records that only their leader had, acknowledged with acks=1 above its high watermark."""
    cluster = started(make(**QUICK, broker_session_timeout_ms=15000))         # who pauses stays in the ISR, however busy the machine
    with_partition(cluster, "t", [1, 2], **{"ottla.durability": "replicated"})
    produce(cluster, 1, "t", 0, 10)
    wait_checkpoint(cluster, 1, "t", 10)
    cluster.pause(2)
    assert produce(cluster, 1, "t", 10, 5, acks=1) == list(range(10, 15))
    cluster.kill(1)
    cluster.go_on(2)
    wait_leader(cluster, "t", [2])
    produce(cluster, 2, "t", 100, 3)
    cluster.start_one(1)
    wait_isr(cluster, "t", [1, 2])
    assert re.search(r"replica cut topic=t partition=0 from=15 to=1[0-4] high_watermark=10", cluster.nodes[1].log()), cluster.nodes[1].log_tail()
    assert losses(cluster, 1) == losses(cluster, 2) == []
    def told():
        return [e for e in (cluster.nodes[3].view("/v1/events?types=records_cut&limit=100") or {"items": []})["items"] if e["topic"] == "t"]
    event, = harness.until(told, 20, "the event")
    from_offset, epoch = event["from_offset"], event["epochs"][0]["epoch"]
    assert 10 <= from_offset < 15 and event["epochs"] == [{"epoch": epoch, "start_offset": from_offset}] and epoch < event["leader_epoch"]
    assert {**event, "id": 0, "at": 0, "source": 0, "from_offset": 0, "epochs": 0, "leader_epoch": 0} == {
        "id": 0, "at": 0, "source": 0, "from_offset": 0, "epochs": 0, "leader_epoch": 0, "type": "records_cut", "topic": "t", "partition": 0, "broker": 1, "reason": "divergence", "number": None,
        "kind": "cut", "end_offset": 15, "high_watermark": 10, "last_epoch": epoch, "kept": "nothing", "kept_bytes": 0, "folder": None}


def test_the_last_known_leader_is_waited_for(make):
    cluster = started(make(**{**QUICK, "ottla.unclean.election.wait.ms": 60000}))
    unclean(cluster, "t", **{"unclean.leader.election.enable": "true"})
    harness.never(lambda: leader_of(cluster, 2, "t") == 2, 3, "it is waited for")
    cluster.start_one(1)
    wait_leader(cluster, "t", [1])
    assert len(values(cluster, 1, "t")) == 80
    assert losses(cluster, 1) == losses(cluster, 2) == []
