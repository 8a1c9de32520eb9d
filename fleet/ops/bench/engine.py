"""Benchmark `engine`: what one step costs, and what a thousand workflows cost that only wait.

Decides the load: a fleet in the database, a worker and a beat at their usual pace. The cost of waiting is the CPU of
all processes with them, less that of the same processes without. Refuses a fleet without a database of its own.
"""

from __future__ import annotations

import time

from fleet.ops.bench import _acting as acting
from fleet.ops.bench._site import Site, own_process, servers

NODES = 2000
WAITING = 1000
WATCHED_SECONDS = 30.0
WARM_SECONDS = 6.0
OVER = "UPDATE lifecycle_workflow SET state = 'cancelled', wake_at = NULL, ended_at = now()"


def run(nodes: int) -> dict[str, float]:
    with servers(nodes) as here:
        here.manage("prepare")
        own_process("_enginework", here.env, "fill", str(nodes))
        count = min(WAITING, nodes // 2)
        stepped: dict[str, float] = own_process("_enginework", here.env, "steps", "0")
        acting.settle(here, OVER)
        acting.start(here)
        idle = _cores(here)
        own_process("_enginework", here.env, "waiting", str(count))
        busy = _cores(here)
        parts = {f"waiting_cores_{part}": round(used, 3) for part, used in busy.items()}
        return {
            **stepped,
            "waiting1000_cpu_pct": round(100 * (sum(busy.values()) - sum(idle.values())), 2),
            "idle_cpu_pct": round(100 * sum(idle.values()), 2),
            "waiting_n": float(count),
            **parts,
        }


def _cores(here: Site) -> dict[str, float]:
    time.sleep(WARM_SECONDS)
    before, began = here.cpu_by_part(), time.monotonic()
    time.sleep(WATCHED_SECONDS)
    took = time.monotonic() - began
    return {part: (now - before.get(part, 0.0)) / took for part, now in here.cpu_by_part().items()}
