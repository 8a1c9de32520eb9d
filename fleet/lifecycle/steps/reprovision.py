"""Install the node's image anew through whoever provisions its hosts, at most once per op_id.

Decides when the request is sent (nothing under way at the provider, guards re-checked, identity found by serial, BMC or
provider id) and when it counts as done: the provider has finished an operation begun since, and the node itself is back
(`rejoin`). After a crash or a lost answer it observes first; only when the provider shows that nothing has begun may
another op follow. Refuses a host that is not proved to be the node's, and to call anything failed that merely lasts.
"""

from __future__ import annotations

import uuid

from fleet.inventory.models import Bmc
from fleet.lifecycle import alone, intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Blocked, Failed, Outcome, Repair, Wait
from fleet.lifecycle.playbooks import PlannedStep
from fleet.lifecycle.steps import rejoin
from fleet.lifecycle.steps.guards import recheck
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.moves import move
from fleet.ports.cluster import NodeSeen
from fleet.ports.errors import IdentityMismatch, PermanentError, PortError, TemporaryError, UnknownOutcome
from fleet.ports.provision import Phase, ProvisionPort, ProvisionSeen, ProvisionTarget

VERB = "reprovision"
CALL_SECONDS = 20.0
"""A provider's answer comes within fifteen seconds or not at all; only then is its absence worth anything."""
FAILED_FOR = 300.0
"""Providers try again by themselves; an error that lasts this long is the provider's last word."""
MAX_TRIES = 2
SLOW_POLL = 5.0


def run(ctx: Context) -> Outcome:
    port = ctx.ports.provision
    if port is None:
        return Repair("no_provisioner", f"No provisioner is configured for cluster {ctx.workflow.cluster.name}.")
    with alone.at(f"provider {ctx.workflow.pk}") as mine:
        return _run(ctx, port) if mine else Wait(CALL_SECONDS, "Another worker asks its provider just now.")


def _run(ctx: Context, port: ProvisionPort) -> Outcome:
    mine = Intent.objects.filter(step=ctx.step, verb=VERB).exclude(outcome=intents.REFUSED).order_by("created_at")
    sent = [intent for intent in mine if intent.outcome != intents.EXPIRED]
    if len(sent) >= int(ctx.step.memo.get("tries", 1)):
        return _follow(ctx, port, sent[-1])
    if len(mine) - len(sent) >= MAX_TRIES:
        return Failed("provision_no_effect", f"The provider took {MAX_TRIES} requests and nothing began.")
    node = fresh_node(ctx)
    return recheck(ctx, node) or _begin(ctx, port, node)


def _begin(ctx: Context, port: ProvisionPort, node: NodeSeen) -> Outcome:
    target = _target(ctx, node.provider_id)
    try:
        seen = port.observe(target)
    except IdentityMismatch:
        raise
    except PermanentError as error:
        return Repair(error.code, str(error))
    if seen.refusals:
        return Repair("provision_refused", " ".join(seen.refusals))
    if seen.phase != Phase.PROVISIONED:
        return _not_now(ctx, seen)
    move(ctx, NodeState.REMEDIATING)
    before = {
        "boot_id": node.boot_id, "uid": node.uid, "system_uuid": node.system_uuid, "provider_id": node.provider_id,
        "heartbeat": node.heartbeat_at.isoformat() if node.heartbeat_at else "", "mark": seen.mark, "host": seen.host,
    }  # fmt: skip
    intent = intents.begin(
        ctx.workflow, ctx.step, VERB, f"{seen.host} {seen.image}".strip(), ctx.now, op_id=uuid.uuid4(), before=before
    )
    return _submit(ctx, port, intent, target, seen) or Wait(SLOW_POLL, f"{seen.host} is to be installed anew.")


def _not_now(ctx: Context, seen: ProvisionSeen) -> Outcome:
    text = f"{seen.host} is {seen.state} at its provider. {seen.error}".strip()
    if seen.phase == Phase.FAILED:
        return Repair("provision_state", text)
    since = float(ctx.step.memo.get("busy_since") or ctx.now.timestamp())
    ctx.remember(busy_since=since)
    if ctx.since(since) > ctx.timing.bmc_patience:
        return Repair("provision_state", f"{text} It has not changed in {ctx.timing.bmc_patience / 60:.0f} min.")
    return Blocked("provision_state", text, 15)


def _submit(
    ctx: Context, port: ProvisionPort, intent: Intent, target: ProvisionTarget, seen: ProvisionSeen
) -> Outcome | None:
    """Send one request under its intent. None when the provider took it."""
    op_id = str(intent.before.get("op_id") or intent.op_id)
    if intents.late(intent, ctx.now, CALL_SECONDS / 4):
        intents.resolve(intent, intents.REFUSED, "Not sent: the time of the call had passed.", ctx.now)
        return Wait(ctx.timing.poll, "This worker stood still for too long; looking again before anything is sent.")
    try:
        port.submit(target, op_id, seen)
    except UnknownOutcome as error:
        intents.resolve(intent, intents.UNKNOWN, str(error), ctx.now)
        return Wait(CALL_SECONDS, f"No answer from the provider; observing before anything else: {error}")
    except TemporaryError as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return Blocked(error.code, str(error), error.retry_after or 10)
    except PermanentError as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return Repair(error.code, f"The provider refuses: {error}")
    intents.resolve(
        intent, intents.DONE, "The provider took it; its state and the node's new boot will prove it.", ctx.now
    )
    return None


