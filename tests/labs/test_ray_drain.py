"""A real Ray hears of a drain: the very script that runs in the head's container, by the address of the worker."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from fleet.adapters.kubernetes.raydrain import SCRIPT
from tests.labs.ray import Ray, _start, python, running
from tests.patience import until

DRAINS = """
import sys
from ray.autoscaler.v2.sdk import get_cluster_status
told = get_cluster_status(sys.argv[1])
print(*[node.ip_address for node in told.active_nodes + told.idle_nodes if node.node_status != "DRAINING"])
"""
WORKER = "127.0.0.9"


@pytest.fixture(scope="module")
def lab() -> Iterator[Ray]:
    where = python()
    if where is None:
        pytest.skip("Ray is not installed: pip install 'ray[default]', and name its Python in MUSTER_TEST_RAY_PYTHON")
    with running(where) as found:
        _start(where.parent / "ray", f"--address={found.address}", f"--node-ip-address={WORKER}", "--num-cpus=1")
        yield found


def run(lab: Ray, program: str, *arguments: str) -> str:
    env = {**os.environ, "RAY_ADDRESS": lab.address, "PATH": f"{lab.where.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(lab.where), "-c", program, *arguments], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def test_the_worker_at_that_address_drains_and_no_other(lab: Ray) -> None:
    until(lambda: WORKER in run(lab, DRAINS, lab.address).split())
    told = json.loads(run(lab, SCRIPT, "60", "Muster WF-3 drains gpu-7", WORKER, "127.0.0.1", "10.9.9.9"))["muster"]
    assert told[WORKER] == ""
    assert told["127.0.0.1"].startswith("Ray knows"), "the head is there, and several more: whom it means is not known"
    assert told["10.9.9.9"] == "Ray knows 0 living workers at 10.9.9.9"
    until(lambda: WORKER not in run(lab, DRAINS, lab.address).split())
    assert len(run(lab, DRAINS, lab.address).split()) == 3, "the head and two workers go on"
