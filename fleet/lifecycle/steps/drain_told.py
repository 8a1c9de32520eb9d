"""What a drain met that people should know by name: pods that others ended, that came back, that leave something.

Decides who ended a pod by what the pod itself tells, and how often an owner may bring pods back to a held node.
Refuses to count as an eviction of ours what a budget had refused, and to evict for ever what returns for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.lifecycle.context import Context
from fleet.lifecycle.gangs_joined import named
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Blocked
from fleet.lifecycle.steps.evicting import Kept
from fleet.ports.cluster import PodSeen

RETURNS = 3
"""So many pods of one owner that come back to a held node are evicted; then a person must end what brings them."""
EVICTED = "EvictionByEvictionAPI"
ENDED_BY = {
    "DeletionByTaintManager": "the taint manager, which asks no budget",
    "PreemptionByScheduler": "the scheduler, for more important work",
    "DeletionByPodGC": "the garbage collection of pods",
    "TerminationByKubelet": "its kubelet",
    EVICTED: "another drain",
}


def known(ctx: Context) -> dict[str, str]:
    """uid -> key of every pod that an intent of this step names."""
    found: dict[str, str] = {}
    for before in Intent.objects.filter(step=ctx.step, verb="evict").values_list("before", flat=True):
        found.update(before.get("pods", {}))
    return found


def kept_by_budget(ctx: Context) -> Kept:
    return dict(ctx.step.memo.get("kept_by_budget", {}))


def note_others(ctx: Context, pods: Sequence[PodSeen], ours: Mapping[str, str]) -> None:
    """Remember who goes, or went, without an eviction of ours. `ours`: what this step's intents name."""
    kept, forced = kept_by_budget(ctx), ctx.step.memo.get("deleted_by_force", [])
    ending = {pod.uid: pod for pod in pods if pod.deleting_since is not None}
    there = {pod.uid for pod in pods}
    over = {uid: key for uid, (key, _) in kept.items() if uid not in there or uid in ending}
    told: dict[str, str] = {}
    for uid, pod in ending.items():
        mine = uid in ours and uid not in kept and pod.disruption in ("", EVICTED)
        if not mine and pod.key not in forced:
            told[pod.key] = ENDED_BY.get(pod.disruption, "somebody else")
    told |= {key: "somebody else" for uid, key in over.items() if uid not in there and key not in forced}
    before: dict[str, str] = ctx.step.memo.get("ended_by_others", {})
    if over or told.keys() - before.keys():
        left = {uid: entry for uid, entry in kept.items() if uid not in over}
        ctx.remember(ended_by_others={**told, **before}, kept_by_budget=left)


def others(ctx: Context) -> str:
    told: dict[str, str] = ctx.step.memo.get("ended_by_others", {})
    if not told:
        return ""
    return f" Not evicted by us: {named([f'{key} (ended by {who})' for key, who in sorted(told.items())])}."


def returning(ctx: Context, standing: Sequence[PodSeen], ours: Mapping[str, str]) -> Blocked | None:
    """Pods that came after the first round tolerate the cordon. They are evicted too, but not for ever."""
    fresh = [pod for pod in standing if pod.uid not in ours]
    if not ours or not fresh:
        return None
    counts: dict[str, int] = dict(ctx.step.memo.get("arrived", {}))
    stubborn = [pod for pod in fresh if counts.get(_brought_by(pod), 0) >= RETURNS]
    if stubborn:
        owners = named(sorted({pod.owner or pod.key for pod in stubborn}))
        text = (
            f"Pods of {owners} come back to this node although it is held: they tolerate its cordon. "
            f"{named(sorted(pod.key for pod in stubborn))} run here again. Their owner must keep them away."
        )
        return Blocked("pods_return", text, 60)
    for pod in fresh:
        counts[_brought_by(pod)] = counts.get(_brought_by(pod), 0) + 1
    ctx.remember(arrived=counts)
    return None


def _brought_by(pod: PodSeen) -> str:
    """Owners of one name in two namespaces are two."""
    return f"{pod.owner} of {pod.namespace}" if pod.owner else pod.key


def losses(pods: Sequence[PodSeen]) -> str:
    """What does not come back when these pods go."""
    bare = [pod.key for pod in pods if pod.kind == "bare"]
    local = [pod.key for pod in pods if pod.local_data]
    told = f" Nothing brings back {named(bare)}: no owner." if bare else ""
    return told + (f" Local data of {named(local)} is lost." if local else "")
