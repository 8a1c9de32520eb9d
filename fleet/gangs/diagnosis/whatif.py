"""What would change if: a node came back, a node were drained, a gang were suspended.

Decides by playing the queues in their own order in the imagined world and in the present one, and telling the
difference. Says "would fit", never "will start": quotas, preemption and what arrives meanwhile are its scheduler's.
Refuses to start what waits for something other than room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fleet.gangs.diagnosis.order import Turn
from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.rooms import Ints, Mask, Rooms
from fleet.gangs.diagnosis.starting import Starter, topologies
from fleet.gangs.diagnosis.together import together
from fleet.gangs.form import Gang, Missing
from fleet.ports.gangs import Need

TOGETHER_AT_MOST = 20  # gangs of one play for which those before them are laid anew


@dataclass(frozen=True, slots=True)
class Broken:
    """A gang that a drain takes members from. `again`: what it lacks then would fit elsewhere at once."""

    key: str
    loses: int
    left: int
    minimum: int
    again: bool

    @property
    def breaks(self) -> bool:
        return self.left < self.minimum


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Keys in the order of their start. `gpus` come free by it (drain: are lost)."""

    starts: tuple[str, ...] = ()
    no_longer: tuple[str, ...] = ()
    broken: tuple[Broken, ...] = ()
    gpus: int = 0


def play(starter: Starter, space: Space, turns: Iterable[Turn]) -> list[str]:
    """Who fits beside those before it, wherever these would have to lie for it (in large cases: where they lie first).
    A queue with strict order ends at its first that does not."""
    stopped: set[str] = set()
    inside: list[Gang] = []
    failed: set[Hashable] = set()  # the room only shrinks: what did not fit will not
    empty, tries = space, TOGETHER_AT_MOST
    for turn in turns:
        gang = turn.gang
        if turn.queue in stopped:
            continue
        like, after = starter.like(gang), None
        if turn.by_room and like not in failed and starter.judged(gang):
            after = starter.start(gang, space)
            if after is None and inside and tries:
                tries -= 1
                after = together(starter, empty, [*inside, gang])
        if after is not None:
            space = after
            inside.append(gang)
            continue
        if turn.by_room:
            failed.add(like)
        if turn.head_blocks:
            stopped.add(turn.queue)
    return [gang.key for gang in inside]


def returning(
    starter: Starter, space: Space, turns: Sequence[Turn], nodes: Iterable[str], before: Sequence[str] | None = None
) -> WhatIf:
    """Those nodes back in service and whole. `before`: who starts as it is, where that is known."""
    rooms = starter.rooms
    places = rooms.places(nodes)
    back = space.returned(rooms, places)
    gained = sum(
        int((_offered(column, back.usable) - _offered(space.gpus[name], space.usable))[places].sum())
        for name, column in back.gpus.items()
    )
    return _difference(starter, space, back, turns, before, gpus=gained)


def draining(
    starter: Starter,
    space: Space,
    turns: Sequence[Turn],
    gangs: Iterable[Gang],
    nodes: Iterable[str],
    before: Sequence[str] | None = None,
) -> WhatIf:
    """Those nodes out of service: who loses members, who could form again elsewhere, who would fit no longer."""
    gone = set(nodes)
    places = starter.rooms.places(gone)
    rest = space.without(places)
    broken = tuple(_broken(starter, rest, gang, gone) for gang in gangs if gone.intersection(gang.nodes))
    lost = sum(int((column[places] * space.usable[places]).sum()) for column in space.gpus.values())
    return _difference(starter, space, rest, turns, before, broken=broken, gpus=lost)


def suspending(starter: Starter, space: Space, turns: Sequence[Turn], gang: Gang) -> WhatIf:
    """All members of one gang gone: what that frees, and who would fit then."""
    freed = release(starter.rooms, space, gang)
    others = [turn for turn in turns if turn.gang.key != gang.key]
    return _difference(starter, space, freed, others, gpus=gang.gpus_held)


def release(rooms: Rooms, space: Space, gang: Gang) -> Space:
    """The world without the members of a gang."""
    freed = space.copy()
    for member in gang.members:
        place, need = rooms.index.get(member.node, -1), member.need
        if place < 0:
            continue
        if need.resource in freed.gpus:
            freed.gpus[need.resource][place] += need.gpus
        freed.cpu[place] += need.cpu_millis
        freed.memory[place] += need.memory_mib
    for place in rooms.places(gang.nodes):
        freed.idle[place] |= _nothing_left(rooms, freed, place)
    return freed


def _nothing_left(rooms: Rooms, space: Space, place: int) -> bool:
    row = rooms.rows[place]
    used = sum(count - int(space.gpus[name][place] - rooms.free[name][place]) for name, count in row.used)
    return used <= 0 and row.cpu_used <= int(space.cpu[place] - rooms.cpu[place])


def _offered(free: Ints, usable: Mask) -> Ints:
    return np.where(usable, np.maximum(free, 0), 0)


def _broken(starter: Starter, rest: Space, gang: Gang, gone: set[str]) -> Broken:
    """With fewer than it lost it would be smaller than it was, so all of them are looked for, and what it lacks now."""
    lost: Counter[tuple[Need, str]] = Counter((m.need, m.role) for m in gang.members if m.node in gone and not m.ending)
    said = topologies(gang)
    lacks = [Missing(need, n, role, said.get(role, said.get(""))) for (need, role), n in lost.items()]
    stays = tuple(m for m in gang.members if m.node not in gone)
    after = replace(gang, missing=(*lacks, *gang.missing), members=stays)
    loses = sum(lost.values())
    again = not after.missing or (starter.judged(after) and starter.could(after, rest))
    return Broken(gang.key, loses, gang.placed - loses, gang.minimum, again)


def _difference(
    starter: Starter,
    now: Space,
    then: Space,
    turns: Sequence[Turn],
    before: Sequence[str] | None = None,
    *,
    broken: tuple[Broken, ...] = (),
    gpus: int = 0,
) -> WhatIf:
    if before is None:
        before = play(starter, now, turns)
    after = play(starter, then, turns)
    earlier, later = set(before), set(after)
    return WhatIf(
        starts=tuple(key for key in after if key not in earlier),
        no_longer=tuple(key for key in before if key not in later),
        broken=broken,
        gpus=gpus,
    )
