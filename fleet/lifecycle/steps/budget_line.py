"""Several drains wait for one budget: whoever finds it open wakes the next.

Decides who is woken: those that wait longest, as many as a wave takes. Each asks by itself too, more and more seldom;
without a word from others the last pods of half a fleet would sleep while there is room. That a budget moves is
progress for all that wait for it, so the woken ask often again from then on: most budgets let one go after the other.
Refuses to wake for a budget that let only some of a node's pods go, for it is used up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, JSONField, Q, Value
from django.db.models.expressions import CombinedExpression

from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Step, Workflow

CODE = "pdb"
WOKEN = 8
"""Drains that are woken by one that found all that it needed: a budget that opens mostly opens for many, and a wave of
eights is through a fleet in four ticks. Whoever is woken for nothing asks once."""

AFRESH = CombinedExpression(F("memo"), "||", Value({"rounds_refused": 0}, JSONField()))


@transaction.atomic
def wake(ctx: Context, budgets: Iterable[str], now: datetime) -> int:
    """Let the next that wait for these budgets ask at the next tick. Returns how many.

    Rows that somebody else holds are passed by: whoever works on one of them asks anyway.
    """
    any_of: Any = Q()
    for budget in budgets:
        any_of |= Q(memo__budgets__contains=[budget])
    kept = Step.objects.filter(any_of, workflow__cluster_id=ctx.workflow.cluster_id, workflow__blocked_code=CODE)
    present = kept.filter(
        workflow__state=WorkflowState.BLOCKED, index=F("workflow__step"), attempt=F("workflow__attempt")
    )
    longest = present.exclude(workflow_id=ctx.workflow.pk).order_by("workflow__blocked_since", "workflow_id")
    chosen = dict(longest.values_list("workflow_id", "pk")[:WOKEN])
    Step.objects.filter(pk__in=chosen.values()).update(memo=AFRESH)
    asleep = Workflow.objects.filter(pk__in=chosen, blocked_code=CODE, wake_at__gt=now)
    free = list(asleep.select_for_update(skip_locked=True).values_list("pk", flat=True))
    return Workflow.objects.filter(pk__in=free).update(wake_at=now)
