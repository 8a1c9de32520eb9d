"""Raw Node, Pod and Event objects in the port's normal form.

Decides how Kubernetes fields map to NodeSeen, PodSeen and EventSeen. Refuses objects without a name and nothing else:
whatever else is odd or missing reads as empty.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fleet.adapters.kubernetes.gang import links_of
from fleet.adapters.kubernetes.gangrole import role_of
from fleet.adapters.kubernetes.member import member_of
from fleet.adapters.kubernetes.needs import GPU_RESOURCES, amounts
from fleet.adapters.kubernetes.slinky import states_of
from fleet.ports.cluster import EventSeen, NodeSeen, PodKind, PodSeen
from fleet.ports.devices import DEVICE
from fleet.ports.shapes import items, mapping, moment, strings, text, texts, whole

_MIRROR = "kubernetes.io/config.mirror"
_BULKY = "kubectl.kubernetes.io/last-applied-configuration"


class Undecodable(ValueError):
    """The object has no name: it cannot be kept, only counted."""


def node_key(raw: Any) -> str:
    return text(mapping(mapping(raw).get("metadata")).get("name"))


def pod_key(raw: Any) -> str:
    meta = mapping(mapping(raw).get("metadata"))
    name = text(meta.get("name"))
    return f"{text(meta.get('namespace'))}/{name}" if name else ""


def version_of(raw: Any) -> str:
    return text(mapping(mapping(raw).get("metadata")).get("resourceVersion"))


def node(raw: Any) -> NodeSeen:
    meta, spec, status = (mapping(mapping(raw).get(part)) for part in ("metadata", "spec", "status"))
    name = text(meta.get("name"))
    if not name:
        raise Undecodable("a node without a name")
    info = mapping(status.get("nodeInfo"))
    conditions = {text(e.get("type")): e for e in items(status.get("conditions")) if text(e.get("type"))}
    ready = conditions.get("Ready", {})
    return NodeSeen(
        name=name,
        uid=text(meta.get("uid")),
        resource_version=text(meta.get("resourceVersion")),
        unschedulable=spec.get("unschedulable") is True,
        ready={"True": True, "False": False}.get(text(ready.get("status"))),
        ready_reason=text(ready.get("reason")),
        ready_since=moment(ready.get("lastTransitionTime")),
        heartbeat_at=moment(ready.get("lastHeartbeatTime")),
        boot_id=text(info.get("bootID")),
        machine_id=text(info.get("machineID")),
        system_uuid=text(info.get("systemUUID")),
        provider_id=text(spec.get("providerID")),
        kernel=text(info.get("kernelVersion")),
        os_image=text(info.get("osImage")),
        kubelet=text(info.get("kubeletVersion")),
        addresses=tuple((text(e.get("type")), text(e.get("address"))) for e in items(status.get("addresses"))),
        labels=texts(meta.get("labels")),
        annotations=_annotations(meta),
        taints=tuple(_three(e, "key", "value", "effect") for e in items(spec.get("taints"))),
        conditions={kind: _three(e, "status", "reason", "message") for kind, e in conditions.items()},
        gpu_capacity=_advertised(mapping(status.get("capacity"))),
        gpu_allocatable=_advertised(mapping(status.get("allocatable"))),
        created_at=moment(meta.get("creationTimestamp")),
        deleting=bool(meta.get("deletionTimestamp")),
        **_room(mapping(status.get("allocatable"))),
    )


def pod(raw: Any) -> PodSeen:
    meta, spec, status = (mapping(mapping(raw).get(part)) for part in ("metadata", "spec", "status"))
    name, namespace = text(meta.get("name")), text(meta.get("namespace"))
    if not name:
        raise Undecodable("a pod without a name")
    labels, annotations = texts(meta.get("labels")), _annotations(meta)
    containers = items(spec.get("containers"))
    owner = next((e for e in items(meta.get("ownerReferences")) if e.get("controller") is True), {})
    grace = whole(meta.get("deletionGracePeriodSeconds"), whole(spec.get("terminationGracePeriodSeconds"), 30))
    due = moment(meta.get("deletionTimestamp"))
    told = {text(e.get("type")): e for e in items(status.get("conditions")) if e.get("status") == "True"}
    links, role = links_of(namespace, labels, annotations, spec), role_of(labels, annotations)
    made_by = f"{text(owner.get('kind'))}/{text(owner.get('name'))}" if owner else ""
    started, limit = moment(status.get("startTime")), whole(spec.get("activeDeadlineSeconds"), 0)
    return PodSeen(
        namespace=namespace,
        name=name,
        uid=text(meta.get("uid")),
        node=text(spec.get("nodeName")),
        phase=text(status.get("phase")) or "Unknown",
        ready="Ready" in told,
        kind=_kind(owner, annotations),
        owner=made_by,
        gang=f"{namespace}/{links[0].rsplit('/', 1)[-1]}" if links else "",
        role=role,
        gpus=sum(_requested(container) for container in containers),
        grace_seconds=max(0, grace),
        # deletionTimestamp is when the grace period ends, not when the deletion was asked for.
        deleting_since=due - timedelta(seconds=min(max(0, grace), 10**8)) if due else None,
        finalizers=strings(meta.get("finalizers")),
        local_data=any("emptyDir" in volume for volume in items(spec.get("volumes"))),
        labels=labels,
        annotations=annotations,
        pod_ip=text(status.get("podIP")),
        ports=tuple(
            whole(port.get("containerPort"), 0) for container in containers for port in items(container.get("ports"))
        ),
        resource_version=text(meta.get("resourceVersion")),
        started_at=started,
        ends_at=started + timedelta(seconds=min(limit, 10**8)) if started and limit > 0 else None,
        disruption=text(told.get("DisruptionTarget", {}).get("reason")),
        claims=bool(items(spec.get("resourceClaims"))),
        member=member_of(raw, links, made_by, role),
        slurm=states_of(raw),
    )


def event(raw: Any) -> EventSeen:
    meta, about = mapping(mapping(raw).get("metadata")), mapping(mapping(raw).get("involvedObject"))
    seen = mapping(raw)
    moments = (
        moment(mapping(seen.get("series")).get("lastObservedTime")),
        moment(seen.get("lastTimestamp")),
        moment(seen.get("eventTime")),
        moment(seen.get("firstTimestamp")),
        moment(meta.get("creationTimestamp")),
    )
    return EventSeen(
        namespace=text(meta.get("namespace")),
        kind=text(about.get("kind")),
        name=text(about.get("name")),
        reason=text(seen.get("reason")),
        message=text(seen.get("message")) or text(seen.get("note")),
        type=text(seen.get("type")),
        at=next((found for found in moments if found), None),
    )


def _three(entry: dict[str, Any], first: str, second: str, third: str) -> tuple[str, str, str]:
    return text(entry.get(first)), text(entry.get(second)), text(entry.get(third))


def _annotations(meta: dict[str, Any]) -> dict[str, str]:
    annotations = texts(meta.get("annotations"))
    annotations.pop(_BULKY, None)
    return annotations


def _kind(owner: dict[str, Any], annotations: dict[str, str]) -> PodKind:
    if _MIRROR in annotations or owner.get("kind") == "Node":
        return "mirror"
    if owner.get("kind") == "DaemonSet":
        return "daemonset"
    return "workload" if owner else "bare"


def _advertised(resources: dict[str, Any]) -> int | None:
    """GPUs a node tells of; None when it does not know the resource, which differs from having none left."""
    found = [whole(resources[key], 0) for key in GPU_RESOURCES if key in resources]
    return sum(found) if found else None


def _room(allocatable: dict[str, Any]) -> dict[str, Any]:
    """Devices, CPU and memory that pods may ask of it."""
    told = amounts(allocatable)
    return {
        "allocatable": tuple(sorted((name, count) for name, count in told.items() if DEVICE.match(name))),
        "cpu_millis": told["cpu"] if "cpu" in allocatable else None,
        "memory_mib": told["memory"] // 2**20 if "memory" in allocatable else None,
    }


def _requested(container: dict[str, Any]) -> int:
    resources = mapping(container.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    return sum(max(0, whole(limits.get(key, requests.get(key)), 0)) for key in GPU_RESOURCES)
