"""A full disk on a small file system of its own: refused with words, reads and deletes go on, restart works."""
import os
import re
import shutil
import subprocess

import pytest

import batch
import wire
from admin import Admin, error

MB = 1 << 20
SIZE = 96 * MB
SETTINGS = dict(ottla_disk_free_warn_bytes=str(32 * MB), ottla_disk_free_refuse_bytes=str(20 * MB),
                ottla_disk_reserve_bytes=str(4 * MB), log_segment_bytes=str(4 * MB),
                log_segment_delete_delay_ms="500", log_retention_check_interval_ms="1000")
pytestmark = pytest.mark.kill


def mount(directory, size=SIZE):
    """Mount a small file system: ext4 on a loop device, else tmpfs; skips when neither is permitted."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    directory.mkdir(parents=True)
    image = directory.with_suffix(".img")
    with open(image, "wb") as f:
        f.truncate(size)
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if shutil.which("mkfs.ext4") and subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], **quiet).returncode == 0 and \
            subprocess.run(["mount", "-o", "loop", image, directory], **quiet).returncode == 0:
        return
    image.unlink()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory], **quiet).returncode:
        pytest.skip("mount is not permitted here")


@pytest.fixture
def small_disk(run_directory, name):
    directory = run_directory / f"disk-{name}"
    mount(directory)
    yield directory
    subprocess.run(["umount", "-l", directory], check=True)
    directory.with_suffix(".img").unlink(missing_ok=True)


def broker_on(own_broker, disk):
    broker = own_broker(start=False, **SETTINGS)
    broker.data = disk / "data"
    return broker.start()


def retriable(name):
    row = next(r for r in (wire.SCHEMA.parent / "errors.txt").read_text().splitlines() if r.split("\t")[1] == name)
    return row.split("\t")[2] == "yes"


def fill(admin, topic, have=0, limit=400):
    """Produce until refused; (number of records in, the refusal)."""
    for count in range(have, limit):
        answer = admin.produce_raw(topic, batch.build([b"%d:" % count + os.urandom(MB // 2)]))
        if error(answer) != "NONE":
            return count, answer
    raise AssertionError("never refused")


def refused_with_words(answer):
    assert not retriable(error(answer)), answer
    text = answer["errorMessage"] or ""
    assert "disk" in text.lower() or "space" in text.lower(), answer


def readable(admin, topic, count, start=0):
    offset = start
    while offset < count:
        got = batch.records(admin.fetch(topic, offset, max_bytes=2 * MB)["records"])
        assert [int(r[3].split(b":")[0]) for r in got] == list(range(offset, offset + len(got))) and got
        offset += len(got)
    assert admin.list_offset(topic, -1)["offset"] == count


def test_a_refusing_disk_says_what_is_free_and_what_the_reserve_is(own_broker, name):
    refuse, reserve = 1 << 60, 1 << 59
    broker = own_broker(ottla_disk_free_refuse_bytes=str(refuse), ottla_disk_reserve_bytes=str(reserve))
    told = re.search(r"disk space log_dir=\S+ state=refusing free_bytes=(\d+) reserve_bytes=(\d+) reserve=part_of_free", broker.log())
    assert told and int(told[1]) > 0 and int(told[2]) == reserve, broker.log_tail()
    with broker.connect(timeout_s=30) as c:
        admin = Admin(c)
        admin.create(name)
        answer = admin.produce_raw(name, batch.build([b"x"]))
    refused_with_words(answer)
    assert "0 bytes free beside its reserve" in answer["errorMessage"] and str(refuse) in answer["errorMessage"], answer


def test_below_the_threshold_writes_are_refused_and_all_else_goes_on(own_broker, small_disk, name):
    broker = broker_on(own_broker, small_disk)
    with broker.connect(timeout_s=30) as c:
        admin = Admin(c)
        admin.create(name)
        count, answer = fill(admin, name)
        assert count > 20
        refused_with_words(answer)
        assert shutil.disk_usage(small_disk).free > 4 * MB
        readable(admin, name, count)
        admin.create(name + "-small")  # metadata still moves
        admin.delete(name + "-small")
    for end in ("stop", "kill"):
        getattr(broker, end)()
        broker.start()
        with broker.connect(timeout_s=30) as c:
            admin = Admin(c)
            readable(admin, name, count)
            count, answer = fill(admin, name, count)  # the restart gave back what was preallocated
            refused_with_words(answer)
    with broker.connect(timeout_s=30) as c:
        admin = Admin(c)
        assert admin.delete_records(name, count - 10)["lowWatermark"] == count - 10
        readable(admin, name, count, start=count - 10)

        def writable():
            return error(admin.produce_raw(name, batch.build([b"%d:again" % count]))) == "NONE"
        from harness import until
        until(writable, 60, "space after DeleteRecords")
        assert admin.list_offset(name, -1)["offset"] == count + 1


def test_a_disk_filled_to_the_last_byte_by_others(own_broker, small_disk, name):
    broker = broker_on(own_broker, small_disk)
    with broker.connect(timeout_s=30) as c:
        admin = Admin(c)
        admin.create(name)
        for i in range(10):
            assert error(admin.produce_raw(name, batch.build([b"%d:" % i + os.urandom(MB // 2)]))) == "NONE"
    filler = small_disk / "filler"
    with open(filler, "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(MB // 4))
        except OSError:
            pass
    for end in (None, "stop", "kill"):
        if end:
            getattr(broker, end)()
            broker.start()
        with broker.connect(timeout_s=30) as c:
            admin = Admin(c)
            readable(admin, name, 10)
            refused_with_words(admin.produce_raw(name, batch.build([os.urandom(MB // 2)])))
    filler.unlink()
    from harness import until
    with broker.connect(timeout_s=30) as c:
        admin = Admin(c)
        until(lambda: error(admin.produce_raw(name, batch.build([b"10:back"]))) == "NONE", 60, "space again")
        readable(admin, name, 11)
