#!/usr/bin/env python3
"""Kafka's own DumpLogSegments over data directories that the server left: our independent checker.

    dump_log_segments.py DIR...    every .log, .index, .timeindex, .txnindex and .snapshot below; exit 1 on any complaint

The tool exits 0 on most damage, so its output is searched. One JVM reads many files.
"""
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
JARS = TOP / "build" / "jars"
ENDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
SEGMENT = re.compile(r"\d{20}")
BAD = re.compile(r"isvalid: false|invalid bytes|mismatch|exception|\bError\b|out of order|is missing|corrupt|not found|"
                 r"Could not find|Failed|unknown magic", re.I)
BATCH = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+).*\bmagic: (\d+)", re.M)
PER_RUN = 400


def segment_files(directory):
    return [p for p in sorted(Path(directory).rglob("*")) if p.suffix in ENDS and SEGMENT.match(p.stem) and "-delete" not in p.name]


def dump(files):
    words = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto",
             "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{JARS}/*", "org.apache.kafka.tools.DumpLogSegments",
             "--deep-iteration", "--skip-record-metadata", "--files", ",".join(map(str, files))]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    return done.returncode, done.stdout.decode(errors="replace")


def check(directories, expect_files=True):
    """(complaints, number of files, number of batches)"""
    files = [f for d in directories for f in segment_files(d)]
    complaints, batches = [], 0
    if not files and expect_files:
        complaints.append(f"no segment files below {', '.join(map(str, directories))}")
    for i in range(0, len(files), PER_RUN):
        part = files[i:i + PER_RUN]
        status, text = dump(part)
        if status:
            complaints.append(f"exit status {status}: {text[-2000:]}")
        seen, where = set(), "?"
        for line in text.splitlines():
            if line.startswith("Dumping "):
                where = line.removeprefix("Dumping ")
                seen.add(where)
            elif BAD.search(re.sub(r"\S*/\S+", "", line)):  # a topic's name may hold any of the words
                complaints.append(f"{where}: {line[:300]}")
        complaints += [f"{f}: not dumped" for f in part if str(f) not in seen]
        batches += len(BATCH.findall(text))
    return complaints, len(files), batches


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    complaints, files, batches = check(sys.argv[1:])
    for line in complaints[:50]:
        print(line)
    print(f"{files} files, {batches} batches, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
