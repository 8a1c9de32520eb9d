"""Ten-minute means, lows and highs: an hour of a node in one packed row.

Decides the packing: per measure its width and 16-bit steps of a fixed unit, compressed, about a kilobyte for eight GPUs
and an hour. A step is finer than any of these sensors; a gap is a gap. Refuses anything but whole hours. Pure.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from fleet.telemetry.history import GPU_MEASURES, MAX_GPUS, TRAFFIC

BUCKET = timedelta(minutes=10)
BUCKETS = 6
HOUR = timedelta(hours=1)
STATS = ("mean", "low", "high")
GAP = 65535
VERSION = 1
Floats = NDArray[np.float64]
# (unit of one step, lowest value)
UNITS: dict[str, tuple[float, float]] = {
    "gpu_temp": (0.1, -100.0),
    "gpu_power": (0.25, 0.0),
    "gpu_util": (0.1, 0.0),
    "gpu_clock": (1.0, 0.0),
    "ib_rx": (1e7, 0.0),
    "ib_tx": (1e7, 0.0),
}
MEASURES = (*GPU_MEASURES, *TRAFFIC)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Ten minutes of a node: {measure: values by slot, NaN for a gap} for each of STATS."""

    at: datetime
    values: Mapping[str, Mapping[str, Floats]]


def roll(hour: datetime, minutes: Iterable[bytes]) -> bytes:
    """Pack the minutes of one hour of one node; b"" when none of them says anything."""
    stamps: list[float] = []
    samples: dict[str, list[Floats]] = {name: [] for name in MEASURES}
    for raw in minutes:
        packed = orjson.loads(raw)
        at = packed.get("at", [])
        stamps += at
        for name in MEASURES:
            samples[name].append(_block(packed.get(name), len(at)))
    places = ((np.array(stamps) - hour.timestamp()) // BUCKET.total_seconds()).astype(np.int64)
    parts = [struct.pack("<BB", VERSION, BUCKETS)]
    some = False
    for name in MEASURES:
        block = np.concatenate(samples[name]) if samples[name] else np.empty((0, MAX_GPUS))
        filled = np.flatnonzero(~np.isnan(block).all(axis=0)) if len(block) else np.empty(0, dtype=np.int64)
        width = int(filled[-1]) + 1 if len(filled) else 0
        some |= width > 0
        parts.append(struct.pack("<B", width) + _steps(name, _reduced(block[:, :width], places)).tobytes())
    return zlib.compress(b"".join(parts), 6) if some else b""


def _block(values: Any, length: int) -> Floats:
    """Samples by slots, padded; lists are of GPUs, plain numbers of the node."""
    block = np.full((length, MAX_GPUS), np.nan)
    for index, row in enumerate(values or ()):
        if isinstance(row, list):
            block[index, : len(row)] = np.array(row[:MAX_GPUS], dtype=np.float64)
        elif row is not None:
            block[index, 0] = row
    return block


def _reduced(block: Floats, places: NDArray[np.int64]) -> Floats:
    """Stats by buckets by slots."""
    found = np.full((len(STATS), BUCKETS, block.shape[1]), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a bucket without a value is a gap
        for place in range(BUCKETS):
            mine = block[places == place]
            if len(mine) and block.shape[1]:
                found[:, place] = np.nanmean(mine, axis=0), np.nanmin(mine, axis=0), np.nanmax(mine, axis=0)
    return found


def _steps(name: str, values: Floats) -> NDArray[np.uint16]:
    unit, lowest = UNITS[name]
    steps = np.where(np.isnan(values), GAP, np.clip(np.round((values - lowest) / unit), 0, GAP - 1))
    return steps.astype("<u2")


def unroll(hour: datetime, data: bytes, measures: Sequence[str] = MEASURES) -> list[Bucket]:
    """The buckets of one packed hour; none for a packing that is not ours."""
    plain = zlib.decompress(data)
    version, buckets = struct.unpack_from("<BB", plain)
    if version != VERSION:
        return []
    at, stats = 2, {}
    for name in MEASURES:
        width = plain[at]
        count = len(STATS) * buckets * width
        if name in measures:
            steps = np.frombuffer(plain, "<u2", count, at + 1).reshape(len(STATS), buckets, width)
            unit, lowest = UNITS[name]
            stats[name] = np.where(steps == GAP, np.nan, steps * unit + lowest)
        at += 1 + 2 * count
    return [
        Bucket(
            hour + place * BUCKET,
            {
                stat: {name: values[number, place] for name, values in stats.items()}
                for number, stat in enumerate(STATS)
            },
        )
        for place in range(buckets)
    ]
