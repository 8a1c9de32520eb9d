"""Kubernetes' own gangs (`scheduling.k8s.io`): Workload in v1alpha1 (1.35), PodGroup from v1alpha2 (1.36) on.

Decides by the fields that are there and not by the version alone, for the shape changed in three releases in a row: the
minimum is `policy.gang.minCount` or `schedulingPolicy.gang.minCount`, the condition is PodGroupScheduled or
PodGroupInitiallyScheduled. A Workload of v1alpha1 has no status and speaks of each of its pod groups.
"""

from __future__ import annotations

from typing import Any

from fleet.adapters.kubernetes.member import meaning_of
from fleet.adapters.kubernetes.schedulers.objects import (
    Raw,
    Reader,
    conditions_of,
    created_at,
    links_in,
    number,
    owners_of,
    ref_of,
    spoken,
    spoken_key,
)
from fleet.ports.gangs import GangObject, Guarantee, ReasonCode, Ref, Said, Spoken
from fleet.ports.shapes import items, mapping, text

GROUP = "scheduling.k8s.io"
_PLACED = ("PodGroupInitiallyScheduled", "PodGroupScheduled")


def workload(raw: Raw) -> Spoken:
    """v1alpha1: one gang for each pod group, named as its pods name it (`workload.group`)."""
    ref = ref_of("native", "Workload", raw)
    groups = items(mapping(raw.get("spec")).get("podGroups"))
    return Spoken(
        spoken_key(ref),
        tuple(
            GangObject(
                Ref("native", "PodGroup", ref.namespace, f"{ref.name}.{text(group.get('name'))}"),
                places=True,
                owners=owners_of(raw),
                created_at=created_at(raw),
                minimum=least,
                guarantee=_guarantee(policy),
            )
            for group in groups
            for policy in [mapping(group.get("policy"))]
            for least in [number(mapping(policy.get("gang")).get("minCount"))]
        ),
    )


def pod_group(raw: Raw) -> Spoken:
    ref, conditions = ref_of("native", "PodGroup", raw), conditions_of(raw)
    policy = mapping(mapping(raw.get("spec")).get("schedulingPolicy"))
    least = number(mapping(policy.get("gang")).get("minCount"))
    placed = next((conditions[name] for name in _PLACED if name in conditions), None)
    disrupted = conditions.get("DisruptionTarget")
    said: list[Said] = []
    if placed is not None and placed.status is False:
        said.append(placed.said(meaning_of(placed.message), f"PodGroup condition: {placed.reason}"))
    if disrupted is not None and disrupted.status:
        code: ReasonCode = "PRIORITY_BEHIND" if disrupted.reason == "PreemptionByScheduler" else "UNKNOWN"
        said.append(disrupted.said(code, f"PodGroup condition DisruptionTarget: {disrupted.reason}"))
    return spoken(
        raw,
        GangObject(
            ref,
            places=True,
            links=links_in(ref, raw),
            waits_since=disrupted.at if disrupted is not None and disrupted.status else None,
            started_at=placed.at if placed is not None and placed.status else None,
            minimum=least,
            said=tuple(said),
            guarantee=_guarantee(policy),
        ),
    )


def _guarantee(policy: dict[str, Any]) -> Guarantee:
    """A group of the basic policy is no gang."""
    if "gang" in policy:
        return "whole"
    return "none" if "basic" in policy else "unknown"


READERS = (
    Reader("native", "PodGroup", GROUP, "podgroups", ("v1beta1", "v1alpha3", "v1alpha2"), pod_group),
    Reader("native", "Workload", GROUP, "workloads", ("v1alpha1",), workload),
)
