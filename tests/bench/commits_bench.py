"""Groups of the classic protocol in the bench: a rebalance of 50 members that heartbeat as clients do, offset commits, and a restart with the offsets of very many groups."""
import selectors
import struct
import threading
import time
from pathlib import Path

from harness import until
from wire import request_bytes

MEMBERS, PARTITIONS, HEARTBEAT_S = 50, 200, 3.0
COMMITTERS, COMMITS = 16, 20000
GROUPS = 100000
REBALANCE_IN_PROGRESS = 27


def fine_cpu_s(pid):
    """CPU time of the threads that there are, in nanoseconds' steps: a rebalance takes less than a tick."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def coordinator(side, *keys):
    ask, fetch = {"keyType": 0, "coordinatorKeys": list(keys)}, {"groups": [{"groupId": key, "memberId": None, "memberEpoch": -1, "topics": None} for key in keys]}
    with side.server.connect(timeout_s=60) as c:
        until(lambda: all(row["errorCode"] == 0 for row in c.ask("FindCoordinator", 4, ask)["coordinators"]), 60, "a group coordinator", step_s=0.2)
        until(lambda: all(row["errorCode"] == 0 for row in c.ask("OffsetFetch", 8, fetch)["groups"]), 60, "which has loaded", step_s=0.2)


# ---- a rebalance

class Member(threading.Thread):
    """Joins, and then beats every three seconds, joining again when it is told to; the leader gives out the partitions in turn."""

    def __init__(self, side, group, wait_s):
        super().__init__(daemon=True)
        self.connection, self.group, self.wait_s = side.server.connect(timeout_s=120), group, wait_s
        self.id, self.generation, self.settled, self.leaving, self.error = "", -1, -1, threading.Event(), None

    def join_group(self):
        while True:
            body = {"groupId": self.group, "sessionTimeoutMs": 45000, "rebalanceTimeoutMs": 60000, "memberId": self.id, "protocolType": "consumer",
                    "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}]}
            answer = self.connection.ask("JoinGroup", 5, body)
            self.id = answer["memberId"]
            if answer["errorCode"] == 0:
                break
            assert answer["errorCode"] in (79, REBALANCE_IN_PROGRESS), answer
        self.generation = answer["generationId"]
        members = [m["memberId"] for m in answer["members"]]
        given = [{"memberId": m, "assignment": struct.pack(">i", i) * 4} for i, m in enumerate(members)]
        answer = self.connection.ask("SyncGroup", 3, {"groupId": self.group, "generationId": self.generation, "memberId": self.id, "assignments": given})
        if answer["errorCode"] == REBALANCE_IN_PROGRESS:
            return self.join_group()
        assert answer["errorCode"] == 0, answer
        self.settled = self.generation
        return None

    def run(self):
        try:
            time.sleep(self.wait_s)  # poll: members come one after the other
            self.join_group()
            while not self.leaving.wait(HEARTBEAT_S):
                beat = self.connection.ask("Heartbeat", 3, {"groupId": self.group, "generationId": self.generation, "memberId": self.id})["errorCode"]
                assert beat in (0, REBALANCE_IN_PROGRESS), beat
                if beat != 0:
                    self.join_group()
            self.connection.ask("LeaveGroup", 2, {"groupId": self.group, "memberId": self.id})
        except Exception as e:
            self.error = e


def settled(members, least):
    for m in members:
        assert m.error is None, m.error
    return len({m.settled for m in members}) == 1 and members[0].settled >= least


def rebalances(side, topic):
    coordinator(side, topic)
    pid, out = side.server.process.pid, {}
    members = [Member(side, topic, HEARTBEAT_S * i / MEMBERS) for i in range(MEMBERS)]
    for m in members:
        m.start()
    until(lambda: settled(members, 1), 120, "the group settles", step_s=0.01)
    time.sleep(2 * HEARTBEAT_S)  # poll: nobody is told to join again
    until(lambda: settled(members, 1), 120, "the group settles", step_s=0.01)
    for what in ("joins", "leaves"):
        used, begin, before = fine_cpu_s(pid), time.monotonic(), members[0].settled
        if what == "joins":
            members.append(Member(side, topic, 0))
            members[-1].start()
        else:
            gone = members.pop()
            gone.leaving.set()
            gone.join()
        until(lambda: settled(members, before + 1), 60, "the group settles", step_s=0.01)
        out[f"classic group of {MEMBERS}, one {what}"] = (time.monotonic() - begin, "s")
        out[f"classic group of {MEMBERS}, one {what}, CPU"] = ((fine_cpu_s(pid) - used) * 1000, "CPU ms")
    for m in members:
        m.leaving.set()
    for m in members:
        m.join()
        m.connection.__exit__()
    return out


# ---- commits

def commit_bytes(group, topic, partitions, correlation):
    rows = [{"partitionIndex": p, "committedOffset": 1000 + correlation, "committedLeaderEpoch": -1, "committedMetadata": ""} for p in partitions]
    return request_bytes("OffsetCommit", 8, {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [{"name": topic, "partitions": rows}]}, correlation)


class Committer:
    """A consumer that commits one after the other. The answers are of one length and one shape: what is not like the first is looked at."""

    def __init__(self, side, number, topic, count, depth):
        self.connection, self.count, self.depth, self.answered, self.sent, self.held = side.server.connect(timeout_s=60), count, depth, 0, 0, b""
        self.frames = [commit_bytes(f"bench-{number}", topic, (0, 1, 2, 3), i) for i in range(64)]

    def send(self):
        if self.sent < self.count:
            self.connection.socket.sendall(self.frames[self.sent % len(self.frames)])
            self.sent += 1

    def take(self):
        self.held += self.connection.socket.recv(1 << 16)
        while len(self.held) >= 4 and len(self.held) >= 4 + struct.unpack(">i", self.held[:4])[0]:
            length = struct.unpack(">i", self.held[:4])[0]
            body, self.held = self.held[4:4 + length], self.held[4 + length:]
            assert body[-3 - 4 * 7:].count(b"\x00\x00\x00") > 0 and b"\xff" not in body[4:], body
            self.answered += 1
            self.send()


def commit_rounds(side, topic, count, depth):
    committers = [Committer(side, i, topic, count // COMMITTERS, depth) for i in range(COMMITTERS)]
    selector = selectors.DefaultSelector()
    for one in committers:
        selector.register(one.connection.socket, selectors.EVENT_READ, one)
    begin = time.monotonic()
    for one in committers:
        for _ in range(depth):
            one.send()
    while any(one.answered < one.count for one in committers):
        ready = selector.select(60)
        assert ready, "no answer within a minute"
        for key, _ in ready:
            key.data.take()
    wall_s = time.monotonic() - begin
    for one in committers:
        one.connection.__exit__()
    return wall_s


def commits(side, topic, cpu_s, where):
    """where: what is said of durability in the names of the rows."""
    coordinator(side, *[f"bench-{i}" for i in range(COMMITTERS)])
    pid, out = side.server.process.pid, {}
    for depth, what in ((1, "one after the other"), (8, "eight at once")):
        commit_rounds(side, topic, COMMITS // 4, depth)
        used = cpu_s(pid)
        wall_s = commit_rounds(side, topic, COMMITS, depth)
        out[f"offset commits of {COMMITTERS} groups, {what}{where}"] = ((cpu_s(pid) - used) * 1e6 / COMMITS, "CPU us")
        out[f"offset commits of {COMMITTERS} groups, {what}{where}, rate"] = (COMMITS / wall_s, "1/s")
    return out


# ---- a restart with the offsets of many groups

def write_groups(side, topic, count=GROUPS, window=256):
    with side.server.connect(timeout_s=120) as c:
        for first in range(0, count, window):
            some = range(first, min(first + window, count))
            c.socket.sendall(b"".join(commit_bytes(f"group-{i}", topic, (0,), i) for i in some))
            for _ in some:
                c.frame()


def all_known(side, groups):
    """Every group's coordinator is there and tells its offset."""
    body = {"groups": [{"groupId": g, "memberId": None, "memberEpoch": -1, "topics": None} for g in groups], "requireStable": False}
    try:
        with side.server.connect(timeout_s=60) as c:
            answer = c.ask("OffsetFetch", 8, body)
    except (OSError, EOFError):
        return False
    return all(g["errorCode"] == 0 and len(g["topics"]) == 1 for g in answer["groups"])


def restart(side, topic):
    seen = [f"group-{i}" for i in range(0, GROUPS, GROUPS // 500)]        # of each of the fifty partitions
    coordinator(side, *seen[:100])
    write_groups(side, topic)
    until(lambda: all_known(side, seen), 60, "all are written", step_s=0.05)
    side.server.kill()
    begin = time.monotonic()
    side.start()
    until(lambda: all_known(side, seen), 180, "all are known again", step_s=0.002)
    return {f"start with the offsets of {GROUPS} groups after kill -9": (time.monotonic() - begin, "s")}
