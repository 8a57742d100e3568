"""Kafka Connect, distributed, on top: a file source with exactly-once support and a file sink, two workers, through kills of a worker and of the server.

The two connectors are our own (tests/interop/java/connect); all else is Kafka's."""
import json
import subprocess

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

import harness
from admin import Admin, error
from harness import TOP, free_ports, until
from java import JARS, QUICK, need_java

WORKER = """bootstrap.servers={bootstrap}
group.id={name}
listeners=http://127.0.0.1:{port}
config.storage.topic={name}-configs
offset.storage.topic={name}-offsets
status.storage.topic={name}-status
config.storage.replication.factor={replicas}
offset.storage.replication.factor={replicas}
status.storage.replication.factor={replicas}
offset.storage.partitions=5
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
exactly.once.source.support=enabled
offset.flush.interval.ms=500
session.timeout.ms=10000
heartbeat.interval.ms=1000
scheduled.rebalance.max.delay.ms=2000
plugin.path={plugins}
plugin.discovery=only_scan
"""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """The connectors, compiled, as a folder of classes that Connect finds."""
    need_java()
    if not list(JARS.glob("connect-runtime-*.jar")):
        pytest.skip("no connect-runtime in build/jars (./dev setup)")
    folder = tmp_path_factory.mktemp("plugins")
    sources = sorted((TOP / "tests" / "interop" / "java" / "connect").glob("*.java"))
    subprocess.run(["javac", "-nowarn", "-cp", f"{JARS}/*", "-d", str(folder / "lines"), *map(str, sources)], check=True, timeout=120)
    return folder


