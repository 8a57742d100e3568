#!/usr/bin/env python3
"""Write seeds of the journal target from a real metadata folder: `journal_seeds.py LOG_DIR/__ottla_meta DIR`.

Each block of 4 KiB shrinks to its first 200 bytes, as journal_fuzz.c spreads them again (and mends frames of longer records)."""
import hashlib
import sys
from pathlib import Path


def shrink(data):
    return b"".join(data[at:at + 200].ljust(200, b"\0") for at in range(0, len(data), 4096))


def main():
    meta, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    term, journal = shrink((meta / "meta.term").read_bytes()), shrink((meta / "meta.journal").read_bytes())
    for blocks in range(0, len(journal) // 200 + 1):
        for mend in (0, 1):
            seed = bytes([len(term) // 2, 0, mend]) + term + journal[:blocks * 200]
            (out / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    main()
