"""What operators do to a cluster over REST and `ottla cluster`: drain, decommission, forget, hand the controller's role over, elect, move replicas, see who lags. Real processes on loopback."""
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
import pytest
import yaml
from cluster_load import create as create_at
from replication_test import Load, check_nothing_lost, create, parts_of, read_all, started, wait_isr

CONTRACT = yaml.safe_load((Path(__file__).resolve().parents[2] / "openapi" / "ottla.yaml").read_text())
QUIET = {"auto_leader_rebalance_enable": "false"}


def rest(node, method, path, body=None, expect=None, timeout_s=40):
    status, headers, data = harness.http(node.rest + path, method, None if body is None else json.dumps(body).encode(), {} if body is None else {"Content-Type": "application/json"},
                                         timeout_s=timeout_s)
    assert expect is None or status in (expect if isinstance(expect, tuple) else (expect,)), (method, path, status, data)
    return status, json.loads(data) if data else None


def get(node, path):
    return rest(node, "GET", path, expect=200)[1]


def cli(node, *words, code=0, stdin=None, noun="cluster"):
    done = subprocess.run([harness.BINARY, noun, *words, "--api", node.rest], capture_output=True, text=True, timeout=120, check=False, input=stdin)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def fill(cluster, topic, megabytes, partitions):
    """Some of everything, acknowledged by all in sync."""
    from confluent_kafka import Producer
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all", "linger.ms": 20, "compression.type": "none", "message.timeout.ms": 60000})
    value = bytes(range(256)) * 40
    for i in range(megabytes * (1 << 20) // len(value)):
        producer.produce(topic, value, partition=i % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0


def leaders(node, topic):
    return {p: row["leaderId"] for p, row in parts_of(node, topic).items()}


@pytest.mark.smoke
def test_a_drained_broker_leads_nothing_until_it_is_undrained(make):
    cluster = started(make(leader_imbalance_check_interval_seconds="1"))
    assert create(cluster.nodes[1], "t", partitions=6, replication=3, min_insync_replicas=2)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    load = Load(cluster.bootstrap(), "t", **{"enable.idempotence": True})
    harness.until(lambda: load.count() > 200, 30, lambda: f"acknowledgements: {load.count()}, {load.failed[:3]}")
    harness.until(lambda: 2 in leaders(cluster.nodes[1], "t").values(), 20, lambda: leaders(cluster.nodes[1], "t"))
    status, body = rest(cluster.nodes[1], "PUT", "/v1/brokers/2/maintenance", expect=(200, 202))
    assert body["maintenance"] and body["state"] == ("draining" if status == 202 else "drained")
    harness.until(lambda: get(cluster.nodes[3], "/v1/brokers/2/maintenance")["state"] == "drained", 20, lambda: get(cluster.nodes[3], "/v1/brokers/2"))
    harness.until(lambda: get(cluster.nodes[2], "/v1/brokers/2")["state"] == "drained" and 2 not in leaders(cluster.nodes[1], "t").values(), 20, lambda: get(cluster.nodes[2], "/v1/brokers/2"))
    wait_isr(cluster, "t", [1, 2, 3])                          # it goes on following
    # neither its restart, nor another coordinator, nor the balance of leaders, nor a new topic brings them back
    cluster.nodes[2].stop()
    cluster.start_one(2)
    cluster.wait_state(2, "drained", of=list(cluster.nodes))
    wait_isr(cluster, "t", [1, 2, 3])
    first = cluster.controller()
    other = next(i for i in (1, 3) if i != first) if first != 2 else 1
    rest(cluster.nodes[other], "POST", "/v1/cluster/controller/resign", expect=202)
    cluster.controller(not_in=[first])
    assert create(cluster.nodes[1], "later", partitions=6, replication=3)["errorCode"] == 0
    before = load.count()
    harness.until(lambda: load.count() > before + 300, 30, lambda: f"acknowledgements: {load.count() - before}, {load.failed[:3]}")
    assert 2 not in leaders(cluster.nodes[1], "t").values() and 2 not in leaders(cluster.nodes[1], "later").values()
    rest(cluster.nodes[3], "DELETE", "/v1/brokers/2/maintenance", expect=204)
    harness.until(lambda: 2 in leaders(cluster.nodes[1], "t").values(), 30, lambda: leaders(cluster.nodes[1], "t"))
    assert get(cluster.nodes[1], "/v1/brokers/2")["state"] == "running"
    load.stop()

    def told():
        rows = get(cluster.nodes[1], "/v1/events?types=maintenance_begun,maintenance_ended&broker=2&order=oldest")["items"]
        return [row["type"] for row in rows] == ["maintenance_begun", "maintenance_ended"]
    harness.until(told, 20, lambda: get(cluster.nodes[1], "/v1/events?types=broker,config"))
    assert "maintenance_ended" in cli(cluster.nodes[1], "events", "--types", "broker", "--broker", "2")
    assert load.failed == []
    check_nothing_lost(load, read_all(cluster.bootstrap(), "t", 6), once=True)


def test_elections_prefer_others_to_a_broker_in_maintenance_but_take_it_when_it_is_the_last(make):
    cluster = started(make(**QUIET))
    assert create(cluster.nodes[1], "t", partitions=3, replication=3)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    rest(cluster.nodes[1], "PUT", "/v1/brokers/3/maintenance", expect=(200, 202))
    harness.until(lambda: 3 not in leaders(cluster.nodes[1], "t").values(), 20, lambda: leaders(cluster.nodes[1], "t"))
    cluster.kill(2)
    harness.until(lambda: set(leaders(cluster.nodes[1], "t").values()) == {1}, 20, lambda: leaders(cluster.nodes[1], "t"))
    cluster.start_one(2)
    cluster.wait_state(2, "running", of=list(cluster.nodes))
    wait_isr(cluster, "t", [1, 2, 3])
    rest(cluster.nodes[1], "PUT", "/v1/brokers/1/maintenance", expect=(200, 202))
    rest(cluster.nodes[1], "PUT", "/v1/brokers/2/maintenance", expect=(200, 202))
    cluster.kill(2)
    harness.until(lambda: all(i in (1, 3) for i in leaders(cluster.nodes[1], "t").values()), 20, "somebody leads though all drain")


def test_a_drain_finds_another_leader_though_the_first_replica_is_dead(make):
    cluster = started(make(**QUIET))
    create_at(cluster.nodes[1], "t", 4, assignments=[[1, 2, 3]] * 4)
    wait_isr(cluster, "t", [1, 2, 3])
    cluster.kill(1)
    harness.until(lambda: set(leaders(cluster.nodes[2], "t").values()) == {2}, 30, lambda: leaders(cluster.nodes[2], "t"))
    leads, to_move = map(int, re.search(r"broker 2: not drained, leads (\d+), of which others could lead (\d+)\n", cli(cluster.nodes[3], "drain", "2", "--dry-run")).groups())
    assert leads >= to_move >= 4                               # the topic of events may be among them
    assert "broker 2: drained, leads 0, 0 to move" in cli(cluster.nodes[3], "drain", "2", "--wait")
    assert set(leaders(cluster.nodes[2], "t").values()) == {3}


def test_a_file_of_kafkas_reassignment_tool_is_taken(make):
    cluster = started(make(**QUIET))
    create_at(cluster.nodes[1], "t", 2, assignments=[[1, 2], [2, 3]])
    moves = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2], "log_dirs": ["any", "/var/lib/kafka"]}]}
    assert cli(cluster.nodes[2], "reassign", "start", "--file", "-", "--yes", stdin=json.dumps(moves)).endswith("1 begun, 0 refused: ottla cluster reassign status\n")
    harness.until(lambda: [row["replicaNodes"] for _, row in sorted(parts_of(cluster.nodes[1], "t").items())] == [[3, 2], [2, 3]], 30, lambda: parts_of(cluster.nodes[1], "t"))


