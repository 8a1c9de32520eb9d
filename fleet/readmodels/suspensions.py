"""Jobs that we keep suspended, as whoever asks after a node reads of them.

Decides nothing; refuses jobs that are not ours to start any more: what became of them is on the workflow's page.
"""

from __future__ import annotations

from fleet.inventory.models import Node
from fleet.lifecycle.models import Suspension


def of_node(node: Node) -> str:
    """A sentence for each job that ran on the node and is suspended for a drain; "" without any."""
    rows = Suspension.objects.filter(
        cluster_id=node.cluster_id, ended_at=None, suspended_at__isnull=False, nodes__contains=[node.name]
    )
    return " ".join(_said(row) for row in rows.order_by("suspended_at")[:3])


def _said(row: Suspension) -> str:
    told = f"{row.title} is suspended by us since {row.suspended_at:%H:%M} UTC"
    if row.text:
        return f"{told}, and cannot be started again: {row.text}"
    return f"{told}, until the last of its nodes is drained."
