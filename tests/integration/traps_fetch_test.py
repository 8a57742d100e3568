"""Compatibility traps F: fetching, sessions, offsets by time, epochs and record deletion."""
import time

import pytest

import batch
import harness
from admin import Admin, error
from harness import until
from wire import NO_ID

FETCH_VERSIONS = range(4, 19)


# ---- what comes back

@pytest.mark.smoke
def test_an_offset_inside_a_batch_returns_the_whole_batch(admin, topic):
    for codec in ("none", "zstd"):
        admin.produce(topic, *"abcde", codec=codec)
    for offset in range(10):
        first = batch.read(admin.fetch(topic, offset)["records"])[0]
        assert first.base_offset == offset // 5 * 5 and first.last_delta == 4


def test_the_first_batch_comes_even_above_every_limit(admin, topic):
    for _ in range(3):
        admin.produce(topic, "x" * 5000)
    for how in (dict(max_bytes=1), dict(total=1), dict(max_bytes=0), dict(max_bytes=1, total=1)):
        for version in (4, 12):
            got = batch.read(admin.fetch(topic, 1, version, **how)["records"])
            assert [b.base_offset for b in got] == [1], how


def test_limits_bound_the_answer(admin, topic):
    for _ in range(20):
        admin.produce(topic, "x" * 1000)
    records = admin.fetch(topic, max_bytes=5000)["records"]
    assert 1000 <= len(records) <= 5000 and batch.read(records)
    assert len(admin.fetch(topic, total=7000)["records"]) <= 7000


def test_only_the_first_partition_with_data_may_go_over_the_limit(admin, name):
    admin.create(name, partitions=3)
    for p in range(3):
        admin.produce(name, "x" * 5000, partition=p)
    body = Admin.fetch_body(name, total=1)
    body["topics"][0]["partitions"] = [dict(body["topics"][0]["partitions"][0], partition=p) for p in range(3)]
    parts = admin.connection.ask("Fetch", 12, body)["responses"][0]["partitions"]
    assert sorted(bool(p["records"]) for p in parts) == [False, False, True]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_every_version_returns_the_same_records_and_real_offsets(admin, topic, version):
    admin.produce(topic, "a", "b")
    admin.produce(topic, "c")
    admin.delete_records(topic, 1)
    part = admin.fetch(topic, 1, version, topic_id=admin.topic_id(topic))
    assert [r[3] for r in batch.records(part["records"])] == [b"a", b"b", b"c"]
    assert part["highWatermark"] == 3 and part["lastStableOffset"] == 3
    if version >= 5:
        assert part["logStartOffset"] == 1
    if version >= 11:
        assert part["preferredReadReplica"] == -1
    assert not part["abortedTransactions"]
    committed = admin.fetch(topic, 2, version, topic_id=admin.topic_id(topic), isolation=1)
    assert [r[3] for r in batch.records(committed["records"])][-1] == b"c" and committed["abortedTransactions"] in ([], None)


@pytest.mark.smoke
def test_a_fetch_with_nothing_to_say_answers_at_max_wait(admin, topic):
    start = time.monotonic()
    part = admin.fetch(topic, 0, wait_ms=300, min_bytes=1)
    assert not part["records"] and time.monotonic() - start > 0.25  # not before; a late answer fails by the socket's timeout


def test_a_fetch_answers_at_once_without_min_bytes_or_without_wait(admin, topic):
    for how in (dict(wait_ms=60000, min_bytes=0), dict(wait_ms=0, min_bytes=1 << 20)):
        assert not admin.fetch(topic, 0, **how)["records"]


@pytest.mark.smoke
def test_a_waiting_fetch_is_woken_by_an_append(broker, admin, topic):
    with broker.connect(timeout_s=30) as c:
        c.send("Fetch", 12, Admin.fetch_body(topic, wait_ms=60000, min_bytes=1))
        assert c.silent(0.2)
        admin.produce(topic, "wake")
        part = c.receive("Fetch", 12)[1]["responses"][0]["partitions"][0]
        assert batch.records(part["records"])[0][3] == b"wake"


