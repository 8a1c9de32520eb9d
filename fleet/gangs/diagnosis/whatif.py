"""What would change if: a node came back, a node were drained, a gang were suspended.

Decides by playing the queues in their own order in the imagined world and in the present one, and telling the
difference. Says "would fit", never "will start": quotas, preemption and what arrives meanwhile are its scheduler's.
Refuses to start what waits for something other than room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet.gangs.diagnosis.order import Turn
from fleet.gangs.diagnosis.packing import Space, fits
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.diagnosis.starting import Starter, level_of
from fleet.gangs.form import Gang
from fleet.ports.gangs import Need


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
    """Who fits, each taking its room from those after it. A queue with strict order ends at its first that does not."""
    started: list[str] = []
    stopped: set[str] = set()
    failed: set[tuple[object, ...]] = set()  # the room only shrinks: what did not fit will not
    for turn in turns:
        gang = turn.gang
        if turn.queue in stopped:
            continue
        like = (tuple(starter.asks(gang)), level_of(gang), gang.nodes if level_of(gang) else ())
        after = None
        if turn.by_room and like not in failed and starter.judged(gang):
            after = starter.start(gang, space)
        if after is not None:
            space = after
            started.append(gang.key)
            continue
        if turn.by_room:
            failed.add(like)
        if turn.head_blocks:
            stopped.add(turn.queue)
    return started


def returning(starter: Starter, space: Space, turns: Sequence[Turn], nodes: Iterable[str]) -> WhatIf:
    """Those nodes back in service and whole."""
    rooms = starter.rooms
    places = rooms.places(nodes)
    back = space.returned(rooms, places)
    gained = sum(
        int((column[places] * back.usable[places] - space.gpus[name][places] * space.usable[places]).sum())
        for name, column in back.gpus.items()
    )
    return _difference(starter, space, back, turns, gpus=gained)


def draining(
    starter: Starter, space: Space, turns: Sequence[Turn], gangs: Iterable[Gang], nodes: Iterable[str]
) -> WhatIf:
    """Those nodes out of service: who loses members, who could form again elsewhere, who would fit no longer."""
    gone = set(nodes)
    places = starter.rooms.places(gone)
    rest = space.without(places)
    broken = tuple(_broken(starter, rest, gang, gone) for gang in gangs if gone.intersection(gang.nodes))
    lost = sum(int((column[places] * space.usable[places]).sum()) for column in space.gpus.values())
    return _difference(starter, space, rest, turns, broken=broken, gpus=lost)


def suspending(starter: Starter, space: Space, turns: Sequence[Turn], gang: Gang) -> WhatIf:
    """All members of one gang gone: what that frees, and who would fit then."""
    freed = release(starter.rooms, space, gang)
    others = [turn for turn in turns if turn.gang.key != gang.key]
    return _difference(starter, space, freed, others, gpus=gang.gpus_held)


def release(rooms: Rooms, space: Space, gang: Gang) -> Space:
    """The world without the members of a gang."""
    freed = space.copy()
    held: Counter[int] = Counter()
    for member in gang.members:
        place = rooms.index.get(member.node, -1)
        if place < 0:
            continue
        need = member.need
        held[place] += need.gpus
        if need.resource in freed.gpus:
            freed.gpus[need.resource][place] += need.gpus
        freed.cpu[place] += need.cpu_millis
        freed.memory[place] += need.memory_mib
    for place, gpus in held.items():
        freed.idle[place] |= sum(count for _, count in rooms.rows[place].used) <= gpus
    return freed


def _broken(starter: Starter, rest: Space, gang: Gang, gone: set[str]) -> Broken:
    lost: Counter[Need] = Counter(m.need for m in gang.members if m.node in gone and not m.ending)
    loses = sum(lost.values())
    again = fits(rest, list(lost.items()), starter.eligibility)
    return Broken(gang.key, loses, gang.placed - loses, gang.minimum, again)


def _difference(
    starter: Starter, now: Space, then: Space, turns: Sequence[Turn], *, broken: tuple[Broken, ...] = (), gpus: int = 0
) -> WhatIf:
    before, after = play(starter, now, turns), play(starter, then, turns)
    return WhatIf(
        starts=tuple(key for key in after if key not in set(before)),
        no_longer=tuple(key for key in before if key not in set(after)),
        broken=broken,
        gpus=gpus,
    )
