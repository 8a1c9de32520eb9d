"""Workload of Kueue (`kueue.x-k8s.io`; v1beta2, and v1beta1 of older releases).

Decides that a Workload admits and does not place, where its present wait began (the last eviction), that a quota is no
admission before all checks are ready, and what each of its reasons means, in the words of all releases: before 0.19
three general ones stood for all. Refuses to count what is not needed any more: members that ended well, or that an
admission in part left out.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleet.adapters.kubernetes.member import meaning_of
from fleet.adapters.kubernetes.needs import need_of
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
)
from fleet.ports.gangs import SENT, GangObject, Part, ReasonCode, Said, Spoken, Topology
from fleet.ports.shapes import items, mapping, moment, text

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
_RESERVING: dict[str, ReasonCode] = {
    "Deactivated": "SUSPENDED",
    "WaitingForQuota": "QUOTA",
    "BorrowingLimitReached": "QUOTA",
    "ExceedsMaxQuota": "EXCEEDS_MAX",
    "NoMatchingFlavor": "EXCEEDS_MAX",
    "TopologyPlacementFailed": "TOPOLOGY",
    "WaitingForPreemptedWorkloads": "PRIORITY_BEHIND",
    "WaitingForPodsReady": "PRIORITY_BEHIND",
    "Misconfigured": "QUEUE_STOPPED",
    "Suspended": "QUEUE_STOPPED",
    "AdmissionGated": "ADMISSION_CHECK",
    "PendingEvaluation": "PRIORITY_BEHIND",
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
    "InactiveWorkload": "SUSPENDED",  # its name before 0.9
}
_NO_QUEUE = Said("QUEUE_STOPPED", "It names no queue.", None, "Workload spec.queueName")  # Kueue says nothing of it
_GENERAL = ("Pending", "Inadmissible", "Waiting")  # reasons of older releases, that their message explains
# What their message says. It lists what each flavor lacks: where one of them only waits, the workload does.
_OLD_WORDS: tuple[tuple[str, ReasonCode], ...] = (
    ("is inactive", "QUEUE_STOPPED"),
    ("is stopped", "QUEUE_STOPPED"),
    ("doesn't exist", "QUEUE_STOPPED"),
    ("namespace doesn't match", "QUEUE_STOPPED"),
    ("preemption of", "PRIORITY_BEHIND"),
    ("after processing another workload", "PRIORITY_BEHIND"),
    ("insufficient unused quota", "QUOTA"),
    ("remaining quota", "QUOTA"),
    ("borrowing limit", "QUOTA"),
    ("topology", "TOPOLOGY"),
    ("insufficient quota", "EXCEEDS_MAX"),
    ("exceeds", "EXCEEDS_MAX"),
    ("unavailable in clusterqueue", "EXCEEDS_MAX"),
    ("untolerated taint", "EXCEEDS_MAX"),
    ("match node affinity", "EXCEEDS_MAX"),
    ("preempt", "PRIORITY_BEHIND"),
)


def workload(raw: Raw) -> Spoken:
    ref, conditions = ref_of("kueue", "Workload", raw), conditions_of(raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    assigned = _counts(mapping(status.get("admission")).get("podSetAssignments"))
    gone = _counts(status.get("reclaimablePods"))
    parts = tuple(_part(one, assigned, gone) for one in items(spec.get("podSets")))
    open_checks, cluster = _open_checks(status, conditions), text(status.get("clusterName"))
    lost = not (text(spec.get("queueName")) or conditions or mapping(status.get("admission")))
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
            suspended=inactive or bool(cluster),
            admitted=_is_admitted(conditions) and not open_checks,
            phase=next((name for name in _PHASES if name in conditions and conditions[name].status), "Pending"),
            wanted=sum(part.wanted for part in parts),
            minimum=sum(part.wanted if part.minimum is None else part.minimum for part in parts),
            parts=parts,
            said=(*_sent(cluster), *open_checks, *_said(conditions, inactive), *((_NO_QUEUE,) if lost else ())),
            done=sum(gone.values()),
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


def _counts(raw: Any) -> dict[str, int]:
    """Pods of each pod set, as an admission (in part) or what is not needed any more (`reclaimablePods`) tells."""
    told = ((text(one.get("name")), number(one.get("count"))) for one in items(raw))
    return {name: max(0, count) for name, count in told if count is not None}


def _sent(cluster: str) -> tuple[Said, ...]:
    """MultiKueue: its pods are in another cluster, and nothing of it waits for room here."""
    return (Said("SUSPENDED", f"It was sent to the cluster {cluster}.", None, SENT),) if cluster else ()


def _is_admitted(conditions: dict[str, Condition]) -> bool:
    """Releases before 0.5 know no reservation, those before 0.7 do not say that an admission is still to come."""
    reserved, admitted = conditions.get("QuotaReserved"), conditions.get("Admitted")
    if admitted is not None:
        return admitted.status is True
    return reserved is not None and reserved.status is True


def _open_checks(status: dict[str, Any], conditions: dict[str, Condition]) -> tuple[Said, ...]:
    """What each check says that is not ready yet, of a workload that has its quota and is not let in."""
    reserved, admitted = conditions.get("QuotaReserved"), conditions.get("Admitted")
    if reserved is None or not reserved.status or (admitted is not None and admitted.status):
        return ()
    return tuple(
        Said(
            "ADMISSION_CHECK",
            text(check.get("message")) or f"The check {text(check.get('name'))} is {text(check.get('state'))}.",
            moment(check.get("lastTransitionTime")),
            f"Workload admission check {text(check.get('name'))}: {text(check.get('state'))}",
        )
        for check in items(status.get("admissionChecks"))
        if text(check.get("state")) not in ("", "Ready")
    )


def _part(raw: dict[str, Any], assigned: dict[str, int], gone: dict[str, int]) -> Part:
    request = mapping(raw.get("topologyRequest"))
    required, preferred = text(request.get("required")), text(request.get("preferred"))
    level = Topology(required or preferred, required=bool(required)) if required or preferred else None
    name = text(raw.get("name"))
    count = max(0, assigned.get(name, number(raw.get("count")) or 0) - gone.get(name, 0))
    least = None if name in assigned else number(raw.get("minCount"))  # an admission has settled it
    need = need_of(mapping(mapping(raw.get("template")).get("spec")))
    return Part(name.lower(), count, minimum=None if least is None else min(least, count), need=need, topology=level)


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
        found.append(_switched_off(evicted))
    if reserved is None and admitted is not None and admitted.reason in _GENERAL:
        reserved = admitted  # before 0.5
    if reserved is not None and reserved.status is False:
        words = _by_words(reserved.message) if reserved.reason in _GENERAL else "UNKNOWN"
        code = words if words != "UNKNOWN" else _RESERVING.get(reserved.reason) or _by_words(reserved.message)
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


def _switched_off(evicted: Condition | None) -> Said:
    """In Kueue's words where it did that itself: after too many tries, or too long a run."""
    if evicted is None or not evicted.status or "due" not in f"{evicted.reason} {evicted.message}".lower():
        return Said("SUSPENDED", "spec.active is false", evicted.at if evicted is not None else None, "Workload")
    return evicted.said("SUSPENDED", f"Workload spec.active is false, evicted: {evicted.reason}")


def _evicted_by(reason: str) -> ReasonCode:
    """Releases before 0.19 append the cause: DeactivatedDueToRequeuingLimitExceeded."""
    return _EVICTED.get(reason.partition("DueTo")[0], "UNKNOWN")


def _by_words(message: str) -> ReasonCode:
    words = message.lower()
    return next((code for word, code in _OLD_WORDS if word in words), meaning_of(message))


READERS = (Reader("kueue", "Workload", GROUP, "workloads", VERSIONS, workload),)
