"""The last look at who else works on the node before something of ours begins.

Decides on the node as it was just read and on the objects by which other controllers ask for work on it. Refuses to
begin beside anybody who is at work, and to take "may not look" for "nobody there".
"""

from __future__ import annotations

from fleet.inventory.owners import Owner, of_requests, on_node
from fleet.lifecycle import owners
from fleet.lifecycle.context import Context
from fleet.lifecycle.outcomes import Blocked, Outcome
from fleet.lifecycle.steps import give_back
from fleet.policy import services as claims
from fleet.policy.rules import IN_FLIGHT
from fleet.ports.cluster import NodeSeen

LOOK_EVERY = 30.0


def at_work(ctx: Context, node: NodeSeen) -> Outcome | None:
    """None when nobody else is at work on the node. Reads the cluster."""
    marked = owners.in_the_way(on_node(node))
    if marked is not None:
        claims.release(ctx.workflow.pk, ctx.now, [IN_FLIGHT])  # asked for again when the row shows that it is over
        return _blocked(marked)
    asked = owners.in_the_way(of_requests(ctx.ports.reader.requests_on(node.name), ctx.now))
    return _blocked(asked) if asked is not None else None


def _blocked(owner: Owner) -> Blocked:
    return Blocked(owners.CODE, owners.waiting_for(owner), LOOK_EVERY)


def going(ctx: Context, node: NodeSeen) -> Outcome | None:
    """The end of a workflow whose node is being deleted or was opted out; None while the node stays ours to heal."""
    text = owners.departing(on_node(node), node.labels)
    return give_back.run_release(ctx, text) if text else None
