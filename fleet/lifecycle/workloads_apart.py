"""One node of a Kueue workload at a time.

Decides whether the drain of a node may take it from a workload whose nodes Kueue assigned by topology: Kueue finds
another place for the pods of one node that is lost, and evicts the whole workload when a second one is lost before.
So these nodes are drained one after the other, each when the workload is whole again. Refuses to hold back what
severity demands or a person asked for (that one says what it breaks), and to wait for ever. Workloads that Kueue only
admitted lose nothing more by a second node; `gangs_joined` drains theirs together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from fleet.gangs.models import GangRow
from fleet.inventory.models import Node
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import AWAKE
from fleet.lifecycle.models import GangInterruption, Workflow
from fleet.lifecycle.outcomes import Blocked
from fleet.lifecycle.playbooks import DRAIN
from fleet.ports.cluster import PodSeen

CODE = "workload_apart"
LOOK_EVERY = 30.0
SETTLES = timedelta(seconds=60)
"""Kueue calls a node unhealthy after 30 s; before that a workload that lost one may still look whole."""
MARK, WORKLOAD = "kueue.x-k8s.io/", "kueue/Workload/"
"""How Kueue's labels and annotations begin, and a key of its workloads (`fleet.ports.gangs.key_of`)."""
TAS_LABEL = "kueue.x-k8s.io/tas"
"""On a pod whose node Kueue chooses."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload with pods on this node. `gangs`: what its pods call their gang; `nodes`: where it ran last."""

    key: str
    gangs: frozenset[str]
    nodes: frozenset[str] = frozenset()
    unhealthy: frozenset[str] = frozenset()
    whole: bool = False

    @property
    def title(self) -> str:
        return self.key.removeprefix(WORKLOAD)


def workloads_of(ctx: Context, pods: Sequence[PodSeen]) -> list[Workload]:
    """The workloads of `pods` that lose one node at a time, by what pods and the observer tell.

    The observer knows the workload's assignment. Of one that it has not seen yet, the pods' own label decides.
    """
    if not any(_of_kueue(pod) for pod in pods):
        return []
    by_pod = {pod.key: pod for pod in pods}
    rows = GangRow.objects.filter(
        cluster_id=ctx.workflow.cluster_id,
        gone_at=None,
        nodes__contains=[ctx.node_name],
        objects_seen__contains=[{"system": "kueue", "kind": "Workload"}],
    )
    found: dict[str, Workload] = {}
    for row in rows:
        mine = [by_pod[member[0]] for member in row.members if member[0] in by_pod]
        for one in row.objects_seen if mine else []:
            if one["system"] == "kueue" and (one.get("by_topology") or any(TAS_LABEL in pod.labels for pod in mine)):
                key = f"{WORKLOAD}{one['namespace']}/{one['name']}"
                whole = row.state == "running" and row.ready >= row.wanted and not one.get("unhealthy")
                gangs = frozenset(pod.gang for pod in mine)
                found[key] = Workload(key, gangs, frozenset(row.nodes), frozenset(one.get("unhealthy", ())), whole)
    known = {gang for one in found.values() for gang in one.gangs}
    for pod in pods:
        if TAS_LABEL in pod.labels and pod.gang not in known:
            links = [key for key in (pod.member.links if pod.member else ()) if key.startswith(WORKLOAD)]
            key = links[0] if links else WORKLOAD + (pod.gang or pod.key)
            found.setdefault(key, Workload(key, frozenset([pod.gang])))
    return [found[key] for key in sorted(found)]


def _of_kueue(pod: PodSeen) -> bool:
    """Kueue marks every pod whose node it chose."""
    return any(key.startswith(MARK) for key in (*pod.labels, *pod.annotations))


def kept(ctx: Context, workloads: Sequence[Workload]) -> Blocked | None:
    """Why this node may not be taken from its workloads now; None when it may."""
    why = next(_reasons(ctx, workloads, _others(ctx, workloads)), None)
    if why is None:
        return None
    latest = _latest(ctx)
    if latest is None:
        ctx.remember(apart_since=ctx.now.timestamp())
        latest = ctx.now + timedelta(seconds=ctx.timing.job_wait)
    return None if ctx.now >= latest else _blocked(why, latest)


