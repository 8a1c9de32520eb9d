"""What happens after the wall clock was set back: nothing may sleep until a time that was written before.

Decides how far ahead a time of our own may lie, and pulls back what lies farther: calls that are never over, steps and
remediations that have not happened yet. Refuses to shorten anything: a call that may be under way has its whole time
again, counted by the new clock, before anybody looks what became of it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from fleet.inventory.models import Cluster
from fleet.lifecycle.intents import BMC_CALL_SECONDS
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES
from fleet.lifecycle.models import Intent, NodeLifecycle, Step

LONGEST = timedelta(minutes=15)
"""The farthest ahead that a workflow sleeps; what would wait longer looks again in between."""

SLACK = timedelta(minutes=1)
"""Clocks of several workers differ by less; what lies farther ahead was written before the clock was set back."""


def soonest(now: datetime, seconds: float) -> datetime:
    """When a workflow that waits `seconds` looks again."""
    return now + min(timedelta(seconds=min(seconds, 1e6)), LONGEST)


@transaction.atomic
def mend(now: datetime) -> int:
    """Give a present to what lies in the future. Idempotent; returns how many rows were ahead of the clock."""
    future = now + SLACK
    calls = Intent.objects.filter(Q(resolved_at=None) | Q(workflow__state__in=OPEN_WORKFLOW_STATES))
    ended = now + timedelta(seconds=BMC_CALL_SECONDS)
    ahead = calls.filter(created_at__gt=future, call_deadline__isnull=False, resolved_at=None)
    count = ahead.update(created_at=now, call_deadline=ended)
    count += calls.filter(created_at__gt=future).update(created_at=now)
    steps = Step.objects.filter(workflow__state__in=OPEN_WORKFLOW_STATES, ended_at=None, started_at__gt=future)
    count += steps.update(deadline=F("deadline") - (F("started_at") - now), started_at=now)
    count += NodeLifecycle.objects.filter(remediated_at__gt=future).update(remediated_at=now)
    return count + Cluster.objects.filter(connected_at__gt=future).update(connected_at=now)
