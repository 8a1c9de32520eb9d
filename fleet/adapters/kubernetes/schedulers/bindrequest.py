"""BindRequest of the KAI Scheduler (`scheduling.run.ai/v1alpha2`): a pod that was given a node and is being bound.

Decides that a request which failed, or has failed and is tried again, is why its pod does not start. Refuses those that
go well: they are gone when the pod is bound, and the pod tells more.
"""

from __future__ import annotations

from fleet.adapters.kubernetes.schedulers.objects import Raw, Reader, created_at, number, ref_of, spoken_key
from fleet.ports.gangs import Said, Spoken
from fleet.ports.shapes import mapping, text


def bind_request(raw: Raw) -> Spoken:
    ref = ref_of("kai", "BindRequest", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    phase, attempts = text(status.get("phase")), number(status.get("failedAttempts")) or 0
    pod = text(spec.get("podName"))
    if not pod or phase == "Succeeded" or not (phase == "Failed" or attempts > 0):
        return Spoken(spoken_key(ref))
    node = text(spec.get("selectedNode"))
    words = text(status.get("reason")) or f"Binding to {node or 'a node'} failed {max(1, attempts)} times."
    said = Said("BIND_FAILED", words, created_at(raw), f"BindRequest {ref.name}: {phase or 'Pending'}")
    return Spoken(spoken_key(ref), of_members=((f"{ref.namespace}/{pod}", said),))


READERS = (Reader("kai", "BindRequest", "scheduling.run.ai", "bindrequests", ("v1alpha2",), bind_request),)
