"""Application errors: one is a note, several under different workloads follow the GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.health.rules.siterules import parse
from tests.unit.health_rules.world import World, told, uuid

FAULT = "pid={pid}, name=python, Ch 00000012, intr 10000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted"
WARP = "pid={pid}, name=python, Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 0): Illegal Address"


@pytest.fixture
def world() -> World:
    made = World()
    made.scrape()
    return made


def causes(world: World) -> set[str]:
    return {cause for _, _, cause in world.open()}


def test_one_is_a_note_that_changes_no_verdict(world: World) -> None:
    (edge,) = world.xid(31, detail=FAULT.format(pid=1))
    assert (edge.cause, edge.action_class) == ("xid-31", "restart_app")
    assert world.verdict().verdict == "healthy"


def test_two_workloads_on_one_gpu_within_a_day_make_it_suspect(world: World) -> None:
    world.change(workload="train-a")
    world.xid(31, detail=FAULT.format(pid=1))
    world.pass_time(20 * 3600)
    world.change(workload="train-b")
    *_, edge = world.xid(31, detail=FAULT.format(pid=2))
    assert (edge.cause, edge.device, edge.severity, edge.action_class) == (
        "xid-31-repeat",
        uuid(3),
        "degraded",
        "confirm",
    )
    assert edge.text == "GPU 3 reported Xid 31 under 2 workloads within 24 h"
    assert [one["workload"] for one in edge.evidence["sightings"]] == ["train-a", "train-b"]
    world.scrape()
    assert (world.verdict().verdict, world.verdict().rule) == ("degraded", "xid-repeat")


@pytest.mark.parametrize("apart", [0.0, 60.0, 7200.0])
def test_one_workload_that_dies_again_and_again_is_the_program(world: World, apart: float) -> None:
    world.change(workload="train-a")
    for pid in range(8):
        world.xid(31, detail=FAULT.format(pid=pid))
        world.pass_time(apart)
    assert causes(world) <= {"xid-31"}


def test_where_no_workload_is_known_processes_of_one_burst_are_one(world: World) -> None:
    for pid in range(8):
        world.xid(31, detail=FAULT.format(pid=pid))
        world.pass_time(5)
    assert causes(world) == {"xid-31"}
    world.pass_time(200)
    world.xid(31, detail=FAULT.format(pid=99))
    assert causes(world) == {"xid-31", "xid-31-repeat"}


def test_what_cannot_be_told_apart_is_not(world: World) -> None:
    for _ in range(3):
        world.xid(31, detail="pid='<unknown>', name=<unknown>, MMU Fault")
        world.pass_time(3600)
    assert "xid-31-repeat" not in causes(world)


def test_two_days_apart_is_no_repeat(world: World) -> None:
    for name in ("a", "b"):
        world.change(workload=name)
        world.xid(31, detail=FAULT.format(pid=1))
        world.pass_time(25 * 3600)
    assert "xid-31-repeat" not in causes(world)


@pytest.mark.parametrize(("places", "repeats"), [(((1, 2), (1, 2)), True), (((1, 2), (1, 3)), False)])
def test_13_must_come_from_the_same_part_of_the_gpu(
    world: World, places: tuple[tuple[int, int], ...], repeats: bool
) -> None:
    for number, (gpc, tpc) in enumerate(places):
        world.change(workload=f"train-{number}")
        world.xid(13, detail=WARP.format(pid=number, gpc=gpc, tpc=tpc))
        world.pass_time(600)
    assert ("xid-13-repeat" in causes(world)) == repeats


def test_two_gpus_are_two_stories(world: World) -> None:
    for gpu, name in ((3, "a"), (4, "b")):
        world.change(workload=name)
        world.xid(31, gpu=gpu, detail=FAULT.format(pid=1))
    assert "xid-31-repeat" not in causes(world)


def test_a_restart_of_the_observer_forgets_none(world: World) -> None:
    world.change(workload="a")
    world.xid(31, detail=FAULT.format(pid=1))
    world.restart()
    world.scrape()
    world.pass_time(600)
    world.change(workload="b")
    world.xid(31, detail=FAULT.format(pid=2))
    assert "xid-31-repeat" in causes(world)


def test_silence_does_not_clear_it_and_a_boot_does(world: World) -> None:
    for name in ("a", "b"):
        world.change(workload=name)
        world.xid(31, detail=FAULT.format(pid=1))
    world.pass_time(72 * 3600)
    assert ("cleared", "xid-31-repeat", uuid(3)) not in told(world.cycle())
    world.reboot()
    assert ("cleared", "xid-31-repeat", uuid(3)) in told(world.cycle())


def test_a_pool_may_ask_for_more(world: World) -> None:
    world.engine.retune(parse("version: 1\npools:\n  p: {xid-repeat: {threshold: 3}}\n", "r"), world.now)
    for number, name in enumerate("abc"):
        world.change(workload=name, pool="p")
        world.xid(31, detail=FAULT.format(pid=1))
        assert ("xid-31-repeat" in causes(world)) == (number == 2)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from([13, 31, 43, 45, 94]), st.integers(0, 30)), max_size=60))
def test_a_storm_of_one_job_suspects_no_gpu(lines: list[tuple[int, int, int]]) -> None:
    world = World()
    world.facts["n1"] = replace(world.facts["n1"], workload="one-job")
    world.scrape()
    for gpu, code, pause in lines:
        world.xid(code, gpu=gpu, detail=FAULT.format(pid=pause))
        world.pass_time(pause / 10)
    assert not {cause for cause in causes(world) if cause.endswith("-repeat")}
