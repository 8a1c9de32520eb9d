"""ClusterQueue, LocalQueue and Cohort of Kueue (`kueue.x-k8s.io`; v1beta2, and v1beta1 of older releases).

Decides what a queue is due and may borrow, in the units of the cluster's resources, and that one which is stopped says
so before its controller does. Refuses `weightedShare` of the largest number: it says "no weight, and borrowing".
"""

from __future__ import annotations

from typing import Any

from fleet.adapters.kubernetes.needs import quantity
from fleet.adapters.kubernetes.schedulers.kueue import GROUP, VERSIONS
from fleet.adapters.kubernetes.schedulers.objects import (
    Condition,
    Raw,
    Reader,
    conditions_of,
    number,
    ref_of,
    spoken_key,
)
from fleet.ports.devices import DEVICE
from fleet.ports.gangs import QueueObject, Quota, Said, Spoken
from fleet.ports.shapes import items, mapping, text

NO_WEIGHT = 9_223_372_036_854_775_807


def cluster_queue(raw: Raw) -> Spoken:
    ref, conditions = ref_of("kueue", "ClusterQueue", raw), conditions_of(raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    active, policy = conditions.get("Active"), text(spec.get("stopPolicy")) or "None"
    said = _stopped(active, policy, "ClusterQueue")
    share, text_of = _share(mapping(status.get("fairSharing")).get("weightedShare"))
    fair = mapping(spec.get("fairSharing"))
    return Spoken(
        spoken_key(ref),
        queues=(
            QueueObject(
                ref,
                parent=_cohort(spec),
                stopped=bool(said),
                quotas=tuple(_quotas(spec, status)),
                share=share,
                share_text=text_of,
                weight=quantity(fair["weight"]) if "weight" in fair else None,
                head_blocks=text(spec.get("queueingStrategy")) == "StrictFIFO",
                waiting=number(status.get("pendingWorkloads")),
                admitted=number(status.get("admittedWorkloads")),
                running=number(status.get("reservingWorkloads")),
                said=said,
            ),
        ),
    )


def _stopped(active: Condition | None, policy: str, kind: str) -> tuple[Said, ...]:
    """Why the queue admits nobody, in its own words or by its policy."""
    if active is not None and active.status is False:
        return (active.said("QUEUE_STOPPED", f"{kind} condition Active: {active.reason}"),)
    return (Said("QUEUE_STOPPED", f"stopPolicy is {policy}", None, kind),) if policy != "None" else ()


def _cohort(spec: dict[str, Any]) -> str:
    """`cohort` before v1beta2."""
    return text(spec.get("cohortName")) or text(spec.get("cohort"))


def _share(raw: Any) -> tuple[float | None, str]:
    value = number(raw)
    if value is None:
        return None, ""
    if isinstance(raw, int) and raw >= NO_WEIGHT:
        return None, "no weight, and borrowing"
    return float(value), "weighted share"


def _ceiling(nominal: float, limit: Any, alone: bool) -> float | None:
    """Without a cohort there is nobody to borrow from; in one, no limit is no bound."""
    if alone:
        return nominal
    return None if limit is None else nominal + quantity(limit)


def _quotas(spec: dict[str, Any], status: dict[str, Any]) -> list[Quota]:
    alone = not _cohort(spec)
    used, reserved = (_flavors(status.get(part)) for part in ("flavorsUsage", "flavorsReservation"))
    return [
        Quota(
            flavor=flavor,
            resource=name,
            guaranteed=nominal,
            used=quantity(used.get((flavor, name), {}).get("total")),
            reserved=quantity(reserved.get((flavor, name), {}).get("total")),
            borrowed=quantity(used.get((flavor, name), {}).get("borrowed")),
            ceiling=_ceiling(nominal, resource.get("borrowingLimit"), alone),
        )
        for group in items(spec.get("resourceGroups"))
        for entry in items(group.get("flavors"))
        for resource in items(entry.get("resources"))
        for flavor, name in [(text(entry.get("name")), text(resource.get("name")))]
        for nominal in [quantity(resource.get("nominalQuota"))]
        if DEVICE.match(name)
    ]


def _flavors(raw: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (text(flavor.get("name")), text(resource.get("name"))): resource
        for flavor in items(raw)
        for resource in items(flavor.get("resources"))
    }


def local_queue(raw: Raw) -> Spoken:
    ref, conditions = ref_of("kueue", "LocalQueue", raw), conditions_of(raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    active, policy = conditions.get("Active"), text(spec.get("stopPolicy")) or "None"
    said = _stopped(active, policy, "LocalQueue")
    return Spoken(
        spoken_key(ref),
        queues=(
            QueueObject(
                ref,
                stopped=bool(said),
                waiting=number(status.get("pendingWorkloads")),
                admitted=number(status.get("admittedWorkloads")),
                leads_to=text(spec.get("clusterQueue")),
                said=said,
            ),
        ),
    )


def cohort(raw: Raw) -> Spoken:
    ref = ref_of("kueue", "Cohort", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    share, words = _share(mapping(status.get("fairSharing")).get("weightedShare"))
    parent = text(spec.get("parentName")) or text(spec.get("parent"))
    return Spoken(spoken_key(ref), queues=(QueueObject(ref, parent=parent, share=share, share_text=words),))


READERS = (
    Reader("kueue", "ClusterQueue", GROUP, "clusterqueues", VERSIONS, cluster_queue),
    Reader("kueue", "LocalQueue", GROUP, "localqueues", VERSIONS, local_queue),
    Reader("kueue", "Cohort", GROUP, "cohorts", (*VERSIONS, "v1alpha1"), cohort),
)
