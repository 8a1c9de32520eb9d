"""How long results of tests are kept.

Decides that a run goes after half a year, but the newest of each node, test, purpose and result stays: baselines, the
rounds of burn-in and the node's page read those. Refuses to take a run that still runs, whatever its age.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from fleet.lifecycle.validation.models import ValidationRun

KEPT = timedelta(days=180)
AT_ONCE = 2000
"""Rows that one call deletes, so that it is never long; the next call goes on."""


@transaction.atomic
def retain(now: datetime) -> int:
    """Delete what is too old, with its findings. Returns how many runs went. Idempotent."""
    same = ("node_id", "test", "purpose", "result")
    newest = ValidationRun.objects.order_by(*same, "-started_at", "-pk").distinct(*same).values("pk")
    old = ValidationRun.objects.filter(ended_at__lt=now - KEPT).exclude(pk__in=newest)
    ids = list(old.order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
    if ids:
        ValidationRun.objects.filter(pk__in=ids).delete()
    return len(ids)
