"""Why nodes take no work, for the gangs that wait for them: the state, the workflow, the ticket, since when.

Decides the words by the lifecycle before the cluster's own (a cordon of ours is "draining", not "cordoned"). Refuses to
foresee when a node is back.
"""

from __future__ import annotations

from django.db.models import OuterRef, Q, Subquery

from fleet.gangs.diagnosis.rooms import Out
from fleet.inventory.models import Node
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState
from fleet.lifecycle.models import Workflow
from fleet.tickets.models import Ticket

SERVING = (NodeState.IN_SERVICE, NodeState.SUSPECT, NodeState.RELEASED, NodeState.UNMANAGED)


def outs(cluster_id: int) -> dict[str, Out]:
    """By node name. One query; nodes that serve are left out."""
    workflow = Workflow.objects.filter(node=OuterRef("pk"), state__in=[str(state) for state in OPEN_WORKFLOW_STATES])
    ticket = Ticket.objects.filter(node=OuterRef("pk"), state=Ticket.OPEN).order_by("-pk")
    rows = (
        Node.objects.filter(cluster_id=cluster_id, gone_at=None)
        .exclude(Q(lifecycle__state__in=SERVING) & Q(unschedulable=False) & Q(ready=True))
        .annotate(workflow=Subquery(workflow.values("pk")[:1]), ticket=Subquery(ticket.values("pk")[:1]))
        .select_related("lifecycle", "verdict_row")
        .only("name", "ready", "ready_since", "ready_reason", "lifecycle", "verdict_row__reason")
    )
    return {node.name: _out(node) for node in rows.iterator(chunk_size=2000)}


def _out(node: Node) -> Out:
    workflow, number = getattr(node, "workflow", None), getattr(node, "ticket", None)
    ticket = f"TKT-{number}" if number else ""
    state = getattr(node, "lifecycle", None)
    if state is not None and state.state not in SERVING:
        verdict = getattr(node, "verdict_row", None)
        text = state.reason or (verdict.reason if verdict else "")
        return Out(state.state, text, state.since, workflow=workflow, ticket=ticket)
    if node.ready is not True:
        return Out("not_ready", node.ready_reason, node.ready_since, workflow=workflow, ticket=ticket)
    return Out("cordoned", workflow=workflow, ticket=ticket)
