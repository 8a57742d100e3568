"""REST and the command line: groups changed under a condition, groups of a topic, assignments, and offsets as a file."""
import json
from urllib.parse import quote

import pytest

from cli_test import ottla
from harness import until
from rest_test import Rest, made, rest  # noqa: F401 (fixtures)


@pytest.fixture
def group(rest, name):
    """A group without members that has committed 3 of 10 records in partition 0, and 0 of 0 in partition 1."""
    rest.create(name, 2)
    rest.produce(name, *[{"value": {"string": str(i)}, "partition": 0} for i in range(10)])
    put(rest, name, (0, 3), (1, 0))
    return name


def put(rest, name, *offsets, status=200, **headers):
    body = {"offsets": [{"topic": name, "partition": p, "offset": o} for p, o in offsets]}
    return rest.ask("PUT", f"/v1/groups/{name}/offsets", body, status, {k.replace("_", "-"): v for k, v in headers.items()})


def etag(rest, name):
    return rest.ask("GET", f"/v1/groups/{name}/offsets").headers["ETag"]


def offsets(rest, name):
    return {one["partition"]: one["offset"] for one in rest.get(f"/v1/groups/{name}/offsets")["items"]}


# ---- conditions

def test_a_lost_update_is_refused(rest, group):
    first = etag(rest, group)
    assert etag(rest, group) == first
    put(rest, group, (0, 4), If_Match=first)
    assert etag(rest, group) != first
    problem = rest.problem("PUT", f"/v1/groups/{group}/offsets", 412, "HTTP_PRECONDITION_FAILED", {"offsets": [{"topic": group, "partition": 0, "offset": 9}]}, {"If-Match": first})
    assert problem["outcome"] == "not_applied"
    for method, path, body in (("PUT", f"/offsets/{group}/0", {"offset": 9}), ("DELETE", f"/offsets/{group}/0", None), ("DELETE", f"/offsets/{group}", None),
                               ("POST", "/offsets/reset", {"dry_run": False, "strategy": "latest"})):
        rest.problem(method, f"/v1/groups/{group}{path}", 412, "HTTP_PRECONDITION_FAILED", body, {"If-Match": first})
    assert offsets(rest, group) == {0: 4, 1: 0}
    rest.ask("PUT", f"/v1/groups/{group}/offsets/{group}/0", {"offset": 5}, 200, {"If-Match": etag(rest, group)})
    rest.ask("POST", f"/v1/groups/{group}/offsets/reset", {"dry_run": False, "strategy": "latest"}, 200, {"If-Match": etag(rest, group)})
    assert offsets(rest, group) == {0: 10, 1: 0}
    rest.ask("DELETE", f"/v1/groups/{group}/offsets/{group}/1", status=204, headers={"If-Match": etag(rest, group)})
    assert offsets(rest, group) == {0: 10}


def test_create_only_sets_what_was_never_set(rest, group):
    rest.problem("PUT", f"/v1/groups/{group}/offsets/{group}/0", 412, "HTTP_PRECONDITION_FAILED", {"offset": 5}, {"If-None-Match": "*"})
    rest.ask("DELETE", f"/v1/groups/{group}/offsets/{group}/0", status=204)
    rest.ask("PUT", f"/v1/groups/{group}/offsets/{group}/0", {"offset": 5}, 200, {"If-None-Match": "*"})
    rest.ask("PUT", f"/v1/groups/{group}-new/offsets/{group}/0", {"offset": 5}, 200, {"If-None-Match": "*"})
    assert offsets(rest, group)[0] == 5 == offsets(rest, group + "-new")[0]


def test_the_end_of_a_group_may_be_conditional_too(rest, group):
    etag = rest.ask("GET", f"/v1/groups/{group}").headers["ETag"]
    rest.problem("DELETE", f"/v1/groups/{group}", 412, "HTTP_PRECONDITION_FAILED", headers={"If-Match": '"12345"'})
    rest.ask("DELETE", f"/v1/groups/{group}", status=204, headers={"If-Match": etag})
    rest.problem("GET", f"/v1/groups/{group}", 404, "GROUP_ID_NOT_FOUND")


def test_a_version_outlives_a_restart_and_may_be_required(own_broker, name):
    broker = own_broker(rest_require_if_match="true")
    rest = Rest(broker)
    rest.create(name)
    rest.problem("PUT", f"/v1/groups/{name}/offsets", 428, "HTTP_PRECONDITION_REQUIRED", {"offsets": [{"topic": name, "partition": 0, "offset": 0}]})
    rest.ask("PUT", f"/v1/groups/{name}/offsets/{name}/0", {"offset": 0}, 200, {"If-None-Match": "*"})
    before = etag(rest, name)
    broker.stop()
    broker.start()
    rest = Rest(broker)
    assert etag(rest, name) == before
    put(rest, name, (0, 0), If_Match=before)
    rest.problem("DELETE", f"/v1/groups/{name}", 428, "HTTP_PRECONDITION_REQUIRED")


# ---- views

