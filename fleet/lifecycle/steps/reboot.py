"""Reboot or power-cycle through the BMC, at most once per op_id, proved by the node itself.

Decides when a reset is sent (nothing sent yet in this try, guards re-checked, identity matched), and when it counts as
done: a changed, non-empty boot id, Ready, and a heartbeat that is not the one before. A BMC's 2xx proves nothing.
After a crash or a time-out it observes first: only when the BMC or the node shows that no reset happened may another
op follow. Refuses to reset a node without a pinned identity, without our hold, or one that already rebooted since.
"""

from __future__ import annotations

from datetime import timedelta

from fleet.inventory.models import Bmc
from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Done, Outcome, Repair, Wait
from fleet.lifecycle.playbooks import POWER_CYCLE
from fleet.lifecycle.steps import bmc, taken_back
from fleet.lifecycle.steps.guards import recheck
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.moves import move
from fleet.ports.cluster import NodeSeen
from fleet.ports.power import PowerSeen, PowerVerb

MAX_TRIES = 3
LOOK_LEAST, LOOK_MOST = 2.0, 10.0
"""A node that boots is looked at after a fifth of the time it has taken, within these bounds in seconds: servers take
minutes, a look costs two reads of the API server, and hundreds may boot at once."""
VERB = "reset"


def run(ctx: Context) -> Outcome:
    node = fresh_node(ctx)
    sent = Intent.objects.filter(step=ctx.step, verb=VERB).order_by("-created_at").first()
    if sent is not None and sent.outcome not in (intents.EXPIRED, intents.REFUSED):
        return _follow(ctx, node, sent)
    if rebooted_since(ctx, node):
        move(ctx, NodeState.REMEDIATING, remediated_at=ctx.now)
        return Done("It has rebooted since the fault; no other reset is needed.")
    tries = Intent.objects.filter(step=ctx.step, verb=VERB).exclude(outcome=intents.REFUSED).count()
    if tries >= MAX_TRIES:
        return Repair("bmc_no_effect", f"The BMC took {tries} resets and the node never rebooted.")
    refusal = recheck(ctx, node)
    return refusal or _begin(ctx, node, tries)


def rebooted_since(ctx: Context, node: NodeSeen) -> bool:
    """A person (or a crash) may have done our work: the boot id differs from the one in which the fault arose."""
    then = ctx.incident.boot_id if ctx.incident else ""
    first_try = ctx.workflow.attempt == 1
    return bool(first_try and then and node.boot_id and node.boot_id != then and node.ready)


def _begin(ctx: Context, node: NodeSeen, tries: int) -> Outcome:
    """Read the BMC, then send exactly one reset."""
    row = Bmc.objects.filter(node_id=ctx.workflow.node_id, kind="host").order_by("pk").first()
    if row is None:
        return Repair("no_bmc", "No BMC address is known for this node: manage.py inventory import.")
    seen = bmc.probe(ctx, row)
    if not isinstance(seen, PowerSeen):
        return seen
    move(ctx, NodeState.REMEDIATING)
    before = {
        "boot_id": node.boot_id,
        "heartbeat": node.heartbeat_at.isoformat() if node.heartbeat_at else "",
        "last_reset": seen.last_reset,
        "power": seen.state,
        "ready": node.ready,
    }
    verb = _verb(seen, tries, ctx.workflow.verb == POWER_CYCLE)
    sent = f"{verb} sent; waiting for the node to come back."
    return bmc.send(ctx, row, verb, VERB, sent, "The BMC took the reset; the node's boot id will prove it.", before)


def _verb(seen: PowerSeen, tries: int, harder: bool) -> PowerVerb:
    """The gentlest verb that the BMC advertises and that has not been in vain yet."""
    if seen.state == "off":
        return PowerVerb.ON
    ladder = [PowerVerb.FORCE_RESTART, PowerVerb.POWER_CYCLE][harder:]
    fit = [verb for verb in ladder if not seen.resets or verb in seen.resets]
    return fit[min(tries, len(fit) - 1)] if fit else PowerVerb.FORCE_RESTART


