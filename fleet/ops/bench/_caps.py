"""The second part of benchmark `drain`: the same burst under the caps that every installation starts with.

Decides what is watched, and from where: claims by their rows, nodes that are off by the simulator's own marks, nodes
that are held by listing them at the API server again and again. The breaker is off, which would stop such a burst, and
the soak is short, so that places come free while we watch. Refuses to pass when any cap was passed by.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import psycopg
import yaml

from fleet.ops.bench import _acting as acting
from fleet.ops.bench._capwatch import Asked, Key, most_at_once, use
from fleet.ops.bench._site import NAME, BenchFailure, Site, wait
from fleet.ops.bench.cordon import _lines

WATCHED = 120.0
SETTINGS = {
    "MUSTER_EVICTIONS_PER_SECOND": "20", "MUSTER_SOAK_SECONDS": "5", "MUSTER_DEMO_BMC": "admin:simulated",
}  # fmt: skip
PLACES = """SELECT n.id, n.name, p.name, n.rack, n.leaf
  FROM inventory_node n LEFT JOIN inventory_pool p ON p.id = n.pool_id WHERE n.gone_at IS NULL"""
CAPS = "SELECT kind, scope, absolute, percent FROM policy_cap WHERE kind IN ('hold', 'take_out', 'in_flight')"
CLAIMS = "SELECT kind, node_id, extract(epoch FROM claimed_at), extract(epoch FROM released_at) FROM policy_claim"
WISHES = """SELECT w.node_id, extract(epoch FROM GREATEST(s.started_at, i.detected_at + interval '8 seconds')),
    extract(epoch FROM c.claimed_at), extract(epoch FROM c.released_at)
  FROM lifecycle_step s JOIN lifecycle_workflow w ON w.id = s.workflow_id
  LEFT JOIN health_incident i ON i.id = w.incident_id
  LEFT JOIN LATERAL (SELECT claimed_at, released_at FROM policy_claim WHERE workflow_id = w.id AND kind = 'in_flight'
    AND claimed_at >= s.started_at ORDER BY claimed_at LIMIT 1) c ON true
  WHERE s.verb IN ('reset_gpu', 'reboot', 'power_cycle', 'reprovision')"""
"""Who wants a slot in flight, and since when: a fresh Xid waits eight seconds for the driver's own word before."""


def link_of(here: Site) -> tuple[http.client.HTTPConnection, dict[str, str]]:
    """A connection to the API server, and the headers of the credential that reads."""
    place = urlsplit(here.simulator)
    kubeconfig = yaml.safe_load((here.var / "simulator" / NAME / "kubeconfig").read_text())
    headers = {"Authorization": f"Bearer {kubeconfig['users'][0]['user']['token']}"}
    return http.client.HTTPConnection(place.hostname or "", place.port, timeout=30), headers


def capped(here: Site, chosen: list[str]) -> dict[str, Any]:
    """Burst, then watch from the first disruption on. Raises BenchFailure when a cap was passed by."""
    here.manage("inventory", "import", str(here.var / "simulator" / NAME / "inventory.csv"))
    _lines(here, chosen)
    wait(lambda: bool(here.ask("SELECT count(*) FROM policy_claim WHERE kind = 'in_flight'")), 240, "nothing is mended")
    before, end, held = acting.evictions(here).get("accepted", 0), time.monotonic() + WATCHED, [0]
    while time.monotonic() < end:
        held.append(_held(here))
        time.sleep(2.0)
    evicted, until = acting.evictions(here).get("accepted", 0) - before, time.time()
    with urllib.request.urlopen(f"{here.simulator}/_sim/stats", timeout=10) as answer:  # noqa: S310
        outside: dict[str, dict[str, int]] = json.load(answer)["out_max"]
    return _judged(here, until, max(held), outside) | {"caps_evictions_per_s": round(evicted / WATCHED, 1)}


