"""Benchmark `greyscene`: the scenario `grey` from end to end, through scrapes, signals and incidents.

Decides what is counted: broken GPUs and ports of the simulated fleet that became suspect under their own names, how
soon, and who else did; and that nothing was planned, written or taken out of service for them. Samples are taken every
few seconds instead of every half minute, so minutes of the watch pass in seconds. Refuses to tell the observer
anything: what is broken is read from the exporters, as anybody could.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from typing import Any

import psycopg

from fleet.ops.bench._site import Site, site

NODES = 64
PATIENT = True
INTERVAL, SAMPLE = 3.0, 3.0
SECONDS = 200.0
SUSPECTS = """
SELECT n.name, s.device, extract(epoch FROM s.opened_at)::float, coalesce(d.index, -1)
FROM health_signal s JOIN inventory_node n ON n.id = s.node_id
LEFT JOIN inventory_device d ON d.node_id = n.id AND d.key = s.device
WHERE s.cause = 'grey-suspect' ORDER BY s.id"""
WRITES = ("patch nodes", "create pods/eviction", "create jobs")
_CLOCK = re.compile(r'DCGM_FI_DEV_SM_CLOCK\{gpu="(\d)"[^}]*\} 990$', re.MULTILINE)
_WAIT = re.compile(r'port_transmit_wait_total\{device="(mlx5_\d)",port="1"\} (\d+)')
Part = tuple[str, str]  # node, GPU index or port


def run(nodes: int) -> dict[str, float]:
    with site(nodes, "grey") as here:
        here.env["MUSTER_GREY_SAMPLE_SECONDS"] = f"{SAMPLE:g}"
        began = time.time()
        here.observe(INTERVAL)
        here.judged()
        time.sleep(SECONDS)
        broken, told = _broken(here), _suspects(here)
        found = {part: at for part, at in told.items() if part in broken}
        states = here.ask("SELECT count(*) FROM lifecycle_nodelifecycle WHERE state = 'suspect'")
        others = "('in_service', 'suspect', 'unmanaged')"
        return {
            "broken_gpus": float(sum(part.isdigit() for _, part in broken)),
            "broken_ports": float(sum(not part.isdigit() for _, part in broken)),
            "found_gpus": float(sum(part.isdigit() for _, part in found)),
            "found_ports": float(sum(not part.isdigit() for _, part in found)),
            "wrong": float(len(told) - len(found)),
            "looks_until_found_max": round((max(found.values()) - began) / (2 * SAMPLE), 1) if found else -1.0,
            "nodes_suspect": float(states),
            "nodes_out": float(here.ask(f"SELECT count(*) FROM lifecycle_nodelifecycle WHERE state NOT IN {others}")),  # noqa: S608
            "workflows": float(here.ask("SELECT count(*) FROM lifecycle_workflow")),
            "writes": float(sum(_get(here, "/_sim/stats")["writes"].get(what, 0) for what in WRITES)),
            "advised_gangs": float(here.ask(_ADVISED)),
        }


_ADVISED = """
SELECT count(*) FROM inventory_cluster, jsonb_array_elements(conditions) c
WHERE c->>'code' LIKE 'data_loading:%' OR c->>'code' LIKE 'job_slow:%'"""


def _broken(here: Site) -> set[Part]:
    """Slow GPUs and ports, as their exporters show them."""
    found: set[Part] = set()
    for node, state in _get(here, "/_sim/state")["nodes"].items():
        if "grey_gpu" in state["faults"]:
            found |= {(node, index) for index in _CLOCK.findall(_text(here, node, "dcgm"))}
        if "nic_slow" in state["faults"]:
            waits = {port: int(ticks) for port, ticks in _WAIT.findall(_text(here, node, "node"))}
            found.add((node, max(waits, key=lambda port: waits[port])))
    return found


def _suspects(here: Site) -> dict[Part, float]:
    with psycopg.connect(here.database, autocommit=True) as link:
        rows = link.execute(SUSPECTS).fetchall()
    told: dict[Part, float] = {}
    for node, device, at, index in rows:
        part = str(device).partition("/")[0]
        told.setdefault((str(node), part if part.startswith("mlx5") else str(index)), float(at))
    return told


def _text(here: Site, node: str, job: str) -> str:
    with urllib.request.urlopen(f"{here.simulator}/nodes/{node}/{job}/metrics", timeout=10) as answer:  # noqa: S310
        return str(answer.read().decode())


def _get(here: Site, path: str) -> Any:
    with urllib.request.urlopen(here.simulator + path, timeout=10) as answer:  # noqa: S310
        return json.loads(answer.read())
