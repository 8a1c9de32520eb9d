"""Drain: evict what runs, by policy/v1, knowing the jobs.

Decides whom to evict and when the drain is over: every eviction accepted, and either all pods gone or their grace
periods plus a margin passed (a dead kubelet, a D-state process or a finalizer can keep a pod for ever; it is named and
does not stop a power action on a node that takes no work). DaemonSet, mirror and finished pods are left; pods with
local data, without an owner, that came during the drain or that others ended are named. Refuses to shorten a grace
period, and to pass by a budget unless another person agreed to it pod by pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from fleet.health.models import Incident
from fleet.lifecycle import eviction_rate, forcing, gangs_joined, intents, seen_time, workloads_apart
from fleet.lifecycle.context import Context
from fleet.lifecycle.gangs_joined import named
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.outcomes import Blocked, Done, Outcome, Wait
from fleet.lifecycle.steps import (
    budget_line,
    drain_told,
    evicting,
    give_back,
    guards,
    interrupting,
    others,
    ray_told,
    taken_back,
)
from fleet.lifecycle.steps.identity import fresh_node
from fleet.lifecycle.steps.moves import move
from fleet.lifecycle.suspending import stopping
from fleet.policy import approvals
from fleet.policy import services as claims
from fleet.policy.models import Approval
from fleet.policy.rules import TAKE_OUT
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import MissingRight, PortError, UnknownOutcome

RETRY, RETRY_MOST = 3.0, 30.0
GROWS = 1.5
"""Seconds between two rounds against a budget that refuses: longer by half each time, anew after any progress. Where a
drain finds it open before, it wakes the others. Twice as long each time, or the longest time at once for all but the
first in line, emptied half a fleet later: budgets open little by little."""
LOOK_LEAST, LOOK_MOST = 2.5, 10.0
"""Ending pods are looked at after a tenth of their grace period, then after half of the time they have taken, within
these bounds: a look costs three reads of the API server, and containers that end at once take about two seconds."""


def ahead(ctx: Context) -> Outcome | None:
    """Before the take-out is asked for: a node that waits for a job takes no room from others meanwhile."""
    if ctx.step.memo.get("begun") or (interrupting.urgent(ctx) and not ctx.step.memo.get("was_kept")):
        return None
    node = fresh_node(ctx)
    gone = taken_back.check(ctx, node)
    return gone or interrupting.kept(ctx, _standing(_to_leave(ctx)))


def run(ctx: Context) -> Outcome:
    node = fresh_node(ctx)
    gone = taken_back.check(ctx, node)
    if gone is not None:
        return gone
    if ctx.incident is not None and not Incident.objects.filter(pk=ctx.incident.pk, state=Incident.OPEN).exists():
        return give_back.run_release(ctx, "The incident was closed meanwhile.")
    pods = _to_leave(ctx)
    ours = drain_told.known(ctx)
    mine = {**ours, **ctx.step.memo.get("stopping", {})}  # what we evict, and what ends because we suspended its job
    drain_told.note_others(ctx, pods, mine)
    if not pods:
        return _drained(ctx, "No work is left.")
    standing = _standing(pods)
    if not standing:
        move(ctx, NodeState.DRAINING)
        return _await_end(ctx, pods)
    halted = guards.halted(ctx)
    if halted is not None:
        return halted
    other = None if ctx.step.memo.get("begun") else others.at_work(ctx, node) or _counts(ctx, standing)
    if other is not None:
        return other
    kept = None if ctx.step.memo.get("begun") else interrupting.kept(ctx, standing)
    if kept is None and not ctx.step.memo.get("begun"):
        kept = _take(ctx, standing)
    if kept is not None:
        claims.release(ctx.workflow.pk, ctx.now, [TAKE_OUT])
        ctx.remember(was_kept=True)
        return kept
    if not ctx.step.memo.get("begun") and ctx.ports.ray is not None and ray_told.workers(standing):
        _begin(ctx, standing)  # a gang is broken from when Ray moves its work
    standing = _suspended(ctx, standing)
    if not standing:
        return Wait(LOOK_LEAST, f"{stopping.waited_for(ctx)}{drain_told.others(ctx)}")
    return drain_told.returning(ctx, standing, mine) or ray_told.tell(ctx, standing) or _evict(ctx, standing, ours)


def _counts(ctx: Context, standing: Sequence[PodSeen]) -> Blocked | None:
    """Work on a node that was thought to have none."""
    if not any(pod.kind in ("workload", "bare") for pod in standing):
        return None
    text = f"Work runs on {ctx.node_name} after all: its drain counts against the cap now, and is asked for anew."
    return guards.counts_now(ctx, TAKE_OUT, text)


def _suspended(ctx: Context, standing: list[PodSeen]) -> list[PodSeen]:
    """What is evicted still, where jobs that their place allows to suspend are suspended."""
    if not stopping.candidates(ctx, standing):
        return standing
    if not ctx.step.memo.get("begun"):
        _begin(ctx, standing)
    return stopping.apart(ctx, standing).evict


def _to_leave(ctx: Context) -> list[PodSeen]:
    """All work of the node, whether or not it shows a GPU: a resource claim does not."""
    pods = ctx.ports.reader.pods_on(ctx.node_name)
    return [pod for pod in pods if pod.kind not in ("daemonset", "mirror") and not pod.finished]


def _standing(pods: Sequence[PodSeen]) -> list[PodSeen]:
    return [pod for pod in pods if pod.deleting_since is None]


def _take(ctx: Context, standing: Sequence[PodSeen]) -> Blocked | None:
    """The last word before the first eviction: whose turn it is, of those that must go one after the other."""
    workloads = workloads_apart.workloads_of(ctx, standing)
    kept, breaks = workloads_apart.take(ctx, workloads, interrupting.hurried(ctx))
    if workloads and kept is None:
        memo: dict[str, object] = {"workloads": [one.key for one in workloads]}
        ctx.remember(**memo, **({"breaks": breaks} if breaks else {}))
    return kept


def _evict(ctx: Context, standing: Sequence[PodSeen], ours: dict[str, str]) -> Outcome:
    """One round over what still stands, as far as the cluster's rate allows."""
    kept = drain_told.kept_by_budget(ctx)
    turn = evicting.order(standing, kept, int(ctx.step.memo.get("rounds_refused", 0)))
    rate = ctx.timing.evictions_per_second
    _intend(ctx, turn, ours)
    given, seconds = eviction_rate.take(ctx.workflow.cluster_id, len(turn), rate, ctx.now)
    if not given:
        return Wait(seconds, _paced(rate, turn))
    told = ctx.step.memo.get("joined", "")
    if not ctx.step.memo.get("begun"):
        told = _begin(ctx, standing)
    told += ctx.step.memo.get("ray", "")
    found = evicting.evict(ctx, turn[:given], kept)
    done = [*found.accepted, *found.gone]
    opened = {kept[pod.uid][1] for pod in found.accepted if pod.uid in kept}
    kept = {uid: entry for uid, entry in kept.items() if uid not in {pod.uid for pod in done}}
    kept |= {pod.uid: [pod.key, evicting.why(error)] for pod, error in [*found.refused, *found.spared]}
    in_vain = not done and bool(found.refused or found.doubtful)
    rounds = int(ctx.step.memo.get("rounds_refused", 0)) + 1 if in_vain else 0
    if kept != drain_told.kept_by_budget(ctx) or rounds != ctx.step.memo.get("rounds_refused", 0):
        budgets = sorted({budget for _, budget in kept.values()})
        ctx.remember(kept_by_budget=kept, rounds_refused=rounds, budgets=budgets)
        opened -= set(budgets)
    if opened:
        budget_line.wake(ctx, opened, ctx.now)
    broken_off = found.broken_off(RETRY)
    if broken_off is not None:
        return broken_off
    if given < len(turn):
        return Wait(seconds, _paced(rate, turn[given:]))
    if found.refused:
        held = [pod for pod in turn if pod.uid in kept]
        said = forcing.agreed(ctx.workflow, approvals.FORCE, ctx.now)
        return _force(ctx, held, said) or _refused(ctx, kept, found.refused, rounds, said)
    if in_vain:
        return _unclear(found.doubtful, rounds)
    many = f"{len(done)} {'eviction' if len(done) == 1 else 'evictions'} accepted"
    text = f"{many}: {named([pod.key for pod in done])}.{drain_told.losses(standing)}{told}"
    return Wait(_first_look(ctx, done), text)


