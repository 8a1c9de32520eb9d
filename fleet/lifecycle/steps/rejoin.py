"""A node that was installed anew comes back, perhaps as another Node object.

Decides whether the object under the node's name is the same machine (system UUID, the BMC's pinned UUID or provider id
agree), pins its new UID, holds it at once, and proves the new boot. Refuses another machine under that name, work that
came before the hold stood, and to hold again a node that a person took back.
"""

from __future__ import annotations

from fleet.inventory.models import Bmc
from fleet.lifecycle import approving, intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Done, Outcome, Repair, Wait
from fleet.lifecycle.steps import emptying, taken_back
from fleet.lifecycle.steps.identity import ours
from fleet.lifecycle.steps.moves import move
from fleet.ports.cluster import HoldRequest, NodeSeen
from fleet.ports.errors import Conflict, IdentityMismatch, NotFound


def run(ctx: Context, sent: Intent, limit: float) -> Outcome:
    """`limit`: seconds since the request after which people are asked."""
    age = ctx.since(sent.created_at)
    try:
        node = ctx.ports.reader.node(ctx.node_name)
    except NotFound:
        return _still(age, limit, "Its image is installed; the node has not joined the cluster yet.")
    if node.uid == sent.before["uid"]:
        return taken_back.check(ctx, node) or _proved(ctx, node, sent, age, limit)
    if not node.system_uuid and not node.provider_id:
        return _still(age, limit, "A node of its name has joined and does not tell yet which machine it is.")
    _same_machine(ctx, node, sent)
    if ctx.step.memo.get("held_uid") == node.uid:
        return (
            taken_back.check(ctx, node) or emptying.run(ctx, node, age > limit) or _proved(ctx, node, sent, age, limit)
        )
    return _adopt(ctx, node)


def _still(age: float, limit: float, text: str) -> Outcome:
    if age > limit:
        return Repair("not_back", f"{text} That is {age / 60:.0f} min after the request.")
    return Wait(5, text)


def _same_machine(ctx: Context, node: NodeSeen, sent: Intent) -> None:
    """IdentityMismatch unless something that both tell agrees and nothing disagrees."""
    pinned = Bmc.objects.filter(node_id=ctx.workflow.node_id, kind="host").values_list("pinned_uuid", flat=True)
    known = {uuid.casefold() for uuid in (sent.before["system_uuid"], *pinned) if uuid}
    if node.system_uuid and known:
        same = node.system_uuid.casefold() in known
    else:
        same = bool(node.provider_id) and node.provider_id == sent.before["provider_id"]
    if not same:
        raise IdentityMismatch(f"{node.name} has joined as another machine than the one that was installed anew.")


def _adopt(ctx: Context, node: NodeSeen) -> Outcome:
    """Pin the new object and hold it before it can take work."""
    workflow = ctx.workflow
    agreed = workflow.approved_hash and workflow.approved_hash == approving.hash_of(workflow)
    workflow.node_uid = node.uid
    if agreed:  # people agreed to this machine; its object's UID is ours to follow
        workflow.approved_hash = approving.hash_of(workflow)
    changes = {"node_uid": node.uid, "approved_hash": workflow.approved_hash}
    intent = intents.begin(workflow, ctx.step, "hold", node.name, ctx.now, changes=changes)
    try:
        ctx.ports.actor.hold(HoldRequest(node.name, workflow.hold_value, node.resource_version))
    except Conflict as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        return Wait(0, "The new node object changed while it was being held; reading it again.")
    intents.resolve(intent, intents.DONE, "The new node object is held.", ctx.now)
    ctx.remember(held_uid=node.uid)
    return Wait(ctx.timing.poll, "It has joined again as a new node object, which is held.")


def _proved(ctx: Context, node: NodeSeen, sent: Intent, age: float, limit: float) -> Outcome:
    changed = bool(node.boot_id) and node.boot_id != sent.before["boot_id"]
    beat = node.heartbeat_at is not None and node.heartbeat_at.isoformat() != sent.before["heartbeat"]
    if not (changed and beat and node.ready is True and ours(ctx, node)):
        lacks = "a new boot id" if not changed else "Ready" if node.ready is not True else "a fresh heartbeat"
        return _still(age, limit, f"Its image is installed; waiting for {lacks}.")
    move(ctx, NodeState.REMEDIATING, remediated_at=ctx.now)
    return Done(f"Installed anew: its provider agrees, and it has booted and is Ready after {age:.0f} s.")
