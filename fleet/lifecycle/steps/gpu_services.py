"""The GPU Operator's own pods, which keep GPUs open: out of the way for a reset, and back again.

Decides by the node's labels alone, whose values say what is ours to undo; so nothing is forgotten after a crash, an
abort or a failed reset. Refuses to touch a service that was off before, and one that another tool paused.
"""

from __future__ import annotations

from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.outcomes import Failed, Outcome, Wait
from fleet.ports.cluster import GPU_SERVICE_ON, GPU_SERVICE_PAUSED, GPU_SERVICES, NodeSeen, PodSeen

LEAVE_WITHIN = 300.0
"""Seconds within which a DaemonSet's pods have left a node; longer means that something keeps them."""


def pause(ctx: Context, node: NodeSeen, pods: list[PodSeen]) -> Outcome | None:
    """None when nothing of the operator keeps a GPU open any more."""
    if any(node.labels.get(key) == GPU_SERVICE_ON for key in GPU_SERVICES):
        intent = intents.begin(ctx.workflow, ctx.step, "pause_gpu", node.name, ctx.now)
        ctx.ports.actor.pause_gpu_services(node.name, on=True)
        intents.resolve(intent, intents.DONE, "The GPU Operator's services are paused on this node.", ctx.now)
        ctx.remember(paused_since=ctx.now.timestamp())
        return Wait(ctx.timing.poll, "The GPU Operator's services leave the node, so that nothing keeps a GPU open.")
    if not paused(node):
        return None
    there = [pod.key for pod in pods if pod.labels.get("app") in GPU_SERVICES.values() and not pod.finished]
    since = float(ctx.step.memo.get("paused_since") or ctx.now.timestamp())
    if there and ctx.since(since) > LEAVE_WITHIN:
        return Failed("gpu_services", f"{there[0]} has not left the node in {LEAVE_WITHIN / 60:.0f} min.")
    return Wait(ctx.timing.poll, f"{there[0]} is leaving the node.") if there else None


def paused(node: NodeSeen) -> bool:
    return any(node.labels.get(key) == GPU_SERVICE_PAUSED for key in GPU_SERVICES)


def restore(ctx: Context, node: NodeSeen) -> None:
    """Let what we paused come back; nothing happens where nothing of ours is paused."""
    if paused(node):
        intent = intents.begin(ctx.workflow, ctx.step, "resume_gpu", node.name, ctx.now)
        ctx.ports.actor.pause_gpu_services(node.name, on=False)
        intents.resolve(intent, intents.DONE, "The GPU Operator's services may come back.", ctx.now)
