"""The spec of a Ray cluster, in a RayCluster, a RayJob, a RayService or a manifest that is not submitted yet.

Decides what each group is: its bounds, what its containers may use and what Ray is told that it has. KubeRay fills in
Ray's number of GPUs from the first container's limit only where nobody set it, so both are kept. Refuses to check.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.adapters.kubernetes.needs import amounts, is_quantity, need_of, quantity
from fleet.adapters.kubernetes.schedulers.objects import Raw, number, times
from fleet.ports.devices import DEVICE
from fleet.ports.gangs import Part
from fleet.ports.ray import NO_LIMIT, RayFacts, RayGroup, RayRetention
from fleet.ports.shapes import MOST, items, mapping, strings, text, texts

RECOVERY_ENV = "RAY_gcs_rpc_server_reconnect_timeout_s"
RECOVERY_SECONDS = 600
"""What KubeRay tells workers to wait for their head when the head's store outlives it."""
FT_ANNOTATION = "ray.io/ft-enabled"  # before gcsFaultToleranceOptions
GANG_LABEL = "ray.io/gang-scheduling-enabled"
# Labels that hand the pods to who places or admits them whole, with or without the label above.
WHOLE_LABELS = (GANG_LABEL, "volcano.sh/queue-name", "kai.scheduler/queue", "runai/queue", "kueue.x-k8s.io/queue-name")
SCHEDULER_LABEL, WHOLE_SCHEDULERS = "ray.io/scheduler-name", ("volcano", "kai-scheduler")
MODEL_ANNOTATION = "muster.dev/model-gpus"
"""On a RayCluster or RayJob: the fewest GPUs that hold the model. No API tells it."""
COLLECTOR = "ray-history-collector"
HEAD = "head"
_RAYS = re.compile(r"gpu$|^nvidia\.com/mig-|^gpu\.intel\.com/|^habana\.ai/")
_SPOT = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)


@dataclass(frozen=True, slots=True)
class Groups:
    """`wanted` counts worker pods; `parts` have the head first."""

    wanted: int
    parts: tuple[Part, ...]
    groups: tuple[RayGroup, ...]  # workers, then the head by its name, where the spec has one


def groups_of(spec: Raw) -> Groups:
    head = mapping(spec.get("headGroupSpec"))
    workers = [_group(raw) for raw in items(spec.get("workerGroupSpecs"))]
    parts = [Part(HEAD, 1, need=need_of(_pod(head)))] if head else []
    for raw, group in zip(items(spec.get("workerGroupSpecs")), workers, strict=True):
        wanted = 0 if group.suspended else times(group.replicas, group.hosts)
        most = None if group.maximum >= MOST else times(group.maximum, group.hosts)
        least = times(group.minimum, group.hosts)
        parts.append(Part(group.name.lower(), wanted, least, most, need_of(_pod(raw))))
    one = {"groupName": HEAD, "replicas": 1, "minReplicas": 1, "maxReplicas": 1}
    of_head = (_group({**head, **one}),) if head else ()
    return Groups(sum(part.wanted for part in parts if part.role != HEAD), tuple(parts), (*workers, *of_head))


def facts_of(kind: str, raw: Raw, spec: Raw, groups: Groups) -> RayFacts:
    meta = mapping(raw.get("metadata"))
    options = mapping(spec.get("autoscalerOptions"))
    tolerant = bool(spec.get("gcsFaultToleranceOptions")) or (
        texts(meta.get("annotations")).get(FT_ANNOTATION, "").lower() == "true"
    )
    pods = [_pod(mapping(spec.get("headGroupSpec"))), *(_pod(group) for group in items(spec.get("workerGroupSpecs")))]
    collects = bool(spec.get("historyServerOptions")) or any(
        text(container.get("name")) == COLLECTOR for pod in pods for container in items(pod.get("containers"))
    )
    idle = number(options.get("idleTimeoutSeconds"))
    return RayFacts(
        kind,
        cluster=text(meta.get("name")) if kind == "RayCluster" else "",
        version=text(spec.get("rayVersion")),
        generation=number(meta.get("generation")) or 0,
        autoscaling=spec.get("enableInTreeAutoscaling") is True,
        idle_seconds=60 if idle is None else idle,
        fault_tolerant=tolerant,
        recovery_seconds=_recovery(pods[1:], RECOVERY_SECONDS) if tolerant else 0,
        groups=groups.groups,
        gang_label=_asks_for_gang(mapping(meta.get("labels"))),
        retention=RayRetention(shuts_down=False, ttl_seconds=0, deletion_rules=False, history=collects),
        model_gpus=quantity(texts(meta.get("annotations")).get(MODEL_ANNOTATION)) or None,
    )


def _asks_for_gang(labels: Raw) -> bool:
    return any(label in labels for label in WHOLE_LABELS) or labels.get(SCHEDULER_LABEL) in WHOLE_SCHEDULERS


def _pod(group: Raw) -> dict[str, Any]:
    return mapping(mapping(group.get("template")).get("spec"))


def _group(raw: Raw) -> RayGroup:
    pod = _pod(raw)
    told = (number(raw.get(field)) for field in ("replicas", "minReplicas", "maxReplicas", "numOfHosts"))
    replicas, least, most, hosts = told
    idle = number(raw.get("idleTimeoutSeconds"))
    least, most = max(0, least or 0), NO_LIMIT if most is None or most >= MOST else max(0, most)
    return RayGroup(
        name=text(raw.get("groupName")),
        replicas=min(max(least, replicas or 0), max(least, most)),  # as the operator bounds it
        minimum=least,
        maximum=most,
        hosts=max(1, 1 if hosts is None else hosts),
        gpus_limit=_limit(pod),
        gpus_declared=_declared(raw),
        to_delete=len(strings(mapping(raw.get("scaleStrategy")).get("workersToDelete"))),
        suspended=raw.get("suspend") is True,
        spot=_is_spot(pod),
        idle_seconds=idle,
    )


def _limit(pod: Raw) -> int:
    """GPUs that all containers of the pod may use: the names that KubeRay makes Ray's GPUs of."""
    found = (amounts(mapping(mapping(c.get("resources")).get("limits"))) for c in items(pod.get("containers")))
    return sum(count for one in found for name, count in one.items() if DEVICE.match(name) and _RAYS.search(name))


def _declared(raw: Raw) -> float | None:
    """What Ray is told: the group's `resources`, else the start parameter; None where the operator fills it in, or
    where no number can be read (a shell's variable)."""
    resources = mapping(raw.get("resources"))
    told = resources["GPU"] if "GPU" in resources else mapping(raw.get("rayStartParams")).get("num-gpus")
    if isinstance(told, str):
        told = told.strip(" \"'")  # quotes that were meant for the shell are part of the value
    return quantity(told) if is_quantity(told) else None


def _recovery(pods: list[dict[str, Any]], default: int) -> int:
    """The least that any worker is told: the first to give up ends the work. Who is told nothing has the default."""
    return min((_patience(pod, default) for pod in pods), default=default)


def _patience(pod: Raw, default: int) -> int:
    found = [
        round(quantity(entry.get("value")))
        for container in items(pod.get("containers"))
        for entry in items(container.get("env"))
        if entry.get("name") == RECOVERY_ENV and entry.get("value")
    ]
    return min(found, default=default)


def _is_spot(pod: Mapping[str, Any]) -> bool:
    selector = texts(pod.get("nodeSelector"))
    if any(selector.get(key) == value for key, value in _SPOT):
        return True
    need = need_of(pod)
    return any(
        match.operator == "In" and (match.key, value) in _SPOT
        for term in need.any_of
        for match in term
        for value in match.values
    )
