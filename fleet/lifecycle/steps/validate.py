"""Validate: prove that the node works before anything is let near it again.

Decides on four things, all of them after the remediation: the validation Job succeeded, telemetry is fresh, no signal
of the incident is open, and the GPUs that Kubernetes offers are those the profile expects. Refuses to pass on missing
data: unknown is not a pass.
"""

from __future__ import annotations

from datetime import datetime

from fleet.health.models import NodeVerdict, Signal
from fleet.inventory.models import Node
from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Blocked, Done, Failed, Outcome, Wait
from fleet.lifecycle.steps import fence, taken_back
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.moves import move
from fleet.lifecycle.watched import unwatched
from fleet.ports.cluster import JobRequest

COMMAND = ("dcgmi", "diag", "-r", "1")


def run(ctx: Context) -> Outcome:
    node = fresh_node(ctx)
    gone = taken_back.check(ctx, node)
    if gone is not None:
        return gone
    if ctx.lifecycle.state != NodeState.VALIDATING:
        move(ctx, NodeState.VALIDATING)
    if node.ready is not True:
        return _or_fail(ctx, Blocked("not_ready", f"The node is not Ready: {node.ready_reason or 'no condition'}.", 3))
    fence.lift(ctx, node)  # repaired by people after a fence that did not bring it back
    tested = _job(ctx)
    if not isinstance(tested, Done):
        return tested
    return _signals(ctx) or Done(tested.text)


def _job(ctx: Context) -> Outcome:
    tries = int(ctx.step.memo.get("tries", 1))
    name = f"muster-validate-{ctx.workflow.pk}-{ctx.step.attempt}" + (f"-{tries}" if tries > 1 else "")
    namespace = ctx.ports.validation_namespace
    target = f"{namespace}/{name}"
    intent = Intent.objects.filter(step=ctx.step, verb="validate", target=target).first()
    if intent is None:
        intent = intents.begin(ctx.workflow, ctx.step, "validate", target, ctx.now)
        ctx.ports.actor.create_job(_request(ctx, name, namespace))
        intents.resolve(intent, intents.DONE, "Created.", ctx.now)
        return Wait(ctx.timing.poll, "The validation Job was created.")
    job = ctx.ports.actor.job(namespace, name)
    if job.phase == "missing":
        # The intent was written, the create was not, or somebody deleted it. Creating by name is idempotent.
        ctx.ports.actor.create_job(_request(ctx, name, namespace))
        return Wait(ctx.timing.poll, "The validation Job was created.")
    if job.phase == "failed":
        return Failed("validation_failed", f"Validation Job {name} failed: {job.text or 'no message'}")
    if job.phase == "succeeded":
        return Done(f"Validation Job {name} passed.")
    return _or_fail(ctx, Wait(ctx.timing.poll, f"Validation Job {name} is {job.phase}. {job.text}".strip()))


def _request(ctx: Context, name: str, namespace: str) -> JobRequest:
    labels = {"muster.dev/workflow": str(ctx.workflow.pk), "muster.dev/purpose": "validate"}
    return JobRequest(
        name=name,
        namespace=namespace,
        node=ctx.node_name,
        image=ctx.ports.validation_image,
        command=COMMAND,
        deadline_seconds=int(ctx.timing.validate_deadline),
        labels=labels,
    )


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
    counts = Node.objects.filter(pk=ctx.workflow.node_id).values_list("gpu_expected", "gpu_allocatable").get()
    if counts[0] is not None and counts[1] is not None and counts[1] < counts[0]:
        return _or_fail(ctx, Blocked("gpu_count", f"Kubernetes offers {counts[1]} of {counts[0]} GPUs.", 3))
    return None


def _or_fail(ctx: Context, waiting: Outcome) -> Outcome:
    if ctx.elapsed() > ctx.timing.validate_deadline:
        text = getattr(waiting, "text", "")
        return Failed("validation_timeout", f"Not validated in {ctx.timing.validate_deadline / 60:.0f} min. {text}")
    return waiting
