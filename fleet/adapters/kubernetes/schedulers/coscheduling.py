"""PodGroup and ElasticQuota of kubernetes-sigs/scheduler-plugins (`scheduling.x-k8s.io/v1alpha1`).

Decides that the group's `running` is not believed (it leaves out pods that are bound and have not started) and that a
phase without pods says nothing. The group has no conditions: why it waits is told by its pods. Refuses v1alpha1 of the
older group `scheduling.sigs.k8s.io`, which no release since 2022 serves.
"""

from __future__ import annotations

from fleet.adapters.kubernetes.needs import devices
from fleet.adapters.kubernetes.schedulers.objects import (
    Raw,
    Reader,
    links_in,
    number,
    ref_of,
    spoken,
    spoken_key,
)
from fleet.ports.gangs import GangObject, QueueObject, Quota, Spoken
from fleet.ports.shapes import mapping, moment, text

GROUP = "scheduling.x-k8s.io"


def pod_group(raw: Raw) -> Spoken:
    ref = ref_of("coscheduling", "PodGroup", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    phase = text(status.get("phase"))
    return spoken(
        raw,
        GangObject(
            ref,
            places=True,
            links=links_in(ref, raw),
            started_at=moment(status.get("scheduleStartTime")) if phase in ("Running", "Finished") else None,
            finished=phase in ("Finished", "Failed"),
            phase=phase,
            minimum=number(spec.get("minMember")),
            done=number(status.get("succeeded")) or 0,
            guarantee="whole",
        ),
    )


def elastic_quota(raw: Raw) -> Spoken:
    """One per namespace: `min` is guaranteed, `max` the ceiling; a device that is in neither is not bounded."""
    ref = ref_of("coscheduling", "ElasticQuota", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    least, most, used = (devices(mapping(part)) for part in (spec.get("min"), spec.get("max"), status.get("used")))
    quotas = tuple(
        Quota(
            flavor="",
            resource=name,
            guaranteed=least.get(name),
            used=used.get(name, 0.0),
            borrowed=max(0.0, used.get(name, 0.0) - least[name]) if name in least else 0.0,
            ceiling=most.get(name),
        )
        for name in sorted({*least, *most, *used})
    )
    return Spoken(spoken_key(ref), queues=(QueueObject(ref, quotas=quotas),))


READERS = (
    Reader("coscheduling", "PodGroup", GROUP, "podgroups", ("v1alpha1",), pod_group),
    Reader("coscheduling", "ElasticQuota", GROUP, "elasticquotas", ("v1alpha1",), elastic_quota),
)
