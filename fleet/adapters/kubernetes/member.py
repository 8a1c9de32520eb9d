"""One pod as a member of a gang.

Decides its state, what it needs, what it names, and what keeps it from starting in its scheduler's or its kubelet's
words. Refuses to say why its gang waits: one pod's message is one voice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleet.adapters.kubernetes.needs import need_of
from fleet.ports.gangs import Member, MemberState, ReasonCode, Said
from fleet.ports.shapes import items, mapping, moment, text, whole

_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
_MANAGED, _GROUPED = "kueue.x-k8s.io/managed", "kueue.x-k8s.io/pod-group-name"
_QUEUES = (
    "kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "runai/queue", "volcano.sh/queue-name",
    "scheduling.volcano.sh/queue-name", "yunikorn.apache.org/queue", "queue",
)  # fmt: skip
_PLACEHOLDER = "yunikorn.apache.org/placeholder"
_PLAIN_WAITING = ("", "ContainerCreating", "PodInitializing")
# A scheduler's words -> what they mean. The first that is found in the message counts; all are literal words of theirs.
_WORDS: tuple[tuple[str, ReasonCode], ...] = (
    ("exceeded quota", "QUOTA"),
    ("Not enough queue quota", "QUOTA"),
    ("Not enough user quota", "QUOTA"),
    ("queue resource quota insufficient", "QUOTA"),
    ("rejected due to ElasticQuota", "QUOTA"),
    ("more than Max", "QUOTA"),
    ("binding rejected", "BIND_FAILED"),
    ("running PreBind plugin", "BIND_FAILED"),
    ("topology", "TOPOLOGY"),
    ("resource gap", "CAPACITY"),
    ("nodes are available", "CAPACITY"),
    ("nodes are unavailable", "CAPACITY"),
    ("have enough resources", "CAPACITY"),
    ("nodes with enough resources", "CAPACITY"),
    ("in gang unschedulable", "CAPACITY"),
    ("cannot find enough sibling pods", "CAPACITY"),
    ("optimistic rejection in PostFilter", "CAPACITY"),
    ("gets rejected due to Pod", "CAPACITY"),
    ("last failed in", "CAPACITY"),
    ("minCount", "CAPACITY"),
)


def member_of(raw: Mapping[str, Any], links: tuple[str, ...], owner: str, role: str) -> Member:
    """`raw` is the whole pod; the names that its other form has too are given."""
    meta, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    labels, notes = mapping(meta.get("labels")), mapping(meta.get("annotations"))
    controller = next((e for e in items(meta.get("ownerReferences")) if e.get("controller") is True), {})
    node = text(spec.get("nodeName"))
    statuses = items(status.get("containerStatuses"))
    total = whole(notes.get(_TOTAL), 0)
    return Member(
        key=f"{text(meta.get('namespace'))}/{text(meta.get('name'))}",
        uid=text(meta.get("uid")),
        node=node,
        state=_state(node, spec, status, statuses),
        need=need_of(spec),
        links=links,
        owner=owner,
        owner_uid=text(controller.get("uid")),
        role=role,
        queue=next((text(labels.get(key) or notes.get(key)) for key in _QUEUES if key in labels or key in notes), ""),
        priority=whole(spec.get("priority"), 0),
        created_at=moment(meta.get("creationTimestamp")),
        waits=None if node else _gated(spec) or _waits(status),
        stuck=_stuck(statuses, items(status.get("initContainerStatuses"))) if node else "",
        ending=bool(meta.get("deletionTimestamp")),
        total=total if total > 0 else None,
        alone=labels.get(_MANAGED) == "true" and _GROUPED not in labels,
        done=_done(meta, status),
        init=_init(spec, status) if node else "",
        placeholder=text(notes.get(_PLACEHOLDER)).lower() == "true",
        sick_device=_sick_device(statuses),
    )


def _state(
    node: str, spec: Mapping[str, Any], status: Mapping[str, Any], statuses: Sequence[Mapping[str, Any]]
) -> MemberState:
    phase = text(status.get("phase"))
    if phase in ("Succeeded", "Failed"):
        return "ended"
    if not node:
        return "gated" if items(spec.get("schedulingGates")) else "pending"
    if phase != "Running":
        return "placed"
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in items(status.get("conditions")))
    if ready:
        return "ready"
    return "placed" if _computes_nothing(spec, statuses) else "running"


def _done(meta: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """One that is evicted may end with no error, too: another comes in its place."""
    told = {text(one.get("type")) for one in items(status.get("conditions")) if one.get("status") == "True"}
    taken = "DisruptionTarget" in told or bool(meta.get("deletionTimestamp"))
    return text(status.get("phase")) == "Succeeded" and not taken


def _init(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Its name; sidecars run along and hold nothing up."""
    inits = items(spec.get("initContainers"))
    sidecars = {text(one.get("name")) for one in inits if one.get("restartPolicy") == "Always"}
    running = (one for one in items(status.get("initContainerStatuses")) if "running" in mapping(one.get("state")))
    names = (text(one.get("name")) for one in running)
    return next((name for name in names if name not in sidecars), "")


