"""The half of Muster that acts, for benchmarks: a worker and a beat beside what `_site` starts.

Decides how they are started (as `manage.py up` does) and what "caps open" means: no cap, no rate, no breaker, whatever
the API takes. Refuses nothing else that guards a node: fences, intents and looks before an act stay as they are.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from datetime import datetime

import psycopg

from fleet.ops.bench._site import NAME, BenchFailure, Site, wait

CELERY = [sys.executable, "-m", "celery", "--quiet", "-A", "tasks"]
NO_BREAKER = "UPDATE policy_breakerrule SET enabled = false"
OPEN = ("DELETE FROM policy_cap", NO_BREAKER)
HELD = "SELECT target, resolved_at FROM lifecycle_intent WHERE verb = 'hold' AND outcome = 'done'"


def start(here: Site, workers: int = 1, **settings: str) -> None:
    """Worker and beat. The first tick proves that messages come through."""
    env = {**here.env, "MUSTER_EVICTIONS_PER_SECOND": "0", **settings}
    worker = [*CELERY, "worker", "--pool", "threads", "--concurrency", "8", "--loglevel", "WARNING"]
    for number in range(workers):
        argv = [*worker, "--without-gossip", "--without-mingle", "--without-heartbeat", "-n", f"bench{number}"]
        here.start(argv, env)
    schedule = str(here.var / "run" / "beat-schedule")
    here.start([*CELERY, "beat", "--schedule", schedule, "--pidfile", "", "--loglevel", "WARNING"], env)


def automate(here: Site) -> None:
    """The cluster acts with a credential of its own."""
    folder = here.var / "simulator" / NAME
    here.manage(
        "cluster", "add", NAME, "--kubeconfig", str(folder / "kubeconfig"), "--act-kubeconfig",
        str(folder / "act.kubeconfig"), "--selector", "*", "--mode", "automate",
    )  # fmt: skip
    settle(here, "UPDATE inventory_cluster SET half_open = false")


def open_caps(here: Site) -> None:
    settle(here, *OPEN)


def settle(here: Site, *statements: str) -> None:
    with psycopg.connect(here.database, autocommit=True) as link:
        for statement in statements:
            link.execute(statement.encode())


def cordoned(here: Site) -> dict[str, float]:
    """Node -> when the API server had answered that it is held (seconds since the epoch)."""
    with psycopg.connect(here.database, autocommit=True) as link:
        rows: list[tuple[str, datetime]] = link.execute(HELD).fetchall()
    return {node: at.timestamp() for node, at in rows}


def all_cordoned(here: Site, names: list[str], seconds: float) -> dict[str, float]:
    wanted = set(names)
    found: dict[str, float] = {}

    def done() -> bool:
        found.update(cordoned(here))
        return wanted <= found.keys()

    try:
        wait(done, seconds, "")
    except BenchFailure:
        codes = "SELECT count(*) FROM lifecycle_workflow WHERE state = 'blocked'"
        raise BenchFailure(
            f"{len(wanted & found.keys())} of {len(wanted)} nodes are cordoned, {here.ask(codes)} workflows blocked"
        ) from None
    return found


def evictions(here: Site) -> dict[str, int]:
    """accepted, repeated and refused ones so far, by the API server's own count."""
    with urllib.request.urlopen(f"{here.simulator}/_sim/stats", timeout=10) as answer:  # noqa: S310
        found: dict[str, int] = json.load(answer)["evictions"]
        return found


def share(values: list[float], part: float) -> float:
    """The value at that part of the sorted ones."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
