#!/usr/bin/env python3
"""Write seeds of the kafka_door target from the golden vectors: each served request alone, a few after each other, and a raw stream.

`kafka_door_seeds.py DIR`; then merge them into the kept corpus: build/fuzz/tests/fuzz/kafka_door_fuzz -merge=1 tests/fuzz/corpus/kafka_door DIR
"""
import gzip
import hashlib
import json
import struct
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
VECTORS = TOP / "tests" / "golden" / "vectors" / "handed.jsonl.gz"
KEYS = [0, 1, 2, 3, 10, 17, 18, 19, 20, 21, 22, 23, 29, 30, 31, 32, 36, 37, 60, 11, 8, 33, 34, 35, 43, 44, 45, 46, 48, 49, 50, 55, 57, 61, 71, 72, 74, 75,
        24, 25, 26, 27, 28, 65, 66, 9, 12, 13, 14, 15, 16, 42, 47, 51, 38, 39, 40, 41, 64, 68, 69, 76, 77, 78, 79, 80, 81, 88, 89, 90, 91, 92]    # as in kafka_door_fuzz.c
SMALL = 600


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    entries, raw = [], b""

    def keep(seed):
        (out / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    with gzip.open(VECTORS, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            if row["type"] != "request" or row["api"] not in KEYS or len(row["hex"]) > 2 * SMALL:
                continue
            body = bytes.fromhex(row["hex"])
            entry = struct.pack(">BBH", KEYS.index(row["api"]), row["version"], len(body)) + body
            keep(b"\1\0" + entry)
            if row["case"] == "full":
                entries.append(entry)
            head = struct.pack(">hhih", row["api"], row["version"], 5, -1) + (b"\0" if row["header"] == 2 else b"")
            raw += struct.pack(">i", len(head + body)) + head + body
    for i in range(0, len(entries), 7):
        keep(b"\1\3" + b"".join(entries[i:i + 7]))
    keep(b"\0\0" + raw[:60000])


if __name__ == "__main__":
    main()
