"""Damage on disk before a start: clear words or a right repair, never a crash and never silence about what is gone."""
import os
import random
import shutil
import subprocess

import pytest

import batch
import harness
from admin import Admin, error
from harness import until

SEED = int(os.environ.get("OTTLA_DAMAGE_SEED", "1"))
BATCHES = 60


def filled(own_broker, name, how):
    """A server stopped or killed with 60 batches in several segments; (broker, the values in order)."""
    broker = own_broker(log_segment_bytes="1048576", log_index_interval_bytes="4096")
    values = []
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name)
        for number in range(BATCHES):
            value = b"%d:" % number + random.Random(number).randbytes(50000)
            assert admin.produce_raw(name, batch.build([value], timestamps=[1700000000000 + number]))["errorCode"] == 0
            values.append(value)
    if how == "stop":
        broker.stop()
    else:
        broker.kill()
    return broker, values


def comes_up(broker):
    """True when ready, False when it ended by itself with words and a failing status."""
    broker.start(wait=False)

    def settled():
        return not broker.alive() or broker.ready()
    until(settled, harness.READY_S, lambda: f"ready or an end:\n{broker.log_tail()}")
    if broker.alive():
        return True
    assert 0 < broker.process.returncode < 90, f"{broker.process.returncode}\n{broker.log_tail()}"
    broker.process = None
    return False


def said_since(broker, mark):
    return broker.log()[mark:]


def everything(broker, name, values):
    with broker.connect() as c:
        admin = Admin(c)
        assert [r[3] for r in admin.records(name)] == values
        number = len(values) // 2
        assert admin.list_offset(name, 1700000000000 + number)["offset"] == number
        assert error(admin.produce_raw(name, batch.build([b"after"]))) == "NONE"


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("ending", ["index", "timeindex", "snapshot", "checkpoint", "all"])
def test_derived_files_that_are_gone_are_made_again(own_broker, name, how, ending):
    broker, values = filled(own_broker, name, how)
    partition = broker.partition(name)
    for path in [*partition.iterdir(), *(p for p in broker.data.glob("*checkpoint") if p.is_file())]:
        if path.suffix[1:] in ({"index", "timeindex", "snapshot", "txnindex"} if ending == "all" else {ending}) or (
                "checkpoint" in path.name and ending in ("checkpoint", "all")):
            path.unlink()
    broker.start()
    everything(broker, name, values)
    broker.stop()


@pytest.mark.long
@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("seed", range(6))
def test_damaged_derived_files_do_not_change_what_is_read(own_broker, name, how, seed):
    rng = random.Random(SEED * 100 + seed)
    broker, values = filled(own_broker, name, how)
    files = [p for p in [*broker.partition(name).iterdir(), *broker.data.glob("*checkpoint")] if p.is_file() and p.suffix != ".log" and
             p.name != "partition.metadata"]
    hurt = {}
    for path in rng.sample(files, min(len(files), 4)):
        data = bytearray(path.read_bytes())
        kind = rng.randrange(4)
        if kind == 0 and data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data = data[:rng.randrange(len(data) + 1)]
        elif kind == 2:
            data += rng.randbytes(rng.randrange(1, 40))
        else:
            data = bytearray(rng.randbytes(len(data)))
        path.write_bytes(data)
        hurt[path.name] = kind
    mark = len(broker.log())
    if not comes_up(broker):
        raise AssertionError(f"{hurt} stops the server:\n{said_since(broker, mark)}")
    try:
        everything(broker, name, values)
    except AssertionError as e:
        raise AssertionError(f"{hurt}: {str(e)[:300]}\n{said_since(broker, mark)[:3000]}") from None
    broker.stop()