def test_min_bytes_waits_for_enough(broker, admin, topic):
    with broker.connect(timeout_s=30) as c:
        c.send("Fetch", 12, Admin.fetch_body(topic, wait_ms=60000, min_bytes=2000))
        admin.produce(topic, "x" * 500)
        assert c.silent(0.2)
        admin.produce(topic, "y" * 2000)
        part = c.receive("Fetch", 12)[1]["responses"][0]["partitions"][0]
        assert len(batch.records(part["records"])) == 2


def test_bytes_of_an_open_transaction_do_not_count_for_a_committed_reader(broker, admin, topic):
    init = {"transactionalId": topic, "transactionTimeoutMs": 60000, "producerId": -1, "producerEpoch": -1}
    given = until(lambda: (a := admin.connection.ask("InitProducerId", 4, init))["errorCode"] == 0 and a, 20, "a transactional producer")
    producer, epoch = given["producerId"], given["producerEpoch"]
    with broker.connect(timeout_s=30) as c:
        c.send("Fetch", 12, Admin.fetch_body(topic, wait_ms=60000, min_bytes=1000, isolation=1))
        for sequence in range(3):
            sent = batch.build([b"x" * 1000], attributes=0x10, producer=(producer, epoch, sequence))
            assert error(admin.produce_raw(topic, sent, transactional_id=topic)) == "NONE"
        assert batch.records(admin.fetch(topic, min_bytes=1000)["records"])[-1][0] == 2      # another reader has them
        assert c.silent(0.3)
        end = {"transactionalId": topic, "producerId": producer, "producerEpoch": epoch, "committed": True}
        assert error(admin.connection.ask("EndTxn", 3, end)) == "NONE"
        part = c.receive("Fetch", 12)[1]["responses"][0]["partitions"][0]
        assert [r[0] for r in batch.records(part["records"])][:3] == [0, 1, 2] and part["lastStableOffset"] == 4


def test_a_partition_in_error_answers_the_whole_fetch_at_once(admin, topic):
    for how, wanted in ((dict(partition=5), "UNKNOWN_TOPIC_OR_PARTITION"), (dict(offset=99), "OFFSET_OUT_OF_RANGE")):
        assert error(admin.fetch(topic, **how, wait_ms=60000, min_bytes=1)) == wanted
    assert error(admin.fetch(topic, version=13, topic_id=b"\3" * 16, wait_ms=60000, min_bytes=1)) == "UNKNOWN_TOPIC_ID"


def test_deleting_the_topic_ends_a_waiting_fetch(broker, admin, topic):
    with broker.connect(timeout_s=30) as c:
        c.send("Fetch", 12, Admin.fetch_body(topic, wait_ms=25000, min_bytes=1))
        assert c.silent(0.1)
        admin.delete(topic)
        part = c.receive("Fetch", 12)[1]["responses"][0]["partitions"][0]
        assert error(part) in ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_ID")


# ---- range and epochs

@pytest.mark.smoke
def test_out_of_range_only_outside_the_log(admin, topic):
    for value in "abcd":
        admin.produce(topic, value)
    admin.delete_records(topic, 2)
    got = {offset: error(admin.fetch(topic, offset)) for offset in (-1, 0, 1, 2, 3, 4, 5, 1 << 40)}
    assert got == {-1: "OFFSET_OUT_OF_RANGE", 0: "OFFSET_OUT_OF_RANGE", 1: "OFFSET_OUT_OF_RANGE", 2: "NONE", 3: "NONE", 4: "NONE",
                   5: "OFFSET_OUT_OF_RANGE", 1 << 40: "OFFSET_OUT_OF_RANGE"}
    outside = admin.fetch(topic, 0)
    assert outside["records"] in (b"", None)


