"""The history of a cluster: every change once and with its reason, whoever coordinates; over REST, as a stream and by the command."""
import base64
import json
import subprocess

import pytest
from confluent_kafka import Consumer

import harness
from admin import Admin
from cluster import STEADY
from harness import until
from replication_test import started, wait_isr
from rest_stream_test import Tail


def page(node, query):
    status, _, body = harness.http(f"{node.rest}/v1/events?{query}", timeout_s=15)
    assert status == 200, body
    return json.loads(body)


def history(node, query=""):
    """All of it, the oldest first, by pages."""
    items, token = [], ""
    while True:
        got = page(node, f"order=oldest&limit=1000&{query}{token}")
        items += got["items"]
        if got["next_page_token"] is None:
            return items
        token = f"&page_token={got['next_page_token']}"


def find(node, bound_s=20, query="", **members):
    """The newest event with these members, once it is there."""
    def look():
        try:
            items = history(node, query)
        except (OSError, AssertionError):
            return None
        return next((e for e in reversed(items) if all(e.get(k) == v for k, v in members.items())), None)
    return until(look, bound_s, lambda: f"{members}: {json.dumps(history(node)[-12:], indent=0)}", 0.1)


def is_whole(events, gaps=0):
    """In order, none twice, nothing missing that the server knows of."""
    assert [e["id"] for e in events] == sorted({e["id"] for e in events})
    states = [(e["version"], e["n"]) for e in events if "version" in e]
    assert states == sorted(set(states)), states
    assert len([e for e in events if e["type"] == "gap"]) == gaps, [e for e in events if e["type"] == "gap"]


def make_topic(node, name, partitions):
    body = json.dumps({"name": name, "partitions": partitions}).encode()
    status, _, answer = harness.http(f"{node.rest}/v1/topics", "POST", body, {"Content-Type": "application/json"}, timeout_s=40)
    assert status == 201, answer


def leader_of(node, topic, partition=0):
    return until(lambda: node.view(f"/v1/topics/{topic}/partitions/{partition}"), 10, f"the row of {topic}-{partition}")["leader"]


def metric(node, name):
    """The sum of the series that begin so; None: there is none."""
    found = [float(line.rsplit(" ", 1)[1]) for line in harness.http(node.rest + "/metrics?compat=jmx")[2].decode().splitlines() if line.startswith(name) and line[len(name)] in " {"]
    return sum(found) if found else None


def last_isr_change(node, topic="orders"):
    """(type, reason, broker, from, to) in the partition's own row."""
    change = json.loads(harness.http(f"{node.rest}/v1/topics/{topic}/partitions/0")[2])["last_isr_change"]
    return change and (change["type"], change["reason"], change["broker"], sorted(change["from"]), sorted(change["to"]))


