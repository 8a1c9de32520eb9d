"""One gang is interrupted once, not once for each of its nodes.

Decides whether the drain of a node may break a gang now: with the other nodes of that gang that are to be drained, at
the same moment as they, or not before it has recovered from the last time. Refuses to hold back what severity demands
(its callers do not ask then), and to promise that caps fit all nodes at once: where they do not, it says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, OuterRef, Subquery

from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import GangInterruption, Step, Workflow
from fleet.lifecycle.outcomes import Blocked
from fleet.lifecycle.playbooks import DRAIN
from fleet.policy.rules import TAKE_OUT

JOINING, RESTING, JOB_WAIT = "gang_joining", "gang_resting", "job_wait"


@dataclass(frozen=True, slots=True)
class Partner:
    """Another node of the same gangs that is to be drained. `arrived_at`: since when its drain is next."""

    node: str
    gang: str
    arrived_at: datetime | None


def partners(ctx: Context, gangs: Collection[str]) -> list[Partner]:
    """Open workflows of other nodes of `gangs` that have their drain ahead or are about to begin it."""
    if not gangs:
        return []
    begun = Step.objects.filter(
        workflow=OuterRef("pk"), verb=DRAIN, index=OuterRef("step"), attempt=OuterRef("attempt")
    )
    rows = (
        Workflow.objects.filter(
            cluster_id=ctx.workflow.cluster_id,
            node__gang__in=gangs,
            state__in=[WorkflowState.RUNNING, WorkflowState.BLOCKED],
            plan__contains=[{"verb": DRAIN}],
        )
        .exclude(pk=ctx.workflow.pk)
        .annotate(arrived_at=Subquery(begun.values("started_at")[:1]), name=F("node__name"), gang=F("node__gang"))
        .order_by("name")
    )
    return [
        Partner(row.name, row.gang, row.arrived_at)
        for row in rows
        if row.step <= [item["verb"] for item in row.plan].index(DRAIN)
    ]


def interrupted(ctx: Context, gangs: Collection[str]) -> dict[str, GangInterruption]:
    """The gangs that have not recovered yet from their last interruption."""
    since = ctx.now - timedelta(seconds=ctx.timing.gang_rest)
    rows = GangInterruption.objects.filter(cluster_id=ctx.workflow.cluster_id, gang__in=gangs, last_at__gt=since)
    return {row.gang: row for row in rows} if gangs else {}


def kept(
    ctx: Context, gangs: Collection[str], broken: dict[str, GangInterruption], alone: Collection[str] = ()
) -> Blocked | None:
    """Why this node may not break its gangs now; None when it may. `alone`: gangs that lose one node at a time."""
    join = timedelta(seconds=ctx.timing.gang_join)
    for gang, row in sorted(broken.items()):
        over = row.last_at + timedelta(seconds=ctx.timing.gang_rest)
        if row.workflow_id == ctx.workflow.pk or ctx.now <= row.begun_at + join:
            continue
        text = (
            f"Gang {gang} was interrupted at {row.begun_at:%H:%M:%S} UTC by WF-{row.workflow_id} and starts again. "
            f"This node waits until {over:%H:%M:%S} UTC, so that the gang is not interrupted twice."
        )
        return Blocked(RESTING, text, (over - ctx.now).total_seconds(), over)
    return _joining(ctx, [gang for gang in gangs if gang not in broken and gang not in alone], join)


def _joining(ctx: Context, gangs: Sequence[str], join: timedelta) -> Blocked | None:
    others = partners(ctx, gangs)
    late = [one for one in others if one.arrived_at is None]
    first = min([ctx.step.started_at, *(one.arrived_at for one in others if one.arrived_at)])
    if not late or ctx.now >= first + join:
        return None
    text = (
        f"{len(others) + 1} nodes of gang {late[0].gang} are to be drained. Waits until {first + join:%H:%M:%S} UTC "
        f"for {named([one.node for one in late])}, so that the gang is interrupted once."
    )
    return Blocked(JOINING, text, min(2.0, (first + join - ctx.now).total_seconds()), first + join)


def begin(ctx: Context, gangs: Collection[str]) -> str:
    """This drain breaks `gangs` now: keep it, wake those that wait for that moment. Returns what people should know."""
    if not gangs:
        return ""
    now, cluster = ctx.now, ctx.workflow.cluster_id
    old = GangInterruption.objects.filter(cluster_id=cluster, gang__in=gangs)
    old.filter(last_at__lte=now - timedelta(seconds=ctx.timing.gang_rest)).delete()
    GangInterruption.objects.bulk_create(
        [
            GangInterruption(cluster_id=cluster, gang=gang, workflow_id=ctx.workflow.pk, begun_at=now, last_at=now)
            for gang in sorted(gangs)
        ],
        update_conflicts=True,
        unique_fields=["cluster_id", "gang"],
        update_fields=["last_at"],
    )
    others = Workflow.objects.filter(cluster_id=cluster, node__gang__in=gangs, state=WorkflowState.BLOCKED)
    others.filter(blocked_code__in=(JOINING, JOB_WAIT)).update(wake_at=now)
    kept_by_caps = [f"cap_{TAKE_OUT}", "rate", "floor"]
    capped = list(
        others.filter(blocked_code__in=kept_by_caps).order_by("node__name").values_list("node__name", flat=True)
    )
    if not capped:
        return ""
    until = now + timedelta(seconds=ctx.timing.gang_join)
    return (
        f" The caps do not fit all nodes of the gang at once: {named(capped)} wait for room, and the gang is "
        f"interrupted again for what is drained later than {until:%H:%M:%S} UTC."
    )


def touch(ctx: Context, gangs: Collection[str]) -> None:
    """The drain has ended: from now the gangs have their time to recover."""
    if gangs:
        GangInterruption.objects.filter(cluster_id=ctx.workflow.cluster_id, gang__in=gangs).update(last_at=ctx.now)


def named(names: Sequence[str]) -> str:
    """At most three, and how many more."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
