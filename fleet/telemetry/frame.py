"""The frame: the latest value of every series of one cluster, as arrays.

Decides where a value lives (one row per identity, for ever the same index), when it was received and what it
replaced. Rules read whole metrics as arrays by `rows(metric)`. Times are monotonic for windows and ages, wall for
records: `source` is what the sample says of itself, or the wall time of receipt when it says nothing.

Refuses values it was not told are clean, and refuses to say how anything is: that is for the rules.
One writer (the thread of the scrapes); readers in other threads see whole values, at worst one write behind.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from sys import intern

import numpy as np
from numpy.typing import NDArray

from fleet.telemetry import names
from fleet.telemetry.columns import Columns
from fleet.telemetry.names import DeviceKind, Metric
from fleet.telemetry.series import TOO_MANY, Part
from fleet.telemetry.targets import Target
from fleet.telemetry.versions import Versions

Rows = NDArray[np.int64]
STALE_INTERVALS = 3
MAX_ROWS_PER_TARGET = 20_000
NEVER = float("-inf")
_NONE: Rows = np.empty(0, dtype=np.int64)
_NAMES = tuple(names.METRICS)


@dataclass(slots=True)
class Device:
    """A part with identity. `attrs` is what its labels tell: index, pci, model, driver, serial, server, mountpoint.

    `ordinal` is its place among the parts of its kind: by it a metric, which is of one kind, finds its row.
    """

    index: int
    node: str
    key: str
    kind: DeviceKind
    target: int
    ordinal: int
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


class Subs:
    """Sub-series by row; each text once, and a number for it in the rows' column `sub` (0: none)."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._texts: list[str] = [""]
        self._number: dict[str, int] = {"": 0}

    def code(self, text: str) -> int:
        """The number of a text, given at first sight."""
        code = self._number.get(text)
        if code is None:
            self._texts.append(text)
            code = self._number[text] = len(self._texts) - 1
        return code

    def known(self, text: str) -> int | None:
        return self._number.get(text)

    def __getitem__(self, row: int) -> str:
        return self._texts[int(self._frame.r.sub[row])]


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
        self._ordinals: Counter[str] = Counter()  # kind -> how many parts there are
        self._index: dict[str, array[int]] = {}  # metric -> row by the device's ordinal, -1 for none
        self._sub_index: dict[int, int] = {}  # by `_key`
        self._metric_rows: dict[str, array[int]] = {}
        self._metric_arrays: dict[str, Rows] = {}
        self.row_sub = Subs(self)
        self.versions = Versions()
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
            sub=(np.int32, 0),  # number of its sub-series in `row_sub`
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

    def target(self, node: str, job: str, interval: float, at_mono: float = 0.0, expected: bool = True) -> Target:
        """The target of this exporter on this node, made at first sight. Only of one `expected` does silence count."""
        index = self.target_index.get((node, job))
        if index is None:
            index = self.t.add()
            self.targets.append(Target(index, node, job, since_mono=at_mono))
            self.t.node[index] = self.node(node)
            self._targets_by_node.setdefault(self.node(node), []).append(index)
            self.t.gpu[index] = "dcgm" in job.lower()
            self.target_index[node, job] = index
        self.t.interval[index] = interval
        self.t.alive[index] = expected
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

    def know_port(self, node: str, key: str) -> Device:
        """An HCA's port that somebody else than its node tells of."""
        return self.devices[self._device(self.node(node), Part(key, "port"))]

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
            ordinal = self._ordinals[part.kind]
            self._ordinals[part.kind] += 1
            self.devices.append(Device(index, self.nodes[node], part.key, part.kind, -1, ordinal))
            self._devices_by_node.setdefault(node, []).append(index)
            self.d.node[index] = node
            self.d.gpu[index] = part.kind == "gpu"
        device = self.devices[index]
        for name, told in part.attrs.items():  # nodes are alike: their slots, models and mounts have few names
            if device.attrs.get(name) != told:
                device.attrs[name] = intern(told)
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
        r, node, number = self.r, int(self.t.node[target.index]), names.ORDER[metric.name]
        same = self._metric_rows.setdefault(metric.name, array("i"))
        r.device[row], r.node[row], r.target[row], r.pos[row] = device, node, target.index, len(same)
        r.born[row] = self.t.epoch_seq[target.index] + 1
        r.metric[row] = number
        r.sub[row] = code = self.row_sub.code(sub)
        same.append(row)
        self._by_node.setdefault(node, array("i")).append(row)
        part = self.devices[device]
        if sub or part.kind != metric.kind:
            self._sub_index[_key(number, device, code)] = row
        else:
            index = self._index.setdefault(metric.name, array("i"))
            if len(index) <= part.ordinal:
                index.extend(array("i", [-1]) * (part.ordinal + 1 - len(index)))
            index[part.ordinal] = row
        return row

    def _row(self, metric: str, device: int, sub: str) -> int | None:
        known, part = names.METRICS.get(metric), self.devices[device]
        if known is None:
            return None
        if sub or part.kind != known.kind:
            code = self.row_sub.known(sub)
            return None if code is None else self._sub_index.get(_key(names.ORDER[metric], device, code))
        index = self._index.get(metric)
        return index[part.ordinal] if index and part.ordinal < len(index) and index[part.ordinal] >= 0 else None

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

    def beside(self, metric: str, rows: Rows) -> Rows:
        """For each row that of another metric on the same device: of the same sub-series, else of none; -1: none."""
        r, theirs = self.r, self.rows(metric)
        found = self._matched(r.device[theirs], theirs, r.sub[theirs] == 0, r.device[rows])
        if r.sub[rows].any():
            same = self._matched(_keys(r, theirs), theirs, r.sub[theirs] != 0, _keys(r, rows))
            found = np.where(same >= 0, same, found)
        return found

    @staticmethod
    def _matched(keys: Rows, theirs: Rows, among: NDArray[np.bool_], wanted: Rows) -> Rows:
        """For each wanted key the row that has it."""
        keys, theirs = keys[among], theirs[among]
        if not len(theirs):
            return np.full(len(wanted), -1, dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
        return np.where(keys[place] == wanted, theirs[place], -1)

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
            told = zip(self.r.metric[rows].tolist(), self.r.pos[rows].tolist(), strict=True) if rows else ()
            for number, place in told:
                by_metric.setdefault(_NAMES[number], []).append(place)
            known = self._places = (index, len(rows), by_metric)
        return list(known[2].get(metric, ()))

    def targets_of(self, node: str) -> list[Target]:
        return [self.targets[index] for index in self._targets_by_node.get(self.node_index.get(node, -1), ())]

    def devices_on(self, node: str) -> list[Device]:
        return [self.devices[index] for index in self._devices_by_node.get(self.node_index.get(node, -1), ())]

    def metric_of(self, row: int) -> str:
        """The name of the metric that a row holds."""
        return _NAMES[int(self.r.metric[row])]

    def device_of(self, row: int) -> Device:
        return self.devices[int(self.r.device[row])]

    def find(self, metric: str, node: str, device: str = "", sub: str = "") -> int | None:
        index = self._device_index.get((self.node_index.get(node, -1), device))
        return None if index is None else self._row(metric, index, sub)

    def row_at(self, metric: str, device: int, sub: str = "") -> int:
        """The row of a metric at a device index, -1 where there is none."""
        row = self._row(metric, device, sub)
        return -1 if row is None else row

    def rows_without(self, present: Container[str]) -> int:
        """How many rows are of nodes that are not among these."""
        gone = [index for index, name in enumerate(list(self.nodes)) if name not in present]
        return sum(len(self._by_node.get(index, ())) for index in gone)

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
            yield Latest(self.metric_of(row), device, self.row_sub[row], value, age, source)

    def stale_targets(self, mono: float) -> NDArray[np.bool_]:
        """Which targets have had no good scrape for three intervals (a new one gets as long before it counts)."""
        size = self.t.size
        since = self.t.mono[:size]
        return self.t.alive[:size] & (mono - since > STALE_INTERVALS * self.t.interval[:size])

    def fresh_rows(self, rows: Rows, mono: float) -> NDArray[np.bool_]:
        """Which rows were received within three intervals of their target."""
        return mono - self.r.mono[rows] <= STALE_INTERVALS * self.t.interval[self.r.target[rows]]


def _key(metric: int, device: int, sub: int) -> int:
    """One number for a series with a sub-series: a third of what a tuple of the three would take."""
    return (sub << 48) | (metric << 32) | device


def _keys(r: Columns, rows: Rows) -> Rows:
    """Device and sub-series as one number."""
    return r.device[rows].astype(np.int64) << 32 | r.sub[rows]
