"""A drain suspends the jobs of its pods instead of evicting them, where their place allows it.

Decides, at each look of a drain, which pods are left to the controllers of their jobs and which are evicted after all.
The row and the intent are committed before the field is written, on the version that was read and together with our
mark; what a lost answer did is seen by the mark. Refuses to suspend one job twice in one drain, to write where anybody
else changed its spec since the intent, and to wait for ever: what does not stop in time is evicted as usual.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from fleet.gangs.models import GangRow
from fleet.inventory.models import Node
from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.fence import renew
from fleet.lifecycle.gangs_joined import named
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.suspending import choosing
from fleet.lifecycle.suspending.choosing import Not
from fleet.lifecycle.suspending.models import Suspension
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import Conflict, PermanentError, PortError, TemporaryError, UnknownOutcome
from fleet.ports.suspends import Job, Suspends

VERB = "suspend"


@dataclass(slots=True)
class Apart:
    """`stopping`: pods of suspended jobs, under their titles; under "" while that is not sure. `evict`: all others."""

    evict: list[PodSeen] = field(default_factory=list)
    stopping: dict[str, list[PodSeen]] = field(default_factory=dict)


def candidates(ctx: Context, pods: Sequence[PodSeen]) -> bool:
    """Is there anything to ask the API server about?"""
    return bool(_groups(ctx, pods))


def apart(ctx: Context, pods: Sequence[PodSeen]) -> Apart:
    """One look. Writes where a job is to be suspended. Raises Stale, Stopped."""
    port, found = ctx.ports.suspends, Apart(evict=list(pods))
    if port is None:
        return found
    given_up: dict[str, str] = {}
    for owner, group in _groups(ctx, pods):
        try:
            came = _one(ctx, port, group)
        except (TemporaryError, UnknownOutcome) as error:
            came = _unclear(ctx, owner, group, error)
        except PermanentError as error:
            came = Not(f"The job of {group[0].key} is not suspended: {_short(error)}")
        if isinstance(came, Not):
            given_up[owner] = came.why
            continue
        found.stopping.setdefault(came, []).extend(group)
        ours = {pod.uid for pod in group}
        found.evict = [pod for pod in found.evict if pod.uid not in ours]
    _remember(ctx, found, given_up)
    return found


def _groups(ctx: Context, pods: Sequence[PodSeen]) -> list[tuple[str, list[PodSeen]]]:
    """Pods by their maker, of those of which this drain has not learnt that they are to be evicted."""
    port = ctx.ports.suspends
    if port is None:
        return []
    groups: dict[str, list[PodSeen]] = {}
    for pod in pods:
        if pod.owner and port.kinds(pod.namespace) is not None:
            maker = pod.member.owner_uid if pod.member else ""
            groups.setdefault(f"{pod.namespace}/{pod.owner}/{maker}", []).append(pod)
    evicted = ctx.step.memo.get("evicted_after_all", [])
    return [(owner, group) for owner, group in sorted(groups.items()) if owner not in evicted]


def _remember(ctx: Context, found: Apart, given_up: dict[str, str]) -> None:
    """Pods of the makers in `given_up` are evicted from now on in this drain, whatever becomes of the job."""
    memo = ctx.step.memo
    fresh: dict[str, object] = {}
    if given_up:
        fresh["evicted_after_all"] = [*memo.get("evicted_after_all", []), *given_up]
    told = list(dict.fromkeys([*memo.get("not_suspended", []), *filter(None, given_up.values())]))
    stopping = {**memo.get("stopping", {}), **{p.uid: p.key for pods in found.stopping.values() for p in pods}}
    titles = sorted({*memo.get("suspended", []), *filter(None, found.stopping)})
    for key, value in (("not_suspended", told), ("stopping", stopping), ("suspended", titles)):
        if value != memo.get(key, type(value)()):
            fresh[key] = value
    if fresh:
        ctx.remember(**fresh)


def may(ctx: Context, pod: PodSeen) -> bool:
    """Would its job be suspended for this drain? Writes nothing; False where nobody can tell."""
    port = ctx.ports.suspends
    if port is None or port.kinds(pod.namespace) is None:
        return False
    try:
        job = port.job_of(pod)
    except PortError:
        return False
    if job is None:
        return False
    return (
        _open(ctx, job) is not None or choosing.choose(job, port.kinds(job.namespace) or (), _before(ctx, job)) is None
    )


def _one(ctx: Context, port: Suspends, pods: Sequence[PodSeen]) -> Not | str:
    """The title of the job that stops, "" while that is not sure, or why its pods are evicted."""
    job = port.job_of(pods[0])
    if job is None:
        return Not()
    row = _open(ctx, job)
    if row is None:
        no = choosing.choose(job, port.kinds(job.namespace) or (), _before(ctx, job))
        if no is not None:
            return no
        row = _ask(ctx, job, pods) or _open(ctx, job)
    if row is None or not _join(ctx, row):
        raise TemporaryError(f"{job.title} is just being started again.", code="conflict")
    if row.state == Suspension.ASKED:
        return _write(ctx, port, row, job)
    return _watch(ctx, row, job)


def _open(ctx: Context, job: Job) -> Suspension | None:
    return Suspension.objects.filter(cluster_id=ctx.workflow.cluster_id, uid=job.uid, ended_at=None).first()


def _before(ctx: Context, job: Job) -> bool:
    """Did this drain suspend it already? Whatever ended that, it runs again by the word of somebody, or by ours."""
    rows = Suspension.objects.filter(cluster_id=ctx.workflow.cluster_id, uid=job.uid, suspended_at__isnull=False)
    return rows.filter(nodes__contains=[ctx.node_name], begun_at__gte=ctx.workflow.created_at).exists()


def _ask(ctx: Context, job: Job, pods: Sequence[PodSeen]) -> Suspension | None:
    """Row and intent, committed before anything is written. None: the drain of another node was faster."""
    op, now = uuid.uuid4(), ctx.now
    nodes = _ran_on(ctx, pods)
    row = Suspension(
        op_id=op, cluster_id=ctx.workflow.cluster_id, workflow=ctx.workflow, step=ctx.step, kind=job.kind,
        namespace=job.namespace, name=job.name, uid=job.uid, generation=job.generation,
        mark=f"{ctx.workflow.incident_id or ctx.workflow.label}/{op}", nodes=sorted(nodes),
        begun_at=now, asked_at=now, until=now + timedelta(seconds=ctx.timing.suspend_most),
    )  # fmt: skip
    before = {"pods": {pod.uid: pod.key for pod in pods}, "mark": row.mark, "generation": job.generation}
    state = None if ctx.lifecycle.state == NodeState.DRAINING else NodeState.DRAINING
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            intents.begin(ctx.workflow, ctx.step, VERB, job.title, now, op_id=op, before=before, node_state=state)
    except IntegrityError:
        return None
    ctx.lifecycle.state = NodeState.DRAINING
    return row


def _ran_on(ctx: Context, pods: Sequence[PodSeen]) -> set[str]:
    """Where the job has pods, as the observer last saw its gang."""
    cluster, keys = ctx.workflow.cluster_id, {pod.key for pod in pods}
    rows = GangRow.objects.filter(cluster_id=cluster, gone_at=None, nodes__contains=[ctx.node_name])
    found = {name for row in rows if any(member[0] in keys for member in row.members) for name in row.nodes}
    gangs = {pod.gang for pod in pods if pod.gang}
    if gangs:
        nodes = Node.objects.filter(cluster_id=cluster, gone_at=None, gang__in=gangs)
        found |= set(nodes.values_list("name", flat=True))
    return found | {ctx.node_name}


def _join(ctx: Context, row: Suspension) -> bool:
    """Our node is one that the job waits for from now on. False when it is being started again."""
    with transaction.atomic():
        now = Suspension.objects.select_for_update().get(pk=row.pk)
        if now.state not in (Suspension.ASKED, Suspension.SUSPENDED):
            return False
        if ctx.node_name not in now.nodes:
            now.nodes = sorted([*now.nodes, ctx.node_name])
            now.save(update_fields=["nodes"])
    row.state, row.nodes = now.state, now.nodes
    return True


def _write(ctx: Context, port: Suspends, row: Suspension, job: Job) -> Not | str:
    """The one write. Whoever comes after a crash or beside another drain first looks whether it has happened."""
    if job.mark == row.mark:
        landed(row, ctx)
        return _watch(ctx, row, job)
    if job.ended or job.suspended or job.generation != row.generation:
        return _left(ctx, row, f"{job.title} was changed by somebody else meanwhile: it is left as it is.")
    renew(ctx.workflow, ctx.now)
    Suspension.objects.filter(pk=row.pk).update(asked_at=ctx.now)
    try:
        port.change(job, True, row.mark)
    except (Conflict, UnknownOutcome) as error:
        if ctx.now < row.begun_at + timedelta(seconds=ctx.timing.suspend_wait):
            return ""  # looked at again soon; the mark tells
        return Not(f"Whether {job.title} is suspended is not known: {_short(error)} Its pods are evicted.")
    except PermanentError as error:  # an earlier call may be on its way still: the sweep ends the row when it is not
        intents.resolve_all([row.pk], intents.REFUSED, str(error), ctx.now)
        return Not(f"{job.title} is not suspended: {_short(error)}")
    landed(row, ctx)
    return row.title


def landed(row: Suspension, ctx: Context) -> None:
    """What happened has happened, whoever asks. The sweep may have taken it for lost."""
    fields = {"state": Suspension.SUSPENDED, "suspended_at": ctx.now, "ended_at": None}
    Suspension.objects.filter(pk=row.pk, state__in=(Suspension.ASKED, Suspension.LEFT)).update(**fields)
    intents.resolve_all([row.pk], intents.DONE, "Its controller ends its pods.", ctx.now)
    row.state, row.suspended_at = Suspension.SUSPENDED, ctx.now


def _watch(ctx: Context, row: Suspension, job: Job) -> Not | str:
    """It is suspended: do its pods go, and does it stay so?"""
    if job.mark != row.mark or not job.suspended:
        return _left(ctx, row, f"{job.title} was started again by somebody else: its pods are evicted.")
    since = row.suspended_at or row.begun_at
    if ctx.now >= since + timedelta(seconds=ctx.timing.suspend_wait):
        return Not(f"{job.title} is suspended, and its pods do not end by that: they are evicted.")
    return row.title


def _left(ctx: Context, row: Suspension, why: str) -> Not:
    """Somebody else decides about the job now. It counts as a suspension of this drain, so that no other follows."""
    intents.resolve_all([row.pk], intents.REFUSED, why, ctx.now)
    Suspension.objects.filter(pk=row.pk, suspended_at=None).update(suspended_at=ctx.now)
    close(row, Suspension.LEFT, why, ctx.now)
    return Not(why)


def close(row: Suspension, state: str, why: str, now: datetime) -> None:
    Suspension.objects.filter(pk=row.pk).update(state=state, text=why[:300], ended_at=now)


def waited_for(ctx: Context) -> str:
    names = named(ctx.step.memo.get("suspended", []))
    if not names:
        return "Asks the API server again whether the jobs of its pods are suspended."
    return f"Suspended, so that all of its pods end together: {names}. They are evicted where they do not."


def told(ctx: Context) -> str:
    """What the end of a drain says of them."""
    names: list[str] = ctx.step.memo.get("suspended", [])
    if not names:
        return ""
    return f" Suspended for it: {named(names)}."


def _unclear(ctx: Context, owner: str, pods: Sequence[PodSeen], error: PortError) -> Not | str:
    """The API server does not say. Looked at again, for as long as a suspended job is given."""
    since = dict(ctx.step.memo.get("unclear_since", {}))
    first = since.setdefault(owner, ctx.now.timestamp())
    ctx.remember(unclear_since=since)
    if ctx.now.timestamp() - first >= ctx.timing.suspend_wait:
        return Not(f"The job of {pods[0].key} is not suspended: {_short(error)}")
    return ""


def _short(error: PortError) -> str:
    return f"{str(error).rstrip('.')[:200]}."
