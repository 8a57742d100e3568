#!/usr/bin/env python3
"""./dev lint: tidy test, shell syntax, formatting; --tidy adds clang-tidy on every source of the release build.

A tool that is not installed is named and left out. Ends with 'N passed, N failed[, N skipped]'.
"""
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SCRIPTS = ["dev", ".ci/run"]
TOLD_ONLY = {"clang-format"}  # reported, not counted as a failure, until the tree is formatted once


def run(words):
    done = subprocess.run(words, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout.decode(errors="replace")


def tool(*names):
    return next((n for n in names if shutil.which(n)), None)


def check_tidy():
    return run([sys.executable, "tests/tidy/tidy.py"])


def check_shell():
    existing = [s for s in SCRIPTS if (TOP / s).exists()]
    for script in existing:
        status, text = run(["bash", "-n", script])
        if status:
            return status, text
    return run(["shellcheck", "-s", "bash", *existing]) if tool("shellcheck") else (0, "shellcheck is not installed: syntax only\n")


def check_format():
    exe = tool("clang-format-14", "clang-format")
    if not exe:
        return None, "clang-format is not installed"
    names = run(["git", "ls-files", "*.c", "*.h"])[1].split()
    status, text = run([exe, "--dry-run", "-Werror", *names])
    wrong = sorted({line.split(":")[0] for line in text.splitlines() if "clang-format-violations" in line})
    return status, f"{len(wrong)} of {len(names)} files differ from .clang-format: {' '.join(wrong[:10])}\n"


def check_clang_tidy():
    exe = tool("clang-tidy-14", "clang-tidy")
    base = TOP / "build" / "release" / "compile_commands.json"
    if not exe or not base.exists():
        return None, "clang-tidy or build/release is missing"
    ours = [e["file"] for e in json.loads(base.read_text()) if not Path(e["file"]).is_relative_to(TOP / "build")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda f: run([exe, "-quiet", "-p", str(base.parent), f])[1], ours))
    text = "".join(t for t in results if "warning:" in t or "error:" in t)
    return (1 if "error:" in text else 0), text or "clean\n"


def main():
    checks = {"tidy": check_tidy, "shell": check_shell, "clang-format": check_format}
    if "--tidy" in sys.argv[1:]:
        checks["clang-tidy"] = check_clang_tidy
    counts = {"ok": 0, "FAIL": 0, "skip": 0, "told": 0}
    for name, check in checks.items():
        status, text = check()
        word = "skip" if status is None else "ok" if status == 0 else "told" if name in TOLD_ONLY else "FAIL"
        counts[word] += 1
        print(f"{word:<5}{name}")
        if word != "ok" or name == "clang-tidy":
            print("".join("  | " + line + "\n" for line in text.splitlines()[-60:]), end="")
    skipped = counts["skip"] + counts["told"]
    print(f"{counts['ok']} passed, {counts['FAIL']} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
