"""Compatibility traps W: what a leader checks, rewrites, remembers and answers on Produce."""
import struct

import pytest

import batch
from admin import Admin, error


def stored(admin, topic, offset=0):
    return batch.read(admin.fetch(topic, offset)["records"])


@pytest.mark.smoke
def test_base_offset_and_leader_epoch_are_overwritten_and_the_checksum_stays(admin, topic):
    admin.produce(topic, "zero")
    sent = batch.build([b"one", b"two"], leader_epoch=55)
    assert admin.produce_raw(topic, sent)["baseOffset"] == 1
    got = stored(admin, topic)[-1]
    assert (got.base_offset, got.leader_epoch) == (1, admin.describe(topic)["partitions"][0]["leaderEpoch"])
    assert got.crc_is_valid() and got.raw[16:] == sent[16:]  # from magic on it is what the client sent
    assert error(admin.produce_raw(topic, batch.build([b"x"], base_offset=5))) == "INVALID_RECORD"  # as Kafka 4.4


def broken(kind):
    good = batch.build([b"a", b"b"])
    if kind == "bad checksum":
        return good[:-1] + bytes([good[-1] ^ 1])
    if kind == "two batches":
        return good + good
    if kind == "cut":
        return good[:-3]
    if kind == "length too large":
        return good[:8] + struct.pack(">i", len(good)) + good[12:]
    if kind == "length negative":
        return good[:8] + struct.pack(">i", -5) + good[12:]
    return {"magic 1": lambda: batch.build([b"a"], magic=1), "magic 3": lambda: batch.build([b"a"], magic=3),
            "count too large": lambda: batch.build([b"a", b"b"], count=3),
            "count too small": lambda: batch.build([b"a", b"b"], count=1),
            "last delta wrong": lambda: batch.build([b"a", b"b"], last_delta=5),
            "no records": lambda: batch.build([]), "empty": lambda: b"",
            "control batch": lambda: batch.build([b"\0\0\0\0\0\0"], attributes=0x20, producer=(1, 0, -1)),
            "no sequence": lambda: batch.build([b"a"], producer=(1, 0, -1)),
            "codec 7": lambda: batch.build([b"a"], attributes=7),
            "garbage in gzip": lambda: batch.seal((0, 0, 0, 2, 0, 1, 0, 0, 0, -1, -1, -1, 1), b"not gzip at all")}[kind]()


@pytest.mark.parametrize("kind", ["bad checksum", "two batches", "cut", "length too large", "length negative",
                                  "magic 1", "magic 3", "count too large", "count too small", "last delta wrong", "no records",
                                  "empty", "control batch", "no sequence", "codec 7", "garbage in gzip"])
def test_a_wrong_batch_is_refused_and_nothing_is_stored(broker, admin, topic, kind):
    for version in (3, 9, 12):
        answer = admin.produce_raw(topic, broken(kind), version=version)
        assert error(answer) in ("INVALID_RECORD", "CORRUPT_MESSAGE", "UNSUPPORTED_COMPRESSION_TYPE",
                                 *(["UNKNOWN_SERVER_ERROR"] if broker.rest is None else [])), answer
    assert admin.list_offset(topic, -1)["offset"] == 0
    assert admin.produce(topic, "after") == 0


def test_a_batch_above_max_message_bytes_is_refused(admin, name):
    admin.create(name, max_message_bytes=1000)
    assert error(admin.produce_raw(name, batch.build([b"x" * 1200]))) == "MESSAGE_TOO_LARGE"
    assert admin.produce(name, "y" * 5000, codec="gzip") == 0  # as stored, that is compressed
    assert admin.produce(name, "z" * (1000 - 61 - 12)) == 1


def test_a_keyless_record_in_a_compacted_topic_is_refused_by_index(admin, name):
    admin.create(name, cleanup_policy="compact")
    for codec in ("none", "lz4"):
        answer = admin.produce_raw(name, batch.build([b"a", b"b", b"c"], keys=[b"k", None, b"l"], codec=codec))
        assert error(answer) == "INVALID_RECORD" and answer["errorMessage"]
        assert [r["batchIndex"] for r in answer["recordErrors"]] == [1]
    assert admin.produce(name, "a", keys=[b"k"]) == 0


