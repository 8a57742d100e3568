"""REST and the command line: what is inside of a broker. Slow requests, memory, threads, and the bundle of all of it."""
import io
import json
import tarfile
import time

import pytest

from cli_test import ottla
from harness import until
from rest_test import Rest, made, rest  # noqa: F401 (fixtures)


def slow(rest, **query):
    return rest.get("/v1/diagnostics/slow-requests", **query)


def test_what_took_long_is_told_with_where_its_time_went(own_broker, name):
    broker = own_broker(ottla_slow_request_ms=0)
    rest = Rest(broker)
    rest.create(name)
    with broker.connect() as c:
        c.ask("Metadata", 12, {"topics": None, "allowAutoTopicCreation": False, "includeTopicAuthorizedOperations": False})
    told = slow(rest, limit=1000)
    assert told["threshold_ms"] == 0
    create = next(one for one in told["items"] if one["operation"] == "createTopic")
    assert create["door"] == "rest" and create["result"] == "201" and create["address"] == "127.0.0.1" and create["request_id"]
    metadata = next(one for one in told["items"] if one["operation"] == "Metadata")
    assert metadata["door"] == "kafka" and metadata["version"] == 12 and metadata["result"] == "NONE" and metadata["request_bytes"] > 0 and metadata["answer_bytes"] > 0
    for one in told["items"]:
        assert one["duration_ms"] == pytest.approx(one["queued_ms"] + one["handled_ms"] + one["waited_ms"], abs=0.01), one
    ids = [one["id"] for one in told["items"]]
    assert ids == sorted(ids, reverse=True)
    assert {one["door"] for one in slow(rest, door="kafka")["items"]} == {"kafka"}
    assert slow(rest, longer_than_ms=3600000)["items"] == []
    first = slow(rest, door="kafka", limit=1)
    if first["next_page_token"]:
        assert slow(rest, door="kafka", limit=1, page_token=first["next_page_token"])["items"][0]["id"] < first["items"][0]["id"]
    rows = ottla(broker, "diagnostics", "slow", "--door", "kafka").lines
    assert rows[0].split()[:3] == ["AT", "DOOR", "OPERATION"] and any("Metadata" in row for row in rows)


def test_a_long_poll_that_was_asked_for_is_not_slow(own_broker, name):
    broker = own_broker(ottla_slow_request_ms=200)
    rest = Rest(broker)
    rest.create(name)
    assert rest.get(f"/v1/topics/{name}/partitions/0/records", offset="latest", max_wait_ms=600)["records"] == []
    with broker.connect() as c:
        c.ask("Fetch", 11, {"replicaId": -1, "maxWaitMs": 600, "minBytes": 1, "maxBytes": 1000, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": -1,
                            "topics": [{"topic": name, "partitions": [{"partition": 0, "currentLeaderEpoch": -1, "fetchOffset": 0, "logStartOffset": -1, "partitionMaxBytes": 1000}]}],
                            "forgottenTopicsData": [], "rackId": ""})
    assert not [one for one in slow(rest)["items"] if one["operation"] in ("Fetch", "fetchRecords")]


def test_the_threshold_changes_while_it_runs(rest):
    assert slow(rest)["threshold_ms"] == 500
    rest.ask("PATCH", "/v1/cluster/config", {"ottla.slow.request.ms": "-1"})
    assert slow(rest)["threshold_ms"] is None
    rest.ask("PATCH", "/v1/cluster/config", {"ottla.slow.request.ms": None})


def test_memory_is_told_by_pool(rest, broker):
    told = rest.get("/v1/diagnostics/memory")
    names = [pool["name"] for pool in told["pools"]]
    assert {"requests", "responses", "groups", "metadata", "rest"} <= set(names) and len(names) == len(set(names))
    assert all(0 <= pool["used_bytes"] <= pool["cap_bytes"] for pool in told["pools"])
    assert sum(pool["cap_bytes"] for pool in told["pools"]) <= told["limit_bytes"] and told["limit_from"]
    assert told["process"]["resident_bytes"] > 1 << 20 and told["allocator"]["used_bytes"] >= 0      # 0 with an allocator of a sanitizer
    assert [line.split()[0] for line in ottla(broker, "diagnostics", "memory").lines] == ["NAME"] + names


