"""Requests made up from the contract, right ones and wrong ones, against a live server: answers fit it, and the server lives on."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from rest_test import Rest

HERE = Path(__file__).resolve().parent
pytest.importorskip("schemathesis", reason="no schemathesis: ./dev setup")


def run(broker, directory, seconds, seed, phases):
    rest = Rest(broker)
    rest.create("orders", 3)
    rest.produce("orders", *[{"key": {"string": f"k{i}"}, "value": {"json": {"n": i}}, "partition": i % 3} for i in range(30)])
    words = [sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(HERE / "schemathesis" / "schemathesis.toml"), "run",
             str(HERE.parents[1] / "openapi" / "ottla.json"), "--url", broker.rest, "--phases", phases, "--rate-limit", "150/s",
             "--max-time", str(seconds), "--seed", str(seed), "--request-timeout", "15", "--suppress-health-check", "all", "--warnings", "off"]
    env = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE / "schemathesis")}
    done = subprocess.run(words, cwd=directory, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=seconds * 4 + 120, check=False)
    assert "Tested:" in done.stdout, done.stdout[-3000:]
    assert done.returncode == 0, done.stdout[-12000:]
    assert rest.get("/healthz")["status"] == "ok" and broker.alive()


@pytest.mark.timeout(200)
def test_made_up_requests_find_nothing(own_broker, tmp_path):
    run(own_broker(), tmp_path, 25, 1, "examples,coverage,fuzzing")


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [2, 3])
def test_many_made_up_requests_find_nothing(own_broker, tmp_path, seed):
    run(own_broker(), tmp_path, 240, seed, "examples,coverage,fuzzing")
