"""The quality replay in small: health opens nothing, and each rule's fault is found and called by its name."""

from __future__ import annotations

import pytest

from fleet.health.rules.catalogue import DEFAULTS
from fleet.ops.bench import _replay as replay
from fleet.ops.bench._faulty import Fault, Injected, faults
from fleet.ops.bench._healthy import Healthy
from fleet.ops.bench._queries import Queried
from fleet.ops.bench._ways import Scraped, Way, Written, WrittenAnew
from fleet.ops.bench.quality import Calm

SERIES = [Scraped, Written, WrittenAnew, Queried]
OTHERS = [way for way in replay.WAYS if way.told != "series"]


def test_a_healthy_fleet_with_boots_and_restarts_opens_nothing() -> None:
    fleet, calm = Healthy(12, 60.0, seed=3), Calm()
    fleet.step()
    fleet.away_at[:4], fleet.back_at[:4] = fleet.mono, fleet.mono + 300.0  # a third of it boots
    for _ in range(40):
        calm.take(fleet, fleet.step())
    assert not calm.false and calm.not_ready == 4
    assert not (fleet.back_at > 0).any()
    assert all(facts.ready and not facts.in_remediation for facts in fleet.facts.values())


@pytest.mark.parametrize("way", [Way, *OTHERS])
def test_every_fault_is_found_and_named(way: type[Way]) -> None:
    scores = replay.replay(way, each=1)
    assert len(scores) == sum(fault.told == way.told for fault in faults()) > 0
    assert replay.missed(scores) == {}


@pytest.mark.parametrize("way", SERIES)
def test_the_ways_of_series_carry_what_the_arrays_do(way: type[Way], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"gpu-lost", "thermal", "ib-down", "mount-hung", "clock-skew", "ecc-dbe"}
    monkeypatch.setattr(replay, "faults", lambda: [fault for fault in faults() if fault.name in chosen])
    monkeypatch.setattr(replay, "TICKS", 30)
    scores = replay.replay(way, each=1)
    assert scores.keys() == chosen and replay.missed(scores) == {}


def test_every_rule_has_a_fault() -> None:
    """But the one that needs many nodes at once, those of several workloads or peers, and those switched off."""
    by_code = {"xid-log", "xid-dcgm", "sxid-log", "health-event", "alert", "node-condition"}  # causes of their own
    by_code |= {"dcgm-health-fail", "dcgm-health-warn"}
    elsewhere = {"telemetry-stale", "xid-repeat", "grey-suspect"}
    listed = by_code | {cause.partition(".")[0] for fault in faults() for cause in fault.causes}
    assert {name for name, rule in DEFAULTS.items() if rule.enabled} - listed == elsewhere


def test_a_fault_does_not_touch_its_neighbours() -> None:
    fleet = Healthy(3, 15.0, seed=5, calm=True)
    way = next(way for way in replay.WAYS if way.told == "line")(fleet)
    one = Injected(fleet, 1, Fault("xid-log 79", frozenset({"xid-79"}), line="NVRM: Xid (PCI:0000:1b:00): 79, x"), 2)
    edges = [edge for _ in range(6) for edge in way.step([one])]
    assert {(edge.node, edge.cause) for edge in edges if not edge.shadow} == {("n00001", "xid-79")}
