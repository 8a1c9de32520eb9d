"""How well and how strictly caps were used, told afterwards from the claims that were granted.

Decides, for each cap in each of its scopes, the most claims that were open at one moment, and for how long a slot was
free although somebody who was ready might have had it. Pure: intervals in, numbers out. Refuses to count a slot as
empty that another cap kept from everybody who waited.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Key = tuple[str, str]  # scope and name, e.g. ("rack", "r07")


@dataclass(frozen=True, slots=True)
class Asked:
    """One claim from wish to release, in seconds; `granted` None: never. `released` is the end of what was watched
    where it is held still."""

    keys: tuple[Key, ...]
    ready: float
    granted: float | None
    released: float = 0.0


@dataclass(slots=True)
class Use:
    """`empty` are the times, in seconds, for which a scope had a wanted slot free; `busy` and `idle` slot-seconds."""

    empty: list[float] = field(default_factory=list)
    busy: float = 0.0
    idle: float = 0.0

    @property
    def share(self) -> float:
        return self.busy / (self.busy + self.idle) if self.busy + self.idle else 1.0


def most_at_once(asked: Iterable[Asked]) -> dict[Key, int]:
    """The high-water mark of each scope. What is released at a moment is free at that moment."""
    changes = [
        (at, step, key)
        for one in asked
        if one.granted is not None
        for at, step in ((one.granted, 1), (one.released, -1))
        for key in one.keys
    ]
    now: Counter[Key] = Counter()
    most: dict[Key, int] = {}
    for _, step, key in sorted(changes, key=lambda change: change[:2]):
        now[key] += step
        most[key] = max(most.get(key, 0), now[key])
    return most


def use(asked: Sequence[Asked], limits: Mapping[Key, int], scope: str, until: float) -> Use:
    """What the slots of `scope` were used for, from the first grant to `until`."""
    grants = [one.granted for one in asked if one.granted is not None]
    if not grants:
        return Use()
    moments = sorted({at for one in asked for at in (one.ready, one.granted, one.released) if at})
    moments = [at for at in moments if min(grants) <= at < until] + [until]
    found, since = Use(), dict[Key, float]()
    for now, then in itertools.pairwise(moments):
        used = Counter(key for one in asked if _holds(one, now) for key in one.keys)
        free = _could_begin((one for one in asked if _waits(one, now)), used, limits, scope)
        found.busy += (then - now) * sum(_holds(one, now) for one in asked)
        found.idle += (then - now) * sum(free.values())
        for key in free:
            since.setdefault(key, now)
        for key in [key for key in since if key not in free]:
            found.empty.append(now - since.pop(key))
    found.empty += [until - at for at in since.values()]
    return found


def _holds(one: Asked, now: float) -> bool:
    return one.granted is not None and one.granted <= now < one.released


def _waits(one: Asked, now: float) -> bool:
    return one.ready <= now and (one.granted is None or now < one.granted)


def _could_begin(waiting: Iterable[Asked], used: Counter[Key], limits: Mapping[Key, int], scope: str) -> Counter[Key]:
    """How many more could have been granted now in each key of `scope`, all caps kept."""
    found: Counter[Key] = Counter()
    for one in sorted(waiting, key=lambda one: one.ready):
        if all(used[key] < limits[key] for key in one.keys if key in limits):
            used.update(one.keys)
            found.update(key for key in one.keys if key[0] == scope)
    return found
