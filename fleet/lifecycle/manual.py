"""What a person asks to be done to a node: the same workflows, with a person as cause.

Decides when what is asked for may begin and what releases a node that is kept. Refuses a node that is not managed, that
a workflow works on already, whose mode writes nothing, whose pool has no BMC to call, or that a playbook is not for.
Guards apply as to everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.inventory.models import Mode, Node
from fleet.lifecycle import approving, grants, owners, services
from fleet.lifecycle.asked import Asked, Unknown, of_action
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.planner import mode_on
from fleet.lifecycle.playbooks import BMC_VERBS, KEEP, RELEASE, REPROVISION
from fleet.policy import asking
from fleet.ports.clock import SYSTEM_CLOCK, Clock


class ManualRefused(Exception):
    """The action is not possible on that node now; the text says why."""


def refusal(node: Node, asked: Asked) -> str:
    """Why what is asked for cannot begin on `node` whatever works on it, as a sentence; "" if it can.

    The node has cluster and pool loaded.
    """
    if node.gone_at or node.cluster.removed_at:
        return f"{node.name} has left the cluster."
    if asked.action != RELEASE and (gone := owners.departing(owners.of_row(node.owners), node.labels)):
        return f"{node.name}: {gone}"
    if not node.managed:
        return f"{node.name} is not in the managed set."
    if only_looks(node):
        return "The mode is observe: nothing is written."
    kind = node.pool.kind if node.pool else "bare_metal"
    if kind != "bare_metal" and any(verb in BMC_VERBS for verb in asked.verbs):
        return f"The pool is {kind}: no BMC verb off metal."
    if REPROVISION in asked.verbs and not node.cluster.provisioner:
        return f"No provisioner is configured for cluster {node.cluster.name}."
    if not asked.suits(node):
        return f"The playbook {asked.playbook} is not for this pool, kind of pool or SKU."
    return ""


def only_looks(node: Node) -> bool:
    """Is its mode observe?"""
    return mode_on(node, None) == Mode.OBSERVE


def busy(node: Node, action: str, workflow: Workflow | None) -> str:
    """Why the node's open workflow (None without one) stands in the way of `action`; "" if it does not."""
    if action == RELEASE:
        if workflow is None:
            by = "; who cordoned it uncordons it" if node.foreign_hold else ""
            return f"Muster keeps no hold on {node.name}{by}."
        if workflow.verb != KEEP:
            return f"{workflow.label} works on {node.name}; abort it to have the node back."
        return ""
    return f"{workflow.label} works on {node.name} already." if workflow else ""


def working_on(node_ids: Sequence[int]) -> dict[int, Workflow]:
    """The open workflow of each node that has one."""
    found = Workflow.objects.filter(node_id__in=node_ids, state__in=OPEN_WORKFLOW_STATES)
    return {workflow.node_id: workflow for workflow in found}


def request(
    node_ids: Sequence[int], action: str, by: str, reason: str, now: datetime, clock: Clock = SYSTEM_CLOCK
) -> tuple[list[Workflow], dict[str, str]]:
    """Begin `action` on each node; (workflows, node name -> why not). Raises ManualRefused without a reason."""
    try:
        asked = of_action(action)
    except Unknown as error:
        raise ManualRefused(str(error)) from error
    kind = next((kind for kind in asked.kinds if asking.rule(kind)[0] > 0), None)
    return _request(node_ids, asked, by, reason, now, clock, asks=kind)


def begin(
    node_ids: Sequence[int], asked: Asked, by: str, reason: str, now: datetime, clock: Clock, agreed: bool
) -> tuple[list[Workflow], dict[str, str]]:
    """The same for what nobody needs to be asked any more. `agreed`: people approved it, and exactly this plan."""
    return _request(node_ids, asked, by, reason, now, clock, agreed=agreed)


def _request(
    node_ids: Sequence[int], asked: Asked, by: str, reason: str, now: datetime, clock: Clock,
    *, asks: str | None = None, agreed: bool = False,
) -> tuple[list[Workflow], dict[str, str]]:  # fmt: skip
    if not reason.strip():
        raise ManualRefused("It takes a reason, which the audit log keeps.")
    with transaction.atomic():
        nodes = list(Node.objects.select_related("cluster", "pool").filter(pk__in=node_ids).order_by("name"))
        refused = {node.name: said for node in nodes if (said := refusal(node, asked))}
        able = [node for node in nodes if node.name not in refused]
        if asked.action == RELEASE:
            return [w for node in able if (w := _release(node, by, reason, now, refused))], refused
        made = [w for node in able if (w := _begin(_row(node, asked, by, reason, now, asks, agreed), refused))]
        if asks and made:
            approving.ask(made, asks, now)
        _tell(made, asked, by, reason, now)
        for cluster_id in {w.cluster_id for w in made if w.state == WorkflowState.BLOCKED}:
            transaction.on_commit(lambda cluster_id=cluster_id: _ask(cluster_id, clock), robust=True)  # type: ignore[misc]
    return made, refused


def _ask(cluster_id: int, clock: Clock) -> None:
    grants.run(cluster_id, clock)


def _release(node: Node, by: str, reason: str, now: datetime, refused: dict[str, str]) -> Workflow | None:
    """A node that is kept is given back by the last step of its workflow."""
    workflow = working_on([node.pk]).get(node.pk)
    said = busy(node, RELEASE, workflow)
    if workflow is None or said:
        refused[node.name] = said
        return None
    try:
        services.abort(workflow.pk, by, reason, now)
    except services.Refused as error:
        refused[node.name] = str(error)
        return None
    return workflow


def _row(node: Node, asked: Asked, by: str, reason: str, now: datetime, asks: str | None, agreed: bool) -> Workflow:
    workflow = Workflow(
        cluster=node.cluster,
        node=node,
        playbook=asked.playbook,
        plan=asked.plan(),
        state=WorkflowState.WAITING if asks else WorkflowState.BLOCKED,
        attempts=asked.attempts,
        node_uid=node.uid,
        created_by=by,
        reason=reason[:300],
        needs_approval=bool(asks) or agreed,
        created_at=now,
        blocked_code="approval" if asks else grants.ASKING,
        blocked_text="Waits for another person's approval." if asks else "Asks for its share of the cap hold.",
        blocked_since=now,
    )
    if agreed:
        workflow.approved_hash = approving.hash_of(workflow)
    return workflow


def _begin(workflow: Workflow, refused: dict[str, str]) -> Workflow | None:
    node = workflow.node
    try:
        with transaction.atomic():
            workflow.save(force_insert=True)
    except IntegrityError:
        other = working_on([node.pk]).get(node.pk)
        refused[node.name] = f"{other.label if other else 'Another workflow'} works on {node.name} already."
        return None
    return workflow


def _tell(made: Sequence[Workflow], asked: Asked, by: str, reason: str, now: datetime) -> None:
    detail: dict[str, Any] = {"action": asked.action, "playbook": asked.playbook, "reason": reason}
    for cluster_id in sorted({workflow.cluster_id for workflow in made}):
        mine = [workflow for workflow in made if workflow.cluster_id == cluster_id]
        publish(cluster_id, [Notice("workflow", str(w.pk), w.node.name) for w in mine], now)
        entries = [
            audit.Entry(by, "workflow.request", f"workflow:{w.pk}", node=w.node.name, detail=detail) for w in mine
        ]
        audit.record(audit.chain_of(cluster_id), entries, now)
