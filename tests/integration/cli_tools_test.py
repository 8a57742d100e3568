"""The command line's tools for operators: configuration explained and compared, logs checked and repaired, the bench, the doctor, profiles, watching."""
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from cli_test import ALL, environment, ottla
from harness import BINARY, free_ports, until


# ---- configuration

def test_settings_of_the_cluster_and_of_brokers(broker, topic):
    try:
        assert ottla(broker, "config", "set", "--cluster", "log.retention.ms=7654321").out == b"all brokers: set\n"
        assert ottla(broker, "config", "get", "--cluster", "--no-headers").lines == ["log.retention.ms  7654321  cluster_default"]
        assert "7654321" in ottla(broker, "config", "get", "--topic", topic, "retention.ms").out.decode()
    finally:
        ottla(broker, "config", "unset", "--cluster", "log.retention.ms")
    assert ottla(broker, "config", "set", "--broker", 1, "ottla.log.level=debug", "-n").out == b"broker 1: would be accepted\n"
    assert "one of --topic, --broker and --cluster" in ottla(broker, "config", "set", "a=b", status=2).err
    assert "one of --topic, --broker and --cluster" in ottla(broker, "config", "get", "--topic", topic, "--cluster", status=2).err


def test_a_key_is_explained(broker, topic):
    ottla(broker, "config", "set", "--topic", topic, "retention.ms=5000")
    text = ottla(broker, "config", "explain", "retention.ms", "--topic", topic).out.decode()
    assert f"now       5000 for topic {topic}, from topic" in text and "hides     log.retention.ms=604800000, from built_in" in text
    text = ottla(broker, "config", "explain", "listeners").out.decode()
    assert "from flag --set" in text and "at run time, per broker" in text
    assert "with a restart" in ottla(broker, "config", "explain", "log.dirs").out.decode()
    assert "another way to set log.retention.ms" in ottla(broker, "config", "explain", "log.retention.hours").out.decode()
    assert "none here" in ottla(broker, "config", "explain", "num.network.threads").out.decode()
    assert "try: ottla config explain retention.ms" in ottla(broker, "config", "explain", "retentoin.ms", status=3).err


def test_configurations_are_compared(broker, topic, name):
    ottla(broker, "topic", "create", name + "-b", "--config", "retention.ms=1234", "--config", "segment.bytes=2097152")
    ottla(broker, "config", "set", "--topic", topic, "retention.ms=5000")
    rows = ottla(broker, "config", "diff", "--topic", topic, "--topic", name + "-b", "-o", "json").json["items"]
    assert {(r["name"], r["left"], r["right"]) for r in rows} == {("retention.ms", "5000", "1234"), ("segment.bytes", "1073741824", "2097152")}
    rows = ottla(broker, "config", "diff", "--topic", topic, "-o", "json").json["items"]
    assert [(r["name"], r["left"], r["right"]) for r in rows] == [("retention.ms", "5000", "604800000")]
    assert {"listeners", "log.dirs"} <= {r["name"] for r in ottla(broker, "config", "diff", "--broker", 1, "-o", "json").json["items"]}
    ottla(broker, "config", "diff", status=2)
    ottla(broker, "config", "diff", "--topic", topic, "--broker", 1, status=2)


