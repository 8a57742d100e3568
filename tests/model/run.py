#!/usr/bin/env python3
"""Model checking with spin: sound configurations must show no error, every seeded fault one.

    run.py [--all] [--only REGEX] [--list]

A row is name, model, what it says (sound, bug, cut: sound, but the search may end by time), spin flags, compiler flags, pan flags, when (ci or all), seconds of CPU it may take, and the fault
that is seeded at run time (seeded.h; the older models take theirs as a flag of spin). A search that did not end proves nothing, so a sound row that runs out of time fails; a cut row passes if
no error was found. Every fault that a model has must have a row. Rows with the same flags share one compilation; two run at a time. Last line: N passed, N failed.
"""
import argparse
import concurrent.futures
import itertools
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLLAPSE, BITSTATE, DEPTH, WIDE = ["-DCOLLAPSE"], ["-DBITSTATE"], ["-m20000"], ["-m20000", "-w28"]
BASE = "-DMAXT=3 -DMAXV=2 -DMAXREBOOT=1"
VOTERS = "-DRECONF -DMAXT=2 -DMAXV=2 -DMAXREBOOT=1"
DAMAGE = "-DDAMAGE -DNOPRUNE -DMAXREBOOT=0 -DTWOCAND=1"
SMALL = "-DMAXLEN=1 -DMAXREC=1 -DMAXDELAY=0"


def row(name, model, kind, flags, when="all", cc=None, pan=None, limit_s=900, fault=None):
    return name, model, kind, flags.split(), cc or COLLAPSE, pan or DEPTH, when, limit_s, fault


def seeded(model, flags, faults, when="ci", **more):
    for fault in faults.split():
        yield row(f"bug-{model}-{fault}", model, "bug", flags, when, fault=fault, **more)


def rows():
    yield row("found-T2W2C1", "found", "sound", "", "ci", limit_s=60)
    yield from seeded("found", "", "MAJORITY PROMISEAGAIN JOINED PUBFIRST")
    yield row("found-T3W2C2", "found", "sound", "-DMAXW=2 -DMAXT=3 -DMAXC=2")
    yield row("catchup-T2V2", "catchup", "sound", "-DMAXV=2", "ci", limit_s=60)
    yield from seeded("catchup", "-DMAXV=2", "GIVESUP OLDERROWS COMMITALONE STOREDANYHOW ROWSGIVEUP")
    yield from seeded("catchup", "", "FORGETS UNCHECKED")
    yield row("catchup-T2V3", "catchup", "sound", "")
    yield row("catchup-T3V3", "catchup", "cut", "-DMAXT=3")
    yield row("move-M1F1", "move", "sound", "", "ci", limit_s=60)
    yield from seeded("move", "", "ATONCE EARLY ACKS YIELDENDS")
    twice = "-DMAXMOVE=2 -DMAXFENCE=0 -DMAXSHRINK=1"
    yield row("move-M2S1", "move", "sound", twice, "ci", limit_s=60)
    yield from seeded("move", twice, "ANYPE")
    yield row("move-M1F1C1", "move", "sound", "-DMAXCRASH=1")
    lists = "-DREASSIGN -DMAXLEN=1 -DMAXREC=1 -DMAXCRASH=0"
    one = "-DMAXDELAY=0 -DINITR=1 -DINITM=1"
    yield row("reassign-PE3-late", "replicate", "sound", f"{lists} -DFOCUS=1 -DMAXPE=3", "ci", limit_s=120)
    yield row("reassign-PE3-of-one", "replicate", "sound", f"{lists} {one} -DMAXPE=3")
    yield row("reassign-PE4-of-one", "replicate", "sound", f"{lists} {one} -DMAXPE=4")
    yield row("reassign-PE4-late", "replicate", "sound", f"{lists} -DFOCUS=1 -DMAXPE=4")
    yield row("unclean-E4", "durability", "sound", "-DUNCLEAN -DCA=0 -DMAXPE=4", "ci", limit_s=120)
    yield row("unclean-E5", "durability", "sound", "-DUNCLEAN -DCA=0 -DMAXPE=5")
    yield row("unclean-E7-L2", "durability", "cut", "-DUNCLEAN -DCA=0 -DMAXPE=7 -DMAXLEN=2 -DMAXREC=3", cc=BITSTATE, pan=WIDE)
    yield row("min-isr-E4", "durability", "sound", "-DMINCHANGE -DCA=0 -DMINISR=2 -DMAXPE=4", "ci", limit_s=120)
    yield row("min-isr-E5", "durability", "sound", "-DMINCHANGE -DCA=0 -DMINISR=2 -DMAXPE=5")
    yield row("replicate-two-lossy", "replicate", "sound", f"-DMAXPE=3 {SMALL} -DMAXCRASH=2 -DMAXLOSS=2")
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

    fast = {"JOIN", "MINORITY", "OSR", "NOMAXIMAL", "MINISR", "HWNOFLUSH", "READDED", "UNEND", "MINELR"}

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
    yield bug("READDED", "replicate", f"{lists} -DFOCUS=1 -DMAXPE=4")
    yield bug("FINISHEARLY", "replicate", f"{lists} {one} -DMAXPE=4")
    for name in ("CANCELANY", "DROPSMEMBER"):
        yield bug(name, "replicate", f"{lists} {one} -DFOCUS=1 -DMAXPE=5")
    yield bug("UNEND", "durability", "-DUNCLEAN -DCA=0 -DMAXPE=6")
    for name in ("MINELR", "ELRALONE"):
        yield bug(name, "durability", "-DMINCHANGE -DCA=0 -DMINISR=2")
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


