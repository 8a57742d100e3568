"""A real server for the tests: start it on free loopback ports, wait until it is ready, stop it, kill it, look at its log.

OTTLA_TEST_PRESET  which build to test (release)
OTTLA_TEST_PATIENCE  how many times as long as on a quiet machine of its own a test may wait for what is to come, and take as a whole (4)
OTTLA_TEST_BOOTSTRAP  host:port of a broker that already runs: client tests then speak to that one (to check the tests
                   against another broker); tests that need a server of their own are skipped
"""
import fcntl
import functools
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from http import client as http_client
from pathlib import Path

from wire import Connection

TOP = Path(__file__).resolve().parents[2]
PRESET = os.environ.get("OTTLA_TEST_PRESET", "release")
EXTERNAL = os.environ.get("OTTLA_TEST_BOOTSTRAP")
HAS_REST = bool(list((TOP / "rest").glob("*.c")))  # a tree without that room has no /readyz
BINARY = TOP / "build" / PRESET / "ottla"
PATIENCE = float(os.environ.get("OTTLA_TEST_PATIENCE", "4"))      # tests/stages.py has the same for whole stages: machines are shared
READY_S = 60 if PRESET in ("asan", "tsan") else 30
STOP_S = 60 * PATIENCE
REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|SUMMARY: \w+Sanitizer|assertion failed|OT_ASSERT", re.I)


def until(condition, bound_s, what, step_s=0.02):
    """Poll `condition` until it is true; AssertionError after `bound_s`, on a machine that is not ours alone."""
    bound_s *= PATIENCE
    end = time.monotonic() + bound_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {bound_s} s: {what() if callable(what) else what}")
        time.sleep(step_s)  # poll


def never(condition, for_s, what, step_s=0.02):
    """The opposite: `condition` is not true in all that time, and there are two looks at least."""
    end, looks = time.monotonic() + for_s, 0
    while looks < 2 or time.monotonic() < end:
        assert not condition(), what() if callable(what) else what
        looks += 1
        time.sleep(step_s)  # poll


RUNS = range(10240, 12240)                     # ports in a row are of here, single ones of above
PORTS = range(RUNS.stop, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]) or 32768)    # outgoing connections take none of these from a broker that is down


@functools.cache
def reservations():
    """A lock of one byte of this file is a port of this process until it ends, whoever listens there."""
    return open(Path(tempfile.gettempdir()) / "ottla-test-ports", "a+b", buffering=0)


def reserve(port):
    if port in given_ports:                    # a second lock of one's own would be granted
        return False
    try:
        fcntl.lockf(reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    given_ports.add(port)
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)                # what only waits out a closed connection is free
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


given_ports = set()


def free_ports(count):
    """None of them twice in one run, nor in two runs side by side: what was given may not be listened on yet, or not at the moment."""
    fresh = []
    while len(fresh) < count:
        assert len(given_ports) < len(PORTS) // 2, "ports run out"
        fresh += [port for port in [random.choice(PORTS)] if reserve(port)]
    return fresh


def free_run(count):
    """The first of so many in a row."""
    return next(first for first in range(RUNS.start, RUNS.stop - count + 1, count) if all(reserve(first + i) for i in range(count)))


def http(url, method="GET", body=None, headers=None, timeout_s=10 * PATIENCE):
    """(status, headers, body bytes); refuses nothing, errors are answers too. An answer that breaks off is an OSError like a connection that does."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as e:
        return e.code, dict(e.headers), e.read()
    except http_client.HTTPException as e:
        raise ConnectionError(f"{method} {url}: {e!r}") from e


class Broker:
    """One `ottla server` process on its own data directory; the same object survives restarts."""

    def __init__(self, directory, wrap=(), **settings):
        self.directory = Path(directory)
        self.data = self.directory / "data"
        self.log_path = self.directory / "server.log"
        self.wrap = list(wrap)
        self.settings = settings
        self.port, self.rest_port, *self.more_ports = free_ports(4)
        self.process = None
        self.binary = BINARY                        # of another build, for tests of several side by side
        self.runs = 0

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    @property
    def rest(self):
        return f"http://127.0.0.1:{self.rest_port}"

    def command(self):
        settings = {"listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
                    "rest.listeners": f"http://127.0.0.1:{self.rest_port}",
                    "grpc.listeners": f"127.0.0.1:{self.more_ports[1]}"}
        settings.update({key.replace("__", "-").replace("_", "."): value for key, value in self.settings.items()})
        words = [*self.wrap, str(self.binary), "server", "--data", str(self.data)]
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        return words

    def start(self, wait=True):
        assert self.process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        self.runs += 1
        env = {k: v for k, v in os.environ.items() if not k.startswith("OTTLA_")}  # else they would be config keys
        env = {**env, "ASAN_OPTIONS": "abort_on_error=0:detect_leaks=1:exitcode=99",
               "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
               "TSAN_OPTIONS": f"halt_on_error=0:exitcode=98:suppressions={TOP}/tests/tsan.supp" if
               (TOP / "tests/tsan.supp").exists() else "halt_on_error=0:exitcode=98"}
        with open(self.log_path, "ab") as log:
            log.write(f"=== run {self.runs}\n".encode())
            log.flush()
            self.process = subprocess.Popen(self.command(), cwd=self.directory, env=env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT)
        if wait:
            self.wait_ready()
        return self

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self, lines=40):
        return "\n".join(self.log().splitlines()[-lines:])

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def ready(self):
        assert self.alive(), f"the server ended with {self.process.poll()}:\n{self.log_tail()}"
        try:
            if HAS_REST and http(self.rest + "/readyz", timeout_s=2)[0] != 200:
                return False
            with Connection(self.bootstrap, timeout_s=2) as c:
                return c.ask("ApiVersions", 0)["errorCode"] == 0
        except (OSError, EOFError):
            return False

    def wait_ready(self):
        until(self.ready, READY_S, lambda: f"ready:\n{self.log_tail()}")

    def stop(self):
        """SIGTERM; the server must end by itself with status 0 and no sanitizer may have spoken."""
        assert self.alive(), f"the server is not running:\n{self.log_tail()}"
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end {STOP_S} s after SIGTERM:\n{self.log_tail()}") from None
        self.process = None
        assert status == 0, f"exit status {status}:\n{self.log_tail(100)}"
        self.no_reports()

    def no_reports(self):
        found = REPORT.search(self.log())
        assert not found, f"a report in the log: {self.log()[max(0, found.start() - 500):found.start() + 4000]}"

    def kill(self):
        """SIGKILL, as a crash of the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(120)
            self.process = None

    def connect(self, **how):
        return Connection(self.bootstrap, **how)

    def partition(self, topic, number=0):
        return self.data / f"{topic}-{number}"


class External:
    """A broker that somebody else runs."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.rest = None
        self.port = int(bootstrap.rsplit(":", 1)[1])

    def connect(self, **how):
        return Connection(self.bootstrap, **how)

    def log(self):
        return ""


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False
