"""Keys of the configuration that are read at the start, each by what it changes. tests/config_effects.txt says which test shows which key."""
import json
import re
import socket
import struct
import time

import pytest

import batch
from admin import Admin, error
from admin_apis_test import BROKER, CLIENT_METRICS, DELETE, SET, TOPIC, config, incremental
from harness import http, until
from wire import Connection


@pytest.fixture(scope="module")
def narrow(run_directory):
    """A server whose limits are all small, for tests that only look."""
    import harness
    if harness.EXTERNAL:
        pytest.skip("needs a server of its own")
    broker = harness.Broker(
        run_directory / "narrow", broker_rack="r1", delete_topic_enable="false", transaction_max_timeout_ms="1000", offset_metadata_max_bytes="10",
        group_min_session_timeout_ms="5000", group_max_session_timeout_ms="20000", group_max_size="1", group_consumer_max_size="1", group_initial_rebalance_delay_ms="0",
        group_consumer_assignors="range", group_consumer_min_session_timeout_ms="40000", group_consumer_max_session_timeout_ms="50000",
        group_consumer_min_heartbeat_interval_ms="4000", group_consumer_max_heartbeat_interval_ms="6000", group_consumer_min_assignment_interval_ms="100",
        group_consumer_max_assignment_interval_ms="2000", offsets_topic_num_partitions="3", offsets_topic_segment_bytes="1048577",
        transaction_state_log_num_partitions="4", transaction_state_log_segment_bytes="1048578", transaction_state_log_min_isr="1",
        max_incremental_fetch_session_cache_slots="0", telemetry_max_bytes="100", ottla_partitions_max="30", ottla_producers_per_partition_max="2",
        ottla_log_format="json", ottla_network_threads="2", ottla_io_threads="3", group_coordinator_threads="1", fetch_max_bytes="3000", socket_request_max_bytes="100000",
        queued_max_request_bytes="30000000", ottla_decode_bytes_max="20000000", metrics_partition_detail="off", default_replication_factor="2", num_partitions="2",
        max_decompressed_message_bytes="2000", compression_type="lz4", log_segment_bytes="1048576", ottla_open_files_max="20", metrics_series_max="320",
        log_cleaner_threads="2", transaction_partition_verification_enable="false")
    try:
        yield broker.start()
        broker.stop()
    finally:
        broker.kill()


@pytest.fixture
def limits(narrow):
    with narrow.connect() as connection:
        yield Admin(connection)


@pytest.fixture
def ask(limits):
    return limits.connection.ask


def metric(broker, name, **labels):
    want = "".join(sorted(f'{k}="{v}"' for k, v in labels.items()))
    for line in http(broker.rest + "/metrics")[2].decode().splitlines():
        m = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if m and m.group(1) == name and "".join(sorted(re.findall(r'\w+="[^"]*"', m.group(2) or ""))) == want:
            return float(m.group(3))
    return None


def coordinator(ask, key, kind=0):
    """Wait until the coordinator of a group or transaction is at work."""
    until(lambda: error(ask("FindCoordinator", 4, {"keyType": kind, "coordinatorKeys": [key]})["coordinators"][0]) == "NONE", 20, "a coordinator")


def settled(call):
    """The answer, once it is no longer that the coordinator is not there yet."""
    answers = []

    def said():
        answers.append(call())
        return error(answers[-1]) not in ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS")
    until(said, 20, "an answer")
    return answers[-1]


# ---- the cluster and its topics

def test_rack(ask):
    assert ask("Metadata", 12, {"topics": []})["brokers"][0]["rack"] == "r1"
    assert ask("DescribeCluster", 1, {"endpointType": 1})["brokers"][0]["rack"] == "r1"


def test_defaults_of_new_topics(limits, name):
    assert error(limits.create(name, partitions=-1, replication=-1, check=False)) == "INVALID_REPLICATION_FACTOR"      # two, and there is one broker
    assert limits.create(name, partitions=-1)["numPartitions"] == 2


