"""Many connections, and a greedy client in a small memory: the others are served, and the server stays within its bounds."""
import os
import select
import socket
import threading
from pathlib import Path

import pytest

import batch
import harness
import wire
from admin import Admin
from harness import until
from hostile_test import descriptors, status_kb

MB = 1 << 20
LIMIT = 256 * MB
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def memory_group():
    """A memory cgroup of 256 MiB, version 1 or 2, or a skip with the reason."""
    two, one = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")
    root, limit = (one, "memory.limit_in_bytes") if one.is_dir() else (two, "memory.max")
    group = root / f"ottla-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(LIMIT))
    except OSError as e:
        pytest.skip(f"no memory cgroup can be made here: {e}")
    yield group
    until(lambda: not (group / "cgroup.procs").read_text().strip(), 30, "the server left its cgroup")
    group.rmdir()


def greedy_producer(broker, name, stop):
    """Sends 1 MB requests as fast as the socket takes them and never reads an answer."""
    data = wire.request_bytes("Produce", 9, {"acks": 1, "timeoutMs": 30000, "topicData": [{"name": name, "partitionData": [
        {"index": 0, "records": batch.build([os.urandom(MB - 1000)])}]}]})
    pour(broker, data, stop)


def greedy_fetcher(broker, name, stop):
    """Asks for everything at once, again and again, and reads a little now and then."""
    data = wire.request_bytes("Fetch", 12, Admin.fetch_body(name, max_bytes=50 * MB)) * 100
    pour(broker, data, stop, read=1000)


def pour(broker, data, stop, read=0):
    with socket.create_connection(("127.0.0.1", broker.port), 10) as s:
        s.setblocking(False)
        at = 0
        while not stop.is_set():
            readable, writable, _ = select.select([s] if read else [], [s], [], 0.1)
            try:
                if readable and not s.recv(read):
                    return
                if writable:
                    at = (at + s.send(data[at:at + 65536])) % len(data)
            except (BlockingIOError, ConnectionError):
                if not writable:
                    return


@pytest.mark.skipif(harness.PRESET in ("asan", "tsan"), reason="a sanitizer needs more than the memory that this is about")
def test_greedy_clients_in_256_mib_harm_nobody(memory_group, own_broker, name):
    # in a class that syncs, the others wait for the disk behind hundreds of MB a second: that is the disk's limit, and not what this is about
    broker = own_broker(start=False, ottla_durability="replicated")
    broker.wrap = ["sh", "-c", f'echo $$ > {memory_group}/cgroup.procs; exec "$@"', "sh"]
    broker.start()
    assert str(broker.process.pid) in (memory_group / "cgroup.procs").read_text().split()
    with broker.connect(timeout_s=60) as c:
        admin = Admin(c)
        admin.create(name)
        admin.create(f"{name}-greedy", retention_bytes=200 * MB, segment_bytes=20 * MB)
        for _ in range(60):
            admin.produce(f"{name}-greedy", os.urandom(MB - 1000))
        stop = threading.Event()
        threads = [threading.Thread(target=kind, args=(broker, f"{name}-greedy", stop)) for kind in [greedy_producer] * 8 + [greedy_fetcher] * 16]
        try:
            for thread in threads:
                thread.start()
            for number in range(200):  # others are served, one after the other, whatever the greedy do
                assert admin.produce(name, f"value {number}") == number
                assert admin.records(name, number)[-1][3] == f"value {number}".encode()
                assert broker.alive(), broker.log_tail(60)
            assert status_kb(broker, "RssAnon") * 1024 < LIMIT
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        with broker.connect(timeout_s=60) as fresh:
            assert len(Admin(fresh).records(name, 0)) == 200
    assert broker.alive(), broker.log_tail(60)


def test_ten_thousand_connections_cost_little_and_all_are_served(own_broker, name):
    broker = own_broker()
    count, active = 10000, 100
    try:
        import resource
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 2000), hard))
    except (OSError, ValueError) as e:
        pytest.skip(f"not enough descriptors: {e}")
    if hard < count + 2000:
        pytest.skip(f"{hard} descriptors at most")
    with broker.connect(timeout_s=60) as c:
        Admin(c).create(name)
    before_kb, fds = status_kb(broker, "VmRSS"), descriptors(broker)
    hello = wire.request_bytes("ApiVersions", 3, {"clientSoftwareName": "many", "clientSoftwareVersion": "1"})
    produce = wire.request_bytes("Produce", 9, {"acks": 1, "timeoutMs": 30000, "topicData": [{"name": name, "partitionData": [
        {"index": 0, "records": batch.build([b"x" * 100])}]}]})
    sockets = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection(("127.0.0.1", broker.port), 30))
            sockets[-1].sendall(hello)
        for s in sockets:
            read_answer(s)
        until(lambda: descriptors(broker) >= fds + count, 60, "all are accepted")
        for _ in range(20):
            for s in sockets[:active]:
                s.sendall(produce)
            for s in sockets[:active]:
                read_answer(s)
        each = (status_kb(broker, "VmRSS") - before_kb) / count
        assert each < 16, f"{each:.1f} KiB a connection"
        with broker.connect(timeout_s=60) as c:
            until(lambda: Admin(c).list_offset(name, -1)["offset"] == 20 * active, 60, "all is synced and readable")
        print(f"{each:.1f} KiB a connection")
    finally:
        for s in sockets:
            s.close()
    until(lambda: descriptors(broker) < fds + 100, 60, "their descriptors are given back")


def read_answer(s):
    size = int.from_bytes(read_exactly(s, 4), "big")
    return read_exactly(s, size)


def read_exactly(s, count):
    data = b""
    while len(data) < count:
        piece = s.recv(count - len(data))
        assert piece, "closed"
        data += piece
    return data
