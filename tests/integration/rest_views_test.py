"""REST: repeated requests, versions that must be named, brokers' and cluster's settings, partitions and replicas across topics, the admin socket."""
import http.client
import json
import os
import socket
import stat
import threading

import pytest

from rest_test import Rest, made, rest  # noqa: F401 (fixtures)


# ---- Idempotency-Key

def test_a_repeated_create_gets_the_first_answer(rest, name):
    once = {"Idempotency-Key": f"key-{name}"}
    first = rest.ask("POST", "/v1/topics", {"name": name, "partitions": 2}, 201, once)
    again = rest.ask("POST", "/v1/topics", {"name": name, "partitions": 2}, 201, once)
    assert again.content == first.content and again.headers["Idempotency-Replayed"] == "true" and "Idempotency-Replayed" not in first.headers
    for header in ("ETag", "Location", "Ottla-Metadata-Offset"):
        assert again.headers[header] == first.headers[header]
    assert again.headers["Ottla-Request-Id"] != first.headers["Ottla-Request-Id"]
    rest.problem("POST", "/v1/topics", 409, "TOPIC_ALREADY_EXISTS", {"name": name, "partitions": 2})
    rest.problem("POST", "/v1/topics", 422, "HTTP_KEY_REUSED", {"name": name, "partitions": 3}, once)
    rest.problem("POST", "/v1/topics", 422, "HTTP_KEY_REUSED", {"name": name, "partitions": 2}, once, validate_only="true")


def test_a_refusal_is_repeated_too(rest, made):
    once = {"Idempotency-Key": f"refused-{made}"}
    rest.problem("POST", "/v1/topics", 409, "TOPIC_ALREADY_EXISTS", {"name": made}, once)
    rest.ask("DELETE", f"/v1/topics/{made}", status=204)
    rest.problem("POST", "/v1/topics", 409, "TOPIC_ALREADY_EXISTS", {"name": made}, once)
    rest.ask("POST", "/v1/topics", {"name": made}, 201, {"Idempotency-Key": f"another-{made}"})


def test_one_of_many_at_once_does_it(rest, broker, name):
    """The others hear the same, or that the first is still in work."""
    answers = []

    def ask():
        answers.append(Rest(broker).session.post(broker.rest + "/v1/topics", json={"name": name}, headers={"Idempotency-Key": f"many-{name}"}, timeout=30))
    threads = [threading.Thread(target=ask) for _ in range(8)]
    [t.start() for t in threads], [t.join(30) for t in threads]
    assert {a.status_code for a in answers} <= {201, 503} and len({a.content for a in answers if a.status_code == 201}) == 1


@pytest.mark.parametrize("key", ["", "with blank", "x" * 256])
def test_keys_are_checked(rest, name, key):
    rest.problem("POST", "/v1/topics", 400, "HTTP_BAD_REQUEST", {"name": name}, {"Idempotency-Key": key})


# ---- versions

def test_a_version_may_be_required(own_broker, name):
    broker = own_broker(rest_require_if_match="true")
    rest = Rest(broker)
    etag = rest.create(name).headers["ETag"]
    assert rest.problem("PATCH", f"/v1/topics/{name}/config", 428, "HTTP_PRECONDITION_REQUIRED", {"retention.ms": "1000"})["outcome"] == "not_applied"
    rest.problem("DELETE", f"/v1/topics/{name}", 428, "HTTP_PRECONDITION_REQUIRED")
    rest.ask("PUT", f"/v1/topics/{name}/config/retention.ms", {"value": "1"}, headers={"If-None-Match": "*"})
    rest.problem("PATCH", f"/v1/topics/{name}/config", 412, "HTTP_PRECONDITION_FAILED", {"retention.ms": "1000"}, {"If-Match": etag})
    now = rest.ask("GET", f"/v1/topics/{name}").headers["ETag"]
    rest.ask("DELETE", f"/v1/topics/{name}", status=204, headers={"If-Match": now})


