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
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class Job:
    """Medians of one gang, look by look."""

    pace: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    starved: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))


@dataclass(frozen=True, slots=True)
class Advice:
    """`slower` is the share by which the gang is slower than before, 0 when it is not: its tensor activity is `pace`
    instead of `usual`. `starved`: it likely waits for its data; its GPUs are busy `busy` of the time, their memory
    `memory`, and on `waiting` of its GPUs' hosts processes wait for input. All shares are 0 to 1."""

    gang: str
    slower: float = 0.0
    starved: bool = False
    pace: float = 0.0
    usual: float = 0.0
    busy: float = 0.0
    memory: float = 0.0
    waiting: float = 0.0


class Advisor:
    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def take(
        self, gangs: Sequence[str], of: Groups, tensor: Floats, dram: Floats, engine: Floats, waiting: Bools
    ) -> list[Advice]:
        """`of` is each GPU's place in `gangs`, -1 for none; `waiting`: processes of its host wait for input, and its
        network is not what is full."""
        mine = np.flatnonzero(of >= 0)
        group, size = of[mine], np.bincount(of[mine], minlength=len(gangs))
        if not len(mine):
            return []

        def middle(values: Floats) -> Floats:
            return by_group(values[mine], group, np.bincount(group[~np.isnan(values[mine])], minlength=len(gangs)))

        pace, memory, busy = middle(tensor), middle(dram), middle(engine)
        waits = np.bincount(group[waiting[mine]], minlength=len(gangs)) / np.maximum(size, 1)
        with np.errstate(invalid="ignore"):
            starved = (busy < ENGINE_LOW) & (memory < DRAM_LOW) & (waits >= WAITING_SHARE)
        judged = np.flatnonzero((size >= LEAST) & ~np.isnan(pace))
        self._jobs = {gangs[i]: self._jobs.get(gangs[i]) or Job() for i in judged.tolist()}
        found = []
        for place in judged.tolist():
            job = self._jobs[gangs[place]]
            job.pace.append(float(pace[place]))
            job.starved.append(bool(starved[place]))
            less, usual = slower(job.pace)
            starves = len(job.starved) == RECENT and all(job.starved)
            if less or starves:
                found.append(
                    Advice(
                        gangs[place], less, starves, job.pace[-1], usual, float(busy[place]), float(memory[place]),
                        float(waits[place]),
                    )
                )  # fmt: skip
        return found


def slower(pace: Iterable[float]) -> tuple[float, float]:
    """By which share all of the last looks are below the median of those before, and that median; 0 when they are not,
    or too few."""
    looks = list(pace)
    before, recent = looks[:-RECENT], looks[-RECENT:]
    if len(before) < BEFORE or len(recent) < RECENT:
        return 0.0, 0.0
    usual = statistics.median(before)
    if usual <= 0 or max(recent) > (1 - SLOWER) * usual:
        return 0.0, usual
    return 1 - statistics.median(recent) / usual, usual
