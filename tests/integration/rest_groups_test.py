"""Groups over REST and `ottla group`: a real consumer's group looked at, its offsets moved by every strategy, members taken out."""
import json
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import harness
from admin import Admin
from cli_test import ottla

pytestmark = pytest.mark.timeout(120)
JSON = {"Content-Type": "application/json"}


def call(broker, method, path, body=None, status=200):
    got, _, answer = harness.http(broker.rest + path, method, None if body is None else json.dumps(body).encode(), JSON if body is not None else None)
    assert got == status, (method, path, got, answer)
    return json.loads(answer) if answer else None


@pytest.fixture(scope="module")
def billing(run_directory):
    """A broker with a topic of two partitions, ten records each, a second apart, and a group that has read and committed four of each."""
    if harness.EXTERNAL:
        pytest.skip("needs a server of its own")
    broker = harness.Broker(run_directory / "rest-groups", group_initial_rebalance_delay_ms=100, metrics_group_lag_interval_ms=100, offsets_retention_check_interval_ms=100)
    try:
        broker.start()
        with broker.connect() as connection:
            Admin(connection).create("orders", partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        start = int(time.time() * 1000) - 20000
        for i in range(20):
            producer.produce("orders", value=str(i), partition=i % 2, timestamp=start + (i // 2) * 1000)
        assert producer.flush(30) == 0
        broker.start_ms = start
        yield broker
        broker.stop()
    finally:
        broker.kill()


def commit(broker, group, *offsets):
    call(broker, "PUT", f"/v1/groups/{group}/offsets", {"offsets": [{"topic": "orders", "partition": p, "offset": o} for p, o in enumerate(offsets)]})


def offsets(broker, group):
    return [row["offset"] for row in call(broker, "GET", f"/v1/groups/{group}/offsets")["items"]]


def test_a_group_with_members(billing):
    consumer = Consumer({"bootstrap.servers": billing.bootstrap, "group.id": "live", "client.id": "c-1", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    harness.until(lambda: consumer.poll(0.2) is not None, 20, "records")
    consumer.commit(offsets=[TopicPartition("orders", 0, 4), TopicPartition("orders", 1, 4)], asynchronous=False)
    group = call(billing, "GET", "/v1/groups/live")
    assert (group["state"], group["type"], group["protocol_type"]) == ("Stable", "classic", "consumer")
    member = group["members"][0]
    assert member["client_id"] == "c-1" and member["subscription"] == ["orders"] and len(member["assignment"]) == 2
    lag = group["lag"]
    age_ms = time.time() * 1000 - (billing.start_ms + 4000)        # of record 4, the first that was not committed
    assert age_ms - 10000 < lag.pop("max_ms") <= age_ms
    assert lag == {"total": 12, "total_read_committed": 12, "exact": True, "max": 6, "max_at": {"topic": "orders", "partition": 0}}
    owners = call(billing, "GET", "/v1/groups/live/owners")
    assert {o["member_id"] for o in owners["owners"]} == {member["member_id"]} and len(owners["owners"]) == 2 and owners["unowned"] == []
    rows = call(billing, "GET", "/v1/groups/live/offsets")["items"]
    assert [(r["offset"], r["lag"], r["owner"]) for r in rows] == [(4, 6, member["member_id"])] * 2
    assert call(billing, "GET", "/v1/groups/live/lag")["total"] == 12
    event = call(billing, "GET", "/v1/groups/live/timeline")["items"][0]
    assert event["reason"] == "member_joined" and event["duration_ms"] >= 0 and event["partitions_moved"] == 2
    assert [g["group"] for g in call(billing, "GET", "/v1/groups?state=stable")["items"]] == ["live"]
    assert call(billing, "PUT", "/v1/groups/live/offsets/orders/0", {"offset": 0}, 409)["error"] == "NON_EMPTY_GROUP"
    call(billing, "POST", "/v1/groups/live/offsets/reset", {"dry_run": False, "strategy": "earliest"}, 409)
    assert call(billing, "POST", "/v1/groups/live/offsets/reset", {"dry_run": True, "strategy": "earliest"})["items"][0]["to"] == 0
    call(billing, "DELETE", "/v1/groups/live", status=409)
    text = ottla(billing, "group", "describe", "live").out.decode()
    assert "Stable" in text and "c-1" in text
    call(billing, "DELETE", f"/v1/groups/live/members/{member['member_id']}", status=204)
    call(billing, "DELETE", "/v1/groups/live/members/nobody", status=404)
    consumer.close()
    harness.until(lambda: call(billing, "GET", "/v1/groups/live")["state"] == "Empty", 20, "nobody is left")
    assert call(billing, "GET", "/v1/groups/live/owners")["unowned"] == [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 1}]
    assert ottla(billing, "group", "delete", "live", "--yes").lines == ["live deleted"]
    call(billing, "GET", "/v1/groups/live", status=404)


def lag_at(broker, topic, offset):
    call(broker, "PUT", f"/v1/groups/behind/offsets/{topic}/0", {"offset": offset})
    return next(row for row in call(broker, "GET", "/v1/groups/behind/lag")["items"] if row["topic"] == topic)


def test_lag_counts_what_a_reader_is_given(billing):
    """Not markers, not what was aborted; by isolation level; from inside a compressed batch on."""
    with billing.connect() as connection:
        Admin(connection).create("paid", partitions=1)
    producer = Producer({"bootstrap.servers": billing.bootstrap, "transactional.id": "payer", "linger.ms": 200, "compression.type": "gzip"})
    producer.init_transactions()
    start = int(time.time() * 1000) - 3600000
    for round_number, good in enumerate((True, False, True)):          # 0-4 marker 5, 6-10 marker 11, 12-16 marker 17
        producer.begin_transaction()
        for i in range(5):
            producer.produce("paid", value=str(i), timestamp=start + round_number * 60000 + i * 1000)
        producer.flush(20)
        if good:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)

    def seen(offset):
        row = lag_at(billing, "paid", offset)
        now_ms = time.time() * 1000
        times = [None if row[name] is None else round((now_ms - row[name] - start) / 1000) if row[name] > 0 else 0 for name in ("lag_ms", "lag_ms_read_committed")]
        assert row["lag_exact"] and row["lag_offsets"] == 18 - offset
        return row["lag"], row["lag_read_committed"], times

    def near(got, records, committed, times):
        assert got[:2] == (records, committed) and all(abs(a - b) <= 10 for a, b in zip(got[2], times)), got

    near(seen(0), 15, 10, [0, 0])
    near(seen(2), 13, 8, [2, 2])
    near(seen(5), 10, 5, [60, 120])        # the next that a reader of committed records is given is a minute younger
    near(seen(11), 5, 5, [120, 120])
    near(seen(16), 1, 1, [124, 124])
    assert seen(17) == (0, 0, [0, 0])      # only the marker is left
    assert seen(18) == (0, 0, [0, 0])
    producer.begin_transaction()
    producer.produce("paid", value="open")
    producer.flush(20)
    row = lag_at(billing, "paid", 17)
    assert (row["lag"], row["lag_read_committed"], row["lag_ms_read_committed"]) == (1, 0, 0)
    producer.abort_transaction(20)


def metric(broker, name, query="", **labels):
    """The value of one series, None while there is none."""
    text = harness.http(f"{broker.rest}/metrics{query}")[2].decode()
    for line in text.splitlines():
        if line.startswith(name + "{") and all(f'{key}="{value}"' in line for key, value in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    return None


def test_lag_is_a_metric_of_each_group_and_topic(billing):
    commit(billing, "watched", 4, 7)
    harness.until(lambda: metric(billing, "ottla_group_lag_records", group="watched", topic="orders") == 9, 20, "the next look at all groups")
    assert metric(billing, "ottla_group_lag_seconds", group="watched", topic="orders") > 1
    theirs = "?compat=kafka_exporter"
    assert metric(billing, "kafka_consumergroup_lag", theirs, consumergroup="watched", topic="orders", partition=1) == 3
    assert metric(billing, "kafka_consumergroup_lag_sum", theirs, consumergroup="watched", topic="orders") == 9
    assert metric(billing, "kafka_consumergroup_current_offset", theirs, consumergroup="watched", topic="orders", partition=0) == 4
    assert metric(billing, "kafka_consumergroup_current_offset_sum", theirs, consumergroup="watched", topic="orders") == 11
    assert metric(billing, "kafka_consumergroup_members", theirs, consumergroup="watched") == 0
    call(billing, "DELETE", "/v1/groups/watched", status=204)
    harness.until(lambda: metric(billing, "ottla_group_lag_records", group="watched") is None, 20, "the group is gone from the metrics")


def test_each_offset_that_expires_is_an_event(billing):
    """An old client says how long its offsets are to be kept; what becomes of them can be asked when the group is gone with them."""
    with billing.connect() as connection:
        answer = connection.ask("OffsetCommit", 2, {"groupId": "short", "generationIdOrMemberEpoch": -1, "memberId": "", "retentionTimeMs": 200, "topics": [
            {"name": "orders", "partitions": [{"partitionIndex": p, "committedOffset": 3 + p, "committedMetadata": ""} for p in (0, 1)]}]})
        assert [p["errorCode"] for p in answer["topics"][0]["partitions"]] == [0, 0]
    harness.until(lambda: harness.http(f"{billing.rest}/v1/groups/short")[0] == 404, 20, "the group is gone")
    story = call(billing, "GET", "/v1/groups/short/timeline")
    assert story["items"] == [] and {(e["topic"], e["partition"], e["offset"]) for e in story["expired_offsets"]} == {("orders", 0, 3), ("orders", 1, 4)}
    assert all(e["at"] > e["committed_at"] for e in story["expired_offsets"])
    assert billing.log().count("offset_expired group=\"short\" topic=orders") == 2
    call(billing, "GET", "/v1/groups/nobody/timeline", status=404)


def test_lag_of_very_many_batches_says_that_it_is_a_bound(billing):
    with billing.connect() as connection:
        Admin(connection).create("fine", partitions=1)
    producer = Producer({"bootstrap.servers": billing.bootstrap, "linger.ms": 5, "batch.num.messages": 1, "queue.buffering.max.messages": 100000})
    for i in range(20000):
        producer.produce("fine", value=b"x")
        producer.poll(0)
    assert producer.flush(60) == 0
    row = lag_at(billing, "fine", 0)
    assert (row["lag"], row["lag_exact"]) == (20000, False) and 0 <= row["lag_ms"] < 120000
    row = lag_at(billing, "fine", 19990)
    assert (row["lag"], row["lag_exact"]) == (10, True)


def reset(broker, name, **how):
    before = offsets(broker, name)
    seen = call(broker, "POST", f"/v1/groups/{name}/offsets/reset", {"dry_run": True, **how})
    assert not seen["applied"] and offsets(broker, name) == before
    done = call(broker, "POST", f"/v1/groups/{name}/offsets/reset", {"dry_run": False, **how})
    assert done["applied"] and done["items"] == seen["items"]
    assert all(row["from"] == before[row["partition"]] for row in done["items"])
    return offsets(broker, name)


def test_every_strategy_moves_offsets_where_it_says(billing):
    commit(billing, "moved", 4, 4)
    assert reset(billing, "moved", strategy="latest") == [10, 10]
    assert reset(billing, "moved", strategy="earliest") == [0, 0]
    assert reset(billing, "moved", strategy="offset", offset=7) == [7, 7]
    assert reset(billing, "moved", strategy="shift", by=-2, topics=[{"topic": "orders", "partitions": [1]}]) == [7, 5]
    assert reset(billing, "moved", strategy="shift", by=1000) == [10, 10]
    assert reset(billing, "moved", strategy="timestamp", timestamp=billing.start_ms + 3000) == [3, 3]
    assert reset(billing, "moved", strategy="timestamp", timestamp="2031-01-01T00:00:00Z") == [10, 10]
    assert reset(billing, "moved", strategy="duration", duration="PT1H") == [0, 0]
    commit(billing, "other", 6, 8)
    assert reset(billing, "moved", strategy="group", group="other") == [6, 8]
    assert reset(billing, "moved", strategy="current") == [6, 8]


def test_a_reset_says_what_is_wrong_with_it(billing):
    for body in ({"strategy": "earliest"}, {"dry_run": True, "strategy": "sideways"}, {"dry_run": True, "strategy": "offset"}, {"dry_run": True, "strategy": "earliest", "by": 1},
                 {"dry_run": True, "strategy": "duration", "duration": "soon"}, {"dry_run": True, "strategy": "timestamp", "timestamp": "soon"}):
        call(billing, "POST", "/v1/groups/moved/offsets/reset", body, 400)
    call(billing, "POST", "/v1/groups/nobody/offsets/reset", {"dry_run": True, "strategy": "earliest"}, 404)
    row = call(billing, "POST", "/v1/groups/fresh/offsets/reset", {"dry_run": True, "strategy": "earliest", "topics": [{"topic": "none"}]}, 207)["items"][0]
    assert row["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert call(billing, "PUT", "/v1/groups/fresh/offsets/orders/0", {"offset": 11}, 416)["high_watermark"] == 10
    call(billing, "PUT", "/v1/groups/fresh/offsets/none/0", {"offset": 0}, 404)


def test_the_command_line_moves_offsets_too(billing):
    commit(billing, "tool", 1, 1)
    rows = ottla(billing, "group", "reset", "tool", "--topic", "orders:1", "--shift-by", "3", "--dry-run", "-o", "ndjson").lines
    assert [(json.loads(r)["from"], json.loads(r)["to"]) for r in rows] == [(1, 4)] and offsets(billing, "tool") == [1, 1]
    ottla(billing, "group", "reset", "tool", "--to-latest", "--yes")
    assert offsets(billing, "tool") == [10, 10]
    ottla(billing, "group", "set", "tool", "--topic", "orders", "--partition", "0", "--offset", "2")
    ottla(billing, "group", "drop-offsets", "tool", "--topic", "orders", "--partition", "1", "--yes")
    assert ottla(billing, "group", "offsets", "tool", "-o", "csv").lines[1].split(",")[:3] == ["orders", "0", "2"]
    assert "tool" in ottla(billing, "group", "list", "-o", "name").lines
    ottla(billing, "group", "reset", "tool", status=2)
    ottla(billing, "group", "describe", "nobody", status=3)
    assert ottla(billing, "group", "delete", "tool", "--dry-run").lines == ["tool could be deleted"]