def test_wrong_leader_epochs_are_told(admin, topic):
    now = admin.describe(topic)["partitions"][0]["leaderEpoch"]
    admin.produce(topic, "x")
    assert error(admin.fetch(topic, epoch=now)) == "NONE"
    assert error(admin.fetch(topic, epoch=now + 1)) == "UNKNOWN_LEADER_EPOCH"
    assert error(admin.list_offset(topic, -1, epoch=now + 1)) == "UNKNOWN_LEADER_EPOCH"
    assert error(admin.epoch_end(topic, now, current=now + 1)) == "UNKNOWN_LEADER_EPOCH"
    if now > 0:
        assert error(admin.fetch(topic, epoch=now - 1)) == "FENCED_LEADER_EPOCH"
        assert error(admin.list_offset(topic, -1, epoch=now - 1)) == "FENCED_LEADER_EPOCH"


def test_an_older_leader_epoch_is_fenced_after_a_restart(own_broker, name):
    broker = own_broker()
    with broker.connect() as c:
        Admin(c).create(name)
        before = Admin(c).describe(name)["partitions"][0]["leaderEpoch"]
        Admin(c).produce(name, "x", "y")
    broker.kill()
    broker.start()
    with broker.connect() as c:
        admin = Admin(c)
        now = admin.describe(name)["partitions"][0]["leaderEpoch"]
        assert now > before
        assert admin.produce(name, "z") == 2
        assert error(admin.fetch(name, epoch=before)) == "FENCED_LEADER_EPOCH"
        assert error(admin.list_offset(name, -1, epoch=before)) == "FENCED_LEADER_EPOCH"
        assert error(admin.epoch_end(name, now, current=before)) == "FENCED_LEADER_EPOCH"
        ends = [admin.epoch_end(name, epoch) for epoch in (before, now)]
        assert [(e["leaderEpoch"], e["endOffset"]) for e in ends] == [(before, 2), (now, 3)]


def test_a_diverging_epoch_is_served(own_broker, name):
    broker = own_broker()
    with broker.connect() as c:
        Admin(c).create(name)
        Admin(c).produce(name, "x", "y")
        before = Admin(c).describe(name)["partitions"][0]["leaderEpoch"]
    broker.stop()
    broker.start()
    with broker.connect() as c:
        admin = Admin(c)
        assert admin.produce(name, "z") == 2
        now, topic_id = admin.describe(name)["partitions"][0]["leaderEpoch"], admin.topic_id(name)
        for version in range(12, 19):
            same = admin.fetch(name, 2, version, topic_id=topic_id, last_epoch=before)
            assert error(same) == "NONE" and same["records"]      # its history ends where ours does
            part = admin.fetch(name, 3, version, topic_id=topic_id, last_epoch=before)
            assert error(part) == "NONE" and not part["records"]
            assert (part["divergingEpoch"]["epoch"], part["divergingEpoch"]["endOffset"]) == (before, 2)
            assert error(admin.fetch(name, 3, version, topic_id=topic_id, last_epoch=now + 3)) == "OFFSET_OUT_OF_RANGE"


@pytest.mark.smoke
def test_the_end_of_an_epoch(admin, topic):
    now = admin.describe(topic)["partitions"][0]["leaderEpoch"]
    admin.produce(topic, "x", "y", "z")
    for version in (2, 3, 4):
        end = admin.epoch_end(topic, now, version=version)
        assert (error(end), end["leaderEpoch"], end["endOffset"]) == ("NONE", now, 3)
        unknown = admin.epoch_end(topic, now + 7, version=version)
        assert (error(unknown), unknown["leaderEpoch"], unknown["endOffset"]) == ("NONE", -1, -1)


# ---- a sequential reader

