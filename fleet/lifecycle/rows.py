"""Lifecycle rows follow the inventory: made with the node, retired with it.

Decides the state of a node that appears, leaves, or changes between managed and unmanaged. Refuses to move a node that
a workflow works on: the workflow ends first.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import F

from fleet.audit import services as audit
from fleet.inventory.models import Node
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState, WorkflowState
from fleet.lifecycle.models import NodeLifecycle, Workflow
from fleet.policy.models import Claim


def ensure_rows(cluster_id: int, node_ids: Iterable[int], managed_ids: Iterable[int], now: datetime) -> None:
    """Every node has a row; nodes that came back or changed the managed set move. In the caller's transaction."""
    ids, managed = set(node_ids), set(managed_ids)
    there = dict(NodeLifecycle.objects.filter(node_id__in=ids).values_list("node_id", "state"))
    NodeLifecycle.objects.bulk_create(
        [
            NodeLifecycle(
                node_id=pk,
                cluster_id=cluster_id,
                state=NodeState.IN_SERVICE if pk in managed else NodeState.UNMANAGED,
                since=now,
                by="muster:observer",
            )
            for pk in ids - there.keys()
        ],
        ignore_conflicts=True,
    )
    enters = [pk for pk, state in there.items() if pk in managed and state in (NodeState.UNMANAGED, NodeState.RETIRED)]
    leaves = [
        pk
        for pk, state in there.items()
        if pk not in managed
        and state in (NodeState.IN_SERVICE, NodeState.SUSPECT, NodeState.RELEASED, NodeState.RETIRED)
    ]
    for found, state in ((enters, NodeState.IN_SERVICE), (leaves, NodeState.UNMANAGED)):
        if found:
            NodeLifecycle.objects.filter(node_id__in=found).update(
                state=state, since=now, by="muster:observer", reason=""
            )


def settle_released(now: datetime) -> int:
    """Nodes that people took back return to `in_service` once they are schedulable, unmarked and healthy."""
    rows = NodeLifecycle.objects.filter(
        state=NodeState.RELEASED,
        node__unschedulable=False,
        node__hold_value="",
        node__gone_at=None,
        node__verdict_row__verdict="healthy",
    ).exclude(node__incidents__state="open")
    return rows.update(
        state=NodeState.IN_SERVICE, since=now, by="muster:sweep", reason="Schedulable and healthy again."
    )


def retire_nodes(cluster_id: int, node_ids: Iterable[int], now: datetime) -> None:
    """The nodes are gone: their workflows end cleanly, their claims are free, their rows say retired."""
    ids = list(node_ids)
    if not ids:
        return
    open_ones = list(
        Workflow.objects.filter(node_id__in=ids, state__in=[*OPEN_WORKFLOW_STATES, WorkflowState.PLANNED])
        .order_by("pk")
        .select_for_update(of=("self",))
        .select_related("node")
    )
    Claim.objects.filter(workflow_id__in=[w.pk for w in open_ones], released_at=None).update(released_at=now)
    Workflow.objects.filter(pk__in=[w.pk for w in open_ones]).update(
        state=WorkflowState.CANCELLED,
        version=F("version") + 1,
        wake_at=None,
        ended_at=now,
        outcome="The node left the cluster.",
        blocked_code="",
        blocked_text="",
    )
    NodeLifecycle.objects.filter(node_id__in=ids).exclude(state=NodeState.RETIRED).update(
        state=NodeState.RETIRED, since=now, by="muster:observer", reason="The node left the cluster."
    )
    names = dict(Node.objects.filter(pk__in=ids).values_list("pk", "name"))
    entries = [
        audit.Entry(actor="muster:observer", action="node.retire", object=f"node:{pk}", node=name)
        for pk, name in sorted(names.items())
    ]
    audit.record(audit.chain_of(cluster_id), entries, now)