def test_a_file_of_kafka_is_judged_key_by_key(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\nprocess.roles=broker,controller\nlog.dirs=/tmp/kraft\nlog.retention.hours = 168\n"
                    "log.retention.check.interval.ms=soon\nlog.retentin.bytes=3\nssl.keystore.password=secret\n")
    ran = ottla(None, "config", "import", file, "--all", "-o", "json", status=8)
    verdicts = {r["key"]: r["verdict"] for r in ran.json["items"]}
    assert verdicts["broker.id"] == verdicts["log.dirs"] == verdicts["log.retention.hours"] == "applies"
    assert verdicts["process.roles"] == "ignored" and verdicts["log.retention.check.interval.ms"] == "refused" and verdicts["log.retentin.bytes"] == "unknown"
    assert "log.retention.bytes" in next(r["note"] for r in ran.json["items"] if r["key"] == "log.retentin.bytes")
    assert b"secret" not in ran.out and ran.json["stops"] == 2
    file.write_text("log.dirs=/tmp/x\nprocess.roles=broker\n")
    assert [line.split()[1] for line in ottla(None, "config", "import", file, "--no-headers").lines] == ["process.roles"]
    file.write_text("controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n")
    (row,) = ottla(None, "config", "import", file, "-o", "json").json["items"]
    assert (row["key"], row["verdict"]) == ("listeners", "applies") and "without CONTROLLER" in row["note"] and "peer.listeners" in row["note"]
    for listeners in ("CONTROLLER://:9093", "PLAINTEXT://:9092,SASL_SSL://:9094", "OTHER://:9092"):
        file.write_text(f"listeners={listeners}\ncontroller.listener.names=CONTROLLER\n")
        (row,) = ottla(None, "config", "import", file, "-o", "json", status=8).json["items"]
        assert (row["key"], row["verdict"]) == ("listeners", "refused"), row
    ottla(None, "config", "import", tmp_path / "nosuch", status=3)
    file.write_bytes(b"a=\\u00zz\n")
    ottla(None, "config", "import", file, status=8)


# ---- where to speak to, and how

def profile_environment(tmp_path, text):
    home = tmp_path / "home"
    (home / ".config" / "ottla").mkdir(parents=True)
    (home / ".config" / "ottla" / "profiles.ini").write_text(text)
    env = {k: v for k, v in os.environ.items() if not k.startswith("OTTLA_") and k != "XDG_CONFIG_HOME"}
    return {**env, "HOME": str(home)}


def test_a_profile_names_the_place(broker, topic, tmp_path):
    env = profile_environment(tmp_path, f"[here]\napi = {broker.rest}\nbootstrap_server = {broker.bootstrap}\n[nowhere]\napi = http://127.0.0.1:1\n[half]\napi = {broker.rest}\n")

    def run(*words, data=b""):
        return subprocess.run([str(BINARY), *words], env=env, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert topic.encode() in run("topic", "list", "-o", "name", "--profile", "here").stdout
    assert run("produce", topic, "--profile", "here", "-q", data=b"by profile\n").returncode == 0
    assert run("consume", topic, *ALL, "--profile", "here").stdout == b"by profile\n"
    assert run("topic", "list", "--profile", "nowhere").returncode == 6
    assert topic.encode() in run("topic", "list", "-o", "name", "--profile", "nowhere", "--api", broker.rest).stdout
    assert run("produce", topic, "--profile", "half", "-q", data=b"by its API\n").returncode == 0
    assert run("consume", topic, *ALL, "--profile", "half").stdout == b"by profile\nby its API\n"
    wrong = run("topic", "list", "--profile", "her")
    assert wrong.returncode == 2 and b"try: --profile here" in wrong.stderr


def test_brokers_are_asked_from_the_api(broker, topic):
    """Without -b and without its variable, what the API says is taken."""
    env = environment(broker)
    del env["OTTLA_BOOTSTRAP_SERVER"]
    assert subprocess.run([str(BINARY), "produce", topic, "-q"], env=env, input=b"found\n", timeout=120, check=False).returncode == 0
    assert ottla(broker, "consume", topic, *ALL).lines == ["found"]


def test_records_go_to_no_other_cluster_when_the_one_that_was_named_does_not_answer(broker, topic, tmp_path):
    """What happens to listen at the usual place of this machine was not meant."""
    for env, words in ((profile_environment(tmp_path, "[away]\napi = http://127.0.0.1:1\n"), ("--profile", "away")), ({**environment(None), "OTTLA_API": "http://127.0.0.1:1"}, ())):
        done = subprocess.run([str(BINARY), "produce", topic, *words], env={**env, "OTTLA_BOOTSTRAP_SERVER": broker.bootstrap if words else ""}, input=b"lost\n", stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120, check=False)
        assert done.returncode == 6 and b"http://127.0.0.1:1: it does not say where Kafka clients connect" in done.stderr, done
    assert ottla(broker, "consume", topic, *ALL).lines == []


def test_watching_goes_on_until_ctrl_c(broker, topic):
    process = subprocess.Popen([str(BINARY), "topic", "list", "-o", "name", "--prefix", topic, "--watch=0.2"], env=environment(broker), stdout=subprocess.PIPE)
    try:
        seen = [process.stdout.readline() for _ in range(5)]
        assert seen == [topic.encode() + b"\n", b"\n"] * 2 + [topic.encode() + b"\n"]
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 130
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
    assert "--watch" in ottla(broker, "topic", "list", "--watch=soon", status=2).err


def test_colour_is_a_choice(broker, topic):
    assert b"\x1b[32monline\x1b[0m" in ottla(broker, "topic", "list", "--color", "always").out
    assert b"\x1b" not in ottla(broker, "topic", "list").out and b"\x1b" not in ottla(broker, "topic", "list", "--color", "never").out
    ottla(broker, "topic", "list", "--color", "sometimes", status=2)


# ---- logs

def damage(log):
    with open(log, "r+b") as file:
        file.seek(log.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))


