"""Drain: evict what runs, by policy/v1, never delete.

Decides whom to evict and when the drain is over: every eviction accepted, and either all pods gone or their grace
periods plus a margin passed (a dead kubelet, a D-state process or a finalizer can keep a pod for ever; it is named and
does not stop a power action on a node that takes no work). DaemonSet, mirror and finished pods are left. Refuses to
shorten a grace period or to pass by a budget: a PDB that says no is told by name until it yields or a person decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Blocked, Done, Outcome, Wait
from fleet.lifecycle.steps import taken_back
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.moves import move
from fleet.policy import selectors as policy
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import EvictionBlocked, NotFound, TemporaryError, UnknownOutcome

RETRY_PDB = 3.0


def run(ctx: Context) -> Outcome:
    node = fresh_node(ctx)
    gone = taken_back.check(ctx, node)
    if gone is not None:
        return gone
    pods = [pod for pod in ctx.ports.reader.pods_on(node.name) if _to_leave(pod)]
    if not pods:
        return _drained(ctx, "No work is left.")
    halted = policy.halt(ctx.workflow.cluster_id, ctx.now)
    if halted is not None:
        return Blocked(halted.code, halted.text, 300, halted.until)
    move(ctx, NodeState.DRAINING)
    standing = [pod for pod in pods if pod.deleting_since is None]
    if standing:
        return _evict(ctx, standing)
    return _await_end(ctx, pods)


def _to_leave(pod: PodSeen) -> bool:
    return pod.kind not in ("daemonset", "mirror") and not pod.finished


def _evict(ctx: Context, pods: list[PodSeen]) -> Outcome:
    """One round over everything that still stands. Gangs first: members of a broken gang only burn time."""
    pods = sorted(pods, key=lambda pod: (not pod.gang, pod.gang, pod.key))
    _intend(ctx, pods)
    refused: list[tuple[PodSeen, EvictionBlocked]] = []
    for pod in pods:
        try:
            ctx.ports.actor.evict(pod)
        except EvictionBlocked as error:
            refused.append((pod, error))
        except NotFound:
            continue
        except UnknownOutcome:
            continue  # the next round reads whether it is going
        except TemporaryError as error:
            return Wait(error.retry_after or RETRY_PDB, f"The API server asks to wait: {error}")
    if refused:
        return _blocked(ctx, refused)
    return Wait(ctx.timing.poll, f"{len(pods)} evictions accepted: {_names(pods)}.")


def _intend(ctx: Context, pods: list[PodSeen]) -> None:
    """An intent for pods that no earlier one of this step names. Evictions carry the UID: harmless if repeated."""
    known: set[str] = set()
    for before in Intent.objects.filter(step=ctx.step, verb="evict").values_list("before", flat=True):
        known.update(before.get("pods", {}))
    fresh = {pod.uid: pod.key for pod in pods if pod.uid not in known}
    if fresh:
        bare = [pod.key for pod in pods if pod.kind == "bare"]
        local = [pod.key for pod in pods if pod.local_data]
        before = {"pods": fresh, "bare": bare, "local_data": local}
        intent = intents.begin(
            ctx.workflow,
            ctx.step,
            "evict",
            f"{len(fresh)} {'pod' if len(fresh) == 1 else 'pods'}",
            ctx.now,
            before=before,
        )
        intents.resolve(intent, intents.DONE, "Evictions are idempotent by UID; see the step for each answer.", ctx.now)


def _blocked(ctx: Context, refused: list[tuple[PodSeen, EvictionBlocked]]) -> Outcome:
    budgets = sorted({error.budget or str(error) for _, error in refused})
    seconds = max((error.retry_after or RETRY_PDB) for _, error in refused)
    text = f"PDB {', '.join(budgets)} keeps {_names([pod for pod, _ in refused])}."
    return Blocked("pdb", text, min(max(seconds, RETRY_PDB), 30))


def _await_end(ctx: Context, pods: list[PodSeen]) -> Outcome:
    """Everything is ending. Wait for the slowest grace period and the margin, then go on and name what is stuck."""
    ends = [
        pod.deleting_since + timedelta(seconds=pod.grace_seconds + ctx.timing.drain_margin)
        for pod in pods
        if pod.deleting_since is not None
    ]
    if ctx.now < max(ends):
        return Wait(ctx.timing.poll, f"Draining, not drained: {len(pods)} pods are ending ({_names(pods)}).")
    reasons = [
        f"{pod.key} ({'finalizer ' + ', '.join(pod.finalizers) if pod.finalizers else 'does not end'})" for pod in pods
    ]
    return _drained(ctx, f"Stuck beyond grace and margin, and left behind: {'; '.join(reasons)}.")


def _drained(ctx: Context, text: str) -> Outcome:
    if ctx.lifecycle.state == NodeState.HELD:
        move(ctx, NodeState.DRAINING)
    move(ctx, NodeState.DRAINED, text)
    return Done(text)


def _names(pods: Iterable[PodSeen]) -> str:
    keys = [pod.key for pod in pods]
    return ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
