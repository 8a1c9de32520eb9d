"""A RayCluster, RayJob or RayService from a file, before it is submitted.

Decides which documents are such manifests and what of their shape KubeRay or the API server would refuse: the readers
of live objects forgive what cannot be there. Refuses to look at what the operator fills in, and at the pods' own
templates, which the API server checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fleet.adapters.kubernetes.schedulers import rayrefused
from fleet.adapters.kubernetes.schedulers.objects import ref_of
from fleet.adapters.kubernetes.schedulers.ray import GROUP, VERSIONS, ray_cluster, ray_job, ray_service
from fleet.ports.manifests import Manifest, Mistake, Path

_COUNTS = {"replicas": 0, "minReplicas": 0, "maxReplicas": 0, "numOfHosts": 1}  # field -> the least it may be
_READERS = {
    "RayCluster": (ray_cluster, ("spec",)),
    "RayJob": (ray_job, ("spec", "rayClusterSpec")),
    "RayService": (ray_service, ("spec", "rayClusterConfig")),
}


def read(document: Any) -> Manifest | None:
    """None for what is no RayCluster, RayJob or RayService."""
    if not isinstance(document, Mapping):
        return None
    kind, (group, _, version) = document.get("kind"), str(document.get("apiVersion", "")).partition("/")
    if not isinstance(kind, str) or kind not in _READERS or group != GROUP:
        return None
    decode, spec_at = _READERS[kind]
    mistakes = [*_of_meta(document, version), *_of_spec(document, kind, spec_at)]
    objects = decode(document).objects
    key = _key(kind, document)
    return Manifest(key, objects[0] if objects else None, spec_at, tuple(mistakes))


def _key(kind: str, document: Mapping[str, Any]) -> str:
    """By the name, or by what the API server will make one of."""
    ref, meta = ref_of("ray", kind, document), document.get("metadata")
    made_of = meta.get("generateName") if isinstance(meta, Mapping) else None
    return replace(ref, name=f"{made_of}*").key if not ref.name and _name(made_of) else ref.key


def _of_meta(document: Mapping[str, Any], version: str) -> Iterator[Mistake]:
    if version not in VERSIONS:
        yield Mistake(("apiVersion",), f"{GROUP} has no version {version!r}; there are {', '.join(VERSIONS)}.")
    meta = document.get("metadata")
    if not isinstance(meta, Mapping) or not (_name(meta.get("name")) or _name(meta.get("generateName"))):
        yield Mistake(("metadata",), "metadata must have a name or a generateName.")


def _name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _of_spec(document: Mapping[str, Any], kind: str, spec_at: Path) -> Iterator[Mistake]:
    spec: Any = document.get("spec")
    if kind == "RayJob" and isinstance(spec, Mapping):
        yield from rayrefused.of_job(dict(spec))
        if spec.get("clusterSelector") and "rayClusterSpec" not in spec:
            return  # it runs on a cluster that is there
        spec = spec.get("rayClusterSpec")
    elif kind == "RayService" and isinstance(spec, Mapping):
        spec = spec.get("rayClusterConfig")
    if not isinstance(spec, Mapping):
        yield Mistake(spec_at, f"{_told(spec_at)} must be a mapping.")
        return
    if not isinstance(spec.get("headGroupSpec"), Mapping):
        yield Mistake((*spec_at, "headGroupSpec"), "headGroupSpec must be a mapping.")
    groups = spec.get("workerGroupSpecs")
    place = (*spec_at, "workerGroupSpecs")
    if groups is None:
        groups = []
    if not isinstance(groups, list):
        yield Mistake(place, "workerGroupSpecs must be a list.")
        return
    for n, group in enumerate(groups):
        yield from _of_group(group, (*place, n))
    names = Counter(
        group["groupName"] for group in groups if isinstance(group, Mapping) and _name(group.get("groupName"))
    )
    for name in (name for name, count in names.items() if count > 1):
        yield Mistake(place, f"The group name {name!r} is there more than once.")
    yield from rayrefused.of_cluster(dict(document), dict(spec), spec_at)


def _of_group(group: Any, place: Path) -> Iterator[Mistake]:
    if not isinstance(group, Mapping):
        yield Mistake(place, "A worker group must be a mapping.")
        return
    if not _name(group.get("groupName")):
        yield Mistake((*place, "groupName"), "A worker group must have a groupName.")
    if not isinstance(group.get("template"), Mapping):
        yield Mistake((*place, "template"), "A worker group must have a template of its pods.")
    counts: dict[str, int] = {}
    for field, least in _COUNTS.items():
        value = group.get(field)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            yield Mistake((*place, field), f"{field} must be a whole number, {least} at least; it is {value!r}.")
        else:
            counts[field] = value
    most = counts.get("maxReplicas")
    for field in ("minReplicas", "replicas"):
        if most is not None and counts.get(field, 0) > most:
            yield Mistake((*place, field), f"{field} is {counts[field]}, above maxReplicas {most}.")


def _told(path: Path) -> str:
    return ".".join(str(part) for part in path)
