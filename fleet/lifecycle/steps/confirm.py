"""Confirm: an active test of a drained node says whether a suspicion is true.

Decides by the suite alone. Passed: the suspicion was not confirmed, nothing is mended, and the node goes on to its
return. Failed: the remedies of the plan follow. Could not be tested: people decide. Refuses to test a node on which
work is left, and to take a test without a result for an answer either way.
"""

from __future__ import annotations

from django.db import transaction

from fleet.audit import services as audit
from fleet.lifecycle import bounces
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.outcomes import Blocked, Done, Outcome, Repair
from fleet.lifecycle.playbooks import VALIDATE
from fleet.lifecycle.steps import taken_back
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.validate import untested
from fleet.lifecycle.validation import judge, running
from fleet.lifecycle.validation.suite import CONFIRM


def run(ctx: Context) -> Outcome:
    node = fresh_node(ctx)
    gone = taken_back.check(ctx, node)
    if gone is not None:
        running.stop(ctx)
        return gone
    if ctx.lifecycle.state != NodeState.DRAINED:
        return Repair("not_drained", f"The node is {ctx.lifecycle.state}, not drained: it is not tested under work.")
    if node.ready is not True:
        ctx.remember(unready_since=ctx.step.memo.get("unready_since") or ctx.now.timestamp())
        if ctx.since(float(ctx.step.memo["unready_since"])) > ctx.timing.validate_deadline:
            running.stop(ctx)
            return Repair("no_result", "The node is not Ready and could not be tested.")
        return Blocked("not_ready", f"The node is not Ready: {node.ready_reason or 'no condition'}.", 3)
    tested = running.run(ctx, node, CONFIRM)
    if tested.state == judge.PASSED:
        ctx.remember(not_confirmed=True)
        return Done(f"Not confirmed. {tested.text}", goto=VALIDATE)
    if tested.state == judge.FAILED:
        ctx.remember(part=tested.part, confirmed=True)
        _count(ctx)
        return Done(f"Confirmed. {tested.text}")
    return untested(ctx, tested, "confirm_failed")


def _count(ctx: Context) -> None:
    """A suspicion that is true: the node has failed again, if it was returned within the day."""
    with transaction.atomic():
        entries = bounces.find([ctx.incident.pk] if ctx.incident else [], ctx.now, confirmed=True)
        audit.record(audit.chain_of(ctx.workflow.cluster_id), entries, ctx.now)
