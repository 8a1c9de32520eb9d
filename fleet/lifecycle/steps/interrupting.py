"""May the work on this node be interrupted now?

Decides, before the first eviction of a drain: the head of a Ray cluster only with fault tolerance and a person's
approval, a gang together with its other nodes, a job at its checkpoint or end where severity allows to wait, one of
Slurm at its end, a node of Slurm that is a pod when Slurm has drained it. Refuses
to hold back an unhealthy node for the sake of a gang or a checkpoint: what runs there fails anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Count

from fleet.health.models import Incident
from fleet.inventory.models import Node
from fleet.lifecycle import forcing, gangs_joined, waiting_for_jobs, workloads_apart
from fleet.lifecycle.context import Context
from fleet.lifecycle.outcomes import Blocked
from fleet.lifecycle.suspending import stopping
from fleet.policy import approvals
from fleet.policy.models import Approval
from fleet.ports.cluster import SLURM_BUSY, SLURM_JOB, PodSeen

LOOK_EVERY = 60.0
"""How often a job that is waited for is looked at: an early checkpoint is used within a minute."""
DRAINED_WITHIN = 60.0
"""Seconds within which Slinky's operator has told Slurm of a cordon; a fault in a hurry waits no longer for it."""
MOST_MATES = 64
"""Nodes of a gang whose pods are read at a look; the first by name, where rank 0 usually is."""
RAY_TYPE, RAY_SAVED = "ray.io/node-type", "ray.io/ft-enabled"
"""KubeRay's label of a pod's part in its cluster, and its annotation that the head's state survives the head."""


def urgent(ctx: Context) -> bool:
    return presses(ctx.incident)


def presses(incident: Incident | None) -> bool:
    """Does the fault wait for no job?"""
    return incident is not None and incident.severity == "unhealthy"


def hurried(ctx: Context) -> bool:
    """By the fault, or by a person's word."""
    return urgent(ctx) or bool(ctx.step.memo.get("waits_for_nobody"))


def gangs_of(pods: Sequence[PodSeen]) -> set[str]:
    return {pod.gang for pod in pods if pod.gang}


def kept(ctx: Context, pods: Sequence[PodSeen]) -> Blocked | None:
    """Why the work of `pods` is not interrupted now; None when it may be."""
    heads = [pod for pod in pods if pod.labels.get(RAY_TYPE) == "head"]
    held = _ray_head(ctx, [pod for pod in heads if not stopping.may(ctx, pod)])
    hurry = hurried(ctx)
    held = held or _slurmd(ctx, [pod for pod in pods if pod.slurm], hurry)
    if held is not None or hurry:
        return held
    slurm = _slurm(pods)
    if slurm is not None:
        return slurm
    gangs = gangs_of(pods)
    broken = gangs_joined.interrupted(ctx, gangs)
    apart = workloads_apart.workloads_of(ctx, pods)
    alone = workloads_apart.kept(ctx, apart)
    if alone is not None:
        return alone
    together = gangs_joined.kept(ctx, gangs, broken, workloads_apart.gangs_of(apart))
    return together or _job(ctx, pods, set(broken))


def _ray_head(ctx: Context, heads: Sequence[PodSeen]) -> Blocked | None:
    if not heads:
        return None
    names = gangs_joined.named(sorted(pod.key for pod in heads))
    exposed = [pod for pod in heads if pod.annotations.get(RAY_SAVED, "").lower() == "false"]
    if exposed:
        text = (
            f"{names} is the head of a Ray cluster without fault tolerance: draining it loses the whole cluster's "
            f"work. It is never drained so. Its owner ends or moves the cluster, or a person aborts."
        )
        return Blocked("ray_head", text, 300)
    said = forcing.agreed(ctx.workflow, approvals.RAY_HEAD, ctx.now)
    uids = {pod.uid: pod.key for pod in heads}
    if said.state == Approval.APPROVED and set(uids) <= said.pods:
        return None
    if said.state == Approval.REJECTED and set(uids) <= said.pods:
        text = f"{names} is the head of a Ray cluster, and its drain was rejected ({said.text}). A person aborts."
        return Blocked("ray_head", text, 300)
    if not (said.state == Approval.PENDING and set(uids) == said.pods):
        reason = "The head of a Ray cluster runs on the node that is to be drained."
        row = forcing.ask(ctx.workflow, approvals.RAY_HEAD, uids, ctx.workflow.created_by, reason, ctx.now)
        said = forcing.Agreement(until=row.expires_at)
    sure = all(pod.annotations.get(RAY_SAVED, "").lower() == "true" for pod in heads)
    saved = "has fault tolerance" if sure else "does not tell whether it has fault tolerance"
    text = (
        f"{names} is the head of a Ray cluster that {saved}. Waits for a person's approval: with it the head moves, "
        f"and the workers wait for it for some minutes."
    )
    return Blocked("ray_head", text, LOOK_EVERY, said.until)


