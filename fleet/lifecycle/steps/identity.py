"""Is the node in front of us still the one that the workflow was planned for?

Decides on the Node's UID. Refuses to go on with another machine under the same name.
"""

from __future__ import annotations

from fleet.lifecycle.context import Context
from fleet.ports.cluster import NodeSeen
from fleet.ports.errors import IdentityMismatch


def fresh_node(ctx: Context) -> NodeSeen:
    """The node read from the server just now. IdentityMismatch when its UID is not the pinned one; NotFound if gone."""
    node = ctx.ports.reader.node(ctx.node_name)
    pinned = ctx.workflow.node_uid
    if pinned and node.uid != pinned:
        raise IdentityMismatch(f"{node.name} has another UID than when this was planned: it is another machine now.")
    return node


def ours(ctx: Context, node: NodeSeen) -> bool:
    """Does our hold of this workflow still stand on the node?"""
    from fleet.ports.cluster import HOLD_ANNOTATION

    return bool(ctx.workflow.hold_value) and node.annotations.get(HOLD_ANNOTATION) == ctx.workflow.hold_value