def test_who_left_and_why(make):
    """A follower that dies and returns, then the leader; seen alike at every broker. Nobody else leaves: who dies is known at once, who gets no processor for a while is not taken for gone."""
    cluster = started(make(3, broker_session_timeout_ms=10000, replica_lag_time_max_ms=60000, **STEADY))
    make_topic(cluster.nodes[1], "orders", 1)
    wait_isr(cluster, "orders", {1, 2, 3})
    coordinator, leader = cluster.controller(), leader_of(cluster.nodes[1], "orders")
    follower = next(i for i in (3, 2, 1) if i not in (coordinator, leader))
    node = cluster.nodes[leader]
    with node.connect() as c:
        Admin(c).produce("orders", "first")        # acknowledged by all: the leader has heard of each
    cluster.kill(follower)
    shrink = find(node, type="isr_shrink", topic="orders", broker=follower)
    assert shrink["reason"] == "broker_fenced" and shrink["removed"] == [follower] and sorted(shrink["from"]) == [1, 2, 3] and shrink["osr"] == [follower]
    assert find(node, type="broker_fenced", broker=follower)["reason"] == "process_died"
    until(lambda: metric(node, "ottla_partitions_under_replicated") and metric(node, "ottla_replicas_out_of_sync"), 20, "a metric that says so")
    assert metric(cluster.nodes[coordinator], "ottla_isr_shrinks_total") >= 1
    assert metric(cluster.nodes[coordinator], "kafka_server_replicamanager_isrshrinks_total") >= 1
    assert last_isr_change(node) == ("shrink", "broker_fenced", follower, [1, 2, 3], sorted({1, 2, 3} - {follower}))
    other = next(i for i in cluster.nodes if i not in (leader, follower))
    named = {i: [e["type"] for e in history(node, f"types=isr_shrink&topic=orders&broker={i}")].count("isr_shrink") for i in cluster.nodes}
    assert named == {leader: 1, follower: 1, other: 0}, "it led, it left, it was in sync before and after"
    flaps = f'ottla_replica_isr_changes_total{{follower="{follower}",change="%s",reason="%s"}}'
    assert metric(cluster.nodes[coordinator], flaps % ("left", "broker_fenced")) >= 1
    with node.connect() as c:
        Admin(c).produce("orders", *[f"{i}" for i in range(100)])
    until(lambda: metric(node, "ottla_replica_max_lag_records") >= 100, 20, "how far the one that is away is behind")
    lag = f'ottla_replica_lag_%s{{topic="orders",partition="0",follower="%d"}}'
    assert metric(node, lag % ("records", follower)) >= 100 and metric(node, lag % ("seconds", follower)) > 0
    until(lambda: metric(node, lag % ("records", other)) == metric(node, lag % ("seconds", other)) == 0, 20, "the other one has all")
    assert metric(cluster.nodes[other], lag % ("records", follower)) is None, "the leader tells"
    assert metric(node, "kafka_server_replicafetchermanager_maxlag") >= 100
    given = metric(node, "ottla_replication_bytes_out_total")
    cluster.start_one(follower)
    expand = find(node, type="isr_expand", topic="orders", broker=follower)
    assert expand["reason"] == "caught_up" and sorted(expand["isr"]) == [1, 2, 3] and expand["osr"] == []
    wait_isr(cluster, "orders", {1, 2, 3})
    wait_isr(cluster, "__ottla_events", {1, 2, 3})
    until(lambda: metric(node, "ottla_partitions_under_replicated") == metric(node, "ottla_replicas_out_of_sync") == 0, 20, "a metric that says that all is well")
    assert metric(cluster.nodes[coordinator], "ottla_isr_expands_total") >= 1 and metric(cluster.nodes[follower], "ottla_replication_bytes_in_total") > 0
    assert metric(cluster.nodes[coordinator], flaps % ("joined", "caught_up")) >= 1
    assert last_isr_change(node) == last_isr_change(cluster.nodes[follower]) == ("expand", "caught_up", follower, sorted({1, 2, 3} - {follower}), [1, 2, 3])
    table = subprocess.run([harness.BINARY, "topic", "isr", "orders", "--api", node.rest, "-o", "wide"], stdout=subprocess.PIPE, text=True, timeout=80, check=True).stdout
    assert "expand caught_up" in table
    until(lambda: metric(node, "ottla_replica_max_lag_records") == 0, 20, "nobody is behind")
    assert metric(node, "ottla_replication_bytes_out_total") > given
    assert metric(node, "kafka_server_brokertopicmetrics_replicationbytesout_total") > given
    assert metric(node, 'ottla_topic_bytes_out_total{topic="orders"}') in (None, 0), "no consumer has read it: followers are no consumers"
    cluster.kill(leader)
    other = cluster.nodes[follower]
    change = find(other, type="leader_changed", topic="orders", bound_s=30)
    assert change["reason"] == "broker_fenced" and change["from"] == leader and change["election"] == "clean" and change["leader"] == change["broker"] != leader
    assert leader == coordinator or metric(cluster.nodes[coordinator], "ottla_controller_elections_total") >= 1
    until(lambda: metric(cluster.nodes[change["leader"]], "ottla_preferred_replica_imbalance") >= 1, 20, "it leads what another one is to lead")
    answers = [history(n) for n in cluster.living()]
    assert len({json.dumps([e for e in a if e["id"] <= change["id"]]) for a in answers}) == 1
    is_whole(answers[0])
    only = history(other, "topic=orders&types=isr,leader")
    assert {e["type"] for e in only} <= {"isr_shrink", "isr_expand", "leader_changed"} and all(e["topic"] == "orders" for e in only) and len(only) >= 4
    mine = json.loads(harness.http(f"{other.rest}/v1/topics/orders/partitions/0/isr-history")[2])["items"]
    assert [e["id"] for e in reversed(mine)] == [e["id"] for e in only]


