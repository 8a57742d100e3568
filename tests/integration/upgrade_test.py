"""Brokers of two builds side by side: a rolling upgrade of a cluster that works, back again before the feature level is final, and no way back after it. The old build is this one but for the levels of
ottla.version that it knows: it reads no row and serves no request of a newer version, so whatever is sent or written too early is seen here."""
import shutil

import harness
import pytest
from cluster_load import Reader, Writer, check, create, read_all, whole
from replication_test import started

OLD = harness.BINARY.parent / "tests" / "ottla_level1"
UPDATE_REFUSED = 95                                # INVALID_UPDATE_VERSION


def levels_of(node):
    """(min, max, final) of ottla.version, as ApiVersions of that node says."""
    with node.connect() as c:
        answer = c.ask("ApiVersions", 4, {"clientSoftwareName": "test", "clientSoftwareVersion": "1"})
    known = next(f for f in answer["supportedFeatures"] if f["name"] == "ottla.version")
    final = next(f for f in answer["finalizedFeatures"] if f["name"] == "ottla.version")
    return known["minVersion"], known["maxVersion"], final["maxVersionLevel"]


def update(node, level, kind=1, dry_run=False):
    with node.connect(timeout_s=40) as c:
        answer = c.ask("UpdateFeatures", 2, {"timeoutMs": 20000, "featureUpdates": [{"feature": "ottla.version", "maxVersionLevel": level, "upgradeType": kind}], "validateOnly": dry_run})
    return answer["errorCode"], answer["errorMessage"]


def hints(node):
    return node.view("/v1/cluster/health")["hints"]


def restart(cluster, i, binary):
    node = cluster.nodes[i]
    node.stop()
    node.binary = binary
    node.start()


def coordinates(cluster, i):
    """That one, whoever did."""
    def look():
        controller = cluster.controller()
        if controller != i:
            harness.http(cluster.nodes[controller].rest + "/v1/cluster/controller/resign", method="POST")
        return controller == i
    harness.until(look, 120, lambda: f"broker {i} coordinates, not {cluster.controller()}", 1)


def refused(node, words):
    """It ends by itself, and says why."""
    node.start(wait=False)
    status = node.process.wait(240)
    node.process = None
    last = node.log().rsplit("=== run", 1)[1]
    assert status != 0 and words in last, last


@pytest.mark.timeout(400)
def test_a_rolling_upgrade_under_load_is_made_final_and_then_there_is_no_way_back(make):
    assert OLD.exists(), f"{OLD} is built with everything else: ./dev build"
    cluster = make()
    for node in cluster.nodes.values():
        node.binary = OLD
    started(cluster)
    create(cluster.nodes[1], "t", 6, min_insync_replicas=2)
    whole(cluster, ["t"])
    writer, reader = Writer(cluster.bootstrap(), "t", "w"), Reader(cluster.bootstrap(), "t", 6)

    def under_load():
        before = writer.count()
        harness.until(lambda: writer.count() > before + 200, 60, "load")

    assert [levels_of(node) for node in cluster.nodes.values()] == [(1, 1, 1)] * 3
    for binary in (harness.BINARY, OLD):           # one up, and down again: nothing is final yet
        under_load()
        restart(cluster, 3, binary)
        whole(cluster, ["t"])
        if binary is not OLD:                      # what it writes as the coordinator, the others can read, and begin from
            coordinates(cluster, 3)
            for i in (1, 2):
                restart(cluster, i, OLD)
                cluster.wait_state(i, "running")
            whole(cluster, ["t"])
    for i in (2, 3, 1):
        under_load()
        code, words = update(cluster.nodes[i], 2)
        assert code == UPDATE_REFUSED and "only supports versions 1-1" in words       # that one does not know it
        restart(cluster, i, harness.BINARY)
        whole(cluster, ["t"])
        if i != 1:
            code, words = update(cluster.nodes[i], 2)
            assert code == UPDATE_REFUSED and "knows ottla.version 1 to 1" in words, words
            assert hints(cluster.nodes[i]) == []
    under_load()
    assert [levels_of(node) for node in cluster.nodes.values()] == [(1, 2, 1)] * 3
    harness.until(lambda: all("ottla.version=2" in " ".join(hints(node)) for node in cluster.nodes.values()), 30, "told that it may be made final")
    assert update(cluster.nodes[2], 2, dry_run=True)[0] == 0 and levels_of(cluster.nodes[2])[2] == 1
    assert update(cluster.nodes[2], 2)[0] == 0
    harness.until(lambda: all(levels_of(node) == (1, 2, 2) and hints(node) == [] for node in cluster.nodes.values()), 30, "final")
    for kind in (2, 3):
        code, words = update(cluster.nodes[1], 1, kind)
        assert code == UPDATE_REFUSED and "downgrade" in words, words
    under_load()

    cluster.nodes[3].stop()
    cluster.wait_state(3, "fenced")
    row = cluster.brokers(1)[3]                    # what its row says now had no room in it before
    assert row["version"] == cluster.brokers(1)[1]["version"] and row["ottla_version"] == {"min": 1, "max": 2}, row
    cluster.nodes[3].binary = OLD
    refused(cluster.nodes[3], "the cluster is at ottla.version 2, and this build knows 1 to 1")
    kept = cluster.nodes[3].data.with_name("kept")
    cluster.nodes[3].data.rename(kept)             # without a directory it learns it from the others
    refused(cluster.nodes[3], "the cluster is at ottla.version 2, and this build knows 1 to 1")
    shutil.rmtree(cluster.nodes[3].data, ignore_errors=True)
    kept.rename(cluster.nodes[3].data)
    cluster.nodes[3].binary = harness.BINARY
    cluster.start_one(3)
    whole(cluster, ["t"])

    under_load()
    writer.stop()
    assert writer.failed == [], writer.failed[:5]
    rows = read_all(cluster.bootstrap(), "t", 6)
    harness.until(lambda: reader.wrong or reader.count() >= sum(map(len, rows.values())), 60, "the reader")
    assert check(rows, [writer], [reader.stop()]) == []
    cluster.stop()
