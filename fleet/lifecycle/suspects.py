"""Nodes that are suspected of a grey failure.

Decides, from open signs of the action class `confirm`, which nodes in service are suspect and which no longer are.
Refuses anything more: a suspect node serves as before until an active test or a person has confirmed the suspicion.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.health.models import Incident, Signal
from fleet.lifecycle.machine import NodeState, check_node_edge
from fleet.lifecycle.models import NodeLifecycle

ACTOR = "muster:observer"


@transaction.atomic
def mark(cluster_id: int, now: datetime) -> tuple[int, int]:
    """How many became suspect, and how many no longer are."""
    suspected = set(
        Signal.objects.filter(cluster_id=cluster_id, cleared_at=None, action_class="confirm")
        .exclude(evidence__has_key="shadow")  # a rule in shadow only shows what it sees
        .exclude(incident__state=Incident.RESOLVED)  # an active test or a person has answered it
        .values_list("node_id", flat=True)
    )
    rows = NodeLifecycle.objects.select_for_update(of=("self",)).select_related("node").order_by("pk")
    fresh = list(rows.filter(cluster_id=cluster_id, state=NodeState.IN_SERVICE, node_id__in=suspected))
    over = list(rows.filter(cluster_id=cluster_id, state=NodeState.SUSPECT).exclude(node_id__in=suspected))
    moves = [(row, NodeState.IN_SERVICE, NodeState.SUSPECT) for row in fresh]
    moves += [(row, NodeState.SUSPECT, NodeState.IN_SERVICE) for row in over]
    if not moves:
        return 0, 0
    entries = []
    for row, old, new in moves:
        sentence = check_node_edge(old, new)
        row.state, row.since, row.reason, row.by = new, now, sentence, ACTOR
        detail = {"from": old, "to": new, "reason": sentence}
        entries.append(audit.Entry(ACTOR, "node.state", f"node:{row.node_id}", node=row.node.name, detail=detail))
    NodeLifecycle.objects.bulk_update([row for row, _, _ in moves], ["state", "since", "reason", "by"])
    publish(cluster_id, [Notice("node", str(row.node_id), row.node.name) for row, _, _ in moves], now)
    audit.record(audit.chain_of(cluster_id), entries, now)
    return len(fresh), len(over)