def _held(here: Site) -> int:
    """Nodes that carry a hold of ours at this moment, by the API server."""
    link, headers = link_of(here)
    link.request("GET", "/api/v1/nodes", headers=headers)
    found = link.getresponse().read().count(b'"muster.dev/hold"')
    link.close()
    return found


def _judged(here: Site, until: float, held: int, outside: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    with psycopg.connect(here.database, autocommit=True) as link:
        places = link.execute(PLACES).fetchall()
        caps, claims, wishes = (link.execute(sql.encode()).fetchall() for sql in (CAPS, CLAIMS, WISHES))
    keys = {pk: _keys(pool, rack, leaf) for pk, _, pool, rack, leaf in places}
    sizes = Counter(key for found in keys.values() for key in found)
    limits = {kind: _limits(kind, caps, sizes) for kind in ("hold", "take_out", "in_flight")}
    taken: defaultdict[str, list[Asked]] = defaultdict(list)
    for kind, node, claimed, released in claims:
        taken[kind].append(Asked(keys[node], float(claimed), float(claimed), float(released or until)))
    marks = {kind: most_at_once(taken[kind]) for kind in limits}
    seen = {(scope, name): most for scope, found in outside.items() for name, most in found.items()}
    over = [text for kind, limit in limits.items() for text in _over(kind, marks[kind], limit)]
    over += _over("off", seen, limits["in_flight"])
    if held > limits["hold"].get(("fleet", "fleet"), held):
        over.append(f"held: {held}")
    if over:
        raise BenchFailure("over a cap: " + "; ".join(over[:5]))
    asked = [
        Asked(keys[node], float(ready), None if claimed is None else float(claimed), float(released or until))
        for node, ready, claimed, released in wishes
    ]
    told = use(asked, limits["in_flight"], "leaf", until)
    return {
        "caps_over": 0.0,
        "caps_held_most": f"{held} of {limits['hold'][('fleet', 'fleet')]}",
        **{f"caps_{kind}_most": _worst(marks[kind], limits[kind]) for kind in ("take_out", "in_flight")},
        "caps_off_most": _worst(seen, limits["in_flight"]),
        "caps_slots_used_pct": round(100 * told.share, 1),
        "caps_slot_empty_p50_s": round(acting.share(told.empty or [0.0], 0.5), 2),
        "caps_slot_empty_p99_s": round(acting.share(told.empty or [0.0], 0.99), 2),
        "caps_slots_freed": float(len(told.empty)),
        "caps_disruptions": float(sum(one.granted is not None for one in asked)),
        "caps_policy": "caps and API rate as installed; breaker off, soak 5 s",
    }


def _over(what: str, marks: Mapping[Key, int], limits: Mapping[Key, int]) -> list[str]:
    return [
        f"{what}: {key[0]} {key[1]} {marks[key]} of {limit}"
        for key, limit in limits.items()
        if marks.get(key, 0) > limit
    ]


def _keys(pool: str | None, rack: str, leaf: str) -> tuple[Key, ...]:
    return ("fleet", "fleet"), ("pool", pool or ""), ("rack", rack), ("leaf", leaf)


def _limits(kind: str, caps: list[Any], sizes: Mapping[Key, int]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for of, scope, absolute, percent in caps:
        for key, size in sizes.items():
            if of == kind and key[0] == scope:
                most = [absolute] if absolute is not None else [int(size * percent / 100)]
                found[key] = max(1, *most)
    return found


def _worst(marks: Mapping[Key, int], limits: Mapping[Key, int]) -> str:
    """The fullest key of each scope that has a limit, as people read it."""
    fullest: dict[str, tuple[int, int]] = {}
    for key, limit in limits.items():
        fullest[key[0]] = max(fullest.get(key[0], (0, limit)), (marks.get(key, 0), limit))
    return ", ".join(f"{scope} {most} of {limit}" for scope, (most, limit) in sorted(fullest.items()))
