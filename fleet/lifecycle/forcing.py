"""What people may add to a drain that is kept: delete what a budget protects, drain a Ray head, wait for nobody.

Decides what each request names (pods by UID, in one step of one workflow) and that another person must agree to it.
Refuses to force anything that the drain has not met yet, and to carry an approval over to other pods: a pod that came
since is not among them. Nothing here calls a cluster; the drain itself looks at what was agreed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from fleet.audit import services as audit
from fleet.lifecycle.fence import Change, write
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Step, Workflow
from fleet.lifecycle.playbooks import DRAIN
from fleet.policy import approvals, asking
from fleet.policy.models import Approval
from fleet.policy.rules import Decision

SUBJECTS = {approvals.FORCE: "force", approvals.RAY_HEAD: "heads"}
TITLES = {approvals.FORCE: "drain by force", approvals.RAY_HEAD: "drain of a Ray head"}


class ForceRefused(Exception):
    """It is not possible now; the text says why."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a request about these pods stands. `pods` uid -> key of what was agreed to."""

    state: str = ""  # an Approval's state; "" when nothing was asked
    pods: frozenset[str] = frozenset()
    text: str = ""
    until: datetime | None = None


def subject_of(workflow_id: int, kind: str) -> str:
    return f"{SUBJECTS[kind]}:{workflow_id}"


def _hash(workflow: Workflow, kind: str, pods: Mapping[str, str]) -> str:
    return approvals.plan_hash(
        {
            "node": workflow.node_id, "uid": workflow.node_uid, "workflow": workflow.pk, "step": workflow.step,
            "attempt": workflow.attempt, "kind": kind, "pods": sorted(pods),
        }
    )  # fmt: skip


def _latest(workflow_id: int, kind: str) -> Approval | None:
    return Approval.objects.filter(subject=subject_of(workflow_id, kind)).order_by("-created_at", "-pk").first()


def agreed(workflow: Workflow, kind: str, now: datetime) -> Agreement:
    """What people said of the latest request of this step; an older step's word does not count."""
    row = _latest(workflow.pk, kind)
    if row is None or row.plan_hash != _hash(workflow, kind, row.summary.get("uids", {})):
        return Agreement()
    state = Approval.EXPIRED if row.state == Approval.PENDING and row.expires_at <= now else row.state
    vote = row.votes.order_by("-at").first()
    said = f"{vote.by}: {vote.reason}".strip(": ") if vote else row.requested_by
    return Agreement(state, frozenset(row.summary.get("uids", {})), said, row.expires_at)


@transaction.atomic
def ask(workflow: Workflow, kind: str, pods: Mapping[str, str], by: str, reason: str, now: datetime) -> Approval:
    """Request it. In the caller's name: who asks cannot agree."""
    summary = {
        "node": workflow.node.name, "playbook": TITLES[kind], "pods": sorted(pods.values()), "uids": dict(pods),
        "verbs": [DRAIN],
    }  # fmt: skip
    wanted = asking.Wanted(
        subject_of(workflow.pk, kind), kind, _hash(workflow, kind, pods), by, workflow.cluster_id,
        workflow.node.name, reason, summary,
    )  # fmt: skip
    (row,) = asking.ask([wanted], now)
    return row


@transaction.atomic
def force_drain(workflow_id: int, actor: str, reason: str, now: datetime) -> Approval:
    """Ask to delete, with their own grace periods, the pods that a budget keeps on the node now.

    Where the site's rule wants nobody beside the requester, it is agreed to at once.
    """
    workflow = _at_drain(workflow_id, reason)
    step = _step(workflow)
    pods = {uid: told[0] for uid, told in (step.memo.get("kept_by_budget", {}) if step else {}).items()}
    if not pods:
        raise ForceRefused("No budget keeps a pod of this drain; there is nothing to force.")
    row = ask(workflow, approvals.FORCE, pods, actor, reason, now)
    if row.needed <= 0:
        Approval.objects.filter(pk=row.pk).update(state=Approval.APPROVED, decided_at=now)
    entry = _entry(workflow, actor, "workflow.force", reason, sorted(pods.values()))
    write(workflow, Change({"wake_at": now} if row.needed <= 0 else {}, entries=[entry]), now, actor)
    return row


