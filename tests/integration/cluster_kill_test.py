"""Rounds of faults over five brokers while producers and readers go on: kills of one, of two and of all, pauses, stops, links that are cut, half-cut and slow, a full disk, a clock that jumps.

No fault here takes the page cache away, so acks=all loses nothing in any of them, whatever dies; acks=1 may lose what it acknowledged while somebody was killed, paused or cut off,
and only what a broker says that it cut, by offset and epoch.
OTTLA_CLUSTER_ROUNDS  rounds of both tests together (12), OTTLA_CLUSTER_SEED  seed of what happens and when.
"""
import collections
import functools
import os
import random
import shutil
import struct
import subprocess
import time

import disk_full_test
import harness
import pytest
from cluster_account import Account, PlainWriter
from cluster_load import JavaWriter, Reader, Writer, batches_of, check, create, parts_of, read_all, whole
from java import java_is_left_out

ROUNDS = int(os.environ.get("OTTLA_CLUSTER_ROUNDS", "12"))
SEED = int(os.environ.get("OTTLA_CLUSTER_SEED", "1"))
PARTITIONS = {"all": 6, "one": 3}
RACKS = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
MB = 1 << 20
HOUR_NS = 3600 * 10 ** 9
LONG_MAX = (1 << 63) - 1
GENTLE = {"stop", "clock", "disk", "quiet"}     # nobody leads instead of one who still acknowledges; behind a slow link somebody may
REFUSES = {"disk"}                                           # a full disk refuses with a final error
pytestmark = [pytest.mark.kill, pytest.mark.cluster, pytest.mark.timeout(240 + 60 * ROUNDS)]


class Ground:
    """The cluster, who is asked about it, and what goes on in it."""

    def __init__(self, cluster, chance):
        self.cluster, self.chance, self.era = cluster, chance, "quiet"
        self.disk = self.clock = None
        self.let_go = set()         # eras in which a broker went without its followers having all, and said so

    def any(self, count=1):
        return self.chance.sample(list(self.cluster.nodes), count)

    def victim(self):
        """Any broker; rather often the one that coordinates, or one that leads."""
        kind, living = self.chance.random(), self.cluster.living()
        if kind < 0.25:
            return self.cluster.controller()
        if kind < 0.6:
            leaders = [p["leaderId"] for p in parts_of(living[0], "all").values() if p["leaderId"] >= 0]
            return self.chance.choice(leaders or list(self.cluster.nodes))
        return self.any()[0]

    def wait(self, least_s, most_s):
        time.sleep(least_s + self.chance.random() * (most_s - least_s))  # poll: any moment


# ---- what happens: each gives how it is undone

def kill(ground):
    one = ground.victim()
    ground.cluster.kill(one)
    return lambda: ground.cluster.start_one(one, wait=False)


def kill_two(ground):
    some = ground.any(2)
    for one in some:
        ground.cluster.kill(one)
        ground.wait(0, 0.3)
    return lambda: [ground.cluster.start_one(one, wait=False) for one in some]


def kill_all(ground):
    for one in ground.any(5):
        ground.cluster.kill(one)
    return lambda: [ground.cluster.start_one(one, wait=False) for one in ground.any(5)]


def kill_as_it_starts(ground):
    one = ground.victim()
    for _ in range(3):
        ground.cluster.kill(one)
        ground.wait(0, 0.3)
        ground.cluster.start_one(one, wait=False)
        ground.wait(0, 0.6)
    ground.cluster.kill(one)
    return lambda: ground.cluster.start_one(one, wait=False)


def kill_as_it_stops(ground):
    one = ground.victim()
    ground.cluster.nodes[one].process.terminate()
    ground.wait(0, 0.3)
    ground.cluster.kill(one)
    return lambda: ground.cluster.start_one(one, wait=False)


def stop(ground):
    one = ground.victim()
    node = ground.cluster.nodes[one]
    node.stop()
    if "tails_not_replicated" in node.log().rpartition("=== run ")[2]:
        ground.let_go.add(ground.era)
    return lambda: ground.cluster.start_one(one, wait=False)


