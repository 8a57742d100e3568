#!/usr/bin/env python3
"""The tidy test: rules of the house that a compiler does not check. Each rule is one test; ends with 'N passed, N failed'.

Tables it reads: CMakeLists.txt (ot_room lines: who may include whom), tests/tidy/hot.txt (files without malloc),
docs/traps.md (compatibility trap -> test).
"""
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FILE_LINES = 800
FUNCTION_LINES_WARN, FUNCTION_LINES = 60, 100
BANNED = ["strcpy", "strcat", "sprintf", "vsprintf", "gets", "alloca", "system", "popen", "strtok", "tmpnam", "mktemp", "rand"]
ALLOC = ["malloc", "calloc", "realloc", "strdup", "strndup", "asprintf"]
SLEEPS = ["sleep", "usleep", "nanosleep", "clock_nanosleep"]


def tracked():
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP,
                         stdout=subprocess.PIPE, check=True).stdout.decode()
    return sorted(name for name in out.split("\0") if name and (TOP / name).is_file())


FILES = tracked()
TEXT = {}


def text(name):
    if name not in TEXT:
        TEXT[name] = (TOP / name).read_text(errors="replace")
    return TEXT[name]


def of(*ends, under=""):
    return [f for f in FILES if f.endswith(ends) and f.startswith(under)]


