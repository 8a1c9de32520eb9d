"""Debouncing of a condition over many elements at once.

Decides when a condition has held long enough (so many of the last scrapes bad, and bad for a window) and when its end
has; how long is long enough may differ by element, because pools differ. An element without a new observation keeps its
state: silence clears nothing. Windows are of monotonic receive time. Refuses to know what it watches: callers pass
arrays, and a name for each element so that state survives a restart. What is asked of few elements is fetched of those
alone: a fleet's rows lie far apart in memory, and reading them costs more than judging them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Name = tuple[str, str]  # node, device
Looked = Callable[[Indices], NDArray[Any]]  # values of these elements: fetched of the few that matter
_ONES = np.array([bin(bits).count("1") for bits in range(256)], dtype=np.uint8)
NEVER = float("-inf")
_NOBODY: Indices = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a condition must hold: `scrapes` of the last `of`, for `window` seconds; and be over for `clear`."""

    window: Floats | float = 0.0
    scrapes: Floats | float = 1
    of: Floats | float = 1
    clear: Floats | float = 0.0


class Level:
    """State of one condition, aligned with the caller's element order (which only ever grows at its end)."""

    def __init__(self, name: Callable[[int], Name], already: Callable[[], set[Name]]) -> None:
        """`already` names the elements whose finding is open when they first appear (after a restart)."""
        self._name = name
        self._already = already
        self._waiting: dict[Name, dict[str, Any]] = {}
        self.stamp: Floats = np.empty(0)
        self.bits = np.empty(0, dtype=np.uint8)
        self.bad_mono: Floats = np.empty(0)
        self.bad_wall: Floats = np.empty(0)
        self.good_mono: Floats = np.empty(0)
        self.open: Bools = np.empty(0, dtype=bool)
        self.changed: Indices = np.empty(0, dtype=np.int64)  # whose damping the last step began or ended

    def step(
        self,
        stamp: Floats,
        mono: Floats,
        wall: Looked,
        bad: Bools,
        quiet: Looked,
        now: tuple[float, float],
        patience: Patience,
    ) -> tuple[Indices, Indices]:
        """Which elements open and which clear. An element is new where `stamp` grew; `quiet` ones may not open yet.

        `now` is (monotonic, wall), used only to place what a checkpoint brought.
        """
        self._grow(len(stamp), now)
        if not (bad.any() or self.bits.any() or self.open.any()):  # all is well and was
            self.stamp, self.changed = np.maximum(self.stamp, stamp), _NOBODY
            return _NOBODY, _NOBODY
        mask = ((1 << np.asarray(patience.of, dtype=np.int64)) - 1).astype(np.uint8)
        new = stamp > self.stamp
        self.stamp = np.where(new, stamp, self.stamp)
        before = self.bits
        turned = np.flatnonzero(new & bad & (self.bits & mask == 0))
        self.bad_mono[turned], self.bad_wall[turned] = mono[turned], wall(turned)
        self.bits = np.where(new, ((self.bits << 1) | bad) & mask, self.bits & mask).astype(np.uint8)
        self.changed = np.flatnonzero((self.bits != 0) != (before != 0))
        self.good_mono = np.where(new & bad, np.inf, np.where(new & np.isinf(self.good_mono), mono, self.good_mono))
        enough = _ONES[self.bits] >= patience.scrapes
        last_bad = (self.bits & 1).astype(bool)
        opens = np.flatnonzero(~self.open & enough & last_bad & (mono - self.bad_mono >= patience.window))
        opens = opens[~quiet(opens)]
        over = np.flatnonzero(self.open & (self.bits == 0) & (mono - self.good_mono >= patience.clear))
        self.open[opens], self.open[over] = True, False
        return opens, over

    def _grow(self, size: int, now: tuple[float, float]) -> None:
        old = len(self.stamp)
        if size == old:
            return
        more = size - old
        self.stamp = np.concatenate([self.stamp, np.full(more, NEVER)])
        self.bits = np.concatenate([self.bits, np.zeros(more, dtype=np.uint8)])
        self.bad_mono = np.concatenate([self.bad_mono, np.full(more, np.inf)])
        self.bad_wall = np.concatenate([self.bad_wall, np.zeros(more)])
        self.good_mono = np.concatenate([self.good_mono, np.full(more, np.inf)])
        self.open = np.concatenate([self.open, np.zeros(more, dtype=bool)])
        already = self._already()
        if self._waiting or already:
            for index in range(old, size):
                name = self._name(index)
                self._adopt(index, self._waiting.pop(name, None), now)
                self.open[index] |= name in already

    def _adopt(self, index: int, state: dict[str, Any] | None, now: tuple[float, float]) -> None:
        if state is None:
            return
        self.bits[index] = state["bits"] & 0xFF
        self.bad_wall[index] = state["bad_wall"]
        self.bad_mono[index] = now[0] - max(0.0, now[1] - state["bad_wall"])
        self.open[index] = state["open"]

    # -- checkpoint -----------------------------------------------------------------------------------------------

    def export(self, node: str, places: list[int]) -> list[dict[str, Any]]:
        """State of those of a node's elements that are bad or open."""
        entries: list[dict[str, Any]] = [state for (owner, _), state in self._waiting.items() if owner == node]
        for index in places:
            if index < len(self.bits) and (self.bits[index] or self.open[index]):
                device, bits, wall = self._name(index)[1], int(self.bits[index]), float(self.bad_wall[index])
                entries.append({"device": device, "bits": bits, "bad_wall": wall, "open": bool(self.open[index])})
        return entries

    def forget(self, node: str) -> None:
        """What was open on this node was closed from outside: judge it anew."""
        for index in np.flatnonzero(self.open).tolist():
            if self._name(index)[0] == node:
                self.open[index], self.bits[index] = False, 0

    def load(self, node: str, entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            self._waiting[node, str(entry["device"])] = entry


class Delta:
    """Growth of counters since the last look. A counter below its last value has been reset: that is a new baseline."""

    def __init__(self, name: Callable[[int], Name]) -> None:
        self._name = name
        self._waiting: dict[Name, float] = {}
        self.base: Floats = np.empty(0)
        self.changed: Indices = np.empty(0, dtype=np.int64)  # whose baseline the last step set or moved

    def step(self, values: Floats, fresh: Bools) -> Floats:
        """Growth per element, 0 where nothing new, at the first look, and after a reset."""
        old = len(self.base)
        if len(values) > old:
            self.base = np.concatenate([self.base, np.full(len(values) - old, np.nan)])
            if self._waiting:
                for index in range(old, len(values)):
                    self.base[index] = self._waiting.pop(self._name(index), np.nan)
        with np.errstate(invalid="ignore"):
            grown = np.where(fresh & (values > self.base), values - self.base, 0.0)
            moved = fresh & ~np.isnan(values) & (values != self.base)
        self.changed = np.flatnonzero(moved)
        self.base = np.where(moved, values, self.base)
        return grown

    def export(self, node: str, places: list[int]) -> dict[str, float]:
        """Last values of a node's elements, so that growth during our absence is noticed."""
        entries = {device: value for (owner, device), value in self._waiting.items() if owner == node}
        for index in places:
            if index < len(self.base) and not np.isnan(self.base[index]):
                entries[self._name(index)[1]] = float(self.base[index])
        return entries

    def load(self, node: str, entries: dict[str, float]) -> None:
        for device, value in entries.items():
            self._waiting[node, device] = float(value)
