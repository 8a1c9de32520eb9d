"""Work that was placed on a node between its joining anew and our hold leaves again, before the node is tested.

Decides whom to evict, by policy/v1 as a drain does: under an intent that names each pod, at the cluster's rate, and
not while all is halted. Refuses to pass by a budget, to delete, and to wait for ever: past the step's time people are
asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.lifecycle import eviction_rate, intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.gangs_joined import named
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Blocked, Outcome, Repair, Wait
from fleet.lifecycle.steps import evicting, guards
from fleet.ports.cluster import NodeSeen, PodSeen

RETRY = 10.0


def run(ctx: Context, node: NodeSeen, late: bool) -> Outcome | None:
    """None when nothing runs on the node. `late`: the time within which it was to be back has passed."""
    pods = [pod for pod in ctx.ports.reader.pods_on(node.name) if pod.kind in ("workload", "bare") and not pod.finished]
    if not pods:
        return None
    keys = named([pod.key for pod in pods])
    if late:
        return Repair("not_back", f"It is installed anew, and {keys}, which came before the hold, does not leave it.")
    standing = [pod for pod in pods if pod.deleting_since is None]
    if not standing:
        return Wait(ctx.timing.poll, f"Leaving, having come before the hold: {keys}.")
    halted = guards.halted(ctx)
    if halted is not None:
        return halted
    _intend(ctx, standing)
    return _round(ctx, standing)


def _intend(ctx: Context, standing: Sequence[PodSeen]) -> None:
    """One intent for those that no earlier one of this step names."""
    rows = Intent.objects.filter(step=ctx.step, verb="evict").values_list("before", flat=True)
    known = {uid for before in rows for uid in before.get("pods", {})}
    fresh = {pod.uid: pod.key for pod in standing if pod.uid not in known}
    if fresh:
        target = f"{named(list(fresh.values()))}, placed before the hold"
        done = "Evictions are idempotent by UID; see the step for each answer."
        intents.begin(ctx.workflow, ctx.step, "evict", target, ctx.now, before={"pods": fresh}, done=done)


def _round(ctx: Context, standing: Sequence[PodSeen]) -> Outcome:
    rate = ctx.timing.evictions_per_second
    given, seconds = eviction_rate.take(ctx.workflow.cluster_id, len(standing), rate, ctx.now)
    found = evicting.evict(ctx, standing[:given], {})
    broken_off = found.broken_off(RETRY)
    if broken_off is not None:
        return broken_off
    kept = [*found.refused, *found.spared]
    if kept:
        pod, error = kept[0]
        return Blocked(error.code, f"{evicting.told(evicting.why(error), [pod.key])}. It came before the hold.", RETRY)
    if found.doubtful and not (found.accepted or found.gone):
        pod, unclear = found.doubtful[0]
        return Blocked(unclear.code, f"No clear answer to the eviction of {pod.key}: {unclear}", RETRY)
    if given < len(standing):
        return Wait(
            seconds, f"{len(standing) - given} pods that came before the hold wait for their turn to be evicted."
        )
    return Wait(ctx.timing.poll, f"Evicted, having come before the hold: {named([pod.key for pod in standing])}.")
