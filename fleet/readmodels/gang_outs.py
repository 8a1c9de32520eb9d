"""Why nodes take no work, for the gangs that wait for them: the state, the workflow, the ticket, since when.

Decides the words by the lifecycle before the cluster's own (a cordon of ours is "draining", not "cordoned"), and when
a node is expected back: when its workflow has taken as long as those of its playbook usually did. Refuses to foresee
where a guard or a person is waited for, where too few went before, and what has taken longer already.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Q, QuerySet

from fleet.gangs.diagnosis.rooms import Out
from fleet.inventory.models import Node
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.tickets.models import Ticket

SERVING = (NodeState.IN_SERVICE, NodeState.SUSPECT, NodeState.RELEASED, NodeState.UNMANAGED)
FIELDS = (
    "pk", "name", "ready", "ready_since", "ready_reason", "lifecycle__state", "lifecycle__since", "lifecycle__reason",
    "verdict_row__reason",
)  # fmt: skip
USUAL_OVER = timedelta(days=30)
USUAL_LEAST = 3  # ended well; of fewer nobody can say what is usual
USUAL = """
    SELECT playbook, percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM ended_at - started_at))
    FROM lifecycle_workflow
    WHERE cluster_id = %s AND playbook = ANY(%s) AND state = %s AND ended_at > %s AND started_at < ended_at
    GROUP BY playbook HAVING count(*) >= %s
"""


def outs(cluster_id: int, now: datetime) -> dict[str, Out]:
    """By node name, in five queries; nodes that serve are left out."""
    serves = Q(lifecycle__state__in=SERVING) & Q(unschedulable=False) & Q(ready=True)
    rows = list(Node.objects.filter(cluster_id=cluster_id, gone_at=None).exclude(serves).values_list(*FIELDS))
    if not rows:
        return {}
    states = [str(state) for state in OPEN_WORKFLOW_STATES]
    open_ = Workflow.objects.filter(cluster_id=cluster_id, state__in=states)
    workflows = dict(open_.values_list("node_id", "pk"))  # at most one is open on a node
    back = _back_at(cluster_id, open_, now)
    tickets = dict(
        Ticket.objects.filter(cluster_id=cluster_id, state=Ticket.OPEN).order_by("pk").values_list("node_id", "pk")
    )  # the newest of several
    found: dict[str, Out] = {}
    for pk, name, ready, ready_since, ready_why, state, since, why, verdict in rows:
        number = tickets.get(pk)
        who = back.get(pk), workflows.get(pk), f"TKT-{number}" if number else ""
        if state and state not in SERVING:
            found[name] = Out(state, why or verdict or "", since, *who)
        elif ready is not True:
            found[name] = Out("not_ready", ready_why, ready_since, *who)
        else:
            found[name] = Out("cordoned", "", None, *who)
    return found


def _back_at(cluster_id: int, open_: QuerySet[Workflow], now: datetime) -> dict[int, datetime]:
    """By node id, of those that are at work and within the usual time (the median)."""
    at_work = list(
        open_.filter(state=WorkflowState.RUNNING, started_at__isnull=False).values_list(
            "node_id", "playbook", "started_at"
        )
    )
    if not at_work:
        return {}
    playbooks = sorted({playbook for _, playbook, _ in at_work})
    with connection.cursor() as cursor:
        cursor.execute(
            USUAL,
            (cluster_id, playbooks, str(WorkflowState.SUCCEEDED), now - USUAL_OVER, USUAL_LEAST),
        )
        usual = {str(playbook): timedelta(seconds=float(seconds)) for playbook, seconds in cursor.fetchall()}
    back = {node: begun + usual[playbook] for node, playbook, begun in at_work if begun and playbook in usual}
    return {node: at for node, at in back.items() if at > now}
