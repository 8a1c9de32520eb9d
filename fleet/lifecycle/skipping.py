"""Which step a person may skip.

Decides that a drain, a validation and a soak may be skipped, each with a reason. Refuses to skip a drain while work
runs on the node and anything but a hold follows: what follows would end that work without its grace period or a
budget's word, which is harsher than a drain by force and so is no one person's to decide. Where another person agreed
to force this very drain, it may be skipped as well.
"""

from __future__ import annotations

from datetime import datetime

from fleet.lifecycle import forcing
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import DRAIN, KEEP, SOAK, VALIDATE
from fleet.policy import approvals
from fleet.policy.models import Approval

SKIPPABLE = (DRAIN, VALIDATE, SOAK)


def refusal(workflow: Workflow, now: datetime) -> str:
    """Why the step that the workflow is at cannot be skipped, as sentences; "" if it can. The node is loaded."""
    verb = workflow.verb
    if workflow.state not in (WorkflowState.RUNNING, WorkflowState.BLOCKED) or verb not in SKIPPABLE:
        return f"{verb or 'This'} cannot be skipped; only drain, validate and soak can."
    if verb != DRAIN or not workflow.node.pods or _kept_only(workflow):
        return ""
    if forcing.agreed(workflow, approvals.FORCE, now).state == Approval.APPROVED:
        return ""
    return (
        f"Work runs on {workflow.node.name} (pods: {workflow.node.pods}), and what follows the drain would end it "
        "without a word. Let the drain wait for nobody, force what a budget keeps if another person agrees, or have "
        "the work ended; then it can be skipped."
    )


def _kept_only(workflow: Workflow) -> bool:
    """Nothing is done to the node after its drain but to keep it."""
    return all(step["verb"] == KEEP for step in workflow.plan[workflow.step + 1 :])
