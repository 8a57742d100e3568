#!/usr/bin/env python3
"""Where the server's time goes while record batches are fetched over gRPC: perf's samples, split into kernel and user space, copies named.

    .venv/bin/python tests/bench/grpc_trace.py [GIGABYTES]

What a server that copies records would show is a memcpy or memmove of user space among the first lines; `tests/integration/copy_counter.c` counts the bytes themselves.
"""
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))
import harness  # noqa: E402
from admin import Admin  # noqa: E402

COPIES = re.compile(r"mem(cpy|move)|copy_(to|from|user|folio)|_copy_")


def samples(data):
    """[(percent, in kernel, symbol)] of a recording."""
    text = subprocess.run(["perf", "report", "-i", str(data), "--no-children", "-g", "none", "--sort", "sym"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    rows = re.findall(r"^\s+([0-9.]+)%\s+\[(.)\]\s+(\S+)", text.stdout.decode(), re.MULTILINE)
    return [(float(share), space == "k", symbol) for share, space, symbol in rows]


def main():
    if not shutil.which("perf"):
        sys.exit("grpc_trace: no perf")
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 3
    loader = str(next((harness.TOP / "build" / "release").rglob("bench_grpc_loader")))
    root = Path(tempfile.mkdtemp(prefix="ottla-trace-"))
    broker = harness.Broker(root)
    try:
        broker.start()
        address = f"127.0.0.1:{broker.more_ports[1]}"
        with broker.connect() as connection:
            Admin(connection).create("t")

        def run(*words):
            subprocess.run([loader, *map(str, words)], check=True, stdout=subprocess.DEVNULL, timeout=600)

        run("stream", address, "t", int(5e8), 1024000, 8)
        run("subscribe", address, "t", int(4e8), 1 << 20)
        perf = subprocess.Popen(["perf", "record", "-q", "-F", "1999", "-o", str(root / "perf.data"), "-p", str(broker.process.pid)], stderr=subprocess.DEVNULL)
        time.sleep(0.5)  # poll: it has begun
        for _ in range(max(1, round(gigabytes / 0.45))):
            run("subscribe", address, "t", int(4.5e8), 1 << 20)
        perf.send_signal(signal.SIGINT)
        perf.wait(60)
        rows = samples(root / "perf.data")
        kernel, user = (sum(s for s, k, _ in rows if k == want) for want in (True, False))
        print(f"samples: kernel {kernel:.1f} %, user space {user:.1f} %")
        for what, want in (("kernel", True), ("user space", False)):
            copies = [(s, symbol) for s, k, symbol in rows if k == want and COPIES.search(symbol)]
            print(f"copies in {what}: {sum(s for s, _ in copies):.1f} %", ", ".join(f"{symbol} {s:.2f}" for s, symbol in copies[:4]))
        for share, in_kernel, symbol in rows[:12]:
            print(f"{share:6.2f} % {'kernel' if in_kernel else 'user  '} {symbol}")
    finally:
        broker.kill()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
