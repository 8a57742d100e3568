"""SIGHUP: the configuration file is read again. What may change is applied, what needs a restart is named, and a bad file changes nothing."""
import os
import re
import signal
import subprocess

import pytest

import harness
from harness import until
from rest_test import Rest

BASE = "log.retention.ms=100000000\nlog.retention.check.interval.ms=300000\n"


@pytest.fixture
def server(own_broker, run_directory):
    """A broker with a file, and a function that writes the file anew, sends the signal and gives back the lines that the log tells of it."""
    broker = own_broker(start=False, max_connections="1000")
    broker.directory.mkdir(parents=True, exist_ok=True)
    file = broker.directory / "server.properties"
    broker.wrap = ["env", f"OTTLA_CONFIG={file}"]
    file.write_text(BASE)
    broker.start()

    def reload(text):
        file.write_text(text)
        seen = len(broker.log())
        broker.process.send_signal(signal.SIGHUP)
        until(lambda: re.search(r" config file_(not_)?reloaded ", broker.log()[seen:]), 10, lambda: broker.log_tail())
        return broker.log()[seen:]
    return broker, reload


def value(rest, key):
    entry = next(e for e in rest.get("/v1/brokers/1/config")["entries"] if e["name"] == key)
    return entry["value"], entry["source"]


def test_what_may_change_changes_and_the_rest_is_named(server, name):
    broker, reload = server
    rest = Rest(broker)
    rest.create(name)
    log = reload(BASE.replace("100000000", "200000000") + "fetch.max.bytes=4000\nmax.connections=77\nottla.log.level=debug\n")
    assert "file_key_changed key=log.retention.ms effect=applied" in log and "key=ottla.log.level effect=applied" in log
    assert "key=max.connections effect=hidden" in log                   # --set says otherwise
    assert re.search(r"WARN config file_key_changed key=fetch.max.bytes effect=needs_restart", log)
    assert "file_reloaded applied=2 hidden=1 needs_restart=1 error=NONE" in log
    assert value(rest, "log.retention.ms") == ("200000000", "file") and value(rest, "max.connections") == ("1000", "flag")
    assert value(rest, "fetch.max.bytes") == ("57671680", "built_in")
    entry = rest.get(f"/v1/topics/{name}/config/retention.ms")           # topics take it as their default at once
    assert entry["value"] == "200000000", entry
    assert rest.get("/v1/brokers/1/loggers")["loggers"]["net"] == "debug"
    log = reload("log.retention.hours=2\n")
    assert "key=log.retention.ms effect=applied" in log and "key=log.retention.hours effect=applied" in log
    assert rest.get(f"/v1/topics/{name}/config/retention.ms")["value"] == "7200000"
    assert rest.get("/v1/brokers/1/loggers")["loggers"]["net"] == "info"
    log = reload("log.retention.hours=2\n\n# only a comment\nlog.retention.check.interval.ms=300000\n")
    assert "file_reloaded applied=0 hidden=0 needs_restart=0" in log


@pytest.mark.parametrize("text", ["log.retention.ms=soon\n", "log.retenshun.ms=1\n", "log.retention.ms=${env:NOBODY_SETS_THIS}\n"])
def test_a_bad_file_changes_nothing(server, text):
    broker, reload = server
    log = reload("log.segment.bytes=1048576\n" + text)
    assert "ERROR config file_not_reloaded" in log and "server.properties:2" in log
    assert value(Rest(broker), "log.retention.ms") == ("100000000", "file") and value(Rest(broker), "log.segment.bytes")[1] == "built_in"


@pytest.mark.parametrize("kind", ["FIFO", "directory"])
def test_what_is_no_file_is_refused_and_the_server_still_hears(server, kind):
    broker, reload = server
    file = broker.directory / "server.properties"
    file.unlink()
    os.mkfifo(file) if kind == "FIFO" else file.mkdir()
    seen = len(broker.log())
    broker.process.send_signal(signal.SIGHUP)
    until(lambda: "file_not_reloaded" in broker.log()[seen:], 10, broker.log_tail)
    told = broker.log()[seen:]
    assert f"it is a {kind}, not a file" in told and "io_failed" not in told, told
    for words in (["server", "--config", str(file), "--check"], ["config", "import", str(file)]):
        done = subprocess.run([harness.BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=80)
        assert done.returncode != 0 and f"it is a {kind}, not a file".encode() in done.stderr, done.stderr
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(80) == 0


def test_without_a_file_nothing_happens(own_broker):
    broker = own_broker()
    broker.process.send_signal(signal.SIGHUP)
    until(lambda: " config no_file_to_reload " in broker.log(), 10, broker.log_tail)
    assert broker.alive() and Rest(broker).get("/readyz")["status"] == "ready"
