#!/usr/bin/env python3
"""Write seeds of the request target from the golden vectors: each message of at most 2 KiB bare, with its prefix, and as a whole request.

`request_seeds.py DIR`; then merge them into the kept corpus: build/fuzz/tests/fuzz/request_fuzz -merge=1 tests/fuzz/corpus/request DIR
"""
import gzip
import hashlib
import json
import re
import struct
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
VECTORS = TOP / "tests" / "golden" / "vectors" / "handed.jsonl.gz"


def name_hash(name):
    value = 0
    for byte in name.encode():
        value = (value * 31 + byte) & 0xFFFF
    return value


def first_version(name):
    text = (TOP / "base" / "wire" / "schema" / (name + ".txt")).read_text()
    return int(re.search(r"^versions (\d+)", text, re.M)[1])


def seeds(row):
    raw = bytes.fromhex(row["hex"])
    head = struct.pack(">HB", name_hash(row["name"]), row["version"] - first_version(row["name"]))
    yield head + b"\0" + raw
    if "framed" in row:
        yield head + b"\1" + bytes.fromhex(row["framed"])
    if row["type"] == "request":
        yield head + b"\2" + struct.pack(">hhih", row["api"], row["version"], 5, -1) + (b"\0" if row["header"] == 2 else b"") + raw


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with gzip.open(VECTORS, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            for seed in seeds(row) if len(row["hex"]) <= 4096 else ():
                (out / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    main()