def pause(ground):
    one = ground.victim()
    ground.cluster.pause(one)
    return lambda: ground.cluster.go_on(one)


def pause_two(ground):
    some = ground.any(2)
    for one in some:
        ground.cluster.pause(one)
    return lambda: [ground.cluster.go_on(one) for one in some]


def stutter(ground):
    one = ground.victim()
    for _ in range(4):
        ground.cluster.pause(one)
        ground.wait(0.1, 1.5)
        ground.cluster.go_on(one)
        ground.wait(0, 0.3)
    return lambda: None


def heal(ground):
    return lambda: [proxy.heal() for proxy in ground.cluster.proxies.values()]


def cut(ground):
    """Nobody reaches it; it reaches the others."""
    ground.cluster.proxies[ground.victim()].cut()
    return heal(ground)


def split(ground, side):
    for i, proxy in ground.cluster.proxies.items():
        proxy.cut(of=set(ground.cluster.nodes) - side if i in side else side)
    return heal(ground)


def isolate(ground):
    return split(ground, {ground.victim()})


def split_two(ground):
    return split(ground, set(ground.any(2)))


def link(ground):
    one, other = ground.any(2)
    ground.cluster.proxies[one].cut(of=[other])
    ground.cluster.proxies[other].cut(of=[one])
    return heal(ground)


def half(ground):
    """Open, and silent one way."""
    to = ground.chance.random() < 0.5
    ground.cluster.proxies[ground.victim()].hold(to=to, back=not to)
    return heal(ground)


def half_link(ground):
    one, other = ground.any(2)
    ground.cluster.proxies[one].hold(to=ground.chance.random() < 0.5, back=True, of=[other])
    return heal(ground)


def slow(ground):
    ground.cluster.proxies[ground.victim()].slow(0.05 + ground.chance.random() * 0.2)
    return heal(ground)


def cut_and_kill(ground):
    one, other = ground.any(2)
    ground.cluster.proxies[one].cut()
    ground.wait(0, 2)
    ground.cluster.kill(other)
    return lambda: (ground.cluster.start_one(other, wait=False), heal(ground)())