@pytest.mark.smoke
@pytest.mark.parametrize("codec", ["gzip", "snappy", "snappy-xerial", "lz4", "zstd"])
def test_compressed_batches_are_stored_as_sent(admin, topic, codec):
    sent = batch.build([b"v%d" % i * 50 for i in range(20)], codec=codec)
    assert error(admin.produce_raw(topic, sent)) == "NONE"
    got = stored(admin, topic)[0]
    assert got.payload() == sent[61:] and got.crc_is_valid()
    assert [r[3] for r in got.records] == [b"v%d" % i * 50 for i in range(20)]


def test_lz4_frames_with_linked_blocks_are_refused(admin, topic, broker):
    """Kafka's Java reader knows independent blocks only. Kafka itself gives its error no name."""
    import lz4.frame
    plain = batch.build([b"v%d" % i * 5000 for i in range(40)])
    head = (*batch.HEAD.unpack(plain[:61])[:5], 3, *batch.HEAD.unpack(plain[:61])[6:])
    linked = batch.seal(head, lz4.frame.compress(plain[61:], block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB))
    assert error(admin.produce_raw(topic, linked)) in ("INVALID_RECORD", *(["UNKNOWN_SERVER_ERROR"] if broker.rest is None else []))
    free = batch.seal(head, lz4.frame.compress(plain[61:], block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB))
    assert error(admin.produce_raw(topic, free)) == "NONE" and admin.list_offset(topic, -1)["offset"] == 40


def test_zstd_below_produce_7_is_refused(admin, topic):
    for version in range(3, 7):
        answer = admin.produce_raw(topic, batch.build([b"x"], codec="zstd"), version=version)
        assert error(answer) == "UNSUPPORTED_COMPRESSION_TYPE", version
    assert admin.produce(topic, "x", codec="zstd", version=7) == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_codec_is_applied(admin, name, codec):
    admin.create(name, compression_type=codec)
    want = batch.CODECS.get(codec, 0)
    for sent in ("none", "gzip", "zstd"):
        admin.produce(name, *[f"{sent}-{i}" for i in range(10)], codec=sent)
    got = stored(admin, name)
    assert [b.codec for b in got] == [want] * len(got) and all(b.crc_is_valid() for b in got)
    assert [r[3].decode() for b in got for r in b.records] == [f"{s}-{i}" for s in ("none", "gzip", "zstd") for i in range(10)]


# ---- time

def test_create_time_far_ahead_is_refused(admin, name, topic):
    ahead = batch.now_ms() + 2 * 3600 * 1000
    answer = admin.produce_raw(topic, batch.build([b"x", b"y"], timestamps=[batch.now_ms(), ahead]))
    assert error(answer) == "INVALID_TIMESTAMP" and [r["batchIndex"] for r in answer["recordErrors"]] == [1]
    assert admin.produce(topic, "x", timestamps=[batch.now_ms() + 60000]) == 0
    admin.create(name + "-own", message_timestamp_after_max_ms=str(10 * 24 * 3600 * 1000))
    assert admin.produce(name + "-own", "x", timestamps=[ahead]) == 0
    admin.create(name + "-past", message_timestamp_before_max_ms="60000")
    late = admin.produce_raw(name + "-past", batch.build([b"x"], timestamps=[batch.now_ms() - 3600 * 1000]))
    assert error(late) == "INVALID_TIMESTAMP"


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_log_append_time_sets_type_and_time_and_redoes_the_checksum(admin, name, codec):
    admin.create(name, message_timestamp_type="LogAppendTime")
    before = batch.now_ms()
    answer = admin.produce_raw(name, batch.build([b"a", b"b"], timestamps=[1000, 2000], codec=codec))
    assert error(answer) == "NONE" and before - 1000 <= answer["logAppendTimeMs"] <= batch.now_ms() + 1000
    got = stored(admin, name)[0]
    assert got.log_append_time and got.crc_is_valid() and got.max_timestamp == answer["logAppendTimeMs"]
    assert [r[1] for r in got.records] == [answer["logAppendTimeMs"]] * 2


def test_with_create_time_the_answer_has_no_append_time(admin, topic):
    for version in range(3, 13):
        assert admin.produce_raw(topic, batch.build([b"x"]), version=version)["logAppendTimeMs"] == -1


