#!/usr/bin/env python3
"""docs/logging.md lists every log event of the sources. `--write` brings the list up to date; the tidy test checks it."""
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PAGE = TOP / "docs" / "logging.md"
MARK = "<!-- the list below is written by tests/tidy/log_events.py --write -->\n"
# level and event may be a choice: `err == OT_OK ? OT_LOG_INFO : OT_LOG_WARN`, `bad ? "cut_low" : "cut"`
CALL = re.compile(r'\bot_log\(\s*([^,";]*\bOT_LOG_\w+[^,";]*),\s*("\w+"|\w+),\s*([^,";]*"\w+"(?:\s*:\s*"\w+")?),\s*((?:"(?:\\.|[^"\\])*"\s*(?:PRI\w+\s*)?)+)')


def sources():
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.c"], cwd=TOP,
                         stdout=subprocess.PIPE, check=True).stdout.decode()
    return [f for f in sorted(out.split("\0")) if f and not f.startswith("tests/") and (TOP / f).is_file()]


def events():
    """{(subsystem, event): (levels, fields in the order of their first use)}"""
    found = {}
    for name in sources():
        text = (TOP / name).read_text(errors="replace")
        words = dict(re.findall(r'^#define\s+(\w+)\s+("\w+")\s*$', text, re.M))
        for choice, subsystem, names, fmt in CALL.findall(text):
            subsystem = words.get(subsystem, subsystem)
            if not subsystem.startswith('"'):
                continue
            choice, names = re.findall(r"\bOT_LOG_(\w+)", choice), re.findall(r'"(\w+)"', names)
            for at, event in enumerate(names):
                levels, fields = found.setdefault((subsystem.strip('"'), event), ([], []))
                for level in choice[at:at + 1] if len(names) == len(choice) else choice:
                    if level.lower() not in levels:
                        levels.append(level.lower())
                for field in re.findall(r"([a-z_]+)=%", "".join(re.findall(r'"((?:\\.|[^"\\])*)"', fmt))):
                    if field not in fields:
                        fields.append(field)
    return found


def page():
    head = PAGE.read_text().split(MARK)[0]
    rows = [f"| {subsystem} | `{event}` | {', '.join(levels)} | {', '.join(fields)} |\n"
            for (subsystem, event), (levels, fields) in sorted(events().items())]
    return head + MARK + "\n| Subsystem | Event | Level | Fields |\n|---|---|---|---|\n" + "".join(rows)


def main():
    wanted = page()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    return 0 if PAGE.read_text() == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
