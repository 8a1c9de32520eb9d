"""RayCluster, RayJob and RayService of KubeRay (`ray.io/v1`; v1alpha1 is still served by old operators).

Decides the members by the spec's groups times their hosts, the head included, and keeps the facts that the conditions
of a Ray gang are judged by. A RayJob that runs on a cluster of others (`clusterSelector`) starts no pods of its own and
speaks of no gang. Refuses counts of the status where pods tell the same or the spec is newer, and to know how the
operator's batch scheduler groups the pods: its pod group says that itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fleet.adapters.kubernetes.member import meaning_of
from fleet.adapters.kubernetes.schedulers.objects import (
    Condition,
    Raw,
    Reader,
    conditions_of,
    number,
    ref_of,
    spoken,
    spoken_key,
)
from fleet.adapters.kubernetes.schedulers.rayspec import facts_of, groups_of
from fleet.ports.gangs import GangObject, Ref, Said, Spoken
from fleet.ports.ray import RayFacts, RayRetention
from fleet.ports.shapes import items, mapping, moment, text

GROUP = "ray.io"
VERSIONS = ("v1", "v1alpha1")
DASHBOARD_PORT = 8265
ENDED_JOB = ("Complete", "Failed", "ValidationFailed")


def ray_cluster(raw: Raw) -> Spoken:
    ref, conditions = ref_of("ray", "RayCluster", raw), conditions_of(raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    groups = groups_of(spec)
    suspended = spec.get("suspend") is True or _is(conditions, "RayClusterSuspended")
    failure = conditions.get("ReplicaFailure")
    said: list[Said] = []
    if failure is not None and failure.status:
        said.append(failure.said(meaning_of(failure.message), f"RayCluster condition ReplicaFailure: {failure.reason}"))
    if suspended:
        stated = conditions.get("RayClusterSuspended")
        said.append(Said("SUSPENDED", "spec.suspend is true", stated.at if stated else None, "RayCluster"))
    desired = number(status.get("desiredWorkerReplicas")) if _is_current(raw) else None
    if desired is not None and any(group.hosts > 1 for group in groups.groups):
        desired = groups.wanted  # before KubeRay 1.4 it counts replicas, however many hosts each has
    provisioned = conditions.get("RayClusterProvisioned")
    return spoken(
        raw,
        GangObject(
            ref,
            places=False,
            started_at=provisioned.at if provisioned is not None and provisioned.status else None,
            suspended=suspended,
            phase=text(status.get("state")),
            wanted=1 + (groups.wanted if desired is None else desired),
            parts=groups.parts,
            said=tuple(said),
            guarantee="unknown",
            ray=replace(
                _with_status(facts_of("RayCluster", raw, spec, groups), conditions, desired),
                address=_head_service(ref, spec, status),
            ),
        ),
    )


def ray_job(raw: Raw) -> Spoken:
    ref = ref_of("ray", "RayJob", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    if spec.get("clusterSelector"):
        return Spoken(spoken_key(ref))
    cluster_spec = mapping(spec.get("rayClusterSpec"))
    groups, phase = groups_of(cluster_spec), text(status.get("jobDeploymentStatus"))
    ends, words = moment(status.get("endTime")), text(status.get("message"))
    suspended = spec.get("suspend") is True or phase in ("Suspended", "Suspending")
    said = [Said("SUSPENDED", "spec.suspend is true", None, "RayJob")] if suspended else []
    if words and phase in ("Failed", "ValidationFailed", "Waiting"):
        said.append(Said("UNKNOWN", words, ends, f"RayJob {phase}: {text(status.get('reason'))}"))
    return spoken(
        raw,
        GangObject(
            ref,
            places=False,
            waits_since=moment(status.get("startTime")) if phase in ("Retrying", "Waiting") else None,
            ended_at=ends,
            finished=phase in ENDED_JOB,
            suspended=suspended,
            phase=phase,
            wanted=1 + groups.wanted if groups.parts else None,  # its cluster's own count goes before
            parts=groups.parts,
            said=tuple(said),
            ray=_of_job(facts_of("RayJob", raw, cluster_spec, groups), spec, status),
        ),
    )


def ray_service(raw: Raw) -> Spoken:
    ref, conditions = ref_of("ray", "RayService", raw), conditions_of(raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    config = mapping(spec.get("rayClusterConfig"))
    groups = groups_of(config)
    active = text(mapping(status.get("activeServiceStatus")).get("rayClusterName"))
    return spoken(
        raw,
        GangObject(
            ref,
            places=False,
            suspended=_is(conditions, "Suspended"),
            phase=next((name for name, c in conditions.items() if c.status), ""),
            wanted=1 + groups.wanted if groups.parts else None,
            parts=groups.parts,
            said=(Said("SUSPENDED", "The service is suspended.", conditions["Suspended"].at, "RayService"),)
            if _is(conditions, "Suspended")
            else (),
            ray=replace(facts_of("RayService", raw, config, groups), cluster=active),
        ),
    )


def _head_service(ref: Ref, spec: Raw, status: Raw) -> str:
    """The service that the operator made for the head; its dashboard's port where the head's container names another.

    The status' own `endpoints` tell node ports where there are any, which are no ports of the service.
    """
    name = text(mapping(status.get("head")).get("serviceName"))
    if not name:
        return ""
    pod = mapping(mapping(mapping(spec.get("headGroupSpec")).get("template")).get("spec"))
    ports = [port for one in items(pod.get("containers")) for port in items(one.get("ports"))]
    named = next((number(port.get("containerPort")) for port in ports if port.get("name") == "dashboard"), None)
    return f"{name}.{ref.namespace}.svc:{named if named and 0 < named < 65_536 else DASHBOARD_PORT}"


def _is_current(raw: Raw) -> bool:
    """Whether the operator has seen the present spec; until then its counts are those of the one before."""
    seen = number(mapping(raw.get("status")).get("observedGeneration"))
    made = number(mapping(raw.get("metadata")).get("generation"))
    return seen is None or made is None or seen >= made


def _with_status(facts: RayFacts, conditions: Mapping[str, Condition], desired: int | None) -> RayFacts:
    head = conditions.get("HeadPodReady")
    if head is None:
        return replace(facts, desired_workers=desired)
    return replace(facts, desired_workers=desired, head_ready=head.status, head_changed_at=head.at)


def _of_job(facts: RayFacts, spec: Raw, status: Raw) -> RayFacts:
    ttl = number(spec.get("ttlSecondsAfterFinished"))
    retention = RayRetention(
        shuts_down=spec.get("shutdownAfterJobFinishes") is True,
        ttl_seconds=0 if ttl is None else max(0, ttl),
        deletion_rules=_deletes(spec),
        history=facts.retention is not None and facts.retention.history,
    )
    return replace(
        facts,
        cluster=text(status.get("rayClusterName")),
        backoff_limit=number(spec.get("backoffLimit")),
        retention=retention,
        address=text(status.get("dashboardURL")),
    )


def _deletes(spec: Raw) -> bool:
    """Whether anything else ends its pods: rules, or the policies that releases before them had for both ends."""
    strategy = mapping(spec.get("deletionStrategy"))
    ends = (text(mapping(strategy.get(end)).get("policy")) for end in ("onSuccess", "onFailure"))
    kept = ("", "DeleteNone")
    return (
        bool(strategy.get("deletionRules"))
        or not any(end in kept for end in ends)
        or text(spec.get("deletionPolicy")) not in kept
    )


def _is(conditions: Mapping[str, Condition], name: str) -> bool:
    return name in conditions and conditions[name].status is True


READERS = (
    Reader("ray", "RayCluster", GROUP, "rayclusters", VERSIONS, ray_cluster),
    Reader("ray", "RayJob", GROUP, "rayjobs", VERSIONS, ray_job),
    Reader("ray", "RayService", GROUP, "rayservices", VERSIONS, ray_service),
)
