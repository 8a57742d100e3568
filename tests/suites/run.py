#!/usr/bin/env python3
"""Suites that other projects wrote, against one broker of this tree, or several: ./dev test --suites DIR [SUITE...] [--brokers 3]

DIR holds a folder per suite with a program `run`, which reads BROKERS, WORK and LIMIT and prints a line 'PASS NAME', 'FAIL NAME' or 'SKIP NAME' per test.
What has to pass is in tests/suites/SUITE.txt, one test a line:

    pass NAME
    flaky NAME[: REASON]       does not pass in each run, against Kafka neither: told, not counted
    open NAME: REASON          passes with Kafka and not here yet

Tests that do not pass with Kafka either are not listed. SUITE.consumer.txt is the list for --protocol consumer (the group protocol of KIP-848 in suites that can choose), SUITE.brokers-3.txt the one for --brokers 3. A test of the list that did not pass is a failure; one
that passed without being listed is told, and --update writes it down. --docs writes docs/compatibility.md from the lists; nothing is run for it.
"""
import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(TOP / "tests" / "integration"))
LIMITS_S = {"librdkafka": 5400, "kafka-cli": 2400}
LIMIT_S = 1800
SETTINGS = {"node.id": "1", "num.partitions": "4", "offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1", "group.initial.rebalance.delay.ms": "0"}
SETTINGS_OF_SEVERAL = {**SETTINGS, "default.replication.factor": "3", "min.insync.replicas": "2", "offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
                       "transaction.state.log.min.isr": "2"}
ONE_ADDRESS = {"kafka-python"}             # suites that take one address, of whichever broker
WORDS = ("pass", "flaky", "open")