@pytest.mark.smoke
def test_a_reader_sees_each_offset_once_across_segments_and_deletion(admin, name):
    admin.create(name, segment_bytes=1048576)
    for i in range(60):
        admin.produce(name, *[f"{i}-{j}-" + "x" * 3000 for j in range(20)], codec=("none", "lz4", "gzip")[i % 3])
    offset, seen = 0, []
    while offset < 1200:
        for r in batch.records(admin.fetch(name, offset, max_bytes=200000)["records"]):
            if r[0] >= offset:
                seen.append(r[0])
        offset = seen[-1] + 1
        if offset >= 400 and admin.list_offset(name, -2)["offset"] == 0:
            assert admin.delete_records(name, 300)["lowWatermark"] == 300
    assert seen == list(range(1200))
    assert batch.records(admin.fetch(name, 300)["records"])[0][0] <= 300  # the published start is readable
    assert admin.list_offset(name, -2)["offset"] == 300


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_reader_goes_on_where_it_was_after_a_restart(own_broker, name, end):
    broker = own_broker()
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name, segment_bytes=1048576)
        for i in range(40):
            admin.produce(name, *[f"{i}-{j}-" + "x" * 2000 for j in range(20)])
        before = admin.records(name)
        assert admin.delete_records(name, 250)["lowWatermark"] == 250
    for _ in range(2):
        getattr(broker, end)()
        broker.start()
        with broker.connect() as c:
            admin = Admin(c)
            assert admin.records(name, 250) == before[250:]
            assert admin.list_offset(name, -2)["offset"] == 250 and admin.list_offset(name, -1)["offset"] == 800
            assert error(admin.fetch(name, 249)) == "OFFSET_OUT_OF_RANGE"


# ---- sessions

class Session:
    def __init__(self, connection, version=12):
        self.connection, self.version, self.id, self.epoch = connection, version, 0, 0

    def ask(self, parts=(), topic=None, topic_id=NO_ID, forget=(), check=True, **how):
        body = Admin.fetch_body(None, session=(self.id, self.epoch), **how)
        one = Admin.fetch_body("x")["topics"][0]["partitions"][0]
        identity = {"topicId": topic_id} if self.version > 12 else {"topic": topic}
        if parts:
            body["topics"] = [{**identity, "partitions": [dict(one, partition=p, fetchOffset=o) for p, o in parts]}]
        if forget:
            body["forgottenTopicsData"] = [{**identity, "partitions": list(forget)}]
        answer = self.connection.ask("Fetch", self.version, body)
        if check:
            assert error(answer) == "NONE", answer
            assert answer["sessionId"] == self.id or self.epoch == 0
            self.id, self.epoch = answer["sessionId"], self.epoch + 1
        return answer, {p["partitionIndex"]: p for t in answer["responses"] for p in t["partitions"]}


@pytest.mark.smoke
@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_an_incremental_fetch_names_only_what_changed(broker, admin, name, version):
    admin.create(name, partitions=4)
    topic_id = admin.topic_id(name)
    with broker.connect() as c:
        s = Session(c, version)
        full = s.ask([(p, 0) for p in range(4)], name, topic_id)[1]
        assert sorted(full) == [0, 1, 2, 3] and s.id > 0
        assert s.ask(topic=name)[1] == {}
        admin.produce(name, "x", partition=2)
        assert sorted(s.ask(topic=name, wait_ms=5000, min_bytes=1)[1]) == [2]
        assert sorted(s.ask(topic=name)[1]) == [2]  # not fetched further: still there
        assert s.ask([(2, 1)], name, topic_id)[1].keys() <= {2}
        assert s.ask(topic=name)[1] == {}
        s.ask(topic=name, topic_id=topic_id, forget=[1])
        admin.produce(name, "y", partition=1)
        admin.produce(name, "z", partition=3)
        assert sorted(s.ask(topic=name, wait_ms=5000, min_bytes=1)[1]) == [3]


def test_a_waiting_incremental_fetch_is_woken(broker, admin, topic):
    with broker.connect(timeout_s=30) as c:
        s = Session(c)
        s.ask([(0, 0)], topic)
        c.send("Fetch", 12, Admin.fetch_body(None, session=(s.id, s.epoch), wait_ms=60000, min_bytes=1))
        assert c.silent(0.2)
        admin.produce(topic, "wake")
        answer = c.receive("Fetch", 12)[1]
        assert batch.records(answer["responses"][0]["partitions"][0]["records"])[0][3] == b"wake"


