#!/usr/bin/env python3
"""Write seeds of the batch target from the golden vectors: every batch of at most 1 KiB, once mended and once as it is.

`batch_seeds.py DIR`; then merge them into the kept corpus: build/fuzz/tests/fuzz/batch_fuzz -merge=1 tests/fuzz/corpus/batch DIR
"""
import gzip
import hashlib
import json
import sys
from pathlib import Path

VECTORS = Path(__file__).resolve().parents[1] / "golden" / "vectors" / "batches.jsonl.gz"


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with gzip.open(VECTORS, "rt") as lines:
        for number, line in enumerate(lines):
            row = json.loads(line)
            for data in [bytes.fromhex(row.get("hex", ""))] + [bytes.fromhex(step["hex"]) for step in row.get("steps", [])[:2]]:
                if len(data) > 1024:
                    continue
                for way in (number * 2 & 0x3E | 1, number * 2 & 0xFE):
                    seed = bytes([way]) + data
                    (out / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    main()
