"""Benchmark `quality`: false incidents of a healthy fleet, and how many injected faults are found and named.

Decides all of it on arrays with a virtual clock, through the real rules and the real correlation: days of a healthy
fleet with late and lost answers, counter resets and boots; every fault of the catalogue in every way that can carry
it; faults that many nodes have in common. From 1,000 nodes on it is the long run. Refuses to count as false that a
node which boots for minutes is not ready: that is true. Grey failures have a benchmark of their own.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fleet.health import correlation
from fleet.health.absences import Absences
from fleet.health.correlation_shared import Limits
from fleet.health.rules.types import Edge
from fleet.ops.bench import _replay as replay
from fleet.ops.bench._healthy import DAY, Healthy
from fleet.ops.bench._replay import Score
from fleet.ops.bench._site import own_process, servers

NODES = 200
PATIENT = True
PER = 63


@dataclass(frozen=True, slots=True)
class Size:
    """How long and how often: virtual days, seconds between answers, random beginnings, faults of each kind."""

    days: float = 1.0
    interval: float = 60.0
    seeds: tuple[int, ...] = (7,)
    each: int = 1
    shared_nodes: int = 128
    shared_calm: float = 600.0


LARGE = 1000  # nodes
SHORT, LONG = Size(), Size(7.0, 120.0, (7, 8, 9), 3, 293, 3600.0)


@dataclass
class Calm:
    """What was said of a fleet that is well."""

    false: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)  # findings that ask for nothing and are shown all the same
    not_ready: int = 0

    def take(self, fleet: Healthy, edges: list[Edge]) -> None:
        for edge in edges:
            if edge.kind != "opened" or edge.shadow:
                continue
            if edge.cause == "node-not-ready" and fleet.back_at[int(edge.node[1:])] > 0:
                self.not_ready += 1
            elif edge.cause == "telemetry-stale" or correlation.asks_for_action(edge.action_class):
                self.false[edge.cause] += 1
            else:
                self.notes[edge.cause] += 1


def healthy(nodes: int, days: float, interval: float, seed: int) -> dict[str, float]:
    """A fleet that is well, for so many virtual days; silence of many at once would be a shared incident."""
    fleet, calm, began = Healthy(nodes, interval, seed), Calm(), time.perf_counter()
    absences = Absences(fleet.engine.findings, Limits())
    for step in range(int(days * DAY / interval)):
        if step and step * interval % DAY < interval:
            sys.stderr.write(f"day {step * interval / DAY:.0f} of {days:g} is over: {calm.false.total()} false\n")
            sys.stderr.flush()
        edges = fleet.step()
        edges += absences.look(fleet.engine.verdicts(fleet.view()), fleet.facts, fleet.now)
        calm.take(fleet, edges)
    if calm.false:
        sys.stderr.write(f"false incidents: {dict(calm.false.most_common(12))}\n")
    if calm.notes:
        sys.stderr.write(f"findings that ask for nothing: {dict(calm.notes.most_common(12))}\n")
    return {
        "virtual_days": days,
        "false_incidents": float(calm.false.total()),
        "findings_that_ask_for_nothing": float(calm.notes.total()),
        "boots": float(fleet.boots),
        "not_ready_while_booting": float(calm.not_ready),
        "exporter_restarts": float(fleet.restarts),
        "answers_lost": float(fleet.lost),
        "healthy_s": round(time.perf_counter() - began, 1),
    }


def _calm(nodes: int, size: Size) -> dict[str, float]:
    whole: Counter[str] = Counter()
    for seed in size.seeds:
        whole.update(healthy(nodes, size.days, size.interval, seed))
    false = whole["false_incidents"] / whole["virtual_days"] / nodes * PER
    return {"seeds": float(len(size.seeds)), **whole, "false_per_day_63_nodes": round(false, 4)}


def _faults(each: int) -> dict[str, Any]:
    began = time.perf_counter()
    result: dict[str, Any] = {}
    table: list[dict[str, Any]] = []
    everything: list[Score] = []
    for way in replay.WAYS:
        scores = replay.replay(way, each)
        result |= _ratios(f"{way.name}_", scores.values())
        everything += scores.values()
        table += [{"way": way.name, "fault": name, **score.row()} for name, score in scores.items()]
        if missed := replay.missed(scores):
            sys.stderr.write(f"{way.name}: {missed}\n")
    seconds = round(time.perf_counter() - began, 1)
    return {**result, **_ratios("", everything), "faults_s": seconds, "faults_table": table}


def _ratios(prefix: str, scores: Iterable[Score]) -> dict[str, float]:
    whole = replay.total(scores)
    return {
        f"{prefix}faults": float(whole.n),
        f"{prefix}found_ratio": round(whole.found / whole.n, 4),
        f"{prefix}cause_named_ratio": round(whole.named / max(1, whole.found), 4),
    }


def _shared(size: Size) -> dict[str, Any]:
    with servers(size.shared_nodes) as here:
        here.manage("prepare")
        listed = own_process("_togetherrun", here.env, str(size.shared_nodes), str(size.shared_calm))
    return {
        "shared_cases": float(len(listed)),
        "shared_right": float(sum(case["right"] for case in listed)),
        "shared_nodes": float(size.shared_nodes),
        "shared_table": listed,
    }


def run(nodes: int) -> dict[str, Any]:
    size = LONG if nodes >= LARGE else SHORT
    return {**_calm(nodes, size), **_faults(size.each), **_shared(size)}