def load(path):
    """{test: (word, reason)} of a list."""
    rows = {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        name, _, reason = rest.partition(": ") if word != "pass" else (rest, "", "")
        if word not in WORDS or not name or name in rows or (word == "open" and not reason):
            raise SystemExit(f"{path.relative_to(TOP)}:{number}: not a row: {line}")
        rows[name] = (word, reason)
    return rows


def save(path, rows):
    head = "".join(line + "\n" for line in path.read_text().splitlines() if line.startswith("#")) if path.exists() else ""
    body = sorted(rows.items(), key=lambda row: (WORDS.index(row[1][0]), row[0]))
    path.write_text(head + "".join(f"{word} {name}: {reason}\n" if reason else f"{word} {name}\n" for name, (word, reason) in body))


def results(text):
    got = {}
    for line in text.splitlines():
        word, _, name = line.partition(" ")
        if word in ("PASS", "FAIL", "SKIP") and name:
            got[name] = word
    return got


# ---- docs/compatibility.md

SUITES = {     # what each is, and how many of its tests pass with Kafka 4.4.0 of those that speak to a server
    "kafka-python": ("kafka-python 3.0.12, integration tests", 52),
    "kafka-go": ("kafka-go 0.4.51, those that need a server", 75),
    "confluent-kafka-go": ("confluent-kafka-go 2.11.1", 74),
    "librdkafka": ("librdkafka at 4c3b017c3, all that need a broker, with their parts", 142),
    "kafka-cli": ("Kafka 4.4's own tools, a scenario of 133 checks", 133),
}
OF_SEVERAL = {("kafka-cli", 3): 132}       # with so many brokers of Kafka 4.4.0: one check counts what a broker does not serve, and every broker has some


def docs():
    """The page, from the lists."""
    lists = [(*variant, load(list_of(*variant))) for suite in SUITES for variant in ((suite, "classic", 1), (suite, "consumer", 1), (suite, "classic", 3)) if list_of(*variant).exists()]
    out = (HERE / "compatibility.head.md").read_text()
    out += "\n| suite | passes on Kafka 4.4 | passes here | open |\n|---|---|---|---|\n"
    for suite, protocol, brokers, rows in lists:
        what, kafka = SUITES[suite]
        count = {word: sum(1 for row in rows.values() if row[0] == word) for word in WORDS}
        flaky = f", and {count['flaky']} that do not in each run" if count["flaky"] else ""
        how = (", `GROUP_PROTOCOL=consumer`" if protocol != "classic" else "") + (f", {brokers} brokers" if brokers > 1 else "")
        out += f"| {what}{how} | {OF_SEVERAL.get((suite, brokers), kafka)} | {count['pass']}{flaky} | {count['open']} |\n"
    for suite, protocol, brokers, rows in lists:
        left = {name: row for name, row in rows.items() if row[0] != "pass"}
        title = suite + (" over the consumer protocol" if protocol != "classic" else "") + (f" against {brokers} brokers" if brokers > 1 else "")
        out += f"\n## {title}\n\n"
        if left:
            reasons = {}
            for name, (word, reason) in left.items():
                reasons.setdefault((word, reason or "changes from run to run with Kafka too"), []).append(name)
            out += "| not passed | why |\n|---|---|\n"
            for (word, reason), names in sorted(reasons.items()):
                out += f"| {', '.join('`%s`' % n.replace('|', ' ') for n in sorted(names))} | {'not in each run: ' if word == 'flaky' else ''}{reason} |\n"
            out += "\n"
        out += "Passes:\n\n" + "".join(f"    {name}\n" for name, row in sorted(rows.items()) if row[0] == "pass")
    return out


def variant_of(suite, protocol, brokers):
    return suite + (f".{protocol}" if protocol != "classic" else "") + (f".brokers-{brokers}" if brokers > 1 else "")


def list_of(suite, protocol, brokers):
    return HERE / f"{variant_of(suite, protocol, brokers)}.txt"


def address():
    """Some suites know no other port than Kafka's: localhost if it is free there, else a loopback address of our own (a few tests of kafka-go then fail: they compare addresses)."""
    for host in ["127.0.0.1", *(f"127.92.{os.getpid() % 250}.{last}" for last in range(1, 255))]:
        with socket.socket() as s:
            try:
                s.bind((host, 9092))
                return host
            except OSError:
                continue
    raise SystemExit("no free loopback address with port 9092")


class One:
    """A broker by itself, on the port that suites take as given."""

    def __init__(self, data):
        from harness import Broker

        class Kafka(Broker):
            host = address()
            bootstrap = f"{host}:9092"
        self.broker = Kafka(data, **{key.replace(".", "_"): value for key, value in SETTINGS.items()})
        self.bootstrap = self.broker.bootstrap
        self.broker.settings["listeners"] = self.broker.settings["advertised_listeners"] = f"PLAINTEXT://{self.bootstrap}"

    def start(self):
        self.broker.start()

    def stop(self):
        self.broker.stop()

    def nodes(self):
        return [self.broker]


class Several:
    """A cluster with the timeouts of the product; the first broker has Kafka's port, where that is free."""

    def __init__(self, data, count):
        from cluster import Cluster
        self.cluster = Cluster(data, count)
        if address() == "127.0.0.1":
            self.cluster.nodes[1].port = 9092
        self.cluster.settings = dict(SETTINGS_OF_SEVERAL)
        for node in self.nodes():
            at = f"PLAINTEXT://{node.bootstrap}"
            self.cluster.configure(node, **{"node.id": node.id, "listeners": at, "advertised.listeners": at})
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes())

    def start(self):
        self.cluster.start()
        self.cluster.controller()

    def stop(self):
        self.cluster.stop()

    def nodes(self):
        return list(self.cluster.nodes.values())


