"""The quality replay in small: health opens nothing, and each rule's fault is found and called by its name."""

from __future__ import annotations

from fleet.health import correlation
from fleet.ops.bench import quality
from fleet.ops.bench._faulty import Fault, Injected, faults
from fleet.ops.bench._healthy import Healthy
from fleet.ops.bench._ways import Way


def test_a_healthy_fleet_with_boots_and_restarts_opens_nothing() -> None:
    fleet = Healthy(12, 60.0, seed=3)
    fleet.step()
    fleet.back_at[:4] = fleet.mono + 240.0  # a third of it boots
    acting = []
    for _ in range(40):
        acting += [e for e in fleet.step() if e.kind == "opened" and correlation.asks_for_action(e.action_class)]
    assert {edge.cause for edge in acting} <= {"node-not-ready"}
    assert not (fleet.back_at > 0).any()
    assert all(facts.ready and not facts.in_remediation for facts in fleet.facts.values())


def test_every_fault_is_found_and_named() -> None:
    scores = quality.replay(Way, each=1)
    assert len(scores) == len(faults()) > 90
    assert {name: score for name, score in scores.items() if not score.found} == {}
    assert sum(score.named for score in scores.values()) >= 0.97 * len(scores)


def test_a_fault_does_not_touch_its_neighbours() -> None:
    fleet = Healthy(3, 15.0, seed=5, calm=True)
    one = Injected(fleet, 1, Fault("xid-log 79", frozenset({"xid-79"}), line="NVRM: Xid (PCI:0000:1b:00): 79, x"), 2)
    edges = [edge for _ in range(6) for edge in Way(fleet).step([one])]
    acting = [edge for edge in edges if correlation.asks_for_action(edge.action_class)]
    assert {(edge.node, edge.cause) for edge in acting} == {("n00001", "xid-79")}
