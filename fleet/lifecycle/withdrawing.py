"""Takes back what was planned for a fault that is shared, or for a node that is not ours to heal any more.

Decides by how far a workflow has come: one that has not touched its node is cancelled with its claims; one that holds
or drains gives back what it holds by its last step. Refuses to interrupt a remediation that is under way: its guard
finds the incident closed before the next act.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from fleet.audit import services as audit
from fleet.inventory.owners import Stance
from fleet.inventory.topology import OPT_OUT
from fleet.lifecycle import owners, services
from fleet.lifecycle.fence import Change, write
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import DRAIN, HOLD
from fleet.policy import services as claims

ACTOR = "muster:observer"


def withdraw(incident_ids: Iterable[int], reason: str, now: datetime) -> list[int]:
    """The workflows that were taken back, in the caller's transaction."""
    taken = []
    for workflow in _open_of(incident_ids):
        if _untouched(workflow):
            cancel(workflow, reason, now, ACTOR)
        elif workflow.verb in (HOLD, DRAIN):
            services.abort(workflow.pk, ACTOR, reason, now)
        else:
            continue
        taken.append(workflow.pk)
    return taken


def withdraw_untouched(incident_ids: Iterable[int], reason: str, now: datetime, by: str) -> list[int]:
    """Cancel those that have not touched their node yet; all others go on. In the caller's transaction."""
    rows = _open_of(incident_ids)
    taken = [workflow for workflow in rows if _untouched(workflow)]
    for workflow in taken:
        cancel(workflow, reason, now, by)
    return [workflow.pk for workflow in taken]


@transaction.atomic
def leave_departing(now: datetime) -> list[int]:
    """End what is open on nodes that others delete or that were opted out. A step that looks at its node does so by
    itself; this is for those that wait."""
    going = Q(node__owners__contains=[{"stance": Stance.DELETING}]) | Q(node__labels__contains=dict([OPT_OUT]))
    left = []
    for workflow in _locked(Workflow.objects.filter(going)):
        text = owners.departing(owners.of_row(workflow.node.owners), workflow.node.labels)
        if _untouched(workflow):
            cancel(workflow, text, now, "muster:sweep")
        else:
            try:
                services.abort(workflow.pk, "muster:sweep", text, now)
            except services.Refused:  # being released already, or a reset is under way: its step looks when it is back
                continue
        left.append(workflow.pk)
    return left


def _open_of(incident_ids: Iterable[int]) -> list[Workflow]:
    return _locked(Workflow.objects.filter(incident_id__in=list(incident_ids)))


def _locked(rows: QuerySet[Workflow]) -> list[Workflow]:
    return list(
        rows.filter(state__in=[*OPEN_WORKFLOW_STATES, WorkflowState.PLANNED])
        .select_for_update(of=("self",))
        .select_related("node", "cluster", "incident")
        .order_by("pk")
    )


def _untouched(workflow: Workflow) -> bool:
    unasked = workflow.state in (WorkflowState.PLANNED, WorkflowState.WAITING)
    return unasked or (workflow.verb == HOLD and not workflow.hold_value)


def cancel(workflow: Workflow, reason: str, now: datetime, by: str) -> None:
    """End a plan that has not touched its node, in the caller's transaction."""
    claims.release(workflow.pk, now)
    detail = {"verb": workflow.verb, "incident": workflow.incident_id, "reason": reason}
    entry = audit.Entry(
        actor=by,
        action="workflow.withdraw",
        object=f"workflow:{workflow.pk}",
        node=workflow.node.name,
        detail=detail,
    )
    changes = {
        "state": WorkflowState.CANCELLED,
        "wake_at": None,
        "ended_at": now,
        "outcome": reason[:300],
        "blocked_code": "",
        "blocked_text": "",
        "blocked_since": None,
        "blocked_until": None,
        "version": workflow.version + 1,
    }
    write(workflow, Change(changes, entries=[entry]), now, by)
