"""Replicas that were lost come back: a broker or one of its log directories that is empty, fails, or returns; and what nobody else has is not made up. Real processes on loopback."""
import shutil
from pathlib import Path

import harness
from admin import Admin, error
from events_test import find
from replication_test import Load, check_nothing_lost, create, parts_of, read_all, started, wait_isr

OFFSETS = "__consumer_offsets"


def filled(cluster, topic="t", partitions=4, count=2000, **how):
    """A topic with a replica on each broker and records in it; what was acknowledged."""
    if parts_of(cluster.living()[0], topic) == {}:
        assert create(cluster.living()[0], topic, partitions=partitions, replication=3, segment_bytes=1048576, **how)["errorCode"] == 0
        wait_isr(cluster, topic, list(cluster.nodes))
    load = Load(cluster.bootstrap(), topic)
    harness.until(lambda: load.count() > count, 60, lambda: f"acknowledgements: {load.count()}, {load.failed[:3]}")
    return load.stop()


def directories(node):
    dirs = node.settings.get("log.dirs")
    return [Path(path) for path in dirs.split(",")] if dirs else [node.data]


def log_bytes(node, topic):
    """{folder: its segments as one} of all partitions of a topic on a broker that was stopped: segments may end elsewhere, their batches are the same."""
    folders = [folder for path in directories(node) for folder in path.glob(f"{topic}-*") if folder.name.rsplit("-", 1)[0] == topic]
    assert len({folder.name for folder in folders}) == len(folders), f"a partition lies twice: {folders}"
    return {folder.name: b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))) for folder in folders}


def same_everywhere(cluster, topic="t", partitions=4):
    """All brokers were stopped; what is on their disks is the same."""
    logs = {i: log_bytes(node, topic) for i, node in cluster.nodes.items()}
    first = logs[1]
    assert len(first) == partitions and all(len(data) > 0 for data in first.values())
    for i, other in logs.items():
        assert {name: len(data) for name, data in other.items()} == {name: len(data) for name, data in first.items()}, f"broker {i}"
        assert other == first, f"broker {i}"


def with_dirs(cluster, names=("a", "b")):
    for node in cluster.nodes.values():
        cluster.configure(node, **{"log.dirs": ",".join(str(node.directory / name) for name in names)})
    return cluster


def without_metadata(node):
    """The log directory that does not hold the metadata."""
    return next(path for path in directories(node) if not (path / "__ottla_meta").exists())


def test_a_broker_that_comes_back_empty_gets_its_replicas_back(make):
    cluster = started(make(offsets_topic_num_partitions=3))
    load = filled(cluster, min_insync_replicas=2)
    read_all(cluster.bootstrap(), "t", 4)
    victim = parts_of(cluster.nodes[1], "t")[0]["leaderId"]
    cluster.kill(victim)
    shutil.rmtree(cluster.nodes[victim].data)
    cluster.start_one(victim)
    wait_isr(cluster, "t", [1, 2, 3])
    more = filled(cluster, count=500)
    assert load.failed == more.failed == []
    rows = read_all(cluster.bootstrap(), "t", 4)
    check_nothing_lost(load, rows)
    check_nothing_lost(more, rows)
    wait_isr(cluster, "t", [1, 2, 3])              # a broker that got no processor for a session was out, and what was acknowledged then is not all there yet
    cluster.stop()
    same_everywhere(cluster)
    cluster.start()                                # and nothing of it is missed at the next start
    wait_isr(cluster, "t", [1, 2, 3])
    cluster.stop()


