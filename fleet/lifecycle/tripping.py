"""Looks whether the breaker of a cluster must trip, and resets it when a person says so.

Decides what is counted: nodes newly held and nodes that ask to be, remedies that ended; all of it of faults since
the last reset, because a person who resets the breaker has seen what came before. Refuses to close
it without a reason, and to go on with plans whose fault is over meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db import transaction

from fleet.health import selectors as health
from fleet.health.models import Incident
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle.askers import Asker
from fleet.lifecycle.models import Remedy, Workflow
from fleet.lifecycle.playbooks import HOLD
from fleet.policy import breaker
from fleet.policy import selectors as policy
from fleet.policy import services as claims
from fleet.policy.models import Breaker
from fleet.policy.rules import Decision

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def look(cluster: Cluster, waiting: Sequence[Asker], now: datetime) -> Decision | None:
    """Trip the breaker if it must; the decision that then keeps everybody. Under the fleet's scope lock."""
    rule = policy.breaker_rule(cluster.pk)
    reset = Breaker.objects.filter(cluster_id=cluster.pk, state=Breaker.COOLING).values_list("since", flat=True).first()
    known = reset or LONG_AGO
    granted = policy.held_lately(cluster.pk, now - timedelta(seconds=rule.window))
    before = set(Workflow.objects.filter(pk__in=granted, created_at__lte=known).values_list("pk", flat=True))
    held = {node_id for workflow_id, node_id in granted.items() if workflow_id not in before}
    asking = {asker.node_id for asker in waiting if asker.verb == HOLD and (asker.created_at or now) > known} - held
    since = max(now - timedelta(seconds=rule.failed_window), known)
    results = list(Remedy.objects.filter(cluster_id=cluster.pk, ended_at__gt=since).values_list("result", flat=True))
    counts = breaker.Counts(
        nodes=Node.objects.filter(cluster=cluster, managed=True, gone_at=None).count(),
        held=len(held),
        ended=len(results),
        failed=sum(result != Remedy.HELD for result in results),
    )
    said = breaker.trips(rule, counts, more=len(asking))
    if not said:
        return None
    claims.trip(cluster.pk, said, now)
    return policy.halt(cluster.pk, now)


@transaction.atomic
def reset(cluster: Cluster, by: str, reason: str, now: datetime) -> bool:
    """Cool down, look at current health anew, then go on with one node. False if the breaker is not open.

    The caller checks the right and the reason, and plans anew after the commit.
    """
    claims.lock_fleet()
    if not claims.cool_down(cluster.pk, by, reason, policy.breaker_rule(cluster.pk).cooldown, now):
        return False
    Cluster.objects.filter(pk=cluster.pk).update(half_open=True)
    from fleet.lifecycle import withdrawing

    over = [*health.quiet_incidents(cluster.pk), *_closed(cluster)]
    withdrawing.withdraw_untouched(over, f"The fault is over; the breaker was reset by {by}.", now, by)
    return True


def _closed(cluster: Cluster) -> list[int]:
    rows = Workflow.objects.filter(cluster=cluster, ended_at=None, incident__isnull=False)
    return list(rows.exclude(incident__state=Incident.OPEN).values_list("incident_id", flat=True))
