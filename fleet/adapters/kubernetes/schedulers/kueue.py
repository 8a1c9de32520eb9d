"""Workload, ClusterQueue, LocalQueue and Cohort of Kueue (`kueue.x-k8s.io`; v1beta2, and v1beta1 of older releases).

Decides that a Workload admits and does not place, where its present wait began (the last eviction), and what each of
its reasons means, in the words of all releases: before 0.19 three general ones stood for all. Quotas are in the units
of the cluster's resources. Refuses `weightedShare` of the largest number: it says "no weight, and borrowing".
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleet.adapters.kubernetes.member import meaning_of
from fleet.adapters.kubernetes.needs import DEVICE, need_of, quantity
from fleet.adapters.kubernetes.schedulers.objects import (
    Condition,
    Raw,
    Reader,
    conditions_of,
    latest,
    links_in,
    number,
    ref_of,
    spoken,
    spoken_key,
)
from fleet.ports.gangs import GangObject, Part, QueueObject, Quota, ReasonCode, Said, Spoken, Topology
from fleet.ports.shapes import items, mapping, text

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
NO_WEIGHT = 9_223_372_036_854_775_807
_RESERVING: dict[str, ReasonCode] = {
    "WaitingForQuota": "QUOTA",
    "ExceedsMaxQuota": "EXCEEDS_MAX",
    "NoMatchingFlavor": "EXCEEDS_MAX",
    "TopologyPlacementFailed": "TOPOLOGY",
    "WaitingForPreemptedWorkloads": "PRIORITY_BEHIND",
    "WaitingForPodsReady": "PRIORITY_BEHIND",
    "Misconfigured": "QUEUE_STOPPED",
    "Suspended": "QUEUE_STOPPED",
    "PendingEvaluation": "PRIORITY_BEHIND",
    "Inadmissible": "QUEUE_STOPPED",
    "Waiting": "PRIORITY_BEHIND",  # before 0.19: for the pods of those that were admitted
}
_ADMITTING: dict[str, ReasonCode] = {
    "UnsatisfiedAdmissionChecks": "ADMISSION_CHECK",
    "PendingDelayedTopologyRequests": "TOPOLOGY",
}
_EVICTED: dict[str, ReasonCode] = {
    "Preempted": "PRIORITY_BEHIND",
    "PodsReadyTimeout": "CAPACITY",
    "AdmissionCheck": "ADMISSION_CHECK",
    "ClusterQueueStopped": "QUEUE_STOPPED",
    "LocalQueueStopped": "QUEUE_STOPPED",
    "NodeFailures": "NODE_UNHEALTHY",
    "Deactivated": "SUSPENDED",
}
# What the message of the general reasons of older releases says.
_OLD_WORDS: tuple[tuple[str, ReasonCode], ...] = (
    ("is inactive", "QUEUE_STOPPED"),
    ("doesn't exist", "QUEUE_STOPPED"),
    ("insufficient quota", "EXCEEDS_MAX"),
    ("insufficient unused quota", "QUOTA"),
    ("exceeds", "EXCEEDS_MAX"),
    ("topology", "TOPOLOGY"),
    ("preempt", "PRIORITY_BEHIND"),
)


def workload(raw: Raw) -> Spoken:
    ref, conditions = ref_of("kueue", "Workload", raw), conditions_of(raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    sets = items(spec.get("podSets"))
    parts = tuple(_part(one) for one in sets)
    reserved, admitted = conditions.get("QuotaReserved"), conditions.get("Admitted")
    finished, started = conditions.get("Finished"), conditions.get("PodsReady")
    inactive = spec.get("active") is False
    return spoken(
        raw,
        GangObject(
            ref,
            places=True,
            links=links_in(ref, raw),
            queue=text(mapping(status.get("admission")).get("clusterQueue")) or text(spec.get("queueName")),
            priority=number(spec.get("priority")) or 0,
            waits_since=_evicted_at(conditions),
            started_at=started.at if started is not None and started.status else None,
            ended_at=finished.at if finished is not None and finished.status else None,
            finished=finished is not None and finished.status is True,
            suspended=inactive,
            admitted=(reserved is not None and reserved.status is True)
            and (admitted is None or admitted.status is True),
            phase=next((name for name in _PHASES if name in conditions and conditions[name].status), "Pending"),
            wanted=sum(part.wanted for part in parts),
            minimum=sum(part.wanted if part.minimum is None else part.minimum for part in parts),
            parts=parts,
            said=tuple(_said(conditions, inactive)),
            by_topology=_by_topology(status),
            unhealthy_nodes=tuple(text(node.get("name")) for node in items(status.get("unhealthyNodes"))),
            guarantee="whole" if started is not None else "unknown",
        ),
    )


def _by_topology(status: dict[str, Any]) -> bool:
    """A queue may place by topology what never asked for it, so the assignment tells and not the request."""
    assigned = items(mapping(status.get("admission")).get("podSetAssignments"))
    return any(mapping(one.get("topologyAssignment")) for one in assigned)


_PHASES = ("Finished", "Evicted", "Admitted", "QuotaReserved")


def _part(raw: dict[str, Any]) -> Part:
    request = mapping(raw.get("topologyRequest"))
    required, preferred = text(request.get("required")), text(request.get("preferred"))
    level = Topology(required or preferred, required=bool(required)) if required or preferred else None
    count = number(raw.get("count"))
    need = need_of(mapping(mapping(raw.get("template")).get("spec")))
    name = text(raw.get("name")).lower()
    return Part(name, max(0, count or 0), minimum=number(raw.get("minCount")), need=need, topology=level)


def _evicted_at(conditions: dict[str, Condition]) -> datetime | None:
    """The present wait began at the last eviction or at the requeue after it; none of them: at the creation."""
    moments = [
        conditions[name].at for name in ("Evicted", "Requeued") if name in conditions and conditions[name].status
    ]
    return latest(*moments)


def _said(conditions: dict[str, Condition], inactive: bool) -> list[Said]:
    found: list[Said] = []
    reserved, admitted, evicted = (conditions.get(name) for name in ("QuotaReserved", "Admitted", "Evicted"))
    if inactive:
        stated = evicted.at if evicted is not None else None
        found.append(Said("SUSPENDED", "spec.active is false", stated, "Workload"))
    if reserved is not None and reserved.status is False:
        code = _RESERVING.get(reserved.reason) or _by_words(reserved.message)
        found.append(reserved.said(code, f"Workload condition QuotaReserved: {reserved.reason}"))
    elif admitted is not None and admitted.status is False and admitted.reason != "NoReservation":
        code = _ADMITTING.get(admitted.reason, "ADMISSION_CHECK")
        found.append(admitted.said(code, f"Workload condition Admitted: {admitted.reason}"))
    if evicted is not None and evicted.status:
        found.append(evicted.said(_evicted_by(evicted.reason), f"Workload evicted: {evicted.reason}"))
    gates = conditions.get("BlockedOnPreemptionGates")
    if gates is not None and gates.status:
        found.append(gates.said("ADMISSION_CHECK", "Workload condition BlockedOnPreemptionGates"))
    return found


def _evicted_by(reason: str) -> ReasonCode:
    """Releases before 0.19 append the cause: DeactivatedDueToRequeuingLimitExceeded."""
    return _EVICTED.get(reason.partition("DueTo")[0], "UNKNOWN")


def _by_words(message: str) -> ReasonCode:
    words = message.lower()
    return next((code for word, code in _OLD_WORDS if word in words), meaning_of(message))


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
    Reader("kueue", "Workload", GROUP, "workloads", VERSIONS, workload),
    Reader("kueue", "ClusterQueue", GROUP, "clusterqueues", VERSIONS, cluster_queue),
    Reader("kueue", "LocalQueue", GROUP, "localqueues", VERSIONS, local_queue),
    Reader("kueue", "Cohort", GROUP, "cohorts", (*VERSIONS, "v1alpha1"), cohort),
)
