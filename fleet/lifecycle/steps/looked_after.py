"""Was a release done that the API server said yes to?

Decides by another look at the node, since a 200 proves nothing. Refuses to end a workflow whose hold still stands: it
says so and asks again, less and less often.
"""

from __future__ import annotations

from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Blocked
from fleet.lifecycle.steps.identity import fresh_node, ours
from fleet.ports.errors import NotFound

RARELY = 300.0
"""Seconds between two tries at most."""


def release(ctx: Context, intent: Intent, keep: bool) -> Blocked | None:
    """None when our hold is off, with the intent resolved as done. `keep`: the cordon was to stay for another owner."""
    try:
        node = fresh_node(ctx)
    except NotFound:
        intents.resolve(intent, intents.DONE, "The node is gone.", ctx.now)
        return None
    if ours(ctx, node):
        tries = int(ctx.step.memo.get("releases_in_vain", 0)) + 1
        ctx.remember(releases_in_vain=tries)
        intents.resolve(intent, intents.EXPIRED, "Taken by the API server, without any effect.", ctx.now)
        text = f"The API server said yes {tries} times, and our hold still stands on the node. It is asked again."
        return Blocked("not_released", text, min(5.0 * tries, RARELY))
    kept = keep or node.unschedulable
    said = "Our hold is off; another owner keeps the cordon." if kept else "Uncordoned."
    intents.resolve(intent, intents.DONE, said, ctx.now)
    return None