def test_a_cluster_whose_disks_were_replaced_one_by_one_comes_back_whole(make):
    """Each broker came back empty, one after the other. What nobody has written to yet has leaders after a restart of all of them, too: else no group could use most of the shards."""
    cluster = started(make(offsets_topic_num_partitions=3))
    assert create(cluster.nodes[1], "idle", partitions=4, replication=3, min_insync_replicas=2)["errorCode"] == 0
    filled(cluster, count=200, min_insync_replicas=2)
    with cluster.nodes[1].connect() as c:
        c.ask("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["g"]})
    for topic in ("idle", OFFSETS):
        wait_isr(cluster, topic, [1, 2, 3])
    for i in cluster.nodes:
        cluster.kill(i)
        shutil.rmtree(cluster.nodes[i].data)
        cluster.start_one(i)
        for topic in ("idle", OFFSETS, "t"):
            wait_isr(cluster, topic, [1, 2, 3])
        harness.until(lambda: "readmitted" in cluster.nodes[i].log(), 60, "it votes again")        # two that do not are no majority
    for i in cluster.nodes:
        cluster.kill(i)
    cluster.start()
    for topic in ("idle", OFFSETS, "t"):
        wait_isr(cluster, topic, [1, 2, 3])
    cluster.stop()
    cluster.start()
    for topic in ("idle", OFFSETS, "t"):
        wait_isr(cluster, topic, [1, 2, 3])
    cluster.stop()


def test_one_of_two_log_directories_that_comes_back_empty_is_filled_again(make):
    cluster = started(with_dirs(make()))
    load = filled(cluster, min_insync_replicas=2)
    victim = parts_of(cluster.nodes[1], "t")[0]["leaderId"]
    lost = without_metadata(cluster.nodes[victim])
    assert list(lost.glob("t-*"))                  # there is something to lose
    cluster.kill(victim)
    shutil.rmtree(lost)
    cluster.start_one(victim)
    wait_isr(cluster, "t", [1, 2, 3])
    check_nothing_lost(load, read_all(cluster.bootstrap(), "t", 4))
    cluster.stop()
    same_everywhere(cluster)


def test_a_log_directory_that_was_away_for_a_while_brings_nothing_old_back(make):
    cluster = started(with_dirs(make(), ("a", "b", "c")))
    filled(cluster, min_insync_replicas=2)
    node = cluster.nodes[3]
    away = next(path for path in directories(node) if not (path / "__ottla_meta").exists() and list(path.glob("t-*")))
    node.stop()
    away.rename(node.directory / "away")
    cluster.start_one(3)
    wait_isr(cluster, "t", [1, 2, 3])
    load = filled(cluster, count=500)
    node.stop()
    shutil.rmtree(away)
    (node.directory / "away").rename(away)
    old = {path.name for path in away.glob("t-*")}
    cluster.start_one(3)
    wait_isr(cluster, "t", [1, 2, 3])
    cluster.kill(1)
    wait_isr(cluster, "t", [2, 3])
    cluster.start_one(1)
    wait_isr(cluster, "t", [1, 2, 3])
    check_nothing_lost(load, read_all(cluster.bootstrap(), "t", 4))
    cluster.stop()
    same_everywhere(cluster)
    here = {path.name.split(".")[0] for path in away.glob("t-*-stray")}
    made_elsewhere = {path.name for other in directories(node) if other != away for path in other.glob("t-*")}
    assert here == old & made_elsewhere, "what was made anew elsewhere meanwhile is set aside, and nothing else"


def made(cluster, topic, replicas):
    with cluster.nodes[1].connect(timeout_s=40) as c:
        row = {"name": topic, "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": 0, "brokerIds": replicas}]}
        assert c.ask("CreateTopics", 7, {"topics": [row], "timeoutMs": 20000})["topics"][0]["errorCode"] == 0


