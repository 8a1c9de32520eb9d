"""Validate: prove that the node works before anything is let near it again.

Decides on five things, all of them after the remediation: every test of its suite passed, telemetry is fresh, no
signal of a fault is open, the four counts of its GPUs agree, and its facts are those of its pool. Refuses to pass on
missing data: unknown is not a pass. A test without a result is repeated once and then a matter for people: it is no
reason for another reboot.
"""

from __future__ import annotations

from datetime import datetime

from fleet.health.models import NodeVerdict, Signal
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Step
from fleet.lifecycle.outcomes import Blocked, Done, Failed, Outcome, Repair, Wait
from fleet.lifecycle.playbooks import CONFIRM
from fleet.lifecycle.steps import taken_back
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.moves import move
from fleet.lifecycle.steps.out_of_service import lift
from fleet.lifecycle.validation import facts, judge, running
from fleet.lifecycle.validation.suite import VALIDATE
from fleet.lifecycle.watched import unwatched
from fleet.ports.cluster import NodeSeen

TESTS_AGAIN = 2
"""Tries of a suite that came to no result before people are asked."""


def run(ctx: Context) -> Outcome:
    node = fresh_node(ctx)
    gone = taken_back.check(ctx, node)
    if gone is not None:
        running.stop(ctx)
        return gone
    if ctx.lifecycle.state != NodeState.VALIDATING:
        move(ctx, NodeState.VALIDATING)
    if node.ready is not True:
        return _or_fail(ctx, Blocked("not_ready", f"The node is not Ready: {node.ready_reason or 'no condition'}.", 3))
    lift(ctx, node)  # repaired by people after a fence that did not bring it back
    text = str(ctx.step.memo.get("passed") or "") or _confirmed_well(ctx)
    if not text:
        tested = running.run(ctx, node, VALIDATE)
        if tested.state != judge.PASSED:
            return untested(ctx, tested, "validation_failed")
        text = tested.text
    if "passed" not in ctx.step.memo:
        ctx.remember(passed=text[:400], waiting_since=ctx.now.timestamp())
    return _signals(ctx) or _facts(ctx, node, text)


def untested(ctx: Context, tested: running.Tested, code: str) -> Outcome:
    """What follows when the suite has not passed: wait, the plan's next rung, or people."""
    if tested.state == "running":
        return Wait(ctx.timing.poll, tested.text)
    if tested.state == judge.FAILED:
        ctx.remember(part=tested.part)
        return Failed(code, tested.text)
    tries = int(ctx.step.memo.get("tries", 1))
    if tested.state == judge.NO_RESULT and tries < TESTS_AGAIN:
        ctx.remember(tries=tries + 1)
        return Wait(ctx.timing.poll * 5, f"{tested.text} Tested once more.")
    return Repair("no_result", f"The node could not be tested. {tested.text}")


def _confirmed_well(ctx: Context) -> str:
    """A suspicion that an active test did not confirm: nothing was done since, so the tests need not run again."""
    if ctx.workflow.step == 0:
        return ""
    step = Step.objects.filter(workflow=ctx.workflow, verb=CONFIRM, attempt=ctx.workflow.attempt).first()
    return step.text if step is not None and step.memo.get("not_confirmed") else ""


def _signals(ctx: Context) -> Outcome | None:
    """What the observer says since the remediation; None when it agrees."""
    blind = unwatched(ctx.workflow.cluster_id, ctx.now)
    if blind:
        return _or_fail(ctx, Blocked("no_data", blind, 5))
    since: datetime = ctx.lifecycle.remediated_at or ctx.step.started_at
    row = NodeVerdict.objects.get(node_id=ctx.workflow.node_id)
    if row.telemetry_at is None or row.telemetry_at <= since:
        return _or_fail(ctx, Blocked("no_data", "No telemetry has come since the remediation.", 2))
    still = Signal.objects.filter(node_id=ctx.workflow.node_id, cleared_at=None, severity="unhealthy").first()
    if still is not None:
        return _or_fail(ctx, Blocked("still_bad", f"Still open: {still.title}", 2))
    return None


def _facts(ctx: Context, node: NodeSeen, passed: str) -> Outcome:
    wrong = facts.counts(ctx.workflow.node, node).problem()
    if wrong:
        return _or_fail(ctx, Blocked("gpu_count", wrong, 3))
    drift = facts.drift(ctx.workflow.node, node)
    if drift.differs:
        text = "Its facts differ from the pool's: " + "; ".join(drift.differs) + "."
        return _or_fail(ctx, Blocked("drift", text, 5))
    unknown = f" Not compared, for the pool has no common value: {', '.join(drift.unknown)}." if drift.unknown else ""
    return Done(passed + unknown)


def _or_fail(ctx: Context, waiting: Outcome) -> Outcome:
    """The time counts from the end of the tests, however long they took."""
    since = float(ctx.step.memo.get("waiting_since") or ctx.step.started_at.timestamp())
    if ctx.since(since) > ctx.timing.validate_deadline:
        running.stop(ctx)
        text = getattr(waiting, "text", "")
        return Failed("validation_timeout", f"Not validated in {ctx.timing.validate_deadline / 60:.0f} min. {text}")
    return waiting