def test_logs_are_verified_while_they_are_served(own_broker, name):
    broker = own_broker()
    ottla(broker, "topic", "create", name)
    for _ in range(3):
        ottla(broker, "produce", name, data="x" * 50 + "\n" * 200)
    ran = ottla(broker, "topic", "verify", name)
    assert re.fullmatch(rf"{name}: 1 partitions, .* read, 0 faults", ran.lines[-1])
    damage(next((broker.data / f"{name}-0").glob("*.log")))
    ran = ottla(broker, "topic", "verify", name, status=8)
    assert "bad batch at position" in ran.lines[0] and "try: stop the server" in ran.err
    assert ottla(broker, "topic", "verify", name, "-o", "json", status=8).json["result"]["faults"] >= 1
    ottla(broker, "topic", "verify", "nosuch", status=3)


def test_a_damaged_log_is_repaired_and_served_again(own_broker, name):
    broker = own_broker()
    ottla(broker, "topic", "create", name)
    for i in range(40):
        ottla(broker, "produce", name, data=f"line {i}\n" * 50)
    folder = broker.data / f"{name}-0"
    assert "stop it first" in ottla(broker, "log", "repair", folder, status=4).err
    broker.stop()
    assert "nothing is wrong" in ottla(None, "log", "repair", folder).out.decode()
    index, log = next(folder.glob("*.index")), next(folder.glob("*.log"))
    index.write_bytes(index.read_bytes()[:-3] if index.stat().st_size > 3 else b"abc")
    ottla(None, "log", "repair", folder, "--dry-run", status=8)
    assert "nothing is wrong" in ottla(None, "log", "repair", folder).lines[-1]      # no record goes: nobody is asked
    damage(log)
    before = log.read_bytes()
    ran = ottla(None, "log", "repair", folder, status=2)
    assert "Nothing was done" in ran.err and log.read_bytes() == before
    ran = ottla(None, "log", "repair", folder, "--yes")
    assert "cut off from offset" in ran.out.decode() and ran.lines[-1].strip() == "nothing is wrong" and list(folder.glob("*.cut"))
    ottla(None, "log", "verify", folder)
    broker.start()
    left = ottla(broker, "consume", name, *ALL).lines
    whole = [f"line {i}" for i in range(40) for _ in range(50)]
    assert left == whole[:len(left)] and 0 < len(left) < 2000
    ottla(broker, "produce", name, data="after\n")
    assert ottla(broker, "consume", name, *ALL).lines == left + ["after"]
    ottla(None, "log", "repair", broker.data, status=2)
    ottla(None, "log", "repair", broker.data / "nosuch-0", status=3)


# ---- bench

