"""The commands that the docs show do what they say: the shell blocks of docs/rest.md and the tools of README.md against a live broker, the examples of docs/cli.md as far as they
can be tried without one."""
import json
import re
import shlex
import subprocess

import pytest

from cli_test import environment, ottla
from harness import BINARY, TOP
from rest_test import Rest

ENDLESS = ("/tail", "/events/stream", "max_wait_ms=30000")


def blocks(path):
    return [line for block in re.findall(r"```sh\n(.*?)```", (TOP / path).read_text(), re.S) for line in block.replace("\\\n", " ").strip().splitlines()]


def run(broker, line, cwd):
    limited = any(word in line for word in ENDLESS)
    return subprocess.run(["bash", "-o", "pipefail", "-c", f"U={broker.rest}\n{'timeout 1 ' if limited else ''}{line}"], cwd=cwd, env=environment(broker), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240), limited


@pytest.mark.timeout(120)
def test_the_curl_lines_of_the_rest_page_work(own_broker, tmp_path):
    broker = own_broker()
    tried = 0
    for line in blocks("docs/rest.md"):
        if line.startswith("U=") or "/run/ottla/admin.sock" in line:
            continue
        if "/consumers/billing" in line:       # a group that has a member: consumers of the reader
            Rest(broker).ask("PUT", "/v1/groups/billing/offsets/orders/0", {"offset": 0})
            line = line.replace("owners", "offsets")
        done, limited = run(broker, line, tmp_path)
        tried += 1
        assert done.returncode in ((0, 124) if limited else (0, 141)), (line, done.stderr.decode())
        if done.stdout.startswith(b"{") and not limited:
            told = json.loads(done.stdout)
            assert "type" not in told or not str(told["type"]).startswith("/problems/"), (line, told)
    assert tried > 15 and list(tmp_path.glob("ottla-diagnostics-*.tar.gz"))


def test_the_tools_of_the_readme_work(own_broker, tmp_path):
    broker = own_broker()
    Rest(broker).create("hello")
    lines = [line for line in blocks("README.md") if "build/release/ottla" in line]
    assert len(lines) >= 4
    for line in lines:
        done, _ = run(broker, line.replace("build/release/ottla", str(BINARY)), tmp_path)
        assert done.returncode in ((0, 8) if "doctor" in line else (0,)), (line, done.stderr.decode())
        assert b"four" in done.stdout or "consume" not in line


def test_the_examples_of_every_command_are_taken(broker, tmp_path):
    """Those that speak REST are asked for the curl that they stand for; nothing happens."""
    tried = 0
    for section in re.split(r"\n## ", (TOP / "docs" / "cli.md").read_text())[1:]:
        if "`--curl`" not in section or section.startswith(("ottla group import", "ottla doctor", "ottla diagnostics bundle", "ottla topic verify", "ottla config")):
            continue                           # these look at a file, a machine or an answer first
        for line in re.findall(r"^  (ottla .*)$", section, re.M):
            words = shlex.split(line.split(" > ")[0].split(" | ")[0])[1:]
            ran = ottla(broker, *words, "--curl", "--yes", status=None)
            tried += 1
            assert ran.status != 2, (line, ran.err)
    assert tried > 30
