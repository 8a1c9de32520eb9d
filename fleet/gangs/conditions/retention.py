"""What is left of a RayJob after its end: GPUs that nobody uses, or no trace of why it failed.

Decides by its shutdown, its time to live, its deletion rules and whether a history server's collector keeps its logs.
Refuses jobs that run on a cluster which is not theirs: its life is somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.gangs.conditions.condition import Condition, found
from fleet.gangs.conditions.rayfacts import desired, running
from fleet.ports.ray import RayFacts


def retention(key: str, facts: RayFacts, *, finished: bool = False, held: int = 0) -> Iterator[Condition]:
    """`finished`: the job is over; `held`: GPUs that its pods hold now."""
    kept, groups = facts.retention, running(facts)
    if facts.kind != "RayJob" or kept is None or not groups:
        return
    gpus = sum(group.gpus_limit * group.replicas * group.hosts for group in groups)
    if not kept.shuts_down and not kept.deletion_rules and (held or gpus) and not (finished and not held):
        yield found("gpus_kept", key, "critical" if finished else "warning", gpus=held or gpus)
    if kept.shuts_down and not kept.ttl_seconds and not kept.history and not finished:
        yield found("evidence_lost", key, "warning", workers=desired(facts))