def test_topics_may_not_be_deleted(limits, name):
    limits.create(name)
    assert error(limits.delete(name, check=False)) == "TOPIC_DELETION_DISABLED"


def test_partitions_are_counted(limits, name):
    answer = limits.create(name, partitions=31, check=False)
    assert error(answer) != "NONE" and "30" in answer["errorMessage"]


def test_sizes_of_internal_topics(ask, limits):
    coordinator(ask, "g")
    coordinator(ask, "t", kind=1)
    assert len(limits.describe("__consumer_offsets")["partitions"]) == 3
    assert len(limits.describe("__transaction_state")["partitions"]) == 4
    assert {len(p["replicaNodes"]) for t in ("__consumer_offsets", "__transaction_state") for p in limits.describe(t)["partitions"]} == {1}     # three are asked for, one is there
    assert config(limits, TOPIC, "__consumer_offsets", "segment.bytes")[0] == "1048577"
    assert config(limits, TOPIC, "__transaction_state", "segment.bytes")[0] == "1048578"
    assert config(limits, TOPIC, "__transaction_state", "min.insync.replicas")[0] == "1"


# ---- records

def test_fetch_max_bytes(limits, name):
    limits.create(name, compression_type="producer")
    for _ in range(4):
        limits.produce(name, "x" * 1400)
    part = limits.fetch(name, total=50 << 20, max_bytes=50 << 20)
    assert len(batch.read(part["records"])) == 2


def test_no_fetch_sessions(ask, limits, name):
    limits.create(name)
    assert limits.fetch_answer(name, session=(0, 0))["sessionId"] == 0


def test_max_decompressed_message_bytes(limits, name):
    limits.create(name)                       # the broker compresses anew, so it has to see what is inside
    big = batch.build([b"x" * 3000], codec="gzip")
    assert error(limits.produce_raw(name, big)) == "INVALID_RECORD" or error(limits.produce_raw(name, big)) == "MESSAGE_TOO_LARGE"
    assert error(limits.produce_raw(name, batch.build([b"x" * 1500], codec="gzip"))) == "NONE"
    assert incremental(limits.connection.ask, TOPIC, name, ("max.decompressed.message.bytes", SET, "5000")) == "NONE"
    assert error(limits.produce_raw(name, big)) == "NONE"


def test_producers_of_a_partition_are_bounded(ask, limits, name):
    limits.create(name)
    for _ in range(5):
        number, epoch = limits.producer_id()
        limits.produce(name, "x", producer=(number, epoch, 0))
    answer = ask("DescribeProducers", 0, {"topics": [{"name": name, "partitionIndexes": [0]}]})
    assert len(answer["topics"][0]["partitions"][0]["activeProducers"]) == 2


def test_segment_files_kept_open_are_bounded(narrow, limits, name):
    limits.create(name, partitions=1, compression_type="producer", max_message_bytes="2000000")
    for _ in range(40):
        for _ in range(12):
            limits.produce(name, "x" * 90_000)
    segments = sorted(narrow.partition(name).glob("*.log"))
    assert len(segments) >= 30
    for segment in segments:                  # all are read once, and then closed again but for some
        limits.fetch(name, int(segment.stem))
    open_now = sum(1 for link in (p for p in __import__("pathlib").Path(f"/proc/{narrow.process.pid}/fd").iterdir()) if name in str(link.resolve()))
    assert open_now <= 3 * 20                 # a segment is a log and two indexes


# ---- requests and connections

def test_socket_request_max_bytes(narrow, limits, name):
    limits.create(name)
    with Connection(narrow.bootstrap) as c:
        c.socket.sendall(struct.pack(">i", 100_001) + b"\0" * 100)
        with pytest.raises((EOFError, OSError)):
            c.frame()
    with Connection(narrow.bootstrap) as c:
        assert error(Admin(c).produce_raw(name, batch.build([b"x" * 90_000]))) == "NONE"


