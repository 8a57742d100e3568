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
