"""All conditions of all gangs of a cluster at one moment.

Decides which tests apply to which gang, and the order in which conditions are told. Refuses to read anything: readings,
faults of nodes and what was remembered are handed in, and what is not there is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fleet.gangs.board import Board
from fleet.gangs.conditions.condition import Condition, rank
from fleet.gangs.conditions.failures import failures
from fleet.gangs.conditions.guarantee import guarantee
from fleet.gangs.conditions.head import head
from fleet.gangs.conditions.headroom import elastic_room, headroom
from fleet.gangs.conditions.mismatch import declared, infeasible, of_nodes, too_large
from fleet.gangs.conditions.oscillation import Swings
from fleet.gangs.conditions.placement import Waits, pending, stale
from fleet.gangs.conditions.rayfacts import cluster_of, job_of
from fleet.gangs.conditions.retention import retention
from fleet.gangs.conditions.sickness import sickness
from fleet.gangs.conditions.spot import spot
from fleet.gangs.conditions.starvation import deadlocks
from fleet.gangs.form import NOT_WANTED, Gang
from fleet.ports.ray import RayFacts, RayReading


@dataclass(frozen=True, slots=True)
class Evidence:
    """What others saw. Readings and heads by gang key; `sick`: nodes in an open fault -> what it is. `swings` and
    `waits` live on from one survey to the next: whoever watches keeps them, and forgets the gangs that are gone."""

    now: datetime
    readings: Mapping[str, RayReading] = field(default_factory=dict)
    sick: Mapping[str, str] = field(default_factory=dict)
    heads_down_since: Mapping[str, datetime] = field(default_factory=dict)
    swings: Swings = field(default_factory=Swings)
    waits: Waits = field(default_factory=Waits)


def survey(board: Board, evidence: Evidence) -> list[Condition]:
    """The worst first."""
    found = deadlocks(board)
    for gang in board.gangs.values():
        found.extend(of_gang(gang, evidence))
    return sorted(found, key=rank)


def of_gang(gang: Gang, evidence: Evidence) -> Iterator[Condition]:
    """All but what takes several gangs."""
    job = job_of(gang)
    if job is not None and job.ray is not None and not job.suspended:
        yield from retention(gang.key, job.ray, finished=job.finished, held=gang.gpus_held)
    if gang.state in NOT_WANTED or (job is not None and job.finished):
        return
    yield from guarantee(gang)
    yield from head(gang, evidence.now, evidence.heads_down_since.get(gang.key))
    yield from sickness(gang, evidence.sick)
    cluster = cluster_of(gang)
    if cluster is not None and cluster.ray is not None:
        yield from _of_ray(gang, cluster.ray, evidence)


def _of_ray(gang: Gang, facts: RayFacts, evidence: Evidence) -> Iterator[Condition]:
    key, reading = gang.key, evidence.readings.get(gang.key)
    runs = reading.runs if reading else ()
    yield from evidence.swings.conditions(key, facts, evidence.now)
    yield from headroom(key, facts)
    yield from declared(key, facts)
    job = job_of(gang)
    yield from spot(key, facts, runs, job.ray.model_gpus if job is not None and job.ray is not None else None)
    if reading is None:
        return
    yield from elastic_room(key, facts, runs)
    yield from stale(key, reading)
    coming = any(member.state in ("placed", "running") for member in gang.members)
    yield from pending(key, reading, evidence.waits.look(key, reading), coming=coming)
    yield from of_nodes(key, reading, gang.members)
    yield from infeasible(key, facts, reading)
    yield from too_large(key, facts, runs)
    yield from failures(key, runs)
