#!/usr/bin/env python3
"""Stages of `./dev check` and `./dev test`: each runs one command with a time limit, keeps its output in
build/test-logs/STAGE.log and counts what that output says. A stage whose subject this tree does not have yet is
skipped and says so. Two lanes run beside each other: what computes (builds, units, simulators, fuzzers; a little nicer),
and what mostly waits (servers and their clients). A stage begins when those it is after have ended. The last line printed is 'N passed, N failed[, N skipped]'; the exit status is 1 if anything failed.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LOGS = TOP / "build" / "test-logs"
JOBS = os.cpu_count() or 2
BUDGET_S = 4500      # where a hung run ends; the aim is AIM_S
AIM_S = 1200
STOPPING = threading.Event()
PATIENCE = 4         # a stage may take this many times its usual time before it counts as hung: machines differ and are shared


# ---- what a log says: each parser gives (passed, failed, skipped) or None when it finds no count

def count_ctest(text):
    m = re.search(r"tests passed, (\d+) tests failed out of (\d+)", text)
    if not m:
        return None
    failed, total = int(m.group(1)), int(m.group(2))
    skipped = len(re.findall(r"\*\*\*(?:Skipped|Not Run)", text))
    return total - failed - skipped, failed, skipped


def count_pytest(text):
    lines = [line for line in text.splitlines() if re.search(r" in [\d.]+s", line) and re.search(r"\d+ \w+", line)]
    if not lines:
        return None
    n = {word: int(num) for num, word in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)", lines[-1])}
    failed = n.get("failed", 0) + n.get("error", 0) + n.get("errors", 0) + n.get("xpassed", 0)
    return n.get("passed", 0), failed, n.get("skipped", 0) + n.get("xfailed", 0)


def count_plain(text):
    found = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", text, re.M)
    return (int(found[-1][0]), int(found[-1][1]), int(found[-1][2] or 0)) if found else None


def count_exit(_text):
    return None  # the exit status alone: 1 passed or 1 failed


# ---- what a stage needs to exist; each gives None or the reason to skip

def program(name, preset):
    for path in sorted((TOP / "build" / preset).rglob(name)):
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


def need_program(name, preset):
    return lambda: None if program(name, preset) else f"this tree builds no {name}"


def need_files(pattern):
    return lambda: None if list(TOP.glob(pattern)) else f"no {pattern} yet"


def need_all(*needs):
    return lambda: next((why for need in needs if (why := need())), None)


def python():
    venv = TOP / ".venv" / "bin" / "python"
    return str(venv) if venv.exists() else sys.executable


@dataclass
class Stage:
    name: str
    when: str  # check (also in test), test, all (only with --all)
    limit_s: int
    command: object  # list of words, or a function that gives it (called once the builds have run)
    count: object = count_exit
    need: object = lambda: None
    after: tuple = ()  # stages that must not have failed
    env: dict = field(default_factory=dict)
    counts: bool = True  # False: a build, adds to the sum only when it fails
    waits: bool = False  # in the lane of those that mostly wait


def build(preset, when="test", limit_s=420, targets=()):
    only = f" --target {' '.join(targets)}" if targets else ""
    script = (f"[ -f build/{preset}/build.ninja ] || cmake --preset {preset} || exit 1; "
              f"exec cmake --build build/{preset} -j {JOBS}{only}")
    return Stage(f"build-{preset}", when, limit_s, ["bash", "-c", script], counts=False)


def unit(preset, when="test", limit_s=120, leave_out=()):
    return Stage(f"unit-{preset}", when, limit_s,
                 ["ctest", "--test-dir", f"build/{preset}", "-L", "unit", "-j", str(JOBS), "--output-on-failure", *leave_out],
                 count_ctest, need_files("tests/unit/*/*_test.c"), (f"build-{preset}",))


def sim(name, preset, seeds, when="test", limit_s=240, seed=None):
    def command():
        words = [program("ottla_sim", preset), "--seeds", str(seeds), "--jobs", str(JOBS)]
        return words + ["--seed", str(seed)] if seed is not None else words
    return Stage(name, when, limit_s, command, count_plain, need_program("ottla_sim", preset), (f"build-{preset}",))


def pytest(name, preset, args, when="test", limit_s=240, need=lambda: None, **env):
    def command():
        return [python(), "-m", "pytest", "-q", "-rfEs", "--tb=short", "-p", "no:cacheprovider", *args]
    return Stage(name, when, limit_s, command, count_pytest,
                 need_all(need_program("ottla", preset), need), (f"build-{preset}",),
                 {"OTTLA_TEST_PRESET": preset, **env}, waits=True)


def fuzz(when, seconds, limit_s):
    return Stage("fuzz" if when == "test" else "fuzz-long", when, limit_s,
                 [sys.executable, "tests/fuzz/run.py", "--seconds", str(seconds)], count_plain,
                 need_files("tests/fuzz/*_fuzz.c"), ("build-fuzz",))


INTEGRATION = "tests/integration"
FUZZERS = sorted(p.stem for p in (TOP / "tests" / "fuzz").glob("*_fuzz.c"))
STAGES = [
    Stage("tidy", "check", 60, [sys.executable, "tests/tidy/tidy.py"], count_plain),
    build("release", "check", 400),
    unit("release", "check", 120),
    Stage("vectors", "check", 120, lambda: [program("vectors_run", "release"), "tests/golden/vectors"], count_plain,
          need_program("vectors_run", "release"), ("build-release",)),
    sim("sim-release", "release", 2000, limit_s=180),
    Stage("sim-meta", "test", 90, lambda: [program("ottla_sim_meta", "release"), "--seeds", "500"], count_exit,
          need_program("ottla_sim_meta", "release"), ("build-release",)),
    Stage("sim-compact", "test", 90, lambda: [program("ottla_sim_compact", "release"), "--seeds", "400"], count_exit,
          need_program("ottla_sim_compact", "release"), ("build-release",)),
    Stage("model", "test", 240, ["python3", "tests/model/run.py"], count_plain, lambda: None if shutil.which("spin") else "no spin here: ./dev setup"),
    Stage("model-long", "all", 7200, ["python3", "tests/model/run.py", "--all"], count_plain, lambda: None if shutil.which("spin") else "no spin here: ./dev setup"),
    Stage("sim-replication-long", "all", 900, lambda: [program("ottla_sim_replication", "release"), "--seeds", "10000", "--from", "100000"], count_plain,
          need_program("ottla_sim_replication", "release"), ("build-release",)),
    Stage("sim-cluster-long", "all", 1800, lambda: [program("ottla_sim_cluster", "release"), "--seeds", "10000", "--from", "100000"], count_plain,
          need_program("ottla_sim_cluster", "release"), ("build-release",)),
    Stage("sim-whole-long", "all", 3600, lambda: [program("ottla_sim_whole", "release"), "--seeds", "10000", "--from", "100000"], count_plain,
          need_program("ottla_sim_whole", "release"), ("build-release",)),
    Stage("sim-rest", "test", 240, ["ctest", "--test-dir", "build/release", "-L", "sim", "-j", str(JOBS),
                                    "--output-on-failure"], count_ctest, need_program("ottla_sim", "release"), ("build-release",)),
    pytest("clients", "release", [INTEGRATION, "-m", "not long and not kill", "-n", "3"], limit_s=420),    # they mostly wait: three at a time
    pytest("kills", "release", [INTEGRATION, "-m", "kill and not long and not cluster"], limit_s=180, OTTLA_KILL_ROUNDS="20"),
    pytest("kills-cluster", "release", [INTEGRATION, "-m", "cluster and not long"], limit_s=120, OTTLA_CLUSTER_ROUNDS="12"),
    build("asan", limit_s=240, targets=("unit_tests", "vectors_run", "ottla", "ottla_sim", "ottla_sim_meta", "ottla_sim_consumer", "ottla_sim_compact")),
    unit("asan", limit_s=180),
    sim("sim-asan", "asan", 200, limit_s=90, seed=100000),
    pytest("smoke-asan", "asan", [INTEGRATION, "-m", "smoke", "-n", "2"], limit_s=150),
    build("tsan", limit_s=240, targets=("unit_tests_of_threads", "ottla")),
    # what has no threads is slow under TSan and tells nothing
    unit("tsan", limit_s=180, leave_out=("-E", "unit/(wire|coordinator)/|unit/engine/(batch|codec|producers|vectors|legacy|record)|^(sim|vectors)/")),
    pytest("smoke-tsan", "tsan", [INTEGRATION, "-m", "smoke", "-n", "2"], limit_s=150),
    build("fuzz", limit_s=240, targets=FUZZERS),
    fuzz("test", 60, 330),
    sim("sim-long", "release", 50000, when="all", limit_s=3600, seed=1000000),
    sim("sim-asan-long", "asan", 5000, when="all", limit_s=3600, seed=2000000),
    pytest("clients-long", "release", [INTEGRATION, "-m", "long and not kill"], when="all", limit_s=3600),
    pytest("kills-long", "release", [INTEGRATION, "-m", "kill and not cluster"], when="all", limit_s=3600, OTTLA_KILL_ROUNDS="200"),
    pytest("kills-cluster-long", "release", [INTEGRATION, "-m", "cluster"], when="all", limit_s=3600, OTTLA_CLUSTER_ROUNDS="100", OTTLA_CLUSTER_SEED="1000"),
    pytest("clients-asan", "asan", [INTEGRATION, "-m", "not long and not kill"], when="all", limit_s=1800),
    fuzz("all", 1200, 7200),
]


def stop_group(process):
    """End the stage's own process group, politely first."""
    for sig, wait_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sig)
        except ProcessLookupError:
            return
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            pass


