"""REST: the registry view, with the names of the ZooKeeper days: brokers, topics, configs, the controller, and what consumers kept there."""
import threading
from urllib.parse import quote

import pytest

from harness import until
from rest_test import Rest, made, rest  # noqa: F401 (fixtures)


def node(rest, path="", **query):
    return rest.get("/v1/registry" + path, **query)


def test_the_top_and_what_is_below(rest):
    top = node(rest)
    assert top["path"] == "/" and top["data"] is None and top["stat"]["children"] == len(top["children"])
    assert {"brokers", "cluster", "config", "consumers", "controller", "controller_epoch", "admin"} == set(top["children"])
    seen, todo = set(), ["/" + child for child in top["children"]]
    while todo:                                # every child of every node is a node
        path = todo.pop()
        one = node(rest, "/".join(quote(part, safe="") for part in path.split("/")), limit=1000)
        assert one["path"] == path and one["stat"]["version"] >= 0
        seen.add(path)
        if path.count("/") < 3 and path not in ("/brokers/topics", "/config/topics", "/consumers"):
            todo += [f"{path}/{child}" for child in one["children"]]
    assert {"/brokers/ids/1", "/cluster/id", "/config/brokers/<default>", "/config/users", "/admin/delete_topics", "/admin/reassign_partitions"} <= seen


def test_brokers_and_the_controller_are_ephemeral(rest):
    broker, cluster = node(rest, "/brokers/ids/1"), rest.get("/v1/cluster")
    assert broker["data"]["endpoints"][0].startswith("PLAINTEXT://") and broker["data"]["port"] > 0 and broker["stat"]["ephemeral"]
    assert broker["stat"]["owner"] == str(rest.get("/v1/brokers/1")["epoch"])
    assert node(rest, "/controller")["data"] == {"version": 2, "brokerid": 1, "controller_epoch": cluster["controller"]["epoch"]} and node(rest, "/controller")["stat"]["ephemeral"]
    assert node(rest, "/controller_epoch")["data"] == cluster["controller"]["epoch"]
    assert node(rest, "/cluster/id")["data"] == {"version": "1", "id": cluster["cluster_id"]}


def test_topics_partitions_and_configs(rest, name):
    rest.create(name, 3, **{"retention.ms": "1234567"})
    topic = rest.get(f"/v1/topics/{name}")
    assert node(rest, f"/brokers/topics/{name}")["data"] == {"version": 3, "topic_id": topic["topic_id"], "partitions": {"0": [1], "1": [1], "2": [1]}}
    assert node(rest, f"/brokers/topics/{name}/partitions")["children"] == ["0", "1", "2"]
    state = node(rest, f"/brokers/topics/{name}/partitions/2/state")
    partition = rest.get(f"/v1/topics/{name}/partitions/2")
    assert state["data"]["leader"] == 1 and state["data"]["isr"] == [1] and state["data"]["osr"] == [] and state["data"]["leader_epoch"] == partition["leader_epoch"]
    assert state["stat"]["version"] == state["data"]["partition_epoch"] == partition["partition_epoch"] and state["data"]["elr"] == [] and state["children"] == []
    assert state["controller_epoch"] == rest.get("/v1/cluster")["controller"]["epoch"] and state["metadata_offset"] > 0
    assert state["stat"]["modified_offset"] is None            # the state of the cluster that a partition's row came with is not kept
    assert node(rest, f"/config/topics/{name}")["data"] == {"version": 1, "config": {"retention.ms": "1234567"}}
    assert name in node(rest, "/config/topics", limit=1000)["children"]
    # as one segment, which is how generated clients send it
    assert node(rest, "/" + quote(f"brokers/topics/{name}", safe=""))["path"] == f"/brokers/topics/{name}"


def test_secrets_are_not_shown(rest):
    rest.ask("PATCH", "/v1/cluster/config", {"ottla.log.level": None, "log.cleaner.backoff.ms": "15001"})
    assert node(rest, "/config/brokers/%3Cdefault%3E")["data"]["config"]["log.cleaner.backoff.ms"] == "15001"
    rest.ask("PATCH", "/v1/cluster/config", {"log.cleaner.backoff.ms": None})


@pytest.mark.parametrize("path", ["/nothing", "/brokers/ids/7", "/brokers/ids/01", "/brokers/ids/1/x", "/brokers/topics/none", "/config/topics/none", "/consumers/none", "/consumers/none/ids",
                                  "/controller/x", "/config/users/u", "/consumers/none/x/y/z/a/b", "/%2F%2F"])
