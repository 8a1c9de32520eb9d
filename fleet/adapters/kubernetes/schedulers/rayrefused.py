"""Pairs of settings that KubeRay's own validation refuses: each is fine by itself, so no schema finds them.

Decides those that every operator with both fields refuses. Refuses rules that only some releases have (names, feature
gates), and what the operator puts right by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.adapters.kubernetes.schedulers.objects import Raw, number
from fleet.adapters.kubernetes.schedulers.rayspec import FT_ANNOTATION
from fleet.ports.manifests import Mistake, Path
from fleet.ports.shapes import items, mapping

_TWICE = ("num-cpus", "num-gpus", "memory", "resources")  # start parameters that say what the field `resources` says


def of_cluster(document: Raw, spec: Raw, place: Path) -> Iterator[Mistake]:
    """`place` leads to the spec of the Ray cluster."""
    annotations = mapping(mapping(document.get("metadata")).get("annotations"))
    if annotations.get(FT_ANNOTATION) and spec.get("gcsFaultToleranceOptions") is not None:
        words = f"gcsFaultToleranceOptions and the annotation {FT_ANNOTATION} exclude each other."
        yield Mistake((*place, "gcsFaultToleranceOptions"), words)
    scales = spec.get("enableInTreeAutoscaling") is True
    groups: list[tuple[Path, dict[str, Any]]] = [((*place, "headGroupSpec"), mapping(spec.get("headGroupSpec")))]
    groups += [((*place, "workerGroupSpecs", n), group) for n, group in enumerate(items(spec.get("workerGroupSpecs")))]
    for at, group in groups:
        params = mapping(group.get("rayStartParams"))
        if mapping(group.get("resources")) and (twice := [name for name in _TWICE if params.get(name)]):
            yield Mistake((*at, "resources"), f"resources and rayStartParams.{twice[0]} exclude each other.")
        if scales and group.get("suspend") is True:
            yield Mistake((*at, "suspend"), "A worker group cannot be suspended with the autoscaler on.")


def of_job(spec: Raw) -> Iterator[Mistake]:
    for field in ("backoffLimit", "ttlSecondsAfterFinished"):
        told = number(spec.get(field))
        if told is not None and told < 0:
            yield Mistake(("spec", field), f"{field} must not be below 0; it is {told}.")
    shuts_down = spec.get("shutdownAfterJobFinishes") is True
    if spec.get("suspend") is True and not shuts_down:
        yield Mistake(("spec", "suspend"), "Only a job with shutdownAfterJobFinishes can be suspended.")
    rules = ("spec", "deletionStrategy", "deletionRules")
    if shuts_down and mapping(spec.get("deletionStrategy")).get("deletionRules"):
        yield Mistake(rules, "shutdownAfterJobFinishes and deletionRules exclude each other.")