def test_groups_of_a_topic_and_what_they_lag(rest, broker, group):
    rest.create(group + "-other")
    put(rest, group + "-other", (0, 0))
    told = rest.get(f"/v1/topics/{group}/groups", **{"with": "lag"})
    row = told["items"][0]
    assert told["total"] == 1 and row["group"] == group and row["committed"] and not row["subscribed"] and row["lag"]["total"] == 7
    assert rest.get(f"/v1/topics/{group}/groups")["items"][0].get("lag") is None
    listed = {one["group"]: one for one in rest.get("/v1/groups", prefix=group, **{"with": "lag"})["items"]}
    assert listed[group]["lag"]["total"] == 7 and listed[group + "-other"]["lag"]["total"] == 0 and "committed" not in listed[group]
    rest.problem("GET", "/v1/topics/no-such-topic/groups", 404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert [line.split()[0] for line in ottla(broker, "group", "list", "--topic", group).lines] == ["GROUP", group]
    row = next(line for line in ottla(broker, "group", "list", "--lag", "--prefix", group).lines if line.split()[0] == group)
    assert row.split()[5] == "7", row


def test_assignments_and_owners_with_those_that_nobody_has(rest, broker, name):
    rest.create(name, 3)
    consumer = pytest.importorskip("confluent_kafka").Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "client.id": "c-7"})
    consumer.subscribe([name])
    try:
        until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 3, 30, "an assignment")
        told = rest.get(f"/v1/groups/{name}/assignments")
        assert [(one["client_id"], one["topics"]) for one in told["assignments"]] == [("c-7", [{"topic": name, "partitions": [0, 1, 2]}])]
        assert rest.get(f"/v1/topics/{name}/groups")["items"][0]["subscribed"]
        assert len(ottla(broker, "group", "owners", name).lines) == 4
        problem = rest.problem("PUT", f"/v1/groups/{name}/offsets", 409, "NON_EMPTY_GROUP", {"offsets": [{"topic": name, "partition": 0, "offset": 0}]})
        assert problem["outcome"] == "not_applied"
    finally:
        consumer.close()
    rest.ask("PUT", f"/v1/groups/{name}/offsets/{name}/1", {"offset": 0})
    rows = [line.split() for line in ottla(broker, "group", "owners", name).lines[1:]]
    assert [(row[1], row[2]) for row in rows] == [("0", "-"), ("1", "-"), ("2", "-")]


# ---- files

def test_offsets_go_out_and_come_back(rest, broker, group, tmp_path):
    file = tmp_path / "offsets.json"
    file.write_bytes(ottla(broker, "group", "export", group).out)
    told = json.loads(file.read_text())
    assert told["group"] == group and [(o["partition"], o["offset"]) for o in told["offsets"]] == [(0, 3), (1, 0)]
    put(rest, group, (0, 8))
    plan = ottla(broker, "group", "import", group, file, "--dry-run").lines
    assert plan[0].split() == ["TOPIC", "PARTITION", "FROM", "TO", "CHANGE"] and plan[1].split()[2:] == ["8", "3", "-5"]
    assert offsets(rest, group)[0] == 8
    assert "Nothing was done" in ottla(broker, "group", "import", group, file, status=2).err and offsets(rest, group)[0] == 8
    ottla(broker, "group", "import", group, file, "--yes")
    assert offsets(rest, group) == {0: 3, 1: 0}
    ottla(broker, "group", "import", group + "-copy", "-", "--yes", "-q", data=file.read_bytes())
    assert offsets(rest, group + "-copy") == {0: 3, 1: 0}
    # Kafka's own form, with and without the group
    csv = ottla(broker, "group", "export", group, "--format", "csv").out.decode()
    assert csv == f"{group},0,3\n{group},1,0\n"
    ottla(broker, "group", "import", group, "-", "--yes", data=csv.replace(",3", ",6"))
    assert offsets(rest, group)[0] == 6
    ottla(broker, "group", "import", group, "-", "--yes", data=f"{group},{group},0,7\r\n\nsomebody,{group},0,1\n")
    assert offsets(rest, group)[0] == 7
    ottla(broker, "group", "import", group, "-", "--yes", data=b"\xef\xbb\xbf" + f"{group},0,5\n".encode())
    assert offsets(rest, group)[0] == 5
    ottla(broker, "group", "import", group, "-", "--yes", data=b"\xef\xbb\xbf" + file.read_bytes())
    assert offsets(rest, group) == {0: 3, 1: 0}


@pytest.mark.parametrize("text", ["", "{", '{"offsets": 1}', '{"offsets": [{"topic": "x"}]}', "a,b\n", "topic,x,1\n", "topic,1,-1\n", "t,1,2,3,4\n", "t,0,1\n\0t,1,1\n", "t,0,1\0\n", "\0"])
def test_a_bad_file_is_refused_before_anything_is_asked(broker, text):
    assert ottla(broker, "group", "import", "nobody", "-", "--yes", data=text, status=2).err.startswith("error: -")


@pytest.mark.parametrize("text", ["t,0,1\nu,0,1\nt,0,2\n", json.dumps({"offsets": [{"topic": "t", "partition": 0, "offset": i} for i in (1, 2)]})])
def test_a_partition_is_named_once(broker, text):
    assert "names partition 0 of t twice" in ottla(broker, "group", "import", "nobody", "-", "--yes", data=text, status=2).err


def test_rows_of_others_alone_say_whose_they_are(broker):
    told = ottla(broker, "group", "import", "nobody", "-", "--yes", data="somebody,t,0,1\nsomebody,t,1,1\n", status=2).err
    assert "no offsets of group nobody, only of others, such as somebody" in told


def test_what_lies_outside_of_the_log_is_told_by_partition(rest, broker, group):
    ran = ottla(broker, "group", "import", group, "-", "--yes", data=f"{group},0,5\n{group},1,77\n", status=7)
    assert "OFFSET_OUT_OF_RANGE" in ran.err and offsets(rest, group) == {0: 5, 1: 0}
    assert ottla(broker, "group", "export", "no-such-group", status=3).err.startswith("error: GROUP_ID_NOT_FOUND")
    assert quote(group) in ottla(broker, "group", "export", group, "--curl").out.decode()
