"""Ports, roles, and what a series that calls itself a counter is: through the frame."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from fleet.health.grey.measures import ACTIVITY, GPU_MEASURES, NVLINK
from fleet.health.grey.readings import Readings
from fleet.health.grey.telling import TRACES
from fleet.health.grey.watch import Look, Watch
from fleet.health.rules.types import Edge
from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.series import Part
from tests.builders import T0

GPU = {"DCGM_FI_DEV_SM_CLOCK": 1980.0, "DCGM_FI_DEV_POWER_USAGE": 615.0, ACTIVITY: 0.94,
       "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.46}  # fmt: skip
SENT = "node_infiniband_port_data_transmitted_bytes_total"
PORT = {SENT: 2e10, "node_infiniband_port_data_received_bytes_total": 2e10, names.IB_WAIT: 40.0}  # by the second


class Fleet:
    """Nodes of eight GPUs and eight ports, all in one gang."""

    def __init__(self, nodes: int) -> None:
        self.frame = Frame()
        self.watch = Watch(self.frame)
        self.gangs = {f"n{i}": "train/llm" for i in range(nodes)}
        self.roles: dict[str, str] = {}
        self.mono, self.now = 1000.0, T0
        self.rows: dict[tuple[str, int, str], int] = {}
        self.moved: dict[int, float] = {}
        for node in self.gangs:
            target = self.frame.target(node, "all", 15.0)
            for index in range(8):
                told = {"index": str(index), "model": "H100"}
                gpu = self.frame.place(target, Part(f"GPU-{node}-{index}", "gpu", "", told))
                port = self.frame.place(target, Part(f"mlx5_{index}/1", "port"))
                for device, metrics in ((gpu, GPU), (port, PORT)):
                    for metric in metrics:
                        self.rows[node, index, metric] = self.frame.row(target, names.METRICS[metric], device)

    def minutes(self, count: int, ill: dict[tuple[str, int, str], float] | None = None) -> list[Look]:
        """`ill` are factors by (node, index, metric); a node of `*` is everybody."""
        random, looks, ill = np.random.default_rng(int(self.mono)), [], ill or {}
        for turn in range(2 * count):
            for (node, index, metric), row in self.rows.items():
                value = {**GPU, **PORT}[metric] * (1 + 0.01 * random.standard_normal())
                value *= ill.get((node, index, metric), 1.0) * ill.get(("*", index, metric), 1.0)
                if metric in PORT:
                    value = self.moved[row] = self.moved.get(row, 0.0) + 30 * value
                self.frame.write(np.array([row]), np.array([value]), self.mono, self.now.timestamp())
            self.watch.sample(self.mono)
            if turn % 2:
                looks.append(self.watch.look(self.gangs, self.now, self.mono, self.roles))
            self.mono, self.now = self.mono + 30, self.now + timedelta(seconds=30)
        return looks


def told(looks: list[Look]) -> list[Edge]:
    return [edge for look in looks for edge in look.suspects]


def test_a_port_that_waits_and_moves_less_is_suspect_under_its_own_name() -> None:
    fleet = Fleet(8)
    assert told(fleet.minutes(8)) == []
    edges = told(fleet.minutes(10, {("n3", 2, SENT): 0.4, ("n3", 2, names.IB_WAIT): 1e6}))
    assert [(edge.node, edge.device, edge.action_class) for edge in edges] == [("n3", "mlx5_2/1", "confirm")]
    assert "Port mlx5_2/1 does not work like its 7 peers" in edges[0].text and "GB/s against" in edges[0].text
    assert edges[0].source == "node_exporter"
    healed = fleet.minutes(12)
    assert [pair for look in healed for pair in look.cleared] == [("n3", "mlx5_2/1")]


def test_ports_of_one_rail_are_peers_and_another_rail_is_not() -> None:
    fleet = Fleet(8)
    storage = {("*", 7, SENT): 0.01, ("*", 7, names.IB_WAIT): 1e6}
    assert told(fleet.minutes(16, storage)) == []


def test_less_traffic_alone_is_how_the_work_is_laid_out() -> None:
    assert told(Fleet(8).minutes(16, {("n3", 2, SENT): 0.3})) == []


def test_roles_are_not_compared_with_each_other() -> None:
    other = (("DCGM_FI_DEV_SM_CLOCK", 0.6), ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.4))
    slow = {("n0", index, metric): factor for index in range(8) for metric, factor in other}
    assert len(told(Fleet(12).minutes(14, slow))) == 8
    fleet = Fleet(12)
    fleet.roles = {"n0": "launcher", **{f"n{i}": "worker" for i in range(1, 12)}}
    assert told(fleet.minutes(14, slow)) == []
    one = {("n5", 1, "DCGM_FI_DEV_SM_CLOCK"): 0.6, ("n5", 1, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"): 1.4}
    (edge,) = told(fleet.minutes(14, slow | one))
    assert (edge.device, edge.evidence["role"], edge.evidence["peers"]) == ("GPU-n5-1", "worker", 87)


def test_the_course_of_a_suspect_is_shown_from_before_it_began() -> None:
    fleet = Fleet(4)
    fleet.minutes(8)
    ill = {("n1", 3, "DCGM_FI_DEV_SM_CLOCK"): 0.5, ("n1", 3, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"): 1.5}
    looks = fleet.minutes(9, ill)
    (edge,) = told(looks)
    (trace, _) = edge.evidence[TRACES]
    assert (trace["name"], trace["unit"]) == ("SM clock", "MHz")
    first, last = trace["points"][0], trace["points"][-1]
    assert first[1] > 1900 and last[1] < 1100 and all(1900 < low <= high < 2060 for _, _, low, high in trace["points"])
    assert first[0] < edge.first_bad_at.isoformat(timespec="seconds") < last[0]
    newer = looks[-1].standing[0].evidence[TRACES][0]["points"]
    assert newer[-1][0] > last[0] and newer[0] == first


@pytest.mark.parametrize(("grows", "kind"), [(True, "counter"), (False, "gauge")])
def test_nvlink_bandwidth_is_read_as_what_its_course_shows_it_to_be(grows: bool, kind: str) -> None:
    frame, readings = Frame(), Readings()
    measure = next(measure for measure in GPU_MEASURES if measure.name == NVLINK)
    target = frame.target("n0", "dcgm-exporter", 15.0)
    parts = np.array([frame.place(target, Part(f"GPU-{i}", "gpu")) for i in range(20)], dtype=np.int64)
    rows = np.array([frame.row(target, names.METRICS[names.NVLINK_TOTAL], int(part)) for part in parts])
    random, total, read = np.random.default_rng(3), np.zeros(20), []
    for turn in range(12):
        speed = 1e6 * (1 + 0.05 * random.standard_normal(20))
        total += 30 * speed
        frame.write(rows, total if grows else speed, 1000.0 + 30 * turn, 0.0)
        read.append(readings.read(frame, measure, parts, 1000.0 + 30 * turn))
    assert np.isnan(read[0]).all(), "nobody knows yet"
    assert read[-1] == pytest.approx(np.full(20, 1e6), rel=0.3), kind


def test_a_counter_that_was_reset_is_a_gap_and_not_a_slow_part() -> None:
    fleet = Fleet(8)
    fleet.minutes(6)
    row = fleet.rows["n2", 1, SENT]
    fleet.moved[row] = 0.0
    fleet.minutes(1)
    window = fleet.watch.ports.window
    place = list(window.parts).index(int(fleet.frame.r.device[row]))
    sent = window.values[1, place]
    assert np.isnan(sent).sum() == 1 and np.nanmin(sent) > 1.8e10


def test_gangs_too_small_to_compare_are_counted() -> None:
    fleet = Fleet(1)
    for index in range(3, 8):
        fleet.rows = {key: row for key, row in fleet.rows.items() if key[1] != index}
    looks = fleet.minutes(6)
    assert looks[-1].few == 3 and looks[-1].judged == 0