def test_the_controller_answers_with_no_lag(rest, made):
    answer = rest.ask("GET", f"/v1/topics/{made}", consistency="controller")
    assert answer.headers["Ottla-Metadata-Lag-Ms"] == "0"
    rest.problem("GET", f"/v1/topics/{made}", 400, "INVALID_REQUEST", consistency="maybe")


def test_another_broker_is_not_here(rest):
    assert rest.get("/v1/version", broker="1")["feature_levels"]["transaction.version"] >= 1
    rest.problem("GET", "/v1/version", 404, "BROKER_ID_NOT_REGISTERED", broker="7")
    rest.problem("GET", "/v1/brokers/7/loggers", 404, "BROKER_ID_NOT_REGISTERED")


# ---- settings

def entries(answer):
    return {e["name"]: (e["value"], e["source"]) for e in answer["entries"]}


def test_cluster_defaults_reach_topics_and_are_taken_back(rest, made):
    before = rest.ask("GET", "/v1/cluster/config")
    answer = rest.ask("PATCH", "/v1/cluster/config", {"log.retention.ms": "1234567"}, headers={"If-Match": before.headers["ETag"]})
    try:
        assert entries(answer.json())["log.retention.ms"] == ("1234567", "cluster_default")
        assert rest.get(f"/v1/topics/{made}")["effective"]["retention.ms"] == "1234567"
        assert entries(rest.get("/v1/brokers/1/config"))["log.retention.ms"] == ("1234567", "cluster_default")
        rest.problem("PATCH", "/v1/cluster/config", 412, "HTTP_PRECONDITION_FAILED", {"log.retention.ms": "1"}, {"If-Match": before.headers["ETag"]})
        assert rest.ask("GET", "/v1/cluster/config", status=304, headers={"If-None-Match": answer.headers["ETag"]}).content == b""
    finally:
        rest.ask("PATCH", "/v1/cluster/config", {"log.retention.ms": None})
    assert "log.retention.ms" not in entries(rest.get("/v1/cluster/config")) and rest.get(f"/v1/topics/{made}")["effective"]["retention.ms"] == "604800000"


def test_a_brokers_settings(rest):
    assert entries(rest.ask("PATCH", "/v1/brokers/1/config", {"ottla.log.level": "debug"}, validate_only="true").json())["ottla.log.level"][0] == "info"
    try:
        assert entries(rest.ask("PATCH", "/v1/brokers/1/config", {"ottla.log.level": "debug"}).json())["ottla.log.level"] == ("debug", "broker_dynamic")
        assert rest.get("/v1/brokers/1/loggers")["loggers"]["rest"] == "debug"
    finally:
        rest.ask("PATCH", "/v1/brokers/1/config", {"ottla.log.level": None})
    rest.problem("PATCH", "/v1/brokers/1/config", 400, "INVALID_REQUEST", {"node.id": "3"})
    rest.problem("PATCH", "/v1/brokers/1/config", 400, "INVALID_REQUEST", {"log.retention.ms": "soon"})
    rest.problem("PATCH", "/v1/brokers/9/config", 404, "BROKER_ID_NOT_REGISTERED", {"ottla.log.level": "info"})


def test_log_levels(rest):
    assert rest.ask("PATCH", "/v1/brokers/1/loggers", {"net": "warn"}, validate_only="true").json()["loggers"]["net"] == "info"
    assert rest.ask("PATCH", "/v1/brokers/1/loggers", {"net": "warn"}).json()["loggers"]["net"] == "warn"
    assert rest.ask("PATCH", "/v1/brokers/1/loggers", {"net": None}).json()["loggers"]["net"] == "info"
    rest.problem("PATCH", "/v1/brokers/1/loggers", 400, "INVALID_CONFIG", {"net": "warn", "nosuch": "warn"})
    assert rest.get("/v1/brokers/1/loggers")["loggers"]["net"] == "info"
    rest.problem("PATCH", "/v1/brokers/1/loggers", 400, "INVALID_REQUEST", {"net": 3})


