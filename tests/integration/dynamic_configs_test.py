"""Every topic and broker config with a meaning takes effect at once when it is changed, and still holds after a restart."""
import itertools
import json
import time

import pytest

import batch
from admin import Admin, error
from admin_apis_test import BROKER, DELETE, SET, TOPIC, config, incremental
from harness import TOP, http, until
from wire import Connection

NODE = "1"


class Server:
    """A broker of the test's own with an admin connection that outlives restarts."""

    def __init__(self, broker):
        self.broker = broker
        self.open()

    def open(self):
        self.connection = self.broker.connect()
        self.admin = Admin(self.connection)
        self.ask = self.connection.ask

    def restart(self):
        self.connection.close() if hasattr(self.connection, "close") else self.connection.socket.close()
        self.broker.stop()
        self.broker.start()
        self.open()

    def set(self, kind, name, **configs):
        changes = [(k.replace("_", "."), DELETE if v is None else SET, v) for k, v in configs.items()]
        assert incremental(self.ask, kind, name, *changes) == "NONE"


@pytest.fixture
def server(own_broker):
    made = Server(own_broker(log_retention_check_interval_ms=100))
    yield made
    made.connection.socket.close()


@pytest.fixture(params=["topic", "cluster", "broker"])
def scope(request, server, name):
    """A topic and a way to set one of its keys: on itself, as the cluster's default, or on its broker alone."""
    server.admin.create(name)
    kind, resource = {"topic": (TOPIC, name), "cluster": (BROKER, ""), "broker": (BROKER, NODE)}[request.param]

    def put(topic_key, broker_key, value):
        assert incremental(server.ask, kind, resource, (topic_key if kind == TOPIC else broker_key, SET, value)) == "NONE"
    return put


def refusal(server, name, value=b"x", **how):
    answer = server.admin.produce_raw(name, batch.build([value], **how))
    return error(answer)


def both(server, check):
    """Now, and after a restart."""
    check()
    server.restart()
    check()


def test_max_message_bytes(server, scope, name):
    assert refusal(server, name, b"x" * 2000) == "NONE"
    scope("max.message.bytes", "message.max.bytes", "1000")
    both(server, lambda: [refusal(server, name, b"x" * 2000), refusal(server, name, b"x" * 100)] == ["MESSAGE_TOO_LARGE", "NONE"] or pytest.fail("not bounded"))


@pytest.mark.parametrize("kind", [TOPIC, BROKER])
def test_min_insync_replicas(server, name, kind):
    """More than there are replicas counts as their number, as in Kafka; what it does with several is for tests with several brokers."""
    server.admin.create(name)
    server.set(kind, name if kind == TOPIC else "", min_insync_replicas="2")

    def check():
        assert config(server.admin, TOPIC, name, "min.insync.replicas")[0] == "2"
        assert refusal(server, name) == "NONE"
    both(server, check)


def test_timestamp_type(server, scope, name):
    scope("message.timestamp.type", "log.message.timestamp.type", "LogAppendTime")

    def check():
        offset = server.admin.produce(name, "x", timestamps=[1000])
        [record] = server.admin.records(name, offset)
        assert abs(record[1] - time.time() * 1000) < 60000
    both(server, check)


def test_timestamp_bounds(server, scope, name):
    now = int(time.time() * 1000)
    old, ahead = {"timestamps": [now - 7200_000]}, {"timestamps": [now + 1800_000]}
    assert refusal(server, name, **old) == refusal(server, name, **ahead) == "NONE"
    scope("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", "3600000")
    scope("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", "60000")

    def check():
        assert refusal(server, name, **old) == refusal(server, name, **ahead) == "INVALID_TIMESTAMP"
        assert refusal(server, name) == "NONE"
    both(server, check)


@pytest.mark.parametrize("codec,number", [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)])
def test_compression_type(server, scope, name, codec, number):
    scope("compression.type", "compression.type", codec)
    if codec in ("gzip", "lz4", "zstd"):
        scope(f"compression.{codec}.level", f"compression.{codec}.level", "1")

    def check():
        offset = server.admin.produce(name, "x" * 5000)
        [got] = [b for b in batch.read(server.admin.fetch(name, offset)["records"]) if b.base_offset == offset]
        assert got.attributes & 7 == number and len(got.raw) < 2000 and got.crc_is_valid()
        assert server.admin.records(name, offset)[0][3] == b"x" * 5000
    both(server, check)