def _slurmd(ctx: Context, nodes: Sequence[PodSeen], hurried: bool) -> Blocked | None:
    """Slinky drains in Slurm what is cordoned here. Its pod goes when Slurm says that the drain stands and nothing is
    left; in a hurry when the drain stands (its budget still keeps it while it is busy), or was waited for in vain."""
    undrained = [pod.key for pod in nodes if "Drain" not in pod.slurm]
    if undrained and not (hurried and ctx.elapsed() > DRAINED_WITHIN):
        text = f"Slurm has not drained {gangs_joined.named(undrained)} yet, which its operator does of a cordoned node."
        return Blocked(gangs_joined.JOB_WAIT, text, 5)
    busy = [pod.key for pod in nodes if SLURM_BUSY.intersection(pod.slurm)]
    if busy and not hurried:
        text = f"Slurm lets running jobs end on {gangs_joined.named(busy)}, which takes no new ones."
        return Blocked(gangs_joined.JOB_WAIT, text, LOOK_EVERY)
    return None


def _slurm(pods: Sequence[PodSeen]) -> Blocked | None:
    """A drained node of Slurm gets no new work and its jobs run to their end; a requeue would break them everywhere."""
    ranks = [pod for pod in pods if pod.owner.startswith(SLURM_JOB)]
    if not ranks:
        return None
    ends = [pod.ends_at for pod in ranks if pod.ends_at is not None]
    last = max(ends) if len(ends) == len(ranks) else None
    limit = f"their time limit ends at {last:%Y-%m-%d %H:%M} UTC" if last else "they have no time limit"
    names = gangs_joined.named(sorted({pod.owner.removeprefix(SLURM_JOB) for pod in ranks}))
    text = f"Slurm lets running jobs end on a drained node: {names}; {limit}. A requeue is only for a fault in a hurry."
    return Blocked(gangs_joined.JOB_WAIT, text, LOOK_EVERY, last)


def _job(ctx: Context, pods: Sequence[PodSeen], broken: set[str]) -> Blocked | None:
    """A gang that is broken anyway has nothing more to lose by this node."""
    node = ctx.workflow.node
    whole = node.gpu_allocatable or node.gpu_expected or 0
    losing = [pod for pod in pods if pod.gang not in broken]
    gangs = gangs_of(losing)
    work = waiting_for_jobs.work_of(losing, _spread(ctx, gangs), whole, ctx.now, _elsewhere(ctx, gangs))
    if not any(one.gpus for one in work):
        return None
    first = ctx.step.memo.get("first_look_at") or ctx.now.timestamp()
    latest = datetime.fromtimestamp(first, ctx.now.tzinfo) + timedelta(seconds=ctx.timing.job_wait)
    idle = max(0, whole - sum(pod.gpus for pod in pods)) if not any(pod.claims for pod in pods) else 0
    degraded = ctx.incident is not None
    best = waiting_for_jobs.weigh(work, idle, degraded, ctx.now, latest)
    memo: dict[str, object] = {"first_look_at": first, "stopping_now_loses": f"{best.now:.1f} GPU-h"}
    if best.at is None:
        memo["job"] = waiting_for_jobs.unannounced(work, best)
        ctx.remember(**memo)
        return None
    memo |= {"stopping_then_loses": f"{best.then:.1f} GPU-h", "waiting_costs": f"{best.waiting:.1f} GPU-h"}
    ctx.remember(**memo)
    left = (best.at - ctx.now).total_seconds()
    text = waiting_for_jobs.sentence(best, work, latest)
    return Blocked(gangs_joined.JOB_WAIT, text, min(left, LOOK_EVERY), best.at)


def _spread(ctx: Context, gangs: set[str]) -> dict[str, int]:
    """On how many nodes each gang runs, as the observer last saw it."""
    if not gangs:
        return {}
    rows = Node.objects.filter(cluster_id=ctx.workflow.cluster_id, gang__in=gangs, gone_at=None)
    return dict(rows.values("gang").annotate(nodes=Count("pk")).values_list("gang", "nodes"))


def _elsewhere(ctx: Context, gangs: set[str]) -> list[PodSeen]:
    """Pods of these gangs on other nodes, read now: whoever writes checkpoints, often rank 0 alone, may run there."""
    if not gangs:
        return []
    rows = Node.objects.filter(cluster_id=ctx.workflow.cluster_id, gone_at=None, gang__in=gangs)
    names = rows.exclude(pk=ctx.workflow.node_id).order_by("name").values_list("name", flat=True)[:MOST_MATES]
    found = [pod for name in names for pod in ctx.ports.reader.pods_on(name)]
    return [pod for pod in found if pod.gang in gangs and not pod.finished]
