"""Benchmark `quality`: false incidents of a healthy fleet, and how many injected faults are found and named.

Decides both on arrays with a virtual clock, through the real rules and the real correlation of one node: days of a
healthy fleet with late and lost answers, counter resets and boots, then every fault of the catalogue on nodes of its
own. A node that does not answer Ready while it boots is not ready, and not counted as false. Refuses shared incidents:
they would only make false ones fewer.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.health import correlation
from fleet.health.rules.types import Edge
from fleet.ops.bench._faulty import Fault, Injected, faults
from fleet.ops.bench._healthy import Healthy
from fleet.ops.bench._ways import WAYS, Way

NODES = 200
DAYS = 1.0
INTERVAL = 60.0
LARGE, LARGE_DAYS, LARGE_INTERVAL = 1000, 7.0, 120.0  # from so many nodes on the long replay
FAULT_INTERVAL = 15.0
FAULT_TICKS = 85
EACH = 2
PER = 63
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


def healthy(nodes: int, days: float, interval: float = INTERVAL) -> dict[str, float]:
    fleet = Healthy(nodes, interval, seed=7)
    said: Counter[str] = Counter()
    began, true = time.perf_counter(), 0
    for _ in range(int(days * 86400 / interval)):
        for edge in fleet.step():
            if edge.kind != "opened" or edge.shadow or not correlation.asks_for_action(edge.action_class):
                continue
            booting = fleet.back_at[fleet.names.index(edge.node)] > 0
            if edge.cause == "node-not-ready" and booting:
                true += 1
            else:
                said[edge.cause] += 1
    false = sum(said.values())
    if said:
        sys.stderr.write(f"false incidents: {dict(said.most_common(12))}\n")
    return {
        "virtual_days": days,
        "false_incidents": float(false),
        "false_per_day_63_nodes": round(false / days / nodes * PER, 4),
        "boots": float(fleet.boots),
        "not_ready_while_booting": float(true),
        "exporter_restarts": float(fleet.restarts),
        "answers_lost": float(fleet.lost),
        "healthy_s": round(time.perf_counter() - began, 1),
    }


@dataclass
class Score:
    n: int = 0
    found: int = 0
    named: int = 0
    delay: float = 0.0


def replay(kind: type[Way], each: int = EACH) -> dict[str, Score]:
    """Every fault `each` times, each on a node of its own, told in this way."""
    listed = faults()
    fleet = Healthy(len(listed) * each, FAULT_INTERVAL, seed=11, calm=True)
    way = kind(fleet)
    placed = [
        Injected(fleet, number, fault, WARM + 2 + int(fleet.rng.integers(0, 8)))
        for number, fault in enumerate(fault for fault in listed for _ in range(each))
    ]
    told: dict[str, list[Edge]] = {one.node: [] for one in placed}
    for _ in range(FAULT_TICKS):
        for edge in way.step(placed):
            told[edge.node].append(edge)
    scores: dict[str, Score] = {}
    for one in placed:
        _judge(scores.setdefault(one.fault.name, Score()), one.fault, told[one.node])
    return scores


def _judge(score: Score, fault: Fault, edges: list[Edge]) -> None:
    hits = [edge for edge in edges if edge.cause in fault.causes and edge.kind == "opened"]
    made = incidents(edges)
    acting = [edge for edge in hits if correlation.asks_for_action(edge.action_class) and not edge.shadow]
    score.n += 1
    score.found += bool(hits)
    score.named += bool(hits) and (bool(made) == bool(acting)) and all(one.cause in fault.causes for one in made)
    if hits:
        score.delay += (hits[0].detected_at - hits[0].first_bad_at).total_seconds()


def run(nodes: int) -> dict[str, Any]:
    result: dict[str, Any] = healthy(nodes, LARGE_DAYS, LARGE_INTERVAL) if nodes >= LARGE else healthy(nodes, DAYS)
    began = time.perf_counter()
    for way in WAYS:
        scores = replay(way)
        n, found = sum(s.n for s in scores.values()), sum(s.found for s in scores.values())
        named = sum(s.named for s in scores.values())
        result |= {
            f"{way.name}_faults": float(n),
            f"{way.name}_found_ratio": round(found / n, 4),
            f"{way.name}_cause_named_ratio": round(named / max(1, found), 4),
        }
        missed = {name: f"{s.found}/{s.n} found, {s.named} named" for name, s in scores.items() if s.named < s.n}
        if missed:
            sys.stderr.write(f"{way.name}: {missed}\n")
    result["faults_s"] = round(time.perf_counter() - began, 1)
    return result
