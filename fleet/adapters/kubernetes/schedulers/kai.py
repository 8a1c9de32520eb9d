"""PodGroup and Queue of the KAI Scheduler (`scheduling.run.ai/v2alpha2` and `/v2`).

Decides that a stale mark means GPUs held by a gang that cannot run (the rest of it is evicted after its grace), that a
limit of -1 is none, and which of the reasons are about quota. Refuses fair share: the objects do not tell it, only the
scheduler's metrics do.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleet.adapters.kubernetes.member import meaning_of
from fleet.adapters.kubernetes.needs import GPU_RESOURCES, amounts, quantity
from fleet.adapters.kubernetes.schedulers.objects import (
    Raw,
    Reader,
    conditions_of,
    figure,
    links_in,
    number,
    ref_of,
    spoken,
    spoken_key,
)
from fleet.ports.devices import DEVICE
from fleet.ports.gangs import GangObject, Part, QueueObject, Quota, ReasonCode, Said, Spoken, Topology
from fleet.ports.shapes import items, mapping, moment, text

GROUP = "scheduling.run.ai"
STALE = "kai.scheduler/stale-podgroup-timestamp"
STARTED, EVICTED = "kai.scheduler/last-start-timestamp", "kai.scheduler/last-eviction-timestamp"
_REASONS: dict[str, ReasonCode] = {
    "NonPreemptibleOverQuota": "QUOTA",
    "OverLimit": "QUOTA",
    "QueueDoesNotExist": "QUEUE_STOPPED",
    "PreemptionDelayNotElapsed": "PRIORITY_BEHIND",
}


def pod_group(raw: Raw) -> Spoken:
    ref = ref_of("kai", "PodGroup", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    notes = mapping(mapping(raw.get("metadata")).get("annotations"))
    stale_since = moment(notes.get(STALE))
    stale = Said("UNKNOWN", "Fewer members than its minimum run.", stale_since, STALE) if stale_since else None
    held = amounts(mapping(mapping(status.get("resourcesStatus")).get("allocated")))
    return spoken(
        raw,
        GangObject(
            ref,
            places=True,
            links=links_in(ref, raw),
            queue=text(spec.get("queue")),
            waits_since=moment(notes.get(EVICTED)),
            started_at=moment(notes.get(STARTED)),
            minimum=_minimum(spec),
            parts=tuple(_parts(spec)),
            said=tuple(_said(status, _started_since(notes))),
            guarantee="whole",
            gpus_idle=sum(n for name, n in held.items() if DEVICE.match(name)) if stale else None,
            stale=stale,
        ),
    )


def _parts(spec: dict[str, Any]) -> list[Part]:
    """The subgroups that hold members; without them one nameless part that carries the topology."""
    level = _topology(mapping(spec.get("topologyConstraint")))
    parts = [
        Part(text(sub.get("name")).lower(), least, minimum=least, topology=own or level)
        for sub in items(spec.get("subGroups"))
        for own in [_topology(mapping(sub.get("topologyConstraint")))]
        if (least := number(sub.get("minMember")))
    ]
    if parts or level is None:
        return parts
    return [Part("", number(spec.get("minMember")) or 0, topology=level)]


def _minimum(spec: dict[str, Any]) -> int | None:
    """Its own, or that of as many subgroups as it asks for, those that need least: with fewer members it never runs."""
    subs = items(spec.get("subGroups"))

    def least(group: dict[str, Any], above: tuple[str, ...]) -> int | None:
        told = number(group.get("minMember"))
        if told:
            return max(0, told)
        below = [s for s in subs if text(s.get("parent")) == above[-1] and text(s.get("name")) not in above]
        counts = sorted(n for s in below if (n := least(s, (*above, text(s.get("name"))))) is not None)
        wanted = number(group.get("minSubGroup"))
        return sum(counts if wanted is None else counts[: max(0, wanted)]) if counts else told

    return least(spec, ("",))


def _topology(raw: dict[str, Any]) -> Topology | None:
    """Levels are the node labels that the Topology object lists."""
    required, preferred = text(raw.get("requiredTopologyLevel")), text(raw.get("preferredTopologyLevel"))
    return Topology(required or preferred, required=bool(required)) if required or preferred else None


def _started_since(notes: dict[str, Any]) -> datetime | None:
    """When it was started, unless it was evicted after that."""
    started, evicted = moment(notes.get(STARTED)), moment(notes.get(EVICTED))
    return None if started is None or (evicted is not None and evicted > started) else started


def _said(status: dict[str, Any], started: datetime | None) -> list[Said]:
    """What keeps it waiting. Its conditions are not taken back when it is placed: those of before count no more."""
    found: list[Said] = []
    for condition in items(status.get("schedulingConditions")):
        if condition.get("type") != "UnschedulableOnNodePool" or condition.get("status") == "False":
            continue
        here = len(found)
        at, pool = moment(condition.get("lastTransitionTime")), text(condition.get("nodePool"))
        if at is not None and started is not None and at <= started:
            continue
        source = f"PodGroup condition UnschedulableOnNodePool{f' ({pool})' if pool else ''}"
        for reason in items(condition.get("reasons")):
            word, words = text(reason.get("reason")), text(reason.get("message"))
            found.append(Said(_REASONS.get(word) or meaning_of(words), words or word, at, f"{source}: {word}"))
        words = text(condition.get("message"))
        if words and len(found) == here:
            found.append(Said(_REASONS.get(text(condition.get("reason"))) or meaning_of(words), words, at, source))
    return found


def queue(raw: Raw) -> Spoken:
    ref = ref_of("kai", "Queue", raw)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    gpu = mapping(mapping(spec.get("resources")).get("gpu"))
    used, wanted = (_gpus(mapping(status.get(part))) for part in ("allocated", "requested"))
    due, most = _bound(gpu.get("quota")), _bound(gpu.get("limit"))
    orphan = conditions_of(raw).get("Orphan")
    return Spoken(
        spoken_key(ref),
        queues=(
            QueueObject(
                ref,
                parent=text(spec.get("parentQueue")),
                quotas=(
                    Quota(
                        flavor="",
                        resource=GPU_RESOURCES[0],
                        guaranteed=due,
                        used=used,
                        borrowed=max(0.0, used - due) if due is not None else 0.0,
                        ceiling=most,
                        wanted=max(0.0, wanted - used),
                    ),
                ),
                weight=figure(gpu.get("overQuotaWeight")),
                said=(orphan.said("QUEUE_STOPPED", "Queue condition Orphan"),)
                if orphan is not None and orphan.status
                else (),
            ),
        ),
    )


def _gpus(raw: dict[str, Any]) -> float:
    """Parts of a GPU count: queues share them out too."""
    return sum(quantity(amount) for name, amount in raw.items() if isinstance(name, str) and DEVICE.match(name))


def _bound(raw: Any) -> float | None:
    """-1 is "no bound"."""
    told = figure(raw)
    return None if told is None or told < 0 else told


READERS = (
    Reader("kai", "PodGroup", GROUP, "podgroups", ("v2alpha2",), pod_group),
    Reader("kai", "Queue", GROUP, "queues", ("v2",), queue),
)