def test_a_broker_that_does_not_hear_of_changes_shows(make):
    cluster = started(make(3, broker_session_timeout_ms=60000, **STEADY))
    coordinator = cluster.nodes[cluster.controller()]
    until(lambda: metric(coordinator, "ottla_cluster_metadata_behind_max") == 0, 30, "all have all")
    quiet = next(i for i in cluster.nodes if i != coordinator.id)
    cluster.pause(quiet)
    for i in range(3):
        make_topic(coordinator, f"more-{i}", 1)
    assert metric(coordinator, "ottla_cluster_metadata_behind_max") >= 3
    cluster.go_on(quiet)
    until(lambda: metric(coordinator, "ottla_cluster_metadata_behind_max") == 0, 30, "it caught up")
    cluster.stop()


@pytest.mark.timeout(180)
def test_history_goes_on_without_hole_or_double_when_the_coordinator_dies(make):
    cluster = started(make(3))
    make_topic(cluster.nodes[1], "orders", 4)
    wait_isr(cluster, "orders", {1, 2, 3})
    changes = 0
    for _ in range(3):
        coordinator = cluster.controller()
        some = next(i for i in cluster.nodes if i != coordinator)
        for _ in range(5):
            changes += 1
            configure(cluster.nodes[some], "orders", 1000000 + changes)
        cluster.kill(coordinator)
        new = cluster.controller(not_in=(coordinator,))
        find(cluster.nodes[some], type="coordinator_changed", broker=new, bound_s=30, **{"from": coordinator})
        cluster.start_one(coordinator)
        wait_isr(cluster, "orders", {1, 2, 3})
        wait_isr(cluster, "__ottla_events", {1, 2, 3})
    find(cluster.nodes[1], type="config_changed", to=str(1000000 + changes))
    events = history(cluster.nodes[1])
    is_whole(events)
    assert [e["to"] for e in events if e["type"] == "config_changed" and e["name"] == "retention.ms"] == [str(1000001 + i) for i in range(changes)]
    isr = {}
    for event in (e for e in events if e.get("topic") == "orders" and e["type"] in ("isr_shrink", "isr_expand")):      # each step begins where the one before ended
        before = isr.get(event["partition"], [1, 2, 3])
        assert sorted(event["from"]) == sorted(before), event
        isr[event["partition"]] = event["isr"]


