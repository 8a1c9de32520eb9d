"""What is kept when a job fails: its own objects, pods and logs are gone soon after.

Decides which object says that its job failed, in what words, and that a failure is kept once. Refuses failures that
ended long before anybody looked (a first look is no news), to gather evidence, and to write without the caller's
transaction and fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from fleet.gangs.form import Gang
from fleet.gangs.models import Ending, GangMoment
from fleet.gangs.redaction import redact
from fleet.ports.cluster import EventSeen
from fleet.ports.gangs import GangObject, ref_of
from fleet.ports.ray import PlacementGroup

FAILED = frozenset({"Failed", "ValidationFailed", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "BOOT_FAIL"})
LATE = timedelta(hours=1)
LOG_CHARACTERS, WORDS, EVENTS, GROUPS = 200_000, 4_000, 200, 200
Once = tuple[str, str, datetime]  # namespace, title, when it ended


@dataclass(slots=True)
class Failure:
    """One job that failed, with what was known at that moment. `missing` says in words what could not be had."""

    gang_key: str
    title: str
    at: datetime
    status: str
    message: str
    objects: tuple[GangObject, ...] = ()
    nodes: Sequence[dict[str, Any]] = ()  # {node, verdict, reason, incident}
    placement_groups: Sequence[PlacementGroup] = ()
    log_tail: str = ""
    events: list[EventSeen] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def once(self) -> Once:
        return ref_of(self.gang_key).namespace, self.title, self.at


def failed(gang: Gang) -> GangObject | None:
    """The outermost object that says so: what people made, before what was made of it."""
    return next((one for one in reversed(gang.objects) if one.finished and one.phase in FAILED), None)


def failure(gang: Gang, one: GangObject, now: datetime) -> Failure | None:
    """None when it ended long ago. An object that tells no time ended now, as far as anybody knows."""
    at = one.ended_at or now
    if now - at > LATE:
        return None
    told = [said.text for said in one.said if said.code != "SUSPENDED"]
    words = " ".join(dict.fromkeys(told))
    reason = next((said.source.partition(": ")[2] for said in one.said if one.phase in said.source), "")
    status = f"{one.phase}: {reason}" if reason else one.phase
    return Failure(gang.key, f"{one.ref.kind} {one.ref.name}"[:330], at, status[:40], words[:WORDS], gang.objects)


def known(cluster_id: int, since: datetime) -> set[Once]:
    """Those that are kept already, of after `since`."""
    rows = Ending.objects.filter(cluster_id=cluster_id, at__gte=since)
    return {(ref_of(key).namespace, title, at) for key, title, at in rows.values_list("gang_key", "title", "at")}


def store(cluster_id: int, failures: Iterable[Failure], now: datetime) -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("endings are written in the transaction of the fence")
    kept = list(failures)
    Ending.objects.bulk_create([_row(cluster_id, one) for one in kept], ignore_conflicts=True)
    GangMoment.objects.bulk_create(
        [
            GangMoment(cluster_id=cluster_id, gang_key=one.gang_key, at=now, kind="ending", what=one.status[:64])
            for one in kept
        ]
    )


def _row(cluster_id: int, one: Failure) -> Ending:
    return Ending(
        cluster_id=cluster_id,
        gang_key=one.gang_key[:600],
        title=one.title,
        at=one.at,
        status=one.status,
        message=redact(one.message),
        log_tail=redact(one.log_tail[-LOG_CHARACTERS:]),
        events=[_event(event) for event in one.events[-EVENTS:]],
        placement_groups=[_group(group) for group in one.placement_groups[:GROUPS]],
        nodes=list(one.nodes),
        missing=one.missing,
    )


def _event(event: EventSeen) -> dict[str, Any]:
    at = event.at.isoformat() if event.at is not None else None
    return {
        "at": at, "of": f"{event.kind} {event.name}", "type": event.type, "reason": event.reason,
        "message": redact(event.message)[:WORDS],
    }  # fmt: skip


def _group(group: PlacementGroup) -> dict[str, Any]:
    return {
        "id": group.id, "name": group.name, "state": group.state, "scheduling": group.scheduling, "gpus": group.gpus,
        "bundles": len(group.bundles), "detached": group.detached, "job": group.job,
    }  # fmt: skip
