"""One round of evictions of one node: whom, in which order, how many side by side, and what each answer means.

Decides by the answers alone: accepted, refused by a budget or by what else concerns this pod alone (its namespace ends,
admission keeps it), gone, in doubt, or the server asks to wait. Of pods that one budget covers, a single one asks
first, and the others only after it was accepted: half a fleet that drains at once would drown the API server in
refusals. Refuses to ask a budget again in the round in which it said no, to go on while the server throttles or once
the kill switch is thrown, and to delete: what a person forces is deleted by `forced`, by UID and with the pod's own
grace period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

from fleet.lifecycle.context import Context
from fleet.lifecycle.fence import renew
from fleet.lifecycle.gangs_joined import named
from fleet.lifecycle.grants import REASK
from fleet.lifecycle.outcomes import Blocked, Wait
from fleet.policy import selectors as policy
from fleet.policy.rules import Decision
from fleet.ports.cluster import ClusterActor, PodSeen
from fleet.ports.errors import EvictionBlocked, NotFound, PermanentError, PortError, TemporaryError, UnknownOutcome

THREADS = 32
"""Of one process, for all its drains: as many as the connections that it keeps to an API server."""
TWO_BUDGETS = "pdb_many"
ITS_OWN = (TWO_BUDGETS, "namespace_terminating", "eviction_denied", "conflict")
"""Codes of failures that say nothing about the other pods of the node: one of them must not keep those in place."""

Kept = dict[str, list[str]]
"""uid -> [key, budget, or a sentence where none keeps it] of pods that cannot go yet, as a step remembers them."""


@dataclass(slots=True)
class Round:
    accepted: list[PodSeen] = field(default_factory=list)
    refused: list[tuple[PodSeen, PortError]] = field(default_factory=list)
    spared: list[tuple[PodSeen, EvictionBlocked]] = field(default_factory=list)  # not asked: a twin was refused
    gone: list[PodSeen] = field(default_factory=list)
    doubtful: list[tuple[PodSeen, UnknownOutcome]] = field(default_factory=list)  # the next look tells of them
    throttled: TemporaryError | None = None
    halted: Decision | None = None  # the kill switch or the breaker, thrown in the middle of the round
    failed: PortError | None = None  # nothing of this kind can succeed until a person mends it

    @property
    def asked(self) -> bool:
        return bool(self.accepted or self.refused or self.gone or self.doubtful)

    def broken_off(self, retry: float) -> Blocked | Wait | None:
        """What becomes of the step when the round did not come to its end. Raises what only a person can mend."""
        if self.failed:
            raise self.failed
        if self.halted:
            return Blocked(self.halted.code, self.halted.text, REASK.total_seconds(), self.halted.until)
        if self.throttled:
            return Wait(self.throttled.retry_after or retry, f"The API server asks to wait: {self.throttled}")
        return None


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="evict")


def order(pods: Iterable[PodSeen], kept: Mapping[str, object], round_: int = 0) -> list[PodSeen]:
    """What no budget has kept so far comes first; then gangs, member by member: a broken gang only burns time.

    Who asks first of those that budgets keep changes from round to round: a budget may come to cover only some of them.
    """
    turn = sorted(pods, key=lambda pod: (pod.uid in kept, not pod.gang, pod.gang, pod.key))
    free, held = [pod for pod in turn if pod.uid not in kept], [pod for pod in turn if pod.uid in kept]
    first = round_ % len(held) if held else 0
    return free + held[first:] + held[:first]


def evict(ctx: Context, pods: Sequence[PodSeen], kept: Kept) -> Round:
    """Evict `pods` in this order. Raises Stale when the workflow is somebody else's by now."""
    found = Round()
    left, twins = list(pods), _Twins(kept)
    while chunk := twins.next_of(left, max(1, ctx.timing.evictions_at_once)):
        renew(ctx.workflow, ctx.now)  # before the first round too: this worker may have stood still since its intent
        if found.asked:
            found.halted = policy.halt(ctx.workflow.cluster_id, ctx.now)
            if found.halted is not None:
                break
        answers = _answers(ctx.ports.actor, chunk)
        for pod, error in answers:
            _sort(found, pod, error)
        if found.throttled or found.failed:
            break
        left = twins.learn(left, answers, found)
    return found


