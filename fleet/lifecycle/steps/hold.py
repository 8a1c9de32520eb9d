"""Hold: keep the node from new work by one patch.

Decides that cordon and owner are written together, on the version of the node that was just read. Running work is left
alone. Refuses to take over another installation's hold (ours stands only where nobody else's annotation does), to begin
while another owner is at work on the node, and to cordon again what a person has uncordoned since.
"""

from __future__ import annotations

import uuid

from fleet.health.models import Incident
from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.fence import LEASE
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Step, Workflow
from fleet.lifecycle.outcomes import Blocked, Done, Outcome, Wait
from fleet.lifecycle.steps import guards, others, taken_back
from fleet.lifecycle.steps.identity import fresh_node, ours
from fleet.lifecycle.steps.moves import move
from fleet.policy.rules import HOLD
from fleet.ports.cluster import HOLD_ANNOTATION, HoldRequest
from fleet.ports.errors import Conflict
from fleet.tickets.models import Ticket

FROM = (NodeState.IN_SERVICE, NodeState.SUSPECT, NodeState.RELEASED)
"""The states of a node whose hold begins."""


def run(ctx: Context) -> Outcome:
    node = fresh_node(ctx)
    if ours(ctx, node):
        return taken_back.check(ctx, node) or _held(ctx)
    refusal = others.going(ctx, node) or others.at_work(ctx, node)
    if refusal is not None:
        return refusal
    there = node.annotations.get(HOLD_ANNOTATION, "")
    if there and there != ctx.workflow.hold_value:
        return Blocked("foreign_hold", f"Another hold stands on the node: {there}.", 60)
    back = node.ready is True and guards.counts_now(
        ctx, HOLD, f"{node.name} is Ready again: its hold counts against the cap now, and is asked for anew."
    )
    if back:
        return back
    ctx.remember(foreign=node.unschedulable)  # anew with each read: without our mark, a cordon is another's
    op_id = uuid.uuid4()
    value = value_of(ctx.workflow, op_id)
    intent = intents.begin(
        ctx.workflow, ctx.step, "hold", node.name, ctx.now, op_id=op_id, changes={"hold_value": value}
    )
    ctx.workflow.hold_value = value
    if intents.late(intent, ctx.now, LEASE.total_seconds() / 2):
        intents.resolve(intent, intents.REFUSED, "Not sent: the time of the call had passed.", ctx.now)
        return Wait(ctx.timing.poll, "This worker stood still for too long; looking again before anything is sent.")
    try:
        ctx.ports.actor.hold(HoldRequest(node.name, value, node.resource_version, why=said(ctx)))
    except Conflict as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return Wait(0, "The node changed while it was being held; reading it again.")
    intents.resolve(intent, intents.DONE, "Held.", ctx.now)
    return _held(ctx)


def _held(ctx: Context) -> Outcome:
    if ctx.lifecycle.state in FROM:
        move(ctx, NodeState.HELD, why(ctx.incident))
    return Done(done(ctx.step))


def said(ctx: Context) -> str:
    """The line that goes with a hold where the scheduler shows one: the fault, and the ticket once there is one."""
    tickets = Ticket.objects.filter(workflow_id=ctx.workflow.pk, state=Ticket.OPEN).order_by("pk")
    labels = [ticket.label for ticket in tickets]
    return " ".join([why(ctx.incident) if ctx.incident else ctx.workflow.reason or why(None), *labels])


def tell(ctx: Context) -> None:
    """A ticket came after the hold: the line is written anew, where people read it."""
    node, text = ctx.ports.reader.node(ctx.node_name), said(ctx)
    if not ours(ctx, node) or not Ticket.objects.filter(workflow_id=ctx.workflow.pk, state=Ticket.OPEN).exists():
        return
    intent = intents.begin(ctx.workflow, ctx.step, "hold", node.name, ctx.now)
    ctx.ports.actor.hold(HoldRequest(node.name, ctx.workflow.hold_value, node.resource_version, why=text))
    intents.resolve(intent, intents.DONE, "The line of the hold names the ticket.", ctx.now)


def value_of(workflow: Workflow, op_id: uuid.UUID) -> str:
    """What the annotation says. One that was chosen before stays: an answer may be on its way."""
    return workflow.hold_value or f"{workflow.incident_id or 'person'}/{op_id}"


def why(incident: Incident | None) -> str:
    return incident.title if incident else "Held by a person."


def done(step: Step) -> str:
    foreign = bool(step.memo.get("foreign"))
    return "Held; it was cordoned by somebody else already." if foreign else "Held: takes no new work."