@pytest.mark.timeout(180)
def test_a_whole_cluster_that_was_away_goes_on_where_it_was(make):
    """Nobody remembers anything then: the topic's end and the state say that nothing is missing. Whoever coordinates first may hold an old copy of the topic; the leader's counts."""
    cluster = started(make(3))
    make_topic(cluster.nodes[1], "orders", 4)
    wait_isr(cluster, "orders", {1, 2, 3})
    configure(cluster.nodes[2], "orders", 1000)
    find(cluster.nodes[2], type="config_changed", to="1000")
    for value in (2000, 3000):
        if value == 2000:
            cluster.stop()
        else:
            for i in cluster.nodes:
                cluster.kill(i)
        started(cluster)
        wait_isr(cluster, "orders", {1, 2, 3})
        configure(cluster.nodes[2], "orders", value)
        find(cluster.nodes[2], type="config_changed", to=str(value), bound_s=60)
    events = history(cluster.nodes[1])
    is_whole(events, len([e for e in events if e["type"] == "gap"]))
    assert len({e["term"] for e in events if e["type"] == "coordinator_changed"}) == len([e for e in events if e["type"] == "coordinator_changed"]) >= 3
    assert [e["to"] for e in events if e["type"] == "config_changed" and e["name"] == "retention.ms"] == ["1000", "2000", "3000"]
    states = [e for e in events if "version" in e]
    for before, gap in zip(states, states[1:]):                # what changed when nobody could write any more; it begins where the history ended
        if gap["type"] == "gap":
            assert gap["reason"] == "unknown_changes" and gap["from_version"] == before["version"] + 1, (before, gap)


def test_a_broker_without_a_replica_answers_and_writes(make):
    """The topic is on three brokers; the fourth reads it there, and so does a coordinator elsewhere write it."""
    cluster = started(make(4))
    make_topic(cluster.nodes[4], "orders", 1)
    configure(cluster.nodes[4], "orders", 1000)
    find(cluster.nodes[4], type="config_changed", to="1000")
    state = cluster.nodes[4].view("/v1/topics/__ottla_events/partitions/0")
    assert sorted(state["replicas"]) == [1, 2, 3]
    assert history(cluster.nodes[4]) == history(cluster.nodes[1])
    stream = Tail(cluster.nodes[4], "/v1/events/stream?types=config")
    try:
        configure(cluster.nodes[4], "orders", 2000)
        until(lambda: any(json.loads(e["data"]).get("to") == "2000" for e in list(stream.events)), 20, lambda: stream.events)
    finally:
        stream.close()
    trim = json.dumps({"before_offset": 2, "dry_run": False}).encode()
    leader = cluster.nodes[state["leader"]]
    assert harness.http(f"{leader.rest}/v1/topics/__ottla_events/partitions/0/records/delete", "POST", trim, {"Content-Type": "application/json"})[0] == 200
    assert harness.http(f"{cluster.nodes[4].rest}/v1/events?since=0")[0] == 410


def test_a_paused_follower_is_taken_out_for_lag(make):
    cluster = started(make(3, replica_lag_time_max_ms=1500, broker_session_timeout_ms=60000, **STEADY))
    make_topic(cluster.nodes[1], "orders", 1)
    wait_isr(cluster, "orders", {1, 2, 3})
    leader, coordinator = leader_of(cluster.nodes[1], "orders"), cluster.controller()
    follower = next(i for i in cluster.nodes if i not in (leader, coordinator))
    node = cluster.nodes[leader]
    cluster.pause(follower)
    assert harness.http(f"{node.rest}/v1/topics/orders/records?acks=1", "POST", b"x", {"Content-Type": "text/plain"})[0] == 200
    shrink = find(node, type="isr_shrink", topic="orders", broker=follower, bound_s=30)
    assert shrink["reason"] == "replica_lag_time"
    cluster.go_on(follower)
    assert find(node, type="isr_expand", topic="orders", broker=follower, bound_s=30)["reason"] == "caught_up"