def _follow(ctx: Context, node: NodeSeen, sent: Intent) -> Outcome:
    """A reset was intended: prove its effect, or find out that there was none."""
    if sent.resolved_at is None and sent.call_deadline and ctx.now < sent.call_deadline:
        # more than a whole call lies ahead only where the clock was set back
        left = min((sent.call_deadline - ctx.now).total_seconds(), intents.BMC_CALL_SECONDS)
        return Wait(left + 0.1, "A reset may be under way; nobody calls the BMC before its deadline.")
    if _proved(node, sent):
        return _back(ctx, sent)
    if sent.resolved_at is None:
        intents.resolve(sent, intents.UNKNOWN, "The call's deadline passed without an answer.", ctx.now)
        sent.outcome = intents.UNKNOWN
    if sent.outcome == intents.UNKNOWN:
        return _find_out(ctx, node, sent)
    return _await(ctx, node, sent)


def _proved(node: NodeSeen, sent: Intent) -> bool:
    old_boot, old_beat = sent.before.get("boot_id", ""), sent.before.get("heartbeat", "")
    # A boot id that was unknown before proves a boot only of a node that was not Ready then.
    other = node.boot_id != old_boot if old_boot else sent.before.get("ready") is not True
    changed = bool(node.boot_id) and other
    beat = node.heartbeat_at is not None and node.heartbeat_at.isoformat() != old_beat  # clocks may be set back
    return changed and node.ready is True and beat


def _back(ctx: Context, sent: Intent) -> Outcome:
    intents.conclude(sent, intents.DONE, "Proved by a new boot id.", ctx.now)
    move(ctx, NodeState.REMEDIATING, remediated_at=ctx.now)
    took = (ctx.now - sent.created_at).total_seconds()
    return Done(f"Rebooted: new boot id, Ready and a fresh heartbeat {took:.0f} s after the reset.")


def _find_out(ctx: Context, node: NodeSeen, sent: Intent) -> Outcome:
    """The outcome is unknown: ask the BMC's last reset and the node before anything else is sent."""
    row = Bmc.objects.filter(pk=sent.bmc_id).first() if sent.bmc_id else None
    if row is None:
        return Repair("no_bmc", "The BMC that took the reset is no longer in the inventory.")
    seen = bmc.probe(ctx, row)
    if not isinstance(seen, PowerSeen):
        return seen
    moved = node.boot_id != sent.before.get("boot_id") or (node.ready is not True and sent.before.get("ready"))
    if seen.state != "on" or moved or seen.last_reset != sent.before.get("last_reset"):
        intents.conclude(sent, intents.DONE, "Observed: the reset had happened.", ctx.now)
        return Wait(ctx.timing.poll, "The reset had happened; waiting for the node to come back.")
    certain = seen.last_reset is not None
    if certain or ctx.since(sent.created_at) > ctx.timing.reboot_observe:
        intents.conclude(sent, intents.EXPIRED, "Observed: no reset happened.", ctx.now)
        return Wait(0, "No reset happened; another one may be sent.")
    return Wait(5, "The BMC does not tell its last reset; watching whether the node goes down.")


def _await(ctx: Context, node: NodeSeen, sent: Intent) -> Outcome:
    age = ctx.since(sent.created_at)
    idle = node.ready is True and node.boot_id == sent.before.get("boot_id")
    if idle and age > ctx.timing.reboot_observe:
        Intent.objects.filter(pk=sent.pk).update(outcome=intents.EXPIRED, text="Taken by the BMC, without any effect.")
        return Wait(0, f"The BMC said yes and did nothing for {age:.0f} s.")
    if age > ctx.timing.reboot_timeout:
        return taken_back.check(ctx, node) or Repair("not_back", f"Not back {age / 60:.0f} min after the reset.")
    back_by = sent.created_at + timedelta(seconds=ctx.timing.reboot_timeout)
    seconds = max(ctx.timing.poll, min(max(age / 5, LOOK_LEAST), LOOK_MOST))
    return Wait(seconds, f"Rebooting for {age:.0f} s; people are asked at {back_by:%H:%M} UTC.")
