"""`ottla log adopt`: a partition directory written by Kafka 4.4 comes in, and its records, offsets and producers with it."""
import os
import subprocess

import pytest

import batch
import harness
from admin import Admin, error
from apache_kafka import Kafka
from kafka_directory_test import BASE, offsets, value, write_and_trim

pytestmark = pytest.mark.timeout(240)


def adopt(*arguments, status=0):
    env = {k: v for k, v in os.environ.items() if not k.startswith("OTTLA_")}
    done = subprocess.run([harness.BINARY, "log", "adopt", *map(str, arguments)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60)
    assert done.returncode == status, (done.returncode, done.stdout.decode(), done.stderr.decode())
    return done.stdout.decode() + done.stderr.decode()


@pytest.fixture
def can_adopt():
    if harness.EXTERNAL or not harness.BINARY.exists():
        pytest.skip("needs our own server")
    if b"adopt" not in subprocess.run([harness.BINARY, "help"], stdout=subprocess.PIPE).stdout:
        pytest.skip("this binary has no log adopt")


@pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.long)])
def test_a_partition_of_kafka_is_adopted(can_adopt, own_broker, tmp_path, name, end):
    kafka = Kafka(tmp_path / "kafka", log_segment_bytes="1048576").format().start()
    try:
        with kafka.connect() as c:
            admin = Admin(c)
            admin.create(name)
            producer, epoch = admin.producer_id()
            records = write_and_trim(admin, name, producer, epoch)
            leader_epoch = admin.describe(name)["partitions"][0]["leaderEpoch"]
            wanted = offsets(admin, name, leader_epoch)
        getattr(kafka, end)()
    finally:
        kafka.kill()
    broker = own_broker()
    broker.stop()
    adopt(kafka.data / f"{name}-0", "--topic", name, "--data", broker.data)
    broker.start()
    with broker.connect(timeout_s=30) as c:
        admin = Admin(c)
        start = admin.list_offset(name, -2)["offset"]
        assert start <= 100  # where the log began is kept by Kafka outside of the partition's folder
        assert [r for r in admin.records(name, 100)] == records
        (latest, _, newest), times, end = offsets(admin, name, leader_epoch)
        assert ([latest, newest], times[1:], end) == ([wanted[0][0], wanted[0][2]], wanted[1][1:], wanted[2])
        assert admin.list_offset(name, -1)["offset"] == 800
        repeat = batch.build([value(39, j) for j in range(20)], codec="zstd", timestamps=[BASE + 39000 + j for j in range(20)], producer=(producer, epoch, 380))
        answer = admin.produce_raw(name, repeat)
        assert (error(answer), answer["baseOffset"]) == ("NONE", 780), "the producer's last batch was not recognised"
        assert admin.produce(name, "after") == 800
    broker.kill()
    broker.start()
    with broker.connect(timeout_s=30) as c:
        assert len(Admin(c).records(name, 100)) == 701


def test_adopt_refuses_while_the_server_runs_and_what_is_there_already(can_adopt, own_broker, tmp_path, name):
    source = tmp_path / f"{name}-0"
    broker = own_broker()
    with broker.connect() as c:
        Admin(c).create(name)
        Admin(c).produce(name, "x")
    subprocess.run(["cp", "-r", broker.partition(name), source], check=True)
    refused = adopt(source, "--topic", name + "-b", "--data", broker.data, status=4)
    assert "lock" in refused.lower() or "running" in refused.lower() or "in use" in refused.lower(), refused
    broker.stop()
    refused = adopt(source, "--topic", name, "--data", broker.data, status=4)
    assert name in refused
    broker.start()
    with broker.connect() as c:
        assert len(Admin(c).records(name)) == 1
