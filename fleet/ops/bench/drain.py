"""Benchmark `drain`: 750 nodes with 15 pods each are emptied by evictions that the API server takes.

Decides the load of two parts, of which `_caps` is the second. The first: half of a fleet falls ill at once with caps
open, the breaker off and the API rate lifted; budgets and grace periods hold as ever. Time runs from the first accepted
eviction until no pod that should go stands on any of the nodes, by the API server's own word (`drain750_s`; the last
ones wait for their budgets, and those for room elsewhere), and until as many were evicted as the nodes were to carry,
15 each (`pods_s`); the cordons before it are another benchmark's. Refuses to count a pod that was only asked for, and
an eviction that was refused or repeated.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

from fleet.ops.bench import _acting as acting
from fleet.ops.bench import _caps
from fleet.ops.bench._site import BenchFailure, Site, site
from fleet.ops.bench.cordon import _lines

NODES = 1500
PODS, DAEMONS = 15, 4
PATIENCE = 600.0
FIRST_HALF = """SELECT sum(pods) FROM (SELECT pods FROM inventory_node ORDER BY name
                LIMIT (SELECT count(*) / 2 FROM inventory_node)) half"""


def run(nodes: int) -> dict[str, Any]:
    with _settled(nodes) as here:
        acting.open_caps(here)
        found = opened(here, here.node_names()[: nodes // 2])
    with _settled(nodes, **_caps.SETTINGS) as here:
        acting.settle(here, acting.NO_BREAKER)
        return found | _caps.capped(here, here.node_names()[: nodes // 2])


@contextlib.contextmanager
def _settled(nodes: int, **settings: str) -> Iterator[Site]:
    """A fleet that acts and of which every node is known to be well."""
    with site(nodes, pods_per_node=PODS + DAEMONS) as here:
        acting.automate(here)
        acting.start(here, workers=2, **settings)
        here.observe(60.0)
        here.synced(least_pods=nodes * PODS)
        here.judged()
        yield here


def opened(here: Site, chosen: list[str]) -> dict[str, Any]:
    wanted, before = here.ask(FIRST_HALF), here.cpu_by_part()
    _lines(here, chosen)
    began, end = 0.0, time.monotonic() + PATIENCE
    left, most = wanted, 0.0
    while left and time.monotonic() < end:
        told = acting.evictions(here)
        began = began or (time.monotonic() if told.get("accepted") else 0.0)
        most = most or (time.monotonic() - began if told.get("accepted", 0) >= PODS * len(chosen) else 0.0)
        # the pods are listed only when it can be over: a list of all of them is work for the API server
        left = standing(here, chosen) if told.get("accepted", 0) >= wanted else wanted
        ended = time.monotonic()
        time.sleep(0.2 if left == wanted else 1.0)
    if left:
        raise BenchFailure(f"{told} of {wanted} pods in {PATIENCE:.0f} s; {left} stand")
    took = max(0.1, ended - began)
    spent = {part: round(now - before.get(part, 0.0), 1) for part, now in here.cpu_by_part().items()}
    return {
        "drain750_s": round(took, 1),
        "pods_s": round(most, 1),
        "evictions_per_s": round(told["accepted"] / took, 1),
        "n": float(told["accepted"]),
        "refused_by_budgets": float(told.get("refused", 0)),
        "nodes_drained": float(len(chosen)),
        "policy": "caps open, breaker off, API rate lifted",
        **{f"cpu_s_{part}": used for part, used in spent.items()},
    }


def standing(here: Site, chosen: list[str]) -> int:
    """Pods of these nodes that should go and have not begun to."""
    link, headers = _caps.link_of(here)
    found = 0
    for node in chosen:
        link.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}", headers=headers)
        found += sum(map(_stands, json.load(link.getresponse())["items"]))
    link.close()
    return found


def _stands(pod: dict[str, Any]) -> bool:
    owners = [owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()]
    over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return "DaemonSet" not in owners and "deletionTimestamp" not in pod["metadata"] and not over


def quick(nodes: int) -> dict[str, Any]:
    """A fleet of a tenth."""
    return run(nodes // 10)
