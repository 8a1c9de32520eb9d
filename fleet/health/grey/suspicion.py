"""From distances to suspicion.

Decides that a GPU is suspect when measures of at least two domains were bad in at least four of five looks, and that
it no longer is after five looks in which it was judged and well. Refuses a verdict by itself: a suspicion is passive
evidence and asks for an active test, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.health.grey.measures import DOMAINS, MEASURES
from fleet.health.grey.peers import Distances

LOOKS, ENOUGH, NEEDED_DOMAINS = 5, 4, 2
_ALL = (1 << LOOKS) - 1
_ONES = np.array([bin(i).count("1") for i in range(_ALL + 1)], dtype=np.uint8)
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Said:
    """One measure that speaks against a GPU."""

    name: str
    unit: str
    domain: str
    value: float
    peers: float
    z: float


class Suspicion:
    """Remembers the last looks of every GPU. `take` tells who became suspect and who no longer is."""

    def __init__(self) -> None:
        self._bits = np.zeros((len(MEASURES), 0), dtype=np.uint8)
        self._good = np.zeros(0, dtype=np.uint8)
        self.suspect = np.zeros(0, dtype=bool)

    def take(self, found: Distances) -> tuple[Indices, Indices]:
        """Places of GPUs that became suspect, and of those that are cleared."""
        self.grow(found.bad.shape[1])
        seen = found.judged.any(axis=0)
        shifted = ((self._bits << 1) | found.bad) & _ALL
        self._bits = np.where(seen, shifted, self._bits).astype(np.uint8)  # a look that judged nothing is none
        lasting = _ONES[self._bits] >= ENOUGH
        domains = np.zeros(lasting.shape[1], dtype=np.int64)
        for domain in DOMAINS:
            domains += lasting[[m.domain == domain for m in MEASURES]].any(axis=0)
        well = seen & ~found.bad.any(axis=0)
        self._good = np.where(well, np.minimum(self._good + 1, LOOKS), np.where(seen, 0, self._good)).astype(np.uint8)
        fresh = ~self.suspect & (domains >= NEEDED_DOMAINS)
        over = self.suspect & (self._good >= LOOKS)
        self.suspect = (self.suspect | fresh) & ~over
        return np.flatnonzero(fresh), np.flatnonzero(over)

    def grow(self, size: int) -> None:
        more = size - self._bits.shape[1]
        if more > 0:
            self._bits = np.concatenate([self._bits, np.zeros((len(MEASURES), more), np.uint8)], axis=1)
            self._good = np.concatenate([self._good, np.zeros(more, np.uint8)])
            self.suspect = np.concatenate([self.suspect, np.zeros(more, dtype=bool)])

    def said(self, found: Distances, place: int) -> list[Said]:
        """The measures that last against one GPU, the farthest first."""
        lasting = np.flatnonzero(_ONES[self._bits[:, place]] >= ENOUGH)
        told = [
            Said(
                MEASURES[m].name,
                MEASURES[m].unit,
                MEASURES[m].domain,
                float(found.value[m, place]),
                float(found.centre[m, place]),
                float(found.z[m, place]),
            )
            for m in lasting.tolist()
        ]
        return sorted(told, key=lambda said: -abs(said.z))