def ask(folder, suite, protocol, brokers, work):
    """The results of one suite against a broker of its own, or a cluster."""
    work.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix=f"ottla-suite-{suite}-"))
    server = One(data) if brokers == 1 else Several(data, brokers)
    try:
        server.start()
        limit_s = int(os.environ.get("LIMIT", LIMITS_S.get(suite, LIMIT_S)))
        env = {**os.environ, "BROKERS": server.bootstrap.split(",")[0] if suite in ONE_ADDRESS else server.bootstrap, "WORK": str(work), "LIMIT": str(limit_s), "GROUP_PROTOCOL": protocol,
               **({} if "KLIBS" in os.environ or not (TOP / "build" / "jars").exists() else {"KLIBS": str(TOP / "build" / "jars")})}
        with open(work / "run.err", "w") as err:
            run = subprocess.run(["bash", str(folder / suite / "run")], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True, errors="replace",
                                 timeout=limit_s * 2 + 1200)
        (work / "results.txt").write_text(run.stdout)
        dead = [node for node in server.nodes() if not node.alive()]
        if not dead:
            server.stop()
        for number, node in enumerate(server.nodes(), 1):
            shutil.copy(node.log_path, work / ("server.log" if brokers == 1 else f"server-{number}.log"))
        if dead:
            raise SystemExit(f"{suite}: {len(dead)} of {brokers} brokers ended during the run: {work}/server*.log")
        return results(run.stdout)
    finally:
        for node in server.nodes():
            node.kill()
        shutil.rmtree(data, ignore_errors=True)


def judge(folder, suite, protocol, brokers, got, update):
    path = list_of(suite, protocol, brokers)
    rows = load(path)
    alone = folder / suite / "no-server-needed.txt"       # tests of the client by itself
    for name in alone.read_text().splitlines() if alone.exists() else []:
        got.pop(name, None)
    lost = [name for name, (word, _) in rows.items() if word == "pass" and got.get(name) != "PASS"]
    shaky = [name for name, (word, _) in rows.items() if word == "flaky" and got.get(name) != "PASS"]
    new = [name for name, word in got.items() if word == "PASS" and rows.get(name, ("", ""))[0] not in ("pass", "flaky")]
    for name in lost:
        print(f"LOST   {got.get(name, 'MISSING')} {name}")
    for name in shaky:
        print(f"flaky  {got.get(name, 'MISSING')} {name}")
    for name in new:
        print(f"NEW    {name}")
    if update and new:
        rows.update({name: ("pass", "") for name in new})
        save(path, rows)
    held = sum(1 for name, (word, _) in rows.items() if word == "pass" and got.get(name) == "PASS")
    print(f"{suite} ({protocol}{f', {brokers} brokers' if brokers > 1 else ''}): {held} of the list pass, {len(lost)} lost, {len(new)} new, {len(shaky)} flaky ones did not pass", flush=True)
    return held, len(lost)


def main():
    parser = argparse.ArgumentParser(description="suites of other projects against one broker, or several")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("suite", nargs="*")
    parser.add_argument("--protocol", default="classic", choices=["classic", "consumer"])
    parser.add_argument("--brokers", type=int, default=1, choices=[1, 3], help="one broker, or a cluster of three: three replicas of what does not say, two in sync for acks=all")
    parser.add_argument("--update", action="store_true", help="write what passes newly into the list")
    parser.add_argument("--docs", action="store_true", help="write docs/compatibility.md and stop")
    parser.add_argument("--judge", metavar="FILE", help="results of an earlier run instead of a run; one suite")
    args = parser.parse_args()
    if args.docs:
        (TOP / "docs" / "compatibility.md").write_text(docs())
        return 0
    if args.folder is None:
        parser.error("DIR is missing")
    folder = Path(args.folder).resolve()
    suites = args.suite or sorted(path.parent.name for path in folder.glob("*/run") if list_of(path.parent.name, args.protocol, args.brokers).exists())
    total = [0, 0]
    for suite in suites:
        if not (folder / suite / "run").exists():
            raise SystemExit(f"no {folder / suite / 'run'}")
        work = TOP / "build" / "suites" / variant_of(suite, args.protocol, args.brokers)
        got = results(Path(args.judge).read_text()) if args.judge else ask(folder, suite, args.protocol, args.brokers, work)
        counts = judge(folder, suite, args.protocol, args.brokers, got, args.update)
        total = [total[0] + counts[0], total[1] + counts[1]]
    print(f"{total[0]} passed, {total[1]} failed")
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