def test_a_decommission_does_not_wait_for_a_target_that_died(make):
    cluster = started(make(5, voters=3, **QUIET, replica_lag_time_max_ms="3000"))
    create_at(cluster.nodes[1], "t", 20, assignments=[[4, 1, 2]] * 20, follower_replication_throttled_replicas="*")
    fill(cluster, "t", 20, 20)
    cli(cluster.nodes[5], "set", "--broker", "5", "follower.replication.throttled.rate=1000", noun="config")     # what goes to 5 takes long
    rest(cluster.nodes[1], "PUT", "/v1/brokers/4/decommission", expect=202)

    def to_five():
        return [p for p, row in parts_of(cluster.nodes[1], "t").items() if 5 in row["replicaNodes"] and 4 in row["replicaNodes"]]
    harness.until(to_five, 30, lambda: parts_of(cluster.nodes[1], "t"))
    cluster.kill(5)
    harness.until(lambda: get(cluster.nodes[1], "/v1/brokers/4/decommission")["state"] == "done", 90, lambda: get(cluster.nodes[1], "/v1/brokers/4/decommission"), 0.2)
    assert all(sorted(row["replicaNodes"]) == [1, 2, 3] for row in parts_of(cluster.nodes[1], "t").values())


def test_a_decommission_takes_back_what_was_on_its_way_to_the_broker_that_died(make):
    """Somebody's move put it among the replicas to come, and it is dead for good: nobody else would ever end that move, and what it holds by it could not be forgotten."""
    cluster = started(make(4, voters=3, **QUIET, replica_lag_time_max_ms="3000"))
    create_at(cluster.nodes[1], "t", 4, assignments=[[1, 2]] * 4, follower_replication_throttled_replicas="*")
    fill(cluster, "t", 8, 4)
    cli(cluster.nodes[4], "set", "--broker", "4", "follower.replication.throttled.rate=1000", noun="config")     # what goes to 4 takes long
    moves = [{"topic": "t", "partition": p, "replicas": [4, 1]} for p in range(4)]
    rest(cluster.nodes[1], "POST", "/v1/reassignments", {"moves": moves, "dry_run": False}, expect=202)
    cluster.kill(4)
    cluster.wait_state(4, "fenced", of=[1, 2, 3])
    assert any(4 in row["replicaNodes"] for row in parts_of(cluster.nodes[1], "t").values())
    rest(cluster.nodes[1], "PUT", "/v1/brokers/4/decommission", expect=202)
    harness.until(lambda: get(cluster.nodes[1], "/v1/brokers/4/decommission")["state"] == "done", 60, lambda: get(cluster.nodes[1], "/v1/brokers/4/decommission"), 0.2)
    assert all(len(row["replicaNodes"]) == 2 and 4 not in row["replicaNodes"] for row in parts_of(cluster.nodes[1], "t").values())
    assert cli(cluster.nodes[1], "forget", "4", "--yes") == "broker 4 is forgotten\n"