def test_telemetry_max_bytes(ask):
    assert incremental(ask, CLIENT_METRICS, "all", ("metrics", SET, "*")) == "NONE"
    told = ask("GetTelemetrySubscriptions", 0, {"clientInstanceId": bytes(range(16))})
    assert told["telemetryMaxBytes"] == 100

    def push(size):
        return error(ask("PushTelemetry", 0, {"clientInstanceId": bytes(range(16)), "subscriptionId": told["subscriptionId"], "terminating": False, "compressionType": 0,
                                              "metrics": b"\x7a" + bytes([size - 2]) + bytes(size - 2)}))
    assert [push(101), push(100)] == ["TELEMETRY_TOO_LARGE", "NONE"]


def test_pools_of_memory(narrow):
    assert metric(narrow, "ottla_memory_pool_cap_bytes", pool="requests") == 30000000
    assert metric(narrow, "ottla_memory_pool_cap_bytes", pool="decoding") == 20000000


def test_threads(narrow):
    from pathlib import Path
    names = [p.read_text().strip() for p in Path(f"/proc/{narrow.process.pid}/task").glob("*/comm")]
    assert [sum(name.startswith(stem) for name in names) for stem in ("ot-net", "io-", "groups")] == [2, 3, 1]
    assert sum(name.startswith("cleaner-") for name in names) >= 2


def test_log_format(narrow):
    lines = [line for line in narrow.log().splitlines() if not line.startswith("===")]
    assert lines and all(json.loads(line) for line in lines)


def test_metrics_partition_detail(narrow, limits, own_broker, name):
    limits.create(name)
    limits.produce(name, "x")
    assert metric(narrow, "ottla_log_end_offset", topic=name, partition="0") is None
    detailed = own_broker(metrics_partition_detail="on")
    with detailed.connect() as c:
        Admin(c).create(name)
        Admin(c).produce(name, "x")
        assert metric(detailed, "ottla_log_end_offset", topic=name, partition="0") == 1


def test_series_are_bounded(own_broker, name):
    broker = own_broker(metrics_series_max="100", ottla_group_version="1")
    with broker.connect() as c:
        admin = Admin(c)
        for i in range(20):
            admin.create(f"{name}-{i}")
            admin.produce(f"{name}-{i}", "x")
    assert metric(broker, "ottla_metrics_series") <= 100 and metric(broker, "ottla_metrics_series_refused_total") > 0


# ---- groups

def join(ask, group, session_ms=10000, member=""):
    coordinator(ask, group)
    return settled(lambda: ask("JoinGroup", 5, {
        "groupId": group, "sessionTimeoutMs": session_ms, "rebalanceTimeoutMs": 10000, "memberId": member, "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": b""}]}))


def joined(ask, group, **how):
    first = join(ask, group, **how)
    return join(ask, group, member=first["memberId"], **how) if error(first) == "MEMBER_ID_REQUIRED" else first


def test_session_timeouts_of_classic_groups(ask, name):
    assert [error(joined(ask, f"{name}-{ms}", session_ms=ms)) for ms in (4999, 5000, 20000, 20001)] == ["INVALID_SESSION_TIMEOUT", "NONE", "NONE", "INVALID_SESSION_TIMEOUT"]


def test_classic_groups_are_bounded(ask, name):
    assert error(joined(ask, name)) == "NONE"
    assert error(joined(ask, name)) == "GROUP_MAX_SIZE_REACHED"


def heartbeat(ask, group, member, **more):
    coordinator(ask, group)
    return settled(lambda: ask("ConsumerGroupHeartbeat", 1, {
        "groupId": group, "memberId": member, "memberEpoch": 0, "rebalanceTimeoutMs": 10000, "subscribedTopicNames": ["t"], "topicPartitions": [], **more}))


def test_consumer_groups_are_bounded(ask, name):
    assert error(heartbeat(ask, name, "A" * 22)) == "NONE"
    assert error(heartbeat(ask, name, "B" * 22)) == "GROUP_MAX_SIZE_REACHED"