def test_a_lone_broker_has_a_history_too(own_broker):
    """It makes no topic of its own for being started and used; what came before the first event that is worth one is in it."""
    broker = own_broker()
    make_topic(broker, "orders", 1)
    until(lambda: "orders" in topics_of(broker), 10, lambda: "orders")
    assert "__ottla_events" not in topics_of(broker, "internal=true")
    patch = {"Content-Type": "application/json"}
    assert harness.http(f"{broker.rest}/v1/topics/orders/config", "PATCH", b'{"retention.ms":"77000"}', patch)[0] == 200
    change = find(broker, type="config_changed", topic="orders")
    assert (change["name"], change["from"], change["to"]) == ("retention.ms", None, "77000")
    events = history(broker)
    assert [e["type"] for e in events if e["type"] != "broker_unfenced"][:3] in (["coordinator_changed", "broker_registered", "topic_created"], ["broker_registered", "topic_created", "config_changed"],
                                                                                 ["coordinator_changed", "topic_created", "config_changed"]), events
    assert topics_of(broker, "internal=true") == {"__ottla_events"} and topics_of(broker, "internal=false") == {"orders"}
    broker.stop()
    broker.start()
    find(broker, type="coordinator_changed", term=change["term"] + 1)
    assert harness.http(f"{broker.rest}/v1/topics/orders", "DELETE")[0] == 204
    find(broker, type="topic_deleted", topic="orders")
    is_whole(history(broker))
    broker.kill()
    broker.start()
    find(broker, type="coordinator_changed", term=change["term"] + 2)
    is_whole(history(broker))


def topics_of(broker, query=""):
    return {t["topic"] for t in json.loads(harness.http(f"{broker.rest}/v1/topics?{query}")[2])["items"]}


def configure(broker, topic, value):
    """Once there is a coordinator that takes it."""
    def change():
        return harness.http(f"{broker.rest}/v1/topics/{topic}/config", "PATCH", json.dumps({"retention.ms": str(value)}).encode(), {"Content-Type": "application/json"}, timeout_s=40)
    until(lambda: change()[0] == 200, 30, change, 0.2)


def test_pages_ends_and_filters(own_broker):
    broker = own_broker()
    make_topic(broker, "orders", 1)
    for i in range(1, 31):
        configure(broker, "orders", i * 1000)
    find(broker, type="config_changed", to="30000")
    whole = history(broker)
    seen, token = [], ""
    while True:
        got = page(broker, f"limit=7{token}")
        seen += got["items"]
        if got["next_page_token"] is None:
            break
        token = f"&page_token={got['next_page_token']}"
    assert list(reversed(seen)) == whole and len(whole) >= 31
    far = base64.urlsafe_b64encode(b"1e9223372036854775807").decode().rstrip("=")       # a token may say anything
    assert page(broker, f"order=oldest&page_token={far}")["items"] == []
    assert page(broker, f"page_token={base64.urlsafe_b64encode(b'1e-9223372036854775807').decode().rstrip('=')}")["items"] == []
    middle = whole[10]
    assert page(broker, f"order=oldest&since={middle['id']}")["items"] == whole[11:]
    assert {e["id"] for e in page(broker, f"since={whole[-3]['at']}")["items"]} >= {e["id"] for e in whole[-3:]}
    assert page(broker, "topic=none")["items"] == [] and page(broker, "types=topic")["items"][-1]["type"] == "topic_created"
    status, _, body = harness.http(f"{broker.rest}/v1/events?types=isr_shrimp")
    assert status == 400 and b"isr_shrink" in body
    trim = json.dumps({"before_offset": middle["id"], "dry_run": False}).encode()
    assert harness.http(f"{broker.rest}/v1/topics/__ottla_events/partitions/0/records/delete", "POST", trim, {"Content-Type": "application/json"})[0] == 200
    assert [e["id"] for e in history(broker)] == [e["id"] for e in whole[10:]]
    status, headers, body = harness.http(f"{broker.rest}/v1/events?since=1")
    assert (status, json.loads(body)["error"]) == (410, "HTTP_GONE")
    assert harness.http(f"{broker.rest}/v1/events?since={middle['id'] - 1}")[0] == 200


def test_clients_cannot_write_history(own_broker):
    broker = own_broker()
    make_topic(broker, "orders", 1)
    configure(broker, "orders", 5000)
    find(broker, type="config_changed")
    status, _, body = harness.http(f"{broker.rest}/v1/topics/__ottla_events/records", "POST", b'{"type":"gap"}', {"Content-Type": "text/plain"})
    assert status == 400, body
    assert find(broker, type="config_changed")