def test_threads_say_where_they_are(rest, broker):
    told = rest.get("/v1/diagnostics/threads", limit=1000)
    assert {"io-0", "coordinator", "rest"} <= {one["name"] for one in told["items"]} and "stack" not in told["items"][0]
    stacks = {one["name"]: one["stack"] for one in rest.get("/v1/diagnostics/threads", limit=1000, stacks="true")["items"]}
    assert any(frame.startswith("rest_threads+") for frame in stacks["rest"]), stacks["rest"]
    assert all(stacks.values()), [name for name, stack in stacks.items() if not stack]
    out = ottla(broker, "diagnostics", "threads", "--stacks").out.decode()
    assert "\ncoordinator (" in out and "rest_threads+" in out


def test_stacks_may_be_asked_for_under_load(own_broker, name):
    """Every thread is interrupted again and again: no request fails for it."""
    broker = own_broker()
    rest = Rest(broker)
    rest.create(name, 3)
    ended = time.monotonic() + 2
    while time.monotonic() < ended:
        assert rest.get("/v1/diagnostics/threads", limit=1000, stacks="true")["items"]
        ottla(broker, "produce", name, data="".join(f"{i}\n" for i in range(2000)))
    assert len(ottla(broker, "consume", name, "--from", "earliest", "--until", "end").lines) % 2000 == 0


def test_the_bundle_holds_it_all_and_no_secret(own_broker, name, tmp_path):
    broker = own_broker(ssl_key_password="a-secret-of-the-house")
    rest = Rest(broker)
    rest.create(name)
    rest.produce(name, {"value": {"string": "words that are nobody's business"}})
    answer = rest.ask("GET", "/v1/diagnostics/bundle")
    assert answer.headers["Content-Type"] == "application/gzip" and answer.headers["Content-Disposition"].startswith('attachment; filename="ottla-diagnostics-1-')
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        files = {member.name.split("/", 1)[1]: tar.extractfile(member).read() for member in tar.getmembers()}
        assert all(member.isfile() and member.mode == 0o644 for member in tar.getmembers())
    assert {"README.txt", "log.txt", "metrics.txt", "threads.json", "system/status.txt", "config-broker.json", "slow-requests.json", "memory.json"} <= set(files)
    for path, data in files.items():
        assert b"a-secret-of-the-house" not in data and b"nobody's business" not in data, path
        if path.endswith(".json"):
            assert "error" not in json.loads(data), (path, data)
    assert name in {one["topic"] for one in json.loads(files["topics.json"])["items"]}
    assert b" server ready " in files["log.txt"] and b"ottla_build_info{" in files["metrics.txt"]
    ottla(broker, "diagnostics", "bundle", "--file", tmp_path / "b.tar.gz")
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600 and tarfile.open(tmp_path / "b.tar.gz").getmembers()
    assert "is there already" in ottla(broker, "diagnostics", "bundle", "--file", tmp_path / "b.tar.gz", status=4).err
    assert tarfile.open(fileobj=io.BytesIO(ottla(broker, "diagnostics", "bundle", "--file", "-").out)).getmembers()


# ---- numbers of the past

def series(rest, **query):
    return rest.get("/v1/metrics/series", **query)


