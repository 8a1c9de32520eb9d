"""Opens and closes tickets.

Decides that one open ticket exists per node and incident. Refuses to close twice. Touches no node.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.health.models import Incident
from fleet.inventory.models import Device, Node
from fleet.tickets.models import Ticket


def open_ticket(
    *,
    node: Node,
    incident: Incident | None,
    workflow_id: int | None,
    title: str,
    reason: str,
    part: str,
    evidence: dict[str, Any],
    now: datetime,
) -> tuple[Ticket, list[audit.Entry]]:
    """The open ticket of that node and incident, made if missing. The caller records the returned audit entries."""
    serial = Device.objects.filter(node=node, key=part).values_list("serial", flat=True).first() if part else ""
    ticket, fresh = Ticket.objects.get_or_create(
        node=node,
        incident=incident,
        state=Ticket.OPEN,
        defaults={
            "cluster_id": node.cluster_id,
            "workflow_id": workflow_id,
            "title": title[:300],
            "reason": reason[:300],
            "part": part[:100],
            "serial": serial or "",
            "evidence": evidence,
            "opened_at": now,
        },
    )
    if not fresh:
        return ticket, []
    publish(node.cluster_id, [Notice("ticket", str(ticket.pk), node.name)], now)
    detail = {"title": title, "part": part, "reason": reason}
    return ticket, [
        audit.Entry(
            actor="muster:worker", action="ticket.open", object=f"ticket:{ticket.pk}", node=node.name, detail=detail
        )
    ]


def close_ticket(ticket: Ticket, actor: str, resolution: str, now: datetime) -> list[audit.Entry] | None:
    """Close; None if somebody closed it before. The caller records the entries."""
    closed = Ticket.objects.filter(pk=ticket.pk, state=Ticket.OPEN).update(
        state=Ticket.CLOSED, closed_at=now, closed_by=actor, resolution=resolution
    )
    if not closed:
        return None
    publish(ticket.cluster_id, [Notice("ticket", str(ticket.pk), ticket.node.name)], now)
    return [
        audit.Entry(
            actor=actor,
            action="ticket.close",
            object=f"ticket:{ticket.pk}",
            node=ticket.node.name,
            detail={"resolution": resolution},
        )
    ]
