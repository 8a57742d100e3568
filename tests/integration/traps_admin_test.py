"""Compatibility traps M9, M10 and N6 for the rest of the admin APIs: configs changed one by one, log directories, every version."""
import pytest

import batch
import harness
import wire
from admin import Admin, error
from harness import until
from traps_versions_test import SERVED, advertised

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(admin, name, *changes, kind=TOPIC, version=1, validate_only=False):
    """Each change is (operation, key, value); gives the single result."""
    body = {"resources": [{"resourceType": kind, "resourceName": name, "configs": [
        {"name": k, "configOperation": operation, "value": v} for operation, k, v in changes]}], "validateOnly": validate_only}
    answer = admin.connection.ask("IncrementalAlterConfigs", version, body)["responses"]
    assert len(answer) == 1
    return answer[0]


def value(admin, name, key, wanted=None):
    """The value and source of a topic key; others than we may take a moment to show a change."""
    def now():
        entry = admin.describe_configs(TOPIC, name, [key])["configs"][0]
        return entry["value"], entry["configSource"]
    if wanted is not None:
        until(lambda: now()[0] == wanted, 10, lambda: f"{key}={wanted}, is {now()}")
    return now()


@pytest.mark.smoke
@pytest.mark.parametrize("version", [0, 1])
def test_incremental_alter_sets_and_deletes(admin, topic, version):
    assert error(alter(admin, topic, (SET, "retention.ms", "4711"), version=version)) == "NONE"
    assert value(admin, topic, "retention.ms", "4711") == ("4711", 1)
    assert error(alter(admin, topic, (SET, "segment.bytes", "2097152"), (DELETE, "retention.ms", None), version=version)) == "NONE"
    assert value(admin, topic, "segment.bytes", "2097152") == ("2097152", 1)
    assert value(admin, topic, "retention.ms", "604800000")[1] != 1


def test_incremental_alter_appends_and_subtracts(admin, topic):
    assert error(alter(admin, topic, (APPEND, "cleanup.policy", "compact"))) == "NONE"
    until(lambda: set(value(admin, topic, "cleanup.policy")[0].split(",")) == {"delete", "compact"}, 10, "both policies")
    assert error(alter(admin, topic, (SUBTRACT, "cleanup.policy", "delete"))) == "NONE"
    assert value(admin, topic, "cleanup.policy", "compact")[1] == 1
    assert error(alter(admin, topic, (APPEND, "retention.ms", "1"))) == "INVALID_CONFIG"  # no list


@pytest.mark.parametrize("change", [(SET, "no.such.key", "1"), (SET, "retention.ms", "soon"), (SET, "cleanup.policy", "shred"),
                                    (SET, "max.message.bytes", "-1")])
def test_incremental_alter_refuses_and_changes_nothing(admin, topic, change):
    answer = alter(admin, topic, (SET, "retention.ms", "4711"), change) if change[1] != "retention.ms" else alter(admin, topic, change)
    assert error(answer) == "INVALID_CONFIG" and answer["errorMessage"]
    assert value(admin, topic, "retention.ms")[0] == "604800000"


def test_incremental_alter_validate_only_and_unknown_topic(admin, topic, name):
    assert error(alter(admin, topic, (SET, "retention.ms", "4711"), validate_only=True)) == "NONE"
    assert value(admin, topic, "retention.ms")[0] == "604800000"
    assert error(alter(admin, name + "-none", (SET, "retention.ms", "1"))) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_changed_config_takes_effect_and_survives_a_kill(own_broker, name):
    broker = own_broker()
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name)
        assert error(alter(admin, name, (SET, "max.message.bytes", "1000"))) == "NONE"
        assert error(admin.produce_raw(name, batch.build([b"x" * 1200]))) == "MESSAGE_TOO_LARGE"
    broker.kill()
    broker.start()
    with broker.connect() as c:
        admin = Admin(c)
        assert value(admin, name, "max.message.bytes") == ("1000", 1)
        assert error(admin.produce_raw(name, batch.build([b"x" * 1200]))) == "MESSAGE_TOO_LARGE"
        assert error(alter(admin, name, (DELETE, "max.message.bytes", None))) == "NONE"
        assert admin.produce(name, "x" * 1200) == 0


@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs(admin, name, version):
    admin.create(name, partitions=2)
    admin.produce(name, "x" * 3000, partition=1)
    body = {"topics": [{"topic": name, "partitions": [0, 1]}]}
    answer = admin.connection.ask("DescribeLogDirs", version, body)
    results = answer["results"]
    assert results and all(error(r) == "NONE" and r["logDir"] for r in results)
    sizes = {p["partitionIndex"]: p["partitionSize"] for r in results for t in r["topics"] if t["name"] == name for p in t["partitions"]}
    assert sorted(sizes) == [0, 1] and sizes[1] >= 3000 and sizes[0] == 0
    if version >= 4:
        assert all(r["totalBytes"] > r["usableBytes"] > 0 for r in results)
    everything = admin.connection.ask("DescribeLogDirs", version, {"topics": None})["results"]
    assert name in [t["name"] for r in everything for t in r["topics"]]


def test_every_advertised_version_of_every_other_api_gives_an_answer(broker, admin, topic):
    """An empty request of each version: an answer that decodes to its last byte, and no close."""
    if isinstance(broker, harness.External):
        pytest.skip("another broker has APIs that wait")
    with broker.connect() as c:
        others = {name: span for name, span in advertised(c).items() if name not in SERVED}
    assert all(isinstance(name, str) for name in others), others
    for name, (low, high) in others.items():
        for version in range(low, high + 1):
            with broker.connect() as c:
                c.ask(name, version, {})
    assert set(others) <= set(wire.api_ranges())
