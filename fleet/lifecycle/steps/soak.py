"""Soak: watch the node for a while before it takes work again.

Decides that time counts only while the verdict is known and good. Unknown never returns a node; a fault that comes
back ends the soak.
"""

from __future__ import annotations

from fleet.health.models import NodeVerdict, Verdict
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.outcomes import Blocked, Done, Failed, Outcome, Wait
from fleet.lifecycle.steps import taken_back
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.moves import move
from fleet.lifecycle.watched import unwatched


def run(ctx: Context) -> Outcome:
    gone = taken_back.check(ctx, fresh_node(ctx))
    if gone is not None:
        return gone
    move(ctx, NodeState.SOAKING)
    blind = unwatched(ctx.workflow.cluster_id, ctx.now)
    if blind:
        return Blocked("no_data", blind, 5)
    row = NodeVerdict.objects.get(node_id=ctx.workflow.node_id)
    if row.verdict in (Verdict.UNHEALTHY, Verdict.LOST):
        return Failed("soak_unhealthy", f"Unhealthy again while it was watched: {row.reason}")
    if row.verdict == Verdict.UNKNOWN:
        return Blocked(
            "no_data", f"No fresh data, so its time does not count: {row.reason or 'nothing was measured yet.'}", 5
        )
    began = max(ctx.step.started_at, row.since)
    left = ctx.timing.soak - ctx.since(began)
    if left > 0:
        return Wait(min(left + 0.1, 5), f"Watched for another {left:.0f} s.")
    return Done(f"Watched for {ctx.timing.soak:.0f} s without a sign of the fault.")
