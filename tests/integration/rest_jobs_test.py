"""REST: long work. Logs are checked byte by byte beside a writer, damage is named, a job is cancelled, and a stop waits for none."""
import threading

import pytest

from harness import until
from rest_test import Rest, made, rest  # noqa: F401 (fixtures)

pytestmark = pytest.mark.smoke


def start(rest, status=202, **body):
    return rest.ask("POST", "/v1/diagnostics/verify", body, status).json()


def ended(rest, job):
    return until(lambda: (now := rest.get(f"/v1/jobs/{job['job_id']}"))["ended_at"] and now, 30, lambda: rest.get(f"/v1/jobs/{job['job_id']}"))


def fill(rest, name, records=2000):
    rest.ask("POST", f"/v1/topics/{name}/records", ("x" * 200 + "\n").encode() * records, headers={"Content-Type": "application/x-ndjson"})


def test_sound_logs_are_found_sound(rest, name):
    rest.create(name, 3)
    fill(rest, name)
    answer = rest.ask("POST", "/v1/diagnostics/verify", {"topic": name}, 202)
    job = ended(rest, answer.json())
    assert answer.headers["Location"] == f"/v1/jobs/{job['job_id']}"
    assert (job["state"], job["error"], job["topic"], job["partition"]) == ("done", None, name, None)
    assert job["result"] == {"partitions": 3, "skipped": 0, "faults": 0, "details": []}
    assert job["progress"]["done"] == job["progress"]["total"] == rest.get(f"/v1/topics/{name}")["size_bytes"]
    one = ended(rest, start(rest, topic=name, partition=1))
    assert one["result"]["partitions"] == 1 and 0 < one["progress"]["total"] < job["progress"]["total"]
    assert rest.get("/v1/jobs")["items"][0] == one and rest.get("/v1/jobs", state="running")["items"] == []


def test_a_flipped_bit_is_named(own_broker, name):
    broker = own_broker()
    rest = Rest(broker)
    rest.create(name)
    for _ in range(3):
        fill(rest, name, 50)
    log = next((broker.data / f"{name}-0").glob("*.log"))
    with open(log, "r+b") as file:
        file.seek(log.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    job = ended(rest, start(rest, topic=name))
    assert job["state"] == "done" and job["result"]["faults"] >= 1
    assert job["result"]["details"][0].startswith(f"{name}-0/00000000000000000000: bad batch at position"), job
    assert "verify_fault" in broker.log() and rest.get("/healthz")["status"] == "ok"


def test_a_writer_is_no_fault(rest, name):
    """Small segments, rolled and removed while they are looked at."""
    rest.create(name, segment_bytes="1048576", retention_bytes="3000000")
    stop, failed = threading.Event(), []

    def write():
        own = Rest(rest.broker)
        while not stop.is_set():
            try:
                fill(own, name, 1000)
            except AssertionError as e:
                failed.append(e)
                return
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(8):
            job = ended(rest, start(rest, topic=name))
            assert (job["state"], job["result"]["faults"]) == ("done", 0), job
    finally:
        stop.set()
        writer.join(30)
    assert not failed


def test_a_job_is_cancelled_and_others_wait_for_it(rest, made):
    fill(rest, made)
    slow, next_one = start(rest, topic=made, max_bytes_per_second=1000), start(rest, topic=made)
    until(lambda: rest.get(f"/v1/jobs/{slow['job_id']}")["state"] == "running", 10, "it runs")
    assert rest.get(f"/v1/jobs/{next_one['job_id']}")["state"] == "queued"
    assert rest.ask("DELETE", f"/v1/jobs/{slow['job_id']}", status=202).json()["state"] == "cancelling"
    assert ended(rest, slow)["state"] == "cancelled" and ended(rest, next_one)["state"] == "done"
    assert rest.problem("DELETE", f"/v1/jobs/{slow['job_id']}", 409, "HTTP_CONFLICT")["detail"] == "the job is cancelled"


def test_what_is_asked_is_checked(rest, made):
    rest.problem("POST", "/v1/diagnostics/verify", 404, "UNKNOWN_TOPIC_OR_PARTITION", {"topic": "nosuch"})
    rest.problem("POST", "/v1/diagnostics/verify", 404, "UNKNOWN_TOPIC_OR_PARTITION", {"topic": made, "partition": 1})
    rest.problem("POST", "/v1/diagnostics/verify", 400, "INVALID_REQUEST", {"partition": 0})
    rest.problem("GET", "/v1/jobs/j-nosuch", 404, "RESOURCE_NOT_FOUND")
    rest.problem("DELETE", "/v1/jobs/j-nosuch", 404, "RESOURCE_NOT_FOUND")


def test_pages_of_jobs(rest, made):
    ids = [ended(rest, start(rest, topic=made))["job_id"] for _ in range(5)]
    page = rest.get("/v1/jobs", limit=3)
    again = rest.get("/v1/jobs", limit=2, page_token=page["next_page_token"])
    assert [j["job_id"] for j in page["items"] + again["items"]] == ids[::-1]


def test_a_stop_waits_for_no_job(own_broker, name):
    broker = own_broker()
    rest = Rest(broker)
    rest.create(name)
    fill(rest, name)
    jobs = [start(rest, topic=name, max_bytes_per_second=1) for _ in range(3)]
    until(lambda: rest.get(f"/v1/jobs/{jobs[0]['job_id']}")["state"] == "running", 10, "it runs")
    broker.stop()
    assert "state=cancelled" in broker.log()
