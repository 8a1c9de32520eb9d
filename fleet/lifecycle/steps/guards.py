"""The last look before a disruptive act.

Decides anew, on fresh reads, everything that was granted earlier: hold still ours, nobody else at work, incident still
open, claim still held, cap not lowered below what is in flight, kill switch off, breaker closed, no freeze. Refuses on
any doubt.
"""

from __future__ import annotations

from dataclasses import replace

from fleet.health.models import Incident
from fleet.lifecycle import unused
from fleet.lifecycle.context import Context
from fleet.lifecycle.grants import REASK
from fleet.lifecycle.machine import OUT_STATES
from fleet.lifecycle.outcomes import Blocked, Outcome
from fleet.lifecycle.steps import give_back, others, taken_back
from fleet.lifecycle.watched import unwatched
from fleet.policy import selectors as policy
from fleet.policy import windows
from fleet.policy.models import Claim
from fleet.policy.rules import IN_FLIGHT, Decision, decide
from fleet.ports.cluster import NodeSeen

COUNTS_AGAIN = 5.0
"""Seconds: the observer is to have seen by then what the act has seen."""


def recheck(ctx: Context, node: NodeSeen) -> Outcome | None:
    """None when the act may go on."""
    gone = taken_back.check(ctx, node)
    if gone is not None:
        return gone
    if ctx.incident is not None and not Incident.objects.filter(pk=ctx.incident.pk, state=Incident.OPEN).exists():
        return give_back.run_release(ctx, "The incident was closed meanwhile.")
    other = others.at_work(ctx, node)
    if other is not None:
        return other
    blind = unwatched(ctx.workflow.cluster_id, ctx.now)
    if blind:
        return Blocked("no_data", blind, 5)
    kept = halted(ctx)
    if kept is not None:
        return kept
    if not policy.in_flight_claim(ctx.workflow.pk):
        return Blocked("asking", "Asks for its share of the in-flight cap.", 1)
    fleet = policy.read_fleet(ctx.now, OUT_STATES)
    place = fleet.places.get(ctx.workflow.node_id)
    if place is None:
        return Blocked("unmanaged", "The node is not in the managed set any more.", 60)
    place = replace(place, begun=True)  # its claim is held: the last look counts everybody else
    decision = decide(IN_FLIGHT, place, policy.caps_of(ctx.workflow.cluster_id), fleet.tally, ctx.now)
    return None if decision.allowed else _asks_anew(ctx, decision)


def _asks_anew(ctx: Context, decision: Decision) -> Blocked:
    """Fewer fit by now. Whoever has begun keeps its share and waits; whoever has not gets in line again."""
    if unused.give_back([ctx.workflow.pk], ctx.now):
        return Blocked("asking", decision.text, 1)
    return Blocked(decision.code, decision.text, 30, decision.until)


def halted(ctx: Context) -> Blocked | None:
    """What forbids all new disruption now, though its claim was granted: the kill switch, the breaker, a freeze, a
    closed window. Asked before each round of evictions too: a drain can last longer than it is to a freeze."""
    decision = policy.halt(ctx.workflow.cluster_id, ctx.now) or _untimely(ctx)
    if decision is None:
        return None
    return Blocked(decision.code, decision.text, REASK.total_seconds(), decision.until)


def _untimely(ctx: Context) -> Decision | None:
    """A freeze or a closed window that began since the claim was granted."""
    pool = ctx.workflow.node.pool
    urgent = ctx.incident is not None and ctx.incident.severity == "unhealthy"
    decision = windows.decide(policy.windows_of(ctx.workflow.cluster_id), pool.name if pool else "", urgent, ctx.now)
    return None if decision.allowed else decision


def counts_now(ctx: Context, kind: str, text: str) -> Blocked | None:
    """For an act that takes away what was not there at the grant: a share that cost nothing is given back, and asked
    for anew by what it costs now."""
    mine = Claim.objects.filter(workflow_id=ctx.workflow.pk, kind=kind, released_at=None, cost=0)
    return Blocked("counts_now", text, COUNTS_AGAIN) if mine.update(released_at=ctx.now) else None
