"""Bytes from an enemy on the open ports: the server answers or closes, keeps its memory, and serves the others."""
import os
import random
import resource
import socket
import struct
import time

import pytest

import batch
import harness
import wire
from admin import Admin, error
from harness import until
from static_configs_test import metric

SEED = int(os.environ.get("OTTLA_HOSTILE_SEED", "1"))
MB = 1 << 20
SLOW = harness.PRESET in ("asan", "tsan")


def status_kb(broker, key):
    with open(f"/proc/{broker.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key + ":"))


def descriptors(broker):
    return len(os.listdir(f"/proc/{broker.process.pid}/fd"))


def still_serves(broker, name):
    assert broker.alive(), f"the server went down with {broker.process.poll()}:\n{broker.log_tail(80)}"
    with broker.connect(timeout_s=30) as c:
        admin = Admin(c)
        if admin.describe(name)["errorCode"] != 0:
            admin.create(name)
        end = admin.list_offset(name, -1)["offset"]
        assert admin.produce(name, "still") == end
        assert admin.records(name, end)[-1][3] == b"still"


def talk(broker, data, timeout_s=2):
    """Send bytes and end; what comes back until the other side closes or is silent."""
    out = b""
    with socket.create_connection(("127.0.0.1", broker.port), 10) as s:
        s.settimeout(timeout_s)
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while piece := s.recv(1 << 16):
                out += piece
        except (ConnectionError, TimeoutError):
            pass
    return out


def sample(fields, version, flexible, rng, topic, depth=0):
    """A plausible value of every field: small lists, the topic's name where a name is asked."""
    out = {}
    for f in fields:
        if version not in f.versions or (flexible and version in f.tagged):
            continue
        one = lambda: sample_one(f, version, flexible, rng, topic, depth)  # noqa: E731
        out[f.name] = [one() for _ in range(rng.randrange(3))] if f.array else one()
    return out


def sample_one(f, version, flexible, rng, topic, depth):
    if f.kind in wire.INTS:
        top = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 63}.get(f.kind, 8)
        value = rng.choice([0, 1, -1, 2, 100, (1 << top) - 1, -(1 << top)])
        return max(value, 0) if f.kind.startswith("u") else value
    if f.kind == "bool":
        return rng.random() < 0.5
    if f.kind == "uuid":
        return rng.choice([wire.NO_ID, rng.randbytes(16)])
    if f.kind == "string":
        return rng.choice([topic, topic, "", "x" * rng.randrange(300), "../../etc", "\u00e9\u0000\n"])
    if f.kind in ("bytes", "records"):
        good = batch.build([rng.randbytes(20)])
        return rng.choice([good, good[:-1], rng.randbytes(90), b"", good + good])
    return sample(f.fields, version, flexible, rng, topic, depth + 1)


