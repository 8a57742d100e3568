"""The commands of README.md do what it says: its shell block is run against a live broker."""
import re
import subprocess

import pytest

import harness
from harness import TOP


def block():
    """The commands of the quick start, continuation lines joined."""
    text = (TOP / "README.md").read_text()
    found = re.search(r"## Quick start.*?```sh\n(.*?)```", text, re.S)
    return found.group(1).replace("\\\n", " ").strip().splitlines()


def test_the_quick_start_works(own_broker):
    if not harness.HAS_REST:
        pytest.skip("this tree has no REST")
    broker = own_broker()
    out = {}
    for line in block():
        command = line.replace("127.0.0.1:9092", broker.bootstrap).replace("http://127.0.0.1:9095", broker.rest)
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        assert done.returncode in (0, 141) or "| head" in line, (line, done.stderr.decode())
        out[line] = done.stdout.decode()
    assert len(out) >= 5
    read = next(text for line, text in out.items() if "kcat" in line and "-C" in line)
    assert read.split() == ["one", "two", "three"]
    assert any('"topic":"hello"' in text for text in out.values()) and any("ottla_build_info" in text for text in out.values())


def test_every_dev_command_of_the_readme_exists():
    text = (TOP / "README.md").read_text()
    for name in set(re.findall(r"\./dev (\w+)", text)):
        done = subprocess.run([TOP / "dev", name, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        assert done.returncode == 0 and done.stdout.startswith(b"./dev"), name


def test_help_of_every_dev_command():
    for name in "setup build run check test bench vectors sim fuzz lint".split():
        done = subprocess.run([TOP / "dev", name, "--help"], stdout=subprocess.PIPE, timeout=120)
        assert done.returncode == 0 and f"./dev {name}".encode() in done.stdout
    assert subprocess.run([TOP / "dev", "nonsense"], stderr=subprocess.DEVNULL, timeout=120).returncode == 2
