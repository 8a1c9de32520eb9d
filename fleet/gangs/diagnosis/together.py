"""Whether several gangs have room at once, wherever each of them must lie for that.

Decides by every choice of a topology domain for those that require one, and for each by all members at once. Refuses
what is too large to try: there the first place that was found for each counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from fleet.gangs.diagnosis.packing import Bounded, Space, put
from fleet.gangs.diagnosis.rooms import Mask
from fleet.gangs.diagnosis.starting import Starter, level_of
from fleet.gangs.form import Gang
from fleet.ports.gangs import Need

CHOICES_AT_MOST = 64  # of domains
STATES_AT_MOST = 2_000  # nodes times ways to share them


def together(starter: Starter, space: Space, gangs: Sequence[Gang]) -> Space | None:
    """The world with all of them in it, None where there is none or it was not looked for."""
    last = gangs[-1]
    if not starter.could(last, space):
        return None
    kinds = Counter(need for gang in gangs for need, count in starter.asks(gang) for _ in range(count))
    if int(space.usable.sum()) * prod(count + 1 for count in kinds.values()) > STATES_AT_MOST:
        return None
    for asks in _choices(starter, space, gangs):
        after = put(space, asks)
        if after is not None:
            return after
    return None


def _choices(starter: Starter, space: Space, gangs: Sequence[Gang]) -> Iterator[list[Bounded]]:
    everywhere = np.ones(len(starter.rooms.names), np.bool_)
    domains: list[list[Mask]] = [
        [mask for _, mask in starter.domains(gang, space)] if level_of(gang) else [everywhere] for gang in gangs
    ]
    if prod(map(len, domains)) > CHOICES_AT_MOST:
        return
    for chosen in product(*domains):
        yield _merged(ask for gang, domain in zip(gangs, chosen, strict=True) for ask in starter.inside(gang, domain))


def _merged(asks: Iterator[Bounded]) -> list[Bounded]:
    """Members of one need that may use the same nodes are one kind, whoever's they are."""
    counts: dict[tuple[Need, bytes], int] = {}
    masks: dict[tuple[Need, bytes], Mask] = {}
    for need, count, mask in asks:
        kind = need, mask.tobytes()
        masks[kind] = mask
        counts[kind] = counts.get(kind, 0) + count
    return [(need, count, masks[need, key]) for (need, key), count in counts.items()]
