"""Gangs at work, on arrays: what the exporters of their nodes would say every half minute.

Decides how load, waiting, clocks, power and heat hang together. A gang works in step, so all of it is as slow as its
slowest part; who waits for others spins: its SMs are a little busy, its tensor pipes are not. Stages of a pipeline and
experts carry different loads. Refuses hardware's own surprises: what is found here is found on synthesised telemetry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.series import HOST, Part

GPUS = 8
EVERY = 30.0  # seconds between two samples
DAY = 86400.0
LOST = 0.01
CHECKPOINT_EVERY, CHECKPOINT = 1800.0, 90.0
LIFE = 6 * 3600.0  # of a job; then its nodes get another one
GPU_METRICS = (
    "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_POWER_USAGE", names.GPU_TEMP, "DCGM_FI_DEV_MEMORY_TEMP",
    "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_DEV_MEM_COPY_UTIL", *names.NVLINK_BYTES, *names.PCIE_BYTES, "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
)  # fmt: skip
PORT_METRICS = (
    "node_infiniband_port_data_received_bytes_total", "node_infiniband_port_data_transmitted_bytes_total",
    names.IB_WAIT, names.IB_OUT_OF_ORDER, names.IB_ACK_TIMEOUT, names.IB_RATE,
)  # fmt: skip
Floats = NDArray[np.float64]
# name, nodes, how its work is spread
KINDS = (
    ("dp", 4), ("dp", 8), ("dp", 16), ("dp", 32), ("stages", 16), ("stages", 8), ("experts", 16), ("experts", 8),
    ("dp", 1), ("half", 1),
)  # fmt: skip


@dataclass(slots=True)
class Gang:
    name: str
    kind: str
    gpus: NDArray[np.int64]  # indices
    born: float
    phase: float


@dataclass(slots=True)
class Broken:
    """What is wrong with the parts, as factors and additions by GPU or port."""

    clock: Floats
    speed: Floats  # of the work, at the same clock: memory, say
    heat: Floats
    copies: Floats  # time spent waiting for PCIe, as a share of the step
    port: Floats  # share of its bandwidth that a port still has
    extra: dict[str, float] = field(default_factory=dict)


class Gangs:
    """Nodes by 8 GPUs and ports, each in a gang for some hours. `step` writes one sample into the frame."""

    def __init__(self, kinds: tuple[tuple[str, int], ...], seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.kinds = kinds
        self.nodes = sum(size for _, size in kinds)
        self.n = self.nodes * GPUS
        self.frame = Frame(self.n * 32)
        self.names = [f"n{node:04d}" for node in range(self.nodes)]
        self.rows: dict[str, NDArray[np.int64]] = {}
        self.parts: list[tuple[str, str]] = []  # of GPUs
        self.ports: list[tuple[str, str]] = []
        self._lay()
        self.now, self.mono = 0.0, 1000.0
        ones, nothing = np.ones(self.n), np.zeros(self.n)
        self.broken = Broken(ones.copy(), ones.copy(), nothing.copy(), nothing.copy(), ones.copy())
        self._own = 1 + 0.01 * self.random.standard_normal(self.n)  # no two are quite alike
        self._aisle = np.repeat(2.0 * self.random.standard_normal(-(-self.nodes // 4)), 4 * GPUS)[: self.n]
        self._warm = np.full(self.n, 60.0)
        self._swing = np.zeros(self.n)
        self._moved = {metric: np.zeros(self.n) for metric in PORT_METRICS}
        self.serial = 0
        self.gangs = [self._gang(place, -self.random.uniform(0, LIFE)) for place in range(len(kinds))]

    def _lay(self) -> None:
        found: dict[str, list[int]] = {metric: [] for metric in (*GPU_METRICS, *PORT_METRICS)}
        for node in self.names:
            dcgm, host = (self.frame.target(node, job, EVERY) for job in ("dcgm-exporter", "node-exporter"))
            self.frame.place(host, HOST)
            for index in range(GPUS):
                told = {"index": str(index), "model": "H100"}
                gpu = self.frame.place(dcgm, Part(f"GPU-{node}-{index}", "gpu", "", told))
                port = self.frame.place(host, Part(f"mlx5_{index}/1", "port"))
                self.parts.append((node, f"GPU-{node}-{index}"))
                self.ports.append((node, f"mlx5_{index}/1"))
                for target, device, metrics in ((dcgm, gpu, GPU_METRICS), (host, port, PORT_METRICS)):
                    for metric in metrics:
                        found[metric].append(self.frame.row(target, names.METRICS[metric], device))
        self.rows = {metric: np.array(rows, dtype=np.int64) for metric, rows in found.items()}

    def _gang(self, place: int, born: float) -> Gang:
        kind, size = self.kinds[place]
        first = sum(nodes for _, nodes in self.kinds[:place]) * GPUS
        count = size * GPUS if kind != "half" else GPUS // 2
        self.serial += 1
        return Gang(
            f"train/job-{self.serial}", kind, np.arange(first, first + count), born, self.random.uniform(0, 1e3)
        )

    def gangs_by_node(self) -> dict[str, str]:
        found = {}
        for gang in self.gangs:
            for index in np.unique(gang.gpus // GPUS).tolist():
                found[self.names[index]] = gang.name
        return found

    def step(self, change: Callable[[Gangs], None] | None = None) -> None:
        """Half a minute of work, then one scrape of everything."""
        self.now, self.mono = self.now + EVERY, self.mono + EVERY
        if change is not None:
            change(self)
        for place, gang in enumerate(self.gangs):
            if self.now - gang.born > LIFE:
                self.gangs[place] = self._gang(place, self.now)
        self._swing = 0.97 * self._swing + 0.03 * self.random.standard_normal(self.n)
        shown = {metric: np.zeros(self.n) for metric in GPU_METRICS}
        traffic, waiting = np.full(self.n, 2e4), np.full(self.n, 40.0)
        for gang in self.gangs:
            self._work(gang, shown, traffic, waiting)
        self._heat(shown)
        self._write(shown, traffic, waiting)

    def _load(self, gang: Gang) -> Floats:
        """Work of each GPU in a step, 1 for an even share."""
        count = len(gang.gpus)
        load = 1 + 0.01 * self.random.standard_normal(count)
        if (
            gang.kind == "stages"
        ):  # a node per stage: the first embeds, the last has the head; the scheduler knows nothing
            stage = np.arange(count) // GPUS
            load *= np.where(stage == 0, 0.86, np.where(stage == stage.max(), 1.2, 1.0))
        if gang.kind == "experts":
            load *= 1 + np.clip(2.0 * self._swing[gang.gpus], -0.25, 0.25)
        return load

    def _work(self, gang: Gang, shown: dict[str, Floats], traffic: Floats, waiting: Floats) -> None:
        mine, broken = gang.gpus, self.broken
        if self.now - gang.born < 120 or (self.now + gang.phase) % CHECKPOINT_EVERY < CHECKPOINT:
            load = np.full(len(mine), 0.04)  # starting, or writing a checkpoint
        else:
            load = self._load(gang)
        capped = np.clip(1 - 0.35 * (load - 1.05), 0.9, 1.0)  # the power cap holds the clock of heavy work down
        clock = broken.clock[mine] * capped
        time = load / (clock * broken.speed[mine]) + broken.copies[mine]
        if len(mine) > GPUS:
            time = np.maximum(time, 0.55 / broken.port[mine])  # what the network needs of a step, all the while
        longest = max(float(time.max()), 1.0)
        computing = load / (clock * broken.speed[mine]) / longest
        spinning = np.clip(1 - computing - broken.copies[mine] / longest, 0, 1)
        noise = self.random.standard_normal
        shown["DCGM_FI_DEV_SM_CLOCK"][mine] = 1980 * clock * (1 + 0.003 * noise(len(mine)))
        shown["DCGM_FI_PROF_GR_ENGINE_ACTIVE"][mine] = np.clip(computing + spinning, 0.02, 0.99)
        shown["DCGM_FI_PROF_SM_ACTIVE"][mine] = 0.85 * computing + 0.12 * spinning
        shown["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"][mine] = 0.5 * load / longest / clock
        shown["DCGM_FI_PROF_DRAM_ACTIVE"][mine] = 0.4 * load / longest
        shown["DCGM_FI_DEV_MEM_COPY_UTIL"][mine] = 50 * load / longest
        drawn = clock**2.2 * (0.55 * computing + 0.22 * spinning) * np.sqrt(np.maximum(load, 0.1))
        shown["DCGM_FI_DEV_POWER_USAGE"][mine] = 110 + 1000 * drawn
        for metric in names.NVLINK_BYTES:
            shown[metric][mine] = 1.7e11 * load.mean() / longest
        for metric in names.PCIE_BYTES:
            shown[metric][mine] = 2.7e9 * load.mean() / longest
        traffic[mine] = 2.2e10 * load.mean() / longest if len(mine) > GPUS else 2e4
        waiting[mine] = 2e4 + np.where(broken.port[mine] < 1, 2.5e8 * (1 - broken.port[mine]), 0)

    def _heat(self, shown: dict[str, Floats]) -> None:
        day = 1.5 * np.sin(2 * np.pi * self.now / DAY)
        power = np.maximum(shown["DCGM_FI_DEV_POWER_USAGE"], 75.0)
        shown["DCGM_FI_DEV_POWER_USAGE"] = power
        self._warm += 0.25 * (30 + self._aisle + day + 0.055 * power + self.broken.heat - self._warm)
        shown[names.GPU_TEMP], shown["DCGM_FI_DEV_MEMORY_TEMP"] = np.round(self._warm), np.round(self._warm + 9)
        clock = shown["DCGM_FI_DEV_SM_CLOCK"]
        clock[clock == 0] = 345

    def _write(self, shown: dict[str, Floats], traffic: Floats, waiting: Floats) -> None:
        answered = np.repeat(self.random.random(self.nodes) >= LOST, GPUS)
        for metric, values in shown.items():
            exact = metric in ("DCGM_FI_DEV_SM_CLOCK", names.GPU_TEMP, "DCGM_FI_DEV_MEMORY_TEMP")
            noisy = values if exact else values * self._own * (1 + 0.015 * self.random.standard_normal(self.n))
            if metric.startswith("DCGM_FI_PROF") and metric.endswith("ACTIVE"):
                noisy = np.minimum(noisy, 1.0)
            self.frame.write(self.rows[metric][answered], noisy[answered], self.mono, self.now)
        grows = dict(
            zip(PORT_METRICS, (traffic, traffic, waiting, np.full(self.n, 0.1), np.zeros(self.n)), strict=False)
        )
        for metric, speed in grows.items():
            self._moved[metric] += speed * EVERY * (1 + 0.02 * self.random.standard_normal(self.n))
            self.frame.write(self.rows[metric][answered], self._moved[metric][answered], self.mono, self.now)
        self.frame.write(self.rows[names.IB_RATE], np.full(self.n, 5e10), self.mono, self.now)
