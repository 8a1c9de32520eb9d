"""Benchmark `drain`: 750 nodes with 15 pods each are emptied by evictions that the API server takes.

Decides the load: half of a fleet falls ill at once with caps open, the breaker off and the API rate lifted. Time runs
from the first eviction to the last that is needed, by the API server's own count; the cordons before it are another
benchmark's. Refuses to count a pod that was only asked for.
"""

from __future__ import annotations

import time
from typing import Any

from fleet.ops.bench import _acting as acting
from fleet.ops.bench._site import BenchFailure, site
from fleet.ops.bench.cordon import _lines

NODES = 1500
PODS, DAEMONS = 15, 4
PATIENCE = 600.0
FIRST_HALF = """SELECT sum(pods) FROM (SELECT pods FROM inventory_node ORDER BY name
                LIMIT (SELECT count(*) / 2 FROM inventory_node)) half"""


def run(nodes: int) -> dict[str, Any]:
    sick = nodes // 2
    with site(nodes, pods_per_node=PODS + DAEMONS) as here:
        acting.automate(here)
        acting.open_caps(here)
        acting.start(here, workers=2)
        here.observe(60.0)
        here.synced(least_pods=nodes * PODS)
        here.judged()
        chosen = here.node_names()[:sick]
        wanted = here.ask(FIRST_HALF)
        before = here.cpu_by_part()
        _lines(here, chosen)
        began = ended = 0.0
        most, end = 0, time.monotonic() + PATIENCE
        while most < wanted and time.monotonic() < end:
            most = acting.evictions(here)
            began = began or (time.monotonic() if most else 0.0)
            ended = time.monotonic()
            time.sleep(0.2)
        if most < wanted:
            raise BenchFailure(f"{most} of {wanted} pods were evicted in {PATIENCE:.0f} s")
        took = max(0.1, ended - began)
        spent = {part: round(now - before.get(part, 0.0), 1) for part, now in here.cpu_by_part().items()}
        return {
            "drain750_s": round(took, 1),
            "evictions_per_s": round(most / took, 1),
            "n": float(most),
            "nodes_drained": float(sick),
            "policy": "caps open, breaker off, API rate lifted",
            **{f"cpu_s_{part}": used for part, used in spent.items()},
        }


def quick(nodes: int) -> dict[str, Any]:
    """A fleet of a tenth."""
    return run(nodes // 10)