def test_what_is_not_there_is_a_problem(rest, path):
    rest.problem("GET", "/v1/registry" + path, 404, "RESOURCE_NOT_FOUND")
    rest.problem("DELETE", "/v1/registry" + path, 405, "HTTP_METHOD_NOT_ALLOWED")


def test_children_come_in_pages(rest, name):
    for i in range(5):
        rest.create(f"{name}-{i}")
    children, token = [], {}
    while True:
        page = node(rest, "/brokers/topics", limit=2, **token)
        assert len(page["children"]) <= 2 and page["stat"]["children"] >= 5
        children += page["children"]
        if not page["next_page_token"]:
            break
        token = {"page_token": page["next_page_token"]}
    assert children == sorted(children) and [c for c in children if c.startswith(name)] == [f"{name}-{i}" for i in range(5)]


def test_a_watch_hears_of_a_change_and_of_a_birth(rest, broker, name):
    answers = {}                               # without a word of the change each would come after the two minutes that a watch may last

    def in_work():
        return rest.get("/v1/metrics")["rest"]["requests_in_work"] > 0

    def watch(key, path, **query):
        answers[key] = Rest(broker).session.get(broker.rest + "/v1/registry" + path, params=query, timeout=150)
    born = threading.Thread(target=watch, args=("born", f"/brokers/topics/{name}"), kwargs={"watch": 0, "wait_ms": 120000})
    born.start()
    until(in_work, 10, "the watch")
    rest.create(name)
    born.join(60)
    assert not born.is_alive()
    assert answers["born"].status_code == 200 and answers["born"].json()["path"] == f"/brokers/topics/{name}"
    version = node(rest, f"/config/topics/{name}")["stat"]["version"]
    changed = threading.Thread(target=watch, args=("changed", f"/config/topics/{name}"), kwargs={"watch": version, "wait_ms": 120000})
    changed.start()
    until(in_work, 10, "the watch")
    rest.ask("PATCH", f"/v1/topics/{name}/config", {"retention.ms": "99999"})
    changed.join(60)
    assert not changed.is_alive()
    assert answers["changed"].json()["data"]["config"] == {"retention.ms": "99999"} and answers["changed"].json()["stat"]["version"] > version
    rest.problem("GET", "/v1/registry/brokers/topics/never", 404, "RESOURCE_NOT_FOUND", watch=0, wait_ms=200)
    same = answers["changed"].json()["stat"]["version"]
    assert node(rest, f"/config/topics/{name}", watch=same, wait_ms=200)["stat"]["version"] == same
    rest.ask("DELETE", f"/v1/topics/{name}", status=204)
    rest.problem("GET", f"/v1/registry/config/topics/{name}", 404, "RESOURCE_NOT_FOUND", watch=same, wait_ms=20000)


def test_what_consumers_kept(rest, broker, name):
    """Members, owners, offsets, for a group whose name needs its slash encoded."""
    rest.create(name, 2)
    rest.produce(name, {"value": {"string": "x"}, "partition": 0})
    group, path = f"{name}/g", "/consumers/" + quote(f"{name}/g", safe="")
    rest.ask("PUT", "/v1/groups/" + quote(group, safe="") + "/offsets", {"offsets": [{"topic": name, "partition": 0, "offset": 1}]})
    assert group in node(rest, "/consumers", limit=1000)["children"]
    assert node(rest, path)["children"] == ["ids", "offsets", "owners"] and node(rest, path + "/ids")["children"] == []
    assert node(rest, path + "/offsets")["children"] == [name] and node(rest, f"{path}/offsets/{name}")["children"] == ["0"]
    one = node(rest, f"{path}/offsets/{name}/0")
    assert one["data"] == 1 and one["path"] == f"/consumers/{group}/offsets/{name}/0"
    rest.problem("GET", f"/v1/registry{path}/offsets/{name}/1", 404, "RESOURCE_NOT_FOUND")
    consumer = pytest.importorskip("confluent_kafka").Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    try:
        until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, 30, "an assignment")
        ids = node(rest, path + "/ids")["children"]
        assert len(ids) == 1
        told = node(rest, path + "/ids/" + quote(ids[0], safe=""))
        assert told["stat"]["ephemeral"] and told["stat"]["owner"] == ids[0] and told["data"]["subscription"] == [name]
        assert node(rest, f"{path}/owners/{name}")["children"] == ["0", "1"]
        owner = node(rest, f"{path}/owners/{name}/1")
        assert owner["data"] == ids[0] and owner["stat"]["ephemeral"]
    finally:
        consumer.close()