def test_assignors_of_consumer_groups(ask, name):
    assert error(heartbeat(ask, name, "A" * 22, serverAssignor="uniform")) == "UNSUPPORTED_ASSIGNOR"
    assert error(heartbeat(ask, name, "A" * 22, serverAssignor="range")) == "NONE"


@pytest.mark.parametrize("key,low,high", [("consumer.session.timeout.ms", 40000, 50000), ("consumer.heartbeat.interval.ms", 4000, 6000), ("consumer.assignment.interval.ms", 100, 2000)])
def test_what_a_group_may_have_otherwise_is_bounded(ask, name, key, low, high):
    assert [incremental(ask, 32, name, (key, SET, str(v))) for v in (low - 1, low, high, high + 1)] == ["INVALID_CONFIG", "NONE", "NONE", "INVALID_CONFIG"]


def test_offset_metadata_max_bytes(ask, limits, name):
    limits.create(name)

    def commit(text):
        def once():
            return ask("OffsetCommit", 8, {"groupId": name, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [{"name": name, "partitions": [
                {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": text}]}]})["topics"][0]["partitions"][0]
        return error(settled(once))
    assert [commit("x" * 10), commit("x" * 11)] == ["NONE", "OFFSET_METADATA_TOO_LARGE"]


def test_a_group_may_not_change_its_protocol(own_broker, name):
    with own_broker(group_consumer_migration_policy="disabled", group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="1").connect() as c:
        assert error(joined(c.ask, name)) == "NONE"
        refused = error(heartbeat(c.ask, name, "A" * 22))
        assert refused == "GROUP_ID_NOT_FOUND"


def test_protocols_of_groups(own_broker, name):
    with own_broker(group_coordinator_rebalance_protocols="classic", group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="1").connect() as c:
        assert error(heartbeat(c.ask, name, "A" * 22)) == "UNSUPPORTED_VERSION"
        assert error(joined(c.ask, name)) == "NONE"


# ---- transactions

def init(ask, name, timeout_ms=1000):
    coordinator(ask, name, kind=1)
    return settled(lambda: ask("InitProducerId", 4, {"transactionalId": name, "transactionTimeoutMs": timeout_ms, "producerId": -1, "producerEpoch": -1}))


def test_transaction_max_timeout_ms(ask, name):
    assert [error(init(ask, f"{name}-{ms}", ms)) for ms in (1000, 1001)] == ["NONE", "INVALID_TRANSACTION_TIMEOUT"]


def transactional(producer):
    return batch.build([b"x"], producer=producer, attributes=1 << 4)


def test_partitions_of_old_producers_are_verified_or_not(limits, ask, own_broker, name):
    def unannounced(admin):
        admin.create(name)
        begun = init(admin.connection.ask, name)
        return error(admin.produce_raw(name, transactional((begun["producerId"], begun["producerEpoch"], 0)), version=10, transactional_id=name))
    assert unannounced(limits) == "NONE"
    with own_broker(transaction_state_log_num_partitions="1").connect() as c:
        assert unannounced(Admin(c)) == "INVALID_TXN_STATE"


def test_an_unused_transactional_id_expires(own_broker, name):
    with own_broker(transactional_id_expiration_ms="1", transaction_state_log_num_partitions="1").connect() as c:
        assert error(init(c.ask, name)) == "NONE"
        until(lambda: c.ask("ListTransactions", 1, {"stateFilters": [], "producerIdFilters": [], "durationFilter": -1})["transactionStates"] == [], 60, "the id is forgotten", step_s=0.2)


# ---- connections that wait

def test_an_idle_connection_is_closed(own_broker):
    broker = own_broker(connections_max_idle_ms="300")
    with broker.connect() as c:
        assert c.ask("ApiVersions", 0)["errorCode"] == 0
        with pytest.raises((EOFError, OSError)):
            c.frame()


def diagnosed(port, state):
    """(receive buffer, send buffer, backlog) of the server's sockets on a port, by the kernel's socket diagnosis."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as s:           # NETLINK_SOCK_DIAG
        body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 1 << 6, 0, 1 << state) + b"\0" * 48     # with INET_DIAG_SKMEMINFO
        s.send(struct.pack("=IHHII", 16 + len(body), 20, 0x301, 1, 0) + body)
        found = []
        while True:
            data = s.recv(1 << 16)
            while data:
                length, kind = struct.unpack("=IH", data[:6])
                if kind == 3:
                    return found
                message, data = data[16:length], data[(length + 3) & ~3:]
                sport = struct.unpack(">H", message[4:6])[0]
                _, wqueue = struct.unpack("=II", message[56:64])
                at = 72
                while at + 4 <= len(message):
                    size, attribute = struct.unpack("=HH", message[at:at + 4])
                    if attribute == 7 and sport == port:
                        numbers = struct.unpack("=4I", message[at + 4:at + 20])
                        found.append((numbers[1], numbers[3], wqueue))
                    at += (size + 3) & ~3


def test_socket_buffers_and_backlog(own_broker):
    broker = own_broker(socket_send_buffer_bytes="30000", socket_receive_buffer_bytes="20000", socket_listen_backlog_size="17")
    with broker.connect() as c:
        c.ask("ApiVersions", 0)
        [(receive, send, _)] = diagnosed(broker.port, 1)      # ESTABLISHED; the kernel doubles what is asked for
        assert (receive, send) == (40000, 60000)
        assert [backlog for _, _, backlog in diagnosed(broker.port, 10)] == [17]       # LISTEN


def alive(broker, count):
    held, good = [], 0
    try:
        for _ in range(count):
            held.append(Connection(broker.bootstrap, timeout_s=2))
        for c in held:
            try:
                good += c.ask("ApiVersions", 0)["errorCode"] == 0
            except (OSError, EOFError):
                pass
        return good
    finally:
        for c in held:
            c.socket.close()


def test_an_address_may_have_a_limit_of_its_own(own_broker):
    broker = own_broker(max_connections_per_ip="2", max_connections_per_ip_overrides="127.0.0.1:5, 10.0.0.1:1,[::1]:7")
    with broker.connect() as c:
        until(lambda: alive(broker, 8) == 4, 20, "four beside ours")
        assert incremental(c.ask, BROKER, "", ("max.connections.per.ip.overrides", SET, "localhost:3")) == "NONE"
        until(lambda: alive(broker, 8) == 2, 20, "two beside ours")
        assert incremental(c.ask, BROKER, "", ("max.connections.per.ip.overrides", SET, "somewhere:3")) != "NONE"
        assert incremental(c.ask, BROKER, "", ("max.connections.per.ip.overrides", DELETE, None)) == "NONE"
        until(lambda: alive(broker, 8) == 4, 20, "four again")


def test_new_connections_come_no_faster_than_allowed(own_broker):
    broker = own_broker()
    with broker.connect() as c:
        assert incremental(c.ask, BROKER, "", ("max.connection.creation.rate", SET, "0")) == "NONE"
        waiting = Connection(broker.bootstrap, timeout_s=20)
        waiting.send("ApiVersions", 0)
        waiting.socket.settimeout(0.5)
        with pytest.raises(OSError):          # in the backlog, and not answered
            waiting.frame()
        waiting.socket.settimeout(20)
        assert incremental(c.ask, BROKER, "", ("max.connection.creation.rate", DELETE, None)) == "NONE"
        assert waiting.receive("ApiVersions", 0)[1]["errorCode"] == 0
        waiting.socket.close()


# ---- directories and files

def test_new_partitions_avoid_cordoned_directories(own_broker, tmp_path, name):
    dirs = [tmp_path / "one", tmp_path / "two"]
    broker = own_broker(start=False, node_id="1", log_dirs=",".join(map(str, dirs)), cordoned_log_dirs=str(dirs[0]))
    with broker.start().connect() as c:
        admin = Admin(c)

        def homes(topic):
            return sorted({d.name for d in dirs for _ in d.glob(f"{topic}-[0-9]*")})
        admin.create(name + "-a", partitions=6)
        assert homes(name + "-a") == ["two"]
        assert incremental(c.ask, BROKER, "1", ("cordoned.log.dirs", SET, str(tmp_path / "three"))) != "NONE"
        assert incremental(c.ask, BROKER, "1", ("cordoned.log.dirs", SET, "*")) == "NONE"
        assert error(admin.create(name + "-b", check=False)) == "INVALID_REPLICATION_FACTOR"
        grown = c.ask("CreatePartitions", 3, {"topics": [{"name": name + "-a", "count": 7, "assignments": None}], "timeoutMs": 5000})["results"][0]
        assert error(grown) == "INVALID_REPLICATION_FACTOR"
        assert admin.produce(name + "-a", "x") == 0           # what is there goes on
        assert incremental(c.ask, BROKER, "1", ("cordoned.log.dirs", SET, "")) == "NONE"
        admin.create(name + "-c", partitions=6)
        assert "one" in homes(name + "-c")    # which now has the fewest


@pytest.mark.parametrize("file,key", [("recovery-point-offset-checkpoint", "log.flush.offset.checkpoint.interval.ms"),
                                      ("log-start-offset-checkpoint", "log.flush.start.offset.checkpoint.interval.ms"),
                                      ("replication-offset-checkpoint", "replica.high.watermark.checkpoint.interval.ms")])
def test_checkpoints_are_written_as_often_as_asked(own_broker, file, key):
    """Times of the files, not of the test: between two of a few writes lie less than the 5 s that it would be otherwise."""
    broker = own_broker(**{key.replace(".", "_"): "1"})
    times = set()

    def written():
        if (broker.data / file).exists():
            times.add((broker.data / file).stat().st_mtime)
        return len(times) >= 3
    until(written, 60, "three writes", step_s=0.1)
    assert min(b - a for a, b in zip(sorted(times), sorted(times)[1:])) < 4


def test_what_is_appended_by_mapping(own_broker, name):
    """With no room for mappings, none is made; with room, the active segment of a busy partition is mapped."""
    from pathlib import Path

    def mapped(**settings):
        broker = own_broker(log_append_io="mmap", **settings)
        with broker.connect() as c:
            admin = Admin(c)
            admin.create(name, compression_type="producer")
            for _ in range(20):
                admin.produce(name, "x" * 1000)
            return sum(name in line and ".log" in line for line in Path(f"/proc/{broker.process.pid}/maps").read_text().splitlines())
    assert mapped() >= 1
    assert mapped(log_append_mapped_bytes_max="0") == 0


# ---- starting

def refused(own_broker, **settings):
    import subprocess
    broker = own_broker(start=False, **settings)
    return subprocess.run(broker.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)


def test_unknown_keys(own_broker, tmp_path):
    import subprocess
    from harness import BINARY

    def check(policy):
        (tmp_path / "server.properties").write_text(f"ottla.config.unknown.keys={policy}\nno.such.key=1\n")
        return subprocess.run([BINARY, "server", "--check", "--data", tmp_path / "data", "--config", tmp_path / "server.properties"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120)
    strict, lax = check("error"), check("warn")
    assert strict.returncode != 0 and lax.returncode == 0 and "no.such.key" in strict.stdout and "no.such.key" in lax.stdout


def test_a_listener_has_the_protocol_that_the_map_gives_it(own_broker):
    import harness
    port = harness.free_ports(1)[0]
    for map_, words in (("PLAINTEXT:PLAINTEXT", "No security protocol defined for listener INNER"), ("INNER:SSL", "SSL is not served yet"), ("INNER:NONE", "is not LISTENER:")):
        done = refused(own_broker, listeners=f"INNER://127.0.0.1:{port}", listener_security_protocol_map=map_)
        assert done.returncode != 0 and words in done.stdout
    broker = own_broker(start=False, listener_security_protocol_map="INNER:PLAINTEXT,OTHER:SSL")
    broker.settings["listeners"] = f"INNER://127.0.0.1:{broker.port}"
    with broker.start().connect() as c:
        assert c.ask("ApiVersions", 0)["errorCode"] == 0


def test_listeners_of_controllers_are_left_out(own_broker):
    """As a server.properties of Kafka names them: nobody listens there, and whatever protocol they have stops no start."""
    import harness
    port, spare = harness.free_ports(2)
    broker = own_broker(start=False, controller_listener_names="CONTROLLER,OLDER", listener_security_protocol_map="PLAINTEXT:PLAINTEXT,controller:SSL,OLDER:SASL_SSL")
    broker.settings["listeners"] = f"CONTROLLER://127.0.0.1:{port},PLAINTEXT://127.0.0.1:{broker.port},OLDER://127.0.0.1:{spare}"
    with broker.start().connect() as c:
        (found,) = c.ask("DescribeCluster", 1, {"endpointType": 1})["brokers"]
        assert found["port"] == broker.port
    for closed in (port, spare):
        with socket.socket() as s:
            assert s.connect_ex(("127.0.0.1", closed)) != 0
    assert broker.log().count("controller_listener_left_out") == 2
    broker.stop()
    done = refused(own_broker, controller_listener_names="CONTROLLER", listeners=f"CONTROLLER://127.0.0.1:{port}")
    assert done.returncode != 0 and "controller.listener.names" in done.stdout


def test_every_loopback_address_is_unexposed(own_broker):
    import harness
    port, grpc, everywhere = harness.free_ports(3)
    broker = own_broker(listeners=f"PLAINTEXT://127.0.0.9:{port}", grpc_listeners=f"127.0.0.9:{grpc}", start=False).start(wait=False)
    until(lambda: http(broker.rest + "/readyz")[0] == 200 if "ready version" in broker.log() else False, 30, lambda: broker.log())
    broker.stop()
    assert "exposed" not in broker.log()
    done = refused(own_broker, listeners=f"PLAINTEXT://0.0.0.0:{everywhere}", coordinator_voters="2@127.0.0.1:1", node_id="1", rest_listeners="nowhere")
    assert "exposed" in done.stdout


def test_the_classic_protocol_cannot_be_switched_off(own_broker):
    done = refused(own_broker, group_coordinator_rebalance_protocols="consumer")
    assert done.returncode != 0 and "classic" in done.stdout


# ---- what else changes with time

def test_a_segments_time_is_spread(own_broker, name):
    """An hour each, less up to an hour by chance: of many records ten minutes apart more segments come than without."""
    def segments(**more):
        broker = own_broker(ottla_durability="replicated", **more)
        with broker.connect() as c:
            admin = Admin(c)
            admin.create(name, segment_ms="3600000", message_timestamp_before_max_ms=str(2**63 - 1))
            first = int(time.time() * 1000) - 200 * 600_000
            for i in range(140):
                admin.produce(name, "x", timestamps=[first + i * 600_000], acks=1)
            return len(list(broker.partition(name).glob("*.log")))
    plain = segments()
    assert plain == 20 and segments(log_roll_jitter_ms="3600000") > plain + 3


@pytest.mark.parametrize("timeout_ms,flushed", [("0", "no"), ("8000", "yes")])
def test_how_long_a_stop_may_flush(own_broker, name, timeout_ms, flushed):
    broker = own_broker(ottla_durability="replicated", ottla_shutdown_flush_timeout_ms=timeout_ms)
    with broker.connect() as c:
        Admin(c).create(name)
        for _ in range(20):
            Admin(c).produce(name, "x" * 50_000)
    broker.stop()
    assert f"flushed={flushed}" in broker.log()
    with broker.start().connect() as c:
        assert len(Admin(c).records(name)) == 20


def committed(ask, group, topic):
    answer = settled(lambda: ask("OffsetFetch", 8, {"groups": [{"groupId": group, "topics": [{"name": topic, "partitionIndexes": [0]}]}]})["groups"][0])
    return answer["topics"][0]["partitions"][0]["committedOffset"]


@pytest.mark.long
@pytest.mark.timeout(200)
def test_offsets_expire(own_broker, name):
    """A minute is the least; they are looked for each 100 ms, not each ten minutes."""
    broker = own_broker(offsets_retention_minutes="1", offsets_retention_check_interval_ms="100", offsets_topic_num_partitions="1")
    with broker.connect() as c:
        Admin(c).create(name)
        coordinator(c.ask, name)
        settled(lambda: c.ask("OffsetCommit", 8, {"groupId": name, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [{"name": name, "partitions": [
            {"partitionIndex": 0, "committedOffset": 7}]}]})["topics"][0]["partitions"][0])
        assert committed(c.ask, name, name) == 7
        until(lambda: committed(c.ask, name, name) == -1, 120, "the offset is gone", step_s=1)


def test_the_address_for_grpc_clients(own_broker):
    grpc = pytest.importorskip("grpc")
    from grpc_stubs import pb, pb_grpc
    broker = own_broker(grpc_advertised_listeners="logs.example:4321")
    with grpc.insecure_channel(f"127.0.0.1:{broker.more_ports[1]}") as channel:
        answer = pb_grpc.LogStub(channel).Metadata(pb.MetadataRequest(topics=[]), timeout=20)
    assert [b.address for b in answer.brokers] == ["logs.example:4321"]


@pytest.mark.parametrize("interval_ms,epoch", [("0", 1), ("15000", 0)])
def test_the_pause_between_two_assignments(own_broker, name, interval_ms, epoch):
    """The second member changes the group at once; what it is given comes when the pause is over, and until then it is at the epoch of the first assignment."""
    broker = own_broker(group_consumer_assignment_interval_ms=interval_ms, group_consumer_max_assignment_interval_ms="15000", offsets_topic_num_partitions="1")
    with broker.connect() as c:
        Admin(c).create(name, partitions=2)
        first, second = (heartbeat(c.ask, name, member * 22, subscribedTopicNames=[name]) for member in "AB")
        assert (error(first), error(second)) == ("NONE", "NONE")
        assert second["memberEpoch"] - first["memberEpoch"] == epoch


def test_rest_max_request_bytes(own_broker):
    broker = own_broker(rest_max_request_bytes="2000")
    body = {"name": "x" * 3000}
    assert http(broker.rest + "/v1/topics", "POST", json.dumps(body).encode(), {"Content-Type": "application/json"})[0] == 413
    assert http(broker.rest + "/v1/topics", "POST", json.dumps({"name": "small"}).encode(), {"Content-Type": "application/json"})[0] == 201


def test_lag_series(own_broker, name):
    """Looked at each 100 ms, not each 10 s; and of three groups two are summed."""
    broker = own_broker(metrics_group_lag_interval_ms="100", metrics_group_lag_series_max="1", offsets_topic_num_partitions="1")
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name)
        for _ in range(5):
            admin.produce(name, "x")
        coordinator(c.ask, name)
        for i in range(3):
            settled(lambda: c.ask("OffsetCommit", 8, {"groupId": f"{name}-{i}", "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [{"name": name, "partitions": [
                {"partitionIndex": 0, "committedOffset": 2}]}]})["topics"][0]["partitions"][0])

        def lags():
            return [float(line.split()[-1]) for line in http(broker.rest + "/metrics")[2].decode().splitlines() if line.startswith("ottla_group_lag_records{")]
        until(lambda: sorted(lags()) == [3, 6], 20, lags)
