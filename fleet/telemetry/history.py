"""Samples of a few measures of every node, for charts.

Decides what is kept: per GPU temperature, power, utilisation and SM clock, and per node the InfiniBand traffic, sampled
every 10 s and packed into one row per node and minute, for two hours; `rolling` makes of them what is kept longer.
Refuses to be a time-series database: more measures are asked from one by PromQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import orjson
from django.db import connection
from numpy.typing import NDArray

from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.models import NodeHistory

SAMPLE_EVERY = 10.0
KEEP = timedelta(hours=2)
GPU_MEASURES = {
    "gpu_temp": names.GPU_TEMP,
    "gpu_power": "DCGM_FI_DEV_POWER_USAGE",
    "gpu_util": "DCGM_FI_DEV_GPU_UTIL",
    "gpu_clock": "DCGM_FI_DEV_SM_CLOCK",
}
TRAFFIC = {
    "ib_rx": "node_infiniband_port_data_received_bytes_total",
    "ib_tx": "node_infiniband_port_data_transmitted_bytes_total",
}  # fmt: skip
MAX_GPUS = 16
PORTION = 50  # nodes packed, or devices looked at, between two pauses
Floats = NDArray[np.float64]


@dataclass(slots=True)
class _Grid:
    """One measure, one moment: nodes by GPU slots (for traffic one slot)."""

    at: datetime
    values: dict[str, Floats] = field(default_factory=dict)


class Recorder:
    """Samples a frame and hands out whole minutes. One thread."""

    def __init__(self, frame: Frame, pause: Callable[[], None] = lambda: None) -> None:
        """`pause` is called between two portions of work, for whoever has others to let pass."""
        self._frame, self._pause = frame, pause
        self._grids: list[_Grid] = []
        self._totals: dict[str, tuple[float, Floats]] = {}

    def sample(self, now: datetime, mono: float) -> None:
        """Take what is fresh. What is stale is a gap, never the last value drawn on."""
        grid = _Grid(now)
        size = len(self._frame.nodes)
        slots = self._slots()
        for name, metric in GPU_MEASURES.items():
            grid.values[name] = self._gpus(metric, size, mono, slots)
            self._pause()
        for name, metric in TRAFFIC.items():
            grid.values[name] = self._rate(name, metric, size, mono)
        self._grids.append(grid)

    def _slots(self) -> NDArray[np.int64]:
        """By the frame's device index: the slot that a GPU tells of itself, -1 for none and for what is no GPU."""
        devices = self._frame.devices
        slots = np.full(len(devices), -1, dtype=np.int64)
        for number, device in enumerate(self._frame.gpus().tolist()):
            if number % PORTION == 0:
                self._pause()
            if device < len(slots):
                slots[device] = _slot(devices[device].attrs.get("index", ""))
        return slots

    def _gpus(self, metric: str, size: int, mono: float, slots: NDArray[np.int64]) -> Floats:
        values = np.full((size, MAX_GPUS), np.nan)
        rows = self._frame.rows(metric)
        if len(rows):
            devices = self._frame.r.device[rows]
            mine = np.where(devices < len(slots), slots[np.minimum(devices, len(slots) - 1)], -1)
            nodes = self._frame.r.node[rows]
            keep = self._frame.fresh_rows(rows, mono) & (mine >= 0) & (nodes < size)
            values[nodes[keep], mine[keep]] = self._frame.r.value[rows[keep]]
        return values

    def _rate(self, name: str, metric: str, size: int, mono: float) -> Floats:
        """Bytes per second of all ports of a node together. A reset of any counter leaves one gap."""
        rows = self._frame.rows(metric)
        totals = np.full(size, np.nan)
        if len(rows):
            nodes = self._frame.r.node[rows]
            keep = self._frame.fresh_rows(rows, mono) & (nodes < size)
            sums = np.bincount(nodes[keep], weights=self._frame.r.value[rows[keep]], minlength=size)
            seen = np.bincount(nodes[keep], minlength=size) > 0
            totals[seen] = sums[seen]
        before_mono, before = self._totals.get(name, (mono, np.empty(0)))
        self._totals[name] = (mono, totals)
        rate = np.full(size, np.nan)
        if mono > before_mono and len(before):
            same = min(size, len(before))
            rate[:same] = (totals[:same] - before[:same]) / (mono - before_mono)
            rate[rate < 0] = np.nan
        return rate.reshape(size, 1)

    def take_minutes(self, now: datetime) -> list[tuple[datetime, str, bytes]]:
        """(minute, node, packed) of every minute that is over; they are forgotten here."""
        this_minute = now.replace(second=0, microsecond=0)
        done = [grid for grid in self._grids if grid.at < this_minute]
        self._grids = [grid for grid in self._grids if grid.at >= this_minute]
        minutes: dict[datetime, list[_Grid]] = {}
        for grid in done:
            minutes.setdefault(grid.at.replace(second=0, microsecond=0), []).append(grid)
        told: list[tuple[datetime, str, bytes]] = []
        for minute, grids in minutes.items():
            for index, node in enumerate(list(self._frame.nodes)):
                if index % PORTION == 0:
                    self._pause()
                packed = _pack(grids, index)
                if packed:
                    told.append((minute, node, packed))
        return told