def test_unknown_session_and_wrong_epoch(broker, admin, topic):
    with broker.connect() as c:
        s = Session(c)
        s.ask([(0, 0)], topic)
        s.epoch += 3
        assert error(s.ask(topic=topic, check=False)[0]) == "INVALID_FETCH_SESSION_EPOCH"
        s.epoch -= 3
        assert error(s.ask(topic=topic)[0]) == "NONE"
        s.id ^= 0x155
        assert error(s.ask(topic=topic, check=False)[0]) == "FETCH_SESSION_ID_NOT_FOUND"


def test_a_session_may_be_used_from_another_connection_and_closed(broker, admin, topic):
    with broker.connect() as a, broker.connect() as b:
        s = Session(a)
        s.ask([(0, 0)], topic)
        s.connection = b
        s.ask(topic=topic)
        old = s.id
        s.epoch = -1
        full = s.ask([(0, 0)], topic, check=False)[0]  # final: closes it, answers in full
        assert error(full) == "NONE" and full["sessionId"] == 0 and full["responses"]
        s.id, s.epoch = old, 2
        assert error(s.ask(topic=topic, check=False)[0]) == "FETCH_SESSION_ID_NOT_FOUND"


def test_a_session_tells_when_its_topic_was_recreated(broker, admin, topic):
    old = admin.topic_id(topic)
    with broker.connect() as c:
        by_id, by_name = Session(c, 13), Session(c, 12)
        by_id.ask([(0, 0)], topic, old)
        by_name.ask([(0, 0)], topic)
        admin.delete(topic)
        until(lambda: error(admin.describe(topic)) == "UNKNOWN_TOPIC_OR_PARTITION", 10, "the deletion")
        admin.create(topic)
        assert error(until(lambda: by_id.ask(topic=topic)[1].get(0), 10, "the id session to tell")) in (
            "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID")
        got = by_name.ask(topic=topic, check=False)
        assert error(got[0]) in ("NONE", "INCONSISTENT_TOPIC_ID", "FETCH_SESSION_TOPIC_ID_ERROR")
        assert all(error(p) in ("INCONSISTENT_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION", "NONE") for p in got[1].values())


def test_many_sessions_of_one_client_do_not_break_another(broker, admin, topic):
    with broker.connect() as c, broker.connect() as noisy:
        mine = Session(c)
        mine.ask([(0, 0)], topic)
        for _ in range(300):
            Session(noisy).ask([(0, 0)], topic)
            answer = mine.ask(topic=topic, check=False)[0]
            if error(answer) == "NONE":
                mine.epoch += 1
        assert isinstance(broker, harness.External) or error(answer) == "NONE"


# ---- codecs by version

def test_zstd_below_fetch_10(admin, topic, name):
    admin.produce(topic, "x", codec="zstd")
    admin.create(name + "-z", compression_type="zstd")
    admin.produce(name + "-z", "y")
    for version in (4, 9):
        assert batch.records(admin.fetch(topic, 0, version)["records"])[0][3] == b"x"
        assert error(admin.fetch(name + "-z", 0, version)) in ("UNSUPPORTED_COMPRESSION_TYPE", "NONE")  # Kafka 4.4 delivers
    assert batch.records(admin.fetch(name + "-z", 0, 10)["records"])[0][3] == b"y"


# ---- offsets by time

@pytest.mark.smoke
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_offsets_by_time_are_searched_inside_batches(admin, topic, codec):
    base = batch.now_ms() - 100000
    admin.produce(topic, *"abc", codec=codec, timestamps=[base, base + 10, base + 20])
    admin.produce(topic, *"def", codec=codec, timestamps=[base + 15, base + 50, base + 40])
    wanted = {0: 0, base: 0, base + 1: 1, base + 10: 1, base + 11: 2, base + 20: 2, base + 21: 4, base + 50: 4}
    for version in range(1, 11):
        for at, offset in wanted.items():
            got = admin.list_offset(topic, at, version=version)
            assert (error(got), got["offset"]) == ("NONE", offset), (version, at - base)
            assert got["timestamp"] >= at
        none = admin.list_offset(topic, base + 51, version=version)
        assert (error(none), none["offset"], none["timestamp"]) == ("NONE", -1, -1)


