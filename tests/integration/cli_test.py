"""The command line against a real server: produce and consume in every format and codec, also with kcat on the other side, topics over REST, files without a
server, exit codes. What the house promises about `ottla` on the terminal is tested here as a user types it."""
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

import harness
from harness import BINARY, until

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ALL = ["--from", "earliest", "--until", "end"]


class Ran:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    @property
    def lines(self):
        return self.out.decode().splitlines()

    @property
    def json(self):
        return json.loads(self.out)


def environment(broker):
    env = {k: v for k, v in os.environ.items() if not k.startswith("OTTLA_")}
    if broker is not None:
        env["OTTLA_BOOTSTRAP_SERVER"] = broker.bootstrap
        env["OTTLA_API"] = broker.rest or ""
    return env


def ottla(broker, *words, data=b"", status=0, timeout_s=240):
    """Run one command; its exit status must be `status` (None: any)."""
    if isinstance(data, str):
        data = data.encode()
    done = subprocess.run([str(BINARY), *map(str, words)], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(broker), timeout=timeout_s)
    ran = Ran(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
    assert "Sanitizer" not in ran.err, ran.err
    if status is not None:
        assert ran.status == status, f"{words}: exit {ran.status}, not {status}\n{ran.err}"
    return ran


def kcat(broker, *words, data=None):
    if not shutil.which("kcat"):
        pytest.skip("no kcat")
    done = subprocess.run(["kcat", "-b", broker.bootstrap, *map(str, words)], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


# ---- records

@pytest.mark.smoke
def test_a_line_comes_back(broker, name):
    ottla(broker, "produce", name, data="hello\n")
    assert ottla(broker, "consume", name, *ALL).out == b"hello\n"


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_round_trip_and_against_kcat(broker, admin, name, codec):
    admin.create(name, partitions=3)
    keys = [f"key-{i % 97}" for i in range(3000)]
    data = "".join(f"{key}\tvalue {i}\n" for i, key in enumerate(keys)).encode()
    ottla(broker, "produce", name, "-f", "%k\\t%v\\n", "-z", codec, "-H", "a=b", data=data)
    ours = ottla(broker, "consume", name, *ALL, "-f", "%p %o %k\\t%v %h\\n").lines
    theirs = kcat(broker, "-C", "-t", name, "-o", "beginning", "-e", "-q", "-f", "%p %o %k\t%s %h\n").decode().splitlines()
    assert sorted(ours) == sorted(theirs)
    assert sorted(line.split(" ", 2)[2] for line in ours) == sorted(f"{k}\tvalue {i} a=b" for i, k in enumerate(keys))
    codecs = {json.loads(line)["codec"] for line in ottla(broker, "consume", name, *ALL, "-o", "ndjson").lines}
    assert codecs == {codec}


@pytest.mark.parametrize("codec", CODECS)
def test_what_kcat_writes_is_read(broker, topic, codec):
    data = "".join(f"k{i}:v{i}\n" for i in range(2000)).encode()
    kcat(broker, "-P", "-t", topic, "-K:", "-z", codec, "-H", "h=x", data=data)
    assert ottla(broker, "consume", topic, *ALL, "-f", "%k:%v\\n").out == data


def test_keys_go_where_kcat_sends_them(broker, admin, name):
    admin.create(name, partitions=7)
    data = "".join(f"key-{i}:a\n" for i in range(300)).encode()
    ottla(broker, "produce", name, "-f", "%k:%v\\n", data=data)
    kcat(broker, "-P", "-t", name, "-K:", "-X", "topic.partitioner=murmur2_random", data=data)
    places = {}
    for line in ottla(broker, "consume", name, *ALL, "-f", "%k %p\\n").lines:
        key, partition = line.split()
        places.setdefault(key, set()).add(partition)
    assert len(places) == 300 and all(len(p) == 1 for p in places.values())
    assert len({p for at in places.values() for p in at}) == 7


VALUES = [b"", b"x", b"two\nlines", b"\x00\xff\xfe binary \r\n", "{\"a\": 1.50}".encode(), b"{\"a\":\n1}", b" 1", "Grüße 😀".encode(), b"\xc3", b"null", b"[1,2]", b"\t"]


@pytest.mark.parametrize("form", ["ndjson", "%K %V %k %v %T\\n"])
def test_exact_bytes_travel_through_a_pipe(broker, name, form):
    """consume | produce copies a topic to the byte: keys, values, nulls, timestamps."""
    with broker.connect() as connection:
        from admin import Admin
        import batch
        admin = Admin(connection)
        admin.create(name)
        admin.create(name + "-copy")
        for i, value in enumerate(VALUES):
            admin.produce_raw(name, batch.build([value], keys=[VALUES[-1 - i] if i % 3 else None], timestamps=[1700000000000 + i]))
        lines = ottla(broker, "consume", name, *ALL, "-f", form).out
        ottla(broker, "produce", name + "-copy", "-f", form, data=lines)
        copied, source = admin.records(name + "-copy"), admin.records(name)
        assert [r[1:4] for r in copied] == [r[1:4] for r in source]
        assert [r[3] for r in source] == VALUES


def test_headers_nulls_and_flags_that_fill_in(broker, topic):
    ottla(broker, "produce", topic, "-k", "id-1", "-H", "a=1", "-H", "b=x=y", "--timestamp", "2026-05-01T00:00:00Z", data='{"id":1}\n')
    ottla(broker, "produce", topic, "-f", "%k=%v\\n", "--null", "NULL", data="a=NULL\nNULL=b\n")
    ottla(broker, "produce", topic, "-f", "ndjson",
          data='{"key":{"json":[1]},"value":null,"headers":[{"name":"n","value":null},{"name":"b","value":{"base64":"AP8="}}],"timestamp_ms":5}\n')
    rows = [json.loads(line) for line in ottla(broker, "consume", topic, *ALL, "-o", "ndjson").lines]
    first = {k: rows[0][k] for k in ("key", "value", "headers", "timestamp_ms", "offset", "partition", "topic")}
    assert first == {"key": {"string": "id-1"}, "value": {"json": {"id": 1}}, "timestamp_ms": 1777593600000, "offset": 0, "partition": 0, "topic": topic,
                     "headers": [{"name": "a", "value": {"json": 1}}, {"name": "b", "value": {"string": "x=y"}}]}
    assert (rows[1]["key"], rows[1]["value"]) == ({"string": "a"}, None)
    assert (rows[2]["key"], rows[2]["value"]) == (None, {"string": "b"})
    assert rows[3]["key"] == {"json": [1]} and rows[3]["value"] is None and rows[3]["timestamp_ms"] == 5
    assert rows[3]["headers"] == [{"name": "n", "value": None}, {"name": "b", "value": {"base64": "AP8="}}]
    assert ottla(broker, "consume", topic, *ALL, "-o", "json").json == rows
    text = ottla(broker, "consume", topic, *ALL, "-f", "%k|%v|%K|%V|%H\\n", "--null", "∅").out.decode().splitlines()
    assert text[1:3] == ["a|∅|1|-1|0", "∅|b|-1|1|0"]
    assert ottla(broker, "consume", topic, *ALL, "-o", "csv").out.decode().split("\r\n")[1] == f'{topic},0,0,1777593600000,"id-1","{{""id"":1}}"'


def test_files_are_records_in_raw(broker, topic, tmp_path):
    blobs = [os.urandom(100000), b"", b"no line break"]
    paths = []
    for i, blob in enumerate(blobs):
        paths.append(tmp_path / str(i))
        paths[-1].write_bytes(blob)
    ottla(broker, "produce", topic, *paths, "-f", "raw", "-z", "zstd")
    for i, blob in enumerate(blobs):
        assert ottla(broker, "consume", topic, "--from", i, "--max", 1, "-f", "raw").out == blob


def test_places(broker, topic, admin):
    base = 1700000000000
    for i in range(20):
        admin.produce(topic, f"v{i}", timestamps=[base + 1000 * i])

    def values(*words):
        return [int(v[1:]) for v in ottla(broker, "consume", topic, *words).lines]
    assert values(*ALL) == list(range(20))
    assert values("--from", "-3", "--until", "end") == [17, 18, 19]
    assert values("--from", "-300", "--until", "end") == list(range(20))
    assert values("--from", "5", "--until", "8") == [5, 6, 7]
    assert values("--from", "earliest", "-n", "4") == [0, 1, 2, 3]
    assert values("--from", "2023-11-14T22:13:30Z", "--until", "2023-11-14T22:13:33Z") == [10, 11, 12]
    assert values("--from", "earliest", "--until", "-18") == [0, 1]
    assert values("--from", "latest", "--until", "end") == []
    assert values("--from", "20", "--until", "end") == []
    outside = ottla(broker, "consume", topic, "--from", 21, status=1)
    assert "holds 0 to 20" in outside.err and "try: --from earliest" in outside.err


def test_partitions_are_chosen(broker, admin, name):
    admin.create(name, partitions=4)
    for p in range(4):
        ottla(broker, "produce", name, "-p", p, data=f"{p}\n")
    assert sorted(ottla(broker, "consume", name, *ALL).lines) == ["0", "1", "2", "3"]
    assert sorted(ottla(broker, "consume", name, *ALL, "-p", "1,3").lines) == ["1", "3"]
    assert "partitions 0 to 3" in ottla(broker, "consume", name, "-p", "9", status=3).err
    assert "no partition 9" in ottla(broker, "produce", name, "-p", "9", status=3, data="x\n").err
    ottla(broker, "produce", name, "-f", "%p %v\\n", data="2 two\n")
    assert ottla(broker, "consume", name, "-p", 2, "--from", "-1", "--until", "end").out == b"two\n"


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_hundred_megabytes_pass_through_unchanged(broker, admin, name, codec):
    """Bounded memory on both ends; one partition keeps the order, so the bytes are the same."""
    admin.create(name)
    rng = random.Random(5)
    block = b"".join(b"%d %s\n" % (i, rng.randbytes(rng.randrange(0, 150)).hex().encode()) for i in range(5000))
    blocks = 100_000_000 // len(block) + 1
    digest = hashlib.sha256()
    for _ in range(blocks):
        digest.update(block)
    producer = subprocess.Popen(["/usr/bin/env", "bash", "-c", 'ulimit -v 600000; exec "$@"', "x", str(BINARY), "produce", name, "-z", codec] if harness.PRESET == "release" else
                                [str(BINARY), "produce", name, "-z", codec], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(broker))
    for _ in range(blocks):
        producer.stdin.write(block)
    producer.stdin.close()
    assert producer.wait(240) == 0, producer.stderr.read().decode()
    consumer = subprocess.Popen([str(BINARY), "consume", name, *ALL], stdout=subprocess.PIPE, env=environment(broker))
    got, total = hashlib.sha256(), 0
    while chunk := consumer.stdout.read(1 << 20):
        got.update(chunk)
        total += len(chunk)
    assert consumer.wait(240) == 0
    assert total == blocks * len(block) and got.hexdigest() == digest.hexdigest()
    if harness.PRESET == "release":
        assert not re.search("out of memory", producer.stderr.read().decode())


def test_following_prints_what_comes_and_ctrl_c_ends_it(broker, topic):
    follower = subprocess.Popen([str(BINARY), "consume", topic, "--from", "earliest"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(broker))
    try:
        for i in range(5):
            ottla(broker, "produce", topic, data=f"{i}\n")
            assert follower.stdout.readline() == b"%d\n" % i
        follower.send_signal(signal.SIGINT)
        assert follower.wait(80) == 130
    finally:
        follower.kill()
        follower.wait()


def test_a_slow_pipe_is_sent_as_it_comes_and_ctrl_c_keeps_it(broker, topic, admin):
    producer = subprocess.Popen([str(BINARY), "produce", topic], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(broker))
    try:
        for i in range(3):
            producer.stdin.write(b"%d\n" % i)
            producer.stdin.flush()
            until(lambda: admin.list_offset(topic, -1)["offset"] == i + 1, 20, f"record {i}")
        producer.send_signal(signal.SIGINT)
        assert producer.wait(80) == 130
    finally:
        producer.kill()
        producer.wait()


def test_acknowledgements_name_partition_and_offset(broker, topic):
    assert ottla(broker, "produce", topic, "-o", "ndjson", data="a\nb\n").json == {"topic": topic, "partition": 0, "base_offset": 0, "records": 2}
    for acks in ("all", "1"):
        assert ottla(broker, "produce", topic, "-o", "ndjson", "--acks", acks, data="c\n").json["records"] == 1
    ottla(broker, "produce", topic, "--acks", "0", data="zero\n")
    until(lambda: b"zero" in ottla(broker, "consume", topic, *ALL).out, 20, "the record without acknowledgement")


def test_bad_input_names_the_line_and_keeps_what_stood_before(broker, topic):
    ran = ottla(broker, "produce", topic, "-f", "ndjson", data='{"value":{"string":"ok"}}\nnonsense\n', status=7)
    assert "line 2" in ran.err
    assert ottla(broker, "consume", topic, *ALL).out == b"ok\n"
    assert "longer than 100 bytes" in ottla(broker, "produce", topic, "--max-record-bytes", 100, data="x" * 500000, status=1).err


def test_a_refused_batch_ends_with_the_servers_words(broker, admin, name):
    admin.create(name, max_message_bytes=1000)
    ran = ottla(broker, "produce", name, data="x" * 5000 + "\n", status=1)
    assert f"error: {name}-0: MESSAGE_TOO_LARGE" in ran.err and "0 of 1 records stored" in ran.err
    ran = ottla(broker, "produce", name, "--batch-bytes", 100, data="small\n" * 3 + "x" * 5000 + "\n", status=7)
    assert "MESSAGE_TOO_LARGE" in ran.err
    assert ottla(broker, "consume", name, *ALL).lines == ["small"] * 3


def test_aborted_transactions_are_left_out_on_request(broker, topic, admin):
    """Markers come from the coordinator of transactions; a log without any reads the same at both levels."""
    ottla(broker, "produce", topic, data="a\nb\n")
    for level in ("read_committed", "read_uncommitted"):
        assert ottla(broker, "consume", topic, *ALL, "--isolation", level).lines == ["a", "b"]


def test_retries_survive_a_restart_of_the_server(own_broker):
    broker = own_broker()
    producer = subprocess.Popen([str(BINARY), "produce", "again", "-q"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(broker))
    feeding = {"on": True, "count": 0}

    def feed():
        while feeding["on"]:
            producer.stdin.write(b"%d\n" % feeding["count"])
            producer.stdin.flush()
            feeding["count"] += 1
            time.sleep(0.001)  # poll: a pace, not a wait
    thread = threading.Thread(target=feed)
    thread.start()
    try:
        with broker.connect() as c:
            from admin import Admin
            until(lambda: Admin(c).list_offset("again", -1).get("offset", 0) > 50, 30, "some records")
        broker.kill()
        broker.start()
        with broker.connect() as c:
            from admin import Admin
            before = Admin(c).list_offset("again", -1)["offset"]
            until(lambda: Admin(c).list_offset("again", -1)["offset"] > before + 50, 30, "records after the restart")
    finally:
        feeding["on"] = False
        thread.join()
        producer.stdin.close()
    assert producer.wait(240) == 0, producer.stderr.read().decode()
    assert ottla(broker, "consume", "again", *ALL).lines == [str(i) for i in range(feeding["count"])]


# ---- errors

def test_unreachable_is_6_and_unknown_is_3(broker, name):
    port = harness.free_ports(1)[0]
    for words in (["consume", name], ["produce", name]):
        ran = ottla(None, *words, "-b", f"127.0.0.1:{port}", status=6, data="x\n")
        assert "nothing listens there" in ran.err and ran.err.startswith("error: ")
    assert "nothing listens there" in ottla(None, "topic", "list", "--api", f"http://127.0.0.1:{port}", status=6).err
    ran = ottla(broker, "consume", name, status=3)
    assert f"no topic `{name}`" in ran.err and f"try: ottla topic create {name}" in ran.err
    assert "nothing listens" not in ottla(None, "consume", name, "-b", f"127.0.0.1:{port},{broker.bootstrap}", status=3).err  # the second one answers


@pytest.mark.parametrize("words, hint", [
    (["topik"], "ottla topic"), (["topic", "lst"], "ottla topic list"), (["consume", "x", "--fromm", "0"], "--from"), (["produce", "x", "-z", "lz5"], "--compression lz4"),
    (["consume", "x", "-f", "nonsense"], "--help"), (["consume", "x", "--from", "soon"], "earliest"), (["consume"], "<topic>"), (["consume", "x", "-g", ""], "--group billing"),
    (["produce", "x", "-f", "%k%v"], "between"), (["config", "get"], "--topic"), (["topic", "grow", "x"], "--partitions"), (["log"], "verb")])
def test_wrong_usage_is_2_and_names_what_is_near(words, hint):
    ran = ottla(None, *words, status=2)
    assert ran.out == b"" and ran.err.startswith("error: ") and hint in ran.err


def test_what_does_not_speak_kafka_is_told(broker, name):
    ran = ottla(None, "consume", name, "-b", broker.rest.split("//")[1], "--timeout-ms", "3000", status=6)
    assert ran.err.startswith("error: ")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert "no answer in time" in ottla(None, "consume", name, "-b", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout-ms", "300", status=6).err


def test_full_output_is_an_error(broker, topic):
    ottla(broker, "produce", topic, data="x" * 10000 + "\n")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([str(BINARY), "consume", topic, *ALL], stdout=full, stderr=subprocess.PIPE, env=environment(broker), timeout=120)
    assert done.returncode == 1 and b"standard output" in done.stderr


# ---- topics and configs over REST

def test_the_life_of_a_topic(broker, name):
    assert ottla(broker, "topic", "create", name, "--partitions", 3, "--config", "retention.ms=86400000").out.decode() == f"{name} created: 3 partitions, replication factor 1\n"
    assert "TOPIC_ALREADY_EXISTS" in ottla(broker, "topic", "create", name, status=4).err
    ottla(broker, "topic", "create", name, "--if-not-exists")
    rows = {r["topic"]: r for r in ottla(broker, "topic", "list", "-o", "json").json["items"]}
    assert rows[name]["partitions"] == 3 and rows[name]["overrides"] == {"retention.ms": "86400000"}
    assert name in ottla(broker, "topic", "list", "-o", "name", "--prefix", name[:10]).lines
    described = ottla(broker, "topic", "describe", name).lines
    assert re.fullmatch(r"partitions +3", described[3]) and any(line.startswith("PARTITION") for line in described)
    assert ottla(broker, "topic", "describe", name, "-o", "json").json["topic"] == name
    assert ottla(broker, "topic", "grow", name, "--partitions", 5).out
    assert len(ottla(broker, "topic", "isr", name, "--no-headers").lines) == 5
    assert "INVALID_PARTITIONS" in ottla(broker, "topic", "grow", name, "--partitions", 2, status=1).err
    refused = ottla(broker, "topic", "delete", name, status=2)
    assert "Nothing was done" in refused.err
    ottla(broker, "topic", "delete", name, "--yes")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in ottla(broker, "topic", "describe", name, status=3).err
    ottla(broker, "topic", "delete", name, "--yes", status=3)


def test_dry_runs_do_nothing(broker, name):
    assert "could be created" in ottla(broker, "topic", "create", name, "-n").out.decode()
    ottla(broker, "topic", "describe", name, status=3)


def test_offsets_and_trim(broker, topic):
    ottla(broker, "produce", topic, "--timestamp", "2026-01-01T00:00:00Z", data="old\n" * 10)
    ottla(broker, "produce", topic, "--timestamp", "2026-02-01T00:00:00Z", data="new\n" * 5)
    assert ottla(broker, "topic", "offsets", topic, "--no-headers").out.split() == [b"0", b"0", b"15", b"15"]
    assert ottla(broker, "topic", "offsets", topic, "--at", "2026-01-15T00:00:00Z", "-o", "json").json["items"][0]["offset"] == 10
    plan = ottla(broker, "topic", "trim", topic, "--before-offset", 10, "--dry-run", "-o", "json").json["items"]
    assert plan[0]["deleted_offsets"] == 10 and plan[0]["applied"] is False
    ottla(broker, "topic", "trim", topic, "--before-offset", 10, status=2)
    assert len(ottla(broker, "consume", topic, *ALL).lines) == 15
    ottla(broker, "topic", "trim", topic, "--before-offset", 10, "--yes")
    assert ottla(broker, "consume", topic, *ALL).lines == ["new"] * 5
    assert "OFFSET_OUT_OF_RANGE" in ottla(broker, "topic", "trim", topic, "--before-offset", 99, "--yes", status=1).err
    ottla(broker, "topic", "grow", topic, "--partitions", 2)
    for more in (["--dry-run"], ["--yes"]):  # an empty partition has nothing to lose, and stands in nobody's way
        rows = ottla(broker, "topic", "trim", topic, "--before-offset", 12, "-o", "json", *more).json["items"]
        assert [(r["partition"], r["log_start_offset"], r["deleted_offsets"]) for r in rows] == [(0, 12, 2), (1, 0, 0)]
    assert "OFFSET_OUT_OF_RANGE" in ottla(broker, "topic", "trim", topic, "--before-offset", 99, "--partition", 1, "--yes", status=1).err


def test_configs(broker, topic):
    ottla(broker, "config", "set", "--topic", topic, "retention.ms=5000", "cleanup.policy=delete")
    assert [line.split() for line in ottla(broker, "config", "get", "--topic", topic, "retention.ms", "--no-headers").lines] == [["retention.ms", "5000", "topic"]]
    ottla(broker, "config", "unset", "--topic", topic, "retention.ms")
    assert ottla(broker, "config", "get", "--topic", topic, "retention.ms", "--no-headers").lines[0].split()[1:] == ["604800000", "built_in"]
    assert "INVALID_CONFIG" in ottla(broker, "config", "set", "--topic", topic, "retention.ms=soon", status=1).err
    near = ottla(broker, "config", "get", "--topic", topic, "retention.m", status=3)
    assert "try: retention.ms" in near.err
    assert "listeners" in ottla(broker, "config", "get", "--broker", 1).out.decode()


def test_the_curl_that_is_printed_does_the_same(broker, topic):
    if not shutil.which("curl"):
        pytest.skip("no curl")
    body = ottla(broker, "topic", "describe", topic, "-o", "json").json
    line = ottla(broker, "topic", "describe", topic, "--curl").out.decode()
    done = subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, timeout=120, check=True)
    assert json.loads(done.stdout)["topic_id"] == body["topic_id"]
    line = ottla(broker, "config", "set", "--topic", topic, "retention.ms=7777", "--curl").out.decode()
    subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, timeout=120, check=True)
    assert "7777" in ottla(broker, "config", "get", "--topic", topic, "retention.ms").out.decode()
    assert ottla(broker, "topic", "describe", topic, "-v").err.startswith("curl -sS ")


# ---- files

def test_log_commands_on_the_files_of_a_server(own_broker, tmp_path):
    broker = own_broker()
    ottla(broker, "topic", "create", "logs", "--config", "segment.bytes=1048576")
    for codec in CODECS:
        ottla(broker, "produce", "logs", "-f", "%k %v\\n", "-z", codec, "--batch-bytes", "20k", data="".join(f"k{i} {codec} {os.urandom(400).hex()}\n" for i in range(1000)))
    assert "0 faults" in ottla(None, "log", "verify", broker.partition("logs")).err  # reading beside a running server is fine
    broker.stop()
    ottla(None, "log", "verify", broker.data)
    stats = ottla(None, "log", "stats", broker.data, "-o", "json").json
    assert stats[0]["partition"] == "logs-0" and stats[0]["records"] == 5000 and stats[0]["end_offset"] == 5000
    segments = ottla(None, "log", "segments", broker.partition("logs"), "-o", "json").json
    assert len(segments) > 2 and sum(s["records"] for s in segments) == 5000
    first = sorted(broker.partition("logs").glob("*.log"))[0]
    rows = [json.loads(line) for line in ottla(None, "log", "dump", first, "--records", "-o", "ndjson", "--from-offset", 10, "--to-offset", 20).lines]
    assert [r["offset"] for r in rows if r["row"] == "record"] == list(range(10, 20))
    assert "isvalid: true" in ottla(None, "log", "dump", first).out.decode()
    assert "position" in ottla(None, "log", "index", broker.partition("logs")).out.decode()
    bad = tmp_path / "logs-0"
    shutil.copytree(broker.partition("logs"), bad)
    target = sorted(bad.glob("*.log"))[0]
    data = bytearray(target.read_bytes())
    data[200] ^= 1
    target.write_bytes(data)
    ran = ottla(None, "log", "verify", bad, status=8)
    assert "checksum" in ran.out.decode() and "faults" in ran.err
    ottla(None, "log", "dump", target, status=8)
    ottla(None, "log", "dump", tmp_path / "nothing", status=3)
    ottla(None, "log", "verify", tmp_path / "nothing", status=3)


def test_a_partition_of_another_cluster_is_taken_in(own_broker):
    """As one of Kafka (cli_kafka_test.py): records, producers and leader epochs of elsewhere do not get in the way of what comes here."""
    theirs = own_broker()
    for i in range(3):  # leader epochs 0 to 2, producer ids from 0
        ottla(theirs, "produce", "orders", "-z", CODECS[i], data="".join(f"{i}-{j}\n" for j in range(500)))
        theirs.stop()
        theirs.start()
    sent = ottla(theirs, "consume", "orders", *ALL).out
    ours = own_broker(start=False)
    assert "stop the server" in ottla(None, "log", "adopt", theirs.partition("orders"), "--topic", "x", "--data", theirs.data, status=4).err
    theirs.stop()
    assert ottla(None, "log", "adopt", theirs.partition("orders"), "--topic", "taken", "--data", ours.data).out.startswith(b"taken-0: offsets 0 to 1500, ")
    assert "--partition" in ottla(None, "log", "adopt", theirs.data, "--topic", "taken", "--data", ours.data, status=2).err
    assert "no .log" in ottla(None, "log", "adopt", theirs.data, "--topic", "taken", "-p", 1, "--data", ours.data, status=3).err
    ours.start()
    assert ottla(ours, "consume", "taken", *ALL).out == sent
    for i in range(3):
        ottla(ours, "produce", "taken", data=f"new {i}\n")
    ours.kill()
    ours.start()
    ottla(ours, "produce", "taken", data="new 3\n")
    assert ottla(ours, "consume", "taken", *ALL).out == sent + b"new 0\nnew 1\nnew 2\nnew 3\n"
    ours.stop()
    ottla(None, "log", "verify", ours.data)


# ---- help

def test_help_begins_with_examples():
    for words in (["--help"], ["consume", "--help"], ["topic", "--help"], ["help", "log"], ["help", "topic", "create"]):
        assert ottla(None, *words).out.startswith(b"examples:\n")


def test_completion_in_bash(broker, topic):
    if not shutil.which("bash"):
        pytest.skip("no bash")

    def complete(*words):
        script = f'PATH={BINARY.parent}:$PATH; source <(ottla completion bash); COMP_WORDS=(ottla "$@"); COMP_CWORD=$#; _ottla; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", script, "x", *words], stdout=subprocess.PIPE, env=environment(broker), timeout=120, check=True)
        return done.stdout.decode().split()
    assert complete("pro") == ["produce"]
    assert complete("topic", "cr") == ["create"]
    assert complete("consume", "--fr") == ["--from"]
    assert complete("consume", topic[:-1]) == [topic]


def test_version_and_man_page():
    assert re.fullmatch(rb"ottla \d+\.\d+\.\d+ .*\n", ottla(None, "version").out)
    version = ottla(None, "version").out.split()[1]
    assert ottla(None, "man").out.startswith(b'.TH OTTLA 1 "" "ottla ' + version + b'"')


# ---- starting a server

def refused(*words, status):
    return ottla(None, "server", *words, status=status).err


def test_a_second_server_on_the_same_data_is_refused_with_the_directory(own_broker):
    broker = own_broker()
    port, rest = harness.free_ports(2)
    err = refused("--data", broker.data, "--set", f"listeners=PLAINTEXT://127.0.0.1:{port}", "--set", f"rest.listeners=http://127.0.0.1:{rest}", status=4)
    assert f"another server uses the data in {broker.data}" in err and "try: ottla server --data" in err


def test_a_taken_port_is_said_once_with_the_flag_that_changes_it(broker, tmp_path):
    err = refused("--data", tmp_path / "data", "--set", f"listeners=PLAINTEXT://127.0.0.1:{broker.port}", status=1)
    assert err.count("cannot listen on") == 1 and "try: ottla server --set listeners=" in err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("pair,words", [
    ("listeners=SSL://127.0.0.1:1", "SSL is not served yet"), ("listeners=SASL_PLAINTEXT://127.0.0.1:1", "SASL_PLAINTEXT is not served yet"),
    ("listeners=nonsense", "listeners: "), ("rest.listeners=nonsense", "rest.listeners: "), ("listeners=", "listeners is empty"),
    ("log.retention.hours=abc", "--set: Invalid value abc for configuration log.retention.hours"), ("log.retention.hour=3", "did you mean log.retention.hours?")])
def test_check_finds_what_would_stop_a_start(pair, words):
    assert words in refused("--check", "--set", pair, status=2)


def test_a_partition_without_records_verifies(own_broker, name):
    broker = own_broker()
    ottla(broker, "topic", "create", name, "--partitions", 2)
    broker.stop()
    ran = ottla(None, "log", "verify", broker.data)
    assert ran.err.count(": ok: ") == 2, ran.err
