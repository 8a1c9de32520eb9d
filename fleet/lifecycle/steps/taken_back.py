"""Somebody took the node away from us while we worked on it: a person, another controller, a deletion.

Decides that a missing annotation, or an annotation of ours on a schedulable node (what `kubectl uncordon` leaves), is
an answer to be respected: our mark goes, nothing else is touched, the workflow ends. So does a deletion that is under
way, and the opt-out label. Refuses to cordon again.
"""

from __future__ import annotations

from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.outcomes import Ended, Outcome, Wait
from fleet.lifecycle.steps import gpu_services, looked_after, others
from fleet.lifecycle.steps.identity import ours
from fleet.lifecycle.steps.moves import move
from fleet.lifecycle.steps.out_of_service import lift
from fleet.ports.cluster import NodeSeen
from fleet.ports.errors import Conflict


def check(ctx: Context, node: NodeSeen) -> Outcome | None:
    """None while our hold stands and keeps the node from new work, and the node stays."""
    if ours(ctx, node) and node.unschedulable:
        return others.going(ctx, node)
    gpu_services.restore(ctx, node)
    if lift(ctx, node):
        return Wait(ctx.timing.poll, "It was taken back; our out-of-service taint is being taken off.")
    if ours(ctx, node):
        intent = intents.begin(ctx.workflow, ctx.step, "release", node.name, ctx.now, before={"uncordon": False})
        try:
            ctx.ports.actor.release(node.name, ctx.workflow.hold_value, node.resource_version, uncordon=False)
        except Conflict as error:
            intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
            return Wait(0, "The node changed while our mark was being removed; reading it again.")
        in_vain = looked_after.release(ctx, intent, keep=False)
        if in_vain is not None:
            return in_vain
    move(ctx, NodeState.RELEASED, "A person or another controller took the node back.")
    return Ended("cancelled", "A person or another controller took the node back; we leave it alone.")
