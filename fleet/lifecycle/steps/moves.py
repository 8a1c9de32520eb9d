"""Moving the node's state from within a step.

Decides nothing: one fenced transaction, skipped when the node is there already.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from fleet.lifecycle.context import Context
from fleet.lifecycle.fence import LEASE, Change, write
from fleet.lifecycle.machine import NodeState


def move(ctx: Context, state: NodeState, reason: str = "", **node_fields: Any) -> None:
    """Set the node's state under the workflow's fence. Raises Stale, IllegalEdge."""
    if ctx.lifecycle.state == state and not node_fields:
        return
    now = ctx.now
    with transaction.atomic():
        change = Change(
            workflow={"wake_at": now + LEASE}, node_state=state, node_reason=reason, node_fields=node_fields
        )
        write(ctx.workflow, change, now)
    ctx.lifecycle.refresh_from_db()
