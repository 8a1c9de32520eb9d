"""No rule clears on silence: what is open stays open while nobody says that it is over, however long that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.health.rules.catalogue import DEFAULTS, WATCHED
from fleet.telemetry.healthevents import HealthEvent
from tests.unit.health_rules import test_watched as watched
from tests.unit.health_rules.bench import Bench
from tests.unit.health_rules.test_clocks import BRAKE, ONE_SLOW, gpus
from tests.unit.health_rules.test_dcgmhealth import fails
from tests.unit.health_rules.world import World

LINES = {
    "xid-log": "NVRM: Xid (PCI:0000:1e:00): 79, GPU has fallen off the bus.",
    "sxid-log": "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 10003, Fatal, Link 12 x",
    "log-mlx5": "mlx5_core 0000:3b:00.0: health poll failed",
    "log-aer": "nvme 0000:5e:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
    "log-nvme": "nvme nvme3: Disabling device after reset failure: -19",
    "log-read-only": "EXT4-fs (md0): Remounting filesystem read-only",
    "log-nfs-lost": "NFS: nfs4_reclaim_open_state: Lock reclaim failed!",
    "log-mce": "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be0000",
}
PASSING = {
    "log-hung-task": "INFO: task python:1 blocked for more than 120 seconds.",
    "log-io-error": "Buffer I/O error on dev nvme1n1, logical block 7, async page read",
    "log-oom": "Out of memory: Killed process 4711 (python) total-vm:1kB",
}
"""Complaints that nothing ever takes back: they end by themselves, ask for nothing that disrupts and never latch."""


def _line(world: World, rule_id: str) -> None:
    world.say(LINES[rule_id])


def _repeat(world: World) -> None:
    for name in "ab":
        world.change(workload=name)
        world.xid(31)


def _metric(world: World) -> None:
    world.give(3, XID=119)
    world.scrape()


def _lost(world: World) -> None:
    world.gone.add(("n1", 5))
    for _ in range(3):
        world.scrape()


def _count(world: World) -> None:
    world.change(gpu_expected=9)
    for _ in range(3):
        world.scrape()


def _advertised(world: World, **facts: int) -> None:
    world.change(**facts)
    for _ in range(10):
        world.scrape()


def _hot(world: World) -> None:
    world.give(3, GPU_TEMP=95.0)
    for _ in range(3):
        world.scrape()


def _port(world: World) -> None:
    world.ports["n1", "mlx5_0"] = (1, 3, 1)
    for _ in range(8):
        world.scrape()


def _mount(world: World) -> None:
    world.mounts["n1", "/data"] = "mountpoint timeout"
    for _ in range(8):
        world.scrape()


def _not_ready(world: World) -> None:
    world.change(ready=False, ready_since=world.now)
    for _ in range(8):
        world.scrape()


def _event(world: World, origin: str) -> None:
    event = HealthEvent(origin, "1", ("n1",), "A check", False, world.now, "x", True, "inspect")  # type: ignore[arg-type]
    world.engine.on_event(event, world.facts["n1"], world.now)


SPECIAL: dict[str, Callable[[World], None]] = {
    **{rule_id: lambda world, rule_id=rule_id: _line(world, rule_id) for rule_id in LINES},  # type: ignore[misc]
    "xid-repeat": _repeat,
    "xid-dcgm": _metric,
    "gpu-lost": _lost,
    "gpu-count": _count,
    "gpu-capacity": lambda world: _advertised(world, gpu_capacity=7, gpu_allocatable=7),
    "gpu-allocatable": lambda world: _advertised(world, gpu_capacity=8, gpu_allocatable=7),
    "thermal": _hot,
    "ib-down": _port,
    "mount-hung": _mount,
    "node-not-ready": _not_ready,
    **{o: lambda world, o=o: _event(world, o) for o in ("health-event", "alert", "node-condition")},  # type: ignore[misc]
}
ELSEWHERE = {
    "grey-suspect": "ends when it was judged and like its peers (tests of grey)",
    "telemetry-stale": "is silence itself, and ends when the node is heard again (tests of absences)",
    "clock-skew": "tests/unit/health_rules/test_node.py",
}
ON_BENCH = {
    "dcgm-health-fail": fails("MEM", "DCGM_FR_FAULTY_MEMORY"),
    "dcgm-health-warn": fails("MEM", "DCGM_FR_FAULTY_MEMORY", 10),
    "clock-slowed": gpus(ONE_SLOW, {7: BRAKE}),
}
SILENCES = st.lists(
    st.tuples(st.sampled_from(["wait", "fail", "empty"]), st.sampled_from([1.0, 15.0, 700.0, 90_000.0]))
)
PATIENT = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_every_rule_is_asked_for_its_evidence() -> None:
    asked = {*SPECIAL, *PASSING, *ELSEWHERE, *ON_BENCH, *(one.rule.id for one in WATCHED)}
    assert set(DEFAULTS) == asked


@pytest.mark.parametrize("rule_id", SPECIAL)
@PATIENT
@given(silences=SILENCES)
def test_silence_ends_no_finding_of_a_special_rule(rule_id: str, silences: list[tuple[str, float]]) -> None:
    world = World()
    world.change(gpu_capacity=8, gpu_allocatable=8)
    world.scrape()
    world.pass_time(1)
    SPECIAL[rule_id](world)
    before = {key for key, finding in world.engine.open_findings().items() if finding.edge.rule_id == rule_id}
    assert before, "it opened"
    for what, seconds in silences:
        world.pass_time(seconds)
        if what == "fail":
            world.fail("dcgm-exporter")
            world.fail("node-exporter")
        world.cycle()
    assert before <= world.open()


@pytest.mark.parametrize("rule_id", ON_BENCH)
@PATIENT
@given(silences=SILENCES)
def test_silence_ends_no_finding_of_a_rule_over_several_series(rule_id: str, silences: list[tuple[str, float]]) -> None:
    bench = Bench()
    for _ in range(12):
        bench.scrape(ON_BENCH[rule_id])
    _still_open(bench, rule_id, silences)


@pytest.mark.parametrize(("rule_id", "number"), watched.LEVEL_CASES + watched.COUNTER_CASES)
@PATIENT
@given(silences=SILENCES)
def test_silence_ends_no_finding_of_a_rule_made_from_data(
    rule_id: str, number: int, silences: list[tuple[str, float]]
) -> None:
    bench = Bench()
    watch = watched.BY_ID[rule_id].watches[number]
    if (rule_id, number) in watched.LEVEL_CASES:
        series, good, bad, beside = watched.levels(rule_id, number)
        bench.scrape({series: good, **beside})
        for _ in range(watched.scrapes_to_open(rule_id)):
            bench.scrape({series: bad, **beside})
    else:
        series, much, _ = watched.rate_series(rule_id, number)
        beside = {watched.key(watch.over, watch): 1000.0} if watch.over else {}
        bench.scrape({series: 0.0, **beside})
        if watch.over:
            beside, much = {watched.key(watch.over, watch): 1100.0}, 100.0 * DEFAULTS[rule_id].threshold
        bench.scrape({series: much * 2 + 1, **beside})
    gone_is_good = watch.gone_is_good  # such an exporter says by leaving a series out that all is well
    _still_open(bench, rule_id, [one for one in silences if one[0] != "empty" or not gone_is_good])


def _still_open(bench: Bench, rule_id: str, silences: list[tuple[str, float]]) -> None:
    before = {key for key, finding in bench.engine.open_findings().items() if finding.edge.rule_id == rule_id}
    assert before, "it opened"
    for what, seconds in silences:
        bench.now += timedelta(seconds=seconds)
        bench.mono += seconds
        if what == "empty":
            bench.scrape({})
        elif what == "fail":
            bench.intake.failed(bench.frame.target("n1", "exporter", 15.0), "no answer")
        bench.cycle()
    assert before <= set(bench.engine.open_findings())


@pytest.mark.parametrize("state", [None, [], {}, 7, "x", [{"bits": 1}], {"level": 3}, {"GPU-1": "many"}, [[1]]])
def test_what_another_version_saved_stops_nobody(state: object) -> None:
    world = World()
    world.scrape()
    world.xid(79)
    saved = world.engine.export_state()
    parts = dict.fromkeys(world.engine._parts, state)
    world.start()
    world.engine.import_state({**saved, "nodes": {"n1": {**parts, "findings": saved["nodes"]["n1"]["findings"]}}})
    world.scrape()
    assert {key[2] for key in world.open()} == {"xid-79"}


@pytest.mark.parametrize("rule_id", PASSING)
def test_what_ends_by_itself_never_disrupts(rule_id: str) -> None:
    rule = DEFAULTS[rule_id]
    assert rule.severity == "degraded" and not rule.latched
    assert rule.action_class in ("monitor", "ticket")
    world = World()
    world.pass_time(1)
    world.say(PASSING[rule_id])
    assert {key[2] for key in world.open()} == {rule_id}


@pytest.mark.parametrize(
    "rule_id", [rule_id for rule_id, rule in DEFAULTS.items() if rule.latched and rule_id in SPECIAL]
)
def test_a_latch_ends_with_a_boot_after_it(rule_id: str) -> None:
    world = World()
    world.scrape()
    world.pass_time(1)
    SPECIAL[rule_id](world)
    world.pass_time(30)
    world.facts["n1"] = replace(world.facts["n1"], boot_id="boot-2", boot_at=world.now)
    world.cycle()
    assert not [f for f in world.engine.open_findings().values() if f.edge.rule_id == rule_id]
