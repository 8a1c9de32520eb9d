"""Approval of workflows: asked for with the plan, bound to it, and used once.

Decides what of a plan people agree to (the node's identity, the steps with every rung that they may climb, the
incident) and what a vote sets going. Refuses to run a step that needs a claim while the plan is not exactly the one
that was approved.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction

from fleet.audit import services as audit
from fleet.lifecycle.fence import Change, write
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.persist import NOT_BLOCKED
from fleet.policy import approvals, asking
from fleet.policy import services as claims
from fleet.policy.models import Approval
from fleet.policy.rules import Decision


def subject_of(workflow: Workflow) -> str:
    return f"workflow:{workflow.pk}"


def hash_of(workflow: Workflow) -> str:
    """Of what people agree to. Which rung of the ladder is being tried is no change of the plan."""
    steps = [{**step, "verb": step["ladder"][0]} if step.get("ladder") else step for step in workflow.plan]
    return approvals.plan_hash(
        {"node": workflow.node_id, "uid": workflow.node_uid, "incident": workflow.incident_id, "steps": steps}
    )


def ask(workflows: Iterable[Workflow], kind: str, now: datetime) -> None:
    """Request approval of each, in the caller's transaction."""
    asking.ask(
        [
            asking.Wanted(
                subject=subject_of(workflow),
                kind=kind,
                plan_hash=hash_of(workflow),
                requested_by=workflow.created_by,
                cluster_id=workflow.cluster_id,
                node=workflow.node.name,
                reason=workflow.reason or (workflow.incident.title if workflow.incident else ""),
                summary=_summary(workflow),
            )
            for workflow in workflows
        ],
        now,
    )


def _summary(workflow: Workflow) -> dict[str, Any]:
    return {
        "node": workflow.node.name,
        "playbook": workflow.playbook,
        "verbs": [step["verb"] for step in workflow.plan],
        "pods": workflow.node.pods,
        "gang": workflow.node.gang,
    }


def lacking(workflow: Workflow) -> bool:
    """Does it need an approval that its present plan does not have?"""
    return workflow.needs_approval and workflow.approved_hash != hash_of(workflow)


@transaction.atomic
def ask_again(workflow: Workflow, now: datetime) -> None:
    """The approved plan has changed: ask for the new one, unless that was done already."""
    wanted = hash_of(workflow)
    pending = Approval.objects.filter(subject=subject_of(workflow), state=Approval.PENDING, plan_hash=wanted)
    if not pending.filter(expires_at__gt=now).exists():
        ask([workflow], approvals.RECOMMEND, now)


@transaction.atomic
def vote(workflow_id: int, actor: str, yes: bool, reason: str, now: datetime) -> Decision:
    """One person's word on the workflow's pending request. Raises asking.VoteRefused."""
    workflow = (
        Workflow.objects.select_for_update(of=("self",))
        .select_related("node", "cluster", "incident")
        .get(pk=workflow_id)
    )
    row = Approval.objects.filter(subject=subject_of(workflow), state=Approval.PENDING).first()
    if row is None:
        raise asking.VoteRefused(f"{workflow.label} does not wait for approval.")
    current = hash_of(workflow)
    decision = asking.vote(row.pk, actor, yes, reason, current, now)
    if decision.allowed:
        _go(workflow, actor, current, now)
    elif not yes:
        _end(workflow, actor, f"Rejected by {actor}: {reason}".strip(": "), now)
    else:
        write(workflow, Change({"blocked_text": decision.text[:500], "blocked_until": decision.until}), now, actor)
    return decision


def _go(workflow: Workflow, actor: str, current: str, now: datetime) -> None:
    entry = audit.Entry(
        actor, "workflow.approve", subject_of(workflow), node=workflow.node.name,
        detail={"verbs": [item["verb"] for item in workflow.plan], "plan_hash": current},
    )  # fmt: skip
    changes = {**NOT_BLOCKED, "approved_hash": current, "wake_at": now, "version": workflow.version + 1}
    write(workflow, Change(changes, entries=[entry]), now, actor)


def _end(workflow: Workflow, actor: str, text: str, now: datetime) -> None:
    """A plan that has not begun ends; one that holds its node gives it back by its last step."""
    if workflow.state != WorkflowState.WAITING:
        from fleet.lifecycle import services

        services.abort(workflow.pk, actor, text, now)
        return
    claims.release(workflow.pk, now)
    entry = audit.Entry(
        actor, "workflow.reject", subject_of(workflow), node=workflow.node.name, detail={"reason": text}
    )
    ended = {
        **NOT_BLOCKED,
        "state": WorkflowState.CANCELLED,
        "wake_at": None,
        "ended_at": now,
        "outcome": text[:300],
        "version": workflow.version + 1,
    }
    write(workflow, Change(ended, entries=[entry]), now, actor)


@transaction.atomic
def expire(now: datetime) -> int:
    """End the plans whose request ran out; the planner makes a new one if the fault still asks for it."""
    pks = [int(subject.split(":")[1]) for subject in asking.expire(now) if subject.startswith("workflow:")]
    rows = Workflow.objects.select_for_update(of=("self",)).select_related("node", "cluster", "incident")
    waiting = list(rows.filter(pk__in=pks, state=WorkflowState.WAITING))
    for workflow in waiting:
        _end(workflow, "muster:policy", "The request for approval expired.", now)
    return len(waiting)
