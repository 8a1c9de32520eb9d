"""Answers to what-ifs out of a board.

Decides what of an answer is named and how much. Refuses to change the board: every imagined world is a copy; and names
that it does not know: they are told back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fleet.gangs.board import Board
from fleet.gangs.diagnosis import whatif
from fleet.gangs.diagnosis.fragmentation import SIZES, scatter
from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.diagnosis.whatif import WhatIf
from fleet.gangs.questions import NAMED_AT_MOST, QUESTIONS_AT_MOST, Answer, Domain, Loses, Named, Question, Room

DOMAINS_AT_MOST = 400
LEVELS = ("rack", "leaf", "nvlink", "rail", "zone", "block", "topology")
"""A label whose key has one of these words in its last part may be a level of the topology."""
VALUES_AT_LEAST = 2


def answer(board: Board, questions: Sequence[Question], out_of_time: Callable[[], bool]) -> tuple[Answer, ...]:
    """In the order of the questions. Those for which no time is left are told as late."""
    return tuple(
        Answer(late=True) if out_of_time() else _one(board, question) for question in questions[:QUESTIONS_AT_MOST]
    )


def _one(board: Board, question: Question) -> Answer:
    rooms = board.starter.rooms
    if question.kind == "room":
        return Answer(room=_room(board, question.level))
    if question.kind == "suspend":
        gang = board.gangs.get(question.gang)
        if gang is None:
            return Answer(unknown=(question.gang,))
        found = whatif.suspending(board.starter, board.space, board.turns, gang)
        return _told(board, found, whatif.release(rooms, board.space, gang))
    known = [node for node in question.nodes if node in rooms.index]
    unknown = tuple(node for node in question.nodes if node not in rooms.index)
    if not known:
        return Answer(unknown=unknown)
    places = rooms.places(known)
    if question.kind == "return":
        found = whatif.returning(board.starter, board.space, board.turns, known, board.starting)
        return _told(board, found, board.space.returned(rooms, places), unknown)
    found = whatif.draining(board.starter, board.space, board.turns, board.gangs.values(), known, board.starting)
    return _told(board, found, board.space.without(places), unknown)


def _told(board: Board, found: WhatIf, then: Space, unknown: tuple[str, ...] = ()) -> Answer:
    free, whole = _headroom(board.starter.rooms, then)
    return Answer(
        unknown=unknown,
        starts=_named(board, found.starts),
        starts_count=len(found.starts),
        no_longer=_named(board, found.no_longer),
        no_longer_count=len(found.no_longer),
        broken=tuple(
            Loses(one.key, board.gangs[one.key].title, one.loses, one.left, one.minimum, one.breaks, one.again)
            for one in found.broken[:NAMED_AT_MOST]
        ),
        gpus=found.gpus,
        free=free,
        whole=whole,
    )


def _named(board: Board, keys: Sequence[str]) -> tuple[Named, ...]:
    gangs = [board.gangs[key] for key in keys[:NAMED_AT_MOST]]
    return tuple(Named(gang.key, gang.title, gang.gpus_wanted) for gang in gangs)


def _headroom(rooms: Rooms, space: Space) -> tuple[int, int]:
    """Free GPUs on nodes in service, and nodes of which every GPU is free."""
    free = whole = 0
    for name, column in space.gpus.items():
        there = np.where(space.usable, np.maximum(column, 0), 0)
        free += int(there.sum())
        whole += int(((there > 0) & (there >= rooms.capacity[name])).sum())
    return free, whole


def _room(board: Board, level: str) -> Room | None:
    """Of the kind of device that there is most of; None without any."""
    rooms = board.starter.rooms
    totals = {name: int(column.sum()) for name, column in rooms.capacity.items()}
    if not any(totals.values()):
        return None
    levels = levels_of(rooms)
    chosen = level if level in levels else (levels[0] if levels else "")
    found = scatter(rooms, board.space, chosen, max(totals, key=lambda name: totals[name]))
    domains = sorted(found.domains, key=lambda one: (-one.free_gpus, one.name))[:DOMAINS_AT_MOST]
    return Room(
        resource=found.resource,
        free=found.free_gpus,
        total=found.total_gpus,
        partly_used=found.partly_used,
        sizes=SIZES,
        slots=found.slots,
        packed=found.packed_slots,
        domains=tuple(Domain(one.name, one.nodes, one.free_gpus, one.slots) for one in domains),
        histogram=found.histogram,
        levels=(chosen, *(one for one in levels if one != chosen)) if chosen else (),
    )


def levels_of(rooms: Rooms) -> list[str]:
    """Label keys that look like a level of the topology and part the nodes, the nearest to the rack first."""
    keys = {key for room in rooms.rows for key in room.labels}
    ranked = []
    for key in keys:
        last = key.rsplit("/", 1)[-1].lower()
        place = next((n for n, word in enumerate(LEVELS) if word in last), None)
        if place is None or key.startswith("kubernetes.io/hostname"):
            continue
        if VALUES_AT_LEAST <= len(rooms.values(key)) < len(rooms.rows):
            ranked.append((place, key))
    return [key for _, key in sorted(ranked)]
