"""The part of ./dev bench with three brokers: a cluster of ottla and one of Kafka 4.4 in turn, both with the settings that they come with, the same load, replication 3 and min.insync.replicas 2.

CPU seconds and memory are of the three processes together unless a row says "each". "acknowledged again" is the time from the signal to the next record that acks=all acknowledges, of a
partition whose leader got the signal; the client asks the living brokers who leads. A step that fails is told and has no rows; the next one has a cluster of its own.
"""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import batch
import cluster
import harness
import java
import page_cache
from apache_kafka import Kafka
from harness import until
from wire import Connection

MANY = 4000
IDS = (1, 2, 3)
HEAP = ("-Xms512m", "-Xmx512m")
KAFKA_PROPERTIES = """process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
"""


class KafkaNode(Kafka):
    """One of three: a broker that is a controller too."""

    def __init__(self, directory, node_id, port, controller, voters):
        java.need_java()
        self.directory, self.heap, self.process, self.id = Path(directory), list(HEAP), None, node_id
        self.data, self.log_path, self.config = self.directory / "data", self.directory / "kafka.log", self.directory / "server.properties"
        self.port, self.bootstrap = port, f"127.0.0.1:{port}"
        self.directory.mkdir(parents=True)
        self.config.write_text(KAFKA_PROPERTIES.format(id=node_id, voters=voters, port=port, controller=controller, data=self.data))

    def start(self, wait=True):
        words = java.command("kafka.Kafka", self.config, log="warn", heap=[*self.heap, "-XX:+UseG1GC"])
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        if wait:
            until(self.ready, 120, lambda: f"Kafka ready: {self.log()[-2000:]}", 0.005)
        return self


