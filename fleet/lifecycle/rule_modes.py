"""What becomes of plans when the mode of their rule changes.

Decides, as for the mode of a cluster: plans that have not touched their node are discarded, with what was asked of
people for them, and current health is planned anew; after a raised mode the cluster goes on one node at a time until
one has returned. What has begun goes on, or in mode observe writes nothing more. Refuses to touch what people asked
for: it has no incident.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from fleet.health.modes import Renewed
from fleet.inventory.models import Cluster
from fleet.lifecycle import grants, planner, withdrawing
from fleet.policy import asking
from fleet.ports.clock import Clock


def follow(cluster_id: int, renewed: Renewed, now: datetime, clock: Clock) -> None:
    """In the caller's transaction; what is planned anew is planned after its commit."""
    text = "The mode of its rule changed."
    taken = withdrawing.withdraw_untouched(renewed.all, text, now, withdrawing.ACTOR)
    asking.withdraw([f"workflow:{pk}" for pk in taken], now)
    if renewed.raised:
        Cluster.objects.filter(pk=cluster_id, connected_at__isnull=False).update(half_open=True)
    transaction.on_commit(lambda: _again(cluster_id, clock), robust=True)


def _again(cluster_id: int, clock: Clock) -> None:
    planner.replan(cluster_id, clock, withdrawing.ACTOR)
    grants.run(cluster_id, clock)
