"""REST in a cluster: whoever is asked, the answer is that of the leader, the coordinator, or all brokers together; and what happens when one of them is paused or dies."""
import base64
import json
import threading
from http.client import HTTPException

import harness
import pytest
from cluster import STEADY

JSON = {"Content-Type": "application/json"}
SESSION = {**STEADY, "broker.session.timeout.ms": 6000, "metrics.group.lag.interval.ms": 1000}


def ask(node, path, method="GET", body=None, timeout_s=20, headers=None):
    """(status, headers, what the body holds)"""
    data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    status, heads, text = harness.http(node.rest + path, method, data, {**(JSON if isinstance(body, (dict, list)) else {}), **(headers or {})}, timeout_s=timeout_s)
    kind = heads.get("Content-Type", "")
    return status, heads, json.loads(text) if "json" in kind and "nd" not in kind else text


def good(node, path, method="GET", body=None, **how):
    status, _, value = ask(node, path, method, body, **how)
    assert status in (200, 201, 202, 204), (node.id, path, status, value)
    return value


def nodes_of(cluster):
    return list(cluster.nodes.values())


def create(cluster, topic, partitions=3, replicas=3, **config):
    first = nodes_of(cluster)[0]
    harness.until(lambda: sum(row["state"] == "running" for row in cluster.brokers(first.id).values()) >= replicas, 30, lambda: "brokers are there")
    good(first, "/v1/topics", "POST", {"name": topic, "partitions": partitions, "replication_factor": replicas, "config": config})
    for node in cluster.living():
        harness.until(lambda n=node: [r["leader"] for r in (n.view(f"/v1/topics/{topic}/partitions") or {"items": []})["items"] if len(r["isr"]) == replicas] and
                      all(len(r["isr"]) == replicas for r in good(n, f"/v1/topics/{topic}/partitions")["items"]), 30, lambda: f"{topic} in sync")
    return {r["partition"]: r["leader"] for r in good(first, f"/v1/topics/{topic}/partitions")["items"]}


def produce(node, topic, records, **more):
    return good(node, f"/v1/topics/{topic}/records", "POST", {"records": records, **more})


def text(value, partition=None):
    return {"value": {"string": value}, **({} if partition is None else {"partition": partition})}


