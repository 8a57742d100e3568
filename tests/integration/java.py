"""Kafka's own command-line tools (jars from ./dev setup), quick to start."""
import os
import shutil
import subprocess

import pytest

from harness import TOP

JARS = TOP / "build" / "jars"
QUICK = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
TOOLS = "org.apache.kafka.tools."


def no_java():
    """Why Kafka's own clients cannot run here; "" where they can."""
    return "" if shutil.which("java") and JARS.is_dir() else "no Java or no build/jars (./dev setup)"


def need_java():
    if why := no_java():
        pytest.skip(why)


def java_is_left_out():
    """For a test that is worth something without Java too: why it has to do without it; "" where it need not. An automatic run (CI=true) is set up with it, and fails where it is not."""
    why = no_java()
    assert not why or os.environ.get("CI") != "true", why
    return why


def command(main, *arguments, log="error", heap=QUICK):
    return ["java", *heap, f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log}", "-cp", f"{JARS}/*", main, *map(str, arguments)]


def java(main, *arguments, data=None, timeout_s=240, check=True):
    """Run a tool; its output (both streams) as text. A stack trace is a failure whatever the exit status."""
    need_java()
    done = subprocess.run(command(main, *arguments), input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s)
    text = done.stdout.decode(errors="replace")
    if check:
        assert done.returncode == 0, text
        assert "\tat org.apache.kafka" not in text, text
    return text
