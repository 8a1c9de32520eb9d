"""Benchmark `scenarios`: what an observer makes of a storm of Xids, a blink of fourteen nodes, a flapping leaf and dead
storage.

Decides for how long each scenario is watched and what is counted: incidents of one node, shared ones, plans that would
drain, how many nodes the widest shared incident lists, and for hung mounts how long each stayed unseen. They are
watched two by two, each in a site of its own, because they are mostly waiting. Refuses to judge: the numbers stand
beside what the scenario says of itself.
"""

from __future__ import annotations

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import psycopg

from fleet.ops.bench._site import Site, site

NODES = 293
PATIENT = True
INTERVAL = 10.0
AT_ONCE = 2
WATCHED = {"fabric": 240.0, "storage": 215.0, "blink": 160.0, "storm": 75.0}  # seconds of the scenario's own time
QUICK = ("storage", "blink")  # the others are replayed on arrays by `quality`
HANG, SERVER = "nfs_hang", "nfs_server_down"
INCIDENTS = """
SELECT i.node_id, i.scope, i.cause, extract(epoch FROM i.detected_at)::float,
       (SELECT count(*) FROM health_incidentmember m WHERE m.incident_id = i.id)
FROM health_incident i ORDER BY i.id"""
PLANS = """
SELECT extract(epoch FROM created_at)::float, plan::text LIKE '%"drain"%' FROM lifecycle_workflow
WHERE state <> 'cancelled'"""
HUNG = """
SELECT n.name, extract(epoch FROM min(s.opened_at))::float
FROM health_signal s JOIN inventory_node n ON n.id = s.node_id
WHERE s.cause IN ('mount-hung', 'nfs-timeouts') AND s.incident_id IS NOT NULL GROUP BY n.name"""
Rows = list[tuple[object, ...]]
Seen = dict[tuple[str, str], float]  # (fault, node) -> when it was first there, as a wall-clock time


def run(nodes: int) -> dict[str, float]:
    return _watch_all(tuple(WATCHED), nodes)


def quick(nodes: int) -> dict[str, float]:
    return _watch_all(QUICK, nodes)


def _watch_all(scenarios: tuple[str, ...], nodes: int) -> dict[str, float]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = list(pool.map(lambda scenario: watch(scenario, nodes), scenarios))
    found = zip(scenarios, told, strict=True)
    return {f"{scenario}_{key}": value for scenario, one in found for key, value in one.items()}


def watch(scenario: str, nodes: int) -> dict[str, float]:
    """One scenario, from a fleet that was calm to the end of what its file tells."""
    with site(nodes, scenario) as here:
        here.observe(INTERVAL)
        struck, most = _follow(here, WATCHED[scenario])
        incidents, plans, hung = _rows(here, INCIDENTS), _rows(here, PLANS), _rows(here, HUNG)
        signals = float(here.ask("SELECT count(*) FROM health_signal"))
    shared = [row for row in incidents if row[0] is None]
    counts = {
        "shared_incidents": float(len(shared)),
        "single_incidents": float(len(incidents) - len(shared)),
        "open_at_once": float(most),
        "widest_lists": float(max((int(str(row[4])) for row in shared), default=0)),
        "plans": float(len(plans)),
        "drains": float(sum(bool(drains) for _at, drains in plans)),
        "signals": signals,
    }
    return {**counts, **(_storage(struck, incidents, plans, hung) if scenario == "storage" else {})}


def _storage(struck: Seen, incidents: Rows, plans: Rows, hung: Rows) -> dict[str, float]:
    """How long a hung mount stayed unseen behind its Ready node, and what the death of the server made."""
    seen = {str(name): float(str(at)) for name, at in hung}
    took = [seen.get(node, float("inf")) - at for (fault, node), at in struck.items() if fault == HANG]
    died = min((at for (fault, _node), at in struck.items() if fault == SERVER), default=float("inf"))
    own = [row for row in incidents if row[0] is not None and str(row[2]).startswith(("mount", "nfs"))]
    return {
        "hangs": float(len(took)),
        "hang_found_s": round(max(took, default=0.0), 1),
        "server_incidents": float(sum(row[1] == "mount_server" for row in incidents)),
        "server_own_incidents": float(sum(float(str(row[3])) >= died for row in own)),
        "server_plans": float(sum(float(str(at)) >= died for at, _drains in plans)),
    }


def _follow(here: Site, seconds: float) -> tuple[Seen, int]:
    """When each fault struck, as the simulator tells, and the most incidents that were open at one time."""
    end, most = time.monotonic() + seconds, 0
    seen: Seen = {}
    while time.monotonic() < end:
        with urllib.request.urlopen(f"{here.simulator.rstrip('/')}/_sim/state", timeout=10) as answer:  # noqa: S310
            now, nodes = time.time(), json.load(answer)["nodes"]
        for name, state in nodes.items():
            for fault in state["faults"]:
                seen.setdefault((fault, name), now)
        most = max(most, here.ask("SELECT count(*) FROM health_incident WHERE state = 'open'"))
        time.sleep(0.5)
    return seen, most


def _rows(here: Site, sql: str) -> Rows:
    with psycopg.connect(here.database, autocommit=True) as link:
        return list(link.execute(sql).fetchall())
