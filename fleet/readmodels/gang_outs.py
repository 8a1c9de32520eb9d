"""Why nodes take no work, for the gangs that wait for them: the state, the workflow, the ticket, since when.

Decides the words by the lifecycle before the cluster's own (a cordon of ours is "draining", not "cordoned"). Refuses to
foresee when a node is back.
"""

from __future__ import annotations

from django.db.models import Q

from fleet.gangs.diagnosis.rooms import Out
from fleet.inventory.models import Node
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState
from fleet.lifecycle.models import Workflow
from fleet.tickets.models import Ticket

SERVING = (NodeState.IN_SERVICE, NodeState.SUSPECT, NodeState.RELEASED, NodeState.UNMANAGED)


FIELDS = (
    "pk", "name", "ready", "ready_since", "ready_reason", "lifecycle__state", "lifecycle__since", "lifecycle__reason",
    "verdict_row__reason",
)  # fmt: skip


def outs(cluster_id: int) -> dict[str, Out]:
    """By node name, in three queries; nodes that serve are left out."""
    serves = Q(lifecycle__state__in=SERVING) & Q(unschedulable=False) & Q(ready=True)
    rows = list(Node.objects.filter(cluster_id=cluster_id, gone_at=None).exclude(serves).values_list(*FIELDS))
    if not rows:
        return {}
    states = [str(state) for state in OPEN_WORKFLOW_STATES]
    workflows = dict(
        Workflow.objects.filter(cluster_id=cluster_id, state__in=states).values_list("node_id", "pk")
    )  # at most one is open on a node
    tickets = dict(
        Ticket.objects.filter(cluster_id=cluster_id, state=Ticket.OPEN).order_by("pk").values_list("node_id", "pk")
    )  # the newest of several
    found: dict[str, Out] = {}
    for pk, name, ready, ready_since, ready_why, state, since, why, verdict in rows:
        number = tickets.get(pk)
        who = workflows.get(pk), f"TKT-{number}" if number else ""
        if state and state not in SERVING:
            found[name] = Out(state, why or verdict or "", since, None, *who)
        elif ready is not True:
            found[name] = Out("not_ready", ready_why, ready_since, None, *who)
        else:
            found[name] = Out("cordoned", "", None, None, *who)
    return found
