"""The counts of GPUs that Kubernetes tells, against each other and against what is expected."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.health_rules.world import World, told


@pytest.mark.parametrize(
    ("facts", "cause", "text"),
    [
        ({"gpu_capacity": 7, "gpu_allocatable": 7}, "gpu-capacity", "Kubernetes counts 7 of 8 GPUs on the node"),
        (
            {"gpu_capacity": 8, "gpu_allocatable": 7},
            "gpu-allocatable",
            "Kubernetes gives out 7 of the 8 GPUs it counts on the node",
        ),
    ],
)
def test_a_short_count_is_told_after_its_window_and_cleared_when_whole(
    facts: dict[str, Any], cause: str, text: str
) -> None:
    world = World()
    world.change(gpu_capacity=8, gpu_allocatable=8)
    assert world.scrape() == []
    world.change(**facts)
    for _ in range(8):
        assert told(world.scrape()) == []
    (edge,) = world.scrape()
    assert (edge.cause, edge.text) == (cause, text)
    assert world.scrape() == []
    world.change(gpu_capacity=8, gpu_allocatable=8)
    assert told(world.scrape()) == [("cleared", cause, "")]


@pytest.mark.parametrize(
    "facts",
    [
        {"gpus_divided": True},
        {"gpus_advertised": False},
        {"ready": False},
        {"in_remediation": True},
        {"gpu_expected": None},
    ],
)
def test_what_cannot_be_known_is_not_judged(facts: dict[str, Any]) -> None:
    world = World()
    world.change(gpu_capacity=1, gpu_allocatable=1, **facts)
    edges = [edge for _ in range(12) for edge in world.scrape()]
    assert not {edge.cause for edge in edges} & {"gpu-capacity", "gpu-allocatable"}


def test_a_blink_of_the_device_plugin_opens_nothing() -> None:
    world = World()
    for capacity in (8, 0, 0, 8, 0, 0, 8, 0, 0, 8):
        world.change(gpu_capacity=capacity, gpu_allocatable=capacity)
        assert world.scrape() == []


def test_a_node_with_divided_gpus_misses_none_by_what_it_advertises() -> None:
    world = World()
    world.change(gpus_divided=True, gpu_expected=32, gpu_capacity=32, gpu_allocatable=32)
    assert [edge for _ in range(4) for edge in world.scrape()] == []


@pytest.mark.parametrize("gone", [1, 8])
def test_gpus_that_virtual_machines_have_are_not_missed(gone: int) -> None:
    world = World()
    for _ in range(3):
        world.scrape()
    world.change(gpus_divided=True, gpus_elsewhere=True)
    world.gone |= {("n1", gpu) for gpu in range(gone)}
    assert [edge for _ in range(8) for edge in world.scrape()] == []


def test_gpus_that_vanish_from_a_node_with_mig_are_missed_all_the_same() -> None:
    world = World()
    for _ in range(3):
        world.scrape()
    world.change(gpus_divided=True)
    world.gone.add(("n1", 5))
    assert {edge.cause for _ in range(4) for edge in world.scrape()} == {"gpu-lost"}


def test_a_bad_gpu_explains_a_short_count() -> None:
    world = World()
    world.xid(79, gpu=5)
    world.change(gpu_capacity=7, gpu_allocatable=7)
    edges = [edge for _ in range(12) for edge in world.scrape()]
    assert not {edge.cause for edge in edges} & {"gpu-capacity", "gpu-allocatable"}