def read_good(admin, name, values):
    """Offsets whose records come with a right checksum, by a reader that steps over what fails; each has the bytes that were written."""
    good, offset = [], 0
    while offset < len(values):
        answer = admin.fetch(name, offset)
        data = answer["records"] if answer["errorCode"] == 0 else None
        before, pos = offset, 0
        while data and len(data) - pos >= batch.HEAD.size:
            one = batch.Batch(*batch.HEAD.unpack_from(data, pos))
            one.raw = data[pos:pos + 12 + one.length]
            if len(one.raw) < 12 + one.length:
                break  # cut: the rest comes with the next fetch
            if one.crc_is_valid():
                assert [r[3] for r in batch.read_records(one)] == [values[one.base_offset]], one.base_offset
                good.append(one.base_offset)
            offset, pos = one.base_offset + 1, pos + len(one.raw)
        offset += offset == before
    return good


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("where", ["first", "middle", "last", "cut-first", "cut-last"])
def test_a_damaged_segment_is_told_and_the_rest_is_served(own_broker, name, how, where):
    """Wrong bytes inside acknowledged records: no reader gets other bytes than were written, what is cut off is told in words."""
    broker, values = filled(own_broker, name, how)
    segments = sorted(broker.partition(name).glob("*.log"))
    path = {"first": segments[0], "middle": segments[len(segments) // 2]}.get(where, segments[0] if where == "cut-first" else segments[-1])
    at = path.stat().st_size // 2 + 20000  # in the middle of a batch's record
    with open(path, "r+b") as f:
        if where.startswith("cut"):
            f.truncate(at)
        else:
            f.seek(at)
            byte = f.read(1)
            f.seek(at)
            f.write(bytes([byte[0] ^ 1]))
    mark = len(broker.log())
    assert comes_up(broker)
    with broker.connect() as c:
        good = read_good(Admin(c), name, values)
        end = Admin(c).list_offset(name, -1)["offset"]
    broker.stop()
    words = said_since(broker, mark)
    print(where, how, len(good), end, "\n".join(x for x in words.splitlines() if " INFO " not in x)[:1500])
    assert good == sorted(good)
    if end < len(values):
        assert "tail_cut" in words or "log_cut" in words or "synced_records_gone" in words, words
    elif where.startswith("cut"):
        assert "segment_damaged" in words, words
    if how == "stop" and where.startswith("cut"):
        assert set(range(40, 60) if where == "cut-first" else range(0, 40)) <= set(good)
    elif how == "stop":
        assert len(good) == len(values) - 1


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_journal_is_told_in_words(own_broker, name, seed):
    rng = random.Random(SEED * 1000 + seed)
    broker = own_broker()
    names = [f"{name}-{i}" for i in range(6)]
    with broker.connect() as c:
        for one in names:
            Admin(c).create(one)
            Admin(c).produce(one, "x")
    (broker.stop if seed % 2 else broker.kill)()
    files = [p for p in broker.data.rglob("*") if p.is_file() and p.parent.name not in {f"{n}-0" for n in names} and p.name not in (".lock",) and
             "checkpoint" not in p.name and p.stat().st_size > 0]
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    kind = rng.randrange(4)
    at = rng.randrange(len(data))
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data = data[:at]
    elif kind == 2:
        data += rng.randbytes(30)
    else:
        data = bytearray(len(data))
    path.write_bytes(data)
    mark = len(broker.log())
    up = comes_up(broker)
    words = said_since(broker, mark)
    print(path.relative_to(broker.data), "flip cut more zero".split()[kind], f"at {at} of {len(data)}", "up" if up else "down")
    print("\n".join(x for x in words.splitlines() if " INFO " not in x)[:1200])
    kept = []
    if up:
        with broker.connect() as c:
            present = {t["name"] for t in Admin(c).metadata(everything=True)["topics"]}
            kept = [n for n in names if n in present and [r[3] for r in Admin(c).records(n)] == [b"x"]]
        broker.stop()
    else:
        assert path.name in words or "cluster.id" in words or "broker" in words, words
    assert kept == names or "WARN" in words or "ERROR" in words or not up, words
    assert all((broker.data / f"{n}-0").is_dir() for n in names), "records were removed because of a damaged journal"


def test_a_directory_that_vanishes_or_fails_leaves_the_others_serving(own_broker, name):
    broker = own_broker(start=False)
    dirs = [broker.directory / d for d in ("a", "b", "c")]
    broker.settings["log.dirs"] = ",".join(map(str, dirs))
    broker.data = dirs[0]
    broker.command_words = broker.command

    def command():
        words = broker.command_words()
        at = words.index("--data")
        return words[:at] + words[at + 2:]
    broker.command = command
    broker.start()
    with broker.connect() as c:
        admin = Admin(c)
        admin.create(name, partitions=6)
        for p in range(6):
            assert admin.produce(name, f"{p}", partition=p) == 0
    homes = {p: next(d for d in dirs if (d / f"{name}-{p}").is_dir()) for p in range(6)}
    assert len(set(homes.values())) == 3, homes
    broker.stop()
    lost = dirs[2]
    shutil.move(lost, str(lost) + "-away")
    lost.write_text("not a directory")
    broker.start()
    with broker.connect() as c:
        admin = Admin(c)
        for p in range(6):
            codes = {error(admin.fetch(name, 0, partition=p)) if p in range(6) else None}
            if homes[p] != lost:
                assert codes == {"NONE"}, (p, codes)
                assert admin.records(name, partition=p)[0][3] == str(p).encode()
                assert admin.produce(name, "more", partition=p) == 1
            else:
                assert codes != {"NONE"}, "an empty log in place of a lost one"
                assert error(admin.produce_raw(name, batch.build([b"x"]), partition=p)) != "NONE"
    broker.stop()
    lost.unlink()
    shutil.move(str(lost) + "-away", lost)
    broker.start()
    with broker.connect() as c:
        for p in range(6):
            assert Admin(c).records(name, partition=p)[0][3] == str(p).encode()


def test_a_remount_without_writing_is_told_and_reads_go_on(own_broker, name, run_directory):
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    disk = run_directory / f"ro-{name}"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mount is not permitted here")
    try:
        broker = own_broker(start=False, ottla_disk_free_refuse_bytes="1048576", ottla_disk_free_warn_bytes="2097152",
                            ottla_disk_reserve_bytes="1048576")
        broker.data = disk / "data"
        broker.start()
        with broker.connect() as c:
            admin = Admin(c)
            admin.create(name)
            assert admin.produce(name, "one") == 0
            broker.kill()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        mark = len(broker.log())
        up = comes_up(broker)
        assert "EROFS" in said_since(broker, mark), said_since(broker, mark)
        if up:
            broker.stop()
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        broker.start()
        with broker.connect() as c:
            assert [r[3] for r in Admin(c).records(name)] == [b"one"]
        broker.stop()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
