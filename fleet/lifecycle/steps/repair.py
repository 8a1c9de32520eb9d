"""Wait for repair: the plan says that only people can mend it.

Decides nothing more: the engine opens the ticket and waits for its end.
"""

from __future__ import annotations

from fleet.lifecycle.context import Context
from fleet.lifecycle.outcomes import Outcome, Repair
from fleet.lifecycle.steps import taken_back
from fleet.lifecycle.steps.identity import fresh_node


def run(ctx: Context) -> Outcome:
    gone = taken_back.check(ctx, fresh_node(ctx))
    if gone is not None:
        return gone
    title = ctx.incident.title if ctx.incident else "Planned repair."
    part = ctx.incident.device if ctx.incident else ""
    return Repair("replace_part", title, part)