def _first_look(ctx: Context, pods: Sequence[PodSeen]) -> float:
    slowest = max((pod.grace_seconds for pod in pods), default=0)
    return max(ctx.timing.poll, min(max(slowest / 10, LOOK_LEAST), LOOK_MOST))


def _paced(rate: float, left: Sequence[PodSeen]) -> str:
    pods = "pod waits" if len(left) == 1 else "pods wait"
    return f"{len(left)} {pods} for their turn: this cluster gets {rate:g} evictions a second from all drains together."


def _intend(ctx: Context, pods: Sequence[PodSeen], ours: dict[str, str]) -> None:
    """An intent for pods that no earlier one of this step names. Evictions carry the UID: harmless if repeated."""
    fresh = {pod.uid: pod.key for pod in pods if pod.uid not in ours}
    if not fresh:
        move(ctx, NodeState.DRAINING)
        return
    bare = [pod.key for pod in pods if pod.kind == "bare"]
    local = [pod.key for pod in pods if pod.local_data]
    before = {"pods": fresh, "bare": bare, "local_data": local}
    many = f"{len(fresh)} {'pod' if len(fresh) == 1 else 'pods'}"
    state = None if ctx.lifecycle.state == NodeState.DRAINING else NodeState.DRAINING
    done = "Evictions are idempotent by UID; see the step for each answer."
    intents.begin(ctx.workflow, ctx.step, "evict", many, ctx.now, before=before, node_state=state, done=done)
    ctx.lifecycle.state = NodeState.DRAINING