def test_a_topic_made_anew_while_brokers_were_away_has_nothing_of_the_one_before(make):
    """A voter and a broker without a vote come back with the longer log of a topic of that name which is gone, and checkpoints of where it began; and with one whose name nobody has any more."""
    cluster = started(make(4, voters=3, log_flush_offset_checkpoint_interval_ms=200, replica_high_watermark_checkpoint_interval_ms=200))
    for topic in ("t", "gone"):
        made(cluster, topic, [1, 3, 4])
        wait_isr(cluster, topic, [1, 3, 4])
        with cluster.nodes[1].connect(timeout_s=40) as c:
            Admin(c).wait_for_leader(topic)
            for number in range(50):
                Admin(c).produce(topic, f"old {number}")
    with cluster.nodes[1].connect(timeout_s=40) as c:
        assert error(Admin(c).delete_records("t", 45)) == "NONE"
    for i in (3, 4):
        for file, row in (("log-start-offset-checkpoint", "t 0 45"), ("replication-offset-checkpoint", "t 0 50")):
            harness.until(lambda i=i, file=file, row=row: (path := cluster.nodes[i].data / file).exists() and row in path.read_text(), 20, f"{row} in {file} of {i}")
    before = parts_of(cluster.nodes[1], "t")[0]["leaderEpoch"]
    for i in (3, 4):
        cluster.kill(i)
    wait_isr(cluster, "t", [1])
    with cluster.nodes[1].connect(timeout_s=40) as c:
        for topic in ("t", "gone"):
            Admin(c).delete(topic)
        made(cluster, "t", [1, 3, 4])
        Admin(c).wait_for_leader("t")
        for number in range(30):
            Admin(c).produce("t", f"new {number}")
    for i in (3, 4):
        cluster.start_one(i)
    wait_isr(cluster, "t", [1, 3, 4])
    for i in (3, 4):
        harness.until(lambda i=i: not list(cluster.nodes[i].data.glob("gone-0*")), 60, lambda i=i: f"what nobody has any more is cleared away: {list(cluster.nodes[i].data.glob('*-0*'))}")
    cluster.kill(1)
    harness.until(lambda: parts_of(cluster.nodes[4], "t")[0]["leaderId"] in (3, 4), 30, "another leader")
    rows = read_all(cluster.bootstrap(), "t")[0]
    assert rows == [(number, b"new %d" % number) for number in range(30)]
    assert parts_of(cluster.nodes[4], "t")[0]["leaderEpoch"] > before
    cluster.start_one(1)
    wait_isr(cluster, "t", [1, 3, 4])
    cluster.stop()
    logs = [log_bytes(cluster.nodes[i], "t") for i in (1, 3, 4)]
    assert len(logs[0]["t-0"]) > 0 and logs[0] == logs[1] == logs[2]


def test_a_log_directory_that_fails_is_replaced_by_another_one(make):
    cluster = started(with_dirs(make(log_flush_offset_checkpoint_interval_ms=500)))
    load = filled(cluster, min_insync_replicas=2)
    victim = parts_of(cluster.nodes[1], "t")[0]["leaderId"]
    node = cluster.nodes[victim]
    failing = without_metadata(node)
    assert list(failing.glob("t-*"))
    failing.rename(node.directory / "away")
    failing.write_text("no directory any more")    # the next checkpoint does not find its way
    harness.until(lambda: "log_dir_offline" in node.log(), 30, lambda: node.log_tail())
    harness.until(lambda: "made_anew" in node.log(), 30, lambda: node.log_tail())
    wait_isr(cluster, "t", [1, 2, 3])
    more = filled(cluster, count=500)
    rows = read_all(cluster.bootstrap(), "t", 4)
    check_nothing_lost(load, rows)
    check_nothing_lost(more, rows)
    node.stop()
    failing.unlink()
    (node.directory / "away").rename(failing)      # it was the cable
    cluster.start_one(victim)
    wait_isr(cluster, "t", [1, 2, 3])
    cluster.stop()
    same_everywhere(cluster)


def test_what_only_the_empty_broker_held_is_not_made_up(make):
    cluster = started(make())
    first = cluster.nodes[1]
    with first.connect() as c:
        for topic, brokers in (("alone", [3]), ("two", [2, 3])):
            row = {"name": topic, "numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": 0, "brokerIds": brokers}]}
            assert c.ask("CreateTopics", 7, {"topics": [row], "timeoutMs": 10000})["topics"][0]["errorCode"] == 0
    for topic, leader in (("alone", 3), ("two", 2)):
        with cluster.nodes[leader].connect() as c:
            Admin(c).wait_for_leader(topic)
            Admin(c).produce(topic, "one")
    wait_isr(cluster, "two", [2, 3])
    cluster.kill(2)
    wait_isr(cluster, "two", [3])
    with cluster.nodes[3].connect() as c:
        Admin(c).produce("two", "of 3 alone")
    cluster.kill(3)
    shutil.rmtree(cluster.nodes[3].data)
    cluster.start_one(2, wait=False)
    cluster.start_one(3)
    cluster.nodes[2].wait_ready()
    cluster.wait_state(3, "running", of=[1, 2, 3])
    for node in cluster.nodes.values():
        row = parts_of(node, "two")[0]
        assert row["leaderId"] == -1 and row["isrNodes"] == [], row        # 2 lacks a record that was acknowledged, 3 lacks all
    with cluster.nodes[3].connect() as c:
        assert error(Admin(c).produce_raw("alone", b"")) != "NONE"
        assert error(Admin(c).list_offset("alone", -1)) != "NONE"          # not: the log is empty
    ask = {"electionType": 1, "topicPartitions": [{"topic": "two", "partitions": [0]}], "timeoutMs": 10000}
    with first.connect() as c:
        answer = c.ask("ElectLeaders", 2, ask)
    print(answer)
    wait_isr(cluster, "two", [2, 3])               # somebody said that what there is counts; then 3 has it too
    with cluster.nodes[parts_of(first, "two")[0]["leaderId"]].connect() as c:
        assert [r[3] for r in Admin(c).records("two")] == [b"one"]
    cluster.stop()