class Three:
    """What both sides have in common: self.nodes, and questions that any of their brokers answers."""
    nodes: dict

    def start(self):
        for node in self.nodes.values():
            node.start(wait=False)
        until(lambda: all(node.ready() for node in self.nodes.values()), 180, "three brokers ready", 0.01)
        until(lambda: all(self.brokers(i) == set(IDS) for i in IDS) and self.controller() in IDS, 60, "three brokers that know each other", 0.05)

    def close(self):
        for node in self.nodes.values():
            if node.process is not None:
                node.process.send_signal(signal.SIGCONT)
            node.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def ask(self, i, api, version, body=None, timeout_s=60):
        with self.nodes[i].connect(timeout_s=timeout_s) as c:
            return c.ask(api, version, body)

    def brokers(self, i):
        return {b["nodeId"] for b in self.ask(i, "Metadata", 12, {"topics": [], "allowAutoTopicCreation": False})["brokers"]}

    def controller(self, of=1):
        answer = self.ask(of, "DescribeQuorum", 2, {"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]})
        return answer["topics"][0]["partitions"][0]["leaderId"] if answer["errorCode"] == 0 else -1

    def create(self, topic, leader, partitions=1):
        """Replicas everywhere, the named broker first."""
        replicas = [leader, *(i for i in IDS if i != leader)]
        body = {"topics": [{"name": topic, "numPartitions": -1, "replicationFactor": -1, "configs": [{"name": "min.insync.replicas", "value": "2"}],
                            "assignments": [{"partitionIndex": p, "brokerIds": replicas} for p in range(partitions)]}], "timeoutMs": 60000}
        answer = self.ask(leader, "CreateTopics", 7, body)["topics"][0]
        assert answer["errorCode"] == 0, answer
        self.wait_in_sync(topic)

    def parts(self, topic, of):
        answer = self.ask(of, "Metadata", 12, {"topics": [{"name": topic}], "allowAutoTopicCreation": False})["topics"][0]
        return answer["partitions"] if answer["errorCode"] == 0 else []

    def wait_in_sync(self, topic, of=None, bound_s=120, step_s=0.02):
        """All replicas in sync and the first one leading, if need be by asking for it; then every leader takes a question."""
        def look():
            parts = self.parts(topic, of or 1)
            return parts and all(len(p["isrNodes"]) == 3 and p["leaderId"] >= 0 for p in parts)
        until(look, bound_s, lambda: f"{topic} in sync: {self.parts(topic, of or 1)[:4]}", step_s)

    def lead_home(self, topic):
        """The first replica of each partition leads."""
        count = len(self.parts(topic, 1))

        def home():
            self.ask(self.controller(), "ElectLeaders", 2, {"electionType": 0, "topicPartitions": [{"topic": topic, "partitions": list(range(count))}], "timeoutMs": 10000})
            rows = [self.parts(topic, i) for i in IDS]
            return all(rows) and all(p["leaderId"] == p["replicaNodes"][0] for parts in rows for p in parts)
        until(home, 60, f"the preferred leaders of {topic}", 0.2)

    def pids(self):
        return [node.process.pid for node in self.nodes.values()]


class ThreeOttla(Three):
    name = "ottla"
    kills = 3                          # of each kind: they take a second

    def __init__(self, directory):
        self.directory = Path(directory)
        self.cluster = cluster.Cluster(self.directory, 3)
        self.cluster.settings = {}     # those of the tests are quicker than what a server comes with
        self.nodes = self.cluster.nodes
        for node in self.nodes.values():
            self.cluster.configure(node)


class ThreeKafka(Three):
    name = "kafka"
    kills = 1                          # they take half a minute

    def __init__(self, directory):
        self.directory = Path(directory)
        ports = harness.free_ports(6)
        voters = ",".join(f"{i}@127.0.0.1:{ports[i + 2]}" for i in IDS)
        self.nodes = {i: KafkaNode(self.directory / f"node-{i}", i, ports[i - 1], ports[i + 2], voters) for i in IDS}
        formats = [subprocess.Popen(java.command("kafka.tools.StorageTool", "format", "-t", "q1Sh-9ISIaOQhd3OGwVXJg", "-c", node.config), stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL) for node in self.nodes.values()]
        assert [f.wait(120) for f in formats] == [0, 0, 0], "formatting"


# ---- load

def cpu_s(pids):
    total = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(words[11]) + int(words[12])
    return total / os.sysconf("SC_CLK_TCK")


def rss_mib(pid):
    line = next(row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def loader_words(side, leader, mode, topic, partitions, gigabytes, records, acks, last):
    program = next((harness.TOP / "build" / "release").rglob("bench_loader"))
    return [str(w) for w in (program, mode, "127.0.0.1", side.nodes[leader].port, topic, partitions, int(gigabytes * 1e9), records, 1000, acks, last)]


def load(side, topics, gigabytes, records, in_flight, acks=-1):
    """All at once: {leader: its topic}, each with a loader of its own and an equal part. (CPU seconds of the brokers, bytes, seconds)."""
    pids = side.pids()
    if gigabytes >= page_cache.WORTH_GB:
        page_cache.fill()
    begin_s, begin = cpu_s(pids), time.monotonic()
    loaders = [subprocess.Popen(loader_words(side, leader, "produce", topic, 2, gigabytes / len(topics), records, acks, in_flight), stdout=subprocess.PIPE)
               for leader, topic in topics.items()]
    try:
        said = [json.loads(one.communicate(timeout=180)[0] or "{}") for one in loaders]
    finally:
        for one in loaders:
            one.kill()
            one.wait(30)
    seconds = time.monotonic() - begin
    assert all(said), "a loader ended with an error"
    return cpu_s(pids) - begin_s, sum(one["plain_bytes"] for one in said), seconds


# gigabytes, records a batch, in flight
REPEATS = 3                            # of a load, on brokers that go on running: a median
LOADS = {"1 MB batches of 1 KB": (1.5, 1000, 4), "16 KB batches of 1 KB": (0.6, 16, 16)}


def throughput(side):
    out = {}
    for name, (gigabytes, records, in_flight) in LOADS.items():
        topics = {i: f"load-{records}-{i}" for i in IDS}
        for leader, topic in topics.items():
            side.create(topic, leader, 2)
        load(side, topics, gigabytes / 3, records, in_flight)
        done = [load(side, topics, gigabytes, records, in_flight) for _ in range(REPEATS)]
        out[f"three: acks=all, {name}"] = (statistics.median(cpu / (sent / 1e9) for cpu, sent, _ in done), "CPU s/GB")
        out[f"three: acks=all, {name}, rate"] = (statistics.median(sent / 1e6 / seconds for _, sent, seconds in done), "MB/s")
        print(f"three, {side.name}: {name}: " + ", ".join(f"{cpu / (sent / 1e9):.2f}" for cpu, sent, _ in done), file=sys.stderr, flush=True)
    return out


PACE = (400, 16)                       # requests a second, records of 1 KB: 6.4 MB/s


def latency(side):
    rate, records = PACE
    side.create("paced", 1, 2)
    for seconds in (2, 8):
        done = subprocess.run(loader_words(side, 1, "pace", "paced", 2, seconds * rate * records * 1000 / 1e9, records, -1, rate), stdout=subprocess.PIPE, check=True, timeout=60)
    said = json.loads(done.stdout)
    return {f"three: acks=all latency {p}": (said[f"{p}_ms"], "ms") for p in ("p50", "p99")}


# ---- idle, and many partitions

def idle(side, what=""):
    begin = cpu_s(side.pids())
    time.sleep(5)  # poll: idleness is what is measured
    return {f"three: idle CPU{what}": ((cpu_s(side.pids()) - begin) / 5 * 1000, "ms/s"),
            f"three: resident each{what}": (statistics.mean(rss_mib(pid) for pid in side.pids()), "MiB")}


def many(side):
    """Until each leader answers for all that it leads."""
    body = {"topics": [{"name": "many", "numPartitions": MANY, "replicationFactor": 3}], "timeoutMs": 60000}
    controller = side.controller()
    begin = time.monotonic()
    answer = side.ask(controller, "CreateTopics", 7, body, 120)["topics"][0]
    assert answer["errorCode"] == 0, answer
    until(lambda: all(p["leaderId"] >= 0 for p in side.parts("many", controller)) and len(side.parts("many", controller)) == MANY, 120, "leaders", 0.01)
    led = {}
    for p in side.parts("many", controller):
        led.setdefault(p["leaderId"], []).append(p["partitionIndex"])

    def answers(leader):
        asked = {"replicaId": -1, "topics": [{"name": "many", "partitions": [{"partitionIndex": p, "timestamp": -1} for p in led[leader]]}]}
        return all(p["errorCode"] == 0 for p in side.ask(leader, "ListOffsets", 7, asked)["topics"][0]["partitions"])
    for leader in led:
        until(lambda: answers(leader), 120, f"broker {leader} to lead", 0.01)
    return {f"three: create {MANY} partitions": (time.monotonic() - begin, "s"), **idle(side, f", {MANY} partitions")}


# ---- what the coordinator publishes

def change_config(connection, topic, number):
    answer = connection.ask("IncrementalAlterConfigs", 1, {"validateOnly": False, "resources": [{"resourceType": 2, "resourceName": topic, "configs": [
        {"name": "retention.ms", "configOperation": 0, "value": str(1000000000 + number)}]}]})
    assert answer["responses"][0]["errorCode"] == 0, answer


def publications(side):
    """Changes that the coordinator publishes, each acknowledged: one after the other, and of sixteen clients at once."""
    out, controller, seconds = {}, side.controller(), 3
    for clients, what in ((1, "one after the other"), (16, "16 at once")):
        for i in range(clients):
            side.create(f"changed-{clients}-{i}", 1)
        counts, errors, ends = [0] * clients, [], time.monotonic() + seconds

        def run(i):
            try:
                with side.nodes[controller].connect(timeout_s=30) as c:
                    while time.monotonic() < ends:
                        change_config(c, f"changed-{clients}-{i}", counts[i])
                        counts[i] += 1
            except Exception as e:  # told below
                errors.append(e)
        threads = [threading.Thread(target=run, args=(i,)) for i in range(clients)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        assert not errors, errors[0]
        out[f"three: changes published, {what}, rate"] = (sum(counts) / seconds, "1/s")
    return out


# ---- deaths

class Prober:
    """Asks the living who leads and writes there, until a record is acknowledged."""

    def __init__(self, side, topic, dead):
        self.side, self.topic, self.living = side, topic, [i for i in IDS if i != dead]
        self.open = {}
        for i in self.living:
            self.connection(i)

    def connection(self, i):
        if i not in self.open:
            self.open[i] = Connection(self.side.nodes[i].bootstrap, 30)
        return self.open[i]

    def leader(self, through):
        rows = self.connection(through).ask("Metadata", 12, {"topics": [{"name": self.topic}], "allowAutoTopicCreation": False})["topics"][0]["partitions"]
        return rows[0]["leaderId"] if rows else -1

    def written(self, leader):
        part = self.connection(leader).ask("Produce", 9, {"acks": -1, "timeoutMs": 20000, "topicData": [{"name": self.topic, "partitionData": [
            {"index": 0, "records": batch.build([b"probe"])}]}]})["responses"][0]["partitionResponses"][0]
        return part["errorCode"] == 0

    def go(self, bound_s=60):
        ends, turn = time.monotonic() + bound_s, 0
        while time.monotonic() < ends:
            turn += 1
            through = self.living[turn % len(self.living)]
            try:
                leader = self.leader(through)
                if leader in self.living and self.written(leader):
                    return
            except (OSError, EOFError):
                for c in self.open.values():
                    c.socket.close()
                self.open = {}
            time.sleep(0.003)  # poll
        raise AssertionError(f"nothing acknowledged within {bound_s} s")

    def close(self):
        for c in self.open.values():
            c.socket.close()


def strike(side, victim, how):
    """Seconds from the signal to the next acknowledged record of a partition that the victim led; then all is as before."""
    topic = f"struck-{victim}"
    if not side.parts(topic, victim):
        side.create(topic, victim)
    side.lead_home(topic)
    prober = Prober(side, topic, victim)
    try:
        assert prober.leader(prober.living[0]) == victim, f"broker {victim} does not lead {topic}: {side.parts(topic, prober.living[0])}"
        process = side.nodes[victim].process
        process.send_signal(how)
        begin = time.monotonic()
        prober.go()
        took = time.monotonic() - begin
    finally:
        prober.close()
    if how == signal.SIGKILL:
        side.nodes[victim].kill()
        side.nodes[victim].start(wait=False)
    else:
        process.send_signal(signal.SIGCONT)
    other = prober.living[0]
    until(lambda: side.brokers(other) == set(IDS), 90, f"broker {victim} back", 0.05)
    side.wait_in_sync(topic, other)
    until(side.nodes[victim].ready, 60, f"broker {victim} ready", 0.05)
    return took


def follower_of(side, controller):
    return next(i for i in IDS if i != controller)


def killed(side):
    took = [strike(side, follower_of(side, side.controller()), signal.SIGKILL) for _ in range(side.kills)]
    return {"three: leader killed, acknowledged again": (statistics.median(took), "s")}


def killed_coordinator(side):
    took = []
    for _ in range(side.kills):
        victim = until(lambda: max(side.controller(i) for i in IDS) if len({side.controller(i) for i in IDS}) == 1 else 0, 60, "a coordinator", 0.1)
        took.append(strike(side, victim, signal.SIGKILL))
    return {"three: leader and coordinator killed, acknowledged again": (statistics.median(took), "s")}


def paused(side):
    return {"three: leader paused, acknowledged again": (strike(side, follower_of(side, side.controller()), signal.SIGSTOP), "s")}


def behind(side):
    """A replica is down while a gigabyte is written, and comes back: until it is in sync again, counted from the start of its process."""
    controller = side.controller()
    victim = follower_of(side, controller)
    side.create("behind", controller, 2)
    side.nodes[victim].kill()
    until(lambda: victim not in side.brokers(controller), 60, "a broker taken for gone", 0.05)
    pids = [side.nodes[i].process.pid for i in IDS if i != victim]
    page_cache.fill()
    subprocess.run(loader_words(side, controller, "produce", "behind", 2, 1.0, 1000, 1, 4), stdout=subprocess.DEVNULL, check=True, timeout=180)
    before, begin = cpu_s(pids), time.monotonic()
    side.nodes[victim].start(wait=False)
    side.wait_in_sync("behind", controller, 180, 0.01)
    took = time.monotonic() - begin
    return {"three: in sync again, 1 GB behind": (took, "s"), "three: in sync again, CPU": (cpu_s([*pids, side.nodes[victim].process.pid]) - before, "CPU s/GB")}


STEPS = (idle, throughput, latency, killed, killed_coordinator, paused, behind, publications, many)
ROUND_S = 330                          # what has not begun by then is left out: a round must end


def one_round(side_name, root):
    """All rows of one side; a step that fails is told, and the rest goes on with a fresh cluster."""
    make = {"ottla": ThreeOttla, "kafka": ThreeKafka}[side_name]
    out, side, ends = {}, None, time.monotonic() + ROUND_S
    for step in STEPS:
        if time.monotonic() > ends:
            print(f"three, {side_name}: {step.__name__} left out, the round is {ROUND_S} s old", file=sys.stderr, flush=True)
            continue
        try:
            if side is None:
                os.sync()              # what the last one left to write would be charged to this one
                side = make(tempfile.mkdtemp(dir=root))
                side.start()
            begin = time.monotonic()
            out.update(step(side))
            print(f"three, {side_name}: {step.__name__} {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        except Exception as e:  # whatever it is: the other rows are wanted all the same
            print(f"three, {side_name}: {step.__name__} failed: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
            if side is not None:
                side.close()
            side = None
    if side is not None:
        side.close()
    return out