@transaction.atomic
def wait_for_nobody(workflow_id: int, actor: str, reason: str, now: datetime) -> None:
    """Drain now, whatever the jobs on the node lose by it. Budgets and Ray heads are asked all the same."""
    workflow = _at_drain(workflow_id, reason)
    step = _step(workflow)
    if step is None:
        raise ForceRefused("The drain has not begun yet.")
    Step.objects.filter(pk=step.pk).update(memo={**step.memo, "waits_for_nobody": f"{actor}: {reason}"[:300]})
    entry = _entry(workflow, actor, "workflow.no_wait", reason, [])
    waits = workflow.blocked_code in ("job_wait", "gang_joining", "gang_resting", "workload_apart")
    write(workflow, Change({"wake_at": now} if waits else {}, entries=[entry]), now, actor)


@transaction.atomic
def vote(workflow_id: int, actor: str, yes: bool, reason: str, now: datetime) -> Decision | None:
    """One person's word on what is asked for this drain; None when nothing is. Raises asking.VoteRefused."""
    subjects = [subject_of(workflow_id, kind) for kind in SUBJECTS]
    row = Approval.objects.filter(subject__in=subjects, state=Approval.PENDING).order_by("pk").first()
    if row is None:
        return None
    workflow = _locked(workflow_id)
    current = _hash(workflow, row.kind, row.summary.get("uids", {}))
    decision = asking.vote(row.pk, actor, yes, reason, current, now)
    if workflow.verb == DRAIN and workflow.state in (WorkflowState.RUNNING, WorkflowState.BLOCKED):
        write(workflow, Change({"wake_at": now}), now, actor)
    return decision


def vote_on_one(workflow_id: int, actor: str, yes: bool, reason: str, now: datetime) -> Decision:
    """The same for callers that know that something is asked. Raises asking.VoteRefused."""
    decision = vote(workflow_id, actor, yes, reason, now)
    if decision is None:
        raise asking.VoteRefused("Nothing is asked for this drain any more.")
    return decision


def hashes(rows: Iterable[Approval]) -> dict[int, str]:
    """Request -> the hash of what it asks for, as the workflow stands now. One query."""
    mine = {row.pk: (int(row.subject.partition(":")[2]), row) for row in rows if row.kind in SUBJECTS}
    if not mine:
        return {}
    workflows = Workflow.objects.in_bulk([number for number, _ in mine.values()])
    return {
        pk: _hash(workflows[number], row.kind, row.summary.get("uids", {}))
        for pk, (number, row) in mine.items()
        if number in workflows
    }


def _locked(workflow_id: int) -> Workflow:
    rows = Workflow.objects.select_for_update(of=("self",)).select_related("node", "cluster", "incident")
    return rows.get(pk=workflow_id)


def _at_drain(workflow_id: int, reason: str) -> Workflow:
    if not reason.strip():
        raise ForceRefused("It takes a reason, which the audit log keeps.")
    workflow = _locked(workflow_id)
    if workflow.verb != DRAIN or workflow.state not in (WorkflowState.RUNNING, WorkflowState.BLOCKED):
        raise ForceRefused(f"{workflow.label} is not draining now.")
    return workflow


def _step(workflow: Workflow) -> Step | None:
    return Step.objects.filter(workflow=workflow, index=workflow.step, attempt=workflow.attempt).first()


def _entry(workflow: Workflow, actor: str, action: str, reason: str, pods: list[str]) -> audit.Entry:
    detail = {"reason": reason, "pods": pods, "incident": workflow.incident_id}
    return audit.Entry(actor, action, f"workflow:{workflow.pk}", node=workflow.node.name, detail=detail)
