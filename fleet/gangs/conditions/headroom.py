"""Whether a worker that dies can be replaced, and an elastic run can grow to what it asks for.

Decides by `maxReplicas` of each worker group: fewer than two pods above what is wanted is too little, none is exact.
Refuses groups without a bound, groups that are off and those that want no worker now: none of it can die.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet.gangs.conditions.condition import Condition, found
from fleet.gangs.conditions.failures import live
from fleet.gangs.conditions.rayfacts import most_gpus, workers
from fleet.ports.ray import NO_LIMIT, RayFacts, TrainRun

SPARE = 2
"""The post-mortem's remedy: maxReplicas with at least two to spare."""


def headroom(key: str, facts: RayFacts) -> Iterator[Condition]:
    for group in workers(facts):
        spare = (group.maximum - group.replicas) * group.hosts
        if not group.replicas or group.maximum == NO_LIMIT or spare >= SPARE:
            continue
        yield found(
            "headroom_exact" if spare <= 0 else "headroom_low",
            key,
            "warning",
            group.name,
            spare=max(0, spare),
            replicas=group.replicas,
            maximum=group.maximum,
            enough=group.replicas + -(-SPARE // group.hosts),
        )


def elastic_room(key: str, facts: RayFacts, runs: Iterable[TrainRun]) -> Iterator[Condition]:
    """An elastic run whose upper end the groups can never give; one whose lower end they cannot is a mismatch."""
    most = most_gpus(group for group in facts.groups if not group.suspended)
    for run in live(runs):
        least, wanted = (count * run.gpus_per_worker for count in run.workers)
        if most is not None and least <= most < wanted:
            yield found("elastic_beyond_max", key, "notice", run.name, wanted=wanted, most=most)
