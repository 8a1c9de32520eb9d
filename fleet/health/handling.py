"""What a person does to an incident: acknowledge it, mute it for a while, unmute it.

Decides that a mute has a reason and an end, within a month, and that both are in the audit log. Refuses to change what
is wrong: signals and verdicts stay as they are, only plans wait.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus import outbox
from fleet.health.models import Incident

LONGEST = timedelta(days=30)


class Refused(Exception):
    """The request is not possible; the text says why."""


@transaction.atomic
def acknowledge(incident_id: int, actor: str, now: datetime) -> None:
    """Somebody has seen it. The first one stands."""
    incident = _open(incident_id)
    if incident.acked_at is not None:
        raise Refused(f"{incident.label} is acknowledged by {incident.acked_by} already.")
    _write(incident, "incident.acknowledge", actor, now, {"acked_at": now, "acked_by": actor}, {})


@transaction.atomic
def mute(incident_id: int, actor: str, reason: str, until: datetime, now: datetime) -> None:
    """Plan nothing for it until then. What is under way already goes on."""
    reason = reason.strip()
    if not reason:
        raise Refused("Say why: the reason is kept in the audit log.")
    if not now < until <= now + LONGEST:
        raise Refused("A mute ends within 30 days, and not in the past.")
    changes = {"muted_until": until, "muted_by": actor, "muted_reason": reason[:300]}
    detail = {"reason": reason, "until": until.isoformat()}
    _write(_open(incident_id), "incident.mute", actor, now, changes, detail)


@transaction.atomic
def unmute(incident_id: int, actor: str, now: datetime) -> None:
    incident = _open(incident_id)
    if incident.muted_until is None or incident.muted_until <= now:
        raise Refused(f"{incident.label} is not muted.")
    _write(incident, "incident.unmute", actor, now, {"muted_until": None, "muted_by": "", "muted_reason": ""}, {})


def _open(incident_id: int) -> Incident:
    incident = Incident.objects.select_for_update(of=("self",)).select_related("node").get(pk=incident_id)
    if incident.state != Incident.OPEN:
        raise Refused(f"{incident.label} is resolved.")
    return incident


def _write(
    incident: Incident, action: str, actor: str, now: datetime, changes: dict[str, Any], detail: dict[str, Any]
) -> None:
    Incident.objects.filter(pk=incident.pk).update(**changes)
    name = incident.node.name if incident.node else ""
    outbox.publish(incident.cluster_id, [outbox.Notice("incident", str(incident.pk), name)], now)
    entry = audit.Entry(actor, action, f"incident:{incident.pk}", node=name, detail=detail)
    audit.record(audit.chain_of(incident.cluster_id), [entry], now)
