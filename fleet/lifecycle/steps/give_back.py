"""Return to service, or release: take our hold away, and uncordon only what we cordoned.

Decides who uncordons, the last owner to leave, and looks whether it was done. A cordon that was there before ours
stays; whoever came on top of ours is waited for, since others leave a cordon alone that they found. Refuses to touch a
node on which our hold no longer stands (a person was faster), and one whose object is being deleted.
"""

from __future__ import annotations

from fleet.inventory.owners import Owner, on_node
from fleet.lifecycle import intents, owners
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Step
from fleet.lifecycle.outcomes import Blocked, Ended, Outcome, Wait
from fleet.lifecycle.playbooks import HOLD
from fleet.lifecycle.steps import gpu_services, looked_after
from fleet.lifecycle.steps.identity import fresh_node, ours
from fleet.lifecycle.steps.moves import move
from fleet.lifecycle.steps.out_of_service import lift
from fleet.lifecycle.validation import running
from fleet.ports.errors import Conflict, NotFound


def run(ctx: Context) -> Outcome:
    beside = _beside(ctx)
    if beside:
        return Blocked(owners.CODE, owners.beside(beside), 30)
    left = _leave(ctx)
    if left is not None:
        return left
    move(ctx, NodeState.IN_SERVICE, "Validated, soaked, returned.")
    return Ended("succeeded", "Returned to service.")


def run_release(ctx: Context, why: str = "") -> Outcome:
    """The end of a cancelled workflow: our hold goes, the node is left to the person who decided so."""
    text = why or ctx.workflow.outcome or "Released."
    left = _leave(ctx)
    if left is not None:
        return left
    if ctx.lifecycle.state not in (NodeState.IN_SERVICE, NodeState.RELEASED, NodeState.RETIRED, NodeState.UNMANAGED):
        move(ctx, NodeState.RELEASED, text)
    return Ended("cancelled", text)


def _beside(ctx: Context) -> list[Owner]:
    """Who else keeps the node from new work by now."""
    try:
        node = fresh_node(ctx)
    except NotFound:
        return []
    return owners.keepers(on_node(node)) if ours(ctx, node) and node.unschedulable else []


def run_unneeded(ctx: Context, text: str) -> Outcome:
    """Nothing was done to the node and nothing needs to be: it serves on as if it had never been held."""
    left = _leave(ctx)
    if left is not None:
        return left
    move(ctx, NodeState.IN_SERVICE, text)
    return Ended("cancelled", text)


def _leave(ctx: Context) -> Outcome | None:
    """Remove our hold; None when it is off."""
    try:
        node = fresh_node(ctx)
    except NotFound:
        return None
    if node.deleting:
        return None
    if lift(ctx, node):
        return Wait(ctx.timing.poll, "Its out-of-service taint is being taken off.")
    running.stop(ctx)
    if not ours(ctx, node):
        return None
    gpu_services.restore(ctx, node)
    keep = _foreign(ctx) or bool(owners.keepers(on_node(node)))
    intent = intents.begin(ctx.workflow, ctx.step, "release", node.name, ctx.now, before={"uncordon": not keep})
    try:
        ctx.ports.actor.release(
            node.name, ctx.workflow.hold_value, node.resource_version, uncordon=not keep and node.unschedulable
        )
    except Conflict as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return Wait(0, "The node changed while it was being released; reading it again.")
    return looked_after.release(ctx, intent, keep)


def _foreign(ctx: Context) -> bool:
    """Was the node cordoned by somebody else when we put our hold upon it?"""
    memos = Step.objects.filter(workflow=ctx.workflow, verb=HOLD).values_list("memo", flat=True)
    return any(memo.get("foreign") for memo in memos)
