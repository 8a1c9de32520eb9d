"""In which order waiting gangs get their turn.

Decides as their schedulers do: inside a queue by the position that the system tells, else by priority and then by age;
between queues by the priority and age of each queue's next. Refuses to give a turn for room to a gang that waits for
something else.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

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
    head_blocks: bool
    by_room: bool = True  # it would start if there were room

    def judged_by(self, reason: Reason) -> Turn:
        return replace(self, by_room=reason.code in BY_ROOM)


def turns(
    gangs: Iterable[Gang],
    queues: Mapping[str, QueueObject] | None = None,
    queue_of: Mapping[str, str] | None = None,
) -> list[Turn]:
    """`queues` by the key that `queue_of` gives for a gang's key; without it, by the queue's name in the gang."""
    line: dict[str, list[Gang]] = defaultdict(list)
    for gang in gangs:
        if gang.waits:
            line[gang.queue if queue_of is None else queue_of[gang.key]].append(gang)
    return [Turn(gang, queue, _is_strict(queue, queues or {})) for queue, gang in _merged(line)]


def _is_strict(queue: str, queues: Mapping[str, QueueObject]) -> bool:
    return queue in queues and queues[queue].head_blocks


def _merged(line: Mapping[str, list[Gang]]) -> Iterator[tuple[str, Gang]]:
    heap: list[tuple[tuple[float, float, str], str, int]] = []
    ordered = {queue: sorted(gangs, key=_in_queue) for queue, gangs in line.items()}
    for queue, gangs in ordered.items():
        heapq.heappush(heap, (_between(gangs[0]), queue, 0))
    while heap:
        _, queue, n = heapq.heappop(heap)
        gangs = ordered[queue]
        yield queue, gangs[n]
        if n + 1 < len(gangs):
            heapq.heappush(heap, (_between(gangs[n + 1]), queue, n + 1))


def _in_queue(gang: Gang) -> tuple[float, float, float, str]:
    told = min((one.position for one in gang.objects if one.position is not None), default=None)
    return (_NO_TIME if told is None else told, *_between(gang))


def _between(gang: Gang) -> tuple[float, float, str]:
    made = gang.created_at.timestamp() if gang.created_at else _NO_TIME
    return -gang.priority, made, gang.key