def test_the_bench_measures_and_can_be_repeated(broker, name):
    run = ottla(broker, "bench", "produce", name, "--records", 5000, "--record-bytes", 200, "-z", "lz4", "-o", "json").json
    assert run["records"] == 5000 and run["bytes"] == 1000000 and 0 < run["latency_ms"]["p50"] <= run["latency_ms"]["p99"] <= run["latency_ms"]["max"]
    assert run["records_per_second"] > 0 and run["command"].startswith(f"ottla bench produce {name} --records 5000 --record-bytes 200")
    again = ottla(broker, *run["command"].split()[1:], "-o", "json").json
    assert again["records"] == 5000 and again["command"] == run["command"]
    values = ottla(broker, "consume", name, *ALL, "--format", "%v\n").out
    assert values[:len(values) // 2] == values[len(values) // 2:]          # the same seed, the same payload
    read = ottla(broker, "bench", "consume", name, "-o", "json").json
    assert read["records"] == 10000 and read["bytes"] == 2000000
    assert ottla(broker, "bench", "consume", name, "--records", 10, "-o", "json").json["records"] == 10


def test_the_bench_keeps_to_a_rate(broker, name):
    run = ottla(broker, "bench", "produce", name, "--seconds", 1, "--rate", 1000, "-o", "json").json
    assert run["records"] <= 1100 and "--rate 1000" in run["command"]
    late = ottla(broker, "bench", "latency", name, "--records", 50, "--rate", 500, "-o", "json").json
    assert late["records"] == 50 == late["latency_ms"]["count"] and late["latency_ms"]["p50"] > 0
    text = ottla(broker, "bench", "latency", name, "--records", 5).lines
    assert text[1].startswith("latency of a record, until it was read, ms:  p50 ") and text[2].startswith("again: ottla bench latency ")


def test_the_bench_says_what_is_wrong(broker, name):
    ottla(broker, "topic", "create", name)
    assert "has one replica" in ottla(broker, "bench", "replicate", name, status=1).err
    assert "no topic" in ottla(broker, "bench", "consume", "nosuch", status=3).err
    ottla(broker, "bench", "produce", "--rate", "0", status=2)
    ottla(None, "bench", "produce", "-b", "127.0.0.1:1", status=6)


# ---- doctor

def findings(ran):
    return {(f["check"], f["state"]): f for f in ran.json["items"]}


def test_the_doctor_finds_a_sound_server_sound(broker):
    ran = ottla(broker, "doctor", "--set", f"listeners=PLAINTEXT://127.0.0.1:{broker.port}", "-o", "json", status=None)
    found = findings(ran)
    assert found["api", "ok"] and found["kafka", "ok"] and found["health", "ok"] and found["clock skew", "ok"]
    ports = [f["finding"] for f in ran.json["items"] if f["check"] == "port"]
    assert any(re.fullmatch(rf"listeners: {broker.port} is held by ottla \(pid \d+\)", p) for p in ports), ports
    assert ran.json["problems"] == sum(f["state"] == "problem" for f in ran.json["items"])


def test_the_doctor_looks_where_the_server_keeps_its_records(own_broker, tmp_path):
    """Not at ./ottla-data of whoever asks, also when the server was started with a relative path; and at the ports that the server has."""
    for data in ("data", None):
        broker = own_broker(start=False)
        if data is not None:
            broker.data = Path(data)
        broker.start()
        ran = ottla(broker, "doctor", "-o", "json", status=None)
        disks = [f["finding"] for f in ran.json["items"] if f["check"] == "disk"]
        assert disks and all(d.startswith(str(broker.directory / "data")) for d in disks), disks
        ports = [f["finding"] for f in ran.json["items"] if f["check"] == "port"]
        assert any(p.startswith(f"listeners: {broker.port} is held by ottla") for p in ports) and not any("9092" in p for p in ports), ports
        told = [f["finding"] for f in ottla(broker, "doctor", "--data", tmp_path, "-o", "json", status=None).json["items"] if f["check"] == "disk"]
        assert all(d.startswith(str(tmp_path)) for d in told), told
        broker.stop()


def test_the_doctor_finds_traps_before_a_start(tmp_path):
    config = tmp_path / "server.properties"
    ports = free_ports(4)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[0]))
        taken.listen(1)
        config.write_text(f"log.dirs={tmp_path}/data\nmin.insync.replicas=3\ndefault.replication.factor=2\nlog.retention.ms=168\nottla.disk.free.refuse.bytes=9000000000000000000\n"
                          f"listeners=PLAINTEXT://127.0.0.1:{ports[0]}\nadvertised.listeners=PLAINTEXT://0.0.0.0:9092\nrest.listeners=http://127.0.0.1:{ports[1]}\n"
                          f"grpc.listeners=127.0.0.1:{ports[2]}\npeer.listeners=127.0.0.1:{ports[3]}\n")
        ran = ottla(None, "doctor", "--local", "--problems", "--config", config, "-o", "json", status=8)
    text = "\n".join(f["finding"] for f in ran.json["items"])
    for words in ("acks=all needs every replica of a new topic", "records are kept for 168 ms", "produce is refused below", f"{ports[0]} is held by python", "clients cannot connect to that"):
        assert words in text, (words, text)
    assert all(f["advice"] for f in ran.json["items"] if f["state"] == "problem") and not any(f["state"] in ("ok", "note") for f in ran.json["items"])
    config.write_text("log.dirs=/x\nnosuch.key=1\n")
    assert findings(ottla(None, "doctor", "--local", "--config", config, "-o", "json", status=8))["configuration", "problem"]


