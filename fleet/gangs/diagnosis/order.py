"""In which order waiting gangs get their turn.

Decides as their schedulers do: inside a queue by the position that the system tells, else by priority and then by age;
between queues by the priority and age of each queue's next. Refuses to give a turn for room to a gang that waits for
something else.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fleet.gangs.diagnosis.reasons import Reason
from fleet.gangs.form import Gang
from fleet.ports.gangs import QueueObject, ReasonCode

BY_ROOM: frozenset[ReasonCode] = frozenset(
    {"NODE_UNHEALTHY", "TOPOLOGY", "FRAGMENTATION", "CAPACITY", "PRIORITY_BEHIND", "UNKNOWN"}
)
_NO_TIME = float("inf")


@dataclass(frozen=True, slots=True)
class Turn:
    gang: Gang
    queue: str
    by_room: bool
    head_blocks: bool


def turns(
    gangs: Iterable[Gang], queues: Mapping[str, QueueObject] | None = None, reasons: Mapping[str, Reason] | None = None
) -> list[Turn]:
    """`queues` by the name that gangs carry; `reasons` by key, without one a gang counts as waiting for room."""
    line: dict[str, list[Gang]] = defaultdict(list)
    for gang in gangs:
        if gang.waits:
            line[gang.queue].append(gang)
    return [_turn(gang, queues or {}, reasons or {}) for gang in _merged(line)]


def _merged(line: Mapping[str, list[Gang]]) -> Iterator[Gang]:
    heap: list[tuple[tuple[float, float, str], str, int]] = []
    ordered = {queue: sorted(gangs, key=_in_queue) for queue, gangs in line.items()}
    for queue, gangs in ordered.items():
        heapq.heappush(heap, (_between(gangs[0]), queue, 0))
    while heap:
        _, queue, n = heapq.heappop(heap)
        gangs = ordered[queue]
        yield gangs[n]
        if n + 1 < len(gangs):
            heapq.heappush(heap, (_between(gangs[n + 1]), queue, n + 1))


def _in_queue(gang: Gang) -> tuple[float, float, float, str]:
    told = min((one.position for one in gang.objects if one.position is not None), default=None)
    return (_NO_TIME if told is None else told, *_between(gang))


def _between(gang: Gang) -> tuple[float, float, str]:
    made = gang.created_at.timestamp() if gang.created_at else _NO_TIME
    return -gang.priority, made, gang.key


def _turn(gang: Gang, queues: Mapping[str, QueueObject], reasons: Mapping[str, Reason]) -> Turn:
    queue, reason = queues.get(gang.queue), reasons.get(gang.key)
    by_room = reason is None or reason.code in BY_ROOM
    return Turn(gang, gang.queue, by_room, queue is not None and queue.head_blocks)