def worsen(data, rng):
    """One wrong thing: a cut, a huge or negative number, a flipped bit, bytes put in or left behind."""
    kind, data = rng.randrange(7), bytearray(data)
    at = rng.randrange(len(data)) if data else 0
    if kind == 0:
        return bytes(data[:at])
    if kind == 1:
        data[at:at + 4] = rng.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\x0f\xff\xff"])
    elif kind == 2:
        data[at:at + 1] = rng.choice([b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x80\x01"])
    elif kind == 3 and data:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 4:
        data[at:at] = rng.randbytes(rng.randrange(1, 20))
    elif kind == 5:
        data += rng.randbytes(rng.randrange(1, 200))
    return bytes(data)


@pytest.mark.parametrize("part", range(4))
def test_worsened_requests_of_every_api_and_version(own_broker, name, part):
    rng = random.Random(SEED * 4 + part)
    broker = own_broker(num_partitions="1", auto_create_topics_enable="false")
    still_serves(broker, name)
    pairs = [(api, v) for api, (low, high) in wire.api_ranges().items() for v in range(low, high + 1)]
    for api, version in pairs[part::4]:
        m = wire.message(api + "Request")
        frames = []
        for _ in range(6):
            body = wire.encode_fields(m.fields, version, version in m.flexible,
                                      sample(m.fields, version, version in m.flexible, rng, name), api)
            frame = wire.request_bytes(api, version, worsen(body, rng))
            frames.append(frame if rng.random() < 0.8 else worsen(frame, rng))
        for frame in frames:
            talk(broker, frame, 0.05)
        assert broker.alive(), f"{api} {version}:\n{broker.log_tail(80)}"
    still_serves(broker, name)


def test_sizes_and_heads_that_lie(own_broker, name):
    rng = random.Random(SEED)
    broker = own_broker()
    still_serves(broker, name)
    before = status_kb(broker, "VmRSS")
    for size in [-1, -(1 << 31), 0, 1, 2, 7, 8, (1 << 31) - 1, 200 * MB]:
        with socket.create_connection(("127.0.0.1", broker.port), 10) as s:
            s.sendall(struct.pack(">i", size) + b"\0" * 64)
            if not 8 <= size <= 100 * MB:
                s.settimeout(10)
                try:
                    assert s.recv(1) == b"", f"size {size} was answered"
                except ConnectionResetError:
                    pass
    for _ in range(200):
        talk(broker, struct.pack(">ihhih", 10, rng.randrange(-40, 120), rng.randrange(-3, 30), 1, -1), 0.05)
        talk(broker, rng.randbytes(rng.randrange(1, 200)), 0.02)
    talk(broker, b"GET / HTTP/1.1\r\n\r\n")
    talk(broker, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + rng.randbytes(500))
    claims = [socket.create_connection(("127.0.0.1", broker.port), 10) for _ in range(40)]
    for s in claims:
        s.sendall(struct.pack(">i", 90 * MB) + b"\0\0\0\x09" + b"\0" * 1000)  # 3.6 GB claimed, 40 KB sent
    still_serves(broker, name)
    assert status_kb(broker, "VmRSS") - before < (400 if SLOW else 100) * 1024
    for s in claims:
        s.close()
    still_serves(broker, name)


def test_large_requests_that_do_not_come_hold_up_no_small_ones(own_broker, name):
    """A few bytes each announce more than all the memory for requests, for the two minutes that a client may be silent."""
    broker = own_broker(ottla_memory_bytes=str(192 * MB))
    still_serves(broker, name)
    silent = [socket.create_connection(("127.0.0.1", broker.port), 10) for _ in range(12)]
    for s in silent:
        s.sendall(struct.pack(">i", 26 * MB) + b"\0\0\0\x09")
    until(lambda: metric(broker, "ottla_memory_pool_used_bytes", pool="requests") >= 26 * MB, 20, "the memory for requests is taken", 0.02)
    for _ in range(5):
        still_serves(broker, name)
    for s in silent:
        s.close()
    still_serves(broker, name)


@pytest.mark.long
def test_many_connections_come_and_go(own_broker, name):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    broker = own_broker()
    still_serves(broker, name)
    before = descriptors(broker)
    open_ones = [socket.create_connection(("127.0.0.1", broker.port), 10) for _ in range(1500)]
    for i, s in enumerate(open_ones):
        s.sendall(wire.request_bytes("ApiVersions", 3, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"})[:1 + i % 20])
    still_serves(broker, name)
    for i, s in enumerate(open_ones):
        if i % 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST
        s.close()
    for _ in range(2000):
        socket.create_connection(("127.0.0.1", broker.port), 10).close()
    until(lambda: descriptors(broker) <= before + 4, 30, lambda: f"{descriptors(broker)} descriptors, {before} before")
    still_serves(broker, name)


def test_answers_that_nobody_reads_do_not_fill_the_memory(own_broker, name):
    """Deep pipelining of large fetches and of metadata, nothing read: memory stays under the budget, others are served."""
    broker = own_broker(ottla_memory_bytes=str(192 * MB))
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name)
        for i in range(40):
            assert admin.produce_raw(name, batch.build([os.urandom(900 * 1024)]))["errorCode"] == 0
    ask = wire.request_bytes("Fetch", 12, {"replicaId": -1, "maxWaitMs": 0, "minBytes": 1, "maxBytes": 50 * MB, "isolationLevel": 0,
                                           "sessionId": 0, "sessionEpoch": -1, "topics": [{"topic": name, "partitions": [
                                               {"partition": 0, "currentLeaderEpoch": -1, "fetchOffset": 0, "lastFetchedEpoch": -1,
                                                "logStartOffset": -1, "partitionMaxBytes": 50 * MB}]}],
                                           "forgottenTopicsData": [], "rackId": ""})
    all_topics = wire.request_bytes("Metadata", 12, {"topics": None, "allowAutoTopicCreation": False})
    deaf = []
    for i in range(24):
        s = socket.create_connection(("127.0.0.1", broker.port), 10)
        s.setblocking(False)
        deaf.append(s)
        data = (ask if i % 2 else all_topics) * 2000
        try:
            while data:
                data = data[s.send(data):]
        except BlockingIOError:
            pass
    for _ in range(5):
        time.sleep(0.3)  # let answers pile up  # poll
        still_serves(broker, name)
    assert status_kb(broker, "VmHWM") < (800 if SLOW else 256) * 1024, f"{status_kb(broker, 'VmHWM')} KiB"
    for s in deaf:
        s.close()
    still_serves(broker, name)


@pytest.mark.long
def test_bombs_are_refused_within_the_decoding_pool(own_broker, name):
    broker = own_broker(ottla_memory_bytes=str(192 * MB), message_max_bytes=str(16 * MB))
    still_serves(broker, name)
    zeros = bytes(200 * MB)
    with broker.connect(timeout_s=60) as c:
        admin = Admin(c)
        end = admin.list_offset(name, -1)["offset"]
        for codec in ("gzip", "lz4", "zstd"):
            payload = batch.record(0, None, zeros)
            for count, data in ((1, payload), (1, payload[:-5]), (1000000, batch.record(0, None, b"") * 10)):
                head = (0, 0, -1, 2, 0, batch.CODECS[codec], count - 1, 1, 1, -1, -1, -1, count)
                answer = admin.produce_raw(name, batch.seal(head, batch.compress(codec, data)))
                assert error(answer) in ("NONE", "INVALID_RECORD", "CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE",
                                         "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_SERVER_ERROR"), answer
                if data is not payload:
                    assert error(answer) != "NONE", f"{codec} {count}"
        for size in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08"):  # raw snappy that claims 4 GiB and 2 GiB
            head = (0, 0, -1, 2, 0, 2, 0, 1, 1, -1, -1, -1, 1)
            assert error(admin.produce_raw(name, batch.seal(head, size + b"\0" * 50))) != "NONE"
        assert admin.list_offset(name, -1)["offset"] <= end + 3
    assert status_kb(broker, "VmHWM") < (1200 if SLOW else 320) * 1024, f"{status_kb(broker, 'VmHWM')} KiB"
    still_serves(broker, name)


@pytest.mark.long
def test_leaked_fetch_sessions_are_thrown_out(own_broker, name):
    broker = own_broker()
    still_serves(broker, name)
    with broker.connect() as c:
        admin = Admin(c)
        grown = []
        for number in range(3000):
            answer = c.ask("Fetch", 12, {
                "replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 1000, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": 0,
                "topics": [{"topic": name, "partitions": [{
                    "partition": p, "currentLeaderEpoch": -1, "fetchOffset": 0, "lastFetchedEpoch": -1, "logStartOffset": -1,
                    "partitionMaxBytes": 1} for p in range(50)]}],
                "forgottenTopicsData": [], "rackId": ""})
            assert answer["errorCode"] == 0
            if number in (1500, 2999):
                grown.append(status_kb(broker, "VmRSS"))
    assert grown[1] - grown[0] < (200 if SLOW else 16) * 1024, grown
    still_serves(broker, name)


@pytest.mark.long
def test_slow_senders_are_let_go_and_others_served(own_broker, name):
    broker = own_broker(ottla_connection_progress_timeout_ms="1000")
    still_serves(broker, name)
    data = wire.request_bytes("Metadata", 12, {"topics": [{"name": name}], "allowAutoTopicCreation": False})
    slow = [socket.create_connection(("127.0.0.1", broker.port), 10) for _ in range(200)]
    gone = set()
    for byte in range(8):
        for i, s in enumerate(slow):
            try:
                s.sendall(data[byte:byte + 1])
            except OSError:
                gone.add(i)
        still_serves(broker, name)
        time.sleep(0.5)  # one byte each half a second  # poll
    for s in slow:
        s.close()
    still_serves(broker, name)


# ---- REST

def rest_talk(broker, data, timeout_s=30):
    out = b""
    with socket.create_connection(("127.0.0.1", broker.rest_port), 10) as s:
        s.settimeout(timeout_s)
        try:
            s.sendall(data)
            while piece := s.recv(1 << 16):
                out += piece
        except (ConnectionError, TimeoutError):
            pass
    return out


def status_of(answer):
    assert answer.startswith(b"HTTP/1.1 "), answer[:200]
    return int(answer.split(b" ")[1])


def post(path, body, host="127.0.0.1", extra=b"", length=None):
    return (b"POST " + path + b" HTTP/1.1\r\nHost: " + host.encode() + b"\r\nContent-Type: application/json\r\nConnection: close\r\n" + extra +
            b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body)


@pytest.mark.long
def test_rest_refuses_what_is_not_http_or_too_large(own_broker, name):
    broker = own_broker()
    still_serves(broker, name)
    rng = random.Random(SEED)
    host = b"Host: 127.0.0.1\r\nConnection: close\r\n"
    for wrong in (b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /v1/topics HTTP/1.1\r\n\r\n", b"\0" * 100,
                  b"GET /v1/topics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
                  b"POST /v1/topics HTTP/1.1\r\n" + host + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                  b"POST /v1/topics HTTP/1.1\r\n" + host + b"Content-Length: -5\r\n\r\n", b"POST /v1/topics HTTP/1.1\r\n" + host + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
                  b"POST /v1/topics HTTP/1.1\r\n" + host + b"Content-Length: 99999999999999999999\r\n\r\n",
                  b"POST /v1/topics HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
                  b"POST /v1/topics HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
                  b"GET /v1/topics HTTP/1.1\r\n" + host + b"A: " + b"x" * 100000 + b"\r\n\r\n",
                  b"GET /v1/topics HTTP/1.1\r\n" + host + b"A: x\r\n" * 20000 + b"\r\n",
                  b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + host + b"\r\n"):
        answer = rest_talk(broker, wrong)
        assert answer == b"" or 400 <= status_of(answer) < 600, (wrong[:80], answer[:200])
    assert status_of(rest_talk(broker, post(b"/v1/topics", b"{}", length=1 << 40))) == 413
    for path in (b"/../../etc/passwd", b"/v1/topics/../../../etc/passwd", b"/v1/topics/%2e%2e%2f%2e%2e%2fetc%2fpasswd", b"/v1/topics/%00",
                 b"/v1/topics/%zz", b"/v1/topics/" + b"a" * 300, b"/v1/topics/%ff%fe", b"//v1//topics", b"/v1/topics/..", b"/v1/topics/x/partitions/99999999999/records",
                 b"/v1/topics/x/partitions/-1/records", b"*", b"http://evil/v1/topics/none"):
        answer = rest_talk(broker, b"GET " + path + b" HTTP/1.1\r\n" + host + b"\r\n")
        assert 400 <= status_of(answer) < 500, (path, answer[:300])
        assert b"root:" not in answer
    assert 400 <= status_of(rest_talk(broker, b"GET /v1/topics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")) < 500
    for _ in range(150):
        text = b"POST /v1/topics HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"name\":\"a\"}"
        rest_talk(broker, worsen(text, rng), 0.05)
    still_serves(broker, name)


def test_rest_refuses_hostile_json(own_broker, name):
    broker = own_broker()
    still_serves(broker, name)
    deep = b"[" * 200000 + b"]" * 200000
    for body in (deep, b'{"name":' * 100000 + b"1" + b"}" * 100000, b'{"name":"a","name":"b"}', b'{"name":"\xff\xfe"}', b'{"name":"\\ud800"}', b'{"name":"a\\u0000b"}',
                 b'{"name":1e999}', b'{"name":"ok","partitions":1e400}', b'{"name":"ok","partitions":99999999999999999999}',
                 b'{"name":"ok","partitions":-1}', b'{"name":"ok","partitions":1.5}', b'{"name":"ok","partitions":2147483647}', b'{"name":"ok"', b"", b"null", b"[]", b'"x"', b"{}{}",
                 b'{"name":"../x"}', b'{"name":"."}', b'{"name":"' + b"a" * 250 + b'"}', b'\xef\xbb\xbf{"name":1}', b'{"name":"ok","configs":{"a":' + deep + b"}}"):
        answer = rest_talk(broker, post(b"/v1/topics", body))
        assert 400 <= status_of(answer) < 500, (body[:60], answer[:400])
        assert b"application/problem+json" in answer, (body[:60], answer[:400])
    base = f"/v1/topics/{name}/partitions/0/records".encode()
    for body in (deep, b'{"records":[]}', b'{"records":[{}', b'{"records":[{"value":{"string":"a","json":1}}]}', b'{"records":[{"value":{"binary":"!!!"}}]}',
                 b'{"records":[{"value":{"string":"a"},"timestamp_ms":99999999999999999999}]}', b'{"records":{"value":1}}',
                 b'{"records":[' + b"1," * 100000 + b"1]}"):
        answer = rest_talk(broker, post(base, body))
        assert 400 <= status_of(answer) < 500, (body[:60], answer[:400])
    still_serves(broker, name)


def test_rest_slow_bodies_pipelines_and_many_connections(own_broker, name):
    broker = own_broker()
    still_serves(broker, name)
    before = descriptors(broker)
    held = []
    for i in range(40):  # 64 per address are let in
        s = socket.create_connection(("127.0.0.1", broker.rest_port), 10)
        s.sendall((post(b"/v1/topics", b"{", length=1000000), b"GET /v1/to", b"G")[i % 3])
        held.append(s)
    deaf = socket.create_connection(("127.0.0.1", broker.rest_port), 10)
    deaf.setblocking(False)
    data = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20000
    try:
        while data:
            data = data[deaf.send(data):]
    except (BlockingIOError, ConnectionError):
        pass
    time.sleep(1)  # answers pile up  # poll
    assert harness.http(broker.rest + "/readyz")[0] == 200
    still_serves(broker, name)
    assert status_kb(broker, "VmHWM") < (1000 if SLOW else 200) * 1024, f"{status_kb(broker, 'VmHWM')} KiB"
    for s in [*held, deaf]:
        s.close()
    until(lambda: descriptors(broker) <= before + 4, 30, lambda: f"{descriptors(broker)} descriptors, {before} before")
    pipelined = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50 + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    assert rest_talk(broker, pipelined).count(b"HTTP/1.1 200") == 51
