"""From a frame to suspicions and advice."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from fleet.health.grey.advice import slower
from fleet.health.grey.measures import ACTIVITY
from fleet.health.grey.watch import Look, Watch
from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.series import HOST, Part
from tests.builders import T0

USUAL = {
    "DCGM_FI_DEV_SM_CLOCK": 1980.0, "DCGM_FI_DEV_POWER_USAGE": 615.0, "DCGM_FI_DEV_GPU_TEMP": 62.0,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.46, "DCGM_FI_PROF_DRAM_ACTIVE": 0.37, ACTIVITY: 0.94,
}  # fmt: skip


class Fleet:
    """Four nodes of eight GPUs in one gang."""

    def __init__(self) -> None:
        self.frame = Frame()
        self.watch = Watch(self.frame)
        self.gangs = {f"n{i}": "llm-7" for i in range(4)}
        self.mono, self.now = 1000.0, T0
        self.rows: dict[tuple[str, int, str], int] = {}
        self.blocked: list[int] = []
        for node in self.gangs:
            target = self.frame.target(node, "dcgm-exporter", 15.0)
            for gpu in range(8):
                device = self.frame.place(
                    target, Part(f"GPU-{node}-{gpu}", "gpu", "", {"index": str(gpu), "model": "H100"})
                )
                for metric in USUAL:
                    self.rows[node, gpu, metric] = self.frame.row(target, names.METRICS[metric], device)
            host = self.frame.place(self.frame.target(node, "node-exporter", 15.0), HOST)
            self.blocked.append(self.frame.row(target, names.METRICS["node_procs_blocked"], host))

    def minutes(self, count: int, blocked: float = 0, **ill: float) -> list[Look]:
        """`ill` are factors by short name on GPU 3 of n2, or on everybody with `all_` before it."""
        random, looks = np.random.default_rng(int(self.mono)), []
        for turn in range(2 * count):
            for (node, gpu, metric), row in self.rows.items():
                value = USUAL[metric] * (1 + 0.01 * random.standard_normal())
                for name, factor in ill.items():
                    everybody = name.startswith("all_")
                    if name.removeprefix("all_") in metric and (everybody or (node, gpu) == ("n2", 3)):
                        value *= factor
                self.frame.write(np.array([row]), np.array([value]), self.mono, self.now.timestamp())
            rows = np.array(self.blocked)
            self.frame.write(rows, np.full(len(rows), blocked), self.mono, self.now.timestamp())
            self.watch.sample(self.mono)
            if turn % 2:
                looks.append(self.watch.look(self.gangs, self.now, self.mono))
            self.mono, self.now = self.mono + 30, self.now + timedelta(seconds=30)
        return looks


def test_a_slow_gpu_becomes_suspect_within_ten_minutes_and_only_that() -> None:
    fleet = Fleet()
    assert not any(look.suspects for look in fleet.minutes(8))
    looks = fleet.minutes(10, SM_CLOCK=0.5, POWER=0.6)
    (edge,) = [edge for look in looks for edge in look.suspects]
    assert (edge.node, edge.device, edge.action_class) == ("n2", "GPU-n2-3", "confirm")
    assert "SM clock" in edge.text and "against 19" in edge.text and edge.evidence["peers"] == 31
    healed = fleet.minutes(12)
    assert [pair for look in healed for pair in look.cleared] == [("n2", "GPU-n2-3")]


def test_a_suspicion_from_before_a_start_is_adopted_and_ends_like_any() -> None:
    fleet = Fleet()
    fleet.minutes(5)
    fleet.watch.adopt([("n1", "GPU-n1-0"), ("gone", "GPU-x")])
    assert [pair for look in fleet.minutes(6) for pair in look.cleared] == [("n1", "GPU-n1-0")]


def test_a_node_that_is_left_out_is_not_judged() -> None:
    fleet = Fleet()
    del fleet.gangs["n2"]
    assert not any(look.suspects for look in fleet.minutes(14, SM_CLOCK=0.5, POWER=0.6))


def test_a_gang_that_waits_for_its_data_is_told_so_and_suspects_nobody() -> None:
    fleet = Fleet()
    fleet.minutes(5)
    looks = fleet.minutes(12, blocked=4, all_GR_ENGINE=0.35, all_TENSOR=0.35, all_DRAM=0.35)
    assert any(advice.starved for advice in looks[-1].advice)
    assert not any(look.suspects for look in looks)


def test_a_gang_that_slows_down_is_told_by_how_much() -> None:
    fleet = Fleet()
    fleet.minutes(16)
    looks = fleet.minutes(12, all_TENSOR=0.7)
    told = [advice.slower for look in looks for advice in look.advice]
    assert told and 0.25 < max(told) < 0.35


def test_a_pace_that_swings_a_little_is_no_slowdown() -> None:
    assert slower([0.46, 0.45] * 20)[0] == 0
    assert slower([0.46] * 20 + [0.40] * 4 + [0.46])[0] == 0
    assert slower([0.46] * 5 + [0.2] * 5)[0] == 0, "watched for too short a time"