def test_offsets_by_time_with_append_time(admin, name):
    admin.create(name, message_timestamp_type="LogAppendTime")
    first = admin.produce_raw(name, batch.build([b"a", b"b"], timestamps=[5, 6]))["logAppendTimeMs"]
    until(lambda: batch.now_ms() > first + 2, 10, "the clock")
    second = admin.produce_raw(name, batch.build([b"c", b"d"], timestamps=[7, 8], codec="lz4"))["logAppendTimeMs"]
    assert [admin.list_offset(name, t)["offset"] for t in (1, first, first + 1, second, second + 1)] == [0, 0, 2, 2, -1]
    assert admin.list_offset(name, second)["timestamp"] == second


def test_special_timestamps(admin, topic):
    assert admin.list_offset(topic, -3)["offset"] == -1  # no record, no largest timestamp
    base = batch.now_ms() - 1000
    admin.produce(topic, *"abc", timestamps=[base, base + 90, base + 5])
    admin.produce(topic, *"de", timestamps=[base + 90, base + 7])
    admin.delete_records(topic, 1)
    for version in range(1, 12):
        assert admin.list_offset(topic, -1, version=version)["offset"] == 5
        assert admin.list_offset(topic, -2, version=version)["offset"] == 1
        if version >= 2:
            assert admin.list_offset(topic, -1, version=version, isolation=1)["offset"] == 5
        if version >= 4:
            assert admin.list_offset(topic, -1, version=version)["leaderEpoch"] >= 0
    for version in range(7, 12):
        got = admin.list_offset(topic, -3, version=version)
        assert (error(got), got["offset"], got["timestamp"]) == ("NONE", 1, base + 90)


def test_the_latest_offset_of_an_empty_log(admin, topic):
    assert admin.list_offset(topic, -1)["offset"] == 0 == admin.list_offset(topic, -2)["offset"]
    none = admin.list_offset(topic, 12345)
    assert (none["offset"], none["timestamp"]) == (-1, -1)


def test_unknown_special_timestamps_are_refused(admin, topic):
    admin.produce(topic, "x")
    got = admin.list_offset(topic, -77, version=7)
    assert error(got) != "NONE" or got["offset"] in (-1, 0)
    assert got["offset"] >= -1


# ---- DeleteRecords

@pytest.mark.smoke
@pytest.mark.parametrize("version", [0, 1, 2])
def test_delete_records(admin, topic, version):
    for value in "abcdef":
        admin.produce(topic, value)
    got = admin.delete_records(topic, 2, version=version)
    assert (error(got), got["lowWatermark"]) == ("NONE", 2)
    assert admin.delete_records(topic, 1, version=version)["lowWatermark"] == 2  # never back
    assert error(admin.delete_records(topic, 7, version=version)) == "OFFSET_OUT_OF_RANGE"
    assert error(admin.delete_records(topic, -2, version=version)) == "OFFSET_OUT_OF_RANGE"
    got = admin.delete_records(topic, -1, version=version)
    assert (error(got), got["lowWatermark"]) == ("NONE", 6)
    assert admin.list_offset(topic, -2)["offset"] == 6 and admin.produce(topic, "g") == 6


def test_delete_records_is_refused_on_an_internal_topic(admin):
    """Whatever its cleanup.policy says: it would cost groups their offsets."""
    def there():
        answer = admin.connection.ask("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["g"]})["coordinators"][0]
        return error(answer) == "NONE"
    until(there, 30, "a coordinator of groups")
    assert error(admin.delete_records("__consumer_offsets", -1)) == "INVALID_TOPIC_EXCEPTION"


def test_delete_records_is_refused_on_a_compacted_topic(admin, name):
    admin.create(name, cleanup_policy="compact")
    admin.produce(name, "x", keys=[b"k"])
    assert error(admin.delete_records(name, 1)) == "POLICY_VIOLATION"
