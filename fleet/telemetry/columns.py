"""Arrays that grow together.

Decides how the frame's parallel arrays make room: by half, into new arrays, so that a reader in another thread
keeps a whole (slightly older) picture. Refuses to shrink.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Columns:
    """Named parallel arrays; `add` appends one row of fill values and answers its index."""

    def __init__(self, capacity: int = 256, **fills: tuple[Any, Any]) -> None:
        self._fills = fills
        self.size = 0
        self._capacity = capacity
        for name, (kind, fill) in fills.items():
            setattr(self, name, np.full(capacity, fill, dtype=kind))

    def add(self) -> int:
        if self.size == self._capacity:
            self._grow()
        self.size += 1
        return self.size - 1

    def _grow(self) -> None:
        for name, (kind, fill) in self._fills.items():
            bigger = np.full(self._capacity * 3 // 2, fill, dtype=kind)
            bigger[: self._capacity] = getattr(self, name)
            setattr(self, name, bigger)
        self._capacity = self._capacity * 3 // 2

    def __getattr__(self, name: str) -> NDArray[Any]:
        raise AttributeError(name)  # declared so that type checkers know columns are arrays