def configure(node, kind, name, **configs):
    """Dynamic configs; kind: 2 a topic, 4 brokers (name "" is all of them)."""
    body = {"resources": [{"resourceType": kind, "resourceName": name, "configs": [{"name": key.replace("_", "."), "configOperation": 0, "value": str(value)} for key, value in configs.items()]}],
            "validateOnly": False}
    with node.connect() as c:
        assert all(row["errorCode"] == 0 for row in c.ask("IncrementalAlterConfigs", 1, body)["responses"])


def sealed(node, topic):
    """Segment files of a topic that are not the last of their partition."""
    return [path for folder in sorted(node.data.glob(f"{topic}-*")) for path in sorted(folder.glob("*.log"))[:-1]]


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    with open(path, "r+b") as f:
        f.seek(len(data) // 2)
        f.write(data[len(data) // 2:len(data) // 2 + 1])


def test_a_flipped_byte_in_a_cold_segment_is_mended_from_a_replica(make):
    cluster = started(make(ottla_scrub_interval_ms=500))
    with cluster.nodes[1].connect() as c:
        rows = [{"partitionIndex": 0, "brokerIds": [1, 2, 3]}]
        configs = [{"name": "segment.bytes", "value": "1048576"}, {"name": "min.insync.replicas", "value": "2"}]
        topic = {"name": "t", "numPartitions": -1, "replicationFactor": -1, "assignments": rows, "configs": configs}
        assert c.ask("CreateTopics", 7, {"topics": [topic], "timeoutMs": 10000})["topics"][0]["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    with cluster.nodes[1].connect() as c:
        Admin(c).wait_for_leader("t")
        for number in range(60):
            Admin(c).produce("t", b"%d" % number * 40000)
    follower, leader = cluster.nodes[2], cluster.nodes[1]
    for node in (follower, leader):
        assert parts_of(cluster.nodes[3], "t")[0]["leaderId"] == 1
        flip(sealed(node, "t")[0])
        harness.until(lambda node=node: "damage_found" in node.log() and "made_anew" in node.log(), 60, lambda node=node: node.log_tail())
        wait_isr(cluster, "t", [1, 2, 3])
        told = find(cluster.nodes[3], type="records_repaired", broker=node.id)
        assert (told["topic"], told["partition"], told["reason"]) == ("t", 0, "damage_found") and told["from_offset"] >= told["segment"] == 0
    assert parts_of(cluster.nodes[3], "t")[0]["leaderId"] != 1     # another one took over meanwhile
    cluster.stop()
    same_everywhere(cluster, partitions=1)


def test_damage_of_the_only_replica_is_told_and_nothing_is_cut(own_broker):
    broker = own_broker(ottla_scrub_interval_ms="300")
    with broker.connect() as c:
        Admin(c).create("t", segment_bytes=1048576)
        for number in range(60):
            Admin(c).produce("t", b"%d" % number * 40000)
        end = Admin(c).list_offset("t", -1)["offset"]
        before = [path.stat().st_size for path in sealed(broker, "t")]
        flip(sealed(broker, "t")[1])
        harness.until(lambda: "damage_stays" in broker.log(), 30, lambda: broker.log_tail())
        assert Admin(c).list_offset("t", -1)["offset"] == end and [path.stat().st_size for path in sealed(broker, "t")] == before
        assert [r[0] for r in Admin(c).records("t", offset=end - 5)] == list(range(end - 5, end))
        configure(broker, 4, "", ottla_scrub_bytes_per_second=0)
        found = broker.log().count("damage_found")
        assert found > 0


def test_scrubbing_is_switched_off_by_a_rate_of_zero(own_broker):
    broker = own_broker(ottla_scrub_interval_ms="100", ottla_scrub_bytes_per_second="0")
    with broker.connect() as c:
        Admin(c).create("t", segment_bytes=1048576)
        for number in range(40):
            Admin(c).produce("t", b"%d" % number * 40000)
        flip(sealed(broker, "t")[0])
        Admin(c).create("u")
        for number in range(20):                   # some passes would have begun meanwhile
            Admin(c).produce("u", b"x")
            harness.http(broker.rest + "/metrics")
        assert "damage_found" not in broker.log()
        configure(broker, 4, "", ottla_scrub_bytes_per_second=100000000)
        harness.until(lambda: "damage_found" in broker.log(), 30, lambda: broker.log_tail())


def test_throttled_replicas_come_back_slowly_and_others_are_not_held(make):
    for who in ("leader", "follower"):
        cluster = started(make())
        filled(cluster, min_insync_replicas=2, partitions=2, count=200)
        assert create(cluster.nodes[1], "big", partitions=1, replication=3, min_insync_replicas=2)["errorCode"] == 0
        wait_isr(cluster, "big", [1, 2, 3])
        leader = parts_of(cluster.nodes[1], "big")[0]["leaderId"]
        with cluster.nodes[leader].connect() as c:
            Admin(c).wait_for_leader("big")
            for number in range(20):
                Admin(c).produce("big", b"%d" % (number % 10) * 900000)
        victim = next(i for i in cluster.nodes if i != leader)
        configure(cluster.nodes[leader], 2, "big", **{f"{who}_replication_throttled_replicas": f"0:{leader if who == 'leader' else victim}"})
        configure(cluster.nodes[leader], 4, "", **{f"{who}_replication_throttled_rate": 100000})
        cluster.kill(victim)
        shutil.rmtree(cluster.nodes[victim].data)
        cluster.start_one(victim)
        wait_isr(cluster, "t", [1, 2, 3])          # its other partitions are all there
        load = filled(cluster, count=300)          # and take records, which wait for all three
        assert load.failed == []
        assert victim not in parts_of(cluster.nodes[leader], "big")[0]["isrNodes"], "18 MB at 100 kB/s take three minutes"
        with cluster.nodes[leader].connect() as c:
            assert Admin(c).produce("big", b"in sync are not held") >= 20
        configure(cluster.nodes[leader], 4, "", **{f"{who}_replication_throttled_rate": 1 << 40})
        wait_isr(cluster, "big", [1, 2, 3])
        cluster.stop()


def test_deleted_records_are_gone_on_every_live_replica_when_it_is_answered(make):
    cluster = started(make(broker_session_timeout_ms=20000))
    assert create(cluster.nodes[1], "t", partitions=1, replication=3, min_insync_replicas=1)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    leader = parts_of(cluster.nodes[1], "t")[0]["leaderId"]
    follower = next(i for i in cluster.nodes if i != leader)

    def delete(before, timeout_ms):
        with cluster.nodes[leader].connect(timeout_s=40) as c:
            body = {"timeoutMs": timeout_ms, "topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "offset": before}]}]}
            row = c.ask("DeleteRecords", 2, body)["topics"][0]["partitions"][0]
            return error(row), row["lowWatermark"]
    with cluster.nodes[leader].connect() as c:
        Admin(c).wait_for_leader("t")
        Admin(c).produce("t", *[b"%d" % number for number in range(10)])
    assert delete(4, 20000) == ("NONE", 4)
    cluster.pause(follower)                        # not taken for gone yet: it is waited for
    assert delete(7, 500)[0] == "REQUEST_TIMED_OUT"
    cluster.go_on(follower)
    assert delete(7, 20000) == ("NONE", 7)
    cluster.stop()
