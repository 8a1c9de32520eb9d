"""Benchmark `rules`: one cycle of all rules, and one look for grey failures, over a whole cluster.

Decides the load: eight GPUs and eight ports a node with every series that is known, gangs of 50 nodes, five minutes of
samples, in one thread and one process. The first cycle after a start is told apart: it meets every series.
`baseline_grey_s` is the same comparison written as a loop over groups with numpy's own nanmedian. Refuses to open
findings: a healthy fleet is what every cycle looks at.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import numpy as np

from fleet.health.grey.measures import ACTIVITY, GPU_MEASURES
from fleet.health.grey.peers import LEAST
from fleet.health.grey.watch import Watch
from fleet.health.grey.window import SAMPLES
from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.types import ClusterView, Edge, NodeFacts
from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.series import HOST, Part

GPUS, GANG, CYCLES = 8, 50, 3
Result = TypeVar("Result")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_HEALTHY = {
    **{metric: 100.0 for measure in GPU_MEASURES for metric in measure.of}, ACTIVITY: 0.9, names.GPU_TEMP: 60.0,
    "DCGM_FI_DEV_MEMORY_TEMP": 70.0, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.5, "DCGM_FI_PROF_DRAM_ACTIVE": 0.4,
    names.FABRIC_MANAGER: 3.0, names.TEMP_MARGIN: 30.0, names.SLOWDOWN_TEMP: 95.0, names.PCIE_GEN: 5.0,
    names.PCIE_MAX_GEN: 5.0, names.PCIE_WIDTH: 16.0, names.PCIE_MAX_WIDTH: 16.0, names.IB_STATE: 4.0,
    names.IB_PHYSICAL: 5.0, names.IB_RATE: 5e10, names.NODE_TIME: NOW.timestamp(), names.FS_SIZE: 1e12,
    names.FS_AVAIL: 5e11, names.NIC_SPEED: 5e10, names.LUSTRE_HEALTH: 1.0, names.GPFS_STATE: 1.0, names.GPFS_MOUNT: 1.0,
}  # fmt: skip
_NOISY = {metric for measure in GPU_MEASURES for metric in measure.of} | {ACTIVITY}
_KINDS = ("gpu", "port", "host", "nic", "mount")
_BY_KIND = {kind: [m for m in names.METRICS.values() if m.kind == kind] for kind in _KINDS}


class Fleet:
    """A frame that looks scraped."""

    def __init__(self, nodes: int) -> None:
        shared = sum(len(_BY_KIND[kind]) for kind in ("host", "nic", "mount"))
        self.frame = Frame(nodes * (GPUS * (len(_BY_KIND["gpu"]) + len(_BY_KIND["port"])) + shared))
        self.names = [f"n{node:05d}" for node in range(nodes)]
        for node in self.names:
            self._node(node)
        self.random = np.random.default_rng(1)

    def _node(self, node: str) -> None:
        frame = self.frame
        dcgm, host = frame.target(node, "dcgm-exporter", 15.0), frame.target(node, "node-exporter", 15.0)
        parts = [(host, HOST), (host, Part("eth0", "nic")), (host, Part("mount:/data", "mount"))]
        for gpu in range(GPUS):
            told = {"index": str(gpu), "model": "H100", "pci": f"0000:{gpu + 27:02x}:00"}
            parts += [(dcgm, Part(f"GPU-{node}-{gpu}", "gpu", "", told)), (host, Part(f"mlx5_{gpu}/1", "port"))]
        for target, part in parts:
            device = frame.place(target, part)
            for metric in _BY_KIND[part.kind]:
                frame.row(target, metric, device)

    def scrape(self, mono: float) -> None:
        """New values everywhere."""
        frame = self.frame
        for metric in names.METRICS:
            rows = frame.rows(metric)
            noise = 1 + 0.02 * self.random.standard_normal(len(rows)) if metric in _NOISY else np.ones(len(rows))
            frame.write(rows, _HEALTHY.get(metric, 0.0) * noise, mono, NOW.timestamp())
        size = frame.t.size
        frame.d.seq[: frame.d.size] = frame.t.seq[frame.d.target[: frame.d.size]] + 1
        frame.t.mono[:size] = mono
        frame.t.seq[:size] += 1
        frame.t.epoch_seq[:size] += 1


class _Clock:
    """Wall and processor time of repeated work."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def time(self, work: Callable[[], Result]) -> Result:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        return result

    def of(self, times: list[float]) -> float:
        """The median of the warm ones: the first makes room."""
        return round(statistics.median(times[1:]), 4)


def run(nodes: int) -> dict[str, float]:
    """Medians of warm cycles and looks: wall, and processor time, which a busy machine stretches less."""
    fleet = Fleet(nodes)
    engine, watch = RuleEngine(fleet.frame), Watch(fleet.frame)
    facts = {n: NodeFacts(n, True, NOW, NOW, gpu_expected=GPUS) for n in fleet.names}
    gangs = {node: f"gang-{place // GANG}" for place, node in enumerate(fleet.names)}
    cycles, looks, samples = _Clock(), _Clock(), _Clock()
    edges, judged = 0, 0
    for turn in range(SAMPLES + CYCLES):
        mono = 1000.0 + 30 * turn
        fleet.scrape(mono)
        samples.time(partial(watch.sample, mono))
        if turn >= SAMPLES - 1:
            view = ClusterView(NOW, mono, fleet.frame, facts)
            edges += len(cycles.time(partial(_cycle, engine, view)))
            judged = looks.time(partial(watch.look, gangs, NOW, mono)).judged
    window = watch.gpus.window
    values, active, kept = window.values, window.active, watch.ports.window.values.nbytes
    return {
        "n": float(nodes * GPUS),
        "series": float(fleet.frame.r.size),
        "judged": float(judged),
        "edges": float(edges),
        "first_cycle_s": round(cycles.wall[0], 4),
        "cycle_s": cycles.of(cycles.wall),
        "cycle_cpu_s": cycles.of(cycles.cpu),
        "grey_s": looks.of(looks.wall),
        "grey_cpu_s": looks.of(looks.cpu),
        "grey_sample_s": samples.of(samples.wall),
        "baseline_grey_s": round(_plain(values, active), 4),
        "window_mib": round((values.nbytes + active.nbytes + kept) / 2**20, 1),
        "rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _cycle(engine: RuleEngine, view: ClusterView) -> list[Edge]:
    edges = engine.cycle(view)
    engine.verdicts(view)
    return edges


def _plain(values: np.ndarray, active: np.ndarray) -> float:
    """The same comparison, group by group, in numpy's own words."""
    began = time.perf_counter()
    for measure in values:
        mine = np.nanmedian(measure, axis=1)
        for start in range(0, len(mine), GANG * GPUS):
            group = mine[start : start + GANG * GPUS]
            if len(group) >= LEAST and active[start : start + GANG * GPUS].any():
                middle = np.nanmedian(group)
                (group - middle) / (1.4826 * np.nanmedian(np.abs(group - middle)) + 1e-9)
    return time.perf_counter() - began