def test_the_doctor_misses_a_server(tmp_path):
    ran = ottla(None, "doctor", "--api", "http://127.0.0.1:1", "--data", tmp_path, status=8)
    assert re.search(r"problem +api +no server answers at http://127.0.0.1:1", ran.out.decode())


# ---- the cluster

def test_the_cluster_in_words(broker, topic):
    lines = dict(line.split(maxsplit=1) for line in ottla(broker, "cluster", "info").lines)
    assert lines["health"] == "ok" and lines["brokers"] == "1 of 1 alive" and lines["controller"].startswith("broker 1")
    assert ottla(broker, "cluster", "info", "-o", "json").json["cluster_id"] == lines["cluster"]
    assert ottla(broker, "cluster", "brokers", "--no-headers").lines[0].split()[:3] == ["1", "running", "yes"]
    rows = [line.split() for line in ottla(broker, "cluster", "health", "--no-headers").lines]
    assert ["no_offline_partitions", "yes", "0"] == rows[0][:3]
    assert ottla(broker, "cluster", "health", "--local").out == b"ready\n" and ottla(broker, "cluster", "health", "--local", "-q").out == b""
    ottla(None, "cluster", "health", "--local", "-q", "--api", "http://127.0.0.1:1", status=6)


def test_a_failing_check_is_8(own_broker):
    broker = own_broker(ottla_disk_free_warn_bytes="9000000000000000000")
    ran = ottla(broker, "cluster", "health", "-o", "json", status=8)
    assert ran.json["status"] == "degraded" and [c["name"] for c in ran.json["checks"] if not c["ok"]] == ["disk_free"]
    told = next(c for c in ran.json["checks"] if c["name"] == "disk_free")["offenders"][0]
    row = next(line for line in ottla(broker, "cluster", "health", "--no-headers", status=8).lines if line.startswith("disk_free"))
    assert row.rstrip().endswith(f"broker 1: {told['log_dir']}")
    said = ottla(broker, "doctor", "--problems", status=None).out.decode()
    assert "add space" in said and f"broker 1: {told['log_dir']}" in said


