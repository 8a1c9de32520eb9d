"""Our out-of-service taint, which lets Kubernetes give a powered-off host's pods to others.

Decides whether the taint on a node is ours, and takes it off. Refuses to touch another's: ours stands only where an
intent says that we put it there.
"""

from __future__ import annotations

from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.models import Intent
from fleet.ports.cluster import OUT_OF_SERVICE, NodeSeen


def tainted(node: NodeSeen) -> bool:
    return any(key == OUT_OF_SERVICE[0] for key, _, _ in node.taints)


def ours_stands(ctx: Context) -> bool:
    """Did we put it there? By the intent: whoever acted upon it may have died before it could say so."""
    return Intent.objects.filter(workflow=ctx.workflow, verb="fence").exists()


def lift(ctx: Context, node: NodeSeen) -> bool:
    """Take our taint off, if it is there. True if that was asked for: whether it is off is seen by another look."""
    if not tainted(node) or not ours_stands(ctx):
        return False
    intent = intents.begin(ctx.workflow, ctx.step, "unfence", node.name, ctx.now)
    ctx.ports.actor.fence(node.name, on=False)
    intents.resolve(intent, intents.DONE, "Its out-of-service taint is off.", ctx.now)
    return True
