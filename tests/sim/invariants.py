#!/usr/bin/env python3
"""Does docs/simulation.md tell of every row of invariants.txt, in words? --write puts the table there, keeping the words. Every one of the 30 invariants has a row, and
every bug of coordinator/bug.h has one or is a test of the groups; a row of a model names a fault that tests/model/run.py seeds, one of a unit a test that is there."""
import re
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "simulation.md"
HEAD = ["| # | invariant | checked in | bug that breaks it | found within |", "|---|---|---|---|---|"]
FILES = {"cluster": "cluster/check.c", "replication": "replication/check.c", "engine": "clients.c", "groups": "groups/main.c", "txns": "txns.c"}
PLACES = {13: "replication/brokers.c", 20: "replication/brokers.c", 25: "common/campaign.c", 28: "cluster/clients.c", 29: "cluster/clients.c"}
IN_WHOLE = {20: "whole/clients.c", 26: "replication/check.c, whole/clients.c"}
COORDINATORS = {*range(1, 11), 24}         # the whole checks these where the coordinators' own simulator does
WORDS = {
    1: "at most one coordinator in a term", 2: "(term, version) names at most one value", 3: "committed values form one chain",
    4: "a coordinator has all that was committed before its term", 5: "a value made from a delta is the value that was meant (hash, and the sum over all rows)",
    6: "what a node has applied never goes back", 7: "no message before what it rests on is on the disk", 8: "one vote in a term, across crashes",
    9: "one voter changes at a time", 10: "no second cluster beside a founded voter",
    11: "leader in isr, isr and elr apart and among the replicas, elr only when isr is too small", 12: "leader and partition epochs grow",
    13: "one broker appends in a leader epoch", 14: "equal (offset, epoch): equal logs up to there", 15: "whoever is in isr or elr holds all that was committed; what is lost, the row says",
    16: "a committed offset never changes", 17: "a clean leader comes from isr, or from elr when isr is empty",
    18: "what acks=all was told is there, in order, once", 19: "nothing above the high watermark is shown; it never goes back in an epoch",
    20: "under a strict lease no acks=1 record after a successor's first", 21: "committed offsets go back by a client's wish only",
    22: "read_committed sees whole transactions, or nothing of them", 23: "faults over: somebody leads, all agree, all replicas are in sync, something new is acknowledged",
    24: "journal, memory and queues are bounded by the value", 25: "the same seed leaves the same trace",
    26: "a leader that lives and is moved, or stops, loses nothing that acks=1 was told",
    27: "no node or registered broker has a value, row or record of a feature level that its build does not know",
    28: "a read sees whatever anybody was told before it was asked", 29: "no coordinator tells a broker that it lives when another one led before it asked",
    30: "a log begins where somebody deleted what was before, and nowhere else; what was deleted stays so",
}


def rows():
    for line in (HERE / "invariants.txt").read_text().splitlines():
        if re.match(r"\d", line):
            number, program, bug, first, seeds, *flags = line.split()
            yield int(number), program, bug, int(first), int(seeds), " ".join(flags)


def lines():
    for number, program, bug, first, seeds, flags in rows():
        if program in ("model", "unit"):
            place, name = flags.split()
            where, how = (f"the model {place}.pml", f"its fault `{name}`") if program == "model" else (place, f"a unit: {name.replace('_', ' ')}")
            yield f"| {number} | {WORDS[number]} | {where} | `{bug}` | {how} |"
            continue
        whole = "the whole: " + IN_WHOLE.get(number, FILES["cluster" if number in COORDINATORS else "replication"])
        place = whole if program == "whole" else PLACES.get(number) or FILES[program]
        within = f"{seeds} seeds" + (f" from {first}" if first > 1 else "") + (f", `{flags}`" if flags else "")
        yield f"| {number} | {WORDS[number]} | {place} | `{bug}` | {within} |"


def untested():
    """bugs that no test chooses"""
    bugs = set(re.findall(r'^ +X\(\w+, "([a-z-]+)"\)', (ROOT / "coordinator" / "bug.h").read_text(), re.M))
    return bugs - {row[2] for row in rows()} - set(re.findall(r"([a-z-]+)=\d+", (HERE / "groups" / "CMakeLists.txt").read_text()))


def gone():
    """rows of models whose fault no row there seeds, and of units that are not there"""
    seeds = {(row[1], row[0]) for row in runpy.run_path(str(ROOT / "tests" / "model" / "run.py"))["rows"]() if row[2] == "bug"}
    for _, program, bug, _, _, flags in rows():
        if program == "model":
            model, fault = flags.split()
            if not {(model, f"bug-{fault}"), (model, f"bug-{model}-{fault}")} & seeds:
                yield bug
        elif program == "unit":
            file, name = flags.split()
            if not re.search(rf"(TEST|cmocka_unit_test)\({name}\)", (ROOT / "tests" / "unit" / file).read_text()):
                yield bug


def main():
    wanted = [*HEAD, *lines()]
    missing = set(WORDS) - {row[0] for row in rows()}
    text = PAGE.read_text()
    old = re.search(r"\| # \| invariant.*?(?=\n\n)", text, re.S)
    if "--write" in sys.argv:
        table = "\n".join(wanted)
        PAGE.write_text(text.replace(old.group(0) if old else "TABLE", table))
        return 0
    same = old is not None and old.group(0).splitlines() == wanted
    print(f"invariants without a bug: {sorted(missing)}" if missing else "every invariant has a bug")
    print(f"bugs without a test: {sorted(untested())}, rows of what is not there: {sorted(gone())}")
    print("docs/simulation.md has the table" if same else "docs/simulation.md differs: tests/sim/invariants.py --write")
    return 0 if same and not (missing or untested() or list(gone())) else 1


if __name__ == "__main__":
    sys.exit(main())
