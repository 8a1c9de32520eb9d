"""Writes of claims, the kill switch and the breaker.

Decides nothing: claims are written by whoever holds the fleet's scope lock after `rules.decide` said yes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.policy.models import Breaker, Claim, ScopeLock, Switch


def lock_fleet(*, wait: bool = True) -> bool:
    """Serialise grants. Every grant counts in the scope `fleet`, so its one row stands for all scopes of a grant.

    False, where the caller would not `wait`, while somebody else has the lock.
    """
    here: dict[str, Any] = {"cluster_id": 0, "scope": "fleet", "key": ""}
    if wait:
        ScopeLock.objects.get_or_create(**here)  # whoever makes the row first keeps the others waiting here
    return ScopeLock.objects.select_for_update(skip_locked=not wait).filter(**here).first() is not None


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
    """Throw or lift the kill switch: no new disruption anywhere while it is on.

    Once this has committed no disruptive act begins. One whose intent was written before may go on to its end: a call
    to a BMC for at most 6 s. A second stop keeps since when and by whom, and may give the reason that the first lacked.
    """
    before = Switch.objects.select_for_update().filter(pk=1, stopped=True).first() if stopped else None
    row = {"stopped": stopped, "since": now, "by": by, "reason": reason.strip()[:300]}
    if before is not None:
        row |= {"since": before.since, "by": before.by, "reason": row["reason"] or before.reason}
    Switch.objects.update_or_create(pk=1, defaults=row)
    publish(None, [Notice("policy", "switch")], now)
    action = "switch.stop" if stopped else "switch.resume"
    audit.record("site", [audit.Entry(actor=by, action=action, object="switch:1", detail={"reason": reason})], now)


def stopped_or_held_so() -> Switch | None:
    """The kill switch's row if it is on; if not, it cannot be thrown before the caller's transaction ends.

    So whoever writes down in that transaction what it is about to do has begun before the stop, or does not begin.
    """
    rows = Switch.objects.raw("SELECT * FROM policy_switch WHERE id = 1 FOR SHARE")
    return next((row for row in rows if row.stopped), None)


def trip(cluster_id: int, text: str, now: datetime, by: str = "muster:policy") -> bool:
    """Open the cluster's breaker; False if it was open already. Call inside a transaction, as its end."""
    row, made = Breaker.objects.select_for_update().get_or_create(
        cluster_id=cluster_id, defaults={"state": Breaker.OPEN, "since": now, "by": by, "text": text[:500]}
    )
    if not made and row.state == Breaker.OPEN:
        return False
    Breaker.objects.filter(pk=row.pk).update(state=Breaker.OPEN, since=now, until=None, by=by, text=text[:500])
    publish(cluster_id, [Notice("policy", "breaker")], now)
    entry = audit.Entry(actor=by, action="breaker.open", object=f"breaker:{cluster_id}", detail={"reason": text})
    audit.record(audit.chain_of(cluster_id), [entry], now)
    return True


def cool_down(cluster_id: int, by: str, reason: str, seconds: float, now: datetime) -> bool:
    """Reset an open breaker: it stays shut to disruption until the cool-down is over. False if it is not open."""
    until = now + timedelta(seconds=seconds)
    rows = Breaker.objects.filter(cluster_id=cluster_id, state=Breaker.OPEN)
    if not rows.update(state=Breaker.COOLING, since=now, until=until, by=by, text=reason[:500]):
        return False
    publish(cluster_id, [Notice("policy", "breaker")], now)
    entry = audit.Entry(actor=by, action="breaker.reset", object=f"breaker:{cluster_id}", detail={"reason": reason})
    audit.record(audit.chain_of(cluster_id), [entry], now)
    return True
