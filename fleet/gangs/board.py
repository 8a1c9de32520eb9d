"""All gangs of a cluster with the reason of each that waits: what pages and the what-ifs are made from.

Decides that reasons are found in queue order, so that a gang knows who is ahead of it, and that equal asks are judged
once. Refuses to keep anything between two calls but what the roster keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from fleet.gangs.diagnosis.answers import Answers
from fleet.gangs.diagnosis.order import Turn, turns
from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.reasons import Reason, judge
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.diagnosis.starting import Starter
from fleet.gangs.diagnosis.whatif import play
from fleet.gangs.form import Gang
from fleet.gangs.queues import Queues
from fleet.ports.gangs import QueueObject

AHEAD_AT_MOST = 20  # gangs named as being in front


@dataclass(frozen=True)
class Board:
    gangs: Mapping[str, Gang]
    queues: Queues
    queue_keys: Mapping[str, str]  # gang -> its queue
    reasons: Mapping[str, Reason]  # of all that wait or start
    turns: tuple[Turn, ...]
    positions: Mapping[str, int]  # gang -> place in its queue, from 0
    answers: Answers

    @property
    def starter(self) -> Starter:
        return self.answers.starter

    @property
    def space(self) -> Space:
        return self.answers.space

    @cached_property
    def starting(self) -> tuple[str, ...]:
        """Waiting gangs that would fit as it is, in the order of their start: what every what-if compares with."""
        return tuple(play(self.starter, self.space, self.turns))

    @property
    def held_idle(self) -> list[Gang]:
        """Gangs that hold GPUs for nothing, the most first."""
        return sorted((g for g in self.gangs.values() if g.gpus_held_idle), key=lambda g: (-g.gpus_held_idle, g.key))


def read(gangs: Mapping[str, Gang], queues: Iterable[QueueObject], rooms: Rooms, before: Board | None = None) -> Board:
    """`before` is the board of the last moment: what of it still holds is not worked out again."""
    found = Queues(queues)
    keys, objects = found.homes(gangs.values())
    answers = Answers.after(before.answers if before else None, rooms)
    line = turns(gangs.values(), objects, keys)
    in_front: dict[str, list[str]] = {}
    positions: dict[str, int] = {}
    reasons: dict[str, Reason] = {}
    for turn in line:
        ahead = in_front.setdefault(turn.queue, [])
        positions[turn.gang.key] = len(ahead)
        told = next((one.ahead for one in turn.gang.objects if one.ahead), "")
        named = [told] if told else ahead[-AHEAD_AT_MOST:]
        reasons[turn.gang.key] = judge(turn.gang, answers, objects.get(turn.queue), named)
        ahead.append(turn.gang.key)
    for gang in gangs.values():
        if gang.state in ("starting", "suspended"):
            reasons[gang.key] = judge(gang, answers, objects.get(keys[gang.key]))
    again = tuple(turn.judged_by(reasons[turn.gang.key]) for turn in line)
    return Board(gangs, found, keys, reasons, again, positions, answers)
