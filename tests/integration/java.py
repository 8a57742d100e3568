"""Kafka's own command-line tools (jars from ./dev setup), quick to start."""
import shutil
import subprocess

import pytest

from harness import TOP

JARS = TOP / "build" / "jars"
QUICK = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
TOOLS = "org.apache.kafka.tools."


def need_java():
    if not shutil.which("java") or not JARS.is_dir():
        pytest.skip("no Java or no build/jars (./dev setup)")


def command(main, *arguments, log="error", heap=QUICK):
    return ["java", *heap, f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log}", "-cp", f"{JARS}/*", main, *map(str, arguments)]


def java(main, *arguments, data=None, timeout_s=60, check=True):
    """Run a tool; its output (both streams) as text. A stack trace is a failure whatever the exit status."""
    need_java()
    done = subprocess.run(command(main, *arguments), input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s)
    text = done.stdout.decode(errors="replace")
    if check:
        assert done.returncode == 0, text
        assert "\tat org.apache.kafka" not in text, text
    return text
