"""One round of evictions of one node: whom, in which order, how many side by side, and what each answer means.

Decides by the answers alone: accepted, refused by a budget, gone, in doubt, or the server asks to wait. Refuses to ask
a budget again in the round in which it said no, to go on while the server throttles or once the kill switch is thrown,
and to delete: what a person forces is deleted by `forced`, by UID and with the pod's own grace period.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

from fleet.lifecycle.context import Context
from fleet.lifecycle.fence import renew
from fleet.policy import selectors as policy
from fleet.policy.rules import Decision
from fleet.ports.cluster import ClusterActor, PodSeen
from fleet.ports.errors import EvictionBlocked, NotFound, PermanentError, PortError, TemporaryError, UnknownOutcome

THREADS = 32
"""Of one process, for all its drains: as many as the connections that it keeps to an API server."""
TWO_BUDGETS = "pdb_many"

Kept = dict[str, list[str]]
"""uid -> [key, budget] of pods that a budget keeps, as a step remembers them."""


@dataclass(slots=True)
class Round:
    accepted: list[PodSeen] = field(default_factory=list)
    refused: list[tuple[PodSeen, PortError]] = field(default_factory=list)
    gone: list[PodSeen] = field(default_factory=list)
    doubtful: list[PodSeen] = field(default_factory=list)  # the next look tells whether they are going
    throttled: TemporaryError | None = None
    halted: Decision | None = None  # the kill switch or the breaker, thrown in the middle of the round
    failed: PortError | None = None  # nothing of this kind can succeed until a person mends it


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="evict")


def order(pods: Iterable[PodSeen], kept: Mapping[str, object]) -> list[PodSeen]:
    """What no budget has kept so far comes first; then gangs, member by member: a broken gang only burns time."""
    return sorted(pods, key=lambda pod: (pod.uid in kept, not pod.gang, pod.gang, pod.key))


def evict(ctx: Context, pods: Sequence[PodSeen], kept: Kept) -> Round:
    """Evict `pods` in this order. Raises Stale when the workflow is somebody else's by now."""
    found = Round()
    closed: set[str] = set()
    for number, chunk in enumerate(_chunks(pods, max(1, ctx.timing.evictions_at_once))):
        if number:
            renew(ctx.workflow, ctx.now)
            found.halted = policy.halt(ctx.workflow.cluster_id, ctx.now)
            if found.halted is not None:
                break
        ready = [pod for pod in chunk if not (pod.uid in kept and kept[pod.uid][1] in closed)]
        for pod, error in _answers(ctx.ports.actor, ready):
            _sort(found, pod, error)
        closed = {budget_of(error) for _, error in found.refused} - {""}
        if found.throttled or found.failed:
            break
    return found


def _chunks(pods: Sequence[PodSeen], size: int) -> Iterator[Sequence[PodSeen]]:
    return (pods[start : start + size] for start in range(0, len(pods), size))


def _answers(actor: ClusterActor, pods: Sequence[PodSeen]) -> Iterable[tuple[PodSeen, PortError | None]]:
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
        case PermanentError() if error.code == TWO_BUDGETS:
            found.refused.append((pod, error))
        case NotFound():
            found.gone.append(pod)
        case UnknownOutcome():
            found.doubtful.append(pod)
        case TemporaryError():
            found.throttled = error
        case _:
            found.failed = error


def budget_of(error: PortError) -> str:
    return error.budget if isinstance(error, EvictionBlocked) else ""


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
