"""Lifecycle rows follow the inventory: made with the node, retired with it.

Decides the state of a node that appears, leaves, or changes between managed and unmanaged. Refuses to move a node that
a workflow works on: the workflow ends first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fleet.audit import services as audit
from fleet.inventory import selectors as inventory
from fleet.inventory.models import Node
from fleet.lifecycle import owners
from fleet.lifecycle.intents import EXPIRED, FAILED, REFUSED
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState, WorkflowState
from fleet.lifecycle.models import Intent, NodeLifecycle, Step, Workflow
from fleet.lifecycle.playbooks import REPROVISION
from fleet.policy import asking
from fleet.policy.models import Claim

LEFT = "The node left the cluster."


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


def _being_reprovisioned(node_ids: Iterable[int]) -> set[int]:
    sent = (
        Intent.objects.filter(workflow__node_id__in=list(node_ids), workflow__state__in=OPEN_WORKFLOW_STATES)
        .filter(verb=REPROVISION)
        .exclude(outcome__in=[REFUSED, EXPIRED, FAILED])
        .select_related("workflow")
    )
    return {intent.workflow.node_id for intent in sent if intent.workflow.verb == REPROVISION}


def retire_nodes(cluster_id: int, node_ids: Iterable[int], now: datetime) -> None:
    """The nodes are gone: their workflows end cleanly, their claims are free, their rows say retired.

    But for those that we are installing anew: their objects may go and come back, and their steps wait for that.
    """
    ids = list(node_ids)
    kept = _being_reprovisioned(ids)
    ids = [pk for pk in ids if pk not in kept]
    if not ids:
        return
    open_ones = list(
        Workflow.objects.filter(node_id__in=ids, state__in=[*OPEN_WORKFLOW_STATES, WorkflowState.PLANNED])
        .order_by("pk")
        .select_for_update(of=("self",))
        .select_related("node")
    )
    _end(cluster_id, open_ones, now)
    NodeLifecycle.objects.filter(node_id__in=ids).exclude(state=NodeState.RETIRED).update(
        state=NodeState.RETIRED, since=now, by="muster:observer", reason=LEFT
    )
    names = dict(Node.objects.filter(pk__in=ids).values_list("pk", "name"))
    entries = [
        audit.Entry(actor="muster:observer", action="node.retire", object=f"node:{pk}", node=name)
        for pk, name in sorted(names.items())
    ]
    audit.record(audit.chain_of(cluster_id), entries, now)


def _end(cluster_id: int, workflows: Sequence[Workflow], now: datetime) -> None:
    """Cancel them with their claims, their open steps and whatever was asked of people for them."""
    asking.withdraw([f"workflow:{workflow.pk}" for workflow in workflows], now)
    Claim.objects.filter(workflow_id__in=[w.pk for w in workflows], released_at=None).update(released_at=now)
    Step.objects.filter(workflow__in=workflows, ended_at=None).update(state="cancelled", ended_at=now, text=LEFT)
    heirs = inventory.successors(cluster_id, {w.node_id: w.created_at for w in workflows}) if workflows else {}
    for workflow in workflows:
        heir = heirs.get(workflow.node_id)
        workflow.state, workflow.version = WorkflowState.CANCELLED, workflow.version + 1
        workflow.wake_at, workflow.ended_at = None, now
        workflow.outcome = owners.renamed(heir)[:300] if heir else LEFT
        workflow.blocked_code = workflow.blocked_text = ""
        workflow.blocked_since = workflow.blocked_until = None
    fields = ["state", "version", "wake_at", "ended_at", "outcome"]
    Workflow.objects.bulk_update(
        workflows, [*fields, "blocked_code", "blocked_text", "blocked_since", "blocked_until"], batch_size=500
    )
