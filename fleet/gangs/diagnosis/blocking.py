"""The nodes whose return would start a gang.

Decides the fewest (for members of one kind), those that bring most first, and of equal ones those that are expected
back first. Refuses to name any where even all of them together would not do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.rooms import Ints, Mask, Out
from fleet.gangs.diagnosis.starting import Starter, level_of
from fleet.gangs.form import Gang
from fleet.ports.gangs import Need

TRIED_AT_MOST = 400  # nodes looked at for gangs of several kinds or inside a domain; the rest bring less


@dataclass(frozen=True, slots=True)
class Blocker:
    node: str
    members: int  # of the gang's largest kind that would fit on it
    out: Out | None  # None: in service, with fewer GPUs than it should have


def blockers(starter: Starter, gang: Gang, space: Space) -> tuple[Blocker, ...]:
    need, _ = max(starter.asks(gang), key=lambda ask: (ask[0].gpus, ask[1]))
    gain = gains(starter, need, space)
    kinds = {(missing.need, missing.bound) for missing in gang.missing if missing.need is not None}
    if len(kinds) == 1:
        chosen = _fewest(starter, gang, space, _ordered(starter, gain), gain)
    else:
        others = sum(gains(starter, other, space) for other in {kind for kind, _ in kinds if kind != need})
        chosen = _tried(starter, gang, space, _ordered(starter, gain, others)[:TRIED_AT_MOST])
    rows = starter.rooms.rows
    return tuple(Blocker(rows[n].node, int(gain[n]), rows[n].out) for n in chosen)


def gains(starter: Starter, need: Need, space: Space) -> Ints:
    """Members that each node that is out (or short of GPUs) would hold more, were it back and whole."""
    rooms = starter.rooms
    repairable: Mask = ~space.usable
    for name, column in rooms.whole.items():
        repairable = repairable | (column > rooms.free[name])
    mask = starter.eligibility.of(need)
    back = space.returned(rooms, repairable)
    return np.where(repairable, back.slots(need, mask) - space.slots(need, mask), 0)


def _ordered(starter: Starter, gain: Ints, others: Ints | int = 0) -> list[int]:
    """Those that bring something, most of it first. `others`: what they bring of the smaller kinds."""
    rows, besides = starter.rooms.rows, np.zeros_like(gain) + others

    def rank(n: int) -> tuple[int, int, float, str]:
        out = rows[n].out
        back = out.back_at.timestamp() if out is not None and out.back_at is not None else float("inf")
        return -int(gain[n]), -int(besides[n]), back, rows[n].node

    return sorted((int(n) for n in np.flatnonzero(gain + besides > 0)), key=rank)


def _fewest(starter: Starter, gang: Gang, space: Space, candidates: list[int], gain: Ints) -> list[int]:
    """For members of one kind: a division per node, in the domain that needs the fewest where they must share one."""
    asks = starter.asks(gang)
    need, count = asks[0][0], sum(many for _, many in asks)
    slots = space.slots(need, starter.eligibility.of(need))
    if not level_of(gang):
        return _until(candidates, gain, count - int(slots.sum()))
    everywhere = space.returned(starter.rooms, candidates)
    found = [
        _until([n for n in candidates if domain[n]], gain, count - int(slots[domain].sum()))
        for _, domain in starter.domains(gang, everywhere)
    ]
    return min((chosen for chosen in found if chosen), key=len, default=[])


def _until(candidates: list[int], gain: Ints, lacking: int) -> list[int]:
    chosen = []
    for n in candidates:
        if lacking <= 0:
            break
        chosen.append(n)
        lacking -= int(gain[n])
    return chosen if lacking <= 0 else []


def _tried(starter: Starter, gang: Gang, space: Space, candidates: list[int]) -> list[int]:
    """The shortest beginning of the list that does, less what turns out not to be needed."""

    def does(some: list[int]) -> bool:
        return starter.could(gang, space.returned(starter.rooms, some))

    low, high = 1, len(candidates)
    if not candidates or not does(candidates):
        return []
    while low < high:
        middle = (low + high) // 2
        if does(candidates[:middle]):
            high = middle
        else:
            low = middle + 1
    chosen = candidates[:low]
    for n in list(reversed(chosen)):
        rest = [other for other in chosen if other != n]
        if rest and does(rest):
            chosen = rest
    return chosen
