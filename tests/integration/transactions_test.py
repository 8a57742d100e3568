"""Transactions with real clients: librdkafka's (the protocol before KIP-890) and Java's (version 2), fencing, time-outs, read_committed, Kafka's own tools."""
import json
import re
import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from admin import Admin
from harness import http, until
from java import TOOLS, java, need_java


def producer(broker, transactional_id, **more):
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "linger.ms": 0, **{k.replace("_", "."): v for k, v in more.items()}}
    made = Producer(settings)
    made.init_transactions(20)
    return made


def send(made, topic, values, partition=0):
    failed = []
    for value in values:
        made.produce(topic, value=value, partition=partition, on_delivery=lambda err, msg: failed.append(err) if err else None)
    assert made.flush(20) == 0
    assert not failed, failed


def read(broker, topic, count=None, isolation="read_committed", partition=0):
    """What a consumer sees from the beginning: `count` values, or all until the end of the partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "isolation.level": isolation, "enable.auto.commit": False,
                         "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        values, end = [], time.monotonic() + 90
        while count is None or len(values) < count:
            assert time.monotonic() < end, f"{len(values)} of {count or 'all'}: {values[-3:]}"
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                if count is None:
                    break
                continue
            values.append(message.value())
        return values
    finally:
        consumer.close()


def names(stem, count):
    return [f"{stem}-{i}".encode() for i in range(count)]


@pytest.mark.smoke
def test_commit_is_seen_and_abort_is_not(broker, topic, name):
    p = producer(broker, name)
    p.begin_transaction()
    send(p, topic, names("a", 10))
    assert read(broker, topic) == []
    assert read(broker, topic, isolation="read_uncommitted") == names("a", 10)
    p.commit_transaction(20)
    assert read(broker, topic, 10) == names("a", 10)
    p.begin_transaction()
    send(p, topic, names("b", 10))
    p.abort_transaction(20)
    p.begin_transaction()
    send(p, topic, names("c", 10))
    p.commit_transaction(20)
    assert read(broker, topic, 20) == names("a", 10) + names("c", 10)
    assert read(broker, topic) == names("a", 10) + names("c", 10)


def test_many_transactions_over_partitions(broker, admin, name):
    admin.create(name, partitions=4)
    p = producer(broker, name)
    for i in range(30):
        p.begin_transaction()
        for partition in range(4):
            send(p, name, [f"{i}".encode()], partition)
        if i % 3 == 2:
            p.abort_transaction(20)
        else:
            p.commit_transaction(20)
    expected = [f"{i}".encode() for i in range(30) if i % 3 != 2]
    for partition in range(4):
        assert read(broker, name, len(expected), partition=partition) == expected


def test_a_newer_producer_fences_the_older(broker, topic, name):
    first = producer(broker, name)
    first.begin_transaction()
    send(first, topic, names("old", 5))
    second = producer(broker, name)
    second.begin_transaction()
    send(second, topic, names("new", 5))
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(20)
    assert raised.value.args[0].fatal()
    second.commit_transaction(20)
    assert read(broker, topic, 5) == names("new", 5)


def test_a_transaction_that_hangs_ends_at_its_timeout(broker, admin, topic, name):
    p = producer(broker, name, transaction_timeout_ms=1000)
    p.begin_transaction()
    send(p, topic, names("late", 3))
    other = producer(broker, name + "-other")
    other.begin_transaction()
    send(other, topic, names("good", 3))
    other.commit_transaction(20)
    assert read(broker, topic, 3) == names("good", 3)          # only once the late one is out of the way
    with pytest.raises(KafkaException):
        p.commit_transaction(20)


def test_an_open_transaction_goes_on_after_kill(own_broker, name):
    broker = own_broker()
    with broker.connect() as connection:
        Admin(connection).create(name)
    p = producer(broker, name)
    p.begin_transaction()
    send(p, name, names("a", 5))
    p.commit_transaction(20)
    p.begin_transaction()
    send(p, name, names("b", 5))
    broker.kill()
    broker.start()
    assert read(broker, name, 5) == names("a", 5)
    send(p, name, names("c", 5))
    p.commit_transaction(30)
    assert read(broker, name, 15) == names("a", 5) + names("b", 5) + names("c", 5)


def transactions_tool(broker, *words):
    return java(TOOLS + "TransactionsCommand", "--bootstrap-server", broker.bootstrap, *words)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_the_transactions_tool_lists_describes_and_aborts(broker, topic, name):
    need_java()
    p = producer(broker, name)
    p.begin_transaction()
    send(p, topic, names("a", 3))
    listed = transactions_tool(broker, "list")
    assert re.search(rf"{re.escape(name)}\s+\d+\s+\d+\s+Ongoing", listed), listed
    described = transactions_tool(broker, "describe", "--transactional-id", name)
    assert re.search(rf"{re.escape(topic)}-0", described), described
    producers = transactions_tool(broker, "describe-producers", "--topic", topic, "--partition", 0)
    assert len(producers.strip().splitlines()) == 2, producers
    transactions_tool(broker, "abort", "--topic", topic, "--partition", 0, "--start-offset", 0)
    assert read(broker, topic) == []
    with broker.connect() as connection:
        wall = connection.ask("ListTransactions", 1, {"stateFilters": ["Ongoing", "Nonsense"], "producerIdFilters": [], "durationFilter": 0})
        assert wall["unknownStateFilters"] == ["Nonsense"]
        assert name in [row["transactionalId"] for row in wall["transactionStates"]]
        none = connection.ask("ListTransactions", 2, {"stateFilters": [], "producerIdFilters": [], "durationFilter": -1, "transactionalIdPattern": "no-such-.*"})
        assert none["transactionStates"] == []


@pytest.mark.timeout(180)
def test_java_with_version_2(broker, topic, name):
    need_java()
    text = java(TOOLS + "ProducerPerformance", "--topic", topic, "--num-records", 3000, "--record-size", 100, "--throughput", -1,
                "--transactional-id", name, "--transaction-duration-ms", 50, "--bootstrap-server", broker.bootstrap)
    assert "3000 records sent" in text, text
    assert len(read(broker, topic, 3000)) == 3000
    described = transactions_tool(broker, "describe", "--transactional-id", name)
    assert "CompleteCommit" in described, described
    with broker.connect() as connection:
        state = connection.ask("DescribeTransactions", 0, {"transactionalIds": [name]})["transactionStates"][0]
    assert state["producerEpoch"] > 0          # grown with each transaction: KIP-890


def test_rest_lists_describes_and_aborts(broker, topic, name):
    p = producer(broker, name)
    p.begin_transaction()
    send(p, topic, names("a", 3))
    send_more = producer(broker, name + "-quiet")
    listed = json.loads(http(f"{broker.rest}/v1/transactions?prefix={name}&limit=1")[2])
    assert [(row["transactional_id"], row["state"], row["partition_count"]) for row in listed["items"]] == [(name, "ongoing", 1)] and listed["total"] == 2
    rest = json.loads(http(f"{broker.rest}/v1/transactions?prefix={name}&page_token={listed['next_page_token']}")[2])
    assert [(row["transactional_id"], row["state"]) for row in rest["items"]] == [(name + "-quiet", "empty")]
    assert json.loads(http(f"{broker.rest}/v1/transactions?prefix={name}&longer_than_ms=3600000")[2])["items"] == []
    assert [r["transactional_id"] for r in json.loads(http(f"{broker.rest}/v1/transactions?prefix={name}&state=ongoing")[2])["items"]] == [name]
    one = json.loads(http(f"{broker.rest}/v1/transactions/{name}")[2])
    assert one["partitions"] == [{"topic": topic, "partition": 0}] and one["age_ms"] >= 0
    status, _, body = http(f"{broker.rest}/v1/transactions/{name}/abort?validate_only", "POST")
    assert status == 200 and not json.loads(body)["applied"]
    status, _, body = http(f"{broker.rest}/v1/transactions/{name}/abort", "POST")
    assert status == 200 and json.loads(body)["state"] in ("prepare_abort", "complete_abort"), body
    with pytest.raises(KafkaException):
        p.commit_transaction(10)
    assert read(broker, topic) == []
    assert http(f"{broker.rest}/v1/transactions/{name}/abort", "POST")[0] == 409
    assert http(f"{broker.rest}/v1/transactions/{name}-nobody/abort", "POST")[0] == 404
    assert http(f"{broker.rest}/v1/transactions/{name}-nobody")[0] == 404
    del send_more


@pytest.mark.long
@pytest.mark.timeout(180)
def test_held_at_an_older_protocol(own_broker, name):
    """transaction.version lowered by kafka-features: Java's producer then speaks the protocol before KIP-890, and again the new one afterwards."""
    need_java()
    broker = own_broker()
    with broker.connect() as connection:
        Admin(connection).create(name)

        def level():
            return [f["maxVersionLevel"] for f in connection.ask("ApiVersions", 4, {"clientSoftwareName": "t", "clientSoftwareVersion": "1"})["finalizedFeatures"]
                    if f["name"] == "transaction.version"]

        def epochs(number):
            java(TOOLS + "ProducerPerformance", "--topic", name, "--num-records", 200, "--record-size", 100, "--throughput", 1000,
                 "--transactional-id", f"{name}-{number}", "--transaction-duration-ms", 20, "--bootstrap-server", broker.bootstrap)
            return connection.ask("DescribeTransactions", 0, {"transactionalIds": [f"{name}-{number}"]})["transactionStates"][0]["producerEpoch"]
        assert level() == [2]
        answer = connection.ask("UpdateFeatures", 1, {"timeoutMs": 5000, "featureUpdates": [{"feature": "transaction.version", "maxVersionLevel": 0, "upgradeType": 2}]})
        assert answer["errorCode"] == 0 and level() == []     # what is at level 0 is not finalized
        assert epochs(0) == 0
        status, _, body = http(f"{broker.rest}/v1/cluster/features", "PATCH", b'{"transaction.version": 2}', {"Content-Type": "application/json"})
        assert status == 200 and level() == [2], body
        assert epochs(2) > 0
        assert len(read(broker, name, 400)) == 400


