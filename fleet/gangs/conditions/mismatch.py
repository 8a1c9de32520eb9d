"""GPUs that are said to be there and are not, or are asked for where no node can give them.

Decides four ways in which declarations lie: what Ray is told against the containers' limits; what a Ray node has
against its pod's limit; one ask that is larger than every node; a Train run that is larger than all groups at their
largest. Refuses to compare where one side does not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet.gangs.conditions.condition import Condition, found
from fleet.gangs.conditions.failures import live
from fleet.gangs.conditions.placement import asks_at_once
from fleet.gangs.conditions.rayfacts import gpus_of, most_gpus, workers
from fleet.ports.gangs import Member, Need
from fleet.ports.ray import RayFacts, RayReading, TrainRun


def declared(key: str, facts: RayFacts) -> Iterator[Condition]:
    """KubeRay fills in `num-gpus` from the first container's limit only where nobody set it."""
    for group in facts.groups:
        told = group.gpus_declared
        if told is not None and told != group.gpus_limit:
            severe = told > group.gpus_limit  # work is put where there is no GPU; the other way GPUs lie fallow
            yield found("gpus_declared", key, "critical" if severe else "warning", group.name, declared=told,
                        limit=group.gpus_limit)  # fmt: skip


def of_nodes(key: str, reading: RayReading, members: Iterable[Member]) -> Iterator[Condition]:
    pods = {member.key.rpartition("/")[2]: member for member in members if member.state == "ready"}
    for node in reading.nodes:
        pod = pods.get(node.name)
        if not node.alive or pod is None or not _are_gpus(pod.need):
            continue
        if node.gpus_total != pod.need.gpus:
            yield found("gpus_of_node", key, "warning", node.name, ray=node.gpus_total, limit=pod.need.gpus,
                        node=pod.node)  # fmt: skip


def _are_gpus(need: Need) -> bool:
    """What Ray calls GPUs too. Other devices (TPUs, Neuron) are resources of other names there; and of a pod without a
    limit (a part of a GPU by annotation) nothing tells how many it sees."""
    return need.gpus > 0 and (need.resource.endswith("gpu") or "/mig-" in need.resource)


def infeasible(key: str, facts: RayFacts, reading: RayReading) -> Iterator[Condition]:
    """Larger than what any node has, and than what any worker group could add."""
    here = max((node.gpus_total for node in reading.nodes if node.alive), default=0.0)
    most = max([here, *(gpus_of(group) for group in facts.groups if not group.suspended)])
    if not reading.nodes or "nodes" in " ".join(reading.unread):
        return
    told = False
    for group in reading.placement_groups:
        asks = asks_at_once(group)
        if group.state in ("PENDING", "RESCHEDULING") and asks > most:
            told = True
            yield found("gpus_infeasible", key, "critical", group.name or group.id, asks=asks, most=most)
    if not told and reading.largest_ask is not None and reading.largest_ask > most:
        yield found("gpus_infeasible", key, "critical", "", asks=reading.largest_ask, most=most)


def too_large(key: str, facts: RayFacts, runs: Iterable[TrainRun]) -> Iterator[Condition]:
    most = most_gpus(group for group in facts.groups if not group.suspended)
    for run in live(runs) if workers(facts) else ():
        asks = run.workers[0] * run.gpus_per_worker
        if most is not None and asks > most:
            yield found("train_too_large", key, "critical", run.name, workers=run.workers[0],
                        per_worker=run.gpus_per_worker, asks=asks, most=most)  # fmt: skip
