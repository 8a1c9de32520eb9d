"""The frame: the latest value of every series of one cluster, as arrays.

Decides where a value lives (one row per identity, for ever the same index), when it was received and what it
replaced. Rules read whole metrics as arrays by `rows(metric)`. Times are monotonic for windows and ages, wall for
records: `source` is what the sample says of itself, or the wall time of receipt when it says nothing.

Refuses values it was not told are clean, and refuses to say how anything is: that is for the rules.
One writer (the thread of the scrapes); readers in other threads see whole values, at worst one write behind.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fleet.telemetry import names
from fleet.telemetry.columns import Columns
from fleet.telemetry.names import DeviceKind, Metric
from fleet.telemetry.series import TOO_MANY, Part
from fleet.telemetry.targets import Target

Rows = NDArray[np.int64]
STALE_INTERVALS = 3
MAX_ROWS_PER_TARGET = 20_000
NEVER = float("-inf")
_NONE: Rows = np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class Device:
    """A part with identity. `attrs` is what its labels tell: index, pci, model, driver, serial, server, mountpoint."""

    index: int
    node: str
    key: str
    kind: DeviceKind
    target: int
    attrs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Latest:
    """One value for people."""

    metric: str
    device: str
    sub: str
    value: float
    age: float
    source: float


class Frame:
    """See the module. `r`, `d` and `t` are the columns of rows, devices and targets."""

    def __init__(self, capacity: int = 1024) -> None:
        self.nodes: list[str] = []
        self.node_index: dict[str, int] = {}
        self.targets: list[Target] = []
        self.target_index: dict[tuple[str, str], int] = {}
        self.devices: list[Device] = []
        self._device_index: dict[tuple[int, str], int] = {}
        self._pci: dict[tuple[int, str], int] = {}
        self._index: dict[str, array[int]] = {}  # metric -> row by device, -1 for none
        self._sub_index: dict[tuple[str, int, str], int] = {}
        self._metric_rows: dict[str, array[int]] = {}
        self._metric_arrays: dict[str, Rows] = {}
        self.row_metric: list[str] = []
        self.row_sub: list[str] = []
        self._by_node: dict[int, array[int]] = {}
        self._places: tuple[int, int, dict[str, list[int]]] = (-1, 0, {})  # of the node asked for last
        self._devices_by_node: dict[int, list[int]] = {}
        self._targets_by_node: dict[int, list[int]] = {}
        self.r = Columns(
            capacity,
            value=(np.float64, np.nan),
            mono=(np.float64, NEVER),
            source=(np.float64, 0.0),
            device=(np.int32, -1),
            node=(np.int32, -1),
            target=(np.int32, -1),
            pos=(np.int32, 0),  # place among the rows of its metric
            born=(np.int32, 0),  # which scrape of its target's epoch first showed it
            metric=(np.int16, 0),  # number of its metric in names.ORDER
        )
        self.d = Columns(capacity, node=(np.int64, -1), target=(np.int64, -1), seq=(np.int64, 0), gpu=(np.bool_, False))
        self.t = Columns(
            64,
            node=(np.int64, -1),
            interval=(np.float64, 15.0),
            mono=(np.float64, NEVER),
            wall=(np.float64, 0.0),
            seq=(np.int64, 0),  # successful scrapes
            epoch=(np.int64, 0),  # changes when the exporter may have restarted
            epoch_seq=(np.int64, 0),  # successful scrapes of this epoch
            alive=(np.bool_, False),
            gpu=(np.bool_, False),  # answers for GPUs
            skew=(np.float64, 0.0),  # seconds the exporter's clock is ahead of ours
            skew_seq=(np.int64, 0),  # how often that was measured
        )

    # -- places ---------------------------------------------------------------------------------------------------

    def node(self, name: str) -> int:
        index = self.node_index.get(name)
        if index is None:
            index = self.node_index[name] = len(self.nodes)
            self.nodes.append(name)
        return index

    def target(self, node: str, job: str, interval: float, at_mono: float = 0.0) -> Target:
        """The target of this exporter on this node, made at first sight."""
        index = self.target_index.get((node, job))
        if index is None:
            index = self.t.add()
            self.targets.append(Target(index, node, job, since_mono=at_mono))
            self.t.node[index] = self.node(node)
            self._targets_by_node.setdefault(self.node(node), []).append(index)
            self.t.gpu[index] = "dcgm" in job.lower()
            self.target_index[node, job] = index
        self.t.interval[index] = interval
        self.t.alive[index] = True
        return self.targets[index]

    def drop_target(self, node: str, job: str) -> None:
        """The exporter is no longer expected here: its rows are history, its silence no longer stale."""
        index = self.target_index.get((node, job))
        if index is None:
            return
        self.t.alive[index] = False
        self.t.mono[index] = NEVER
        self.targets[index].cache.clear()
        mine = self.r.target[: self.r.size] == index
        self.r.mono[: self.r.size][mine] = NEVER

    def device(self, node: str, key: str) -> Device | None:
        index = self._device_index.get((self.node_index.get(node, -1), key))
        return None if index is None else self.devices[index]

    def gpu_at(self, node: str, address: str) -> Device | None:
        """The GPU behind a PCI address in any spelling, as DCGM last told."""
        index = self._pci.get((self.node_index.get(node, -1), names.pci(address)))
        return None if index is None else self.devices[index]

    def know_gpu(self, node: str, key: str, attrs: dict[str, str]) -> Device:
        """Register a GPU that was known before this process started (from a checkpoint)."""
        return self.devices[self._device(self.node(node), Part(key, "gpu", "", attrs))]

    def place(self, target: Target, part: Part) -> int:
        """The index of a device that a target speaks of, made at first sight."""
        index = self._device(int(self.t.node[target.index]), part)
        self.d.target[index] = self.devices[index].target = target.index
        self.t.gpu[target.index] |= part.kind == "gpu"
        return index

    def _device(self, node: int, part: Part) -> int:
        index = self._device_index.get((node, part.key))
        if index is None:
            index = self._device_index[node, part.key] = self.d.add()
            self.devices.append(Device(index, self.nodes[node], part.key, part.kind, -1))
            self._devices_by_node.setdefault(node, []).append(index)
            self.d.node[index] = node
            self.d.gpu[index] = part.kind == "gpu"
        device = self.devices[index]
        device.attrs.update(part.attrs)
        if device.attrs.get("pci"):
            self._pci[node, device.attrs["pci"]] = index
        return index

    def row(self, target: Target, metric: Metric, device: int, sub: str = "") -> int:
        """The row of a series, made at first sight; negative when the target has too many."""
        row = self._row(metric.name, device, sub)
        if row is not None:
            self.r.target[row] = target.index
            return row
        if target.rows >= MAX_ROWS_PER_TARGET:
            return TOO_MANY
        target.rows += 1
        row = self.r.add()
        r, node = self.r, int(self.t.node[target.index])
        same = self._metric_rows.setdefault(metric.name, array("q"))
        r.device[row], r.node[row], r.target[row], r.pos[row] = device, node, target.index, len(same)
        r.born[row] = self.t.epoch_seq[target.index] + 1
        r.metric[row] = names.ORDER[metric.name]
        same.append(row)
        self.row_metric.append(metric.name)
        self.row_sub.append(sub)
        self._by_node.setdefault(node, array("q")).append(row)
        if sub:
            self._sub_index[metric.name, device, sub] = row
        else:
            index = self._index.setdefault(metric.name, array("q"))
            if len(index) <= device:
                index.extend(array("q", [-1]) * max(device + 1 - len(index), len(index)))
            index[device] = row
        return row

    def _row(self, metric: str, device: int, sub: str) -> int | None:
        if sub:
            return self._sub_index.get((metric, device, sub))
        index = self._index.get(metric)
        if index is None or device >= len(index) or index[device] < 0:
            return None
        return index[device]

    # -- writing --------------------------------------------------------------------------------------------------

    def write(self, rows: Rows, values: NDArray[np.float64], mono: float, source: float | NDArray[np.float64]) -> None:
        self.r.value[rows] = values
        self.r.source[rows] = source
        self.r.mono[rows] = mono

    def new_epoch(self, target: Target, rows: Rows | None = None) -> None:
        """The exporter may have restarted: what it says next is a baseline. `rows` were already made by that answer."""
        index = target.index
        if rows is not None:
            young = rows[self.r.born[rows] > self.t.epoch_seq[index]]
            self.r.born[young] = 1
        self.t.epoch[index] += 1
        self.t.epoch_seq[index] = 0

    def own(self, device: int, target: int) -> None:
        """From now on this target tells whether the device is there: whoever writes it last counts its scrapes."""
        self.d.target[device] = self.devices[device].target = target

    def saw(self, target: Target, rows: Rows, mono: float, wall: float) -> None:
        """Close one successful scrape: devices first, the target's count last, so that no reader sees a false gap."""
        index, t = target.index, self.t
        devices = self.r.device[rows]
        for device in devices[self.d.gpu[devices] & (self.d.target[devices] != index)].tolist():
            self.own(device, index)
        self.r.target[rows] = index
        self.d.seq[devices] = t.seq[index] + 1
        t.wall[index] = wall
        t.mono[index] = mono
        t.epoch_seq[index] += 1
        t.seq[index] += 1

    # -- reading --------------------------------------------------------------------------------------------------

    def rows(self, metric: str) -> Rows:
        """Indices of all rows of a metric. Only ever grows at its end, so rules may keep state beside it."""
        made = self._metric_rows.get(metric)
        if made is None:
            return _NONE
        known = self._metric_arrays.get(metric)
        if known is None or len(known) != len(made):
            known = self._metric_arrays[metric] = np.array(made[:], dtype=np.int64)
        return known

    def gpus(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.d.gpu[: self.d.size])

    def places(self, node: str, metric: str) -> list[int]:
        """Places of one node's rows among the rows of a metric. Every rule asks for the same node in turn."""
        index = self.node_index.get(node, -1)
        mine = self._by_node.get(index, ())
        known = self._places
        if known[0] != index or known[1] != len(mine):
            rows = list(mine)
            by_metric: dict[str, list[int]] = {}
            for row, place in zip(rows, self.r.pos[rows].tolist() if rows else (), strict=True):
                by_metric.setdefault(self.row_metric[row], []).append(place)
            known = self._places = (index, len(rows), by_metric)
        return list(known[2].get(metric, ()))

    def targets_of(self, node: str) -> list[Target]:
        return [self.targets[index] for index in self._targets_by_node.get(self.node_index.get(node, -1), ())]

    def devices_on(self, node: str) -> list[Device]:
        return [self.devices[index] for index in self._devices_by_node.get(self.node_index.get(node, -1), ())]

    def device_of(self, row: int) -> Device:
        return self.devices[int(self.r.device[row])]

    def find(self, metric: str, node: str, device: str = "", sub: str = "") -> int | None:
        index = self._device_index.get((self.node_index.get(node, -1), device))
        return None if index is None else self._row(metric, index, sub)

    def row_at(self, metric: str, device: int, sub: str = "") -> int:
        """The row of a metric at a device index, -1 where there is none."""
        row = self._row(metric, device, sub)
        return -1 if row is None else row

    def value(self, metric: str, node: str, device: str = "", sub: str = "") -> float | None:
        row = self.find(metric, node, device, sub)
        return None if row is None or self.r.mono[row] == NEVER else float(self.r.value[row])

    def latest(self, node: str, mono: float) -> Iterator[Latest]:
        """Everything known of a node, for its page and for evidence."""
        for row in self._by_node.get(self.node_index.get(node, -1), ()):
            if self.r.mono[row] == NEVER:
                continue
            device, value = self.device_of(row).key, float(self.r.value[row])
            age, source = mono - float(self.r.mono[row]), float(self.r.source[row])
            yield Latest(self.row_metric[row], device, self.row_sub[row], value, age, source)

    def stale_targets(self, mono: float) -> NDArray[np.bool_]:
        """Which targets have had no good scrape for three intervals (a new one gets as long before it counts)."""
        size = self.t.size
        since = self.t.mono[:size]
        return self.t.alive[:size] & (mono - since > STALE_INTERVALS * self.t.interval[:size])

    def fresh_rows(self, rows: Rows, mono: float) -> NDArray[np.bool_]:
        """Which rows were received within three intervals of their target."""
        return mono - self.r.mono[rows] <= STALE_INTERVALS * self.t.interval[self.r.target[rows]]