def run_command(stage, log, limit_s):
    """Exit status, the seconds taken and those of CPU; status None means the time was up."""
    words = stage.command() if callable(stage.command) else stage.command
    if not stage.waits:
        words = ["nice", "-n", "5", *words]
    # what Python compiled is kept: each pytest and each of its workers would compile all tests anew
    env = {**{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}, **stage.env, "PYTHONUNBUFFERED": "1", "PYTHONPYCACHEPREFIX": str(TOP / "build" / "pycache")}
    start = time.monotonic()
    with open(log, "w") as out:
        process = subprocess.Popen(words, cwd=TOP, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status, cpu_s = wait_for(process, start + limit_s)
        finally:
            stop_group(process)  # also when we are told to end
    return status, time.monotonic() - start, cpu_s


def wait_for(process, end):
    """(exit status or None, CPU seconds of it and of all that it waited for)."""
    while time.monotonic() < end and not STOPPING.is_set():
        found, status, used = os.wait4(process.pid, os.WNOHANG)
        if found:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, used.ru_utime + used.ru_stime
        STOPPING.wait(0.1)
    return None, 0.0


def judge(stage, status, text):
    """(passed, failed, skipped) of a finished stage: never fewer failures than the exit status says."""
    if not stage.counts:
        return 0, int(status != 0), 0
    counted = stage.count(text)
    if counted is None:
        return (0, 1, 0) if status != 0 or stage.count is not count_exit else (1, 0, 0)
    passed, failed, skipped = counted
    if passed + failed + skipped == 0 or (status != 0 and failed == 0):
        failed += 1
    return passed, failed, skipped


def show(stage, log, text, limit=80):
    lines = [line.rstrip() for line in text.splitlines()]
    print(f"--- {stage.name}: end of {log.relative_to(TOP)}")
    for line in lines[-limit:]:
        print("  | " + line)  # so that an inner closing line does not read like ours
    print("---", flush=True)


class Run:
    """The stages of one run; a thread goes through those of each lane in their order."""

    def __init__(self, stages, budget_s):
        self.stages, self.budget_s, self.start = stages, budget_s, time.monotonic()
        self.total, self.bad, self.cpu_s = [0, 0, 0], set(), 0.0
        self.lock, self.ended = threading.Lock(), {stage.name: threading.Event() for stage in stages}

    def left_s(self, stage):
        patience_s = stage.limit_s * PATIENCE
        return min(patience_s, self.budget_s - (time.monotonic() - self.start)) if self.budget_s else patience_s

    def lane(self, waits):
        for stage in self.stages:
            if stage.waits == waits:
                for name in stage.after:
                    if name in self.ended:
                        self.ended[name].wait()
                try:
                    self.one(stage)
                except Exception as fault:     # of the runner: a lane that ended would look as if all were well
                    self.tell(stage, (0, 1, 0), f"FAIL           {fault!r}")
                finally:
                    self.ended[stage.name].set()

    def tell(self, stage, counts, words, log=None, text=""):
        with self.lock:
            self.total = [a + b for a, b in zip(self.total, counts)]
            if counts[1]:
                self.bad.add(stage.name)
            print(f"{stage.name:<16} {words}", flush=True)
            if counts[1] and log:
                show(stage, log, text)

    def one(self, stage):
        if STOPPING.is_set():
            return
        broken = [name for name in stage.after if name in self.bad]
        why, limit_s = f"{broken[0]} failed" if broken else stage.need(), self.left_s(stage)
        if why and not broken:
            self.tell(stage, (0, 0, 1), f"skip           {why}")
            return
        if broken or limit_s <= 0:
            self.tell(stage, (0, 1, 0), f"FAIL           not run: {why or 'the time for all stages is up'}")
            return
        log = LOGS / f"{stage.name}.log"
        status, took_s, cpu_s = run_command(stage, log, limit_s)
        text = log.read_text(errors="replace")
        counts = judge(stage, status, text)
        self.cpu_s += cpu_s
        note = "" if not stage.counts else "%d passed, %d failed, %d skipped" % counts
        if status is None:
            note += f"; stopped after {limit_s:.0f} s"
        self.tell(stage, counts, f"{'FAIL' if counts[1] else 'ok  '} {took_s:7.1f} s {cpu_s:7.1f} s CPU  {note}", log, text)

    def all(self):
        LOGS.mkdir(parents=True, exist_ok=True)
        waiting = threading.Thread(target=self.lane, args=(True,))
        waiting.start()
        try:
            self.lane(False)
            waiting.join()
        finally:                               # also when we are told to end
            STOPPING.set()
            for event in self.ended.values():
                event.set()
            waiting.join()
        took_s = time.monotonic() - self.start
        print(f"all stages {took_s:.0f} s, {self.cpu_s:.0f} s CPU")
        if self.budget_s and took_s > AIM_S:
            print(f"note: {took_s:.0f} s, the aim is {AIM_S} s")
        passed, failed, skipped = self.total
        print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
        return 1 if failed or not passed else 0


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description="stages of ./dev check and ./dev test")
    parser.add_argument("kind", choices=["check", "test"])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    wanted = {"check"} if args.kind == "check" else {"check", "test"} | ({"all"} if args.all else set())
    stages = [s for s in STAGES if s.when in wanted and re.search(args.only, s.name)]
    if args.list:
        for stage in stages:
            print(f"{stage.name:<16} {stage.limit_s:5d} s")
        return 0
    return Run(stages, 0 if args.all or args.kind == "check" else BUDGET_S).all()


if __name__ == "__main__":
    sys.exit(main())