def _computes_nothing(spec: Mapping[str, Any], statuses: Sequence[Mapping[str, Any]]) -> bool:
    """All containers that ask for devices (all, where none does) wait: for their next try after a crash, for an image.
    The phase of such a pod may be Running: it tells that one of them once ran, or that a sidecar does."""
    containers = items(spec.get("containers"))
    using = {text(one.get("name")) for one in containers if need_of({"containers": [one]}).gpus}
    told = [one for one in statuses if not using or text(one.get("name")) in using]
    return bool(told) and all(mapping(mapping(one.get("state")).get("waiting")) for one in told)


def _gated(spec: Mapping[str, Any]) -> Said | None:
    """Gates are opened by others than the scheduler: of a pod that nobody else holds back, they are the reason."""
    gates = sorted(filter(None, (text(gate.get("name")) for gate in items(spec.get("schedulingGates")))))
    if not gates:
        return None
    return Said(
        "ADMISSION_CHECK", f"Held by the scheduling gates {', '.join(gates)}.", None, "Pod spec.schedulingGates"
    )


def _waits(status: Mapping[str, Any]) -> Said | None:
    scheduled = next((c for c in items(status.get("conditions")) if c.get("type") == "PodScheduled"), None)
    if scheduled is None or scheduled.get("status") == "True":
        return None
    words, reason = text(scheduled.get("message")), text(scheduled.get("reason"))
    if reason == "SchedulingGated":
        return None  # who gates it says why
    return Said(
        meaning_of(words), words, moment(scheduled.get("lastTransitionTime")), f"Pod condition PodScheduled: {reason}"
    )


def meaning_of(words: str) -> ReasonCode:
    """What a scheduler's message about a pod or a group means; UNKNOWN where none of its known words are in it."""
    return next((code for word, code in _WORDS if word.lower() in words.lower()), "UNKNOWN")


def _stuck(statuses: Sequence[Mapping[str, Any]], inits: Sequence[Mapping[str, Any]]) -> str:
    """Why a container of a bound pod does not start; "" while that is only a matter of time."""
    for prefix, group in (("Init:", inits), ("", statuses)):
        for one in group:
            waiting = mapping(mapping(one.get("state")).get("waiting"))
            reason = text(waiting.get("reason"))
            if reason not in _PLAIN_WAITING:
                words = text(waiting.get("message"))
                return f"{prefix}{reason}: {words}" if words else f"{prefix}{reason}"
    return ""


def _sick_device(statuses: Sequence[Mapping[str, Any]]) -> str:
    """What the kubelet says of the devices it gave to the pod (KEP-4680)."""
    for one in statuses:
        for resource in items(one.get("allocatedResourcesStatus")):
            for device in items(resource.get("resources")):
                if device.get("health") == "Unhealthy":
                    return f"{text(resource.get('name'))} {text(device.get('resourceID'))}"
    return ""
