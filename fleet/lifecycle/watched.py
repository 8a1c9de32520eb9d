"""Does an observer watch the cluster now?

Decides from the observer's lease. While nobody watches, every verdict is old, and old data neither starts a disruption
nor returns a node.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from fleet.inventory.models import Cluster

GRACE = timedelta(seconds=10)
"""A restarted observer takes over within this; shorter gaps change no verdict worth acting on."""


def unwatched(cluster_id: int, now: datetime) -> str:
    """ "" while an observer's lease is fresh, else the sentence that says since when nobody watches."""
    until = Cluster.objects.values_list("observer_until", flat=True).get(pk=cluster_id)
    if until is not None and now <= until + GRACE:
        return ""
    since = f"since {until:%H:%M:%S} UTC" if until else "yet"
    return f"No observer watches this cluster {since}: what is known is too old to act upon."
