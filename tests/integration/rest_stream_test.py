"""REST: following a topic as an event stream, and browsing it backwards from its newest records."""
import http.client
import json
import socket
import threading

import pytest

from harness import until
from rest_test import Rest, made, rest  # noqa: F401 (fixtures)

pytestmark = pytest.mark.smoke


class Tail:
    """One event stream, read by a thread of its own: events in order, comments beside them."""

    def __init__(self, broker, path, headers=None):
        host, port = broker.rest.removeprefix("http://").split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=30)
        self.connection.request("GET", path, headers=headers or {})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        assert self.answer.headers["Content-Type"] == "text/event-stream"
        self.events, self.comments, self.over = [], 0, False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        event = {}
        try:
            while line := self.answer.readline():
                line = line.decode().rstrip("\n")
                if line == "":
                    if event.get("event"):
                        self.events.append(event)
                    event = {}
                elif line[0] == ":":
                    self.comments += 1
                else:
                    name, _, value = line.partition(": ")
                    event[name] = value
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass
        self.over = True

    def records(self):
        return [json.loads(e["data"]) for e in list(self.events) if e["event"] == "record"]

    def values(self):
        return [str(list(r["value"].values())[0]) for r in self.records()]

    def wait(self, count, bound_s=20):
        until(lambda: len(self.events) >= count or self.over, bound_s, lambda: f"{count} events, {len(self.events)} came")
        assert len(self.events) >= count, self.events[-3:]
        return self.records()

    def close(self):
        if self.connection.sock:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(10)
        self.connection.close()


@pytest.fixture
def tail(broker):
    open_ones = []

    def start(path, **headers):
        open_ones.append(Tail(broker, path, headers))
        return open_ones[-1]
    yield start
    for one in open_ones:
        one.close()


