"""Wait for repair: the plan says that only people can mend it.

Decides whether the node is still theirs to repair; the engine opens the ticket and waits for its end. Refuses to try
again what people were asked to mend.
"""

from __future__ import annotations

from fleet.lifecycle.context import Context
from fleet.lifecycle.outcomes import Outcome, Repair
from fleet.lifecycle.steps import taken_back
from fleet.lifecycle.steps.identity import fresh_node


def look(ctx: Context) -> Outcome:
    """While people repair it after any step: somebody may have taken the node back."""
    return taken_back.check(ctx, fresh_node(ctx)) or Repair("ticket", ctx.step.text)


def run(ctx: Context) -> Outcome:
    gone = taken_back.check(ctx, fresh_node(ctx))
    if gone is not None:
        return gone
    title = ctx.incident.title if ctx.incident else "Planned repair."
    part = ctx.incident.device if ctx.incident else ""
    return Repair("replace_part", title, part)