def code_only(source):
    """C text with comments, strings and character literals blanked, lines kept."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, source, flags=re.S)


def calls(name, words):
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(words) + r")\s*\(")
    for number, line in enumerate(code_only(text(name)).splitlines(), 1):
        for m in pattern.finditer(line):
            yield number, m.group(1)


# ---- rules: each yields what is wrong, as "file:line: words"

def rooms():
    """{folder: (room, set of folders it may include)} from the ot_room lines."""
    rows = re.findall(r"^ot_room\(([^)]*)\)", text("CMakeLists.txt"), re.M)
    folder = {words[0]: words[1] for words in (row.split() for row in rows)}
    return {words[1]: {words[1], *(folder[w] for w in words[2:])} for words in (row.split() for row in rows)}


def rule_includes_follow_the_map():
    table = rooms()
    if len(table) < 8:
        yield "CMakeLists.txt:1: the ot_room table was not found"
    for name in of(".c", ".h"):
        folder = str(Path(name).parent)
        if folder not in table or name == "cli/main.c":
            continue
        for number, line in enumerate(text(name).splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            if ".." in m.group(1):
                yield f'{name}:{number}: include "{m.group(1)}" leaves its path'
            target = str(Path(m.group(1)).parent)
            # what the generator writes lies in folders below its room
            home = max((f for f in table if target == f or target.startswith(f + "/")), key=len, default=None)
            if home and home not in table[folder]:
                yield f"{name}:{number}: {folder} may not include {m.group(1)}"


def rule_files_under_800_lines():
    for name in of(".c", ".h", ".py", ".sh", "dev"):
        lines = text(name).count("\n")
        if lines > FILE_LINES:
            yield f"{name}:1: {lines} lines, more than {FILE_LINES}"


def functions(name):
    start = None
    for number, line in enumerate(text(name).splitlines(), 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            yield start, number - start - 1
            start = None


def rule_functions_fit_a_screen():
    long = 0
    for name in of(".c"):
        for start, lines in functions(name):
            if lines > FUNCTION_LINES:
                yield f"{name}:{start}: function of {lines} lines, more than {FUNCTION_LINES}"
            elif lines > FUNCTION_LINES_WARN:
                long += 1
    if long:
        print(f"    note: {long} functions between {FUNCTION_LINES_WARN} and {FUNCTION_LINES} lines")


def rule_no_banned_calls():
    for name in of(".c", ".h"):
        in_tests = name.startswith("tests/")  # they may start a tool to compare with
        for number, word in calls(name, [b for b in BANNED if not (in_tests and b in ("system", "popen"))]):
            yield f"{name}:{number}: {word}() is banned"


def rule_no_allocation_on_the_hot_path():
    for row in text("tests/tidy/hot.txt").splitlines():
        name = row.split("#")[0].strip()
        if not name:
            continue
        if name not in FILES:
            yield f"tests/tidy/hot.txt: {name} does not exist"
            continue
        for number, word in calls(name, ALLOC):
            yield f"{name}:{number}: {word}() on the hot path"


def rule_no_sleeping_in_tests():
    for name in of(".c", under="tests/"):
        for number, word in calls(name, SLEEPS):
            yield f"{name}:{number}: {word}(): wait for the event, with a bound"
    for name in of(".py", under="tests/"):
        for number, line in enumerate(text(name).splitlines(), 1):
            if re.search(r"\btime\.sleep\(", line) and "# poll" not in line:
                yield f"{name}:{number}: time.sleep(): poll for the event with a bound, and mark the line '# poll'"


def rule_nothing_of_the_machine():
    parent = str(TOP.parent) + "/"
    needles = [(re.escape(parent), "a path of this machine")] if len(parent) > 5 else []
    needles += [(r"/(?:root|home/\w+)/\.", "a home folder"),
                (r"//(?:[\w.-]+\.)?(?:pypi\.org|pythonhosted\.org|npmjs\.org|repo1?\.maven\.[\w.]+|proxy\.golang\.org|crates\.io)\b",
                 "a registry's address")]
    for name in FILES:
        if name.endswith((".gz", ".png", ".bin", ".ico")) or "/corpus/" in name:
            continue
        for pattern, what in needles:
            for m in re.finditer(pattern, text(name)):
                yield f"{name}:{text(name)[:m.start()].count(chr(10)) + 1}: {what}"


def rule_links_in_docs_lead_somewhere():
    for name in of(".md"):
        body = re.sub(r"```.*?```|`[^`\n]*`", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text(name), flags=re.S)
        for m in re.finditer(r"\]\(([^)\s]+)\)", body):
            link = m.group(1).split("#")[0]
            if not link or re.match(r"[a-z]+:", link):
                continue
            if not ((TOP / name).parent / link).exists():
                yield f"{name}:{body[:m.start()].count(chr(10)) + 1}: link to {m.group(1)}: nothing there"


def rule_compatibility_page_is_written_from_the_lists():
    done = subprocess.run([sys.executable, "-B", "-c", "import run; print(run.docs(), end='')"], cwd=TOP / "tests" / "suites", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        yield f"tests/suites/run.py:1: {done.stdout.strip().splitlines()[-1]}"
    elif done.stdout != text("docs/compatibility.md"):
        yield "docs/compatibility.md:1: is not what the lists say: python3 tests/suites/run.py --docs"


def trap_rows():
    for number, line in enumerate(text("docs/traps.md").splitlines(), 1):
        m = re.match(r"\|\s*([A-Z]+\d+)\s*\|([^|]*)\|([^|]*)\|", line)
        if m:
            yield number, m.group(1), m.group(3).strip()


def span(letter, first, last):
    return [f"{letter}{i}" for i in range(first, last + 1)]


TRAPS = (span("N", 1, 13) + ["N15", "A1", "A7", "A8"] + span("M", 1, 11) + span("W", 1, 12) + span("F", 1, 12) + span("G", 1, 10) + span("T", 1, 9) +
         span("R", 1, 4) + span("S", 1, 4))


def rule_each_compatibility_trap_has_a_test():
    rows = list(trap_rows())
    for trap in TRAPS:
        if trap not in [row[1] for row in rows]:
            yield f"docs/traps.md: no row {trap}"
    pending = 0
    for number, trap, tests in rows:
        if tests.startswith("open:"):
            pending += 1
            continue
        for reference in re.findall(r"`([^`]+)`", tests) or [""]:
            name, _, test = reference.partition("::")
            if name not in FILES:
                yield f"docs/traps.md:{number}: {trap} names no test file: '{reference}'"
            elif not test or not re.search(rf"\b{re.escape(test)}\b", text(name)):
                yield f"docs/traps.md:{number}: {name} has no test '{test}'"
    if pending:
        print(f"    note: {pending} traps are open")


def rule_scripts_are_executable():
    for name in [f for f in ("dev", ".ci/run") if f in FILES]:
        if not (TOP / name).stat().st_mode & 0o100:
            yield f"{name}: has no run bit"


def rule_log_events_are_listed():
    import log_events
    if "docs/logging.md" in FILES and log_events.page() != text("docs/logging.md"):
        yield "docs/logging.md: stale; run tests/tidy/log_events.py --write"


def rule_python_compiles():
    for name in of(".py"):
        try:
            compile(text(name), name, "exec")
        except SyntaxError as e:
            yield f"{name}:{e.lineno}: {e.msg}"


def main():
    passed = failed = 0
    for rule_name, rule in sorted(globals().items()):
        if not rule_name.startswith("rule_"):
            continue
        wrong = list(rule())
        passed, failed = passed + (not wrong), failed + bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {rule_name[5:].replace('_', ' ')}")
        for line in wrong[:40]:
            print("    " + line)
        if len(wrong) > 40:
            print(f"    and {len(wrong) - 40} more")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