# ---- idempotence

def send(admin, topic, producer, epoch, sequence, count=1):
    answer = admin.produce_raw(topic, batch.build([b"%d" % (sequence + i) for i in range(count)], producer=(producer, epoch, sequence)))
    return error(answer), answer["baseOffset"]


@pytest.mark.smoke
def test_sequences_of_a_producer(admin, topic):
    producer, epoch = admin.producer_id()
    assert send(admin, topic, producer, epoch, 7) == ("NONE", 0)  # no state: any first sequence
    assert send(admin, topic, producer, epoch, 8, 2) == ("NONE", 1)
    assert send(admin, topic, producer, epoch, 11)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(admin, topic, producer, epoch, 10) == ("NONE", 3)
    assert send(admin, topic, producer, epoch + 1, 5)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(admin, topic, producer, epoch + 1, 0) == ("NONE", 4)
    assert send(admin, topic, producer, epoch, 11)[0] == "INVALID_PRODUCER_EPOCH"
    assert admin.list_offset(topic, -1)["offset"] == 5


def test_the_sequence_wraps_at_the_largest_integer(admin, topic):
    producer, epoch = admin.producer_id()
    top = (1 << 31) - 1
    sent = batch.build([b"a", b"b", b"c"], producer=(producer, epoch, top - 1))
    assert error(admin.produce_raw(topic, sent)) == "NONE"
    assert send(admin, topic, producer, epoch, 1) == ("NONE", 3)


@pytest.mark.smoke
def test_any_of_the_last_five_batches_repeated_gives_its_old_offset(admin, topic):
    producer, epoch = admin.producer_id()
    for i in range(7):
        assert send(admin, topic, producer, epoch, 2 * i, 2) == ("NONE", 2 * i)
    for i in (6, 2, 4, 3, 5, 6):
        assert send(admin, topic, producer, epoch, 2 * i, 2) == ("NONE", 2 * i), i
    assert send(admin, topic, producer, epoch, 0, 2)[0] in ("DUPLICATE_SEQUENCE_NUMBER", "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert send(admin, topic, producer, epoch, 14) == ("NONE", 14)
    assert admin.list_offset(topic, -1)["offset"] == 15


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_repeats_are_recognised_after_a_restart(own_broker, name, end):
    broker = own_broker()
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name, segment_bytes=1048576)
        producer, epoch = admin.producer_id()
        for i in range(8):
            assert send(admin, name, producer, epoch, i) == ("NONE", i)
    for _ in range(2):
        getattr(broker, end)()
        broker.start()
        with broker.connect() as c:
            admin = Admin(c)
            for i in (7, 3, 5):
                assert send(admin, name, producer, epoch, i) == ("NONE", i)
            assert admin.list_offset(name, -1)["offset"] == 8
            assert send(admin, name, producer, epoch, 12)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
            assert admin.producer_id()[0] != producer  # ids are never given twice
    with broker.connect() as c:
        assert send(Admin(c), name, producer, epoch, 8) == ("NONE", 8)


