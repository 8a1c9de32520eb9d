"""Which series texts of one exporter were met, and which row each has.

Decides what is remembered between two scrapes: the lines of the last one in their order, because the next one is nearly
always the same again, and besides those what was met lately, in two generations. Refuses to keep texts, to keep more
than churn can explain, and a Python object for each series: at 10,000 nodes that would be half a gigabyte.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
from numpy.typing import NDArray

Packed = tuple[bytes, "NDArray[np.int32]"]  # hashes, and the row of each
_NOTHING: Packed = (b"", np.empty(0, dtype=np.int32))


@dataclass(slots=True)
class SeriesCache:
    """Series text -> row for one target, bounded under label churn.

    Two generations: when the young one outgrows `limit` it becomes the old one and the former old one is forgotten.
    What is still in use moves back on its next sight. Between two scrapes all is packed, thirteen bytes a series: first
    the lines of the last scrape in their order, then what else is young, then what is old. `young` and `old` are filled
    only while a scrape is read that is not like the last one.
    """

    limit: int = 8_192
    rotations: int = 0
    young: dict[int, int] = field(default_factory=dict)
    old: dict[int, int] = field(default_factory=dict)
    _last: Packed = _NOTHING
    _samples: bytes = b""  # of each line of the last scrape: is it a sample?
    _rest: tuple[Packed, Packed] = (_NOTHING, _NOTHING)

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in (self._last, *self._rest))

    def rows(self, hashes: bytes) -> NDArray[np.int32] | None:
        """The rows of a scrape whose lines are those of the last one; `samples` tells which lines have one."""
        return self._last[1] if hashes == self._last[0] and hashes else None

    def samples(self, tokens: list[bytes]) -> list[bytes]:
        """Of what follows the last blank of each line: the values."""
        return tokens if len(self._last[1]) == len(tokens) else list(compress(tokens, self._samples))

    def open(self) -> None:
        """Spread out what is packed, to look texts up one by one."""
        lines = compress(array("q", self._last[0]), self._samples)
        self.young = dict(zip(lines, self._last[1].tolist(), strict=True))
        for packed, into in zip(self._rest, (self.young, self.old), strict=True):
            into.update(zip(array("q", packed[0]), packed[1].tolist(), strict=True))

    def close(self, live: int, hashes: bytes, lines: list[int | None] | None) -> None:
        """After a scrape of `live` samples: forget when churn has piled up more than the scrape can explain, and pack.

        `lines` are the rows of the scrape's lines, None where one is no sample; None for them all when one of them
        says something that its text alone does not.
        """
        if len(self.young) > max(self.limit, 2 * live):
            self.old, self.young = self.young, {}
            self.rotations += 1
        self._last, self._samples = _NOTHING, b""
        if lines is not None:
            rows = [row for row in lines if row is not None]
            self._last = (hashes, np.array(rows, dtype=np.int32))
            self._samples = bytes([row is not None for row in lines])
            for key in compress(array("q", hashes), self._samples):
                self.young.pop(key, None)
        self._rest = (_packed(self.young), _packed(self.old))
        self.young, self.old = {}, {}

    def recall(self, series: bytes) -> int | None:
        row = self.old.pop(hash(series), None) if self.old else None
        if row is not None:
            self.young[hash(series)] = row
        return row

    def put(self, series: bytes, row: int) -> None:
        self.young[hash(series)] = row

    def clear(self) -> None:
        self._last, self._samples, self._rest = _NOTHING, b"", (_NOTHING, _NOTHING)


def _packed(rows: dict[int, int]) -> Packed:
    return (array("q", rows).tobytes(), np.array(list(rows.values()), dtype=np.int32)) if rows else _NOTHING
