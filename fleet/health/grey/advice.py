"""What a whole gang's measures say of its job: it slowed down, or it waits for its data.

Decides from medians over the gang, look by look. Both are advice: they name no part and open nothing. Refuses to advise
on gangs it has watched for less than a quarter of an hour, and on gangs of fewer than 8 GPUs.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fleet.health.grey.peers import by_group

LEAST, HISTORY, RECENT, BEFORE, SLOWER = 8, 60, 5, 10, 0.10
ENGINE_LOW, DRAM_LOW, WAITING_SHARE = 0.6, 0.25, 0.5
Floats = NDArray[np.float32]
Groups = NDArray[np.int64]


@dataclass(slots=True)
class Job:
    """Medians of one gang, look by look."""

    pace: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    starved: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))


@dataclass(frozen=True, slots=True)
class Advice:
    gang: str
    slower: float = 0.0  # the share by which it is slower than before; 0: it is not
    starved: bool = False


class Advisor:
    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def take(
        self, gangs: Sequence[str], of: Groups, tensor: Floats, dram: Floats, engine: Floats, waiting: Floats
    ) -> list[Advice]:
        """`of` is each GPU's place in `gangs`, -1 for none; `waiting` is above 0 where a host has blocked processes."""
        mine = np.flatnonzero(of >= 0)
        group, size = of[mine], np.bincount(of[mine], minlength=len(gangs))
        if not len(mine):
            return []

        def middle(values: Floats) -> Floats:
            return by_group(values[mine], group, np.bincount(group[~np.isnan(values[mine])], minlength=len(gangs)))

        pace, memory, busy = middle(tensor), middle(dram), middle(engine)
        waits = np.bincount(group[waiting[mine] > 0], minlength=len(gangs)) >= WAITING_SHARE * size
        with np.errstate(invalid="ignore"):
            starved = (busy < ENGINE_LOW) & (memory < DRAM_LOW) & waits
        judged = np.flatnonzero((size >= LEAST) & ~np.isnan(pace))
        self._jobs = {gangs[i]: self._jobs.get(gangs[i]) or Job() for i in judged.tolist()}
        found = []
        for place in judged.tolist():
            job = self._jobs[gangs[place]]
            job.pace.append(float(pace[place]))
            job.starved.append(bool(starved[place]))
            told = Advice(gangs[place], slower(job.pace), len(job.starved) == RECENT and all(job.starved))
            if told.slower or told.starved:
                found.append(told)
        return found


def slower(pace: Iterable[float]) -> float:
    """By which share all of the last looks are below the median of those before; 0 when they are not, or too few."""
    looks = list(pace)
    before, recent = looks[:-RECENT], looks[-RECENT:]
    if len(before) < BEFORE or len(recent) < RECENT:
        return 0.0
    usual = statistics.median(before)
    if usual <= 0 or max(recent) > (1 - SLOWER) * usual:
        return 0.0
    return 1 - statistics.median(recent) / usual