class Worker:
    def __init__(self, broker, name, directory, number, plugins, replicas=1):
        self.port = free_ports(1)[0]
        self.log_path = directory / f"worker-{number}.log"
        config = directory / f"worker-{number}.properties"
        config.write_text(WORKER.format(bootstrap=broker.bootstrap, name=name, port=self.port, plugins=plugins, replicas=replicas))
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(["java", *QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{JARS}/*", "org.apache.kafka.connect.cli.ConnectDistributed",
                                             str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def log(self):
        return self.log_path.read_text(errors="replace")[-3000:]

    def ask(self, path, body=None):
        """The answer, or None when there was none or no good one."""
        try:
            status, _, answer = harness.http(f"http://127.0.0.1:{self.port}{path}", "GET" if body is None else "POST", None if body is None else json.dumps(body).encode(),
                                             {"Content-Type": "application/json"}, timeout_s=30)
        except OSError:
            assert self.process.poll() is None, self.log()
            return None
        return json.loads(answer) if 200 <= status < 300 and answer else None

    def stop(self, kill=False):
        self.process.kill() if kill else self.process.terminate()
        self.process.wait(240)


def running(worker, connector, tasks):
    status = worker.ask(f"/connectors/{connector}/status")
    return status is not None and status["connector"]["state"] == "RUNNING" and [t["state"] for t in status["tasks"]] == ["RUNNING"] * tasks


def started_again(worker, connector):
    """A source that begins while the worker that led goes asks that one, is refused, and stays down until somebody starts it again: so says Connect. Never true."""
    status = worker.ask(f"/connectors/{connector}/status")
    if status is not None and any(t["state"] == "FAILED" and "Connection refused" in t["trace"] for t in status["tasks"]):
        worker.ask(f"/connectors/{connector}/restart?includeTasks=true&onlyFailed=true", {})
    return False


def committed_values(broker, topic, partitions):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "isolation.level": "read_committed", "enable.auto.commit": False,
                         "enable.partition.eof": True, "log_level": 2})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    ended, values = set(), []
    while len(ended) < partitions:
        message = consumer.poll(20)
        assert message is not None, "the topic does not come to its end"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
        else:
            values.append(message.value().decode())
    consumer.close()
    return values


class Three:
    """Three brokers for whom the test below has one: the one that dies is whoever coordinates."""

    def __init__(self, cluster):
        self.cluster, self.dead = cluster.start(), None
        for i in cluster.nodes:
            cluster.wait_state(i, "running")
        self.bootstrap = cluster.bootstrap()

    @property
    def rest(self):
        return self.cluster.living()[0].rest

    def connect(self):
        return self.cluster.living()[0].connect()

    def kill(self):
        self.dead = self.cluster.controller()
        self.cluster.kill(self.dead)

    def start(self):
        self.cluster.start_one(self.dead)

    def stop(self):
        self.cluster.stop()


def compacted(broker, topic):
    with broker.connect() as connection:
        admin = Admin(connection)
        return admin.describe_configs(2, topic, ["cleanup.policy"])["configs"][0]["value"], len(admin.describe(topic)["partitions"][0]["replicaNodes"])


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.timeout(600)
def test_lines_go_from_file_to_file_through_kills(own_broker, name, tmp_path, plugins):
    through_kills(own_broker(group_initial_rebalance_delay_ms=100), 1, name, tmp_path, plugins)


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.timeout(600)
def test_connect_over_three_brokers(make, name, tmp_path, plugins):
    cluster = make(group_initial_rebalance_delay_ms=100, broker_session_timeout_ms=9000, broker_heartbeat_interval_ms=1000, coordinator_election_timeout_ms=1000)     # beside two JVMs
    with cluster:
        through_kills(Three(cluster), 3, name, tmp_path, plugins)


def through_kills(broker, replicas, name, tmp_path, plugins):
    with broker.connect() as connection:
        assert error(Admin(connection).create(name, partitions=2, replication=replicas, check=False)) == "NONE"
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("")
    target.write_text("")
    lines = []

    def write(count):
        new = [f"line {len(lines) + i}" for i in range(count)]
        lines.extend(new)
        with open(source, "a") as out:
            out.write("".join(line + "\n" for line in new))

    def arrived():
        return set(target.read_text().splitlines()) >= set(lines)

    workers = [Worker(broker, name, tmp_path, number, plugins, replicas) for number in range(2)]
    try:
        until(lambda: all(w.ask("/connectors") == [] for w in workers), 120, lambda: workers[0].log(), step_s=0.3)
        for body in ({"name": "lines-in", "config": {"connector.class": "LineSource", "tasks.max": "1", "file": str(source), "topic": name}},
                     {"name": "lines-out", "config": {"connector.class": "LineSink", "tasks.max": "2", "file": str(target), "topics": name, "consumer.override.isolation.level": "read_committed"}}):
            until(lambda: workers[0].ask("/connectors", body) is not None or workers[0].ask(f"/connectors/{body['name']}") is not None, 60, workers[0].log, step_s=0.5)
        until(lambda: running(workers[0], "lines-in", 1) and running(workers[0], "lines-out", 2), 90, workers[0].log, step_s=0.3)
        write(500)
        until(arrived, 90, workers[0].log, step_s=0.2)
        assert [compacted(broker, f"{name}-{what}") for what in ("configs", "offsets", "status")] == [("compact", replicas)] * 3
        write(500)
        workers[1].stop(kill=True)
        until(arrived, 90, workers[0].log, step_s=0.2)
        write(500)
        broker.kill()
        broker.start()
        write(500)
        until(arrived, 120, workers[0].log, step_s=0.2)
        workers[1] = Worker(broker, name, tmp_path, 2, plugins, replicas)
        until(lambda: workers[1].ask("/connectors") is not None, 90, workers[1].log, step_s=0.3)
        until(lambda: running(workers[1], "lines-in", 1) and running(workers[1], "lines-out", 2), 90, workers[1].log, step_s=0.3)
        workers[0].stop()
        write(500)
        until(lambda: arrived() or started_again(workers[1], "lines-in"), 120, workers[1].log, step_s=0.5)
        assert sorted(committed_values(broker, name, 2)) == sorted(lines)      # each exactly once
        groups = {row["group"]: row for row in json.loads(harness.http(f"{broker.rest}/v1/groups")[2])["items"]}
        assert groups[name]["protocol_type"] == "connect" and groups["connect-lines-out"]["protocol_type"] == "consumer"
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.stop(kill=True)
    broker.stop()
