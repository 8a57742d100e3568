"""Fixtures: `broker` is shared by a whole run, `own_broker` makes fresh ones for tests that stop, kill or configure."""
import itertools
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from cluster import Cluster

import harness
from admin import Admin

UNIQUE = itertools.count()
LATE_RETENTION = {"log_initial_task_delay_ms": 3600000}                        # tests write records of long ago, and some take longer than the half minute until it looks


def pytest_collection_modifyitems(config, items):
    """Time-outs of whole tests, too, are those of a quiet machine of one's own."""
    for item in items:
        mark = item.get_closest_marker("timeout")
        usual_s = mark.args[0] if mark else float(config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(usual_s * harness.PATIENCE), append=False)


@pytest.fixture(scope="session")
def run_directory():
    path = Path(tempfile.mkdtemp(prefix="ottla-test-"))
    yield path
    if os.environ.get("OTTLA_TEST_KEEP") != "1":
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_broker(run_directory):
    if harness.EXTERNAL:
        yield harness.External(harness.EXTERNAL)
        return
    if not harness.BINARY.exists():
        pytest.skip(f"no {harness.BINARY}")
    broker = harness.Broker(run_directory / "shared", **LATE_RETENTION, log_retention_check_interval_ms=3600000)
    try:
        broker.start()
        yield broker
        broker.stop()
    finally:
        broker.kill()


@pytest.fixture
def broker(shared_broker):
    """The shared broker, alive; a test that brings it down is the one that fails."""
    yield shared_broker
    if isinstance(shared_broker, harness.Broker):
        assert shared_broker.alive(), f"the server went down:\n{shared_broker.log_tail(80)}"


@pytest.fixture
def own_broker(run_directory):
    """A function that starts a fresh broker with the given settings (dots as underscores)."""
    if harness.EXTERNAL:
        pytest.skip("needs a server of its own")
    if not harness.BINARY.exists():
        pytest.skip(f"no {harness.BINARY}")
    made = []

    def make(start=True, **settings):
        made.append(harness.Broker(run_directory / f"own-{next(UNIQUE)}", **{**LATE_RETENTION, **settings}))
        return made[-1].start() if start else made[-1]

    yield make
    for one in made:
        try:
            if one.alive():
                one.stop()
            one.no_reports()
        finally:
            one.kill()
            shutil.rmtree(one.directory, ignore_errors=True)


@pytest.fixture
def make(run_directory):
    """A function that makes clusters of several servers; no sanitizer may have had something to say."""
    if harness.EXTERNAL:
        pytest.skip("needs servers of its own")
    made = []

    def one(count=3, **how):
        made.append(Cluster(run_directory / f"cluster-{next(UNIQUE)}", count, **how))
        return made[-1]
    yield one
    for cluster in made:
        for node in cluster.nodes.values():
            node.no_reports()
        cluster.close()


@pytest.fixture
def name(request):
    """A topic name of this test's own."""
    stem = "".join(c if c.isalnum() or c in "-." else "-" for c in request.node.name)[:80]
    return f"{stem}-{next(UNIQUE)}-{harness.free_ports(1)[0]}"


@pytest.fixture
def admin(broker):
    with broker.connect() as connection:
        yield Admin(connection)


@pytest.fixture
def topic(admin, name):
    """A fresh topic of one partition."""
    admin.create(name)
    return name
