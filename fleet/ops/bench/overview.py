"""Benchmark `overview`: what the fleet page costs the server.

Decides nothing about the load (see `_fleetpage`): it gives it a database and a cache of its own and a process of its
own, so that nothing else is in that interpreter. Refuses the caller's database.
"""

from __future__ import annotations

import json
import subprocess
import sys

from fleet.ops.bench._site import ROOT, BenchFailure, servers

NODES = 10_000


def run(nodes: int) -> dict[str, float]:
    with servers(nodes) as here:
        here.manage("prepare")
        done = subprocess.run(
            [sys.executable, "-m", "fleet.ops.bench._fleetpage", str(nodes)],
            env=here.env, cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise BenchFailure(f"the page could not be measured: {done.stderr.strip()[-800:]}")
        found: dict[str, float] = json.loads(done.stdout)
        return found
