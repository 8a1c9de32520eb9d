"""Health events of other tools: each once, in order, none of them old, and a healthy word ends its own only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.types import Edge, NodeFacts
from fleet.telemetry.frame import Frame
from fleet.telemetry.healthevents import HealthEvent

NOW = datetime.fromisoformat("2026-05-01T12:00:00+00:00")
FACTS = NodeFacts("n1", True, NOW - timedelta(days=1), boot_id="b1", boot_at=NOW - timedelta(hours=5))
BAD = HealthEvent("health-event", "e1", ("n1",), "GpuMemWatch", False, NOW, "monitor-of-gpus", True, "reset_gpu")


class Hearing:
    def __init__(self) -> None:
        self.engine = RuleEngine(Frame())

    def hear(self, event: HealthEvent, after: float = 0.0, facts: NodeFacts = FACTS) -> list[tuple[str, str, str]]:
        edges: Sequence[Edge] = self.engine.on_event(event, facts, NOW + timedelta(seconds=after))
        return [(edge.kind, edge.device, edge.action_class) for edge in edges]


def event(id: str, at: float = 0.0, healthy: bool = False, *parts: tuple[str, str]) -> HealthEvent:
    return replace(BAD, id=id, at=NOW + timedelta(seconds=at), healthy=healthy, parts=parts)


def test_an_event_counts_once_and_a_healthy_one_ends_it() -> None:
    hearing, gpu = Hearing(), ("GPU", "3")
    assert hearing.hear(event("e1", 0, False, gpu)) == [("opened", "gpu:3", "reset_gpu")]
    assert hearing.hear(event("e1", 0, False, gpu)) == []
    assert hearing.hear(event("e2", 5, True, ("GPU", "4")), 5) == []
    assert hearing.hear(event("e3", 6, True, gpu), 6) == [("cleared", "gpu:3", "reset_gpu")]
    assert hearing.engine.counts["repeated_event"] == 1


def test_a_healthy_word_without_a_part_is_for_all_of_them() -> None:
    hearing = Hearing()
    hearing.hear(event("e1", 0, False, ("GPU", "3"), ("GPU", "4")))
    assert {kind for kind, _, _ in hearing.hear(event("e2", 5, True), 5)} == {"cleared"}
    assert not hearing.engine.open_findings()


def test_what_comes_late_does_nothing() -> None:
    hearing = Hearing()
    assert hearing.hear(event("e2", 10, True), 10) == []
    assert hearing.hear(event("e1", 0), 11) == []  # the fault that the healthy word had ended
    assert hearing.engine.counts["late_event"] == 1 and not hearing.engine.open_findings()


def test_old_events_are_history() -> None:
    hearing = Hearing()
    assert hearing.hear(event("e1", 0), 301) == []
    remediated = replace(FACTS, remediated_at=NOW + timedelta(seconds=10))
    assert hearing.hear(event("e2", 5), 20, remediated) == []
    assert hearing.engine.counts["history"] == 2
    assert hearing.hear(event("e3", 900), 20) == []
    assert hearing.engine.counts["future_event"] == 1


def test_one_gpu_named_three_ways_is_one_part() -> None:
    hearing = Hearing()
    parts = (("GPU", "3"), ("PCI", "0000:1b:00.0"), ("GPU_UUID", "GPU-3"))
    assert hearing.hear(event("e1", 0, False, *parts)) == [("opened", "GPU-3", "reset_gpu")]


def test_watched_events_make_no_node_unhealthy_and_a_reset_needs_a_part() -> None:
    hearing = Hearing()
    edges = hearing.engine.on_event(replace(BAD, action="monitor"), FACTS, NOW)
    assert [(edge.severity, edge.action_class) for edge in edges] == [("degraded", "monitor")]
    assert hearing.hear(replace(event("e2", 1), check="Other"), 1) == [("opened", "", "reboot_node")]


def test_a_healthy_word_ends_nothing_that_our_own_rules_found() -> None:
    hearing = Hearing()
    hearing.hear(event("e1", 0, False, ("GPU", "3")))
    theirs = replace(event("e2", 5, True, ("GPU", "3")), origin="node-condition")
    assert hearing.hear(theirs, 5) == []
    assert len(hearing.engine.open_findings()) == 1


def test_what_is_remembered_of_ids_is_bounded() -> None:
    hearing = Hearing()
    for number in range(52_000):
        hearing.engine._events._ids[("n1", str(number))] = None
        if number >= 50_000:
            break
    hearing.hear(event("e1"))
    assert len(hearing.engine._events._ids) <= 50_001
