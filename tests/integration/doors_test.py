"""One core behind all doors: what goes in by one comes out by the others, with curl and the binary's own tools."""
import base64
import json
import os
import subprocess

import pytest

import harness
from harness import until


def curl(broker, path, *arguments, data=None, status=200):
    if not getattr(broker, "rest", None) or not harness.HAS_REST:
        pytest.skip("no REST here")
    words = ["curl", "-s", "--max-time", "80", "-w", "\n%{http_code}", *arguments, broker.rest + path]
    if data is not None:
        words += ["-H", "Content-Type: application/json", "--data-binary", json.dumps(data)]
    body, code = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=120).stdout.decode().rsplit("\n", 1)
    assert int(code) == status, body
    return json.loads(body) if body else None


def ottla(broker, *arguments, data=None, status=0):
    if not getattr(broker, "rest", None):
        pytest.skip("needs our own server")
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("OTTLA_")}, "OTTLA_API": broker.rest,
           "OTTLA_BOOTSTRAP_SERVER": broker.bootstrap, "NO_COLOR": "1"}
    done = subprocess.run([harness.BINARY, *map(str, arguments)], input=data, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60)
    assert done.returncode == status, (arguments, done.returncode, done.stderr.decode())
    return done.stdout.decode()


@pytest.mark.smoke
def test_a_topic_made_with_curl_is_used_by_kafka_clients_and_read_with_curl(broker, admin, name):
    made = curl(broker, "/v1/topics", "-X", "POST", data={"name": name, "partitions": 2}, status=201)
    assert made["topic"] == name and base64.urlsafe_b64decode(made["topic_id"] + "==") == admin.topic_id(name)
    assert admin.produce(name, "by-kafka", partition=1) == 0
    sent = curl(broker, f"/v1/topics/{name}/partitions/1/records", "-X", "POST", data={
        "records": [{"key": {"string": "k"}, "value": {"string": "by-curl"}}]})
    assert [(i["offset"], i["error"]) for i in sent["items"]] == [(1, None)]
    assert [r[2:] for r in admin.records(name, partition=1)] == [(None, b"by-kafka"), (b"k", b"by-curl")]
    got = curl(broker, f"/v1/topics/{name}/partitions/1/records?offset=0")
    assert "by-kafka" in json.dumps(got) and "by-curl" in json.dumps(got)
    assert curl(broker, f"/v1/topics/{name}")["partitions"] == 2
    curl(broker, f"/v1/topics/{name}", "-X", "DELETE", status=204)
    assert admin.describe(name)["errorCode"] == 3
    problem = curl(broker, f"/v1/topics/{name}", status=404)
    assert problem["error"] == "UNKNOWN_TOPIC_OR_PARTITION" and problem["status"] == 404


def test_metrics_count_what_clients_do(broker, admin, topic):
    admin.produce(topic, "a", "b", "c")
    admin.fetch(topic)

    def counted():
        text = harness.http(broker.rest + "/metrics")[2].decode()
        return [line for line in text.splitlines() if line.startswith("ottla_topic_records_in_total") and f'"{topic}"' in line]
    if not getattr(broker, "rest", None) or not harness.HAS_REST:
        pytest.skip("no REST here")
    assert float(until(counted, 10, "the topic's counter")[0].rsplit(" ", 1)[1]) == 3


def test_metrics_tell_of_the_cluster_and_of_an_idle_server(own_broker, name):
    broker = own_broker()
    if not getattr(broker, "rest", None) or not harness.HAS_REST:
        pytest.skip("no REST here")
    curl(broker, "/v1/topics", data={"name": name, "partitions": 3}, status=201)

    def read():
        text = harness.http(broker.rest + "/metrics")[2].decode()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if not line.startswith("#")}
    got = read()
    assert got["ottla_cluster_topics"] == 1 and got["ottla_cluster_partitions"] == 3 and got["ottla_cluster_offline_partitions"] == 0
    assert got['ottla_cluster_brokers{state="alive"}'] == 1 and got["ottla_controller_active"] == 1 and got["ottla_metadata_offset"] > 0
    until(lambda: read()["ottla_handler_busy_ratio"] < 0.5, 10, "loops without work that are not busy")


def test_our_own_producer_and_consumer(broker, admin, name):
    ottla(broker, "topic", "create", name, "--partitions", 1)
    ottla(broker, "produce", name, data=b"one\ntwo\nthree\n")
    assert [r[3] for r in admin.records(name)] == [b"one", b"two", b"three"]
    assert ottla(broker, "consume", name, "--from", "earliest", "--until", "end", "-f", "%o %v\\n").splitlines() == [
        "0 one", "1 two", "2 three"]
    assert name in ottla(broker, "topic", "list", "-o", "name").split()
    ottla(broker, "topic", "delete", name, status=2)  # not a terminal and no --yes: nothing done
    ottla(broker, "topic", "delete", name, "--yes")
    ottla(broker, "topic", "describe", name, status=3)


def test_log_verify_agrees_with_a_stopped_server(own_broker, name):
    broker = own_broker(log_segment_bytes="1048576")
    with broker.connect() as c:
        from admin import Admin
        admin = Admin(c)
        admin.create(name)
        for i in range(40):
            admin.produce(name, *["x" * 4000] * 20, codec=("none", "zstd")[i % 2])
    broker.stop()
    ottla(broker, "log", "verify", broker.partition(name))
    segments = sorted(broker.partition(name).glob("*.log"))
    assert len(segments) > 1
    with open(segments[0], "r+b") as f:
        f.seek(5000)
        byte = f.read(1)
        f.seek(5000)
        f.write(bytes([byte[0] ^ 0x40]))
    ottla(broker, "log", "verify", broker.partition(name), status=8)
    with open(segments[0], "r+b") as f:
        f.seek(5000)
        f.write(byte)
