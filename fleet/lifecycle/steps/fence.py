"""Fence a lost host: power proven off, its pods let go, power on again.

Decides the order that keeps a volume from being written by two: only when the BMC says that the power is off does the
out-of-service taint go on, and only when the node is back does it come off. Refuses a host whose BMC does not answer
(nobody can prove anything then), one that is Ready again, to send a second power call before the first is observed, and
to take a taint that somebody else put there for a proof that the power is off.
"""

from __future__ import annotations

from fleet.inventory.models import Bmc
from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Blocked, Done, Outcome, Repair, Wait
from fleet.lifecycle.steps import bmc, give_back, taken_back
from fleet.lifecycle.steps.guards import recheck
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.moves import move
from fleet.lifecycle.steps.out_of_service import lift, ours_stands, tainted
from fleet.ports.cluster import NodeSeen
from fleet.ports.power import PowerSeen, PowerState, PowerVerb

VERB = "power"
OFF_WITHIN = 120.0
"""A forced power-off that takes longer than this has not happened."""
LET_GO_WITHIN = 360.0
"""Detaching a volume by force takes the attach-detach controller up to six minutes."""
MAX_TRIES = 3


def run(ctx: Context) -> Outcome:
    node = fresh_node(ctx)
    if ctx.step.memo.get("on"):  # with or without the taint: whoever took it off may have died before it could say so
        return _come_back(ctx, node)
    if tainted(node) and (ours_stands(ctx) or ctx.step.memo.get("off")):
        return _let_go(ctx, node)
    if node.ready is True and not ctx.step.memo.get("off"):
        return give_back.run_unneeded(ctx, "It is Ready again; nothing was fenced.")
    return _power_off(ctx, node)


def _power_off(ctx: Context, node: NodeSeen) -> Outcome:
    """Until the BMC itself says off, whoever turned it off."""
    row = Bmc.objects.filter(node_id=ctx.workflow.node_id, kind="host").order_by("pk").first()
    if row is None:
        return Repair("no_bmc", "No BMC address is known for this node: manage.py inventory import.")
    seen = bmc.probe(ctx, row)
    if not isinstance(seen, PowerSeen):
        return seen
    if seen.state == PowerState.OFF:
        return _taint(ctx, node)
    sent = _last(ctx, "ForceOff")
    if sent is not None and ctx.since(sent.created_at) < OFF_WITHIN and sent.outcome != intents.REFUSED:
        return Wait(ctx.timing.poll, "Power-off sent; waiting for the BMC to say that it is off.")
    tries = Intent.objects.filter(step=ctx.step, verb=VERB).exclude(outcome=intents.REFUSED).count()
    if tries >= MAX_TRIES:
        return Repair("not_off", f"The BMC took {tries} power-offs and the power is still on.")
    if node.ready is False:
        return Blocked(
            "kubelet_answers", "Its kubelet answers and says NotReady: it is not lost, so it is not fenced.", 30
        )
    return recheck(ctx, node) or _send(ctx, row, PowerVerb.FORCE_OFF)


def _send(ctx: Context, row: Bmc, verb: PowerVerb) -> Outcome:
    """One power call under one intent."""
    move(ctx, NodeState.REMEDIATING)
    return bmc.send(ctx, row, verb, VERB, f"{verb} sent.", "Taken by the BMC.")


def _last(ctx: Context, verb: str) -> Intent | None:
    rows = Intent.objects.filter(step=ctx.step, verb=VERB, target__startswith=f"{verb} ")
    return rows.order_by("-created_at").first()


def _taint(ctx: Context, node: NodeSeen) -> Outcome:
    """The power is off: Kubernetes may give the pods' volumes to others now."""
    refusal = taken_back.check(ctx, node)
    if refusal is not None:
        return refusal
    move(ctx, NodeState.REMEDIATING)
    if not tainted(node):  # else somebody else's stands there already, and is theirs to take off
        intent = intents.begin(ctx.workflow, ctx.step, "fence", node.name, ctx.now, before={"power": "off"})
        ctx.ports.actor.fence(node.name, on=True)
        intents.resolve(intent, intents.DONE, "Marked as out of service.", ctx.now)
    ctx.remember(off=True, let_go_since=ctx.now.timestamp())
    return Wait(ctx.timing.poll, "Power is off; its pods are being let go.")


def _let_go(ctx: Context, node: NodeSeen) -> Outcome:
    """Wait until nothing is bound to the host, then power it on."""
    pods = [pod for pod in ctx.ports.reader.pods_on(node.name) if pod.kind not in ("daemonset", "mirror")]
    if not ctx.step.memo.get("let_go_since"):  # the taint is on, and whoever put it there died before it could say so
        ctx.remember(off=True, let_go_since=ctx.now.timestamp())
    since = float(ctx.step.memo["let_go_since"])
    if pods and ctx.since(since) < LET_GO_WITHIN:
        return Wait(ctx.timing.poll, f"{len(pods)} pods are being let go, {pods[0].key} among them.")
    row = Bmc.objects.filter(node_id=ctx.workflow.node_id, kind="host").order_by("pk").first()
    if row is None:
        return Repair("no_bmc", "The BMC is no longer in the inventory; the host stays off.")
    seen = bmc.probe(ctx, row)
    if not isinstance(seen, PowerSeen):
        return seen
    if seen.state == PowerState.ON:
        ctx.remember(on=True, on_since=ctx.now.timestamp())
        return Wait(ctx.timing.poll, "Power is on; waiting for the node to come back.")
    sent = _last(ctx, "On")
    if sent is not None and ctx.since(sent.created_at) < OFF_WITHIN and sent.outcome != intents.REFUSED:
        return Wait(ctx.timing.poll, "Power-on sent; waiting for the BMC to say that it is on.")
    tries = Intent.objects.filter(step=ctx.step, verb=VERB, target__startswith="On ").exclude(outcome="refused").count()
    if tries >= MAX_TRIES:
        return Repair("not_on", f"The BMC took {tries} power-ons and the power is still off.")
    return _send(ctx, row, PowerVerb.ON)


def _come_back(ctx: Context, node: NodeSeen) -> Outcome:
    age = ctx.since(float(ctx.step.memo.get("on_since") or ctx.now.timestamp()))
    if node.ready is True:
        if lift(ctx, node):
            return Wait(ctx.timing.poll, "It is back; its out-of-service taint is being taken off.")
        move(ctx, NodeState.REMEDIATING, remediated_at=ctx.now)
        return Done(f"Fenced, powered on and Ready again after {age:.0f} s.")
    if age > ctx.timing.reboot_timeout:
        return Repair("not_back", f"Not back {age / 60:.0f} min after its power came on; it stays out of service.")
    return Wait(ctx.timing.poll, f"Booting for {age:.0f} s.")