def test_producer_state_outlives_the_records(admin, topic):
    producer, epoch = admin.producer_id()
    for i in range(4):
        send(admin, topic, producer, epoch, i)
    assert error(admin.delete_records(topic, -1)) == "NONE"
    assert send(admin, topic, producer, epoch, 9)[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(admin, topic, producer, epoch, 3) == ("NONE", 3)
    assert send(admin, topic, producer, epoch, 4) == ("NONE", 4)


def test_idempotence_works_on_a_compacted_topic(admin, name):
    admin.create(name, cleanup_policy="compact")
    producer, epoch = admin.producer_id()
    sent = [batch.build([b"v"], keys=[b"k"], producer=(producer, epoch, i)) for i in range(3)]
    assert [admin.produce_raw(name, s)["baseOffset"] for s in sent] == [0, 1, 2]
    assert [admin.produce_raw(name, s)["baseOffset"] for s in sent] == [0, 1, 2]
    assert admin.list_offset(name, -1)["offset"] == 3


# ---- answers

def test_answers_carry_text_and_log_start(broker, admin, topic):
    admin.produce(topic, "a", "b", "c")
    assert admin.delete_records(topic, 2)["lowWatermark"] == 2
    for version in range(5, 13):
        assert admin.produce_raw(topic, batch.build([b"x"]), version=version)["logStartOffset"] == 2
    for version in range(8, 13):
        wrong = admin.produce_raw(topic, broken("count too large"), version=version)
        assert wrong["baseOffset"] == -1 and (wrong["errorMessage"] or broker.rest is None)


def test_produce_to_what_does_not_exist(admin, topic, name):
    assert error(admin.produce_raw(topic, batch.build([b"x"]), partition=7)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error(admin.produce_raw(topic, batch.build([b"x"]), partition=-1)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error(admin.produce_raw(name + "-none", batch.build([b"x"]))) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error(admin.produce_raw(topic, batch.build([b"x"]), version=13, topic_id=b"\7" * 16)) == "UNKNOWN_TOPIC_ID"


def test_acks_other_than_0_1_all_are_refused(admin, topic):
    for acks in (2, -2, 100):
        assert error(admin.produce_raw(topic, batch.build([b"x"]), acks=acks)) == "INVALID_REQUIRED_ACKS"
    assert admin.list_offset(topic, -1)["offset"] == 0


def test_partitions_of_one_request_fail_one_by_one(admin, name):
    admin.create(name, partitions=3)
    body = {"acks": -1, "timeoutMs": 5000, "topicData": [{"name": name, "partitionData": [
        {"index": 0, "records": batch.build([b"a"])}, {"index": 1, "records": broken("bad checksum")},
        {"index": 2, "records": batch.build([b"c"])}, {"index": 9, "records": batch.build([b"d"])}]}]}
    answer = admin.connection.ask("Produce", 12, body)["responses"]
    assert {p["index"]: error(p) for t in answer for p in t["partitionResponses"]} == {
        0: "NONE", 1: "CORRUPT_MESSAGE", 2: "NONE", 9: "UNKNOWN_TOPIC_OR_PARTITION"}


def test_internal_topics_are_not_for_producers(admin):
    for version in (9, 12):
        answer = admin.produce_raw("__consumer_offsets", batch.build([b"x"]), version=version)
        assert error(answer) in ("INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION")


def test_a_transactional_batch_without_its_transaction_is_refused(admin, topic):
    producer, epoch = admin.producer_id()
    sent = batch.build([b"x"], attributes=0x10, producer=(producer, epoch, 0))
    answer = admin.produce_raw(topic, sent, version=9, transactional_id=None)
    assert error(answer) != "NONE"
    assert admin.list_offset(topic, -1)["offset"] == 0


PLAIN = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "compression.type": "producer",
         "max.message.bytes": 1048588, "message.timestamp.before.max.ms": (1 << 63) - 1, "message.timestamp.after.max.ms": 3600000}
BETTER = {"CORRUPT_MESSAGE", "INVALID_RECORD", "UNSUPPORTED_COMPRESSION_TYPE"}


def plain_vectors():
    """The golden batches that a topic with default configs can be asked to append outside a transaction."""
    from wire_test import vectors
    for v in vectors("batches"):
        config = v.get("append", {}).get("config", {})
        data = bytes.fromhex(v["hex"]) if "hex" in v else b""
        transactional = len(data) > 23 and data[16] == 2 and data[22] & 0x10
        if v["kind"] in ("valid", "invalid") and {k: config.get(k) for k in PLAIN} == PLAIN and not transactional and "ahead of the broker" not in v["desc"]:
            yield v["id"], v["desc"], data, v.get("error") or v["append"]["error"]


def test_the_golden_batches_get_their_error_code_from_a_broker(broker, admin, name):
    cases = list(plain_vectors())
    assert len(cases) > 300
    admin.create(name, partitions=len(cases))
    topic_id = admin.topic_id(name)
    wrong = []
    for number, (case, what, data, wanted) in enumerate(cases):
        got = error(admin.produce_raw(name, data, number, version=13, topic_id=topic_id))
        if got != wanted and not (wanted == "UNKNOWN_SERVER_ERROR" and got in BETTER):
            wrong.append(f"{case} ({what}): {got}, not {wanted}")
    assert not wrong, f"{len(wrong)} of {len(cases)}: " + "; ".join(wrong[:20])