def test_jobs_are_listed_followed_and_cancelled(broker, topic):
    ottla(broker, "produce", topic, data="x" * 100 + "\n" * 200)
    ottla(broker, "topic", "verify", topic)
    newest = ottla(broker, "cluster", "jobs", "-o", "ndjson").lines[0]
    job = json.loads(newest)
    assert (job["kind"], job["state"], job["topic"], job["faults"]) == ("verify", "done", topic, 0)
    assert ottla(broker, "cluster", "jobs", "--follow", job["job_id"]).out.decode() == f"{job['job_id']}: done\n"
    assert "HTTP_CONFLICT" in ottla(broker, "cluster", "jobs", "--cancel", job["job_id"], status=4).err
    process = subprocess.Popen([str(BINARY), "topic", "verify", topic, "--max-bytes-per-second", "1"], env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        running = until(lambda: ottla(broker, "cluster", "jobs", "--state", "running", "-o", "name").lines, 20, "it runs")
        ottla(broker, "cluster", "jobs", "--cancel", running[0])
        assert process.wait(80) == 7 and b"cancelled" in process.stderr.read()
    finally:
        process.kill()
        process.stdout.close(), process.stderr.close()
        process.wait()


def test_feature_levels_are_told_and_checked(broker):
    name, level = ottla(broker, "cluster", "feature", "--no-headers").lines[0].split()[:2]
    assert ottla(broker, "cluster", "feature", "upgrade", f"{name}={level}").out == b"set\n"
    assert "INVALID_UPDATE_VERSION" in ottla(broker, "cluster", "feature", "upgrade", f"{name}=99", status=1).err
    ottla(broker, "cluster", "feature", "downgrade", f"{name}=1", status=2)
    ottla(broker, "cluster", "feature", "raise", status=2)


def test_a_page_for_each_noun():
    assert ottla(None, "man", "topic").out.startswith(b'.TH OTTLA-TOPIC 1 "" "ottla ') and b"ottla server" not in ottla(None, "man", "topic").out.split(b".SH COMMANDS")[1]
    assert ottla(None, "man", "server").out.startswith(b".TH OTTLA-SERVER 8 ")
    ottla(None, "man", "nosuch", status=3)


# ---- consume as a member of a group

@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_stopped(broker, admin, name, protocol):
    admin.create(name, 3)
    more = ["--group-protocol", protocol]
    ottla(broker, "produce", name, data="".join(f"{i}\n" for i in range(30)))
    assert sorted(ottla(broker, "consume", name, "--group", name, *ALL, *more).lines, key=int) == [str(i) for i in range(30)]
    ottla(broker, "produce", name, data="".join(f"{i}\n" for i in range(30, 40)))
    assert sorted(ottla(broker, "consume", name, "-g", name, *ALL, *more).lines, key=int) == [str(i) for i in range(30, 40)]
    assert ottla(broker, "consume", name, "-g", name, *ALL, *more).lines == []
    assert len(ottla(broker, "consume", name, "-g", name + "-other", "--from", "earliest", "--max", 7, *more).lines) == 7
    assert len(ottla(broker, "consume", name, "-g", name + "-other", *ALL, *more).lines) == 33
    assert ottla(broker, "group", "describe", name, "-o", "json").json["type"] == protocol
    ottla(broker, "consume", name, "-g", name, "--partition", 0, status=2)
    ottla(broker, "consume", name, *more, status=2)


def test_members_of_the_new_protocol_share(own_broker, name):
    """Two of ours, told to ask often: each has half, and when one leaves the other has all; every record is read once."""
    broker = own_broker(group_consumer_min_heartbeat_interval_ms=100, group_consumer_heartbeat_interval_ms=300, group_consumer_assignment_interval_ms=0)
    ottla(broker, "topic", "create", name, "--partitions", 4)
    words = [str(BINARY), "consume", name, "-g", name, "--from", "earliest", "-q", "--group-protocol", "consumer"]
    ours, lines = [subprocess.Popen(words, env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)], []

    def owned():
        told = ottla(broker, "group", "owners", name, "-o", "json", status=None)
        owners = [one["member_id"] for one in told.json["owners"]] if told.status == 0 else []
        return sorted(owners.count(member) for member in set(owners))

    def fill(text):
        for i in range(4):
            ottla(broker, "produce", name, "--partition", i, data="".join(f"{text}-{i}-{k}\n" for k in range(10)))

    def read(count):
        for process in ours:
            lines.extend(iter(process.stdout.readline, b""))
        return len(lines) >= count
    try:
        for process in ours:
            os.set_blocking(process.stdout.fileno(), False)
        until(lambda: owned() == [2, 2], 30, lambda: f"half for each: {owned()}")
        fill("both")
        until(lambda: read(40), 30, lambda: f"{len(lines)} of 40")
        ours[0].send_signal(signal.SIGINT)
        assert ours[0].wait(80) == 130
        until(lambda: owned() == [4], 30, lambda: f"all for one: {owned()}")
        fill("one")
        until(lambda: read(80), 30, lambda: f"{len(lines)} of 80")
    finally:
        for process in ours:
            process.kill()
            process.stdout.close(), process.stderr.close()
            process.wait()
    assert sorted(line.decode().strip() for line in lines) == sorted(f"{text}-{i}-{k}" for text in ("both", "one") for i in range(4) for k in range(10))


@pytest.mark.long
def test_members_share_with_other_clients(broker, admin, name):
    """Two of ours and one of librdkafka: every record once, and all partitions have a reader when one leaves."""
    from confluent_kafka import Consumer
    admin.create(name, 6)
    words = [str(BINARY), "consume", name, "-g", name, "--from", "earliest", "-q"]
    ours = [subprocess.Popen(words, env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    other = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "auto.offset.reset": "earliest", "partition.assignment.strategy": "range"})
    other.subscribe([name])
    seen = []

    def shared():
        message = other.poll(0.2)
        if message is not None and message.error() is None:
            seen.append(message.value().decode())
        return len(other.assignment()) == 2
    try:
        until(shared, 60, lambda: f"two of six for each: {other.assignment()}")
        for i in range(6):
            ottla(broker, "produce", name, "--partition", i, data="".join(f"{i}-{k}\n" for k in range(20)))
        until(lambda: shared() and len(seen) >= 40, 60, lambda: f"{len(seen)} of 40 records")
        other.close()
        until(lambda: ottla(broker, "topic", "list").status == 0, 5, "alive")
        for i in range(6):
            ottla(broker, "produce", name, "--partition", i, data=f"{i}-last\n")
        lines = []
        for process in ours:
            os.set_blocking(process.stdout.fileno(), False)
        until(lambda: (lines.extend(line for process in ours for line in iter(process.stdout.readline, b"")) or len(lines) >= 86), 60, lambda: f"{len(lines)} of 86")
        for process in ours:
            process.send_signal(signal.SIGINT)
            assert process.wait(80) == 130
    finally:
        for process in ours:
            process.kill()
            process.stdout.close(), process.stderr.close()
            process.wait()
    read = sorted(seen + [line.decode().strip() for line in lines])
    assert read == sorted([f"{i}-{k}" for i in range(6) for k in range(20)] + [f"{i}-last" for i in range(6)])


# ---- transactions

def test_a_hanging_transaction_is_found_and_ended(broker, name):
    ran = ottla(broker, "cluster", "txn")
    assert ran.lines[0].split()[:2] == ["TRANSACTIONAL-ID", "STATE"]
    ottla(broker, "topic", "create", name)
    with broker.connect() as c:
        made = c.ask("InitProducerId", 4, {"transactionalId": name, "transactionTimeoutMs": 60000, "producerId": -1, "producerEpoch": -1})
        c.ask("AddPartitionsToTxn", 3, {"v3AndBelowTransactionalId": name, "v3AndBelowProducerId": made["producerId"], "v3AndBelowProducerEpoch": made["producerEpoch"],
                                        "v3AndBelowTopics": [{"name": name, "partitions": [0]}]})
    rows = ottla(broker, "cluster", "txn", "list", "--state", "ongoing", "--prefix", name).lines
    assert rows[1].split()[:2] == [name, "ongoing"]
    assert len(ottla(broker, "cluster", "txn", "list", "--longer-than-ms", 3600000, "--prefix", name).lines) == 1
    told = ottla(broker, "cluster", "txn", "describe", name).out.decode()
    assert "ongoing" in told and told.splitlines()[-1].split() == [name, "0"]
    assert ottla(broker, "cluster", "txn", "describe", name, "-o", "json").json["state"] == "ongoing"
    assert "could be aborted" in ottla(broker, "cluster", "txn", "abort", name, "--dry-run").out.decode()
    assert "Nothing was done" in ottla(broker, "cluster", "txn", "abort", name, status=2).err
    assert "aborted" in ottla(broker, "cluster", "txn", "abort", name, "--yes").out.decode()
    assert "CONCURRENT_TRANSACTIONS" in ottla(broker, "cluster", "txn", "abort", name, "--dry-run", status=4).err
    assert "CONCURRENT_TRANSACTIONS" in ottla(broker, "cluster", "txn", "abort", name, "--yes", status=4).err
    assert ottla(broker, "cluster", "txn", "describe", "nobody", status=3).err.startswith("error: TRANSACTIONAL_ID_NOT_FOUND")
    assert "try: describe" in ottla(broker, "cluster", "txn", "descrieb", name, status=2).err
    assert "one transactional id" in ottla(broker, "cluster", "txn", "abort", status=2).err


def test_a_taken_port_names_its_holder(broker, tmp_path):
    ran = ottla(None, "server", "--data", tmp_path / "data", "--set", f"listeners=PLAINTEXT://{broker.bootstrap}", status=1)
    assert f"ottla (pid {broker.process.pid}) has it" in ran.err and "--set listeners=" in ran.err


def test_the_curl_of_a_watch_is_told_once(broker):
    assert ottla(broker, "cluster", "brokers", "--watch", "--curl").lines == [f"curl -sS '{broker.rest}/v1/brokers?limit=1000'"]
