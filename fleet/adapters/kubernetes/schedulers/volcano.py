"""PodGroup, Job and Queue of Volcano (`scheduling.volcano.sh/v1beta1`, `batch.volcano.sh/v1alpha1`).

Decides that a closed queue admits nobody, that `Pending` is "not let in" and `Inqueue` "let in, not placed", and that a
message of the gang plugin is about room unless it names a quota. Refuses the queue's own counts of groups: current
releases leave them at 0 (volcano#4584).
"""

from __future__ import annotations

from typing import Any

from fleet.adapters.kubernetes.member import meaning_of
from fleet.adapters.kubernetes.needs import devices, need_of
from fleet.adapters.kubernetes.schedulers.objects import (
    Condition,
    Raw,
    Reader,
    conditions_of,
    links_in,
    number,
    ref_of,
    spoken,
    spoken_key,
)
from fleet.ports.gangs import GangObject, Part, QueueObject, Quota, ReasonCode, Said, Spoken, Topology, tier_level
from fleet.ports.shapes import items, mapping, moment, text

GROUP, BATCH = "scheduling.volcano.sh", "batch.volcano.sh"
_REASONS: dict[str, ReasonCode] = {
    "NotEnoughResources": "CAPACITY",
    "NotEnoughTasks": "UNKNOWN",
    "NotEnoughPodsOfTask": "UNKNOWN",
    "PodFailed": "IMAGE_OR_INIT",
    "PodDeleted": "UNKNOWN",
}
_STOPPED_JOB = ("Aborting", "Aborted")
_ENDED_JOB = ("Completed", "Terminated", "Failed")


def pod_group(raw: Raw) -> Spoken:
    ref = ref_of("volcano", "PodGroup", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    phase, conditions = text(status.get("phase")), conditions_of(raw)
    said: list[Said] = []
    waits, placed = conditions.get("Unschedulable"), conditions.get("Scheduled")
    waiting = _holds(waits, placed)
    if waits is not None and waiting:
        code = meaning_of(waits.message)
        code = _REASONS.get(waits.reason, "UNKNOWN") if code == "UNKNOWN" else code
        said.append(waits.said(code, f"PodGroup condition Unschedulable: {waits.reason}"))
    return spoken(
        raw,
        GangObject(
            ref,
            places=True,
            links=links_in(ref, raw),
            queue=text(spec.get("queue")) or "default",
            started_at=placed.at if placed is not None and placed.status and not waiting else None,
            finished=phase == "Completed",
            admitted=None if not phase else phase != "Pending",
            phase=phase,
            minimum=number(spec.get("minMember")),
            done=number(status.get("succeeded")) or 0,
            parts=tuple(_parts(spec)),
            said=tuple(said),
            guarantee="whole",
        ),
    )


def _holds(waits: Condition | None, placed: Condition | None) -> bool:
    """Whether it cannot be placed now. Neither condition is taken back when the other comes: the later counts."""
    if waits is None or not waits.status:
        return False
    if placed is None or not placed.status or placed.at is None or waits.at is None:
        return True
    return placed.at < waits.at


def _parts(spec: dict[str, Any]) -> list[Part]:
    """The roles that have a minimum of their own; without them one nameless part that carries the topology."""
    level = topology_of(mapping(spec.get("networkTopology")))
    tasks = mapping(spec.get("minTaskMember"))
    counts = {text(role): number(count) or 0 for role, count in tasks.items()}
    if not counts and level is not None:
        counts = {"": number(spec.get("minMember")) or 0}
    return [Part(role, count, minimum=count, topology=level) for role, count in sorted(counts.items())]


def topology_of(raw: dict[str, Any]) -> Topology | None:
    """`hard` must be kept; a tier is a distance in the tree of HyperNodes, no label of a node."""
    allowed = number(raw.get("highestTierAllowed"))
    tier = text(raw.get("highestTierName")) or ("" if allowed is None else str(allowed))
    return Topology(tier_level(tier), required=text(raw.get("mode")) != "soft") if tier else None


def job(raw: Raw) -> Spoken:
    ref = ref_of("volcano", "Job", raw)
    spec, state = mapping(raw.get("spec")), mapping(mapping(raw.get("status")).get("state"))
    tasks, phase = items(spec.get("tasks")), text(state.get("phase"))
    counts = mapping(mapping(raw.get("status")).get("taskStatusCount"))
    parts = tuple(_part(task, topology_of(mapping(spec.get("networkTopology"))), counts) for task in tasks)
    at = moment(state.get("lastTransitionTime"))
    return spoken(
        raw,
        GangObject(
            ref,
            places=False,
            queue=text(spec.get("queue")) or "default",
            waits_since=at if phase in ("Restarting", "Pending") else None,
            ended_at=at if phase in _ENDED_JOB else None,
            finished=phase in _ENDED_JOB,
            suspended=phase in _STOPPED_JOB,
            phase=phase,
            wanted=sum(part.wanted for part in parts),
            minimum=number(spec.get("minAvailable")),
            done=sum(_replicas(task) for task in tasks) - sum(part.wanted for part in parts),
            parts=parts,
            said=(Said("SUSPENDED", text(state.get("message")) or phase, at, f"Job state {phase}"),)
            if phase in _STOPPED_JOB
            else (),
        ),
    )


def _replicas(task: dict[str, Any]) -> int:
    told = number(task.get("replicas"))
    return 1 if told is None else max(0, told)


def _part(task: dict[str, Any], level: Topology | None, counts: dict[str, Any]) -> Part:
    """Without its members that ended well: no policy makes those again."""
    ended = number(mapping(mapping(counts.get(text(task.get("name")))).get("phase")).get("Succeeded")) or 0
    wanted = max(0, _replicas(task) - max(0, ended))
    least = number(task.get("minAvailable"))
    need = need_of(mapping(mapping(task.get("template")).get("spec")))
    role = text(task.get("name")).lower()
    return Part(role, wanted, minimum=None if least is None else min(least, wanted), need=need, topology=level)


def queue(raw: Raw) -> Spoken:
    ref = ref_of("volcano", "Queue", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    state = text(status.get("state"))
    stopped = state in ("Closed", "Closing")
    due, sure = (
        devices(mapping(part)) for part in (spec.get("deserved"), mapping(spec.get("guarantee")).get("resource"))
    )
    most, used = devices(mapping(spec.get("capability"))), devices(mapping(status.get("allocated")))
    quotas = [
        Quota(
            flavor="",
            resource=name,
            guaranteed=due.get(name, sure.get(name)),
            used=used.get(name, 0.0),
            borrowed=max(0.0, used.get(name, 0.0) - due[name]) if name in due else 0.0,
            ceiling=most.get(name),
        )
        for name in sorted({*due, *sure, *most, *used})
    ]
    weight = number(spec.get("weight"))
    return Spoken(
        spoken_key(ref),
        queues=(
            QueueObject(
                ref,
                parent=text(spec.get("parent")),
                stopped=stopped,
                quotas=tuple(quotas),
                weight=None if weight is None else float(weight),
                head_blocks=text(spec.get("dequeueStrategy")) == "fifo",
                said=(Said("QUEUE_STOPPED", f"The queue is {state}.", None, "Queue state"),) if stopped else (),
            ),
        ),
    )


READERS = (
    Reader("volcano", "PodGroup", GROUP, "podgroups", ("v1beta1",), pod_group),
    Reader("volcano", "Queue", GROUP, "queues", ("v1beta1",), queue),
    Reader("volcano", "Job", BATCH, "jobs", ("v1alpha1",), job),
)
