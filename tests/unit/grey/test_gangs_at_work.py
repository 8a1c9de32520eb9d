"""Whole gangs at work, through the frame: who is healthy is left alone, who is slow is found under its own name."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.health.grey.watch import Watch
from fleet.ops.bench._gangwork import EVERY, Gangs
from fleet.ops.bench.grey import FAULTS
from tests.builders import T0

HEALTHY = (("stages", 8), ("experts", 8), ("dp", 4), ("half", 1))
BY_NAME = {fault.name: fault for fault in FAULTS}


def suspects(gangs: Gangs, watch: Watch, minutes: float) -> list[tuple[str, str, float]]:
    """(node, device, minutes from now)."""
    found, began = [], gangs.now
    for step in range(round(minutes * 60 / EVERY)):
        gangs.step()
        watch.sample(gangs.mono)
        if step % 2:
            look = watch.look(gangs.gangs_by_node(), T0 + timedelta(seconds=gangs.now), gangs.mono)
            found += [(edge.node, edge.device, (gangs.now - began) / 60) for edge in look.suspects]
    return found


def test_uneven_work_checkpoints_and_new_jobs_make_nobody_suspect() -> None:
    gangs = Gangs(HEALTHY, seed=11)
    assert suspects(gangs, Watch(gangs.frame), 4.5 * 60) == []
    assert gangs.serial > len(HEALTHY), "a job ended and another began"


@pytest.mark.parametrize(
    ("fault", "kind", "within"),
    [
        ("clock_15", ("dp", 4), 8), ("clock_30", ("stages", 16), 8), ("clock_50", ("experts", 8), 10),
        ("thermal", ("dp", 8), 8), ("slow_memory", ("dp", 4), 13), ("slow_pcie", ("dp", 4), 13),
        ("slow_port", ("dp", 4), 10), ("clock_30_of_4", ("half", 1), 10),
    ],
)  # fmt: skip
def test_a_slow_part_is_found_in_minutes_and_nobody_else_is(fault: str, kind: tuple[str, int], within: float) -> None:
    gangs = Gangs((kind, ("dp", 2)), seed=5)
    gangs.gangs[0].born = 0.0
    watch = Watch(gangs.frame)
    assert suspects(gangs, watch, 40) == []
    part = int(gangs.gangs[0].gpus[-3])
    BY_NAME[fault].begin(gangs, part)
    node, device = (gangs.ports if BY_NAME[fault].of_port else gangs.parts)[part]
    ((where, what, took),) = suspects(gangs, watch, 25)
    assert (where, what) == (node, device) and took <= within
