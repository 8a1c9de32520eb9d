"""What a job that waits behind others really waits for.

Decides along the chain of `Priority`: Slurm tells of such a job only that another one is in front. The one that counts
is the nearest in front that waits for something else. Refuses to look across partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from fleet.ports.gangs import GangObject


def with_roots(jobs: Iterable[GangObject]) -> tuple[GangObject, ...]:
    """The same jobs, each that is behind with the key of the one it waits for (`ahead`) and its place in line."""
    lines: dict[str, list[GangObject]] = defaultdict(list)
    rest: list[GangObject] = []
    for job in jobs:
        (lines[job.queue] if job.started_at is None else rest).append(job)
    return (*rest, *(job for line in lines.values() for job in _told(line)))


def _told(line: list[GangObject]) -> Iterable[GangObject]:
    ordered = sorted(line, key=lambda job: (-job.priority, job.created_at is None, job.created_at, _number(job)))
    root = ""
    for place, job in enumerate(ordered):
        if all(said.code == "PRIORITY_BEHIND" for said in job.said):
            yield replace(job, position=place, ahead=root)
            continue
        if not job.suspended:  # who is held blocks nobody
            root = job.ref.key
        yield replace(job, position=place)


def _number(job: GangObject) -> int:
    return int(job.ref.name) if job.ref.name.isdigit() else 0