def disk(ground):
    """Somebody fills the disk of a broker to the last byte."""
    filler = ground.disk / "filler"
    with open(filler, "wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(MB // 4))
        except OSError:
            pass
    return filler.unlink


def clock(ground):
    """The wall clock of a broker is set an hour or a day forward or back."""
    set_clock(ground.clock, ground.chance.choice([-24, -1, 1, 24]) * HOUR_NS)
    return lambda: set_clock(ground.clock, 0)


def set_clock(path, shift_ns):
    with open(path, "r+b") as out:
        out.write(struct.pack("<q", shift_ns))


PLAIN = [kill, kill, kill, kill_two, kill_all, kill_as_it_starts, kill_as_it_stops, stop, stop, pause, pause, pause_two, stutter]
NETWORK = [cut, isolate, isolate, split_two, link, half, half, half_link, slow, cut_and_kill, kill, pause]
ONE_AWAY = {"kill", "stop", "pause", "cut", "isolate", "link", "slow", "clock", "half"}        # whatever it is, acknowledgements go on


def rounds_of(faults, count, chance):
    """Each kind once before one comes again."""
    out = []
    while len(out) < count:
        out += chance.sample(faults, len(faults))
    return out[:count]


def left_out(capsys, what, why):
    """What this run is less than a whole one, and why: said whatever becomes of the test."""
    with capsys.disabled():
        print(f"\nwithout {what}: {why}")


def wall_clock(run_directory, node, capsys):
    """The wall clock of a broker is one of its own; the file that moves it, None where that cannot be."""
    shim, shift = run_directory / "wall_clock.so", run_directory / f"clock-{node.port}"
    why = "" if harness.PRESET == "release" else f"the broker of {harness.PRESET} takes no library before its own"
    if not why and not shutil.which("cc"):
        why = "no cc"
    if not why:
        made = subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", shim, harness.TOP / "tests/integration/wall_clock.c", "-ldl"], check=False, timeout=240, capture_output=True, text=True)
        why = "" if made.returncode == 0 else f"cc: {made.stderr[-300:]}"
    if why:
        left_out(capsys, "rounds of a clock that jumps", why)
        return None
    shift.write_bytes(struct.pack("<q", 0))
    node.wrap = ["env", f"LD_PRELOAD={shim}", f"WALL_CLOCK_FILE={shift}"]
    node.settings["grpc.listeners"] = ""        # its core waits by the wall clock of the kernel
    return shift


@pytest.fixture
def small_disk(run_directory, name, capsys):
    """A small file system for one broker, or None where none can be mounted."""
    directory = run_directory / f"disk-{name[-30:]}"
    try:
        disk_full_test.mount(directory, 512 * MB)
    except pytest.skip.Exception as why:
        left_out(capsys, "rounds of a full disk", why)
        yield None
        return
    yield directory
    subprocess.run(["umount", "-l", directory], check=True)
    directory.with_suffix(".img").unlink(missing_ok=True)


def settled(cluster, topic):
    """Until what every leader's log holds now is with all that are in sync: a round's losses are of its own acknowledgements."""
    def ends(key):
        rows = [cluster.nodes[1].view(f"/v1/topics/{topic}/partitions/{p}") for p in range(PARTITIONS[topic])]
        return None if any(row is None or row[key] is None for row in rows) else [row[key] for row in rows]
    now = harness.until(lambda: ends("log_end_offset"), 30, "log ends")
    harness.until(lambda: (marks := ends("high_watermark")) and all(mark >= end for mark, end in zip(marks, now)), 30, lambda: f"{topic} settled: {now}, {ends('high_watermark')}")


def go(ground, faults, count, capsys):
    """The rounds, and what must hold behind them."""
    cluster, told = ground.cluster, collections.Counter()
    for topic, partitions in PARTITIONS.items():
        create(cluster.nodes[1], topic, partitions, min_insync_replicas=2, message_timestamp_after_max_ms=LONG_MAX)      # a clock that goes back refuses nobody
    whole(cluster, PARTITIONS)
    at, java = cluster.bootstrap(), None
    eras = {"era": lambda: ground.era}
    writers = [Writer(at, "all", "rd", **eras), Writer(at, "all", "rd-lz4", **eras, **{"compression.type": "lz4", "linger.ms": 0}), Writer(at, "one", "one", acks="1", **eras)]
    plain = PlainWriter([node.bootstrap for node in cluster.nodes.values()], "one", "plain", PARTITIONS["one"], **eras)
    everybody = [*writers, plain]
    readers = [Reader(at, "all", PARTITIONS["all"]), Reader(at, "all", PARTITIONS["all"], rack="rack-2"), Reader(at, "one", PARTITIONS["one"])]
    try:
        if why := java_is_left_out():
            left_out(capsys, "Kafka's own producer", why)
        else:
            java = JavaWriter(at, "all", "java", PARTITIONS["all"])
            everybody.append(java)
        longest_s = 0.0
        for number, fault in enumerate(rounds_of(faults, count, ground.chance)):
            name = fault.__name__
            ground.era = f"{number} {name}"
            settled(cluster, "one")
            before, begin = writers[0].count(), time.monotonic()
            undo = fault(ground)
            if name in ONE_AWAY:
                harness.until(lambda: writers[0].count() > before + 100, 60, lambda: f"acknowledgements in round {ground.era}: {writers[0].count() - before}")
            ground.wait(0.1, 4)
            undo()
            took_s = whole(cluster, PARTITIONS)
            longest_s = max(longest_s, took_s)
            print(f"round {ground.era}: {time.monotonic() - begin:.1f} s, whole again in {took_s:.1f} s, {writers[0].count()} acknowledged")
            told[name] += 1
        ground.era = "quiet"
        before = writers[0].count()
        harness.until(lambda: writers[0].count() > before + 50, 60, "acknowledgements at the end")
        for writer in everybody:
            writer.stop()
        finish(ground, everybody, readers, capsys, told, longest_s)
    finally:
        for one in (*writers, plain, *readers):
            one.ended = True
        if java is not None:
            java.close()


def finish(ground, writers, readers, capsys, told, longest_s):
    at, lost, account = ground.cluster.bootstrap(), [], Account(ground.cluster, PARTITIONS)
    assert not told or all(w.acknowledged for w in writers), f"who is acknowledged nothing shows nothing: {[(w.name, len(w.acknowledged)) for w in writers]}"
    account.check()
    refused = [f for w in writers for f in w.failed if not (isinstance(f[2], str) and f[2].split(" ")[-1] in REFUSES)]
    if not told.keys() & REFUSES:
        assert not refused, f"{len(refused)} refused: {refused[:3]} {refused[-3:]}\n" + "\n".join(f"---- {n.id}\n{n.log_tail(150)}" for n in ground.cluster.nodes.values())
    for topic, partitions in PARTITIONS.items():
        rows = read_all(at, topic, partitions)
        mine = [r for r in readers if r.topic == topic]
        harness.until(lambda: all(r.count() >= sum(map(len, rows.values())) or r.wrong for r in mine), 60, lambda: f"{topic}: {[r.count() for r in mine]} of {sum(map(len, rows.values()))} read")
        for reader in mine:
            reader.stop()
        lost += check(rows, [w for w in writers if w.topic == topic], mine, may_lose=lambda one: (one.era.split(" ")[-1] not in GENTLE or one.era in ground.let_go) and account.holds("one", one),
                      batch_of=functools.partial(batches_of, ground.cluster))
    assert not account.entries, f"what was below a high watermark went: {account.entries}"
    acknowledged = sum(len(w.acknowledged) for w in writers)
    with capsys.disabled():
        print(f"\n{sum(told.values())} rounds {dict(told)}: {acknowledged} acknowledged, longest gap {max(w.longest_gap_s for w in writers if isinstance(w, Writer)):.1f} s, "
              f"whole again within {longest_s:.1f} s; acks=1 lost {len(lost)} {sorted({one.era for one in lost})}, told by {dict(collections.Counter(account.holds('one', one) for one in lost))} "
              f"of {len(account.events)} cuts; of {sum(w.count() for w in writers if isinstance(w, PlainWriter))} epochs {sum(one.epoch is None for w in writers if isinstance(w, PlainWriter) for one in w.acknowledged)} not known; refused {sum(len(w.failed) for w in writers)}")


def five(make, voters, proxied, **settings):
    cluster = make(5, voters=voters, proxied=proxied, **RACKS, **settings)
    for i, node in cluster.nodes.items():
        node.settings["broker.rack"] = f"rack-{i % 3}"
    return cluster


def test_five_brokers_are_killed_stopped_and_paused(run_directory, small_disk, make, capsys):
    chance = random.Random(SEED)
    cluster = five(make, chance.choice([3, 5]), False, **{k.replace("_", "."): v for k, v in disk_full_test.SETTINGS.items()})
    ground = Ground(cluster, chance)
    if small_disk is not None:
        cluster.nodes[5].data = small_disk / "data"
        ground.disk = small_disk
    ground.clock = wall_clock(run_directory, cluster.nodes[4], capsys)
    cluster.start()
    faults = PLAIN + [disk] * (ground.disk is not None) + [clock] * (ground.clock is not None)
    go(ground, faults, ROUNDS - ROUNDS // 2, capsys)


def test_five_brokers_lose_their_links(make, capsys):
    chance = random.Random(SEED + 1)
    ground = Ground(five(make, chance.choice([3, 5]), True), chance)
    ground.cluster.start()
    go(ground, NETWORK, ROUNDS // 2, capsys)
