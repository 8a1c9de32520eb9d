"""Ray hears of a drain before its workers are evicted.

Decides whom to tell, how long Ray gets, and what people read where it was not told: the right to run a command in the
head's container is much, so a cluster has to allow it. Best effort: a failure is told and stops no drain. Refuses to
tell twice what was heard, and to wait for Ray where a fault or a person is in a hurry.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from fleet.gangs import asking
from fleet.gangs.questions import Question
from fleet.lifecycle import intents
from fleet.lifecycle.context import Context
from fleet.lifecycle.fence import renew
from fleet.lifecycle.gangs_joined import named
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent
from fleet.lifecycle.outcomes import Wait
from fleet.lifecycle.steps.interrupting import RAY_TYPE, hurried
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import PortError, UnknownOutcome
from fleet.ports.ray import RayDrains

RAY_CLUSTER, VERB = "ray.io/cluster", "ray_drain"
LEASE = timedelta(seconds=40)
"""A command in a container takes longer than the lease of a message."""
TRIES, CLUSTERS = 2, 3
"""After a crash it is told once more, which only moves Ray's deadline; so many clusters of one node are told."""


def workers(pods: Sequence[PodSeen]) -> dict[tuple[str, str], list[PodSeen]]:
    """(namespace, Ray cluster) -> its workers among `pods`."""
    found: dict[tuple[str, str], list[PodSeen]] = {}
    for pod in pods:
        if pod.labels.get(RAY_TYPE) == "worker" and pod.labels.get(RAY_CLUSTER):
            found.setdefault((pod.namespace, pod.labels[RAY_CLUSTER]), []).append(pod)
    return found


def tell(ctx: Context, standing: Sequence[PodSeen]) -> Wait | None:
    """Tell each cluster once, then wait for as long as Ray was promised. None: evict."""
    clusters = workers(standing)
    if not clusters:
        return None
    if "ray" not in ctx.step.memo:
        said, accepted, seconds = _told(ctx, clusters)
        until = (ctx.now + timedelta(seconds=seconds)).timestamp() if accepted and not hurried(ctx) else 0
        ctx.remember(ray=said + _room(ctx), ray_until=until)
    left = float(ctx.step.memo.get("ray_until", 0)) - ctx.now.timestamp()
    if left <= 0:
        return None
    return Wait(min(left, 10.0), f"Ray moves its work away.{ctx.step.memo['ray']}")


def _told(ctx: Context, clusters: dict[tuple[str, str], list[PodSeen]]) -> tuple[str, bool, int]:
    names = named(sorted(f"{namespace}/{name}" for namespace, name in clusters))
    if ctx.ports.ray is None:
        return f" Ray was not told ({names}): its cluster does not allow it.", False, 0
    parts, any_accepted = [], False
    longest = max(pod.grace_seconds for pods in clusters.values() for pod in pods)
    seconds = longest if hurried(ctx) else int(ctx.timing.ray_drain)
    for namespace, name in sorted(clusters)[:CLUSTERS]:
        said, accepted = _one(ctx, ctx.ports.ray, namespace, name, clusters[namespace, name], seconds)
        parts.append(said)
        any_accepted = any_accepted or accepted
    if len(clusters) > CLUSTERS:
        parts.append(f" {len(clusters) - CLUSTERS} more Ray clusters were not told.")
    return "".join(parts), any_accepted, seconds


def _one(
    ctx: Context, ray: RayDrains, namespace: str, name: str, pods: Sequence[PodSeen], seconds: int
) -> tuple[str, bool]:
    target, where = f"{namespace}/{name}", {pod.pod_ip: pod.key for pod in pods if pod.pod_ip}
    tried = Intent.objects.filter(step=ctx.step, verb=VERB, target=target)
    open_ = list(tried.filter(resolved_at=None).values_list("pk", flat=True))
    intents.resolve_all(open_, intents.UNKNOWN, "The process ended before Ray answered.", ctx.now)
    if tried.count() >= TRIES:
        return f" Whether Ray heard of it is not known ({target}).", False
    if not where:
        return f" Ray was not told ({target}): its workers have no address.", False
    state = None if ctx.lifecycle.state == NodeState.DRAINING else NodeState.DRAINING
    intent = intents.begin(
        ctx.workflow, ctx.step, VERB, target, ctx.now, before={"pods": where, "seconds": seconds}, node_state=state
    )
    ctx.lifecycle.state = NodeState.DRAINING
    renew(ctx.workflow, ctx.now, ctx.now + LEASE)
    why = f"Muster {ctx.workflow.label} drains {ctx.node_name}"
    try:
        answers = ray.drain(namespace, name, sorted(where), why, seconds)
    except PortError as error:
        unsure = isinstance(error, UnknownOutcome)
        intents.resolve(intent, intents.UNKNOWN if unsure else intents.FAILED, str(error), ctx.now)
        return f" Ray was {'perhaps ' if unsure else ''}not told ({target}): {str(error).rstrip('.')[:200]}.", False
    finally:
        renew(ctx.workflow, ctx.now)
    refused = {where[ip]: words for ip, words in answers.items() if words and ip in where}
    heard = len(where) - len(refused)
    intents.resolve(intent, intents.DONE if heard else intents.REFUSED, f"{heard} of {len(where)} taken.", ctx.now)
    said = f" Ray was told that {heard} of its nodes {'ends' if heard == 1 else 'end'} in {seconds} s ({target})."
    if refused:
        key, words = sorted(refused.items())[0]
        said = (said if heard else "") + f" Ray did not take {key}: {words.rstrip('.')[:200]}."
    return said, heard > 0


def _room(ctx: Context) -> str:
    """Which gangs will not form again, by the observer's arithmetic. It is told and nothing is decided by it."""
    told = asking.ask(ctx.workflow.cluster_id, [Question("drain", (ctx.node_name,))])
    if told is None or not told.answers or told.answers[0].late:
        return " Whether its workers fit elsewhere is not known: the observer did not answer."
    lost = [one.title for one in told.answers[0].broken if not one.again]
    return f" {named(lost)} cannot form again elsewhere: there is no room for what it loses." if lost else ""