class _Twins:
    """Which pods share a budget: those it kept before, and those that no budget can tell apart, being in one namespace
    with the same labels. A pod without labels is nobody's twin, and one that is not ready may be let go alone."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._open: set[object] = set()

    def _of(self, pod: PodSeen) -> object:
        if not pod.ready:
            return pod.uid
        if pod.uid in self._kept:
            return self._kept[pod.uid][1]
        return (pod.namespace, *sorted(pod.labels.items())) if pod.labels else pod.uid

    def next_of(self, left: Sequence[PodSeen], most: int) -> list[PodSeen]:
        """The next to ask, in their order: of twins none of which has been accepted in this round only the first."""
        chosen: list[PodSeen] = []
        asking: set[object] = set()
        for pod in left:
            group = self._of(pod)
            if group in self._open or group not in asking:
                asking.add(group)
                chosen.append(pod)
            if len(chosen) == most:
                break
        return chosen

    def learn(
        self, left: Sequence[PodSeen], answers: Sequence[tuple[PodSeen, PortError | None]], found: Round
    ) -> list[PodSeen]:
        """Who is still to be asked. Twins of a pod that a budget keeps are kept by it, and are not asked."""
        asked = {pod.uid for pod, _ in answers}
        self._open |= {self._of(pod) for pod, error in answers if error is None}
        closed = {self._of(pod): error for pod, error in answers if isinstance(error, EvictionBlocked)}
        others = [pod for pod in left if pod.uid not in asked]
        found.spared += [(pod, closed[self._of(pod)]) for pod in others if self._of(pod) in closed]
        return [pod for pod in others if self._of(pod) not in closed]


def _answers(actor: ClusterActor, pods: Sequence[PodSeen]) -> list[tuple[PodSeen, PortError | None]]:
    if len(pods) <= 1:
        return [_try(actor, pod) for pod in pods]
    return list(_pool().map(lambda pod: _try(actor, pod), pods))


def _try(actor: ClusterActor, pod: PodSeen) -> tuple[PodSeen, PortError | None]:
    try:
        actor.evict(pod)
    except PortError as error:
        return pod, error
    return pod, None


def _sort(found: Round, pod: PodSeen, error: PortError | None) -> None:
    match error:
        case None:
            found.accepted.append(pod)
        case EvictionBlocked():
            found.refused.append((pod, error))
        case PermanentError() | TemporaryError() if error.code in ITS_OWN:
            found.refused.append((pod, error))
        case NotFound():
            found.gone.append(pod)
        case UnknownOutcome():
            found.doubtful.append((pod, error))
        case TemporaryError():
            found.throttled = error
        case _:
            found.failed = error


def why(error: PortError) -> str:
    """The budget that keeps a pod, else the sentence of what does."""
    return error.budget if isinstance(error, EvictionBlocked) and error.budget else str(error)[:200]


def told(why: str, keys: Sequence[str]) -> str:
    """What keeps these pods, without the full stop."""
    sentence = " " in why
    return f"{named(sorted(keys))} stays: {why.rstrip('.')}" if sentence else f"PDB {why} keeps {named(sorted(keys))}"


def forced(ctx: Context, pods: Iterable[PodSeen]) -> list[PodSeen]:
    """Delete what people agreed to. One that is gone already, or whose answer is lost, is seen at the next look."""
    deleted = []
    for pod in pods:
        try:
            ctx.ports.actor.delete(pod)
        except NotFound:
            continue
        except UnknownOutcome:
            pass
        deleted.append(pod)
    return deleted