def test_a_broker_without_a_partition_of_a_group_lists_no_groups_and_no_error(make):
    """With more brokers than replicas that is every broker, for some of the fifty; ListGroups asks all of them, and Kafka's tools go on asking one that is not available until their time is over."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient
    cluster = started(make(4, voters=3, offsets_topic_num_partitions=8, offsets_topic_replication_factor=2, **QUIET))
    assert create(cluster.nodes[1], "t", partitions=1, replication=3)["errorCode"] == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    groups = [f"g{i}" for i in range(6)]

    def committed():
        try:
            for group in groups:
                admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition("t", 0, 0)])])[group].result(20)
        except Exception:                                      # the topic of groups is not there yet  # noqa: BLE001
            return False
        return True
    harness.until(committed, 60, "offsets are committed")

    def listed():
        told = admin.list_consumer_groups(request_timeout=20).result(30)
        return [str(e) for e in told.errors] + sorted(row.group_id for row in told.valid)

    def complete(node):
        told = get(node, "/v1/groups")
        return not told.get("partial") and sorted(row["group"] for row in told["items"]) == groups
    harness.until(lambda: listed() == groups, 20, listed)
    for node in cluster.living():
        harness.until(lambda n=node: complete(n), 20, lambda n=node: get(n, "/v1/groups"))
    rest(cluster.nodes[1], "PUT", "/v1/brokers/4/decommission", expect=(200, 202))      # and where they were, and are no more
    harness.until(lambda: get(cluster.nodes[1], "/v1/brokers/4/decommission")["state"] == "done", 60, lambda: get(cluster.nodes[1], "/v1/brokers/4/decommission"), 0.2)
    harness.until(lambda: listed() == groups, 20, listed)
    harness.until(lambda: complete(cluster.nodes[4]), 20, lambda: get(cluster.nodes[4], "/v1/groups"))


def test_everything_moves_off_a_broker_that_is_decommissioned_and_then_it_is_forgotten(make):
    cluster = started(make(4, voters=3, **QUIET))
    assert create(cluster.nodes[1], "t", partitions=12, replication=3, min_insync_replicas=2)["errorCode"] == 0
    assert create(cluster.nodes[1], "u", partitions=4, replication=2)["errorCode"] == 0
    fill(cluster, "t", 24, 12)
    load = Load(cluster.bootstrap(), "t", **{"enable.idempotence": True})
    harness.until(lambda: load.count() > 200, 30, lambda: f"acknowledgements: {load.count()}, {load.failed[:3]}")
    assert get(cluster.nodes[1], "/v1/brokers/4")["replicas"] > 4
    assert rest(cluster.nodes[1], "DELETE", "/v1/brokers/4", expect=409)[1]["error"] == "HTTP_CONFLICT"           # alive
    rest(cluster.nodes[2], "PUT", "/v1/brokers/4/decommission?validate_only=true", expect=(200, 202))
    assert not get(cluster.nodes[1], "/v1/brokers/4/decommission")["decommission"]
    assert rest(cluster.nodes[2], "GET", "/v1/jobs/decommission-4", expect=404)[1]["error"] == "RESOURCE_NOT_FOUND"
    assert rest(cluster.nodes[2], "PUT", "/v1/brokers/4/decommission", expect=202)[1]["state"] == "running"
    harness.until(lambda: rest(cluster.nodes[3], "GET", "/v1/jobs/decommission-4")[1].get("kind") == "decommission", 30, "the job, at any broker")
    first = cluster.controller()
    victim = first if first != 4 else 1
    cluster.kill(victim)                                       # whoever leads next goes on
    asked = next(i for i in (1, 2, 3) if i != victim)
    cluster.controller(of=[asked], not_in=[victim])
    assert create(cluster.nodes[asked], "new", partitions=6, replication=2)["errorCode"] == 0
    assert all(4 not in p["replicaNodes"] for p in parts_of(cluster.nodes[asked], "new").values())
    cluster.start_one(victim)
    cluster.wait_state(victim, "running", of=list(cluster.nodes))
    harness.until(lambda: get(cluster.nodes[asked], "/v1/brokers/4/decommission")["state"] == "done", 90, lambda: get(cluster.nodes[asked], "/v1/brokers/4/decommission"), 0.2)
    assert get(cluster.nodes[asked], "/v1/brokers/4")["state"] == "decommissioned"
    job = get(cluster.nodes[asked], "/v1/jobs/decommission-4")
    assert (job["state"], job["result"]["partitions"], job["error"]) == ("done", 0, None)
    assert [j["job_id"] for j in get(cluster.nodes[asked], "/v1/jobs?state=done")["items"]] == ["decommission-4"]
    assert get(cluster.nodes[asked], "/v1/jobs?state=running")["items"] == []
    assert rest(cluster.nodes[asked], "DELETE", "/v1/jobs/decommission-4", expect=409)[1]["error"] == "HTTP_CONFLICT"
    for topic, count in (("t", 3), ("u", 2)):
        rows = parts_of(cluster.nodes[asked], topic)
        assert all(4 not in p["replicaNodes"] and len(p["replicaNodes"]) == count for p in rows.values()), rows
    wait_isr(cluster, "t", [1, 2, 3])
    load.stop()
    assert load.failed == []
    cluster.nodes[4].stop()
    cluster.wait_state(4, "fenced", of=[1, 2, 3])
    assert cli(cluster.nodes[asked], "forget", "4", "--yes") == "broker 4 is forgotten\n"
    assert rest(cluster.nodes[asked], "GET", "/v1/brokers/4", expect=404)[1]["error"] == "BROKER_ID_NOT_REGISTERED"
    rest(cluster.nodes[asked], "GET", "/v1/jobs/decommission-4", expect=404)
    check_nothing_lost(load, {p: rows for p, rows in read_all(cluster.bootstrap(), "t", 12).items()})
    cluster.start_one(4)                                       # by that id again: neither drained nor on its way out
    cluster.wait_state(4, "running", of=[1, 2, 3])


def test_a_decommission_is_a_job_like_others(make):
    cluster = started(make(5, voters=3, **QUIET))
    create_at(cluster.nodes[1], "t", 20, assignments=[[4, 1, 2]] * 20, follower_replication_throttled_replicas="*")
    fill(cluster, "t", 20, 20)
    for i in (3, 5):                                           # where it goes to, it goes slowly
        cli(cluster.nodes[i], "set", "--broker", str(i), "follower.replication.throttled.rate=1000", noun="config")
    status, headers, _ = harness.http(cluster.nodes[2].rest + "/v1/brokers/4/decommission", "PUT")
    assert (status, headers["Location"]) == (202, "/v1/jobs/decommission-4")
    verify = rest(cluster.nodes[1], "POST", "/v1/diagnostics/verify", {"topic": "t"}, expect=202)[1]["job_id"]
    harness.until(lambda: get(cluster.nodes[1], f"/v1/jobs/{verify}")["state"] == "done", 30, "the other job")
    ids = ["decommission-4", verify]
    harness.until(lambda: [j["job_id"] for j in get(cluster.nodes[3], "/v1/jobs")["items"]] == ids, 30, lambda: get(cluster.nodes[3], "/v1/jobs"))
    first = get(cluster.nodes[3], "/v1/jobs?limit=1")
    assert ([j["job_id"] for j in first["items"]], first["total"]) == (ids[:1], 2)
    second = get(cluster.nodes[3], f"/v1/jobs?limit=1&page_token={first['next_page_token']}")
    assert ([j["job_id"] for j in second["items"]], second["next_page_token"]) == (ids[1:], None)
    job = harness.until(lambda: (now := rest(cluster.nodes[5], "GET", "/v1/jobs/decommission-4")[1]).get("job_id") and int(now["progress"]["total"]) > 0 and now, 30,
                        lambda: rest(cluster.nodes[5], "GET", "/v1/jobs/decommission-4"))
    assert job["state"] == "running" and job["result"]["partitions"] > 0 and int(job["progress"]["done"]) <= int(job["progress"]["total"])
    for wrong in ("decommission-", "decommission-04", "decommission-4x", "decommission-99999999999", "decommission-1"):
        rest(cluster.nodes[1], "GET", f"/v1/jobs/{wrong}", expect=404)
        rest(cluster.nodes[1], "DELETE", f"/v1/jobs/{wrong}", expect=404)
    harness.until(lambda: rest(cluster.nodes[1], "GET", "/v1/jobs/decommission-4")[0] == 200, 30, "the job at the broker that is to cancel it")
    assert rest(cluster.nodes[1], "DELETE", "/v1/jobs/decommission-4?validate_only=true", expect=202)[1]["state"] == "running"
    assert get(cluster.nodes[2], "/v1/brokers/4/decommission")["decommission"]
    assert rest(cluster.nodes[1], "DELETE", "/v1/jobs/decommission-4", expect=202)[1]["state"] == "cancelled"
    assert not get(cluster.nodes[1], "/v1/brokers/4/decommission")["decommission"]
    rest(cluster.nodes[1], "DELETE", "/v1/jobs/decommission-4", expect=404)
    harness.until(lambda: get(cluster.nodes[2], "/v1/jobs")["total"] == 1, 30, lambda: get(cluster.nodes[2], "/v1/jobs"))


def test_a_decommission_that_cannot_end_is_refused_and_one_under_way_can_be_cancelled(make):
    cluster = started(make(**QUIET))
    assert create(cluster.nodes[1], "t", partitions=4, replication=3)["errorCode"] == 0
    status, problem = rest(cluster.nodes[1], "PUT", "/v1/brokers/3/decommission")
    assert status == 409 or problem["error"] == "INVALID_REPLICATION_FACTOR", (status, problem)
    assert create(cluster.nodes[1], "u", partitions=6, replication=1)["errorCode"] == 0
    rest(cluster.nodes[1], "DELETE", "/v1/brokers/3/decommission", expect=204)                                  # nothing to cancel: fine
    assert get(cluster.nodes[1], "/v1/brokers/3")["state"] == "running"
    assert rest(cluster.nodes[1], "GET", "/v1/brokers/9/decommission", expect=404)[1]["error"] == "BROKER_ID_NOT_REGISTERED"


def test_a_restart_check_says_no_when_acks_all_or_the_majority_is_at_stake(make):
    cluster = started(make(**QUIET))
    assert create(cluster.nodes[1], "t", partitions=2, replication=3, min_insync_replicas=2)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    check = get(cluster.nodes[1], "/v1/brokers/2/restart-check")
    assert check["safe"] and check["reasons"] == [] and check["partitions"] == []
    assert "may stop now" in cli(cluster.nodes[1], "restart-check", "2")

    def spare(path):
        row = get(cluster.nodes[2], path)
        return row["spare_for_writes"], row["spare_for_data"]
    assert spare("/v1/topics/t") == spare("/v1/topics/t/partitions/1") == (1, 2)     # one may go and acks=all is taken; two may, and nothing acknowledged is lost
    cluster.kill(3)
    wait_isr(cluster, "t", [1, 2])
    assert spare("/v1/topics/t") == spare("/v1/topics/t/partitions/1") == (0, 1)
    check = get(cluster.nodes[1], "/v1/brokers/2/restart-check")
    assert not check["safe"] and check["would_be_under_min_isr"] == 2 and check["would_be_offline"] == 0
    assert {(p["topic"], p["partition"], p["effect"]) for p in check["partitions"]} == {("t", 0, "under_min_isr"), ("t", 1, "under_min_isr")}
    assert "the coordinator would have no majority of its voters" in check["reasons"]
    assert "should not stop now" in cli(cluster.nodes[1], "restart-check", "2", code=8)
    assert get(cluster.nodes[1], "/v1/brokers/3/restart-check")["safe"]                                          # it is dead already
    cluster.start_one(3)
    wait_isr(cluster, "t", [1, 2, 3])
    assert create(cluster.nodes[1], "lone", partitions=3, replication=1)["errorCode"] == 0
    holder = parts_of(cluster.nodes[1], "lone")[0]["leaderId"]
    check = get(cluster.nodes[1], f"/v1/brokers/{holder}/restart-check")
    assert not check["safe"] and check["would_be_offline"] >= 1


def test_a_restart_check_says_no_while_nobody_coordinates(make):
    """Two of three have died at once: by the metadata, which nobody changes any more, all of them live, and one may well stop."""
    cluster = started(make(**QUIET))
    cluster.kill(2)
    cluster.kill(3)

    def blind():
        check = get(cluster.nodes[1], "/v1/brokers/1/restart-check")
        return not check["safe"] and "there is no coordinator now, so what is known here may be old" in check["reasons"]
    harness.until(blind, 20, lambda: get(cluster.nodes[1], "/v1/brokers/1/restart-check"))
    assert "there is no coordinator now" in cli(cluster.nodes[1], "restart-check", "1", code=8)


def test_elections_over_rest(make):
    cluster = started(make(**QUIET))
    assert create(cluster.nodes[1], "t", partitions=3, replication=3)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    victim = parts_of(cluster.nodes[1], "t")[0]["leaderId"]
    cluster.kill(victim)
    asked = cluster.living()[0]
    harness.until(lambda: leaders(asked, "t")[0] not in (victim, -1), 20, "another leader")
    def named():                                               # the first of those that a check is about
        check = next(c for c in get(asked, "/v1/cluster/health")["checks"] if c["name"] == "no_under_replicated")
        names = [f"{o['topic']}-{o['partition']}" for o in check["offenders"]]
        assert len(names) == check["count"]
        return len(names) >= 3 and ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") in cli(asked, "health", code=8)
    harness.until(named, 20, lambda: cli(asked, "health", code=8))
    status, problem = rest(asked, "POST", "/v1/topics/t/partitions/0/elections", {"type": "preferred", "dry_run": False})
    assert (status, problem["error"]) == (409, "PREFERRED_LEADER_NOT_AVAILABLE")
    cluster.start_one(victim)
    wait_isr(cluster, "t", [1, 2, 3])
    dry = rest(asked, "POST", "/v1/elections", {"type": "preferred", "dry_run": True}, expect=200)[1]
    assert [(i["topic"], i["partition"], i["new_leader"]) for i in dry["items"]] == [("t", 0, victim)] and leaders(asked, "t")[0] != victim
    mixed = rest(asked, "POST", "/v1/elections", {"type": "preferred", "partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 9}], "dry_run": False}, expect=207)[1]
    assert mixed["items"][0]["error"] is None and mixed["items"][0]["new_leader"] == victim and mixed["items"][1]["error"]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    harness.until(lambda: leaders(asked, "t")[0] == victim, 10, "the preferred leader")
    assert rest(asked, "POST", "/v1/topics/t/partitions/0/elections", {"type": "preferred", "dry_run": False})[1]["error"] == "ELECTION_NOT_NEEDED"
    for words in (("t:0",), ("t",), (), ("t:0", "--type", "unclean")):                                           # done already, which is no failure
        idle = subprocess.run([harness.BINARY, "cluster", "elect", *words, "-o", "json", "--api", asked.rest], capture_output=True, text=True, timeout=240, check=False)
        assert idle.returncode == 0 and json.loads(idle.stdout)["items"] == [] and "nothing to do" in idle.stderr, idle
    cli(asked, "elect", "t:0", "t:9", code=7)                                                                    # the other one failed
    for words in (("t:0", "--leader", "1"), ("--type", "unclean", "--leader", "1")):
        assert cli(asked, "elect", *words, code=2) == ""
    status, problem = rest(asked, "POST", "/v1/elections", {"type": "unclean", "dry_run": False, "partitions": [{"topic": "t", "partition": 0}]})
    assert status == 400 and problem["errors"][0]["pointer"] == "/accept_data_loss"
    status, problem = rest(asked, "POST", "/v1/elections", {"type": "preferred"})
    assert status == 400 and problem["errors"][0]["pointer"] == "/dry_run"
    assert "orders" not in cli(asked, "elect", "--dry-run")


def test_what_an_unclean_election_would_lose_is_told_before_it_is_made(make):
    cluster = started(make(**QUIET, **{"min.insync.replicas": 1}))
    assert create(cluster.nodes[1], "t", partitions=1, replication=2)["errorCode"] == 0
    first, second = parts_of(cluster.nodes[1], "t")[0]["replicaNodes"]
    wait_isr(cluster, "t", [first, second])
    fill(cluster, "t", 1, 1)
    third = next(i for i in cluster.nodes if i not in (first, second))
    create_at(cluster.nodes[third], "u", 1, assignments=[[first, second]])
    wait_isr(cluster, "u", [first, second])
    harness.until(lambda: parts_of(cluster.nodes[third], "t").get(0), 20, "the topic everywhere")
    harness.until(lambda: len({r["log_end_offset"] for r in get(cluster.nodes[third], "/v1/topics/t/partitions/0")["replica_state"]}) == 1, 20, "both have all")
    held = get(cluster.nodes[third], "/v1/topics/t/partitions/0")["log_end_offset"]
    cluster.kill(second)
    wait_isr(cluster, "t", [first])
    wait_isr(cluster, "u", [first])
    fill(cluster, "t", 1, 1)
    end = get(cluster.nodes[third], "/v1/topics/t/partitions/0")["log_end_offset"]
    assert end > held
    cluster.kill(first)
    cluster.start_one(second)                                  # a majority again; the one that has everything stays dead
    cluster.wait_state(second, "running", of=[third, second])
    harness.until(lambda: leaders(cluster.nodes[third], "t")[0] == -1, 20, "nobody leads")

    def told():
        view = get(cluster.nodes[third], "/v1/unclean-election")
        rows = view["leaderless"]
        return rows and rows[0]["candidates"] and rows[0]["candidates"][0]["log_end_offset"] == held and view
    view = harness.until(told, 20, lambda: get(cluster.nodes[third], "/v1/unclean-election"))
    row = view["leaderless"][0]
    assert view["default"] is False and row["offline"] == [first] and row["candidates"][0]["broker"] == second and row["candidates"][0]["would_be_chosen"]
    assert row["candidates"][0]["lost"]["start"] <= held and row["candidates"][0]["lost"]["end"] is None        # who is away may have more

    def paged():                                               # of each page its own partitions are known
        pages, token = [], ""
        while token is not None:
            pages.append(get(cluster.nodes[third], "/v1/unclean-election?limit=1" + token))
            token = pages[-1]["next_page_token"] and "&page_token=" + pages[-1]["next_page_token"]
        return [page["leaderless_count"] for page in pages] == [2, 2] and [[(r["topic"], [c["log_end_offset"] for c in r["candidates"]]) for r in page["leaderless"]] for page in pages] == [[("t", [held])], [("u", [0])]]
    harness.until(paged, 20, lambda: get(cluster.nodes[third], "/v1/unclean-election"))
    def formed(form):                                          # of columns each candidate is a row
        status, _, text = harness.http(cluster.nodes[third].rest + f"/v1/unclean-election?{form}")
        assert status == 200, text
        return text.decode()
    harness.until(lambda: formed("format=csv&fields=topic,partition,broker,would_be_chosen,log_end_offset,lost_end").split("\r\n") ==
                  ["topic,partition,broker,would_be_chosen,log_end_offset,lost_end", f"t,0,{second},true,{held},", f"u,0,{second},true,0,", ""], 20, lambda: formed("format=csv"))
    assert formed("format=table&fields=topic,broker,lost_start").splitlines()[0].split() == ["TOPIC", "BROKER", "LOST_START"]
    assert [json.loads(line)["topic"] for line in formed("format=ndjson&fields=topic").splitlines()] == ["t", "u"]
    only = get(cluster.nodes[third], "/v1/unclean-election?fields=topic,candidates&limit=1")
    assert set(only) >= {"default", "overrides", "leaderless", "leaderless_count", "next_page_token"} and set(only["leaderless"][0]) == {"topic", "candidates"}
    ask = {"type": "unclean", "accept_data_loss": True, "partitions": [{"topic": "t", "partition": 0}]}
    dry = rest(cluster.nodes[third], "POST", "/v1/elections", {**ask, "dry_run": True}, expect=200)[1]["items"][0]
    assert (dry["old_leader"], dry["new_leader"], dry["log_end_offset"]) == (None, second, held) and leaders(cluster.nodes[third], "t")[0] == -1
    assert json.loads(cli(cluster.nodes[third], "elect", "t", "--type", "unclean", "--dry-run", "-o", "json"))["items"] == [dry]     # all partitions of a topic
    cli(cluster.nodes[third], "elect", "t", "--type", "unclean", code=2)                                        # nobody said lose
    assert leaders(cluster.nodes[third], "t")[0] == -1
    done = rest(cluster.nodes[third], "POST", "/v1/elections", {**ask, "dry_run": False}, expect=200)[1]["items"][0]
    assert done["new_leader"] == second and done["error"] is None
    harness.until(lambda: leaders(cluster.nodes[third], "t")[0] == second, 10, "it leads")


def test_an_unclean_election_takes_the_leader_that_is_named(make):
    cluster = started(make(5, voters=3, **QUIET))              # 4 and 5 do not vote: killed, they leave a majority
    create_at(cluster.nodes[1], "t", 1, assignments=[[4, 5, 1]], min_insync_replicas=1)
    wait_isr(cluster, "t", [1, 4, 5])
    fill(cluster, "t", 1, 1)
    short = harness.until(lambda: len({r["log_end_offset"] for r in get(cluster.nodes[2], "/v1/topics/t/partitions/0")["replica_state"]}) == 1
                          and get(cluster.nodes[2], "/v1/topics/t/partitions/0")["log_end_offset"], 20, "all have all")
    cluster.kill(5)
    wait_isr(cluster, "t", [1, 4])
    fill(cluster, "t", 1, 1)
    cluster.kill(1)                                            # 4 alone is in sync
    cluster.controller(of=[2, 3], not_in=[1])
    harness.until(lambda: [p["isrNodes"] for p in parts_of(cluster.nodes[2], "t").values()] == [[4]], 30, lambda: parts_of(cluster.nodes[2], "t"))
    cluster.kill(4)
    for i in (1, 5):
        cluster.start_one(i)
        cluster.wait_state(i, "running", of=[2, i])
    harness.until(lambda: leaders(cluster.nodes[2], "t")[0] == -1, 20, "nobody leads")

    def asked(leader, dry_run, expect=200, **more):
        body = {"type": "unclean", "accept_data_loss": True, "dry_run": dry_run, "partitions": [{"topic": "t", "partition": 0, "leader": leader}], **more}
        return rest(cluster.nodes[2], "POST", "/v1/elections", body, expect=expect)[1]
    ends = harness.until(lambda: asked(1, True)["items"][0]["log_end_offset"] and asked(5, True)["items"][0]["log_end_offset"] and [asked(i, True)["items"][0] for i in (1, 5)],
                         20, "both say what they have")
    assert [i["new_leader"] for i in ends] == [1, 5] and ends[1]["log_end_offset"] == short < ends[0]["log_end_offset"]
    assert ends[1]["lost"]["start"] <= short and ends[1]["lost"]["end"] is not None
    assert asked(4, True, expect=409)["error"] == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    assert "no replica" in asked(2, False, expect=503)["detail"]
    assert asked(5, True, expect=400, type="preferred")["errors"][0]["pointer"] == "/partitions/0"
    shown = json.loads(cli(cluster.nodes[2], "elect", "t:0", "--type", "unclean", "--leader", "5", "--dry-run", "-o", "json"))["items"]
    assert shown == [asked(5, True)["items"][0]]
    cli(cluster.nodes[2], "elect", "t:0", "--type", "unclean", "--leader", "5", "--yes")                         # not the one that has most
    harness.until(lambda: leaders(cluster.nodes[2], "t")[0] == 5, 10, "it leads")


def test_a_partition_says_to_whom_its_leader_hands_over(make):
    from confluent_kafka import Producer
    cluster = started(make(5, voters=3, **QUIET, broker_session_timeout_ms="30000"))           # 4 does not vote, and is paused for longer than others ask it for its part
    create_at(cluster.nodes[1], "t", 1, assignments=[[4, 5, 1]])
    wait_isr(cluster, "t", [1, 4, 5])
    rest(cluster.nodes[2], "PUT", "/v1/brokers/4/maintenance", expect=(200, 202))
    harness.until(lambda: leaders(cluster.nodes[2], "t")[0] in (1, 5), 20, "another leader")
    rest(cluster.nodes[2], "DELETE", "/v1/brokers/4/maintenance", expect=204)
    place = "/v1/topics/t/partitions/0"
    assert get(cluster.nodes[2], place)["successor"] is None
    cluster.pause(4)                                           # so that it lacks what only the leader vouches for
    producer = Producer({"bootstrap.servers": cluster.nodes[1].bootstrap, "acks": "1", "message.timeout.ms": 30000})
    producer.produce("t", b"x", partition=0)
    assert producer.flush(30) == 0
    with ThreadPoolExecutor(1) as pool:
        election = pool.submit(rest, cluster.nodes[2], "POST", place + "/elections", {"type": "preferred", "dry_run": False})
        assert harness.until(lambda: get(cluster.nodes[2], place)["successor"] == 4 or (election.done() and "nobody saw it"), 20, lambda: get(cluster.nodes[2], place)) is True
        assert election.result()[1]["error"] == "PREFERRED_LEADER_NOT_AVAILABLE"
    cluster.go_on(4)
    harness.until(lambda: get(cluster.nodes[2], place)["successor"] is None, 20, lambda: get(cluster.nodes[2], place))


def test_moves_are_planned_started_watched_and_cancelled(make):
    cluster = started(make(4, voters=3, **QUIET))
    for i in range(3):
        assert create(cluster.nodes[1], f"t-{i}", partitions=4, replication=2)["errorCode"] == 0
    fill(cluster, "t-0", 4, 4)
    plan = rest(cluster.nodes[3], "POST", "/v1/reassignments/plan", {"goal": "empty", "brokers": [4]}, expect=200)[1]
    assert plan["moves"] and plan["stuck"] == 0 and all(4 in m["from"] and 4 not in m["replicas"] and len(m["replicas"]) == len(m["from"]) for m in plan["moves"])
    sizes = {(m["topic"], m["partition"]): m["bytes_to_move"] for m in plan["moves"]}
    assert all(size is not None for size in sizes.values()) and plan["bytes_to_move"] == sum(sizes.values())
    assert any(size > 500000 for (topic, _), size in sizes.items() if topic == "t-0") or not any(topic == "t-0" for topic, _ in sizes)
    dry = rest(cluster.nodes[2], "POST", "/v1/reassignments", {"moves": plan["moves"], "dry_run": True}, expect=200)[1]
    assert all(item["error"] is None for item in dry["items"]) and get(cluster.nodes[1], "/v1/reassignments")["items"] == []
    rest(cluster.nodes[2], "POST", "/v1/reassignments", {"moves": plan["moves"], "dry_run": False}, expect=202)
    harness.until(lambda: get(cluster.nodes[1], "/v1/brokers/4")["replicas"] == 0, 60, lambda: get(cluster.nodes[1], "/v1/reassignments"), 0.2)
    # back again, as evenly as can be
    assert rest(cluster.nodes[1], "POST", "/v1/reassignments/plan", {"goal": "rebalance"}, expect=200)[1]["moves"]
    assert "\n" in cli(cluster.nodes[1], "rebalance", "--dry-run") and get(cluster.nodes[1], "/v1/reassignments")["items"] == []
    cli(cluster.nodes[1], "rebalance", "--yes")
    harness.until(lambda: get(cluster.nodes[1], "/v1/reassignments")["total"] == 0, 60, lambda: get(cluster.nodes[1], "/v1/reassignments"), 0.2)
    counts = [row["replicas"] for row in get(cluster.nodes[1], "/v1/brokers")["items"]]
    assert max(counts) - min(counts) <= 1 and sum(counts) >= 24, counts
    assert rest(cluster.nodes[1], "POST", "/v1/reassignments/plan", {"goal": "rebalance"}, expect=200)[1]["moves"] == []
    # one replica more, and one that cannot be
    plan = rest(cluster.nodes[1], "POST", "/v1/reassignments/plan", {"goal": "replication_factor", "replication_factor": 3, "topics": ["t-1"]}, expect=200)[1]
    assert len(plan["moves"]) == 4 and all(len(m["replicas"]) == 3 and m["replicas"][:2] == m["from"] for m in plan["moves"])
    assert rest(cluster.nodes[1], "POST", "/v1/reassignments/plan", {"goal": "replication_factor", "replication_factor": 5, "topics": ["t-1"]})[1]["error"] == "INVALID_REPLICATION_FACTOR"
    # one that does not end by itself, since its newcomer is paused: it is seen, and goes back
    part = parts_of(cluster.nodes[1], "t-0")[0]
    away = next(i for i in (4, 1, 2, 3) if i not in part["replicaNodes"] and any(i not in row["replicaNodes"] for row in parts_of(cluster.nodes[1], "t-1").values()))
    keeper = part["leaderId"]
    asked = next(i for i in cluster.nodes if i != away)
    cluster.kill(away)
    cluster.wait_state(away, "fenced")
    target = [keeper, away]
    watched = get(cluster.nodes[asked], "/v1/registry/brokers/topics/t-0")["stat"]["version"]
    rest(cluster.nodes[asked], "POST", "/v1/reassignments", {"moves": [{"topic": "t-0", "partition": 0, "replicas": target}], "dry_run": False}, expect=202)
    row = harness.until(lambda: next((r for r in get(cluster.nodes[asked], "/v1/reassignments")["items"] if r["total_bytes"] is not None), None), 20, "the move, of which the leader has heard")
    moved = get(cluster.nodes[asked], f"/v1/registry/brokers/topics/t-0?watch={watched}&wait_ms=20000")          # which hears of replicas that come
    assert moved["stat"]["version"] != watched and away in moved["data"]["partitions"]["0"]
    assert get(cluster.nodes[asked], "/v1/registry/admin/reassign_partitions")["data"]["partitions"] == [{"topic": "t-0", "partition": 0, "replicas": target}]
    assert (row["topic"], row["partition"], row["adding"], row["to"]) == ("t-0", 0, [away], target) and row["copied_bytes"] < row["total_bytes"]
    assert get(cluster.nodes[asked], "/v1/partitions?state=reassigning")["total"] == 1
    other, held = next((p, part["replicaNodes"]) for p, part in parts_of(cluster.nodes[asked], "t-1").items() if away not in part["replicaNodes"])
    rest(cluster.nodes[asked], "POST", "/v1/reassignments", {"moves": [{"topic": "t-1", "partition": other, "replicas": [held[0], away]}], "dry_run": False}, expect=202)

    def second_page():                                         # its own partition is known too
        head = get(cluster.nodes[asked], "/v1/reassignments?limit=1")
        tail = get(cluster.nodes[asked], f"/v1/reassignments?limit=1&page_token={head['next_page_token']}")
        assert [page["items"][0]["topic"] for page in (head, tail)] == ["t-0", "t-1"] and tail["next_page_token"] is None
        return tail["items"][0]["total_bytes"] is not None
    harness.until(second_page, 20, lambda: get(cluster.nodes[asked], "/v1/reassignments"))
    rest(cluster.nodes[asked], "DELETE", f"/v1/reassignments/t-1/{other}", expect=202)
    again = rest(cluster.nodes[asked], "POST", "/v1/reassignments", {"moves": [{"topic": "t-0", "partition": 0, "replicas": [keeper]}], "dry_run": False})
    assert again[1]["error"] == "REASSIGNMENT_IN_PROGRESS"
    assert "t-0:0 goes back" in cli(cluster.nodes[asked], "reassign", "cancel", "t-0:0")
    assert set(parts_of(cluster.nodes[asked], "t-0")[0]["replicaNodes"]) == set(part["replicaNodes"])
    rest(cluster.nodes[asked], "POST", "/v1/reassignments", {"moves": [{"topic": "t-0", "partition": 0, "replicas": target}], "dry_run": False}, expect=202)
    assert cli(cluster.nodes[asked], "reassign", "cancel", "--all") == "t-0:0 goes back\n"
    assert set(parts_of(cluster.nodes[asked], "t-0")[0]["replicaNodes"]) == set(part["replicaNodes"])
    assert rest(cluster.nodes[asked], "DELETE", "/v1/reassignments/t-0/0", expect=404)[1]["error"] == "NO_REASSIGNMENT_IN_PROGRESS"


def configs_of(node, path, *names):
    return {e["name"]: e["value"] for e in get(node, path)["entries"] if e["name"] in names and e["source"] not in ("built_in", "file")}


def test_a_throttle_is_set_with_the_moves_and_taken_back_after_them(make):
    cluster = started(make(**QUIET))
    assert create(cluster.nodes[1], "t", partitions=2, replication=1)["errorCode"] == 0
    create_at(cluster.nodes[1], "own", 1, replication=1, follower_replication_throttled_replicas="0:9")
    fill(cluster, "t", 4, 2)
    rates, lists = ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
    plan = rest(cluster.nodes[2], "POST", "/v1/reassignments/plan", {"goal": "replication_factor", "replication_factor": 3, "topics": ["t", "own"]}, expect=200)[1]
    own = {rates[0]: "123456789"}                                # of broker 3 alone, by an operator: it stays as it is
    rest(cluster.nodes[1], "PATCH", "/v1/brokers/3/config", own, expect=(200, 204))
    begun = rest(cluster.nodes[2], "POST", "/v1/reassignments", {"moves": plan["moves"], "throttle_bytes_per_second": 1 << 30, "dry_run": False}, expect=202)[1]
    assert begun["throttle_bytes_per_second"] == 1 << 30
    held = {m["partition"]: m["from"][0] for m in plan["moves"] if m["topic"] == "t"}
    topic = configs_of(cluster.nodes[1], "/v1/topics/t/config", *lists)
    assert topic["leader.replication.throttled.replicas"] == ",".join(f"{p}:{held[p]}" for p in (0, 1))
    assert set(topic["follower.replication.throttled.replicas"].split(",")) == {f"{p}:{i}" for p in (0, 1) for i in (1, 2, 3) if i != held[p]}
    shown = {i: configs_of(node, f"/v1/brokers/{i}/config", *rates) for i, node in cluster.nodes.items()}
    assert shown == {1: dict.fromkeys(rates, str(1 << 30)), 2: dict.fromkeys(rates, str(1 << 30)), 3: own}, shown
    harness.until(lambda: get(cluster.nodes[1], "/v1/reassignments")["total"] == 0, 60, lambda: get(cluster.nodes[1], "/v1/reassignments"))

    def gone():
        return configs_of(cluster.nodes[1], "/v1/topics/t/config", *lists) == {} \
            and all(configs_of(node, f"/v1/brokers/{i}/config", *rates, "ottla.reassignment.throttle") == (own if i == 3 else {}) for i, node in cluster.nodes.items()) \
            and configs_of(cluster.nodes[1], "/v1/cluster/config", "ottla.reassignment.throttle") == {}
    harness.until(gone, 30, lambda: configs_of(cluster.nodes[1], "/v1/topics/t/config", *lists))
    assert configs_of(cluster.nodes[1], "/v1/topics/t/config", "ottla.reassignment.throttled") == {}
    assert configs_of(cluster.nodes[1], "/v1/topics/own/config", *lists) == {"follower.replication.throttled.replicas": "0:9"}     # an operator's own stay


def test_one_partition_is_moved_and_its_history_told_by_the_tool(make):
    cluster = started(make(**QUIET))
    assert create(cluster.nodes[1], "t", partitions=1, replication=2)["errorCode"] == 0
    first, second = parts_of(cluster.nodes[1], "t")[0]["replicaNodes"]
    third = next(i for i in cluster.nodes if i not in (first, second))
    for words, why in ((("move", "t", "--replicas", "1"), "is not topic:partition"), (("move", "t:0"), "--replicas is missing"), (("move", "t:0", "--replicas", "1,,2"), "no list of brokers")):
        refused = subprocess.run([harness.BINARY, "topic", *words, "--api", cluster.nodes[1].rest], capture_output=True, text=True, timeout=120, check=False)
        assert refused.returncode == 2 and why in refused.stderr, refused
    cli(cluster.nodes[1], "move", "t:0", "--replicas", f"{second},9", "--yes", noun="topic", code=1)           # there is no broker 9
    cli(cluster.nodes[1], "move", "t:0", "--replicas", f"{third},{second}", noun="topic", code=2)              # nobody said yes
    assert parts_of(cluster.nodes[1], "t")[0]["replicaNodes"] == [first, second]
    assert "elect" not in cli(cluster.nodes[1], "move", "t:0", "--replicas", f"{second},{third}", "--yes", noun="topic")                 # who leads goes
    harness.until(lambda: parts_of(cluster.nodes[1], "t")[0]["replicaNodes"] == [second, third], 60, lambda: get(cluster.nodes[1], "/v1/reassignments"))
    assert "ottla cluster elect" in cli(cluster.nodes[1], "move", "t:0", "--replicas", f"{third},{second}", "--yes", noun="topic")        # who leads stays so far
    harness.until(lambda: parts_of(cluster.nodes[1], "t")[0]["replicaNodes"] == [third, second], 60, "the order")
    cli(cluster.nodes[1], "elect", "t:0", noun="topic")
    assert leaders(cluster.nodes[1], "t")[0] == third

    def told():
        rows = [json.loads(line) for line in cli(cluster.nodes[2], "isr", "t", "--history", "-o", "ndjson", noun="topic").splitlines()]
        return rows if any(row["type"] == "leader_changed" and row["leader"] == third for row in rows) else None
    rows = harness.until(told, 30, "the history")
    assert {row["type"] for row in rows} <= {"isr_shrink", "isr_expand", "leader_changed"} and [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert any(row["type"] == "isr_expand" and row["reason"] == "caught_up" and third in row["isr"] for row in rows), rows


def test_any_broker_tells_how_far_each_replica_is_behind(make):
    cluster = started(make(**QUIET, replica_lag_time_max_ms="60000"))
    assert create(cluster.nodes[1], "t", partitions=3, replication=3)["errorCode"] == 0
    wait_isr(cluster, "t", [1, 2, 3])
    fill(cluster, "t", 2, 3)

    def level(node):
        rows = get(node, "/v1/topics/t/partitions")["items"]
        return all(r["lag"] == 0 and r["log_end_offset"] == row["log_end_offset"] and r["log_dir"] and r["last_epoch"] is not None for row in rows for r in row["replica_state"])
    for node in cluster.nodes.values():
        harness.until(lambda node=node: level(node), 60, lambda node=node: get(node, "/v1/topics/t/partitions"))
    shown = [json.loads(line) for line in cli(cluster.nodes[1], "isr", "t", "--replicas", "-o", "ndjson", noun="topic").splitlines()]
    assert sorted((r["partition"], r["broker"]) for r in shown) == [(p, i) for p in range(3) for i in (1, 2, 3)] and all(r["lag"] == 0 and r["in_sync"] for r in shown)
    assert cli(cluster.nodes[1], "isr", "t", "--replicas", noun="topic").splitlines()[0].split()[:6] == ["PARTITION", "BROKER", "ROLE", "IN-SYNC", "LOG-END-OFFSET", "LAG"]
    # the one that is asked holds a follower and tells what the leader says
    leader = leaders(cluster.nodes[1], "t")[0]
    follower, other = [i for i in cluster.nodes if i != leader]
    row = get(cluster.nodes[follower], "/v1/topics/t/partitions/0")
    mine = next(r for r in row["replica_state"] if r["broker"] == follower)
    assert mine["role"] == "follower" and mine["caught_up_ms_ago"] is not None and mine["last_fetch_ms_ago"] is not None
    assert get(cluster.nodes[follower], f"/v1/topics/t/partitions/0/replicas/{other}")["lag"] == 0
    assert [r["lag"] for r in get(cluster.nodes[follower], "/v1/topics/t/partitions/0/replicas")["items"]] == [0, 0, 0]
    for asked in cluster.nodes.values():
        held = get(asked, f"/v1/brokers/{follower}/partitions?topic=t")
        assert [(r["partition"], r["lag"], r["log_dir"] is not None) for r in held["items"]] == [(p, 0, True) for p in range(3)] and "partial" not in held
        rows, token = [], ""
        while token is not None:               # a page has what the leaders say of its own rows
            page = get(asked, f"/v1/brokers/{follower}/partitions?limit=1{token}")
            rows, token = rows + page["items"], page["next_page_token"] and f"&page_token={page['next_page_token']}"
        assert len(rows) == page["total"] and all(r["lag"] is not None and r["broker"] == follower for r in rows)
    cluster.pause(other)
    try:
        entry = lambda: next(r for r in get(cluster.nodes[follower], "/v1/topics/t/partitions/0")["replica_state"] if r["broker"] == other)  # noqa: E731
        harness.until(lambda: (entry()["last_fetch_ms_ago"] or 0) > 1000, 60, entry)       # it is stopped for sure
        fill_some = harness.http(cluster.nodes[leader].rest + "/v1/topics/t/partitions/0/records?acks=1", "POST", b"x" * 1000, {"Content-Type": "text/plain"}, timeout_s=20)
        assert fill_some[0] == 200, fill_some
        row = harness.until(lambda: (lambda r: r if next(x for x in r["replica_state"] if x["broker"] == other)["lag"] else None)(get(cluster.nodes[follower], "/v1/topics/t/partitions/0")), 60,
                            lambda: get(cluster.nodes[follower], "/v1/topics/t/partitions/0"))
        behind = next(r for r in row["replica_state"] if r["broker"] == other)
        assert behind["lag"] == 1 and row["log_end_offset"] - behind["log_end_offset"] == 1
    finally:
        cluster.go_on(other)
    wait_isr(cluster, "t", [1, 2, 3])


def test_who_has_not_answered_is_named_by_the_tool_and_no_controller_is_none(make):
    cluster = started(make(**QUIET, broker_session_timeout_ms="60000"))
    first = cluster.controller()
    quiet, asked = [i for i in cluster.nodes if i != first]

    def health(*more):
        done = subprocess.run([harness.BINARY, "cluster", "health", *more, "--api", cluster.nodes[asked].rest], capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 8, done
        return done.stderr
    cluster.pause(quiet)
    assert f"note: broker {quiet} has not answered" in health() and "note:" not in health("-q")
    cluster.go_on(quiet)
    for i in (first, quiet):
        cluster.kill(i)
    harness.until(lambda: get(cluster.nodes[asked], "/v1/cluster")["controller"]["broker"] is None, 60, lambda: get(cluster.nodes[asked], "/v1/cluster"))
    assert "none now" in cli(cluster.nodes[asked], "info") and "coordinator none" in cli(cluster.nodes[asked], "status")
    assert rest(cluster.nodes[asked], "GET", "/v1/topics?consistency=controller", expect=503)[1]["detail"] == "no broker is the controller now"
    assert asked != 1                                          # who speaks Kafka by its API alone is not sent to the first broker, which is dead
    env = {**{k: v for k, v in harness.os.environ.items() if not k.startswith("OTTLA_")}, "OTTLA_API": cluster.nodes[asked].rest}
    voters = subprocess.run([harness.BINARY, "cluster", "voters"], env=env, capture_output=True, text=True, timeout=240, check=False)
    assert voters.returncode == 0 and "VOTER" in voters.stdout, voters


def test_brokers_are_told_with_what_each_knows_of_itself(make):
    cluster = started(make())
    controller = cluster.controller()
    for node in cluster.nodes.values():
        rows = get(node, "/v1/brokers")["items"]
        assert [r["broker"] for r in rows] == [1, 2, 3] and all(r["version"] and r["disk"]["total_bytes"] > 0 and r["is_voter"] for r in rows)
        assert all(0 <= r["last_heartbeat_ms_ago"] < 60000 for r in rows), rows
        one = get(node, f"/v1/brokers/{controller % 3 + 1}")
        assert one["version"] and one["started_at"] and one["last_heartbeat_ms_ago"] is not None
    cluster.kill(controller % 3 + 1)

    def tool(*words, data=None):                                # the API of a broker that lives is all that it is told, before the others know of the death and after
        env = {**{k: v for k, v in harness.os.environ.items() if not k.startswith("OTTLA_")}, "OTTLA_API": cluster.nodes[controller].rest}
        return subprocess.run([harness.BINARY, *words], env=env, input=data, capture_output=True, text=True, timeout=240, check=False)
    assert tool("cluster", "voters").returncode == 0
    cluster.wait_state(controller % 3 + 1, "fenced")
    made = tool("produce", "by-its-api", data="x\n")
    assert made.returncode == 0 and tool("consume", "by-its-api", "--from", "earliest", "--until", "end").stdout == "x\n", made
    kafka = [line for line in tool("doctor").stdout.splitlines() if line.split()[1:2] == ["kafka"]]
    assert len(kafka) == 2 and all(line.startswith("ok") and line.endswith("answers") for line in kafka), kafka
    row = get(cluster.nodes[controller], f"/v1/brokers/{controller % 3 + 1}")
    assert row["version"] and row["disk"] is None and row["state"] == "fenced"       # its release is in the cluster's state
    dead = controller % 3 + 1
    left = [str(i) for i in cluster.nodes if i != dead]
    for i in map(int, left):                       # as an ephemeral node, its own is gone as long as it is
        assert get(cluster.nodes[i], "/v1/registry/brokers/ids")["children"] == left
        assert rest(cluster.nodes[i], "GET", f"/v1/registry/brokers/ids/{dead}", expect=404)[1]["error"] == "RESOURCE_NOT_FOUND"
        assert get(cluster.nodes[i], "/v1/registry/brokers/ids?all")["children"] == ["1", "2", "3"]
        assert get(cluster.nodes[i], f"/v1/registry/brokers/ids/{dead}?all=true")["data"]["fenced"] is True
    assert rest(cluster.nodes[controller], "DELETE", f"/v1/brokers/{controller % 3 + 1}", expect=409)[1]["detail"].endswith("take it away first")
    assert "of 3 brokers alive" in cli(cluster.nodes[controller], "status")
    assert json.loads(cli(cluster.nodes[controller], "status", "-o", "json"))["brokers"]["total"] == 3


def test_the_role_of_the_controller_is_handed_over_on_request(make):
    cluster = started(make())
    first = cluster.controller()
    other = next(i for i in cluster.nodes if i != first)
    assert rest(cluster.nodes[other], "POST", "/v1/cluster/controller/resign?validate_only=true", expect=202)[1]["resigned"] == first
    assert cluster.controller() == first
    assert f"broker {first} hands its role over" in cli(cluster.nodes[other], "resign")
    second = cluster.controller(not_in=[first])
    assert create(cluster.nodes[first], "after")["errorCode"] == 0 and second != first
    cluster.wait_state(first, "running", of=list(cluster.nodes))


def test_a_broker_alone_has_nobody_to_hand_over_to(own_broker):
    broker = own_broker()
    status, problem = rest(broker, "POST", "/v1/cluster/controller/resign")
    assert (status, problem["error"]) == (409, "ELIGIBLE_LEADERS_NOT_AVAILABLE")
    status, problem = rest(broker, "DELETE", "/v1/brokers/1")
    assert (status, problem["error"]) == (409, "HTTP_CONFLICT")
    assert rest(broker, "PUT", "/v1/brokers/1/maintenance", expect=200)[1]["state"] == "drained"
    assert rest(broker, "GET", "/v1/brokers/7/maintenance", expect=404)[1]["error"] == "BROKER_ID_NOT_REGISTERED"


def test_the_bench_tells_what_the_other_replicas_cost(make, name):
    cluster = started(make())
    assert create(cluster.nodes[1], name, partitions=2, replication=3)["errorCode"] == 0
    wait_isr(cluster, name, [1, 2, 3])
    words = [str(harness.BINARY), "bench", "replicate", name, "--records", "40", "--record-bytes", "100", "--rate", "400", "-p", "1", "-b", cluster.nodes[2].bootstrap]
    told = json.loads(subprocess.run([*words, "-o", "json"], capture_output=True, check=True, timeout=240).stdout)
    assert told["records"] == 40 and told["bytes"] == 4000 and told["command"].startswith(f"ottla bench replicate {name} --records 40 --record-bytes 100")
    assert told["latency_ms"]["count"] == told["leader_latency_ms"]["count"] == 20 and told["latency_ms"]["p50"] > 0
    lines = subprocess.run(words, capture_output=True, check=True, timeout=240, text=True).stdout.splitlines()
    assert lines[1].startswith("latency of a record, until all in sync had it, ms:") and lines[2].startswith("latency of a record, until its leader had it, ms:")
    assert {p: len(rows) for p, rows in read_all(cluster.nodes[1].bootstrap, name, 2).items()} == {0: 0, 1: 80}


def test_the_examples_that_need_several_brokers_work(make):
    """Of operations that the contract marks so, with the ids of this cluster."""
    from openapi_schema_validator import OAS30Validator
    cluster = started(make(4, voters=3, **QUIET))
    assert create(cluster.nodes[1], "orders", partitions=1, replication=2)["errorCode"] == 0
    named = {o["operationId"]: (method.upper(), path, o) for path, item in CONTRACT["paths"].items() for method, o in item.items() if "x-ottla-needs" in o}
    first, second = parts_of(cluster.nodes[1], "orders")[0]["replicaNodes"]
    seen = set()

    def run(name, path, body=None):
        method, _, operation = named[name]
        status, value = rest(cluster.nodes[1], method, path, body)
        assert str(status) in operation["responses"] and status < 400, (name, status, value)
        if status != 204:
            schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
            faults = list(OAS30Validator({"allOf": [schema], "components": CONTRACT["components"]}).iter_errors(value))
            assert not faults, (name, faults[:3], value)
        seen.add(name)
    # away from the first replica, so that there is a leader to elect
    other = next(i for i in cluster.nodes if i not in (first, second))
    rest(cluster.nodes[1], "POST", "/v1/reassignments", {"moves": [{"topic": "orders", "partition": 0, "replicas": [other, second]}], "dry_run": False}, expect=202)
    harness.until(lambda: parts_of(cluster.nodes[1], "orders")[0]["replicaNodes"] == [other, second] and set(parts_of(cluster.nodes[1], "orders")[0]["isrNodes"]) == {other, second}, 30,
                  lambda: parts_of(cluster.nodes[1], "orders"))
    if leaders(cluster.nodes[1], "orders")[0] == other:
        rest(cluster.nodes[1], "POST", "/v1/reassignments", {"moves": [{"topic": "orders", "partition": 0, "replicas": [second, other]}], "dry_run": False}, expect=202)
    run("electPartitionLeader", "/v1/topics/orders/partitions/0/elections", {"type": "preferred", "dry_run": True})
    run("startDecommission", "/v1/brokers/4/decommission")
    harness.until(lambda: get(cluster.nodes[1], "/v1/brokers/4/decommission")["state"] == "done", 60, lambda: get(cluster.nodes[1], "/v1/brokers/4/decommission"))
    cluster.kill(4)
    cluster.wait_state(4, "fenced")
    run("forgetBroker", "/v1/brokers/4")
    held = parts_of(cluster.nodes[1], "orders")[0]["replicaNodes"]
    spare = next(i for i in (1, 2, 3) if i not in held)
    if spare != 1:
        cluster.kill(spare)
        cluster.wait_state(spare, "fenced")
        rest(cluster.nodes[1], "POST", "/v1/reassignments", {"moves": [{"topic": "orders", "partition": 0, "replicas": [held[0], spare]}], "dry_run": False}, expect=202)
        run("cancelReassignment", "/v1/reassignments/orders/0")
        cluster.start_one(spare)
    else:
        seen.add("cancelReassignment")
    run("resignController", "/v1/cluster/controller/resign")
    assert seen == set(named)