def streams(rest):
    lines = rest.ask("GET", "/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("ottla_rest_streams ")).split()[1])


# ---- tail

def test_what_is_written_comes_at_once(rest, made, tail):
    rest.produce(made, {"value": {"string": "before"}})
    stream = tail(f"/v1/topics/{made}/tail")
    until(lambda: streams(rest) >= 1, 10, "the stream is counted")
    for i in range(20):
        rest.produce(made, {"key": {"string": f"k{i}"}, "value": {"json": {"n": i}}, "headers": [{"name": "h", "value": {"string": "x"}}]})
    records = stream.wait(20)
    assert [r["value"]["json"]["n"] for r in records] == list(range(20))
    assert [r["offset"] for r in records] == list(range(1, 21)) and all(r["partition"] == 0 for r in records)


def test_a_stream_goes_on_where_it_was_cut(rest, name, tail):
    rest.create(name, 3)
    first = tail(f"/v1/topics/{name}/tail")
    rest.produce(name, *[{"value": {"string": str(i)}, "partition": i % 3} for i in range(9)])
    first.wait(9)
    last = first.events[-1]["id"]
    first.close()
    rest.produce(name, *[{"value": {"string": str(i)}, "partition": i % 3} for i in range(9, 18)])
    second = tail(f"/v1/topics/{name}/tail", **{"Last-Event-ID": last})
    second.wait(9)
    assert sorted(first.values() + second.values(), key=int) == [str(i) for i in range(18)]
    rest.problem("GET", f"/v1/topics/{name}/tail", 400, "HTTP_BAD_REQUEST", headers={"Last-Event-ID": "7:1"})


def test_a_stream_is_filtered(rest, name, tail):
    rest.create(name, 2)
    one = tail(f"/v1/topics/{name}/tail?contains=blue&value_as=string")
    two = tail(f"/v1/topics/{name}/tail?partition=1")
    three = tail(f"/v1/topics/{name}/tail?key=a")
    for i, colour in enumerate(["red", "blue", "green", "dark blue"]):
        rest.produce(name, {"key": {"string": "ab"[i % 2]}, "value": {"string": colour}, "partition": i // 2})
    one.wait(2), two.wait(2), three.wait(2)
    assert one.values() == ["blue", "dark blue"] and two.values() == ["green", "dark blue"] and three.values() == ["red", "green"]


def test_json_with_line_breaks_stays_one_event(rest, made, tail):
    stream = tail(f"/v1/topics/{made}/tail")
    rest.ask("POST", f"/v1/topics/{made}/records", '{\n  "a": [1,\r\n 2]\n}'.encode(), headers={"Content-Type": "application/octet-stream"})
    assert stream.wait(1)[0]["value"] == {"json": {"a": [1, 2]}}


def test_a_stream_takes_partitions_that_are_added(rest, made, tail):
    stream = tail(f"/v1/topics/{made}/tail")
    rest.ask("POST", f"/v1/topics/{made}/partitions", {"count": 2})
    rest.produce(made, {"value": {"string": "old"}, "partition": 0})
    stream.wait(1)
    rest.produce(made, {"value": {"string": "new"}, "partition": 1})
    assert [r["partition"] for r in stream.wait(2)] == [0, 1]


def test_a_stream_says_why_it_ends(rest, made, tail):
    stream = tail(f"/v1/topics/{made}/tail")
    rest.ask("DELETE", f"/v1/topics/{made}", status=204)
    until(lambda: stream.over, 20, "the end")
    assert stream.events[-1]["event"] == "end" and json.loads(stream.events[-1]["data"])["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_deleted_offsets_are_a_gap(rest, made, tail):
    rest.produce(made, *[{"value": {"string": str(i)}} for i in range(10)])
    rest.ask("POST", f"/v1/topics/{made}/partitions/0/records/delete", {"before_offset": 6, "dry_run": False})
    stream = tail(f"/v1/topics/{made}/tail", **{"Last-Event-ID": "0:2"})
    stream.wait(5)
    assert stream.events[0]["event"] == "gap" and json.loads(stream.events[0]["data"]) == {"partition": 0, "from_offset": 2, "to_offset": 6}
    assert stream.values() == ["6", "7", "8", "9"]


def test_a_slow_reader_gets_everything_and_holds_up_nobody(rest, broker, made):
    """Its socket fills up; what it did not take is read for it later, and others are served meanwhile."""
    host, port = broker.rest.removeprefix("http://").split(":")
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.settimeout(30)
    slow.connect((host, int(port)))
    slow.sendall(f"GET /v1/topics/{made}/tail HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert slow.recv(12) == b"HTTP/1.1 200"
    count, value = 60, "x" * 100000
    for i in range(count):
        rest.produce(made, {"key": {"string": f"key-{i:04}"}, "value": {"string": value}})
    assert rest.get(f"/v1/topics/{made}")["records_estimate"] == count
    data = b""
    while data.count(b"event: record") < count or b"key-%04d" % (count - 1) not in data:
        piece = slow.recv(1 << 16)
        assert piece, "the stream ended"
        data += piece
    slow.close()
    assert [data.count(b"key-%04d" % i) for i in range(count)] == [1] * count


def test_streams_that_were_left_are_closed(own_broker, name):
    broker = own_broker()                           # with no stream that another test has left, and that ends meanwhile
    rest = Rest(broker)
    rest.create(name)
    stream = Tail(broker, f"/v1/topics/{name}/tail")
    until(lambda: streams(rest) == 1, 10, "a stream")
    stream.close()

    def closed():                                   # the second piece that nobody takes tells
        rest.produce(name, {"value": {"string": "x"}})
        return streams(rest) == 0
    until(closed, 20, lambda: f"{streams(rest)} streams", 0.05)


def test_wishes_of_a_stream_are_checked(rest, made):
    rest.problem("GET", "/v1/topics/nosuch/tail", 404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert rest.problem("GET", f"/v1/topics/{made}/tail", 400, "INVALID_REQUEST", partition="3")["errors"][0]["parameter"] == "partition"
    for bad in ("", "0,0", "0,", "x", "-1"):
        rest.problem("GET", f"/v1/topics/{made}/tail", 400, "INVALID_REQUEST", partition=bad)
    rest.problem("GET", f"/v1/topics/{made}/tail", 406, "HTTP_NOT_ACCEPTABLE", headers={"Accept": "text/csv"})


def test_a_stop_ends_streams(own_broker, name):
    broker = own_broker()
    rest = Rest(broker)
    rest.create(name)
    idle, busy = Tail(broker, f"/v1/topics/{name}/tail"), Tail(broker, f"/v1/topics/{name}/tail")
    rest.produce(name, {"value": {"string": "x"}})
    busy.wait(1)
    broker.stop()
    until(lambda: idle.over and busy.over, 20, "both ended")


def test_there_is_an_end_to_streams(own_broker, name):
    broker = own_broker()
    rest = Rest(broker)
    rest.create(name)
    sockets = []
    host, port = broker.rest.removeprefix("http://").split(":")
    refused = None
    for i in range(129):
        s = socket.socket()
        s.bind((f"127.0.0.{2 + i // 60}", 0))       # at most 64 connections from one address
        s.settimeout(10)
        s.connect((host, int(port)))
        s.sendall(f"GET /v1/topics/{name}/tail HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        status = s.recv(12)
        sockets.append(s)
        if status == b"HTTP/1.1 503":
            refused = i
            break
        assert status == b"HTTP/1.1 200"
    assert refused == 128
    for s in sockets:
        s.close()


# ---- browse

def browse(rest, name, **query):
    return rest.get(f"/v1/topics/{name}/records", **query)


def seen(answer):
    return [str(list(r["value"].values())[0]) for r in answer["records"]]


def test_the_newest_come_first_across_partitions(rest, name):
    rest.create(name, 3)
    rest.produce(name, *[{"value": {"string": str(i)}, "partition": i % 3, "timestamp_ms": 1000 + i} for i in range(30)])
    answer = browse(rest, name, limit=12)
    assert seen(answer) == [str(i) for i in range(29, 17, -1)] and not answer["complete"] and answer["stopped_by"] == "limit"
    everything = seen(answer)
    while answer["continue_token"]:
        answer = browse(rest, name, limit=7, continue_token=answer["continue_token"])
        everything += seen(answer)
    assert everything == [str(i) for i in range(29, -1, -1)] and answer["complete"] and answer["stopped_by"] is None


def test_pages_stay_right_while_records_come(rest, name):
    rest.create(name, 2)
    rest.produce(name, *[{"value": {"string": str(i)}, "partition": i % 2, "timestamp_ms": 1000 + i} for i in range(10)])
    first = browse(rest, name, limit=4)
    rest.produce(name, *[{"value": {"string": "late"}, "partition": i % 2} for i in range(4)])
    second = browse(rest, name, limit=100, continue_token=first["continue_token"])
    assert seen(first) + seen(second) == [str(i) for i in range(9, -1, -1)]


def test_within_a_partition_the_log_decides(rest, made):
    """Timestamps of producers may go backwards; offsets do not."""
    rest.produce(made, *[{"value": {"string": str(i)}, "timestamp_ms": 10000 - i} for i in range(5)])
    assert seen(browse(rest, made)) == ["4", "3", "2", "1", "0"]


def test_browsing_with_filters(rest, name):
    rest.create(name, 2)
    rest.produce(name, *[{"key": {"string": f"k{i % 5}"}, "value": {"json": {"n": i}}, "partition": i % 2, "timestamp_ms": 1000 + i,
                          "headers": [{"name": "trace", "value": {"string": f"t-{i}"}}]} for i in range(200)])
    assert [r["value"]["json"]["n"] for r in browse(rest, name, key="k3", limit=3)["records"]] == [198, 193, 188]
    assert [r["value"]["json"]["n"] for r in browse(rest, name, contains='"n":17')["records"]] == [179, 178, 177, 176, 175, 174, 173, 172, 171, 170, 17]
    assert [r["value"]["json"]["n"] for r in browse(rest, name, contains="t-42")["records"]] == [42]
    one = browse(rest, name, partition=1, limit=1000)
    assert len(one["records"]) == 100 and {r["partition"] for r in one["records"]} == {1} and one["complete"]
    none = browse(rest, name, contains="no such thing")
    assert none["records"] == [] and none["complete"] and none["scanned"]["records"] == 200


def test_a_scan_is_bounded_and_goes_on(rest, name):
    """100 000 records are looked at, then one is told where to go on."""
    rest.create(name)
    rest.produce(name, {"value": {"string": "needle"}})
    lines = ("hay\n" * 60000).encode()
    for _ in range(2):
        rest.ask("POST", f"/v1/topics/{name}/records", lines, headers={"Content-Type": "application/x-ndjson"})
    answer = browse(rest, name, contains="needle")
    assert answer["records"] == [] and answer["stopped_by"] == "scanned_records" and 100000 <= answer["scanned"]["records"] <= 110000
    assert answer["partitions"][0]["seen_down_to"] > 1
    answer = browse(rest, name, contains="needle", continue_token=answer["continue_token"])
    assert seen(answer) == ["needle"] and answer["complete"]


def test_large_records_are_browsed_in_bounded_memory(rest, name):
    rest.create(name, 2, max_message_bytes="2000000")
    for i in range(24):
        rest.produce(name, {"value": {"string": f"{i:04}" + "y" * 900000}, "partition": i % 2, "timestamp_ms": 1000 + i})
    answer, found = browse(rest, name, limit=1000, value_limit_bytes=4), []
    for _ in range(100):
        found += seen(answer)
        if not answer["continue_token"]:
            break
        answer = browse(rest, name, limit=1000, value_limit_bytes=4, continue_token=answer["continue_token"])
    assert [int(v) for v in found] == list(range(23, -1, -1))
    whole = browse(rest, name, limit=1000)
    assert whole["stopped_by"] == "bytes" and 8 <= len(whole["records"]) < 24


def test_few_browse_at_a_time(rest, broker, name):
    """The others are told to come again, and nothing is left behind."""
    rest.create(name)
    rest.ask("POST", f"/v1/topics/{name}/records", ("hay\n" * 60000).encode(), headers={"Content-Type": "application/x-ndjson"})
    answers = []

    def ask():
        for _ in range(4):
            answers.append(Rest(broker).session.get(f"{broker.rest}/v1/topics/{name}/records", params={"contains": "needle"}, timeout=60))
    threads = [threading.Thread(target=ask) for _ in range(12)]
    [t.start() for t in threads], [t.join(60) for t in threads]
    assert len(answers) == 48 and {a.status_code for a in answers} <= {200, 503} and any(a.status_code == 200 for a in answers)
    assert all(a.headers["Retry-After"] for a in answers if a.status_code == 503)
    assert browse(rest, name, contains="needle")["scanned"]["records"] == 60000


def test_tokens_are_of_one_topic(rest, name, made):
    rest.create(name + "-b")
    rest.produce(made, {"value": {"string": "1"}}, {"value": {"string": "2"}})
    token = browse(rest, made, limit=1)["continue_token"]
    rest.problem("GET", f"/v1/topics/{name}-b/records", 400, "INVALID_REQUEST", continue_token=token)
    rest.problem("GET", f"/v1/topics/{made}/records", 400, "INVALID_REQUEST", continue_token="bm9uZQ")


def test_records_as_lines(rest, made):
    rest.produce(made, {"value": {"json": {"a": 1}}}, {"value": {"string": "two"}})
    answer = rest.ask("GET", f"/v1/topics/{made}/records", headers={"Accept": "application/x-ndjson"}, limit=1)
    assert [json.loads(line)["value"] for line in answer.text.splitlines()] == [{"string": "two"}] and answer.headers["Ottla-Continue-Token"]
    answer = rest.ask("GET", f"/v1/topics/{made}/partitions/0/records", format="ndjson")
    assert [json.loads(line)["offset"] for line in answer.text.splitlines()] == [0, 1]
    assert answer.headers["Ottla-Next-Offset"] == "2" and answer.headers["Ottla-High-Watermark"] == "2"
