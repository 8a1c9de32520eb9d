"""Is the node in front of us still the one that the workflow was planned for?

Decides on the Node's UID, and on the machine's system UUID where a name that is not Ready may have a successor. Refuses
to go on with another machine under the same name, or with the same machine under another: the workflow ends.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from fleet.inventory import selectors as inventory
from fleet.lifecycle import owners
from fleet.lifecycle.context import Context
from fleet.lifecycle.fence import Change, write
from fleet.lifecycle.machine import NODE_EDGES, NodeState
from fleet.lifecycle.models import NodeLifecycle, Workflow
from fleet.lifecycle.outcomes import Ended
from fleet.ports.cluster import HOLD_ANNOTATION, NodeSeen
from fleet.ports.errors import NotFound


class Departed(NotFound):
    """The node that the workflow was planned for is no more; the text says what became of it."""


def fresh_node(ctx: Context) -> NodeSeen:
    """The node read from the server just now. Departed when it is gone, was made anew, or goes by another name."""
    try:
        node = ctx.ports.reader.node(ctx.node_name)
    except NotFound as error:
        raise Departed(_heir(ctx) or "The node was deleted from the cluster.") from error
    pinned = ctx.workflow.node_uid
    if pinned and node.uid != pinned:
        raise Departed("The node was deleted and made anew under its name; whatever was planned was for the old one.")
    heir = _heir(ctx) if node.ready is not True else ""
    if heir:
        raise Departed(heir)
    return node


def _heir(ctx: Context) -> str:
    """The sentence of a machine that goes by another name now; "" as long as none does."""
    workflow = ctx.workflow
    found = inventory.successors(workflow.cluster_id, {workflow.node_id: workflow.created_at})
    return owners.renamed(found[workflow.node_id]) if found else ""


def ended(workflow: Workflow, lifecycle: NodeLifecycle, error: Departed, now: datetime) -> Ended:
    """The clean end of a workflow whose node departed: no ticket, and the name is left to people."""
    if (NodeState(lifecycle.state), NodeState.RELEASED) in NODE_EDGES:
        with transaction.atomic():
            write(workflow, Change(node_state=NodeState.RELEASED, node_reason=str(error)), now)
    return Ended("cancelled", str(error))


def ours(ctx: Context, node: NodeSeen) -> bool:
    """Does our hold of this workflow still stand on the node?"""
    return bool(ctx.workflow.hold_value) and node.annotations.get(HOLD_ANNOTATION) == ctx.workflow.hold_value
