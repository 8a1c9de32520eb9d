"""Who asks a budget for which several drains wait.

Decides that of all drains that one budget keeps waiting only the longest waiting asks it again soon, and that whoever
finds it open wakes the next ones: half a fleet on a few budgets would else ask hundreds of times for each pod that one
of them lets go, and the last would sleep while there is room. Refuses to let anybody sleep for long: each asks by
itself at last, since the one in front may wait for something else too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Step, Workflow

CODE = "pdb"
WOKEN = 8
"""Drains that are woken by one that found all that it needed: a budget that opens mostly opens for many, and a wave of
eights is through a fleet in four ticks. Whoever is woken for nothing asks once."""


def is_first(ctx: Context, budgets: Iterable[str]) -> bool:
    """Does no drain wait longer than this one for one of the budgets?"""
    workflow = ctx.workflow
    since = workflow.blocked_since if workflow.blocked_code == CODE and workflow.blocked_since else ctx.now
    before = Q(workflow__blocked_since__lt=since) | Q(workflow__blocked_since=since, workflow_id__lt=workflow.pk)
    return any(not _waiting(ctx, [budget]).filter(before).exists() for budget in budgets)


@transaction.atomic
def wake(ctx: Context, budgets: Iterable[str], now: datetime) -> int:
    """Let the next that wait for these budgets ask at the next tick. Returns how many.

    Rows that somebody else holds are passed by: whoever works on one of them asks anyway.
    """
    longest = _waiting(ctx, budgets).order_by("workflow__blocked_since", "workflow_id")
    chosen = list(longest.values_list("workflow_id", flat=True)[:WOKEN])
    asleep = Workflow.objects.filter(pk__in=chosen, blocked_code=CODE, wake_at__gt=now)
    free = list(asleep.select_for_update(skip_locked=True).values_list("pk", flat=True))
    return Workflow.objects.filter(pk__in=free).update(wake_at=now)


def _waiting(ctx: Context, budgets: Iterable[str]) -> QuerySet[Step, Step]:
    """The present steps of the cluster's other drains that one of the budgets keeps."""
    any_of: Any = Q()
    for budget in budgets:
        any_of |= Q(memo__budgets__contains=[budget])
    kept = Step.objects.filter(any_of, workflow__cluster_id=ctx.workflow.cluster_id, workflow__blocked_code=CODE)
    present = kept.filter(
        workflow__state=WorkflowState.BLOCKED, index=F("workflow__step"), attempt=F("workflow__attempt")
    )
    return present.exclude(workflow_id=ctx.workflow.pk)
