#!/usr/bin/env python3
"""Model checking with spin: sound configurations must show no error, every seeded fault one.

    run.py [--all] [--only REGEX] [--list]

A row is name, model, what it says (sound, bug, cut: sound, but the search may end by time), spin flags, compiler flags, pan flags, when (ci or all) and seconds it may take. A
search that did not end proves nothing, so a sound row that runs out of time fails; a cut row passes if no error was found. Last line: N passed, N failed.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLLAPSE, BITSTATE, DEPTH, WIDE = ["-DCOLLAPSE"], ["-DBITSTATE"], ["-m20000"], ["-m20000", "-w28"]
BASE = "-DMAXT=3 -DMAXV=2 -DMAXREBOOT=1"
VOTERS = "-DRECONF -DMAXT=2 -DMAXV=2 -DMAXREBOOT=1"
DAMAGE = "-DDAMAGE -DNOPRUNE -DMAXREBOOT=0 -DTWOCAND=1"
SMALL = "-DMAXLEN=1 -DMAXREC=1 -DMAXDELAY=0"


def row(name, model, kind, flags, when="all", cc=None, pan=None, limit_s=900):
    return name, model, kind, flags.split(), cc or COLLAPSE, pan or DEPTH, when, limit_s


def rows():
    # seconds each: bounds that are smaller than those of the design's own runs, which are below
    yield row("publish-T2V2", "publish", "sound", "-DMAXT=2 -DMAXV=2 -DMAXREBOOT=1", "ci", limit_s=120)
    yield row("replicate-PE3", "replicate", "sound", f"-DMAXPE=3 {SMALL} -DMAXCRASH=0", "ci", limit_s=120)
    yield row("durability-1-P6", "durability", "sound", "-DN=1 -DCA=1 -DMAXPE=6", "ci", limit_s=120)
    yield row("publish-T3V2", "publish", "sound", BASE)
    yield row("voters-T2V2", "publish", "sound", VOTERS)
    yield row("damage-T2V2", "publish", "sound", f"{DAMAGE} -DMAXT=2 -DMAXV=2")
    yield row("replicate-PE3-L1R2C1D1", "replicate", "sound", "-DMAXPE=3 -DMAXLEN=1 -DMAXREC=2 -DMAXCRASH=1 -DMAXDELAY=1")
    yield row("replicate-PE4-L1R1", "replicate", "sound", f"-DMAXPE=4 {SMALL} -DMAXCRASH=0")
    yield row("durability-1-P8C4", "durability", "sound", "-DN=1 -DCA=1 -DCB=0 -DMAXSW=2 -DMAXLEN=2 -DMAXREC=3 -DMAXPE=8 -DMAXCRASH=4 -DMAXLOSS=4")
    for cls in (0, 1, 2):
        yield row(f"durability-class{cls}-P6", "durability", "sound", f"-DCA={cls} -DMAXPE=6")
    yield row("durability-auto-P6", "durability", "sound", "-DCA=3 -DINITI=1 -DMAXPE=6")
    yield row("durability-both-async", "durability", "sound", "-DCA=2 -DASYNC")
    yield row("durability-both-L2", "durability", "cut", "-DCA=2 -DMAXLEN=2", cc=BITSTATE, pan=WIDE)

    fast = {"JOIN", "MINORITY", "OSR", "NOMAXIMAL", "MINISR", "HWNOFLUSH"}

    def bug(name, model, flags, **more):
        return row(f"bug-{name}", model, "bug", f"{flags} -DBUG_{name}", "ci" if name in fast else "all", **more)
    for name in ("JOIN", "DELTA", "REBOOTLEAD", "MINORITY"):
        yield bug(name, "publish", BASE)
    for name in ("STALEPUB", "OLDACK"):
        yield bug(name, "publish", f"{BASE} -DNOPRUNE")
    yield bug("AMNESIA", "publish", f"{BASE} -DNOPRUNE -DTWOCAND=1", pan=["-m2000"])
    for name in ("CFGNEW", "NOVOTEPROOF"):
        yield bug(name, "publish", VOTERS)
    yield bug("CFGTWO", "publish", "-DRECONF -DCFG34 -DMAXT=3 -DMAXV=2 -DMAXREBOOT=0", cc=BITSTATE, pan=WIDE)
    for name in ("TERMLOST", "UNSURE"):
        yield bug(name, "publish", f"{DAMAGE} -DMAXT=2 -DMAXV=2")
    yield bug("UNSURECLEAR", "publish", f"{DAMAGE} -DMAXT=2 -DMAXV=3", cc=BITSTATE, pan=WIDE)
    for name in ("OSR", "HWMINUS1", "TRUNCHW", "PENDCLEAR", "NOMAXIMAL", "MINISR"):
        yield bug(name, "replicate", f"-DMAXPE=3 {SMALL} -DMAXCRASH=0")
    for name in ("BE", "LASTSTAND"):
        yield bug(name, "replicate", f"-DMAXPE=3 {SMALL} -DMAXCRASH=1")
    yield bug("RESUME", "replicate", "-DMAXPE=3 -DMAXLEN=1 -DMAXREC=2 -DMAXCRASH=1 -DMAXDELAY=0")
    yield bug("UNVALIDATED", "replicate", "-DMAXPE=3 -DMAXLEN=1 -DMAXREC=2 -DMAXCRASH=0 -DMAXDELAY=0")
    for name in ("CASPE", "MINMAX"):
        yield bug(name, "replicate", f"-DMAXPE=4 {SMALL} -DMAXCRASH=0", cc=BITSTATE, pan=WIDE)
    yield bug("EXPANDSTART", "replicate", "-DFOCUS=1 -DMAXPE=4 -DMAXLEN=2 -DMAXREC=2 -DMAXCRASH=0 -DMAXDELAY=0", cc=BITSTATE, pan=WIDE)
    yield bug("NOFETCHEPOCH", "replicate", "-DMAXPE=3 -DMAXLEN=2 -DMAXREC=3 -DMAXCRASH=0 -DMAXDELAY=1", cc=BITSTATE, pan=WIDE)
    yield bug("MINSPLIT", "replicate", f"-DFOCUS=1 -DMAXPE=4 {SMALL} -DMAXCRASH=0 -DMINCHANGE -DINITM=1", cc=BITSTATE, pan=WIDE)
    yield bug("HWNOFLUSH", "durability", "-DN=1 -DCA=1 -DMAXPE=6")
    for name in ("DURIGN", "SWITCHACK"):
        yield bug(name, "durability", "-DN=1 -DCB=1 -DMAXSW=1 -DMAXPE=6")
    for name in ("DURLEAVE", "CLASSABA"):
        yield bug(name, "durability", "-DN=1 -DCA=1 -DCB=0 -DMAXSW=2 -DMAXPE=6")
    for name in ("ELRREPL", "BOOTCLASS"):
        yield bug(name, "durability", "-DCA=0")
    for name in ("R4NOWAIT", "R4SHORT", "R4RANGE", "LMSHRINK", "LMEMPTY"):
        yield bug(name, "durability", "-DCA=0 -DMAXPE=6")
    for name, flags in (("R4STALE", "-DCA=0 -DMAXPE=6 -DMAXCRASH=3"), ("R4HW", "-DCA=0 -DMAXPE=7"), ("R4NOFLUSH", "-DCA=2 -DINITI=1 -DMAXPE=6"), ("DURKEEP", "-DCA=1"),
                        ("FOLLOWER", "-DCA=1 -DMINISR=2"), ("DURHW", "-DCB=1 -DMAXSW=1 -DMAXPE=6"), ("DURELR", "-DCB=2 -DMAXSW=1 -DMINISR=2 -DMAXPE=6"),
                        ("LEADERONLY", "-DCA=2"), ("ADMITFLUSH", "-DCA=2 -DINITI=1"), ("FLUSHTRUNC", "-DCA=2 -DMAXPE=6 -DASYNC"),
                        ("AUTOPROP", "-DCA=3 -DINITI=1 -DMCMASK=1"), ("ALONE", "-DCA=3"), ("ALONENOFLUSH", "-DCA=3")):
        yield bug(name, "durability", flags)


def run(one):
    """(seconds, words, passed)"""
    name, model, kind, flags, cc, pan, _, limit_s = one
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="model-") as folder:
        shutil.copy(HERE / f"{model}.pml", f"{folder}/m.pml")
        done = subprocess.run(["spin", *flags, "-a", "m.pml"], cwd=folder, capture_output=True, text=True)
        if done.returncode == 0:
            done = subprocess.run(["cc", "-O2", "-w", "-DSAFETY", "-DNOFAIR", "-DMEMLIM=4000", *cc, "-o", "pan", "pan.c"], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            return time.monotonic() - started, done.stdout + done.stderr, False
        timed_out = False
        try:
            out = subprocess.run(["./pan", *pan], cwd=folder, capture_output=True, text=True, timeout=limit_s).stdout
        except subprocess.TimeoutExpired as late:
            timed_out, out = True, (late.stdout or b"").decode()
    errors = re.search(r"errors: (\d+)", out)
    found = bool(errors) and int(errors.group(1)) > 0
    states = re.search(r"(\S+) states, stored", out)
    ended = bool(errors) and "max search depth too small" not in out and "Search not completed" not in out
    words = f"{states.group(1) if states else '?'} states, {'an error' if found else 'no error'}{'' if ended or found else ', not to the end'}"
    if kind == "bug":
        return time.monotonic() - started, words, found and "assertion violated" in out
    return time.monotonic() - started, words, not found and (ended or (kind == "cut" and (timed_out or bool(errors))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [one for one in rows() if (options.all or one[6] == "ci" or options.only) and re.search(options.only, one[0])]
    if options.list:
        for one in chosen:
            print(one[0], one[6])
        return 0
    passed = failed = 0
    for one in chosen:
        seconds, words, good = run(one)
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {one[0]:24} {seconds:6.1f} s  {words}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
