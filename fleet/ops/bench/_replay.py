"""Injected faults, told in every way that can carry them, and what became of each.

Decides when a fault counts as found (its rule opened a finding), as named (that finding names the right part, and no
incident of the node has another cause), and how long it took from the first sample or line that shows it, in virtual
time. Refuses shared incidents, which would explain a wrong cause away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from fleet.health import correlation
from fleet.health.rules.types import Edge
from fleet.ops.bench._eventways import Conditions, Events, Kubernetes
from fleet.ops.bench._faulty import Injected, faults
from fleet.ops.bench._healthy import Healthy
from fleet.ops.bench._logways import Journal, LokiJson, LokiPacked, Shipped, Vector
from fleet.ops.bench._queries import Queried
from fleet.ops.bench._ways import Scraped, Way, Written, WrittenAnew

WAYS: tuple[type[Way], ...] = (
    Way, Scraped, Written, WrittenAnew, Queried, Shipped, Vector, Journal, LokiJson, LokiPacked, Events, Conditions,
    Kubernetes,
)  # fmt: skip
INTERVAL = 15.0
TICKS = 85
WARM = 3  # steps before anything may happen


@dataclass
class Told:
    """An incident as the correlation would make it."""

    device: str
    cause: str
    severity: str
    action_class: str
    first_bad_at: datetime
    detected_at: datetime


@dataclass
class Score:
    n: int = 0
    found: int = 0
    named: int = 0
    delays: list[float] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """As it is published; times in virtual seconds."""
        told: dict[str, Any] = {"n": self.n, "found": self.found, "named": self.named}
        if self.delays:
            p50, p95, p99 = np.percentile(self.delays, (50, 95, 99), method="higher").tolist()
            told |= {"p50_s": p50, "p95_s": p95, "p99_s": p99}
        return told


def incidents(edges: list[Edge]) -> list[Told]:
    """What one node's edges become."""
    found: list[Told] = []
    for edge in edges:
        if edge.kind == "cleared" or edge.shadow:
            continue
        belongs = correlation.belongs_to(edge, found)
        if belongs is None and correlation.asks_for_action(edge.action_class):
            at = (edge.first_bad_at, edge.detected_at)
            found.append(Told(edge.device, edge.cause, edge.severity, edge.action_class, *at))
    return found


def replay(kind: type[Way], each: int) -> dict[str, Score]:
    """Every fault that this way can carry, `each` times, each on a node of its own."""
    listed = [fault for fault in faults() if kind.carries(fault)]
    fleet = Healthy(len(listed) * each, INTERVAL, seed=11, calm=True)
    way = kind(fleet)
    placed = [
        Injected(fleet, number, fault, WARM + 2 + int(fleet.rng.integers(0, 8)))
        for number, fault in enumerate(fault for fault in listed for _ in range(each))
    ]
    told: dict[str, list[Edge]] = {one.node: [] for one in placed}
    for _ in range(TICKS):
        for edge in way.step(placed):
            told[edge.node].append(edge)
    way.close()
    scores: dict[str, Score] = {}
    for one in placed:
        _judge(scores.setdefault(one.fault.name, Score()), one, told[one.node])
    return scores


def _judge(score: Score, one: Injected, edges: list[Edge]) -> None:
    causes = one.fault.causes
    hits = [edge for edge in edges if edge.cause in causes and edge.kind == "opened"]
    made = incidents(edges)
    acting = [edge for edge in hits if correlation.asks_for_action(edge.action_class) and not edge.shadow]
    score.n += 1
    score.found += bool(hits)
    if not hits or one.onset is None:
        return
    score.named += (
        bool(made) == bool(acting)
        and all(incident.cause in causes for incident in made)
        and one.device in (None, hits[0].device)
    )
    score.delays.append((hits[0].detected_at - one.onset).total_seconds())


def total(scores: Iterable[Score]) -> Score:
    whole = Score()
    for score in scores:
        whole.n, whole.found, whole.named = whole.n + score.n, whole.found + score.found, whole.named + score.named
        whole.delays += score.delays
    return whole


def missed(scores: dict[str, Score]) -> dict[str, str]:
    """The faults that were not found each time, or not named right."""
    return {name: f"{s.found}/{s.n} found, {s.named} named" for name, s in scores.items() if s.named < s.n}