def test_series_have_the_shape_that_was_asked_for(rest, made):
    told = series(rest, names="bytes_in_per_second,produce_latency_p99_ms", window="10m")
    assert [one["name"] for one in told["series"]] == ["bytes_in_per_second", "produce_latency_p99_ms"] and told["step_ms"] == 10000
    assert len(told["time_ms"]) in (60, 61) and all(len(one["values"]) == len(told["time_ms"]) for one in told["series"])
    assert told["time_ms"][0] == told["from_ms"] and told["series"][0]["labels"] == {"broker": "1"} and told["series"][0]["unit"] == "bytes/s"
    assert series(rest, window="24h")["step_ms"] == 60000 and series(rest, window="7d")["step_ms"] == 900000 and series(rest, topic=made, window="1d")["step_ms"] == 120000
    row = series(rest, topic=made, names="records_in_per_second", window="30s", format="rows")["rows"][0]
    assert row["topic"] == made and row["name"] == "records_in_per_second" and row["value"] is None
    lines = rest.ask("GET", "/v1/metrics/series", names="cpu_ratio,connections", window="1m", format="csv").text.split("\r\n")
    assert lines[0] == "time_ms,cpu_ratio,connections" and all(line.count(",") == 2 for line in lines[:-1])
    catalog = {(one["name"], tuple(one["labels"])) for one in rest.get("/v1/metrics/catalog", limit=1000)["items"] if one["type"] == "series"}
    assert {("bytes_in_per_second", ("broker",)), ("bytes_in_per_second", ("broker", "topic")), ("lag_records", ("broker", "group"))} <= catalog


@pytest.mark.parametrize("query,parameter", [({"names": "nothing"}, "names"), ({"step": "3s"}, "step"), ({"topic": "t", "step": "1m"}, "step"), ({"window": "soon"}, "window"), ({"window": "0s"}, "window"),
                                             ({"topic": "t", "group": "g"}, "group"), ({"from": "2000", "to": "1000"}, "to"), ({"window": "7d", "step": "10s"}, "step"), ({"scope": "world"}, "scope")])
def test_faulty_questions_for_series(rest, query, parameter):
    problem = rest.problem("GET", "/v1/metrics/series", 400, "INVALID_REQUEST", **query)
    assert problem["errors"][0]["parameter"] == parameter
    if query.get("window") != "7d":
        assert len(problem["errors"]) == 1, problem


def test_too_many_series_are_told_as_that(rest):
    many = ",".join(["cpu_ratio"] * 33)
    problem = rest.problem("GET", "/v1/metrics/series", 400, "INVALID_REQUEST", names=many)
    assert "33 names, at most 32" in problem["errors"][0]["detail"], problem
    assert len(series(rest, names=many[10:], window="1m")["series"]) == 32


@pytest.mark.long
@pytest.mark.timeout(120)
def test_series_fill_and_outlive_a_restart(own_broker, name):
    broker = own_broker()
    rest = Rest(broker)
    rest.create(name)

    def filled():
        rest.produce(name, {"value": {"string": "x" * 100}})
        told = Rest(broker).get("/v1/metrics/series", topic=name, names="records_in_per_second", window="5m")["series"][0]["values"]
        return [one for one in told if one]
    until(filled, 60, "a value", step_s=0.5)
    before = filled()[0]
    assert 0.1 < before < 10
    broker.stop()
    assert (broker.data / "metrics.history").exists()
    broker.start()
    assert Rest(broker).get("/v1/metrics/series", topic=name, names="records_in_per_second", window="5m")["series"][0]["values"].count(before) == 1


def test_log_levels_change_on_the_command_line(own_broker):
    broker = own_broker()
    levels = {line.split()[0]: line.split()[1] for line in ottla(broker, "diagnostics", "loggers").lines[1:]}
    assert levels["net"] == "info"
    levels = ottla(broker, "diagnostics", "loggers", "net=debug", "rest=warn", "-o", "json").json["loggers"]
    assert levels["net"] == "debug" and levels["rest"] == "warn" and levels["kafka"] == "info"
    assert ottla(broker, "diagnostics", "loggers", "net=", "-o", "json").json["loggers"]["net"] == "info"
    assert "try: debug" in ottla(broker, "diagnostics", "loggers", "net=debgu", status=2).err
    assert ottla(broker, "diagnostics", "loggers", "nothing=debug", status=1).err.startswith("error: ")
