"""Workflows that test a suspicion: who must agree, when a suspicion is answered, and when it gives way.

Decides that a mere suspicion takes a node out by itself only in pools that opted in; elsewhere each plan waits for a
person. A suspicion that an active test did not confirm is not tested again for a day. Refuses to let the test of a
suspicion stand in the way of a fault that needs none: a plan that has not begun ends, one that holds or drains its node
already becomes the fault's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.health import modes
from fleet.health.models import Incident
from fleet.inventory.models import Mode, Node
from fleet.lifecycle import approving, shelf
from fleet.lifecycle.cases import case_of
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, WorkflowState
from fleet.lifecycle.models import Step, Workflow
from fleet.lifecycle.playbooks import CONFIRM, DRAIN, HOLD, Plan, plan_for
from fleet.lifecycle.validation import rack
from fleet.policy import asking
from fleet.policy import services as claims
from fleet.policy.rules import IN_FLIGHT


def waits_for_a_word(chosen: Plan, node: Node) -> bool:
    """Must a person agree to this plan although the mode is automate?"""
    tests = any(step.verb == CONFIRM for step in chosen.steps)
    return tests and not rack.suites().confirms_alone(node.pool.name if node.pool else "")


def make_way(cluster_id: int, incident_ids: Sequence[int], now: datetime, by: str) -> list[audit.Entry]:
    """Let faults have the nodes on which only a suspicion is being followed. The caller records the entries."""
    followed = Workflow.objects.filter(
        cluster_id=cluster_id,
        state__in=[*OPEN_WORKFLOW_STATES, WorkflowState.PLANNED],
        plan__contains=[{"verb": CONFIRM}],
    )
    suspected = list(followed.values_list("node_id", flat=True))
    if not suspected:
        return []
    faults = {
        incident.node_id: incident
        for incident in Incident.objects.filter(
            pk__in=incident_ids, cluster_id=cluster_id, state=Incident.OPEN, severity="unhealthy", part_of=None
        )
        .exclude(action_class="confirm")
        .filter(node_id__in=suspected)
        .select_related("node__pool", "node__cluster")
        .order_by("-detected_at")
        if incident.plan_after is None or incident.plan_after <= now
        if incident.muted_until is None or incident.muted_until <= now
    }
    if not faults:
        return []
    rows = (
        followed.select_for_update(of=("self",), skip_locked=True)
        .select_related("node", "cluster", "incident")
        .filter(node_id__in=[pk for pk in faults if pk is not None])
        .order_by("pk")
    )
    return [entry for workflow in rows for entry in _give_way(workflow, faults[workflow.node_id], now, by)]


def _give_way(workflow: Workflow, fault: Incident, now: datetime, by: str) -> list[audit.Entry]:
    chosen = plan_for(case_of(fault, fault.node), shelf.book()) if fault.node else Plan("")
    if workflow.incident is not None and _further(workflow.incident, fault):
        return []  # the fault's rule may do less
    if not chosen.playbook or workflow.verb not in (HOLD, DRAIN, CONFIRM) or workflow.attempt > 1:
        return []  # its remedy is under way: the same ladder, and the same tests at its end
    asking.withdraw([approving.subject_of(workflow)], now)
    if workflow.state in (WorkflowState.PLANNED, WorkflowState.WAITING):
        from fleet.lifecycle import withdrawing

        withdrawing.cancel(workflow, f"{fault.label} needs no test: {fault.title}", now, by)
        return []
    detail = {"from": workflow.playbook, "to": chosen.playbook, "incident": fault.pk, "was": workflow.incident_id}
    workflow.incident, workflow.playbook, workflow.plan = fault, chosen.playbook, chosen.as_json()
    workflow.attempts = chosen.attempts
    workflow.needs_approval = _mode(fault) == Mode.RECOMMEND
    workflow.approved_hash = ""
    workflow.version += 1  # whoever works on the old plan writes nothing any more
    workflow.wake_at = now if workflow.wake_at is not None else None
    workflow.save(
        update_fields=[
            "incident",
            "playbook",
            "plan",
            "attempts",
            "needs_approval",
            "approved_hash",
            "version",
            "wake_at",
        ]
    )
    step = Step.objects.filter(workflow=workflow, index=workflow.step, ended_at=None).exclude(verb=workflow.verb)
    step.update(verb=workflow.verb, memo={}, deadline=None)
    claims.release(workflow.pk, now, [IN_FLIGHT])
    publish(workflow.cluster_id, [Notice("workflow", str(workflow.pk), workflow.node.name)], now)
    return [audit.Entry(by, "workflow.exchange", f"workflow:{workflow.pk}", node=workflow.node.name, detail=detail)]


def _mode(fault: Incident) -> str:
    from fleet.lifecycle.planner import mode_on

    return mode_on(fault.node, fault) if fault.node else Mode.OBSERVE


def _further(one: Incident, other: Incident) -> bool:
    return modes.ORDER.index(one.mode) > modes.ORDER.index(other.mode)
