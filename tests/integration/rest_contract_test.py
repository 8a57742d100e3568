"""openapi/ottla.yaml is what the server does: the same operations and parameters, and every example works."""
import json
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

import harness
import wire
from openapi_schema_validator import OAS30Validator
from openapi_spec_validator import validate

FILE = Path(__file__).resolve().parents[2] / "openapi" / "ottla.yaml"
CONTRACT = yaml.safe_load(FILE.read_text())
JSON = "application/json"
AT_TIMES = {"Ottla-Metadata-Lag-Ms", "Link", "Idempotency-Replayed", "Ottla-Next-Offset", "Ottla-High-Watermark", "Ottla-Continue-Token"}
FIRST, LAST = ["createTopic", "produce", "produceToPartition", "verifyLogs"], ["deleteGroup", "deleteTopicConfig", "deleteTopic"]


def operations():
    for path, item in CONTRACT["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def parameters(operation):
    for one in operation.get("parameters", []):
        yield CONTRACT["components"]["parameters"][one["$ref"].rsplit("/", 1)[1]] if "$ref" in one else one


def check(schema, value):
    faults = sorted(OAS30Validator({"allOf": [schema], "components": CONTRACT["components"]}).iter_errors(value), key=str)
    assert not faults, "\n".join(f"{list(f.absolute_path)}: {f.message}" for f in faults[:5])


def test_the_contract_is_valid_openapi():
    validate(CONTRACT)


def test_the_contract_is_linted():
    """By redocly's recommended rules and some more (openapi/redocly.yaml), without a word left."""
    lint = harness.TOP / "build" / "node" / "node_modules" / ".bin" / "redocly"
    if not lint.exists():
        pytest.skip("no redocly: ./dev setup")
    env = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    done = subprocess.run([lint, "lint", "--config", FILE.parent / "redocly.yaml", "--format", "json", FILE], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=240, check=False)
    told = json.loads(done.stdout[done.stdout.index("{"):])
    assert told["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}, [(p["ruleId"], p["message"]) for p in told["problems"]][:10]


def test_the_json_copy_says_the_same():
    assert json.loads((FILE.parent / "ottla.json").read_text()) == CONTRACT


def test_the_contract_has_exactly_the_routes(broker):
    _, _, body = harness.http(broker.rest + "/v1")
    served = {(o["method"], o["path"], o["operation"]) for o in json.loads(body)["operations"]}
    assert served == {(method, path, o["operationId"]) for method, path, o in operations()}


def test_the_contract_has_exactly_the_query_parameters(broker):
    _, _, body = harness.http(broker.rest + "/v1")
    for one in json.loads(body)["operations"]:
        described = [p["name"] for p in parameters(CONTRACT["paths"][one["path"]][one["method"].lower()]) if p["in"] == "query"]
        assert sorted(set(one["query"])) == sorted(described), one["operation"]


def test_every_path_parameter_is_described():
    for _, path, operation in operations():
        names = [p["name"] for p in parameters(operation) if p["in"] == "path"]
        assert names == re.findall(r"\{(\w+)\}", path), operation["operationId"]


def test_every_operation_has_an_example():
    for _, _, operation in operations():
        for media in operation.get("requestBody", {}).get("content", {}).values():
            assert "example" in media, operation["operationId"]
        answers = [a for status, a in operation["responses"].items() if status[0] == "2" and status != "204"]
        for content in (a["content"].get(JSON) for a in answers[:1] if "content" in a):
            assert content is None or "example" in content or operation["operationId"] == "getOpenapiJson", operation["operationId"]


def test_the_examples_fit_their_schemas():
    for _, _, operation in operations():
        contents = [operation["requestBody"]["content"]] if "requestBody" in operation else []
        contents += [a.get("content", {}) for a in operation["responses"].values() if "$ref" not in a]
        for media, content in ((m, c) for group in contents for m, c in group.items()):
            if "json" in media and "example" in content:
                check(content["schema"], content["example"])


def test_the_server_gives_out_its_contract(broker):
    assert harness.http(broker.rest + "/openapi.yaml")[2] == FILE.read_bytes()
    assert json.loads(harness.http(broker.rest + "/openapi.json")[2]) == CONTRACT


def send(broker, method, path, operation, real, media=None, example=None):
    for p in parameters(operation):
        if p["in"] == "path":
            value = real.get(p["name"], p["example"])
            path = path.replace("{%s}" % p["name"], quote(str(value), safe=""))
    body = None if media is None else json.dumps(example).encode() if "json" in media and "nd" not in media else example.encode()
    return harness.http(broker.rest + path, method, body, {} if media is None else {"Content-Type": media})


def send_until_available(*what):
    """Again as long as the answer asks for that: who coordinates a group may have to be found or to load first."""
    def look():
        status, headers, body = send(*what)
        again = status == 503 and "Retry-After" in headers and json.loads(body).get("outcome") in (None, "not_applied")
        return None if again else (status, headers, body)
    return harness.until(look, 30, lambda: f"an answer to {what[3]['operationId']}")


def judge(operation, status, headers, body):
    name = operation["operationId"]
    assert str(status) in operation["responses"], (name, status, body)
    assert status < 400, (name, status, body)
    answer = operation["responses"][str(status)]
    if status == 204:
        assert body == b"", name
        return None
    media = headers["Content-Type"].split(";")[0]
    assert media in answer["content"], (name, media)
    for header in answer.get("headers", {}):
        assert header in headers or header in AT_TIMES, (name, header)
    if media != JSON:
        return None
    value = json.loads(body)
    check(answer["content"][media]["schema"], value)
    return value


def coordinator_of(asked, kind, key):
    """The one of these that coordinates a group (kind 0) or a transactional id (1), once somebody does."""
    def look():
        with asked[0].connect() as c:
            found = c.ask("FindCoordinator", 4, {"keyType": kind, "coordinatorKeys": [key]})["coordinators"][0]
        return next((node for node in asked if found["errorCode"] == 0 and node.port == found["port"]), None)
    return harness.until(look, 30, lambda: f"a coordinator of {key}")


def until_loaded(c, *ask):
    """The answer, once the coordinator has read what it has to know first."""
    return harness.until(lambda: next((a for a in [c.ask(*ask)] if a["errorCode"] == 0), None), 30, lambda: f"an answer to {ask[0]}")


def open_transaction(asked):
    """The one that the examples speak of."""
    with coordinator_of(asked, 1, "orders-writer").connect() as c:
        made = until_loaded(c, "InitProducerId", 4, {"transactionalId": "orders-writer", "transactionTimeoutMs": 60000, "producerId": -1, "producerEpoch": -1})
        c.ask("AddPartitionsToTxn", 3, {"v3AndBelowTransactionalId": "orders-writer", "v3AndBelowProducerId": made["producerId"],
                                        "v3AndBelowProducerEpoch": made["producerEpoch"], "v3AndBelowTopics": [{"name": "orders", "partitions": [0]}]})


def join_group(asked):
    """A member of the group that the examples speak of."""
    with coordinator_of(asked, 0, "billing").connect() as c:
        return until_loaded(c, "JoinGroup", 3, {"groupId": "billing", "sessionTimeoutMs": 30000, "rebalanceTimeoutMs": 30000, "memberId": "", "protocolType": "consumer",
                                                "protocols": [{"name": "range", "metadata": b""}]})["memberId"]


@pytest.mark.timeout(120)
def test_every_example_works(own_broker):
    """On a fresh server: topics are made and filled first and deleted last, so that each example finds what it speaks of."""
    broker = own_broker()
    every_example(broker, [broker])


@pytest.mark.timeout(240)
def test_every_example_works_at_any_broker_of_three(make):
    """Each at the next broker, so that nearly all of them are answered by another one than is asked, or by all."""
    cluster = make(3).start()
    harness.until(lambda: all(sum(row["state"] == "running" for row in cluster.brokers(i).values()) == 3 for i in cluster.nodes), 30, lambda: "three brokers")
    every_example(cluster.nodes[1], list(cluster.nodes.values()))


def every_example(broker, asked):
    known = {o["operationId"]: (method, path, o) for method, path, o in operations()}
    middle = [name for name in known if name not in FIRST + LAST]
    real, turn = {}, 0                         # what a server alone can name
    client = wire.Connection(broker.bootstrap)
    client.ask("ApiVersions", 0)
    for name in FIRST + middle + LAST:
        if name == "getTransaction":
            open_transaction(asked)
        if name == "evictGroupMember":
            real["member"] = join_group(asked)
        method, path, operation = known[name]
        if "x-ottla-stream" in operation:      # has no end; rest_stream_test.py reads them
            continue
        if "x-ottla-needs" in operation:       # cluster_ops_test.py has them
            continue
        if name == "cancelJob":                # one that does not end by itself
            slow = json.dumps({"topic": "orders", "max_bytes_per_second": 1}).encode()
            real["job"] = json.loads(harness.http(broker.rest + "/v1/diagnostics/verify", "POST", slow, {"Content-Type": JSON})[2])["job_id"]
        if name == "closeConnection":
            real["connection"] = json.loads(harness.http(broker.rest + "/v1/brokers/1/connections")[2])["items"][0]["id"]
        real.pop("broker", None)
        if name == "getReplica":               # of a topic that lies where its example says, or elsewhere
            real["broker"] = json.loads(harness.http(broker.rest + "/v1/topics/orders/partitions/0")[2])["replicas"][0]
        bodies = operation.get("requestBody", {}).get("content", {None: {}})
        for media, content in bodies.items():
            turn += 1
            value = judge(operation, *send_until_available(asked[turn % len(asked)], method, path, operation, real, media, content.get("example")))
            if name in ("createTopic", "verifyLogs"):
                real.update({"topic_id": value["topic_id"]} if name == "createTopic" else {"job": value["job_id"]})
    with pytest.raises((OSError, EOFError)):   # closeConnection did
        client.ask("ApiVersions", 0)


def test_an_unknown_thing_is_a_problem_of_the_described_shape(broker, name):
    """Every operation with a topic in its path, asked for one that is not there."""
    for method, path, operation in operations():
        if "{topic}" not in path:
            continue
        body = next(iter(operation.get("requestBody", {}).get("content", {}).items()), (None, {}))
        for p in parameters(operation):
            if p["in"] == "path":
                path = path.replace("{%s}" % p["name"], name if p["name"] == "topic" else str(p["example"]))
        data = json.dumps(body[1]["example"]).encode() if body[0] else None
        status, headers, answer = harness.http(broker.rest + path, method, data, {"Content-Type": body[0]} if body[0] else {})
        assert (status, headers["Content-Type"]) == (404, "application/problem+json"), (operation["operationId"], answer)
        problem = json.loads(answer)
        check({"$ref": "#/components/schemas/Problem"}, problem)
        assert problem["error"] == "UNKNOWN_TOPIC_OR_PARTITION" and problem["error_code"] == 3
        assert problem["request_id"] == headers["Ottla-Request-Id"] and problem["instance"] == path
        assert problem.get("outcome") == (None if method == "GET" else "not_applied")
        assert harness.http(broker.rest + problem["type"])[0] == 200