def consume_transform_produce(broker, source, target, group, count, transactional_id, crash_at=None):
    """Copies `count` records; True when all were, False after a crash in the middle of a transaction."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 2,
                         "auto.offset.reset": "earliest", "session.timeout.ms": 6000})
    consumer.subscribe([source])
    made = producer(broker, transactional_id, transaction_timeout_ms=10000)
    done, end = 0, time.monotonic() + 150
    try:
        while time.monotonic() < end:
            batch = [m for m in consumer.consume(20, 1.0) if not m.error()]
            if not batch:
                position = [t.offset for t in consumer.committed([TopicPartition(source, 0)], timeout=10)]
                if position == [count]:
                    return True
                continue
            made.begin_transaction()
            for message in batch:
                made.produce(target, value=message.value().upper())
            made.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 20)
            done += len(batch)
            if crash_at is not None and done >= crash_at:
                made.flush(10)
                return False
            made.commit_transaction(20)
        raise AssertionError("not done in time")
    finally:
        consumer.close()


@pytest.mark.timeout(180)
def test_consume_transform_produce_is_exactly_once(broker, admin, topic, name):
    admin.create(name + "-out")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for value in names("v", 100):
        plain.produce(topic, value=value)
    assert plain.flush(20) == 0
    group = name + "-group"
    assert not consume_transform_produce(broker, topic, name + "-out", group, 100, name, crash_at=40)
    assert consume_transform_produce(broker, topic, name + "-out", group, 100, name)       # fences the one that crashed, whose offsets are forgotten
    assert read(broker, name + "-out", 100) == [value.upper() for value in names("v", 100)]
    assert len(read(broker, name + "-out")) == 100


def test_offsets_of_a_transaction_count_when_it_commits(broker, topic, name):
    group, consumer = name + "-group", Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name + "-group"})
    asked = [TopicPartition(topic, 0)]
    p = producer(broker, name)

    def send_offsets(offset):
        p.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 20)
    p.begin_transaction()
    send_offsets(5)
    with broker.connect() as c:
        fetch = {"groups": [{"groupId": group, "memberId": None, "memberEpoch": -1, "topics": [{"name": topic, "partitionIndexes": [0]}]}]}

        def committed(stable):
            answer = c.ask("OffsetFetch", 9, {**fetch, "requireStable": stable})["groups"][0]
            part = answer["topics"][0]["partitions"][0]
            return part["committedOffset"], part["errorCode"]
        assert committed(False) == (-1, 0)
        assert committed(True)[1] == 88        # UNSTABLE_OFFSET_COMMIT
        p.commit_transaction(20)
        until(lambda: committed(True) == (5, 0), 10, lambda: committed(True))      # decided when commit returns; the marker follows
        p.begin_transaction()
        send_offsets(9)
        p.abort_transaction(20)
        until(lambda: committed(True) == (5, 0), 10, lambda: committed(True))
    assert consumer.committed(asked, timeout=10)[0].offset == 5
    consumer.close()


@pytest.mark.parametrize("version", [4, 5])
def test_a_commit_that_fills_more_than_one_batch(broker, topic, name, version):
    """One ask, several writes, of which two may share a batch and two may not; whoever waits for the group afterwards is answered."""
    group = name + "-group"
    with broker.connect(timeout_s=30) as c:
        made = until(lambda: (a := c.ask("InitProducerId", 4, {"transactionalId": name, "transactionTimeoutMs": 60000, "producerId": -1, "producerEpoch": -1}))["errorCode"] == 0 and a,
                     20, "a transactional producer")
        who = {"producerId": made["producerId"], "producerEpoch": made["producerEpoch"]}
        if version == 4:
            added = c.ask("AddOffsetsToTxn", 3, {"transactionalId": name, **who, "groupId": group})
            assert added["errorCode"] == 0
        for count in [*range(6000, 15000, 600), 15000]:
            parts = [{"partitionIndex": i % 40, "committedOffset": i, "committedLeaderEpoch": -1, "committedMetadata": ""} for i in range(count)]
            answer = c.ask("TxnOffsetCommit", version, {"transactionalId": name, "groupId": group, **who, "generationIdOrMemberEpoch": -1, "memberId": "", "groupInstanceId": None,
                                                        "topics": [{"name": topic, "partitions": parts}]})
            assert {p["errorCode"] for t in answer["topics"] for p in t["partitions"]} == {0}
        assert c.ask("EndTxn", version, {"transactionalId": name, **who, "committed": True})["errorCode"] == 0

        def committed():
            answer = c.ask("OffsetFetch", 9, {"groups": [{"groupId": group, "memberId": None, "memberEpoch": -1, "topics": [{"name": topic, "partitionIndexes": [39]}]}], "requireStable": True})
            part = answer["groups"][0]["topics"][0]["partitions"][0]
            return part["committedOffset"], part["errorCode"]
        until(lambda: committed() == (14999, 0), 20, committed)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_the_log_of_transactions_reads_as_kafkas(broker, topic, name):
    """By Kafka's own formatter."""
    need_java()
    p = producer(broker, name)
    p.begin_transaction()
    send(p, topic, names("a", 1))
    p.commit_transaction(20)
    text = java(TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", broker.bootstrap, "--topic", "__transaction_state", "--from-beginning", "--timeout-ms", 6000,
                "--formatter", TOOLS + "consumer.TransactionLogMessageFormatter")
    records, at = [], text.find('{"key"')
    while at >= 0:                             # the formatter puts nothing between them
        record, end = json.JSONDecoder().raw_decode(text, at)
        records.append(record)
        at = text.find('{"key"', end)
    mine = [r["value"]["data"] for r in records if r["key"]["data"]["transactionalId"] == name]
    assert [r["transactionStatus"] for r in mine] == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"], mine
    assert mine[1]["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]
    assert mine[0]["transactionPartitions"] is None and mine[3]["transactionPartitions"] == []
