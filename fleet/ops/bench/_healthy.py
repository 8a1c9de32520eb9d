"""A healthy fleet on arrays: every metric we keep, moving as it moves where nothing is broken.

Decides what health looks like: loads that come and go, corrected errors now and then, answers that come late or not at
all, exporters that restart and nodes that boot. Refuses HTTP and text: values are written where a scrape would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.types import ClusterView, Edge, NodeFacts
from fleet.telemetry import names, series
from fleet.telemetry.frame import Frame

START = datetime(2026, 3, 2, tzinfo=UTC)
DCGM, NODE = 0, 1
JOBS = ("dcgm", "node")
COUNT = {"gpu": 8, "port": 8, "nic": 2, "disk": 2, "psu": 4, "fan": 4, "dimm": 2, "switch": 4, "host": 1, "mount": 2}
LOSS, REBOOT_DAYS, RESTART_DAYS, GRACE = 0.01, 14.0, 7.0, 40.0
BOOT_SECONDS = (180.0, 600.0)  # at least and at most
DAY = 86400.0
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# What a metric says where all is well; 0 if it is not here.
WELL: dict[str, float] = {
    names.GPU_TEMP: 60, "DCGM_FI_DEV_MEMORY_TEMP": 70, names.SLOWDOWN_TEMP: 87, names.TEMP_MARGIN: 27,
    names.PCIE_GEN: 5, names.PCIE_MAX_GEN: 5, names.PCIE_WIDTH: 16, names.PCIE_MAX_WIDTH: 16, names.GPU_UTIL: 97,
    names.FABRIC_MANAGER: 3, names.FABRIC_HEALTH: 1, names.NVLINK_BER: 1e-16, names.IB_STATE: 4, names.IB_PHYSICAL: 5,
    names.IB_RATE: 5e10, names.NIC_SPEED: 1.25e9, names.FS_SIZE: 1e13, names.FS_AVAIL: 4e12, names.SMART_USED: 7,
    names.SMART_SPARE: 100, names.SMART_SPARE_MIN: 10, names.NVME_USED: 0.07, names.NVME_SPARE: 1,
    names.NVME_SPARE_MIN: 0.1, names.LUSTRE_HEALTH: 1, names.GPFS_STATE: 1, names.GPFS_MOUNT: 1, names.SHARP_JOBS: 12,
    names.SMART_STATUS: 1, names.WEKA_DRIVES: 12, names.WEKA_ALL_DRIVES: 12,
    "node_load1": 40, names.WEKA_ALERTS: float("nan"),  # no series where all is well
}  # fmt: skip
# What peers are compared by, while they work: the mean, and how much of it one reading differs.
WORK: dict[str, tuple[float, float]] = {
    "DCGM_FI_DEV_SM_CLOCK": (1965, 0.005), "DCGM_FI_DEV_POWER_USAGE": (615, 0.03),
    "DCGM_FI_DEV_MEM_COPY_UTIL": (38, 0.06), "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (0.94, 0.01),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (0.46, 0.05), "DCGM_FI_PROF_DRAM_ACTIVE": (0.37, 0.05),
}  # fmt: skip
IDLE: dict[str, float] = {"DCGM_FI_DEV_SM_CLOCK": 345, "DCGM_FI_DEV_POWER_USAGE": 75}
# Events a second that mean nothing: what links, memories and programs do in good health.
RATE: dict[str, float] = {
    names.PCIE_REPLAY: 1 / 900, names.DRAM_CE: 1 / 600, names.SRAM_CE: 1 / 3600, names.NVLINK_CRC: 1 / 7200,
    names.IB_SYMBOL: 1 / 1800, names.IB_RECOVERY: 1 / 86400, names.IB_RCV_ERRORS: 1 / 600, names.IB_DISCARDS: 0.5,
    names.IB_ACK_TIMEOUT: 1 / 600, names.ROCE_SLOW_RESTART: 0.1, names.IB_RNR: 1 / 3600, names.NIC_CARRIER: 1 / 2e6,
    names.NIC_RCV_ERRORS: 1 / 600, names.NFS_REQUESTS: 80, names.EDAC_CE: 1 / 7200,
    names.IB_DOWNED: 1 / 1e6, names.NIC_SYMBOL: 1 / 1800, names.NIC_DISCARDS: 1 / 60,
    names.NIC_PAUSED[3]: 20, names.NIC_PAUSES[3]: 5, names.IB_OUT_OF_ORDER: 1,
}  # fmt: skip
SUBS: dict[str, tuple[str, str]] = {
    names.CLOCK_EVENTS: ("clock_event", "hw_slowdown hw_thermal hw_power_brake"),
    names.HEALTH_STATUS: ("health_watch", "NVLINK MEM THERMAL"),
    names.P2P_STATUS: ("peer_gpu", "6 7"),
    names.GPFS_STATE: ("state", "active"),
    names.WEKA_ALERTS: ("title", "NodeBlacklisted"),
}
NFS = (names.NFS_MAJOR, names.NFS_REQUESTS, names.NFS_RESPONSE)
ABSENT = names.NODE_TIME  # told by `skew`


@dataclass(frozen=True, slots=True)
class Column:
    """One series that every node has. `part` counts the devices of its kind."""

    job: int
    metric: str
    part: int
    labels: dict[str, str]


def _labels(metric: names.Metric, part: int) -> dict[str, str]:
    kind = metric.kind
    if kind == "gpu":
        return {"gpu": str(part), "UUID": f"GPU-{part}", "pci_bus_id": f"00000000:{27 + part:02X}:00.0"}
    if metric.name in NFS:
        return {"export": f"nfs-{part}:/data", "operation": "READ"}
    if kind == "mount":
        point, fs, device = ("/data", "nfs4", "nfs-1:/data") if part else ("/raid", "ext4", "/dev/md0")
        return {"device": device, "device_error": "", "fstype": fs, "mountpoint": point}
    if kind == "host":
        return {}
    key = {"port": "device", "nic": "device", "disk": "device", "dimm": "controller", "switch": "nvswitch"}
    stem = {"port": "mlx5_", "nic": "eth", "disk": "nvme", "dimm": "mc", "switch": "nvswitch", "psu": "PSU", "fan": "F"}
    return {key.get(kind, "name"): f"{stem[kind]}{part}"} | ({"port": "1"} if kind == "port" else {})


def columns() -> list[Column]:
    found: list[Column] = []
    for metric in names.METRICS.values():
        if metric.name == ABSENT:
            continue
        label, subs = SUBS.get(metric.name, ("", ""))
        for part in range(COUNT[metric.kind]):
            for sub in subs.split() or [""]:
                labels = _labels(metric, part) | ({label: sub} if sub else {})
                found.append(Column(DCGM if metric.kind in ("gpu", "switch") else NODE, metric.name, part, labels))
    return sorted(found, key=lambda column: column.job)


class Clock:
    """The fleet's own time, for whoever asks a clock."""

    def __init__(self) -> None:
        self.wall, self.mono = START, 1e6

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.mono

    def tick(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.mono += seconds


class Healthy:
    """The fleet, its frame and its rules; `step` lets time pass and returns what the rules say."""

    def __init__(self, nodes: int, interval: float, seed: int, calm: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.interval, self.calm = interval, calm  # calm: no boots, no restarts
        self.clock, self.ticks = Clock(), 0
        self.frame = Frame(nodes * 600)
        self.engine = RuleEngine(self.frame)
        self.columns = columns()
        self.dcgm = sum(column.job == DCGM for column in self.columns)
        self.names = [f"n{number:05d}" for number in range(nodes)]
        boot = START - timedelta(days=9)
        self.facts = {n: NodeFacts(n, True, START - timedelta(days=8), boot_id="b", boot_at=boot) for n in self.names}
        self.values = np.zeros((nodes, len(self.columns)))
        self.at: dict[str, list[int]] = {}
        for place, column in enumerate(self.columns):
            self.at.setdefault(column.metric, []).append(place)
            self.values[:, place] = WELL.get(column.metric, 0.0)
        self.values[:, self.at[names.BOOT_TIME]] = boot.timestamp()
        self.values[:, self.at[names.PROCESS_START]] = boot.timestamp()
        self.counters = [p for p, c in enumerate(self.columns) if names.METRICS[c.metric].counter]
        self.noisy = [p for p in self.counters if self.columns[p].metric in RATE]
        self.rates = np.array([RATE[self.columns[p].metric] for p in self.noisy])
        self.busy = self.rng.random(nodes) < 0.9
        self.phase = self.rng.uniform(0, 6, (nodes, 1))
        self.back_at = np.zeros(nodes)  # monotonic time at which a booting node is back; 0: it is up
        self.away_at = np.zeros(nodes)
        self.failed = np.zeros((nodes, 2), dtype=bool)
        self.silent = np.zeros((nodes, 2), dtype=bool)  # exporters that do not answer at all
        self.skew = np.zeros(nodes)  # seconds by which a node's clock is ahead
        self.boots = self.restarts = self.lost = 0
        self._place()

    @property
    def now(self) -> datetime:
        return self.clock.wall

    @property
    def mono(self) -> float:
        return self.clock.mono

    def key(self, place: int) -> str:
        """What the frame calls the part behind a column, the same on every node."""
        column = self.columns[place]
        part = series.part_of(names.METRICS[column.metric].kind, column.labels)
        assert not isinstance(part, int), column  # noqa: S101  every label set above names a device
        return part.key

    def _place(self) -> None:
        """A row for each value, node by node, so that the values of the fleet are a block of the frame's columns."""
        frame = self.frame
        self.targets = np.zeros((len(self.names), 2), dtype=np.int64)
        self.gpus = np.zeros((len(self.names), COUNT["gpu"]), dtype=np.int64)
        for number, node in enumerate(self.names):
            both = [frame.target(node, job, self.interval, self.mono) for job in JOBS]
            self.targets[number] = [target.index for target in both]
            for column in self.columns:
                metric = names.METRICS[column.metric]
                part = series.part_of(metric.kind, column.labels)
                assert not isinstance(part, int), column  # noqa: S101
                target = both[column.job]
                sub = target.job if metric.name == names.PROCESS_START else part.sub
                device = frame.place(target, part)
                frame.row(target, metric, device, sub)
                if metric.kind == "gpu":
                    self.gpus[number, column.part] = device
        assert frame.r.size == self.values.size  # noqa: S101  no row was shared, and none made before

    # -- time -----------------------------------------------------------------------------------------------------

    def step(self) -> list[Edge]:
        self.advance()
        return self.engine.cycle(self.view())

    def advance(self, acts: Callable[[], None] = lambda: None, seconds: float = 0.0) -> None:
        """One round of answers; `acts` changes values first. `seconds` of the interval are left, if not all."""
        self.tick(seconds)
        if not self.calm:
            self._boots()
        acts()
        self.write(self.answers())

    def tick(self, seconds: float = 0.0) -> None:
        self.clock.tick(seconds or self.interval)
        self.ticks += 1
        self.live()

    def answers(self) -> Bools:
        """Which exporters answer this time."""
        answered: Bools = self.rng.random(self.targets.shape) >= LOSS
        answered[self.back_at > 0] = False
        answered &= ~self.silent
        self.lost += int((~answered).sum())
        return answered

    def forget_targets(self) -> None:
        """Nothing is scraped here: whoever pushes makes targets of its own."""
        self.frame = Frame()
        self.engine = RuleEngine(self.frame)

    def view(self) -> ClusterView:
        return ClusterView(self.now, self.mono + 0.9 * self.interval, self.frame, self.facts)

    def live(self) -> None:
        v, rng, n = self.values, self.rng, len(self.names)
        v[:, self.noisy] += rng.poisson(self.rates * self.interval, (n, len(self.noisy)))
        requests = v[:, self.at[names.NFS_REQUESTS]]
        v[:, self.at[names.NFS_RESPONSE]] = requests * 0.004
        flips = rng.random(n) < self.interval / 7200
        self.busy[flips] = rng.random(int(flips.sum())) < 0.9
        wave = 5 * np.sin(self.mono / 600 + self.phase) + rng.normal(0, 1.5, (n, 8))
        busy = self.busy[:, None]
        heat = np.where(busy, 60 + wave, 32 + wave / 3)
        v[:, self.at[names.GPU_TEMP]], v[:, self.at["DCGM_FI_DEV_MEMORY_TEMP"]] = heat, heat + 9
        v[:, self.at[names.TEMP_MARGIN]] = 87 - heat
        v[:, self.at[names.GPU_UTIL]] = np.where(busy, 97, 0)
        for metric, (mean, spread) in WORK.items():
            working = mean * (1 + spread * rng.standard_normal((n, 8), dtype=np.float32))
            v[:, self.at[metric]] = np.where(busy, working, IDLE.get(metric, 0.0))
        v[:, self.at[names.PCIE_GEN]] = np.where(busy, 5, 1)
        v[:, self.at[names.CLOCK_REASONS]] = np.where(busy, np.where(rng.random((n, 8)) < 0.2, 4, 0), 1)
        v[:, self.at[names.CLOCK_EVENTS]] = rng.random((n, len(self.at[names.CLOCK_EVENTS]))) < 1e-4
        v[:, self.at[names.NVLINK_BER]] = 10 ** rng.normal(-16, 0.5, (n, 8))
        v[:, self.at[names.FS_AVAIL]] = 4e12 * (1 + 0.5 * np.sin(self.mono / 40000 + self.phase))
        v[:, self.at[names.MOUNT_ERROR]] = rng.random((n, 2)) < 1e-5  # one look that took too long
        v[:, self.at[names.SHARP_JOBS]] = 12

    def _boots(self) -> None:
        rng, n = self.rng, len(self.names)
        boots = (rng.random(n) < self.interval / (REBOOT_DAYS * DAY)) & (self.back_at == 0)
        for number in np.flatnonzero(boots).tolist():
            self.away_at[number], self.back_at[number] = self.mono, self.mono + rng.uniform(*BOOT_SECONDS)
            self.boots += 1
        for number in np.flatnonzero(self.back_at > 0).tolist():
            node, left = self.names[number], self.back_at[number] - self.mono
            facts = self.facts[node]
            if left <= 0:  # back: another boot, counters begin anew, and nothing is believed until exporters answer
                self.back_at[number] = 0.0
                self.values[number, self.counters] = 0.0
                started = self.now.timestamp() - 60
                self.values[number, self.at[names.BOOT_TIME] + self.at[names.PROCESS_START]] = started
                boot = f"{facts.boot_id}+"[-40:] + str(self.boots)
                self.facts[node] = replace(facts, ready=True, boot_id=boot, boot_at=self.now, in_remediation=True)
            elif self.mono - self.away_at[number] > GRACE and facts.ready:
                self.facts[node] = replace(facts, ready=None, ready_since=self.now)
        for number in np.flatnonzero(rng.random(n) < self.interval / (RESTART_DAYS * DAY)).tolist():
            self.restarts += 1  # the exporter of the GPUs begins anew, with the counters of its driver
            gpu = [place for place in self.counters if place < self.dcgm]
            self.values[number, gpu] = 0.0
            self.failed[number, DCGM] = True

    def write(self, answered: Bools) -> None:
        frame, wall = self.frame, self.now.timestamp()
        late = self.rng.uniform(0, 0.5 * self.interval, self.targets.shape)
        t, r = frame.t, frame.r
        fresh = self.targets[answered & self.failed]  # after a silence it may be another process
        t.epoch[fresh] += 1
        t.epoch_seq[fresh] = 0
        self.failed = ~answered
        blocks = [column[: r.size].reshape(self.values.shape) for column in (r.value, r.mono, r.source)]
        for job, part in ((DCGM, slice(0, self.dcgm)), (NODE, slice(self.dcgm, None))):
            here = np.flatnonzero(answered[:, job])
            values, delay, targets = self.values[here, part], late[here, job, None], self.targets[here, job]
            told = np.isfinite(values)
            for block, new in zip(blocks, (values, self.mono + delay, wall + delay), strict=True):
                block[here, part] = new if told.all() else np.where(told, new, block[here, part])
            if job == DCGM:  # a GPU is in an answer if its temperature is
                seen = np.isfinite(self.values[here][:, self.at[names.GPU_TEMP]])
                frame.d.seq[self.gpus[here][seen]] = np.broadcast_to(t.seq[targets, None] + 1, seen.shape)[seen]
            t.wall[targets], t.mono[targets] = wall + late[here, job], self.mono + late[here, job]
            t.skew[targets] = self.rng.normal(0, 0.1, len(targets)) + self.skew[here]
            t.skew_seq[targets] += 1
            t.epoch_seq[targets] += 1
            t.seq[targets] += 1
        self._heard(answered)

    def _heard(self, answered: Bools) -> None:
        """What both exporters of a node that booted have answered is news again."""
        for node, facts in [(node, facts) for node, facts in self.facts.items() if facts.in_remediation]:
            number = int(node[1:])
            if answered[number].all() and self.back_at[number] == 0:
                self.facts[node] = replace(facts, in_remediation=False)
