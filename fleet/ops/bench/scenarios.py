"""Benchmark `scenarios`: what an observer makes of a storm of Xids, a blink of fourteen nodes and a dead mount server.

Decides for how long each scenario is watched, and counts rows: incidents of one node, shared ones, and plans that would
take a node out of service. Refuses to judge: the numbers stand beside what the scenario says of itself.
"""

from __future__ import annotations

import time

from fleet.ops.bench._site import Site, site

NODES = 293
INTERVAL = 10.0
WATCHED = {"storm": 75.0, "blink": 150.0, "storage": 200.0}  # seconds of the scenario's own time
PLANS = "SELECT count(*) FROM lifecycle_workflow WHERE state <> 'cancelled'"
SHARED = "SELECT count(*) FROM health_incident WHERE node_id IS NULL"
SINGLE = "SELECT count(*) FROM health_incident WHERE node_id IS NOT NULL"
OPEN = "SELECT count(*) FROM health_incident WHERE state = 'open'"


def run(nodes: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for scenario, seconds in WATCHED.items():
        with site(nodes, scenario) as here:
            here.observe(INTERVAL)
            most = _watch(here, seconds)
            found |= {
                f"{scenario}_shared_incidents": float(here.ask(SHARED)),
                f"{scenario}_single_incidents": float(here.ask(SINGLE)),
                f"{scenario}_open_at_once": float(most),
                f"{scenario}_plans": float(here.ask(PLANS)),
                f"{scenario}_signals": float(here.ask("SELECT count(*) FROM health_signal")),
            }
    return found


def _watch(here: Site, seconds: float) -> int:
    """The most incidents that were open at one time."""
    end, most = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        most = max(most, here.ask(OPEN))
        time.sleep(1.0)
    return most
