"""Writes of claims, caps and the kill switch.

Decides nothing: claims are written by whoever holds the fleet's scope lock after `rules.decide` said yes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.policy.models import Claim, ScopeLock, Switch


def lock_fleet() -> None:
    """Serialise grants. Every grant counts in the scope `fleet`, so its one row stands for all scopes of a grant."""
    row, _ = ScopeLock.objects.get_or_create(cluster_id=0, scope="fleet", key="")
    ScopeLock.objects.select_for_update().get(pk=row.pk)


def claim(rows: Iterable[Claim]) -> None:
    """Insert claims; one that is open already stays as it is."""
    Claim.objects.bulk_create(list(rows), ignore_conflicts=True)


def release(workflow_id: int, now: datetime, kinds: Iterable[str] | None = None) -> int:
    """End the workflow's open claims (of `kinds`, or all). Returns how many ended."""
    open_claims = Claim.objects.filter(workflow_id=workflow_id, released_at=None)
    if kinds is not None:
        open_claims = open_claims.filter(kind__in=list(kinds))
    return open_claims.update(released_at=now)


@transaction.atomic
def stop_all(*, stopped: bool, by: str, reason: str, now: datetime) -> None:
    """Throw or lift the kill switch: no new disruption anywhere while it is on."""
    Switch.objects.update_or_create(pk=1, defaults={"stopped": stopped, "since": now, "by": by, "reason": reason})
    publish(None, [Notice("policy", "switch")], now)
    action = "switch.stop" if stopped else "switch.resume"
    audit.record("site", [audit.Entry(actor=by, action=action, object="switch:1", detail={"reason": reason})], now)
