"""Nodes in an open fault, for the gangs whose members say that they are ready there.

Decides that a node counts by its worst open incident that calls it unhealthy. Refuses what is only suspected or
degraded, and faults of shared scopes: those disrupt nobody by themselves.
"""

from __future__ import annotations

from fleet.health.models import Incident, Verdict


def sick(cluster_id: int) -> dict[str, str]:
    """Node name -> the title of its oldest such incident. One query."""
    rows = Incident.objects.filter(
        cluster_id=cluster_id, state=Incident.OPEN, severity=Verdict.UNHEALTHY, node__gone_at=None
    ).exclude(node=None)
    found: dict[str, str] = {}
    for name, title in rows.order_by("detected_at", "pk").values_list("node__name", "title"):
        found.setdefault(name, title)
    return found
