"""What the cleaner's keys change: which partitions it takes, when, and with how much memory. tests/config_effects.txt says which test shows which key."""
import time
from pathlib import Path

import pytest

import batch
from admin import Admin
from admin_apis_test import BROKER, SET, TOPIC, incremental
from compaction_test import metric, view
from harness import until

QUICK = {"log_cleaner_backoff_ms": "100", "log_retention_check_interval_ms": "500", "ottla_durability": "replicated"}
COMPACT = {"cleanup_policy": "compact", "segment_bytes": "1048576"}


def fill(admin, name, keys, bytes_=100, batch_=1000):
    """One record for each of `keys` keys, then so much of another that all of them lie in sealed segments."""
    for first in range(0, keys, batch_):
        some = range(first, min(first + batch_, keys))
        admin.produce(name, *["v" * bytes_ for _ in some], keys=[b"k%d" % i for i in some], acks=1)
    for _ in range(2):
        admin.produce(name, "f" * 900_000, keys=[b"filler"], acks=1)


def cleaned(broker, name):
    return view(broker, name)["last_at"] is not None


def clean(broker, name):
    now = view(broker, name)
    return now["last_at"] and now["state"] == "idle" and int(now["dirty_bytes"]) == 0


def read_bytes(own_broker, name, **settings):
    """How much is read until 20 000 keys are clean."""
    broker = own_broker(**QUICK, **settings)
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name, **COMPACT, min_cleanable_dirty_ratio="0")
        fill(admin, name, 20_000)
        until(lambda: clean(broker, name), 60, lambda: f"all clean: {view(broker, name)}")
    return metric(broker, "cleaner_read_bytes_total")


@pytest.mark.long
def test_memory_for_keys(own_broker, name):
    """65536 bytes hold 4096 keys, and as many of them are taken as the load factor says. Fewer at a time means more passes over the same bytes."""
    all_at_once = read_bytes(own_broker, name)
    small = read_bytes(own_broker, name, log_cleaner_dedupe_buffer_size="65536")
    smaller = read_bytes(own_broker, name, log_cleaner_dedupe_buffer_size="65536", log_cleaner_io_buffer_load_factor="0.3")
    assert all_at_once * 1.5 < small and small * 1.5 < smaller


@pytest.mark.long
def test_memory_for_reading_and_writing(own_broker, name):
    """The smaller the buffer, the more reads of the same bytes."""
    def reads(**settings):
        broker = own_broker(**QUICK, log_cleaner_enable="true", **settings)
        with broker.connect() as c:
            admin = Admin(c)
            admin.create(name, **COMPACT, min_cleanable_dirty_ratio="1.0")
            fill(admin, name, 20_000, batch_=50)

            def calls():
                return int(Path(f"/proc/{broker.process.pid}/io").read_text().split("syscr:")[1].split()[0])
            before = calls()
            assert incremental(c.ask, TOPIC, name, ("min.cleanable.dirty.ratio", SET, "0")) == "NONE"
            until(lambda: clean(broker, name), 60, lambda: f"all clean: {view(broker, name)}")
            return calls() - before
    assert reads(log_cleaner_io_buffer_size="32768") > reads(log_cleaner_io_buffer_size="8388608") + 200


@pytest.mark.parametrize("topic_key,broker_key,value,held", [
    ("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", "3600000", True),
    ("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", "1.0", True),
    ("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", "1", False)])
@pytest.mark.parametrize("kind", ["topic", "cluster"])
def test_what_is_taken(own_broker, name, kind, topic_key, broker_key, value, held):
    """Of two topics one has the key otherwise: set on it, or on the cluster with the other one excepted. The one that is held back is the dirtier one: it would be first."""
    broker = own_broker(**QUICK)
    special, plain = f"{name}-special", f"{name}-plain"
    usual = {"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": str(2**63 - 1)}
    if not held:
        usual["min.cleanable.dirty.ratio"] = "1.0"            # nobody is taken for its dirt
    with broker.connect() as c:
        admin = Admin(c)
        if kind == "cluster":
            assert incremental(c.ask, BROKER, "", (broker_key, SET, value)) == "NONE"
        # first nobody is compacted, so that both are there before the cleaner chooses
        for topic in (special, plain):
            own = {k.replace(".", "_"): v for k, v in usual.items() if k != topic_key}
            if topic == plain:
                own[topic_key.replace(".", "_")] = usual[topic_key]
            elif kind == "topic":
                own[topic_key.replace(".", "_")] = value
            admin.create(topic, **{**COMPACT, "cleanup_policy": "delete", **own})
            fill(admin, topic, 3000 if topic == special else 1000)
        for topic in (special, plain):
            assert incremental(c.ask, TOPIC, topic, ("cleanup.policy", SET, "compact")) == "NONE"
        taken, left = (plain, special) if held else (special, plain)
        until(lambda: cleaned(broker, taken), 60, lambda: f"compaction: {view(broker, taken)}")
        assert not cleaned(broker, left)


@pytest.mark.parametrize("kind,value,stay", [("topic", "0", False), ("cluster", "0", False), ("topic", "86400000", True)])
def test_how_long_tombstones_stay(own_broker, name, kind, value, stay):
    broker = own_broker(**QUICK)
    with broker.connect() as c:
        admin = Admin(c)
        if kind == "cluster":
            assert incremental(c.ask, BROKER, "", ("log.cleaner.delete.retention.ms", SET, value)) == "NONE"
        admin.create(name, **COMPACT, min_cleanable_dirty_ratio="0", **({"delete_retention_ms": value} if kind == "topic" else {}))
        assert error_free(admin, name, batch.build([None], keys=[b"gone"]))
        fill(admin, name, 100)
        until(lambda: clean(broker, name), 60, "the first run, which gives the tombstone its time")
        first = view(broker, name)["last_at"]
        fill(admin, name, 100)
        until(lambda: clean(broker, name) and view(broker, name)["last_at"] != first, 60, "a second run")
        assert (b"gone" in {key for _, _, key, _ in admin.records(name)}) == stay


def error_free(admin, name, data):
    return admin.produce_raw(name, data)["errorCode"] == 0


def test_a_shorter_pause_counts_at_once(own_broker, name):
    broker = own_broker(**{**QUICK, "log_cleaner_backoff_ms": "3600000"})
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name, **COMPACT, min_cleanable_dirty_ratio="0")
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 1.5, 20, "the first look, which finds nothing")
        fill(admin, name, 1000)
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 2.5, 20, "looks that do not come")
        assert not cleaned(broker, name)
        assert incremental(c.ask, BROKER, "", ("log.cleaner.backoff.ms", SET, "100")) == "NONE"
        until(lambda: cleaned(broker, name), 60, "compaction")
