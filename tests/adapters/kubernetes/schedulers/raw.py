"""Custom resources and pods as an API server hands them out, and what the readers make of them.

`tell` finds the reader by the resource's own group, version and kind, as the watch does; `gang_of` joins and counts
what resources and pods say together. Fixtures are valid under their CRDs; what is odd on purpose goes to `tell` only
through `tests.adapters.kubernetes.schedulers.test_odd`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fleet.adapters.kubernetes import decode
from fleet.adapters.kubernetes.schedulers.objects import Reader
from fleet.adapters.kubernetes.schedulers.watching import READERS
from fleet.gangs.counting import count
from fleet.gangs.diagnosis.reasons import Reason, diagnose
from fleet.gangs.diagnosis.rooms import Room
from fleet.gangs.form import Gang
from fleet.gangs.joining import join
from fleet.ports.gangs import GangObject, Member, QueueObject, Spoken
from tests.unit.gangs.scenes import a_scene

Json = dict[str, Any]
MADE = "2026-11-29T03:00:00Z"


def at(hour: int, minute: int = 0) -> str:
    return f"2026-11-29T{hour:02}:{minute:02}:00Z"


def when(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, 29, hour, minute, tzinfo=UTC)


def resource(
    api: str, kind: str, name: str, spec: Json, status: Json | None = None, *, namespace: str = "train", **meta: Any
) -> Json:
    """`owner`: (kind, name, uid) of what made it."""
    owner = meta.pop("owner", None)
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": MADE, **meta}
    if owner:
        metadata["ownerReferences"] = [_owner(*owner)]
    raw = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}
    return raw if status is None else {**raw, "status": status}


def _owner(kind: str, name: str, uid: str) -> Json:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def condition(kind: str, status: bool, reason: str = "", message: str = "", *, since: str = MADE) -> Json:
    return {
        "type": kind,
        "status": str(status),
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": since,
    }


def pod_spec(gpus: int = 8, **spec: Any) -> Json:
    asked = {"cpu": "8", "memory": "64Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {"containers": [{"name": "main", "image": "trainer:1", "resources": {"limits": asked}}], **spec}


def template(gpus: int = 8, **spec: Any) -> Json:
    return {"spec": pod_spec(gpus, **spec)}


def pod(name: str, node: str = "", *, gpus: int = 8, waits: str = "", status: Json | None = None, **facts: Any) -> Json:
    """Ready when it has a node; `waits` is what its scheduler says of it. `labels`, `annotations`, `owner`; the rest is
    its spec's."""
    meta = {key: facts.pop(key) for key in ("labels", "annotations", "owner", "deletionTimestamp") if key in facts}
    conditions = [condition("Ready", True)] if node else []
    if waits:
        conditions = [condition("PodScheduled", False, "Unschedulable", waits, since=at(4))]
    told = {"phase": "Running" if node else "Pending", "conditions": conditions} if status is None else status
    spec = {**pod_spec(gpus), **facts, **({"nodeName": node} if node else {})}
    return resource("v1", "Pod", name, spec, told, **meta)


def pods(base: str, placed: int, waiting: int = 0, *, first: int = 0, **facts: Any) -> list[Json]:
    """`placed` ready ones on nodes gpu-0, gpu-1, ... and `waiting` without a node."""
    words = facts.pop("waits", "0/8 nodes are available: 8 Insufficient nvidia.com/gpu.")
    there = [pod(f"{base}-{n}", f"gpu-{first + n}", **facts) for n in range(placed)]
    return there + [pod(f"{base}-{placed + n}", waits=words, **facts) for n in range(waiting)]


def reader_of(raw: Json) -> Reader:
    group, _, version = raw["apiVersion"].partition("/")
    (reader,) = (r for r in READERS if (r.group, r.kind) == (group, raw["kind"]) and version in r.versions)
    return reader


def tell(raw: Json) -> Spoken:
    return reader_of(raw).decode(raw)


def said_by(raw: Json) -> GangObject:
    (one,) = tell(raw).objects
    return one


def queue_in(raw: Json) -> QueueObject:
    (one,) = tell(raw).queues
    return one


def member_in(raw: Json) -> Member:
    found = decode.pod(raw).member
    assert found is not None
    return found


def gangs_of(*raws: Json) -> dict[str, Gang]:
    """By key, from resources and pods in any order."""
    objects = [one for raw in raws if raw["kind"] != "Pod" for one in tell(raw).objects]
    members = [member_in(raw) for raw in raws if raw["kind"] == "Pod"]
    return {key: count(joined) for key, joined in join(objects, members).items()}


def gang_of(*raws: Json) -> Gang:
    (gang,) = gangs_of(*raws).values()
    return gang


def why(gang: Gang, *rooms: Room, queue: QueueObject | None = None) -> Reason:
    return diagnose(gang, *a_scene(*rooms), queue)


def words(one: GangObject | Gang) -> list[tuple[str, str]]:
    return [(said.code, said.text) for said in one.said]
