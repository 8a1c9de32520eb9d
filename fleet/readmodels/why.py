"""Why is this node held, or why does nothing happen?

Decides the one answer that the command, the API and the node page share. Reads only; the contract of its keys is fixed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleet.health.models import Incident
from fleet.inventory.models import Mode, Node
from fleet.lifecycle import owners
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, WorkflowState
from fleet.lifecycle.models import Step, Workflow
from fleet.readmodels import explain, suspensions
from fleet.readmodels.node_parts import marked_by_us


class NoSuchNode(Exception):
    """No node, or more than one, has that name."""


def find(cluster: str, name: str) -> Node:
    """The node of that name; `cluster` may be empty where the name is unique."""
    rows = Node.objects.select_related("cluster", "pool", "lifecycle", "verdict_row").filter(name=name)
    if cluster:
        rows = rows.filter(cluster__name=cluster)
    found = list(rows[:2])
    if not found:
        raise NoSuchNode(f"There is no node {name}{f' in {cluster}' if cluster else ''}.")
    if len(found) > 1:
        raise NoSuchNode(f"More than one cluster has a node {name}: say which.")
    return found[0]


def why(cluster: str, name: str, now: datetime) -> dict[str, Any]:
    """Keys: node, cluster, state, verdict, reason, since, incident, workflow, step, blocked, would, owners, text.

    Raises NoSuchNode.
    """
    node = find(cluster, name)
    workflow = (
        Workflow.objects.select_related("incident")
        .filter(node=node, state__in=[*OPEN_WORKFLOW_STATES, WorkflowState.PLANNED])
        .order_by("-pk")
        .first()
    )
    incident = (
        workflow.incident
        if workflow and workflow.incident
        else Incident.objects.filter(node=node, state=Incident.OPEN).order_by("pk").first() or _shared(node)
    )
    mark = "" if workflow is not None or not node.hold_value or _ours(node) else node.hold_value
    found = answer(node, workflow, incident, None if workflow is None else _step_text(workflow), now, mark)
    return {**found, "text": f"{found['text']} {suspensions.of_node(node)}".strip()}


def answer(
    node: Node,
    workflow: Workflow | None,
    incident: Incident | None,
    step_text: str | None,
    now: datetime,
    foreign_mark: str = "",
    line: bool = True,
) -> dict[str, Any]:
    """The same for rows that were read already; a workflow that is over is none. `foreign_mark` is the mark of another
    installation's hold. Without `line` no query is made: the place in the line is left out."""
    verdict = getattr(node, "verdict_row", None)
    lifecycle = getattr(node, "lifecycle", None)
    planned = workflow is not None and workflow.state == WorkflowState.PLANNED
    if workflow is None:
        waits = explain.of_incident(incident, node, now)
    elif line:
        waits = explain.in_full(workflow, now)
    else:
        waits = explain.of_workflow(workflow, now)
    return {
        "node": node.name,
        "cluster": node.cluster.name,
        "state": lifecycle.state if lifecycle else "unmanaged",
        "verdict": verdict.verdict if verdict else "unknown",
        "reason": verdict.reason if verdict else "",
        "since": _iso(lifecycle.since if lifecycle else None),
        "incident": _incident(incident),
        "workflow": None
        if workflow is None
        else {"id": workflow.pk, "state": workflow.state, "attempt": workflow.attempt},
        "step": None if workflow is None or planned else _step(workflow, step_text or ""),
        "blocked": None if waits is None else waits.as_json(),
        "would": [item["verb"] for item in workflow.plan] if workflow is not None and planned else [],
        "owners": owners.listed(node.owners),
        "text": sentence(node, workflow, incident, foreign_mark, waits),
    }


def _ours(node: Node) -> bool:
    return Node.objects.filter(marked_by_us(), pk=node.pk).exists()


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _incident(incident: Incident | None) -> dict[str, Any] | None:
    if incident is None:
        return None
    return {
        "id": incident.pk,
        "cause": incident.cause,
        "title": incident.title,
        "detected_at": _iso(incident.detected_at),
        "first_bad_at": _iso(incident.first_bad_at),
    }


def _step_text(workflow: Workflow) -> str:
    text = (
        Step.objects.filter(workflow=workflow, index=workflow.step, attempt=workflow.attempt)
        .values_list("text", flat=True)
        .first()
    )
    return text or ""


def _step(workflow: Workflow, text: str) -> dict[str, Any]:
    return {"verb": workflow.verb, "index": workflow.step, "of": len(workflow.plan), "text": text}


def _shared(node: Node) -> Incident | None:
    """An open incident that many nodes share, this one among them."""
    shared = Incident.objects.filter(node=None, state=Incident.OPEN, signals__node=node, signals__cleared_at=None)
    return shared.order_by("pk").first()


def _quiet(node: Node) -> str:
    """Nothing is known to be wrong; a node of which nothing is known is not well for that."""
    verdict = getattr(node, "verdict_row", None)
    if verdict is None or verdict.verdict == "healthy":
        return "Nothing is wrong and nothing is under way."
    said = verdict.reason.rstrip(".") or f"The verdict is {verdict.verdict}"
    return f"{said}. Nothing is under way: what is not known to be a fault is watched, never acted upon."


def _unseen(node: Node) -> str:
    """Since when the cluster's API server does not say what becomes of its nodes, and why; "" while it does."""
    for stated in node.cluster.conditions or []:
        if stated.get("code") == "watch_nodes":
            at = datetime.fromisoformat(str(stated["since"]))
            return f"What the API server says of it is not known since {at:%Y-%m-%d %H:%M:%S} UTC: {stated['text']}"
    return ""


def sentence(
    node: Node,
    workflow: Workflow | None,
    incident: Incident | None,
    foreign_mark: str = "",
    waits: explain.Wait | None = None,
) -> str:
    """What a person wants to know, in a sentence or two."""
    if workflow is None:
        told = f"{incident.title}; nothing is planned for it." if incident is not None else ""
        if waits is not None:
            told = f"{told} {waits.text}"
        told = f"{told} {owners.named(node.owners)}".strip()
        if foreign_mark:
            return f"{told} Another installation of Muster holds it, with the mark {foreign_mark}.".strip()
        if node.foreign_hold:
            return f"{told} It was cordoned outside Muster; whoever did it must uncordon it.".strip()
        return f"{told or _quiet(node)} {_unseen(node)}".strip()
    cause = f" because {incident.title}" if incident else ""
    if workflow.state == WorkflowState.PLANNED:
        verbs = ", ".join(item["verb"] for item in workflow.plan)
        limited = incident is not None and incident.mode == Mode.OBSERVE
        whose = f"The rule {incident.rule} is in mode observe" if incident and limited else "Observe mode"
        return f"{whose}: would {verbs}{cause}."
    told = f" Waits: {waits.text}" if waits is not None else ""
    return f"{workflow.label} is at {workflow.verb}{cause}.{told}"
