"""Files of the engine against Kafka's own reader, without a server."""
import re
import subprocess

import pytest

from harness import PRESET, TOP
from java import TOOLS, java

PROGRAM = TOP / "build" / PRESET / "tests" / "interop" / "engine_files"
BAD = re.compile(r"isvalid: false|invalid bytes|mismatch|Exception|Found timestamp|Indexed offset|corrupt", re.I)


def engine(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    if not PROGRAM.exists():
        pytest.skip(f"no {PROGRAM}")
    path = tmp_path_factory.mktemp("segment-files")
    return path, engine("write", path)


@pytest.fixture(scope="module")
def kafkas(files):
    names = ",".join(str(p) for p in sorted(files[0].glob("0*")))
    text = java(TOOLS + "DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", names)
    assert not BAD.search(text), BAD.search(text)
    return text.replace("OptionalLong.empty", "none").splitlines()


def shown(files, suffix):
    (path,) = files[0].glob("*." + suffix)
    lines = engine("dump", path)
    assert lines[-1] == "0 faults"
    return lines[1:-1]


def test_kafka_shows_each_batch_and_record_as_we_do(files, kafkas):
    theirs = [line for line in kafkas if line.startswith(("baseOffset:", "| offset:"))]
    assert len(theirs) > 100
    assert theirs == shown(files, "log")


def test_kafka_reads_both_indexes(files, kafkas):
    assert shown(files, "index") == [line for line in kafkas if re.match(r"offset: \d+ position:", line)]
    assert shown(files, "timeindex") == [line for line in kafkas if re.match(r"timestamp: \d+ offset:", line)]


def test_kafka_reads_the_transaction_index(files, kafkas):
    theirs = [line for line in kafkas if line.startswith("version: 0 producerId:")]
    assert theirs == shown(files, "txnindex")
    facts = [line.split()[1:] for line in files[1] if line.startswith("aborted ")]
    assert facts == [re.findall(r"-?\d+", line)[1:] for line in theirs] and len(facts) > 5


def test_kafka_reads_the_snapshot_and_passes_over_our_section(files, kafkas):
    theirs = [re.sub(r"OptionalLong\[(\d+)\]", r"\1", line) for line in kafkas if re.match(r"producerId: \d+ producerEpoch:", line)]
    ours = [re.sub(r" appendedMs: \d+ olderBatches: \d+$", "", line) for line in shown(files, "snapshot")]
    assert sorted(theirs) == sorted(ours) and len(ours) == 4
    assert any("olderBatches: 4" in line for line in shown(files, "snapshot"))


def test_verify_finds_nothing(files):
    assert engine("verify", files[0]) == ["0 faults"]