def take(ctx: Context, workloads: Sequence[Workload], hurried: bool) -> tuple[Blocked | None, str]:
    """Make this drain the one of its workloads, before its first eviction: of two at the same moment one waits.

    Returns why it must wait, and what it breaks where it does not wait. Idempotent.
    """
    if not workloads:
        return None, ""
    keys, cluster = [_kept_as(one.key) for one in workloads], ctx.workflow.cluster_id
    late = _latest(ctx)
    passes = hurried or (late is not None and ctx.now >= late)
    with transaction.atomic():
        GangInterruption.objects.bulk_create(
            [
                GangInterruption(
                    cluster_id=cluster, gang=key, workflow_id=ctx.workflow.pk, begun_at=ctx.now, last_at=ctx.now
                )
                for key in sorted(keys)
            ],
            ignore_conflicts=True,
        )
        rows = GangInterruption.objects.filter(cluster_id=cluster, gang__in=keys)
        others = {row.gang: row for row in rows.select_for_update().order_by("gang")}
        others = {key: row for key, row in others.items() if row.workflow_id != ctx.workflow.pk}
        why = list(_reasons(ctx, workloads, others))
        if why and not passes:
            rows.filter(workflow_id=ctx.workflow.pk, begun_at=ctx.now).delete()
            return _blocked(why[0], late or ctx.now + timedelta(seconds=ctx.timing.job_wait)), ""
        rows.exclude(workflow_id=ctx.workflow.pk).update(workflow_id=ctx.workflow.pk, begun_at=ctx.now, last_at=ctx.now)
    return None, "".join(f" {one} Kueue may evict the whole workload by this." for one in why)


def gangs_of(workloads: Collection[Workload]) -> frozenset[str]:
    return frozenset(gang for one in workloads for gang in one.gangs)


def _others(ctx: Context, workloads: Sequence[Workload]) -> dict[str, GangInterruption]:
    keys = [_kept_as(one.key) for one in workloads]
    rows = GangInterruption.objects.filter(cluster_id=ctx.workflow.cluster_id, gang__in=keys) if keys else []
    return {row.gang: row for row in rows if row.workflow_id != ctx.workflow.pk}


def _reasons(ctx: Context, workloads: Sequence[Workload], others: dict[str, GangInterruption]) -> Iterator[str]:
    for one in workloads:
        if ctx.node_name in one.unhealthy:
            continue  # lost to it already: the drain takes nothing more from it
        row = others.get(_kept_as(one.key))
        why = (_drained(ctx, one, row) if row else "") or _out(ctx, one)
        if why:
            yield f"Kueue workload {one.title} loses one node at a time, and {why}."


def _drained(ctx: Context, one: Workload, row: GangInterruption) -> str:
    holder = Workflow.objects.select_related("node").filter(pk=row.workflow_id).first()
    if holder is None:
        return ""  # so long ago that it is forgotten
    if holder.state in AWAKE and holder.verb == DRAIN:
        return f"{holder.label} drains {holder.node.name}"
    over = row.last_at + timedelta(seconds=ctx.timing.gang_rest)
    if ctx.now >= over or (one.whole and ctx.now >= row.last_at + SETTLES):
        return ""
    return f"{holder.label} took {holder.node.name} from it at {row.last_at:%H:%M:%S} UTC; it is not whole again yet"


def _out(ctx: Context, one: Workload) -> str:
    """Another of its nodes that is lost to it already, by Kueue's word or by the node's own."""
    if one.unhealthy:
        return f"Kueue calls {', '.join(sorted(one.unhealthy)[:3])} unhealthy"
    nodes = Node.objects.filter(cluster_id=ctx.workflow.cluster_id, gone_at=None, name__in=one.nodes)
    dark = nodes.exclude(pk=ctx.workflow.node_id).exclude(ready=True).order_by("name").values_list("name", flat=True)
    return f"{', '.join(dark[:3])} of it is not ready" if dark else ""


def _latest(ctx: Context) -> datetime | None:
    since = ctx.step.memo.get("apart_since")
    if since is None:
        return None
    return datetime.fromtimestamp(since, ctx.now.tzinfo) + timedelta(seconds=ctx.timing.job_wait)


def _blocked(why: str, latest: datetime) -> Blocked:
    text = f"{why} Waits until {latest:%Y-%m-%d %H:%M} UTC at most: with a second one out, Kueue evicts it whole."
    return Blocked(CODE, text, LOOK_EVERY, latest)


def _kept_as(key: str) -> str:
    """The key as its row can hold it; two that only differ behind that wait for each other."""
    return key[:300]
