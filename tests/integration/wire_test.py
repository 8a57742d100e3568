"""The tests' own decoder against the golden vectors: what the other tests rest on."""
import gzip
import json

import pytest

import batch
import wire

VECTORS = wire.TOP / "tests" / "golden" / "vectors"


def vectors(name):
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def test_every_message_vector_decodes_and_encodes_to_the_same_bytes():
    for v in vectors("handed"):
        data = bytes.fromhex(v["hex"])
        assert wire.encode(v["name"], v["version"], wire.decode(v["name"], v["version"], data)) == data, v["name"]


def test_a_message_with_a_byte_missing_or_left_over_is_refused():
    data = wire.encode("MetadataRequest", 9, {"topics": [{"name": "a"}]})
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(ValueError):
            wire.decode("MetadataRequest", 9, wrong)


def test_valid_batch_vectors_are_read_with_the_right_checksum():
    seen = 0
    for v in vectors("batches"):
        if v["kind"] == "valid":
            for b in batch.read(bytes.fromhex(v["hex"])):
                assert b.crc_is_valid() and len(b.records) == b.count
                seen += 1
    assert seen > 100


def test_every_request_of_the_vectors_gets_an_answer_that_is_right_to_its_last_byte(own_broker):
    """Requests that Kafka's own classes wrote, full, minimal and mixed, of each version that is served: the answer has the right header and nothing left over, and no
    connection is closed. Without acks there is no answer, and the next request has one."""
    seen = set()
    broker = own_broker(offsets_topic_num_partitions="1", transaction_state_log_num_partitions="1")
    with broker.connect() as c:
        served = {k["apiKey"]: (k["minVersion"], k["maxVersion"]) for k in c.ask("ApiVersions", 3, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"})["apiKeys"]}
    for v in vectors("handed"):
        low, high = served.get(v["api"], (0, -1))
        if v["type"] != "request" or not (3 if v["api"] == 0 else low) <= v["version"] <= high:
            continue
        name, body = v["name"].removesuffix("Request"), bytes.fromhex(v["hex"])
        with broker.connect() as c:
            if name == "Produce" and v["json"]["acks"] == 0:
                c.send(name, v["version"], body)
                c.ask("ApiVersions", 0)
            else:
                c.ask(name, v["version"], body)
        seen.add((v["api"], v["version"]))
    assert seen == {(api, version) for api, (low, high) in served.items() for version in range(3 if api == 0 else low, high + 1)}
