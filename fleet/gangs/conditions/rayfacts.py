"""What the objects of a gang say of Ray, and the counts that several conditions need of it.

Decides which object speaks: the RayCluster that runs, else the RayJob that will make one. Refuses to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet.gangs.form import Gang
from fleet.ports.gangs import GangObject
from fleet.ports.ray import NO_LIMIT, RayFacts, RayGroup

HEAD = "head"


def cluster_of(gang: Gang) -> GangObject | None:
    """The object whose worker groups hold now."""
    return next((one for kind in ("RayCluster", "RayJob") for one in _told(gang, kind)), None)


def job_of(gang: Gang) -> GangObject | None:
    return next(_told(gang, "RayJob"), None)


def _told(gang: Gang, kind: str) -> Iterator[GangObject]:
    return (one for one in gang.objects if one.ray is not None and one.ray.kind == kind)


def running(facts: RayFacts) -> tuple[RayGroup, ...]:
    """The groups that are to run, the head's too."""
    return tuple(group for group in facts.groups if not group.suspended)


def workers(facts: RayFacts) -> tuple[RayGroup, ...]:
    """The worker groups that are to run."""
    return tuple(group for group in running(facts) if group.name != HEAD)


def desired(facts: RayFacts) -> int:
    """Worker pods that are wanted now, by the operator's count or else by the spec."""
    if facts.desired_workers is not None:
        return facts.desired_workers
    return sum(group.replicas * group.hosts for group in workers(facts))


def gpus_of(group: RayGroup) -> float:
    """GPUs of one pod as Ray counts them: what it was told, else what the containers may use."""
    return group.gpus_limit if group.gpus_declared is None else group.gpus_declared


def most_gpus(groups: Iterable[RayGroup]) -> float | None:
    """GPUs when every group is as large as it may be; None where a group that has GPUs is unbounded."""
    total = 0.0
    for group in groups:
        if gpus_of(group) and group.maximum == NO_LIMIT:
            return None
        total += gpus_of(group) * group.hosts * (group.maximum if gpus_of(group) else 0)
    return total
