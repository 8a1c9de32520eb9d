"""Whether anything guarantees that a gang starts whole or not at all.

Decides by the group that its scheduler places by: there is none; it asks for fewer than are wanted; it asks for another
number than it should, because it was never brought up to date (scheduler-plugins, kuberay#5205); its system gave it up
(YuniKorn's Soft style after the placeholders' time-out). Refuses to speak of what needs no gang: one pod, or no GPU;
and of a group that its pods name and that is not there: it comes a moment later than they, or went a moment before.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.gangs.conditions.condition import Condition, found
from fleet.gangs.conditions.rayfacts import cluster_of, desired, workers
from fleet.gangs.form import NOT_WANTED, Gang
from fleet.ports.gangs import ref_of
from fleet.ports.ray import RayFacts

_GROUPS = ("PodGroup", "Application")  # what schedulers place by
_OF_ONE_POD = ("pods", "slinky")  # pods that no object groups; nodes of Slurm, whose jobs are the gangs


def guarantee(gang: Gang) -> Iterator[Condition]:
    if gang.state in NOT_WANTED or gang.wanted < 2 or not gang.gpus_wanted or gang.system in _OF_ONE_POD:
        return
    if gang.guarantee == "lost":
        severe = gang.placed < gang.wanted
        yield found("guarantee_lost", gang.key, "critical" if severe else "warning", placed=gang.placed,
                    wanted=gang.wanted)  # fmt: skip
        return
    placing = [one for one in gang.objects if one.places]
    if not placing and (not gang.members or _names_a_group(gang)):
        return
    if not placing or gang.guarantee == "none":
        yield found("guarantee_none", gang.key, "warning", wanted=gang.wanted)
        return
    cluster = cluster_of(gang)
    if cluster is None or cluster.ray is None:
        return
    whole = desired(cluster.ray) + 1
    group = next((one for one in placing if one.minimum is not None and one.ref.system != "kueue"), None)
    if group is None or group.minimum is None:
        return
    if group.ref.system == "coscheduling" and group.minimum != whole:
        yield found("guarantee_stale", gang.key, "warning", group.ref.name, minimum=group.minimum, whole=whole)
    elif cluster.ray.autoscaling and group.minimum < whole:
        yield found("guarantee_partial", gang.key, "warning", group.ref.name, minimum=group.minimum, whole=whole)


def _names_a_group(gang: Gang) -> bool:
    return any(ref_of(link).kind in _GROUPS for member in gang.members for link in member.links)


def guarantee_asked(key: str, facts: RayFacts) -> Iterator[Condition]:
    """Before submission: what the operator will make of it. Volcano and KAI need no label, only to be the operator's
    batch scheduler, so its absence alone is worth a notice. Replicas of a service serve without each other."""
    groups = () if facts.kind == "RayService" else workers(facts)
    whole = 1 + sum(group.replicas * group.hosts for group in groups)
    if whole < 2 or not any(group.gpus_limit for group in groups):
        return
    if not facts.gang_label:
        yield found("guarantee_unasked", key, "notice", wanted=whole)
    least = 1 + sum(group.minimum * group.hosts for group in groups)
    if facts.autoscaling and least < whole:
        yield found("guarantee_partial", key, "warning", "", minimum=least, whole=whole)