def faults_of(model):
    """{name: number} of those seeded at run time, {name: None} of those that are flags"""
    text = (HERE / f"{model}.pml").read_text()
    numbers = {name: int(number) for name, number in re.findall(r"#define BUG_(\w+) +(\d+)", text)}
    return numbers | {name: None for name in re.findall(r"\bBUG_(\w+)", text) if name not in numbers}


def limited(words, folder, seconds, env=None):
    """(CPU seconds, what it said, did it end by itself): the time is CPU time, so that a busy machine changes nothing"""
    with open(f"{folder}/said", "w+", encoding="utf-8", errors="replace") as said:
        child = subprocess.Popen(words, cwd=folder, stdout=said, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})},
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5)))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return usage.ru_utime + usage.ru_stime, said.read(), child.returncode


def compile_model(model, flags, cc, folder, level):
    for file in [*HERE.glob("*.pml"), *HERE.glob("*.h")]:
        shutil.copy(file, folder)
    spent = 0
    for words in (["spin", *flags, "-a", f"{model}.pml"], ["cc", level, "-w", "-DMEMLIM=4000", *(["-DSAFETY", "-DNOFAIR"] if "-DLIVE" not in flags else []), *cc, "-o", "pan", "pan.c"]):
        seconds, text, code = limited(words, folder, 300)
        spent += seconds
        if code != 0:
            return spent, text
    return spent, ""


def verdict(kind, text, ended_itself):
    """(words, passed)"""
    errors = re.search(r"errors: (\d+)", text)
    found = bool(errors) and int(errors.group(1)) > 0
    states = re.search(r"(\S+) states, stored", text)
    ended = ended_itself and bool(errors) and "max search depth too small" not in text and "Search not completed" not in text
    words = f"{states.group(1) if states else '?'} states, {'an error' if found else 'no error'}{'' if ended or found else ', not to the end'}"
    if kind == "bug":
        return words, found and ("assertion violated" in text or "acceptance cycle" in text or "non-progress cycle" in text)
    return words, not found and (ended or kind == "cut")


def run_group(group):
    """[(row, CPU seconds, words, passed)] of rows that one compilation serves"""
    out = []
    _, model, _, flags, cc, _, when, _, _ = group[0]
    level = "-O2" if when == "all" else "-O0" if all(one[2] == "bug" for one in group) else "-O1"      # compiling costs more than a short search
    with tempfile.TemporaryDirectory(prefix="model-") as folder:
        spent, error = compile_model(model, flags, cc, folder, level)
        for one in group:
            if error:
                out.append((one, spent, error, False))
                continue
            number = str(faults_of(model)[one[8]]) if one[8] else "0"
            seconds, text, code = limited(["./pan", *one[5]], folder, one[7], {"MODEL_BUG": number})
            out.append((one, seconds + spent, *verdict(one[2], text, code >= 0)))
            spent = 0
    return out


def without_row():
    """faults of the models that nobody seeds"""
    seeds = {(one[1], fault) for one in rows() for fault in [one[8], *(flag[6:] for flag in one[3] if flag.startswith("-DBUG_"))] if fault}
    return [f"{model.stem}: {fault}" for model in sorted(HERE.glob("*.pml")) for fault in faults_of(model.stem) if (model.stem, fault) not in seeds]


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
    cpu = 0.0
    for fault in without_row():
        failed += 1
        print(f"FAIL {fault} is seeded by no row")
    groups = {}
    for one in chosen:
        groups.setdefault((one[1], *one[3], "cc", *one[4], one[6]), []).append(one)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for one, seconds, words, good in itertools.chain.from_iterable(pool.map(run_group, groups.values())):
            cpu, passed, failed = cpu + seconds, passed + good, failed + (not good)
            print(f"{'ok  ' if good else 'FAIL'} {one[0]:26} {seconds:6.1f} s  {words}", flush=True)
    print(f"{cpu:.0f} s of CPU")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