def without(value, names):
    """The same without what differs from moment to moment."""
    if isinstance(value, dict):
        return {k: without(v, names) for k, v in value.items() if k not in names}
    return [without(v, names) for v in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    from cluster import Cluster
    if harness.EXTERNAL:
        pytest.skip("needs servers of its own")
    cluster = Cluster(tmp_path_factory.mktemp("rest") / "cluster", 3, **SESSION)
    with cluster:
        cluster.start()
        cluster.controller()
        yield cluster
        for node in cluster.nodes.values():
            node.no_reports()


@pytest.fixture
def topic(three, name):
    name = name[-60:]
    create(three, name)
    return name


def test_records_go_in_and_come_out_at_any_broker(three, topic):
    """Each broker leads one partition, and takes records for all of them in one body; reading passes on to the leader, which is named."""
    leaders = {r["partition"]: r["leader"] for r in good(three.nodes[1], f"/v1/topics/{topic}/partitions")["items"]}
    assert set(leaders.values()) == {1, 2, 3}, leaders
    for node in nodes_of(three):
        told = produce(node, topic, [text(f"{node.id}-{p}", p) for p in leaders])
        assert told["failed"] == 0 and [i["partition"] for i in told["items"]] == list(leaders)
    for node in nodes_of(three):
        for partition, leader in leaders.items():
            status, headers, value = ask(node, f"/v1/topics/{topic}/partitions/{partition}/records?offset=earliest")
            assert status == 200 and headers["Ottla-Served-By"] == str(leader)
            assert [r["value"]["string"] for r in value["records"]] == [f"{n}-{partition}" for n in three.nodes]
            status, _, raw = ask(node, f"/v1/topics/{topic}/partitions/{partition}/records/1/value")
            assert (status, raw) == (200, f"2-{partition}".encode())
            assert good(node, f"/v1/topics/{topic}/partitions/{partition}/offsets?at=latest")["offset"] == 3
            assert good(node, f"/v1/topics/{topic}/partitions/{partition}/segments")["items"][0]["base_offset"] == 0


def test_records_without_partition_are_spread_and_kept_in_order(three, topic):
    values = [f"v{i:04}" for i in range(600)]
    for node in nodes_of(three):
        told = produce(node, topic, [{"key": {"string": f"k{i % 50}"}, "value": {"string": f"{node.id}-{v}"}} for i, v in enumerate(values)], compression="zstd")
        assert told["failed"] == 0 and len({i["partition"] for i in told["items"]}) == 3
    seen = {}
    for partition in range(3):
        rows = good(three.nodes[1], f"/v1/topics/{topic}/partitions/{partition}/records?limit=10000")["records"]
        for row in rows:
            seen.setdefault((row["value"]["string"][0], row["key"]["string"]), []).append(row["value"]["string"])
    assert sum(len(v) for v in seen.values()) == 1800
    assert all(v == sorted(v) for v in seen.values())
    assert good(three.nodes[2], f"/v1/topics/{topic}/records", "POST", b"plain", headers={"Content-Type": "text/plain"})["failed"] == 0


def test_acks_of_every_kind(three, topic):
    for node in nodes_of(three):
        for acks in ("all", 1, 0):
            assert produce(node, topic, [text("x", p) for p in range(3)], acks=acks)["failed"] == 0


def test_a_record_that_is_refused_is_refused_with_the_leader_s_words(three, name):
    topic = name[-60:]
    create(three, topic, 3, **{"max.message.bytes": "2000"})
    told = [ask(node, f"/v1/topics/{topic}/records", "POST", {"records": [text("y" * 5000, p) for p in range(3)]}) for node in nodes_of(three)]
    assert {(status, value["error"]) for status, _, value in told} == {(413, "MESSAGE_TOO_LARGE")}, told


def test_a_body_of_the_largest_size(three, topic):
    """rest.max.request.bytes is 8 MiB: as one JSON body to leaders elsewhere, and passed on whole to a group's coordinator."""
    wide = base64.b64encode(bytes(range(256)) * 2900).decode()
    for node in nodes_of(three):
        body = json.dumps({"records": [{"value": {"base64": wide}, "partition": p} for p in (0, 1, 2) for _ in range(2)]}).encode()
        body += b" " * (8 * 1024 * 1024 - len(body))
        status, _, value = ask(node, f"/v1/topics/{topic}/records", "POST", body, headers=JSON, timeout_s=60)
        assert status == 200 and value["failed"] == 0, value
    for node in nodes_of(three):
        status, _, raw = ask(node, f"/v1/topics/{topic}/partitions/1/records/0/value")
        assert status == 200 and raw == bytes(range(256)) * 2900
        body = json.dumps({"offsets": [{"topic": topic, "partition": 0, "offset": 1}]}).encode()
        status, _, value = ask(node, f"/v1/groups/wide-{topic}/offsets", "PUT", body + b" " * (8 * 1024 * 1024 - len(body)), headers=JSON, timeout_s=60)
        assert status == 200, value


def test_browse_and_the_records_of_all_partitions(three, topic):
    for i in range(30):
        produce(three.nodes[i % 3 + 1], topic, [{"value": {"string": f"r{i:02}"}, "partition": i % 3, "timestamp_ms": 1700000000000 + i}])
    for node in nodes_of(three):
        value = good(node, f"/v1/topics/{topic}/records?limit=12")
        assert [r["value"]["string"] for r in value["records"]] == [f"r{i:02}" for i in range(29, 17, -1)]
        more = good(node, f"/v1/topics/{topic}/records?limit=100&continue_token={value['continue_token']}")
        assert [r["value"]["string"] for r in more["records"]] == [f"r{i:02}" for i in range(17, -1, -1)] and more["complete"]
        assert [r["value"]["string"] for r in good(node, f"/v1/topics/{topic}/records?contains=r07")["records"]] == ["r07"]


class Tail(threading.Thread):
    def __init__(self, node, path):
        super().__init__(daemon=True)
        import urllib.request
        self.answer = urllib.request.urlopen(node.rest + path, timeout=60)
        self.events, self.ended = [], False
        self.start()

    def run(self):
        event = {}
        try:
            for line in self.answer:
                line = line.decode().rstrip("\n")
                if not line and event:
                    self.events.append(event)
                    event = {}
                elif ": " in line and not line.startswith(":"):
                    key, value = line.split(": ", 1)
                    event[key] = value
        except (OSError, ValueError, AttributeError, HTTPException):           # closed from outside, in the middle of a read
            pass
        self.ended = True

    def values(self):
        return [json.loads(e["data"])["value"]["string"] for e in self.events if e.get("event") == "record"]


def test_tail_at_any_broker_follows_all_partitions(three, topic):
    tails = [Tail(node, f"/v1/topics/{topic}/tail") for node in nodes_of(three)]
    for i in range(30):
        produce(three.nodes[i % 3 + 1], topic, [text(f"t{i:02}", i % 3)])
    for tail in tails:
        harness.until(lambda t=tail: len(t.values()) >= 30, 20, lambda: f"tail: {tail.values()}")
        assert sorted(tail.values()) == [f"t{i:02}" for i in range(30)]
    last = [e for e in tails[0].events if "id" in e][-1]["id"]
    for tail in tails:
        tail.answer.close()
    produce(three.nodes[1], topic, [text(f"later{p}", p) for p in range(3)])
    import urllib.request
    request = urllib.request.Request(three.nodes[2].rest + f"/v1/topics/{topic}/tail", headers={"Last-Event-ID": last})
    with urllib.request.urlopen(request, timeout=20) as answer:
        seen = []
        while len(seen) < 3:
            line = answer.readline().decode()
            if line.startswith("data: {") and "later" in line:
                seen.append(json.loads(line[6:])["value"]["string"])
    assert sorted(seen) == ["later0", "later1", "later2"]


def test_groups_are_told_and_changed_at_any_broker(three, topic):
    produce(three.nodes[1], topic, [text(f"g{i}", i % 3) for i in range(30)])
    groups = [f"{topic[-30:]}-g{i}" for i in range(6)]
    for i, group in enumerate(groups):
        node = three.nodes[i % 3 + 1]
        told = good(node, f"/v1/groups/{group}/offsets", "PUT", {"offsets": [{"topic": topic, "partition": p, "offset": p + 1} for p in range(3)]})
        assert [o["error"] for o in told["items"]] == [None] * 3
    where = {group: good(three.nodes[1], f"/v1/groups/{group}")["coordinator"] for group in groups}
    assert len(set(where.values())) > 1, where         # else nothing is passed on
    for path in ("", "/members", "/assignments", "/owners", "/timeline", "/offsets", "/lag"):
        for group in groups:
            told = [without(good(node, f"/v1/groups/{group}{path}"), ("max_ms", "lag_ms", "max_ms_read_committed", "lag_ms_read_committed")) for node in nodes_of(three)]
            assert told[0] == told[1] == told[2], path
    for node in nodes_of(three):
        lag = good(node, f"/v1/groups/{groups[0]}/lag")
        assert lag["total"] == 30 - 6 and lag["exact"] and lag["partitions_unknown"] == 0, lag
        status, headers, _ = ask(node, f"/v1/groups/{groups[0]}")
        assert headers["Ottla-Served-By"] == str(where[groups[0]])
        assert good(node, f"/v1/groups/{groups[0]}")["lag"]["total"] == 24
        names = [g["group"] for g in good(node, f"/v1/groups?prefix={topic[-30:]}")["items"]]
        assert names == groups
        rows = {g["group"]: g for g in good(node, f"/v1/groups?prefix={topic[-30:]}&with=lag")["items"]}
        assert all(rows[g]["lag"]["total"] == 24 and rows[g]["coordinator"] == where[g] for g in groups)
        assert sorted(g["group"] for g in good(node, f"/v1/topics/{topic}/groups")["items"]) == groups
        listed, token = [], ""
        while token is not None:               # page by page
            page = good(node, f"/v1/groups?prefix={topic[-30:]}&limit=2" + (f"&page_token={token}" if token else ""))
            listed += [g["group"] for g in page["items"]]
            token = page["next_page_token"]
        assert listed == groups
        for form in ("format", "%66ormat"):    # what shapes the answer is not for those who are asked for their part
            status, headers, told = ask(node, f"/v1/groups?prefix={topic[-30:]}&{form}=csv")
            assert "Ottla-Partial" not in headers and all(g in told.decode() for g in groups), told
        assert set(good(node, f"/v1/registry/consumers/{groups[0]}/offsets/{topic}")["children"]) == {"0", "1", "2"}
    line = f'ottla_group_lag_records{{group="{groups[0]}",topic="{topic}"}} 24'         # of partitions led elsewhere too
    harness.until(lambda: line in harness.http(three.nodes[where[groups[0]]].rest + "/metrics")[2].decode(), 20, lambda: line)
    for i, node in enumerate(nodes_of(three)):
        how = [{"strategy": "latest"}, {"strategy": "timestamp", "timestamp": 1}, {"strategy": "shift", "by": 2}][i]
        told = good(node, f"/v1/groups/{groups[i]}/offsets/reset", "POST", {"dry_run": False, "topics": [{"topic": topic}], **how})
        assert [r["error"] for r in told["items"]] == [None] * 3, told
        assert [r["to"] for r in told["items"]] == [[10, 10, 10], [0, 0, 0], [3, 4, 5]][i]
    for i, node in enumerate(nodes_of(three)):
        group = groups[3 + i]
        copy = good(node, f"/v1/groups/{group}/offsets/reset", "POST", {"dry_run": False, "topics": [{"topic": topic}], "strategy": "group", "group": groups[0]})
        assert [r["to"] for r in copy["items"]] == [10, 10, 10], copy
        status, _, value = ask(node, f"/v1/groups/{group}/offsets/{topic}/0", "PUT", {"offset": 11})
        assert status == 416 and value["high_watermark"] == 10, value
        good(node, f"/v1/groups/{group}/offsets/{topic}/0", "PUT", {"offset": 4})
        assert good(node, f"/v1/groups/{group}/offsets/{topic}/0")["lag"] == 6
        etag = ask(node, f"/v1/groups/{group}/offsets")[1]["ETag"]
        assert ask(node, f"/v1/groups/{group}/offsets/{topic}", "DELETE", headers={"If-Match": '"1"'})[0] == 412
        assert ask(node, f"/v1/groups/{group}/offsets/{topic}/1", "DELETE", headers={"If-Match": etag})[0] == 204
        assert ask(node, f"/v1/groups/{group}", "DELETE")[0] == 204
        assert ask(three.nodes[1], f"/v1/groups/{group}")[0] == 404
    assert ask(three.nodes[2], "/v1/groups/no-such-group")[0] == 404


def test_the_state_of_topics_and_partitions_is_that_of_the_whole_cluster(three, topic):
    produce(three.nodes[1], topic, [text("s" * 1000, p) for p in range(3) for _ in range(5)])

    def look():
        told = [good(node, f"/v1/topics/{topic}/partitions/0") for node in nodes_of(three)]
        return told if all(r["log_end_offset"] == 5 for t in told for r in t["replica_state"]) and all(t["high_watermark"] == 5 for t in told) else None
    told = harness.until(look, 20, lambda: f"{[good(n, f'/v1/topics/{topic}/partitions/0') for n in nodes_of(three)]}")
    for t in told:
        for r in t["replica_state"]:           # of the moment of asking
            r.update(caught_up_ms_ago=None, last_fetch_ms_ago=None)
    assert told[0] == told[1] == told[2]
    assert all(r["lag"] == 0 and r["log_dir"] and r["size_bytes"] > 0 for r in told[0]["replica_state"])
    for path in (f"/v1/topics/{topic}?x", f"/v1/topics/{topic}/partitions", f"/v1/partitions?topic={topic}", f"/v1/topics/{topic}/partitions/1/replicas",
                 f"/v1/topics/{topic}/partitions/1/replicas/2", f"/v1/topics?prefix={topic}&sort=-size_bytes", f"/v1/topics?prefix={topic}", "/v1/log-dirs",
                 "/v1/cluster/health", "/v1/cluster", f"/v1/brokers/2/partitions?topic={topic}", f"/v1/producers?topic={topic}", "/v1/brokers/3/log-dirs",
                 f"/v1/topics/{topic}/partitions/0/producers", "/v1/health/checks/disk_free"):
        path = path.replace("?x", "")

        def same(p=path):
            told = [without(good(node, p), ("free_bytes", "used_bytes", "bytes_in_per_second", "bytes_out_per_second", "since", "log_bytes", "caught_up_ms_ago", "last_fetch_ms_ago")) for node in nodes_of(three)]
            return told if told[0] == told[1] == told[2] else None
        told = harness.until(same, 10, lambda p=path: f"{p}: {[good(n, p) for n in nodes_of(three)]}")
        assert "partial" not in told[0], path
    row = good(three.nodes[3], f"/v1/topics/{topic}")
    assert row["records_estimate"] == 15 and row["size_bytes"] > 15000
    assert len(good(three.nodes[1], "/v1/log-dirs")["items"]) == 3
    assert [d["broker"] for d in good(three.nodes[1], "/v1/log-dirs?limit=2")["items"]] == [1, 2]
    size = {r["broker"]: r["size_bytes"] for r in good(three.nodes[1], f"/v1/topics/{topic}/partitions/0/replicas")["items"]}
    assert all(size.values()) and len(size) == 3


def test_what_is_of_one_broker_is_had_at_any(three, topic):
    for node in nodes_of(three):
        for other in nodes_of(three):
            assert good(node, f"/v1/metrics?broker={other.id}")["broker"] == other.id
            assert ask(node, f"/v1/diagnostics/memory?broker={other.id}")[1]["Ottla-Served-By"] == str(other.id)
            assert ask(node, f"/v1/brokers/{other.id}/loggers")[1]["Ottla-Served-By"] == str(other.id)
            assert ask(node, f"/v1/brokers/{other.id}/connections")[0] == 200
            assert good(node, f"/v1/topics/{topic}/partitions/0/segments?broker={other.id}")["total"] is not None
        assert ask(node, "/v1/metrics?broker=99")[2]["error"] == "BROKER_ID_NOT_REGISTERED"
        together = good(node, "/v1/metrics?scope=cluster")
        assert [b["broker"] for b in together["brokers"]] == [1, 2, 3]
        assert together["replication"]["partitions_led"] == sum(b["replication"]["partitions_led"] for b in together["brokers"])
        assert together["replication"]["max_lag"] == max(b["replication"]["max_lag"] for b in together["brokers"]) and together["replication"]["isr_shrinks_total"] >= 0
        series = good(node, "/v1/metrics/series?names=bytes_in_per_second,connections&scope=cluster&by=broker&window=60s")
        assert [(s["name"], s["labels"]["broker"]) for s in series["series"]] == [(n, str(b)) for b in three.nodes for n in ("bytes_in_per_second", "connections")]
        assert len(good(node, "/v1/metrics/series?names=bytes_in_per_second&scope=cluster&window=60s")["series"]) == 1
    for node in nodes_of(three):
        for other in nodes_of(three):
            own = {e["name"]: e for e in good(node, f"/v1/brokers/{other.id}/config", "PATCH", {"ottla.loss.keep.bytes": str(10 + node.id)})["entries"]}
            assert (own["node.id"]["value"], own["ottla.loss.keep.bytes"]["value"]) == (str(other.id), str(10 + node.id))
            assert {e["name"]: e for e in good(node, f"/v1/brokers/{other.id}/config")["entries"]}["rest.listeners"] == own["rest.listeners"]
            good(node, f"/v1/brokers/{other.id}/config", "PATCH", {"ottla.loss.keep.bytes": None})
    level = good(three.nodes[1], "/v1/brokers/3/loggers", "PATCH", {"kafka": "debug"})
    assert good(three.nodes[2], "/v1/brokers/3/loggers") == level
    good(three.nodes[1], "/v1/brokers/3/loggers", "PATCH", {"kafka": "info"})
    controller = three.controller()
    for node in nodes_of(three):
        status, headers, _ = ask(node, f"/v1/topics/{topic}?consistency=controller")
        assert status == 200 and headers["Ottla-Served-By"] == str(controller) and headers["Ottla-Metadata-Lag-Ms"] == "0"


def test_records_are_deleted_at_any_broker(three, topic):
    produce(three.nodes[1], topic, [text("d", p) for p in range(3) for _ in range(4)])
    for partition, node in enumerate(nodes_of(three)):
        for asked in nodes_of(three):
            preview = good(asked, f"/v1/topics/{topic}/partitions/{partition}/records/delete", "POST", {"before_offset": 2, "dry_run": True})
            assert preview["deleted_offsets"] == 2
        told = good(node, f"/v1/topics/{topic}/partitions/{partition}/records/delete", "POST", {"before_offset": 2, "dry_run": False})
        assert told["log_start_offset"] == 2
        assert ask(node, f"/v1/topics/{topic}/partitions/{partition}/records?offset=0")[0] == 416


def test_transactions_at_any_broker(three, topic):
    names = [f"{topic[-30:]}-tx{i}" for i in range(6)]
    for name in names:
        def begin(name=name):
            with three.nodes[1].connect() as c:
                found = c.ask("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [name]})["coordinators"][0]
            if found["errorCode"] != 0:
                return False
            node = next(n for n in nodes_of(three) if n.port == found["port"])
            with node.connect() as c:
                made = c.ask("InitProducerId", 4, {"transactionalId": name, "transactionTimeoutMs": 60000, "producerId": -1, "producerEpoch": -1})
                if made["errorCode"] != 0:
                    return False
                added = c.ask("AddPartitionsToTxn", 3, {"v3AndBelowTransactionalId": name, "v3AndBelowProducerId": made["producerId"],
                              "v3AndBelowProducerEpoch": made["producerEpoch"], "v3AndBelowTopics": [{"name": topic, "partitions": [0]}]})
            return added["resultsByTopicV3AndBelow"][0]["resultsByPartition"][0]["partitionErrorCode"] == 0
        harness.until(begin, 30, lambda: "a transaction begins")
    for node in nodes_of(three):
        assert [t["transactional_id"] for t in good(node, f"/v1/transactions?prefix={topic[-30:]}")["items"]] == names
        assert all(good(node, f"/v1/transactions/{name}")["state"] == "ongoing" for name in names)
    for i, name in enumerate(names):
        assert good(three.nodes[i % 3 + 1], f"/v1/transactions/{name}/abort", "POST")["applied"] is True


def test_jobs_are_told_and_cancelled_at_any_broker(three, topic):
    produce(three.nodes[1], topic, [text("j" * 100, p) for p in range(3) for _ in range(50)])
    made = {node.id: good(node, "/v1/diagnostics/verify", "POST", {"topic": topic, "max_bytes_per_second": 100}) for node in nodes_of(three)}
    there = good(three.nodes[1], "/v1/diagnostics/verify?broker=2", "POST", {"topic": topic})
    assert there["job_id"].startswith("j-2-")
    for node in nodes_of(three):
        for other, job in made.items():
            status, headers, value = ask(node, f"/v1/jobs/{job['job_id']}")
            assert status == 200 and headers["Ottla-Served-By"] == str(other) and value["job_id"] == job["job_id"]
        listed = [j["job_id"] for j in good(node, "/v1/jobs")["items"]]
        assert {job["job_id"] for job in made.values()} <= set(listed)
        assert [j["job_id"].split("-")[1] for j in good(node, "/v1/jobs?broker=3")["items"]] == ["3"]
    page = good(three.nodes[1], "/v1/jobs?limit=2")
    more = good(three.nodes[1], f"/v1/jobs?limit=100&page_token={page['next_page_token']}")
    assert len({j["job_id"] for j in page["items"] + more["items"]}) == page["total"]
    for node in nodes_of(three):
        assert ask(node, f"/v1/jobs/{made[node.id % 3 + 1]['job_id']}", "DELETE")[0] == 202
    assert ask(three.nodes[1], "/v1/jobs/j-2-0-0")[0] == 404


def test_a_key_is_used_once_in_the_whole_cluster(three, name):
    body = {"name": f"once-{name[-40:]}", "partitions": 1, "replication_factor": 3}
    told = [ask(node, "/v1/topics", "POST", body, headers={"Idempotency-Key": name[-60:]}) for node in nodes_of(three)]
    assert [status for status, _, _ in told] == [201, 201, 201] and told[0][2] == told[1][2] == told[2][2]
    assert [headers.get("Idempotency-Replayed") for _, headers, _ in told] == [None, "true", "true"]
    assert {headers["Ottla-Served-By"] for _, headers, _ in told} == {str(three.controller())}
    assert ask(three.nodes[2], "/v1/topics", "POST", {**body, "partitions": 2}, headers={"Idempotency-Key": name[-60:]})[0] == 422


def test_never_two_hops(three, topic):
    """A broker that is told by another one to answer for what it does not lead says so, and asks nobody."""
    leaders = {r["partition"]: r["leader"] for r in good(three.nodes[1], f"/v1/topics/{topic}/partitions")["items"]}
    for partition, leader in leaders.items():
        wrong = next(n for n in nodes_of(three) if n.id != leader)
        with peer(wrong) as c:
            told = c.ask("PeerRest", 0, {"method": 0, "target": f"/v1/topics/{topic}/partitions/{partition}/offsets", "headers": [], "requestId": "r", "principal": "User:x",
                                         "address": "127.0.0.1", "timeoutMs": 5000, "answerBytesMax": 1 << 20, "body": b""})
        assert (told["status"], told["error"]) == (503, "NOT_LEADER_OR_FOLLOWER"), told
        assert str(leader) in json.loads(told["body"])["detail"]


def test_what_a_peer_sends_is_not_believed(three, topic):
    node = three.nodes[1]
    base = {"method": 0, "target": "/v1/version", "headers": [], "requestId": "r", "principal": "User:x", "address": "127.0.0.1", "timeoutMs": 5000, "answerBytesMax": 1 << 20, "body": b""}
    with peer(node) as c:
        assert c.ask("PeerRest", 0, base)["status"] == 200
        for change in ({"method": 9}, {"method": -1}, {"target": "a" * 9000}, {"target": "/v1/version\0"}, {"headers": [{"name": "a", "value": "b"}] * 40}):
            told = c.ask("PeerRest", 0, {**base, **change})
            assert (told["status"], told["error"]) == (0, "INVALID_REQUEST"), change
        told = c.ask("PeerRest", 0, {**base, "answerBytesMax": 10})
        assert (told["status"], told["error"]) == (0, "TOO_LARGE")
        body = json.dumps({"name": f"untold-{topic[-40:]}", "partitions": 1}).encode()
        told = c.ask("PeerRest", 0, {**base, "method": 1, "target": "/v1/topics", "body": body, "answerBytesMax": 10, "headers": [{"name": "Content-Type", "value": "application/json"}]})
        assert (told["status"], told["error"]) == (0, "TOO_LARGE")
        assert good(node, f"/v1/topics/untold-{topic[-40:]}")                     # done all the same: who asked may not be told that it was not
        assert c.ask("PeerRest", 0, {**base, "target": "no path"})["status"] in (400, 404)
        assert c.ask("PeerRest", 0, {**base, "target": f"/v1/topics/{topic}/tail"})["status"] == 406
        assert c.ask("PeerRest", 0, {**base, "method": 1, "target": "/v1/topics", "body": b"{}"})["status"] == 415
        assert c.ask("PeerRest", 0, {**base, "method": 1, "target": "/v1/topics", "body": b"{", "headers": [{"name": "Content-Type", "value": "application/json"}]})["status"] == 400
    assert good(node, "/v1/version")


def peer(node):
    """A connection that has said hello, as broker 77 of this cluster."""
    import wire
    c = wire.Connection(f"127.0.0.1:{node.peer_port}")
    told = c.ask("PeerHello", 0, {"nodeId": 77, "expects": node.id, "clusterId": None, "host": "127.0.0.1", "port": 0, "nonce": bytes(32), "proof": b""})
    assert told["errorCode"] == 0, told
    return c


def test_the_tool_works_at_any_broker(three, topic):
    import subprocess
    produce(three.nodes[1], topic, [text("c", p) for p in range(3)])
    good(three.nodes[1], f"/v1/groups/cli-{topic}/offsets", "PUT", {"offsets": [{"topic": topic, "partition": p, "offset": 1} for p in range(3)]})
    for node in nodes_of(three):
        for words in (["group", "describe", f"cli-{topic}"], ["group", "list"], ["cluster", "txn", "list"], ["topic", "describe", topic], ["cluster", "health"]):
            done = subprocess.run([harness.BINARY, *words, "--api", node.rest], capture_output=True, text=True, timeout=80, check=False)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert f"cli-{topic}" in subprocess.run([harness.BINARY, "group", "list", "--api", node.rest], capture_output=True, text=True, timeout=80, check=True).stdout


# ---- when one is not there

def test_a_paused_broker_is_named_and_not_waited_for(make):
    cluster = make(3, **SESSION).start()
    first = cluster.controller()
    create(cluster, "p", 3)
    quiet = next(i for i in cluster.nodes if i != first)
    others = [n for n in nodes_of(cluster) if n.id != quiet]
    assert good(others[0], "/v1/log-dirs").get("partial") is None
    cluster.pause(quiet)
    try:
        for node in others:
            for path in ("/v1/log-dirs", "/v1/cluster/health", "/v1/topics/p", "/v1/partitions", "/v1/metrics?scope=cluster"):
                status, headers, value = ask(node, path, timeout_s=10)         # well within the session: nobody has noticed yet
                if good(node, f"/v1/brokers/{quiet}")["state"] != "running":
                    break
                assert status == 200 and value.get("partial") is True and value["missing_brokers"] == [quiet] and headers["Ottla-Partial"] == str(quiet), (path, value)
    finally:
        cluster.go_on(quiet)
    harness.until(lambda: all("partial" not in good(n, "/v1/log-dirs") for n in nodes_of(cluster)), 30, lambda: "all answer again")
    cluster.stop()


def test_a_broker_without_rest_listener_is_asked_all_the_same(make):
    cluster = make(3)
    cluster.nodes[2].settings["rest.listeners"] = ""
    for node in nodes_of(cluster):
        node.start(wait=False)
    first = cluster.nodes[1]
    harness.until(lambda: sum(b["state"] == "running" for b in (first.view("/v1/brokers") or {"items": []})["items"]) == 3, 30, lambda: "three brokers")
    assert [d["broker"] for d in good(first, "/v1/log-dirs")["items"]] == [1, 2, 3]
    assert good(first, "/v1/metrics?broker=2")["broker"] == 2


def test_a_job_whose_broker_is_away_is_told_so(make):
    cluster = make(3, **SESSION).start()
    create(cluster, "j", 3)
    job = good(cluster.nodes[3], "/v1/diagnostics/verify", "POST", {"topic": "j"})["job_id"]
    harness.until(lambda: good(cluster.nodes[1], f"/v1/jobs/{job}")["state"] == "done", 20, lambda: "it is done")
    cluster.kill(3)
    for node in cluster.living():
        status, headers, value = ask(node, f"/v1/jobs/{job}")
        assert status == 503 and value["detail"].startswith("broker 3 has the job and was not reached") and headers["Retry-After"], value
        status, _, value = ask(node, "/v1/brokers/3/config")
        assert status == 503 and "broker 3 is" in value["detail"], value
    cluster.start_one(3)
    told = harness.until(lambda: (lambda answer: answer if answer[0] == 404 else None)(ask(cluster.nodes[1], f"/v1/jobs/{job}")), 20, lambda: "it has begun again")
    assert "began again" in told[2]["detail"] and told[1]["Ottla-Served-By"] == "3"


def test_a_leader_that_dies_is_followed(make):
    """Requests that were on their way to it go to the next one, or say 503 with Retry-After; never do they hang, and what was acknowledged is there."""
    cluster = make(3).start()
    first = cluster.controller()
    leaders = create(cluster, "d", 3, **{"min.insync.replicas": "2"})
    dying = next(i for i in cluster.nodes if i != first)
    partition = next(p for p, leader in leaders.items() if leader == dying)
    asked = next(n for n in nodes_of(cluster) if n.id != dying)
    acknowledged, errors, ended = [], [], threading.Event()

    def write():
        i = 0
        while not ended.is_set():
            status, headers, value = ask(asked, "/v1/topics/d/records", "POST", {"records": [text(f"w{i}", partition)]})
            if status == 200:
                acknowledged.append(f"w{i}")
            else:
                errors.append((status, value["error"]))
                assert status in (503, 504), value
                assert status == 504 or "Retry-After" in headers
            i += 1
    writer = threading.Thread(target=write)
    waiting = threading.Thread(target=lambda: errors.append(("poll", ask(asked, f"/v1/topics/d/partitions/{partition}/records?offset=latest&max_wait_ms=20000", timeout_s=40)[0])))
    writer.start()
    harness.until(lambda: len(acknowledged) > 5, 20, lambda: f"{errors}")
    cluster.pause(dying)                       # a long poll is on its way there when it dies
    waiting.start()
    harness.until(lambda: good(asked, "/v1/metrics")["rest"]["requests_in_work"] >= 1, 10, lambda: "the poll is under way")
    cluster.kill(dying)
    before = len(acknowledged)
    harness.until(lambda: len(acknowledged) > before + 10, 30, lambda: f"{errors[-5:]}")
    ended.set()
    writer.join(60)
    waiting.join(60)
    assert not writer.is_alive() and not waiting.is_alive()
    assert [e for e in errors if e[0] == "poll"][0][1] in (200, 503, 504)
    rows = good(asked, f"/v1/topics/d/partitions/{partition}/records?limit=10000")["records"]
    written = {r["value"]["string"] for r in rows}
    assert set(acknowledged) <= written
    assert good(asked, "/v1/topics/d/records?limit=5")["records"]              # browse reads at the new leader
    cluster.stop()


def test_a_leader_that_hands_over_gets_no_record_twice(make):
    """It has the record, its successor too, and the third replica is asleep: nobody knows when leadership passes on. Sent once more the record would be there twice."""
    cluster = make(3, **{"broker.session.timeout.ms": 18000}).start()
    new = cluster.controller()
    old, asleep = [i for i in cluster.nodes if i != new]
    harness.until(lambda: sum(row["state"] == "running" for row in cluster.brokers(new).values()) == 3, 30, lambda: "brokers are there")
    good(cluster.nodes[new], "/v1/topics", "POST", {"name": "h", "assignments": [[old, new, asleep]]})

    def rows():
        return {i: (cluster.nodes[i].view("/v1/topics/h/partitions") or {"items": [{"leader": -1, "isr": []}]})["items"][0] for i in (old, new)}
    harness.until(lambda: all(row["leader"] == old and len(row["isr"]) == 3 for row in rows().values()), 30, rows)
    for i in (old, new):
        produce(cluster.nodes[i], "h", [text("before", 0)])
    answers = {}
    cluster.pause(asleep)

    def write(i):
        answers[i] = ask(cluster.nodes[i], "/v1/topics/h/records?timeout_ms=20000", "POST", {"records": [text(f"by {i}", 0)]}, timeout_s=60)
    threads = [threading.Thread(target=write, args=(i,)) for i in (old, new)]
    for thread in threads:
        thread.start()

    def ends():
        return {r["broker"]: r["log_end_offset"] for r in good(cluster.nodes[new], "/v1/topics/h/partitions/0")["replica_state"]}
    harness.until(lambda: (ends()[old], ends()[new]) == (4, 4), 10, ends)
    good(cluster.nodes[new], f"/v1/brokers/{old}/maintenance", "PUT")
    harness.until(lambda: rows()[new]["leader"] == new, 15, rows)
    cluster.go_on(asleep)
    for thread in threads:
        thread.join(60)
    assert {i: (answer[0], answer[2].get("outcome")) for i, answer in answers.items()} == {old: (504, "unknown"), new: (504, "unknown")}, answers
    harness.until(lambda: len(rows()[new]["isr"]) == 3, 30, rows)
    harness.until(lambda: good(cluster.nodes[new], "/v1/topics/h/partitions/0")["high_watermark"] == 4, 30, rows)
    written = [r["value"]["string"] for r in good(cluster.nodes[new], "/v1/topics/h/partitions/0/records?limit=100")["records"]]
    assert sorted(written) == sorted(["before", "before", f"by {old}", f"by {new}"])
    cluster.stop()


def test_a_coordinator_that_hands_over_moves_no_offset_twice(make):
    """The same for offsets that are moved by so many: the next coordinator has read the first move already."""
    cluster = make(3, **{"broker.session.timeout.ms": 18000, "offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 3}).start()
    new = cluster.controller()
    node = cluster.nodes[new]
    harness.until(lambda: sum(row["state"] == "running" for row in cluster.brokers(new).values()) == 3, 30, lambda: "brokers are there")
    good(node, "/v1/topics", "POST", {"name": "h", "assignments": [[new]]})       # not where one sleeps
    harness.until(lambda: ask(node, "/v1/topics/h/records", "POST", {"records": [text(f"r{i}") for i in range(20)]})[0] == 200, 20, lambda: "written")
    harness.until(lambda: ask(node, "/v1/groups/g/offsets", "PUT", {"offsets": [{"topic": "h", "partition": 0, "offset": 10}]})[0] == 200, 20, lambda: "committed")

    def row():
        return harness.until(lambda: node.view("/v1/topics/__consumer_offsets/partitions"), 10, "the row of the partition")["items"][0]
    harness.until(lambda: len(row()["isr"]) == 3, 30, row)
    if row()["leader"] == new:                 # it shall be led by another one than the controller, which goes on
        good(node, f"/v1/brokers/{new}/maintenance", "PUT")
        harness.until(lambda: row()["leader"] not in (-1, new), 20, row)
        assert ask(node, f"/v1/brokers/{new}/maintenance", "DELETE")[0] == 204
    old = row()["leader"]
    asleep = next(i for i in cluster.nodes if i not in (old, new))
    harness.until(lambda: good(node, "/v1/groups/g/offsets/h/0")["offset"] == 10, 20, lambda: "the coordinator has read it")
    before = {r["broker"]: r["log_end_offset"] for r in good(node, "/v1/topics/__consumer_offsets/partitions/0")["replica_state"]}
    answers = []
    cluster.pause(asleep)
    shift = {"dry_run": False, "topics": [{"topic": "h"}], "strategy": "shift", "by": -2}
    thread = threading.Thread(target=lambda: answers.append(ask(node, "/v1/groups/g/offsets/reset?timeout_ms=20000", "POST", shift, timeout_s=60)))
    thread.start()

    def ends():
        return {r["broker"]: r["log_end_offset"] for r in good(node, "/v1/topics/__consumer_offsets/partitions/0")["replica_state"]}
    harness.until(lambda: all(ends()[i] is not None and ends()[i] > before[old] for i in (old, new)), 10, ends)
    good(node, f"/v1/brokers/{old}/maintenance", "PUT")
    harness.until(lambda: row()["leader"] not in (-1, old), 15, row)
    cluster.go_on(asleep)
    thread.join(60)
    assert answers and (answers[0][0], answers[0][2].get("outcome")) == (504, "unknown"), answers
    harness.until(lambda: ask(node, "/v1/groups/g/offsets/h/0")[0] == 200, 20, lambda: "the next coordinator has read it")
    assert good(node, "/v1/groups/g/offsets/h/0")["offset"] == 8 or row()["leader"] == asleep, row()       # who slept has not heard of the move
    assert good(node, "/v1/groups/g/offsets/h/0")["offset"] in (8, 10)
    cluster.stop()


def test_a_stop_waits_for_nobody(make):
    """Long polls and tails that are on their way to another broker end with the server that took them, and with the one that answers them."""
    cluster = make(3).start()
    leaders = create(cluster, "s", 3)
    asked = cluster.nodes[1]
    away = next(p for p, leader in leaders.items() if leader != 1)
    done = []

    def poll():
        try:
            done.append(ask(asked, f"/v1/topics/s/partitions/{away}/records?offset=latest&max_wait_ms=30000", timeout_s=60)[0])
        except OSError:                        # the connection ended before its answer had left
            done.append(0)
    polls = [threading.Thread(target=poll, daemon=True) for _ in range(5)]
    for one in polls:
        one.start()
    tail = Tail(asked, "/v1/topics/s/tail")
    harness.until(lambda: good(asked, "/v1/metrics")["rest"]["requests_in_work"] >= 5, 10, lambda: "polls are under way")
    asked.stop()
    for one in polls:
        one.join(20)
        assert not one.is_alive()
    assert len(done) == 5
    harness.until(lambda: tail.ended, 10, lambda: "the tail has ended")
    cluster.nodes[2].stop()
    cluster.nodes[3].kill()