def test_feature_levels(rest):
    feature = rest.get("/v1/cluster/features")["features"][0]
    rest.ask("PATCH", "/v1/cluster/features", {feature["name"]: feature["level"]})
    rest.problem("PATCH", "/v1/cluster/features", 400, "INVALID_UPDATE_VERSION", {feature["name"]: feature["max"] + 1})
    rest.problem("PATCH", "/v1/cluster/features", 400, "INVALID_UPDATE_VERSION", {"nosuch": 1})
    rest.problem("PATCH", "/v1/cluster/features", 400, "INVALID_REQUEST", {feature["name"]: "1"})


# ---- partitions, replicas, producers

def test_partitions_of_all_topics_come_in_pages(rest, name):
    rest.create(f"{name}-a", 3), rest.create(f"{name}-b", 2)
    rows, query = [], {"limit": 2}
    while True:
        page = rest.get("/v1/partitions", **query)
        rows += [(p["topic"], p["partition"]) for p in page["items"]]
        if page["next_page_token"] is None:
            break
        query["page_token"] = page["next_page_token"]
    assert rows == sorted(rows) and len(rows) == page["total"] == len(set(rows))
    assert [r for r in rows if r[0].startswith(name)] == [(f"{name}-a", i) for i in range(3)] + [(f"{name}-b", i) for i in range(2)]
    assert [p["partition"] for p in rest.get("/v1/partitions", topic=f"{name}-b", broker=1)["items"]] == [0, 1]
    assert rest.get("/v1/partitions", broker=7)["items"] == [] and rest.get("/v1/partitions", state="offline")["items"] == []
    assert "TOPIC" in rest.ask("GET", "/v1/partitions", format="table").text.splitlines()[0]


def test_replicas_are_shown(rest, made):
    rest.produce(made, {"value": {"string": "x"}})
    one = rest.get(f"/v1/topics/{made}/partitions/0/replicas/1")
    assert (one["role"], one["in_sync"], one["log_end_offset"], one["lag"], one["preferred"]) == ("leader", True, 1, 0, True) and one["log_dir"] and one["size_bytes"] > 0
    assert rest.get(f"/v1/topics/{made}/partitions/0/replicas")["items"] == [one]
    assert [r for r in rest.get("/v1/brokers/1/partitions", topic=made)["items"]] == [one]
    rest.problem("GET", f"/v1/topics/{made}/partitions/0/replicas/2", 404, "RESOURCE_NOT_FOUND")
    rest.problem("GET", "/v1/brokers/7/partitions", 404, "BROKER_ID_NOT_REGISTERED")