def _follow(ctx: Context, port: ProvisionPort, sent: Intent) -> Outcome:
    """A reprovision was intended: what the provider shows, and then what the node shows."""
    age = ctx.since(sent.created_at)
    if sent.resolved_at is None and age < CALL_SECONDS:
        return Wait(CALL_SECONDS - age + 0.1, "The request may be under way; nothing is sent before its time is over.")
    target = _target(ctx, sent.before["provider_id"])
    try:
        seen = port.observe(target)
    except IdentityMismatch:
        raise
    except PortError as error:
        return _late(ctx, sent, f"Its provider: {error}") or Blocked(error.code, f"Its provider: {error}", 15)
    begun = seen.op_id == str(sent.op_id) or seen.mark != sent.before["mark"]
    if not begun:
        return _nothing_began(ctx, sent, age)
    if sent.outcome != intents.DONE:
        Intent.objects.filter(pk=sent.pk).update(
            outcome=intents.DONE, text="Observed: the reprovision had begun.", resolved_at=ctx.now
        )
    if seen.phase == Phase.FAILED:
        return _gave_up(ctx, sent, seen)
    ctx.remember(failed_since=None)
    if seen.phase == Phase.HALFWAY:
        return _go_on(ctx, port, sent, target, seen)
    if seen.phase == Phase.PROVISIONED:
        return rejoin.run(ctx, sent, _limit(ctx))
    told = f"{seen.host} is {seen.state} for {age / 60:.0f} min."
    return _late(ctx, sent, told) or Wait(SLOW_POLL, told)


def _nothing_began(ctx: Context, sent: Intent, age: float) -> Outcome:
    """An answer that was lost says nothing; one that said yes gets its time to show an effect."""
    if sent.outcome == intents.DONE and age < ctx.timing.reboot_observe:
        return Wait(SLOW_POLL, "The provider said yes; waiting for it to begin.")
    Intent.objects.filter(pk=sent.pk).update(
        outcome=intents.EXPIRED, text="Observed: nothing has begun at the provider.", resolved_at=ctx.now
    )
    return Wait(0, "Nothing has begun at the provider; it may be asked again.")


def _gave_up(ctx: Context, sent: Intent, seen: ProvisionSeen) -> Outcome:
    since = float(ctx.step.memo.get("failed_since") or ctx.now.timestamp())
    ctx.remember(failed_since=since)
    text = f"{seen.host} is {seen.state}: {seen.error or 'no message'}"
    if ctx.since(since) < FAILED_FOR:
        return Wait(15, f"{text} It may try again by itself.")
    Intent.objects.filter(pk=sent.pk).update(outcome=intents.FAILED, text=text[:500], resolved_at=ctx.now)
    return Failed("provision_failed", text)


def _go_on(ctx: Context, port: ProvisionPort, sent: Intent, target: ProvisionTarget, seen: ProvisionSeen) -> Outcome:
    """The second request of the same op; its precondition is the state that was just read."""
    if seen.op_id != str(sent.op_id):
        return Repair("provision_state", f"{seen.host} is {seen.state} by another request than ours.")
    told = f"{seen.host} is empty; its image is put back."
    late = _late(ctx, sent, told)
    if late is not None:
        return late
    intent = intents.begin(ctx.workflow, ctx.step, "provision", seen.host, ctx.now, before={"op_id": str(sent.op_id)})
    return _submit(ctx, port, intent, target, seen) or Wait(SLOW_POLL, told)


def _late(ctx: Context, sent: Intent, text: str) -> Outcome | None:
    """Past its time it is stalled: observed no further by itself, but not called failed, for it may yet end well."""
    age = ctx.since(sent.created_at)
    return Repair("stalled", f"Stalled after {age / 60:.0f} min. {text}") if age > _limit(ctx) else None


def _limit(ctx: Context) -> float:
    return PlannedStep.of(ctx.workflow.plan[ctx.workflow.step]).deadline or ctx.timing.reprovision_timeout


def _target(ctx: Context, provider_id: str) -> ProvisionTarget:
    rows = list(Bmc.objects.filter(node_id=ctx.workflow.node_id, kind="host").order_by("pk"))
    pinned = next((row for row in rows if row.pinned_serial or row.pinned_uuid), None)
    return ProvisionTarget(
        node=ctx.node_name,
        serial=pinned.pinned_serial if pinned else "",
        uuid=pinned.pinned_uuid if pinned else "",
        provider_id=provider_id,
        bmc_addresses=tuple(row.address for row in rows),
    )
