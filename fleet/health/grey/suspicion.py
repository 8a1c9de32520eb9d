"""From distances to suspicion.

Decides that a part is suspect when measures of at least two domains were bad in at least four of five looks and one of
them is a sign of its own: a domain that no load explains, or the look of the one that all others wait for, in a gang
that slowed down when this part began to differ. It no longer is after five looks in which it was judged and well. The
course of a whole node (`patterns`) may stand in for one of the domains, never for the sign. Refuses a verdict by
itself: a suspicion is passive evidence and asks for an active test, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.health.grey.measures import CAPPED, MORE_POWER, OWN, SAME_WORK, TENSOR, Measure, places
from fleet.health.grey.peers import Bools, Distances

LOOKS, ENOUGH, NEEDED_DOMAINS = 5, 4, 2
STEADY = 10  # looks like its peers before a change counts as one
ONSET = 10  # looks by which a part may begin to differ before its gang is known to have slowed down
_ALL = (1 << LOOKS) - 1
_ONES = np.array([bin(i).count("1") for i in range(_ALL + 1)], dtype=np.uint8)
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Said:
    """One measure that speaks against a part."""

    name: str
    unit: str
    domain: str
    value: float
    peers: float
    z: float


class Suspicion:
    """Remembers the last looks of every part. `take` tells who became suspect and who no longer is."""

    def __init__(self, measures: tuple[Measure, ...]) -> None:
        self.measures = measures
        self._domains = {measure.domain: places(measures, measure.domain) for measure in measures}
        self._bits = np.zeros((len(measures), 0), dtype=np.uint8)
        self._own = np.zeros(0, dtype=np.uint8)
        self._good = np.zeros(0, dtype=np.uint8)
        self._onset = np.zeros(0, dtype=np.int64)  # the look in which it began to differ, -1: not seen to begin
        self.suspect = np.zeros(0, dtype=bool)
        self.looks = 0

    def take(
        self, found: Distances, patterns: Bools | None = None, slow_since: Indices | None = None
    ) -> tuple[Indices, Indices]:
        """Places of parts that became suspect, and of those that are cleared.

        `patterns` is measures by parts: the course of its node stands out. `slow_since` is, per part, the look in which
        its gang was first seen to be slower than before, -1 where it is not.
        """
        self.grow(found.bad.shape[1])
        self.looks += 1
        seen: Bools = np.any(found.judged, axis=0)
        any_bad: Bools = np.any(found.bad, axis=0)
        self._begin(seen, any_bad)
        own = own_signs(found, self.measures)
        slowed = np.zeros(len(seen), dtype=bool)
        if slow_since is not None:
            slowed = any_bad & (slow_since >= 0) & (self._onset >= slow_since - ONSET)
            slowed &= own | waited_for(found, self.measures)
        # A look that judged nothing is none.
        self._bits = np.where(seen, ((self._bits << 1) | found.bad) & _ALL, self._bits).astype(np.uint8)
        self._own = np.where(seen, ((self._own << 1) | own | slowed) & _ALL, self._own).astype(np.uint8)
        lasting = self._lasting(patterns)
        domains = sum(lasting[of].any(axis=0).astype(np.int64) for of in self._domains.values())
        domains += slowed  # that its gang slowed down with it is an observation of its own
        well = seen & ~any_bad
        self._good = np.where(
            well, np.minimum(self._good + 1, max(LOOKS, STEADY)), np.where(seen, 0, self._good)
        ).astype(np.uint8)
        fresh = ~self.suspect & (domains >= NEEDED_DOMAINS) & (_ONES[self._own] >= ENOUGH)
        over = self.suspect & (self._good >= LOOKS)
        self.suspect = (self.suspect | fresh) & ~over
        return np.flatnonzero(fresh), np.flatnonzero(over)

    def _begin(self, seen: Bools, any_bad: Bools) -> None:
        """Who differs for the first time after it was like its peers for long enough."""
        turned = seen & any_bad & (self._good > 0)
        self._onset[turned] = np.where(self._good[turned] >= STEADY, self.looks, -1)

    def _lasting(self, patterns: Bools | None) -> Bools:
        lasting: Bools = _ONES[self._bits] >= ENOUGH
        return lasting if patterns is None else lasting | patterns

    def grow(self, size: int) -> None:
        more = size - self._bits.shape[1]
        if more > 0:
            self._bits = np.concatenate([self._bits, np.zeros((len(self.measures), more), np.uint8)], axis=1)
            self._own = np.concatenate([self._own, np.zeros(more, np.uint8)])
            self._good = np.concatenate([self._good, np.zeros(more, np.uint8)])
            self._onset = np.concatenate([self._onset, np.full(more, -1, np.int64)])
            self.suspect = np.concatenate([self.suspect, np.zeros(more, dtype=bool)])

    def differs(self) -> Indices:
        """Places of parts with anything bad in the last looks, or suspect."""
        return np.flatnonzero(self._bits.any(axis=0) | self.suspect)

    def said(self, found: Distances, place: int) -> list[Said]:
        """The measures that last against one part, the farthest first."""
        lasting = np.flatnonzero(_ONES[self._bits[:, place]] >= ENOUGH)
        told = [
            Said(
                self.measures[m].name,
                self.measures[m].unit,
                self.measures[m].domain,
                float(found.value[m, place]),
                float(found.centre[m, place]),
                float(found.z[m, place]),
            )
            for m in lasting.tolist()
        ]
        return sorted(told, key=lambda said: -abs(said.z))


def own_signs(found: Distances, measures: tuple[Measure, ...]) -> Bools:
    """Parts that are bad in a way that no load explains."""
    signs = places(measures, *(OWN - {"clock", "thermal"}))
    own: Bools = np.any(found.bad[signs], axis=0)
    clock, thermal, power = (places(measures, domain) for domain in ("clock", "thermal", "power"))
    if clock:
        with np.errstate(invalid="ignore"):
            heavier = np.any(found.value[power] > (1 + MORE_POWER) * found.centre[power], axis=0)
            broken = np.any(found.bad[clock] & (found.value[clock] < CAPPED * found.centre[clock]), axis=0)
        own |= broken | (np.any(found.bad[[*clock, *thermal]], axis=0) & ~heavier)
    return own


def waited_for(found: Distances, measures: tuple[Measure, ...]) -> Bools:
    """Parts that look like the one all others wait for: they compute more than their peers, which spin; or they draw
    less power for the same work, because they wait for something that is no peer (their memory, PCIe, their data)."""
    compute, power = places(measures, "compute"), places(measures, "power")
    if not compute:
        return np.zeros(found.bad.shape[1], dtype=bool)
    more: Bools = np.any(found.bad[compute] & (found.z[compute] > 0), axis=0)
    tensor = [place for place, measure in enumerate(measures) if measure.name == TENSOR]
    with np.errstate(invalid="ignore"):
        same = np.all(np.abs(found.value[tensor] / found.centre[tensor] - 1) < SAME_WORK, axis=0)
    idle: Bools = np.any(found.bad[power] & (found.z[power] < 0), axis=0)
    return more | (idle & same)