def test_compression_levels(server, name):
    """The level that is set is the one that counts: text packs better at the high one."""
    text = b"".join(path.read_bytes() for path in sorted((TOP / "broker").glob("*.c")))
    server.admin.create(name)

    def size(codec, level):
        server.set(TOPIC, name, compression_type=codec, **{f"compression_{codec}_level": str(level), "max_message_bytes": "10000000"})
        offset = server.admin.produce(name, text)
        [got] = [b for b in batch.read(server.admin.fetch(name, offset, max_bytes=10 << 20)["records"]) if b.base_offset == offset]
        return len(got.raw)
    for codec, low, high in (("gzip", 1, 9), ("lz4", 1, 12), ("zstd", 1, 15)):
        assert size(codec, high) < size(codec, low), codec


def test_cleanup_policy(server, scope, name):
    assert refusal(server, name) == "NONE"
    scope("cleanup.policy", "log.cleanup.policy", "compact")
    both(server, lambda: refusal(server, name) == "INVALID_RECORD" or pytest.fail("a record without key is taken"))
    assert refusal(server, name, keys=[b"k"]) == "NONE"


def segments(server, name):
    return len(list(server.broker.partition(name).glob("*.log")))


def test_segment_bytes(server, scope, name):
    scope("segment.bytes", "log.segment.bytes", "1048576")

    def check():
        before = segments(server, name)
        for _ in range(4):
            server.admin.produce(name, "x" * 700_000)
        assert segments(server, name) >= before + 3
    both(server, check)


def test_segment_ms(server, scope, name):
    scope("segment.ms", "log.roll.ms", "1")
    times = itertools.count(int(time.time() * 1000) - 600_000, 1000)      # age is told by timestamps

    def check():
        before = segments(server, name)
        for _ in range(3):
            server.admin.produce(name, "x", timestamps=[next(times)])
        assert segments(server, name) >= before + 2
    both(server, check)


def test_index_interval_and_size(server, scope, name):
    scope("index.interval.bytes", "log.index.interval.bytes", "100")
    scope("segment.index.bytes", "log.index.size.max.bytes", "80")      # ten entries
    before = segments(server, name)
    for _ in range(25):
        server.admin.produce(name, "x" * 200)
    assert segments(server, name) >= before + 2


def test_retention_ms(server, scope, name):
    old = int(time.time() * 1000) - 3600_000
    for _ in range(3):
        server.admin.produce(name, "x", timestamps=[old])
    scope("segment.ms", "log.roll.ms", "1")
    server.admin.produce(name, "new")
    assert server.admin.list_offset(name, -2)["offset"] == 0
    scope("retention.ms", "log.retention.ms", "60000")
    until(lambda: server.admin.list_offset(name, -2)["offset"] == 3, 20, "the old records are gone")


def test_retention_bytes(server, scope, name):
    scope("segment.bytes", "log.segment.bytes", "1048576")
    for _ in range(6):
        server.admin.produce(name, "x" * 700_000)
    scope("retention.bytes", "log.retention.bytes", "1500000")
    until(lambda: 3 <= server.admin.list_offset(name, -2)["offset"] <= 5, 20, "only the last segments are left")


def test_preallocate(server, scope, name):
    scope("preallocate", "log.preallocate", "true")
    scope("segment.bytes", "log.segment.bytes", "4194304")
    server.admin.produce(name, "x")
    [log] = server.broker.partition(name).glob("*.log")
    assert log.stat().st_blocks * 512 >= 4 << 20


def metric(server, name):
    text = http(server.broker.rest + "/metrics")[2].decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " ") or line.startswith(name + "{"))


@pytest.mark.parametrize("key,broker_key,value", [("flush.messages", "log.flush.interval.messages", "1"), ("flush.ms", "log.flush.interval.ms", "1")])
def test_flushes(server, scope, name, key, broker_key, value):
    scope("ottla.durability", "ottla.durability", "replicated")
    server.admin.produce(name, "x")
    before = metric(server, "ottla_log_flush_rounds_total")
    scope(key, broker_key, value)

    def flushed():
        server.admin.produce(name, "x", acks=1)
        return metric(server, "ottla_log_flush_rounds_total") > before
    until(flushed, 20, "a flush", step_s=0.2)


def history_is_written(server, value):
    """The change is in the history, and so is the topic of that: nothing more is flushed for it."""
    state = []

    def look():
        events = json.loads(http(f"{server.broker.rest}/v1/events")[2])["items"]
        state.append((len(events), metric(server, "ottla_log_flush_rounds_total")))
        return any(e.get("to") == value for e in events) and any(e.get("topic") == "__ottla_events" for e in events) and len(state) > 5 and state[-1] == state[-6]
    until(look, 20, lambda: f"history: {state[-6:]}", 0.1)


