"""Reads of signals, incidents and verdicts that processes need.

Decides nothing. Refuses joins with lifecycle: those live in readmodels.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, QuerySet

from fleet.health.models import Incident, NodeVerdict, Signal


def open_incidents(cluster_id: int) -> QuerySet[Incident]:
    return Incident.objects.filter(cluster_id=cluster_id, state=Incident.OPEN)


def quiet_incidents(cluster_id: int) -> list[int]:
    """Open incidents that had signals, all of them cleared: their fault is over. One query."""
    mine = Signal.objects.filter(incident=OuterRef("pk"))
    rows = open_incidents(cluster_id).filter(Exists(mine), ~Exists(mine.filter(cleared_at=None)))
    return list(rows.values_list("id", flat=True))


def open_signals(node_ids: Iterable[int]) -> QuerySet[Signal]:
    return Signal.objects.filter(node_id__in=list(node_ids), cleared_at=None)


def verdicts_of(cluster_id: int) -> QuerySet[NodeVerdict]:
    return NodeVerdict.objects.filter(cluster_id=cluster_id)
