"""What the API server would not store.

It decides the refusals that clients run into most: names, labels, taints, and the shape of Job templates. It refuses
to be a full schema check; what is not checked here is stored as it comes.
"""

import re
from typing import Any

from fleet.simulator.kube.errors import ApiError, invalid
from fleet.simulator.kube.kinds import Kind

Json = dict[str, Any]
Cause = tuple[str, str, str]

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?$")
_VALUE = re.compile(r"^([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?$")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check(kind: Kind, obj: Json, before: Json | None = None) -> None:
    causes = list(_metadata(obj["metadata"]))
    if kind.plural == "nodes":
        causes += _taints((obj.get("spec") or {}).get("taints") or [])
    if kind.plural == "jobs":
        causes += _job(obj.get("spec") or {}, before)
    if kind.plural == "pods" and before is None:
        causes += _containers("spec", obj.get("spec") or {})
    if causes:
        raise invalid(kind, obj["metadata"].get("name", ""), causes)


def body_matches(kind: Kind, obj: Any, namespace: str, name: str) -> ApiError | None:
    """The mismatches between body and URL, which are bad requests and not invalid objects."""
    if not isinstance(obj, dict):
        return ApiError(400, "BadRequest", "the object provided is unrecognized: couldn't get version/kind")
    if obj.get("kind") and obj["kind"] != kind.kind:
        text = f"{obj['kind']} in version {obj.get('apiVersion')!r} cannot be handled as a {kind.kind}"
        return ApiError(400, "BadRequest", text)
    meta = obj.get("metadata") or {}
    if namespace and meta.get("namespace") not in (None, "", namespace):
        text = "the namespace of the provided object does not match the namespace sent on the request"
        return ApiError(400, "BadRequest", text)
    if name and meta.get("name") not in (None, "", name):
        text = f"the name of the object ({meta.get('name')}) does not match the name on the URL ({name})"
        return ApiError(400, "BadRequest", text)
    return None


def _metadata(meta: Json) -> list[Cause]:
    causes: list[Cause] = []
    if not meta.get("name"):
        causes.append(("metadata.name", "FieldValueRequired", "Required value: name or generateName is required"))
    elif not _NAME.match(meta["name"]):
        text = f'Invalid value: "{meta["name"]}": a lowercase RFC 1123 subdomain is expected'
        causes.append(("metadata.name", "FieldValueInvalid", text))
    for key, value in (meta.get("labels") or {}).items():
        if not _KEY.match(key):
            causes.append(("metadata.labels", "FieldValueInvalid", f'Invalid value: "{key}": not a qualified name'))
        if not isinstance(value, str) or not _VALUE.match(value):
            causes.append(("metadata.labels", "FieldValueInvalid", f'Invalid value: "{value}": not a label value'))
    for key in meta.get("annotations") or {}:
        if not _KEY.match(key):
            text = f'Invalid value: "{key}": not a qualified name'
            causes.append(("metadata.annotations", "FieldValueInvalid", text))
    return causes


def _taints(taints: list[Json]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"spec.taints[{index}]"
        if taint.get("effect") not in _EFFECTS:
            text = f'Unsupported value: "{taint.get("effect", "")}"'
            causes.append((f"{where}.effect", "FieldValueNotSupported", text))
        identity = (taint.get("key", ""), taint.get("effect", ""))
        if identity in seen:
            text = f'Duplicate value: "{identity[0]}:{identity[1]}"'
            causes.append((where, "FieldValueDuplicate", text))
        seen.add(identity)
    return causes


def _job(spec: Json, before: Json | None) -> list[Cause]:
    template = spec.get("template") or {}
    if before is not None:
        if template != ((before.get("spec") or {}).get("template") or {}):
            return [("spec.template", "FieldValueInvalid", "Invalid value: field is immutable")]
        return []
    pod = template.get("spec") or {}
    causes = _containers("spec.template.spec", pod)
    if pod.get("restartPolicy") not in ("OnFailure", "Never"):
        text = 'Required value: valid values: "OnFailure", "Never"'
        causes.append(("spec.template.spec.restartPolicy", "FieldValueRequired", text))
    return causes


def _containers(where: str, pod: Json) -> list[Cause]:
    if not pod.get("containers"):
        return [(f"{where}.containers", "FieldValueRequired", "Required value")]
    causes: list[Cause] = []
    for index, container in enumerate(pod["containers"]):
        for field in ("name", "image"):
            if not container.get(field):
                causes.append((f"{where}.containers[{index}].{field}", "FieldValueRequired", "Required value"))
    return causes
