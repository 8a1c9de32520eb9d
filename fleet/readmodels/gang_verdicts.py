"""What was thought of some nodes at this moment, for the record of a job that failed there.

Decides that a node tells its verdict, the reason and its worst open incident. Refuses to say that it was to blame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.health.models import Incident, Verdict
from fleet.inventory.models import Node


def verdicts(cluster_id: int, names: Iterable[str]) -> list[dict[str, Any]]:
    """{node, verdict, reason, incident} by name, in two queries. A node that is not known is told as unknown."""
    wanted = sorted(set(names))
    open_ones = Incident.objects.filter(cluster_id=cluster_id, state=Incident.OPEN, node__name__in=wanted)
    incidents: dict[str, int] = {}
    for name, pk, severity in open_ones.order_by("-pk").values_list("node__name", "pk", "severity"):
        if name not in incidents or severity == Verdict.UNHEALTHY:
            incidents[name] = pk
    rows = Node.objects.filter(cluster_id=cluster_id, name__in=wanted, gone_at=None)
    found = {
        name: (verdict or Verdict.UNKNOWN, reason or "")
        for name, verdict, reason in rows.values_list("name", "verdict_row__verdict", "verdict_row__reason")
    }
    return [
        {
            "node": name,
            "verdict": str(found.get(name, (Verdict.UNKNOWN, ""))[0]),
            "reason": found.get(name, (Verdict.UNKNOWN, ""))[1],
            "incident": f"INC-{incidents[name]}" if name in incidents else "",
        }
        for name in wanted
    ]