def test_producers_across_partitions(rest, broker, name):
    from confluent_kafka import Producer
    rest.create(name, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for i in range(20):
        producer.produce(name, f"v{i}", partition=i % 2)
    assert producer.flush(20) == 0
    rows = rest.get("/v1/producers", topic=name)["items"]
    assert [(r["topic"], r["partition"]) for r in rows] == [(name, 0), (name, 1)] and len({r["producer_id"] for r in rows}) == 1
    assert [r["last_sequence"] for r in rows] == [9, 9]
    first = rest.get("/v1/producers", topic=name, limit=1)
    assert first["items"] == rows[:1] and rest.get("/v1/producers", topic=name, page_token=first["next_page_token"])["items"] == rows[1:]


def test_checks_say_since_when(rest):
    first = rest.get("/v1/health/checks/no_offline_partitions")
    assert first["ok"] and first["since"].endswith("Z") and rest.get("/v1/health/checks/no_offline_partitions")["since"] == first["since"]
    assert {"no_stuck_transactions", "controller_active", "clock_skew"} <= {c["name"] for c in rest.get("/v1/cluster/health")["checks"]}


# ---- metrics for others

def families(rest, parser, accept=None, **query):
    answer = rest.ask("GET", "/metrics", headers={"Accept": accept} if accept else {}, **query)
    return answer, {f.name: f for f in parser.text_string_to_metric_families(answer.text)}


def test_metrics_are_read_by_strict_parsers(rest, made):
    pytest.importorskip("prometheus_client", reason="no prometheus-client: ./dev setup")
    from prometheus_client import openmetrics, parser
    import prometheus_client.openmetrics.parser
    rest.produce(made, {"value": {"string": "x"}})
    answer, plain = families(rest, parser, compat="kafka_exporter,jmx")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    answer, strict = families(rest, openmetrics.parser, "application/openmetrics-text;version=1.0.0", compat="jmx,kafka_exporter")
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8" and answer.text.endswith("\n# EOF\n")
    assert set(plain) == set(strict) and strict["ottla_topic_bytes_in"].type == "counter" and strict["ottla_request_duration_seconds"].type == "histogram"
    for name in ("kafka_topic_partition_current_offset", "kafka_log_log_logendoffset"):
        assert [s.value for s in strict[name].samples if s.labels == {"topic": made, "partition": "0"}] == [1], name
    assert [s.value for s in strict["kafka_server_brokertopicmetrics_messagesin"].samples if s.labels == {"topic": made}] == [1]
    assert strict["kafka_brokers"].samples[0].value == strict["kafka_controller_kafkacontroller_activecontrollercount"].samples[0].value == 1
    assert "kafka_brokers" not in families(rest, parser)[1]
    rest.problem("GET", "/metrics", 400, "INVALID_REQUEST", compat="statsd")


def test_lists_of_topics_tell_what_is_asked(rest, made):
    rest.produce(made, {"value": {"string": "x"}})
    def row(**query):
        return rest.get("/v1/topics", prefix=made, **query)["items"][0]
    assert row()["size_bytes"] > 0 and row(**{"with": "size"})["records_estimate"] == 1
    assert row(**{"with": ""})["size_bytes"] is None and row(**{"with": "rates"})["records_estimate"] is None
    rest.problem("GET", "/v1/topics", 400, "INVALID_REQUEST", **{"with": "all"})


def test_a_client_is_shown_the_door(rest, broker):
    from wire import Connection
    with Connection(broker.bootstrap) as client:
        client.ask("ApiVersions", 0)
        mine = max(rest.get("/v1/brokers/1/connections", limit=1000)["items"], key=lambda c: c["id"] if c["requests"] == 1 else -1)["id"]
        rest.ask("DELETE", f"/v1/brokers/1/connections/{mine}", status=204, validate_only="true")
        client.ask("ApiVersions", 0)
        rest.ask("DELETE", f"/v1/brokers/1/connections/{mine}", status=204)
        with pytest.raises((OSError, EOFError)):
            for _ in range(100):
                client.ask("ApiVersions", 0)
    rest.problem("DELETE", "/v1/brokers/1/connections/999999999", 404, "RESOURCE_NOT_FOUND")


# ---- the admin socket

class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(self.path)


def ask_socket(path, method, target, body=None):
    connection = UnixConnection(path)
    connection.request(method, target, None if body is None else json.dumps(body), {} if body is None else {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = json.loads(answer.read())
    connection.close()
    return answer.status, data


def test_the_admin_socket(own_broker, name, tmp_path):
    path = str(tmp_path / "admin.sock")
    broker = own_broker()
    broker.stop()
    with socket.socket(socket.AF_UNIX) as stale:    # left over from one that was killed
        stale.bind(path)
    broker.settings["rest.listeners"] = f"http://127.0.0.1:{broker.rest_port},unix:{path}"
    broker.start()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    status, who = ask_socket(path, "GET", "/v1/whoami")
    assert status == 200 and who["authenticated"] and who["mechanism"] == "socket_peer" and who["principal"].startswith("User:")
    assert ask_socket(path, "POST", "/v1/topics", {"name": name})[0] == 201
    assert Rest(broker).get("/v1/whoami")["authenticated"] is False
    broker.stop()
    assert not os.path.exists(path)