def _begin(ctx: Context, standing: Sequence[PodSeen]) -> str:
    """The first round: gangs are broken from here on."""
    gangs = interrupting.gangs_of(standing)
    told = gangs_joined.begin(ctx, gangs) + ctx.step.memo.get("breaks", "")
    memo = {
        "without_owner": sorted(pod.key for pod in standing if pod.kind == "bare"),
        "local_data": sorted(pod.key for pod in standing if pod.local_data),
        "joined": told,
    }
    ctx.remember(begun=True, gangs=sorted(gangs), **{key: value for key, value in memo.items() if value})
    return told


def _force(ctx: Context, held: Sequence[PodSeen], said: forcing.Agreement) -> Outcome | None:
    """Delete what a budget keeps, where another person agreed to exactly these pods."""
    if said.state != Approval.APPROVED:
        return None
    pods = [pod for pod in held if pod.uid in said.pods]
    if not pods:
        return None
    before = {"pods": {pod.uid: pod.key for pod in pods}, "agreed": said.text}
    target = f"{named([pod.key for pod in pods])} past a budget"
    intent = intents.begin(ctx.workflow, ctx.step, "delete", target, ctx.now, before=before)
    try:
        deleted = [pod.key for pod in evicting.forced(ctx, pods)]
    except MissingRight as error:
        intents.resolve(intent, intents.REFUSED, str(error), ctx.now)
        many = named([pod.key for pod in pods])
        text = f"{said.text} agreed to delete {many}, and the API server refuses: {error} Its budget still keeps it."
        return Blocked("force_refused", text, 300)
    intents.resolve(intent, intents.DONE, f"Deleted with their own grace periods; agreed by {said.text}.", ctx.now)
    ctx.remember(deleted_by_force=[*ctx.step.memo.get("deleted_by_force", []), *deleted])
    text = f"{named(deleted)} deleted with their own grace periods past a budget; agreed by {said.text}."
    return Wait(ctx.timing.poll, text)


def _refused(
    ctx: Context,
    kept: evicting.Kept,
    refused: Sequence[tuple[PodSeen, PortError]],
    rounds: int,
    said: forcing.Agreement,
) -> Outcome:
    """Every pod that a budget keeps is named with it, also those for which it was not asked again in this round."""
    budgets: dict[str, list[str]] = {}
    for key, budget in kept.values():
        budgets.setdefault(budget, []).append(key)
    asked = max((getattr(error, "retry_after", None) or RETRY) for _, error in refused)
    parts = [evicting.told(budget, keys) for budget, keys in sorted(budgets.items())]
    waits = " Waits for a person's approval to delete them." if said.state == Approval.PENDING else ""
    by_budgets = any(error.code in (budget_line.CODE, evicting.TWO_BUDGETS) for _, error in refused)
    code = budget_line.CODE if by_budgets else refused[0][1].code
    return Blocked(code, f"{'; '.join(parts)}.{waits}", min(max(asked, _patience(rounds)), RETRY_MOST))


def _unclear(doubtful: Sequence[tuple[PodSeen, UnknownOutcome]], rounds: int) -> Blocked:
    """Nothing but answers that say neither yes nor no: it is looked and asked again, less and less often."""
    pods, error = named(sorted(pod.key for pod, _ in doubtful)), doubtful[0][1]
    return Blocked(error.code, f"No clear answer to the eviction of {pods}: {error}", _patience(rounds))


def _patience(rounds: int) -> float:
    return min(RETRY * GROWS ** min(max(rounds - 1, 0), 6), RETRY_MOST)


def _await_end(ctx: Context, pods: Sequence[PodSeen]) -> Outcome:
    """Everything is ending. Wait for the slowest grace period and the margin, then go on and name what is stuck."""
    since = [pod.deleting_since for pod in pods if pod.deleting_since is not None]
    margin = ctx.timing.drain_margin
    ends = [at + timedelta(seconds=pod.grace_seconds + margin) for at, pod in zip(since, pods, strict=True)]
    left = (max(ends) - ctx.now).total_seconds() + seen_time.lost(ctx.step, min(since).timestamp())
    if left > 0:
        taken = ctx.since(max(since))
        many = f"{len(pods)} {'pod is' if len(pods) == 1 else 'pods are'} ending"
        text = f"Draining, not drained: {many} ({named([pod.key for pod in pods])})."
        seconds = max(ctx.timing.poll, min(max(taken / 2, LOOK_LEAST), LOOK_MOST, left))
        return Wait(seconds, text + drain_told.others(ctx))
    stuck = [
        f"{pod.key} ({'finalizer ' + ', '.join(pod.finalizers) if pod.finalizers else 'does not end'})" for pod in pods
    ]
    return _drained(ctx, f"Stuck beyond grace and margin, and left behind: {named(stuck)}.")


def _drained(ctx: Context, text: str) -> Outcome:
    text += drain_told.others(ctx) + stopping.told(ctx)
    gangs_joined.touch(ctx, [*ctx.step.memo.get("gangs", []), *ctx.step.memo.get("workloads", [])])
    if ctx.lifecycle.state == NodeState.HELD:
        move(ctx, NodeState.DRAINING)
    return Done(text, state=NodeState.DRAINED)
