"""Keep: a person holds the node, until a person releases it.

Decides nothing but to say so. Refuses to end by itself: no time-out gives back what somebody works on.
"""

from __future__ import annotations

from fleet.lifecycle.context import Context
from fleet.lifecycle.outcomes import Blocked, Outcome
from fleet.lifecycle.steps import taken_back
from fleet.lifecycle.steps.identity import fresh_node

LOOK_EVERY = 300.0


def run(ctx: Context) -> Outcome:
    gone = taken_back.check(ctx, fresh_node(ctx))
    if gone is not None:
        return gone
    workflow = ctx.workflow
    text = f"Kept by {workflow.created_by}: {workflow.reason or 'no reason given'}. Release it to give it back."
    return Blocked("kept", text, LOOK_EVERY)
