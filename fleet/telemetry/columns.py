"""Arrays that grow together.

Decides how the frame's parallel arrays make room: by half, into new arrays, so that a reader in another thread
keeps a whole (slightly older) picture. Room is claimed of the system at once and of memory only as it is filled, a
block at a time, so spare room costs nothing. Refuses to shrink.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 4096


class Columns:
    """Named parallel arrays; `add` appends one row of fill values and answers its index."""

    def __init__(self, capacity: int = 256, **fills: tuple[Any, Any]) -> None:
        self._fills = fills
        self.size = 0
        self._capacity = capacity
        self._filled = 0
        for name, (kind, fill) in fills.items():
            setattr(self, name, _room(capacity, kind, fill))

    def add(self) -> int:
        if self.size == self._filled:
            self._fill()
        self.size += 1
        return self.size - 1

    def _fill(self) -> None:
        if self._filled == self._capacity:
            self._grow()
        end = min(self._filled + BLOCK, self._capacity)
        for name, (_, fill) in self._fills.items():
            getattr(self, name)[self._filled : end] = fill
        self._filled = end

    def _grow(self) -> None:
        capacity = self._capacity * 3 // 2 + 1
        for name, (kind, fill) in self._fills.items():
            bigger = _room(capacity, kind, fill)
            bigger[: self._capacity] = getattr(self, name)
            setattr(self, name, bigger)
        self._capacity = capacity

    def __getattr__(self, name: str) -> NDArray[Any]:
        raise AttributeError(name)  # declared so that type checkers know columns are arrays


def _room(capacity: int, kind: Any, fill: Any) -> NDArray[Any]:
    """Room not yet filled, except for the last place: that is where an index of -1 (none) leads."""
    room = np.empty(capacity, dtype=kind)
    room[-1:] = fill
    return room