def _slot(index: str) -> int:
    return int(index) if index.isdecimal() and len(index) < 4 and int(index) < MAX_GPUS else -1


def _pack(grids: list[_Grid], node: int) -> bytes:
    """{"at": [epoch s], "gpu_temp": [[slots] per sample], "ib_rx": [one per sample]}; b"" where nothing is known."""
    grids = [grid for grid in grids if len(grid.values["gpu_temp"]) > node]
    packed: dict[str, Any] = {}
    for name in (*GPU_MEASURES, *TRAFFIC):
        block: Floats = np.array([grid.values[name][node] for grid in grids])
        filled = np.flatnonzero(~np.isnan(block).all(axis=0)) if block.size else np.empty(0, dtype=np.int64)
        if len(filled):
            width = int(filled[-1]) + 1
            rows = [[None if v != v else _short(v) for v in row[:width]] for row in block.tolist()]
            packed[name] = [row[0] for row in rows] if name in TRAFFIC else rows
    if not packed:
        return b""
    return orjson.dumps({"at": [round(grid.at.timestamp(), 1) for grid in grids], **packed})


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else round(value, 2)


def store(cluster_id: int, minutes: Iterable[tuple[datetime, str, bytes]], node_ids: Mapping[str, int]) -> int:
    """Write minutes by COPY. Nodes without a row are left out."""
    rows = [(cluster_id, node_ids[node], at, data) for at, node, data in minutes if node in node_ids]
    if not rows:
        return 0
    with connection.cursor() as cursor:
        with cursor.copy("COPY telemetry_nodehistory (cluster_id, node_id, at, data) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    return len(rows)


def read(node_id: int, since: datetime) -> list[tuple[datetime, dict[str, Any]]]:
    """Samples of a node in order: (at, {"gpu_temp": [per slot, None for a gap], ..., "ib_rx": bytes/s, ...})."""
    return read_many([node_id], since)


def read_many(node_ids: Iterable[int], since: datetime) -> list[tuple[datetime, dict[str, Any]]]:
    """Samples of several nodes, ordered by minute. One query."""
    rows = NodeHistory.objects.filter(node_id__in=list(node_ids), at__gte=since - timedelta(minutes=1))
    samples: list[tuple[datetime, dict[str, Any]]] = []
    for data in rows.order_by("at", "id").values_list("data", flat=True):
        packed = orjson.loads(bytes(data))
        for index, stamp in enumerate(packed.pop("at")):
            at = datetime.fromtimestamp(stamp, UTC)
            if at >= since:
                samples.append((at, {name: values[index] for name, values in packed.items()}))
    return samples
