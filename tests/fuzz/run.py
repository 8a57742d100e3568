#!/usr/bin/env python3
"""Run the libFuzzer targets of build/fuzz, two at a time, each for a bounded time on its kept corpus.

New inputs go to build/fuzz-corpus/TARGET; a crash is kept in build/fuzz-crashes/ and shown. `--minimise` merges what
was found back into tests/fuzz/corpus/TARGET. Ends with 'N passed, N failed'.
"""
import argparse
import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
KEPT = TOP / "tests" / "fuzz" / "corpus"
FOUND = TOP / "build" / "fuzz-corpus"
CRASHES = TOP / "build" / "fuzz-crashes"
# When all run: what reads requests is one group of several targets, which share its time; the journal is read from our own disk only.
SHARES = {"request": 0.5, "kafka_door": 0.5, "peer": 0.33, "grpc_message": 0.33, "journal": 0.33}
ENV = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


def targets(names):
    built = {p.name.removesuffix("_fuzz"): p for p in sorted((TOP / "build" / "fuzz").rglob("*_fuzz"))
             if p.is_file() and os.access(p, os.X_OK)}
    missing = [n for n in names if n.removesuffix("_fuzz") not in built]
    if missing:
        sys.exit(f"fuzz: no target {', '.join(missing)}; there are {', '.join(built) or 'none'}")
    return {n.removesuffix("_fuzz"): built[n.removesuffix("_fuzz")] for n in names} if names else built


def fuzz(name, exe, seconds):
    kept, found = KEPT / name, FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    CRASHES.mkdir(parents=True, exist_ok=True)
    words = [str(exe), str(found)] + ([str(kept)] if kept.is_dir() else [])
    words += [f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=2048", "-print_final_stats=1",
              f"-artifact_prefix={CRASHES / name}-"]
    try:
        done = subprocess.run(words, cwd=TOP, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds + 120)
        status, text = done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        status, text = -1, (e.stdout or b"").decode(errors="replace") + "\nthe target did not stop in time"
    return name, status, text


def merge(name, exe):
    (KEPT / name).mkdir(parents=True, exist_ok=True)
    subprocess.run([str(exe), "-merge=1", str(KEPT / name), str(FOUND / name)], cwd=TOP, env=ENV, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def seconds_of(name, args):
    return args.seconds if args.target else max(1, round(args.seconds * SHARES.get(name, 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("target", nargs="*")
    args = parser.parse_args()
    chosen = targets(args.target)
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, min(2, os.cpu_count() or 1))) as pool:
        for name, status, text in pool.map(lambda item: fuzz(*item, seconds_of(item[0], args)), chosen.items()):
            runs = next((line.split()[-1] for line in text.splitlines() if "number_of_executed_units" in line), "?")
            print(f"{'ok  ' if status == 0 else 'FAIL'} {name}: {runs} inputs", flush=True)
            passed, failed = passed + (status == 0), failed + (status != 0)
            if status:
                print("\n".join(text.splitlines()[-60:]), flush=True)
            elif args.minimise:
                merge(name, chosen[name])
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