def test_durability(server, scope, name):
    def rounds():
        before = metric(server, "ottla_log_flush_rounds_total")
        for _ in range(5):
            server.admin.produce(name, "x")
        return metric(server, "ottla_log_flush_rounds_total") - before
    assert rounds() == 5                      # alone, an answer waits for the disk
    scope("ottla.durability", "ottla.durability", "replicated")
    history_is_written(server, "replicated")
    assert rounds() == 0
    scope("ottla.durability", "ottla.durability", "fsync")
    history_is_written(server, "fsync")
    assert rounds() == 5


# ---- broker keys

def accepted(server):
    """How many of five connections live."""
    held = []
    try:
        for _ in range(5):
            try:
                held.append(Connection(server.broker.bootstrap, timeout_s=1))
            except OSError:
                pass
        alive = 0
        for c in held:
            try:
                alive += c.ask("ApiVersions", 0)["errorCode"] == 0
            except (OSError, EOFError):
                pass
        return alive
    finally:
        for c in held:
            c.socket.close()


@pytest.mark.parametrize("key", ["max.connections", "max.connections.per.ip"])
def test_connection_limits(server, key):
    until(lambda: accepted(server) == 5, 20, "five connections")
    assert incremental(server.ask, BROKER, "", (key, SET, "3")) == "NONE"
    until(lambda: accepted(server) == 2, 20, "two beside ours")
    assert incremental(server.ask, BROKER, "", (key, DELETE, None)) == "NONE"
    until(lambda: accepted(server) == 5, 20, "all again")


def test_a_raised_limit_lets_in_who_waits(server):
    """Nobody comes or goes when the limit is raised, so the change itself has to look."""
    server.set(BROKER, "", max_connections="1")
    waiting = Connection(server.broker.bootstrap, timeout_s=20)
    waiting.send("ApiVersions", 0)
    server.set(BROKER, "", max_connections=None)
    try:
        assert waiting.receive("ApiVersions", 0)[1]["errorCode"] == 0
    except (OSError, EOFError):               # refused at once is right too; then another one gets in
        until(lambda: accepted(server) == 5, 20, "all again")
    waiting.socket.close()


def test_log_level(server):
    server.set(BROKER, NODE, ottla_log_level="error")
    server.set(BROKER, NODE, ottla_log_level="debug")
    assert config(server.admin, 8, NODE, "root") == ("DEBUG", 6) and config(server.admin, 8, NODE, "kafka") == ("DEBUG", 6)
    server.restart()
    assert config(server.admin, 8, NODE, "root") == ("DEBUG", 6)
    server.set(BROKER, NODE, ottla_log_level=None)
    assert config(server.admin, 8, NODE, "root") == ("INFO", 6)


def test_disk_thresholds(server, name):
    server.admin.create(name)
    assert refusal(server, name) == "NONE"
    server.set(BROKER, NODE, ottla_disk_free_warn_bytes=str(1 << 62), ottla_disk_free_refuse_bytes=str(1 << 61))
    until(lambda: refusal(server, name) != "NONE", 20, "produce is refused")
    assert server.admin.records(name)[0][3] == b"x"
    server.set(BROKER, NODE, ottla_disk_free_warn_bytes=None, ottla_disk_free_refuse_bytes=None)
    until(lambda: refusal(server, name) == "NONE", 20, "produce is taken again")


def test_producer_expiration(server, name):
    server.admin.create(name)
    number, epoch = server.admin.producer_id()
    server.admin.produce(name, "x", producer=(number, epoch, 0))
    server.set(BROKER, "", producer_id_expiration_ms="1")

    def known():
        answer = server.ask("DescribeProducers", 0, {"topics": [{"name": name, "partitionIndexes": [0]}]})
        return len(answer["topics"][0]["partitions"][0]["activeProducers"])
    until(lambda: known() == 0, 90, "the producer is forgotten")


def test_topics_made_without_words_follow_the_brokers_defaults(server, name):
    server.set(BROKER, "", log_retention_ms="123456")
    server.admin.create(name)
    assert config(server.admin, TOPIC, name, "retention.ms") == ("123456", 3)
    server.set(BROKER, NODE, log_retention_ms="123457")
    assert config(server.admin, TOPIC, name, "retention.ms") == ("123457", 2)
    server.restart()
    assert config(server.admin, TOPIC, name, "retention.ms") == ("123457", 2)
    server.set(TOPIC, name, retention_ms="5")
    assert config(server.admin, TOPIC, name, "retention.ms") == ("5", 1)


def test_partitions_in_one_answer(own_broker, name):
    server = Server(own_broker(max_request_partition_size_limit=2))
    server.admin.create(name, partitions=5)
    answer = server.ask("DescribeTopicPartitions", 0, {"topics": [{"name": name}], "responsePartitionLimit": 100})
    assert len(answer["topics"][0]["partitions"]) == 2 and answer["nextCursor"]["partitionIndex"] == 2
    server.connection.socket.close()