def test_the_stream_goes_on_where_it_was(own_broker):
    broker = own_broker()
    make_topic(broker, "orders", 1)
    stream = Tail(broker, "/v1/events/stream?types=config,topic")
    try:
        configure(broker, "orders", 1000)
        until(lambda: any(json.loads(e["data"]).get("to") == "1000" for e in list(stream.events)), 20, lambda: stream.events)
        event = next(e for e in stream.events if json.loads(e["data"]).get("to") == "1000")
        assert event["event"] == "config" and event["id"] == str(json.loads(event["data"])["id"])
    finally:
        stream.close()
    configure(broker, "orders", 2000)
    configure(broker, "orders", 3000)
    again = Tail(broker, "/v1/events/stream?types=config", {"Last-Event-ID": event["id"]})
    try:
        again.wait(2)
        assert [json.loads(e["data"])["to"] for e in again.events[:2]] == ["2000", "3000"]
    finally:
        again.close()
    trim = json.dumps({"before_offset": int(event["id"]) + 2, "dry_run": False}).encode()
    assert harness.http(f"{broker.rest}/v1/topics/__ottla_events/partitions/0/records/delete", "POST", trim, {"Content-Type": "application/json"})[0] == 200
    late = Tail(broker, "/v1/events/stream?types=config,metrics&interval_ms=500", {"Last-Event-ID": "0"})
    try:
        until(lambda: {"gap", "config", "metrics"} <= {e["event"] for e in list(late.events)}, 20, lambda: late.events)
        gap = json.loads(next(e for e in late.events if e["event"] == "gap")["data"])
        assert gap["to_id"] == int(event["id"]) + 2
        tick = next(e for e in late.events if e["event"] == "metrics")
        assert "throughput" in json.loads(tick["data"]) and "id" not in tick
    finally:
        late.close()


def test_rebalances_of_groups_are_told(own_broker):
    broker = own_broker()
    make_topic(broker, "orders", 3)
    configure(broker, "orders", 4000)
    find(broker, type="config_changed")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing", "client.id": "reader"})
    try:
        consumer.subscribe(["orders"])
        until(lambda: consumer.poll(0.1) is not None or consumer.assignment(), 30, "an assignment")
        told = find(broker, type="group_rebalanced", group="billing")
        assert (told["members"], told["partitions"], told["client"]) in ((1, 3, "reader"), (1, 0, "reader")) and told["reason"] == "member_joined"
        assert [e["id"] for e in history(broker, "group=billing&types=group")][-1:] == [told["id"]] and history(broker, "group=none&types=group") == []
    finally:
        consumer.close()


def test_the_command_shows_them(own_broker):
    broker = own_broker()
    make_topic(broker, "orders", 1)
    configure(broker, "orders", 4000)
    find(broker, type="config_changed")
    table = subprocess.run([harness.BINARY, "cluster", "events", "--api", broker.rest], stdout=subprocess.PIPE, text=True, timeout=80, check=True).stdout
    assert "config_changed" in table and "name retention.ms" in table
    only = subprocess.run([harness.BINARY, "cluster", "events", "--api", broker.rest, "--types", "topic", "-o", "ndjson"], stdout=subprocess.PIPE, text=True, timeout=80, check=True).stdout
    assert "topic_created" in only and "config_changed" not in only
    with subprocess.Popen([harness.BINARY, "cluster", "events", "--api", broker.rest, "--follow", "-o", "json", "--types", "config"], stdout=subprocess.PIPE, text=True) as follow:
        assert json.loads(follow.stdout.readline())["to"] == "4000"
        configure(broker, "orders", 5000)
        assert json.loads(follow.stdout.readline())["to"] == "5000"
        follow.send_signal(2)
        assert follow.wait(40) == 0
