"""What became of each remedy, and how often each mends such a fault.

Decides what counts: a remedy *held* when its node came back to service and stayed a day without the same fault; it
*bounced* when the fault returned within the day; it *failed* when the node did not pass its tests or the verb had no
effect. Refuses to mix hardware: the most specific of (cause, SKU, driver), (cause, SKU), (cause) that has enough tries
speaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Q

from fleet.lifecycle.intents import DISRUPTING, REFUSED
from fleet.lifecycle.ladder import MIN_TRIES, Effect
from fleet.lifecycle.models import Intent, Remedy, Workflow
from fleet.lifecycle.playbooks import remedy_index

BOUNCE = timedelta(hours=24)
WINDOW = timedelta(days=90)
"""Older tries speak of other firmware and other people."""
DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"  # written by GPU feature discovery


class Key(NamedTuple):
    cause: str
    sku: str
    driver: str


def key_of(workflow: Workflow) -> Key:
    cause = workflow.incident.cause if workflow.incident else ""
    return Key(cause, workflow.node.gpu_model, str(workflow.node.labels.get(DRIVER_LABEL, ""))[:64])


def record(workflow: Workflow, result: str, now: datetime) -> None:
    """Keep what came of the workflow's present try. A workflow without a remedy leaves nothing, nor does a remedy that
    failed before anything was sent: it says nothing about the verb."""
    index = remedy_index(workflow.plan)
    if index is None or workflow.step < index or (result == Remedy.FAILED and not _sent(workflow)):
        return
    key = key_of(workflow)
    Remedy.objects.update_or_create(
        workflow=workflow,
        attempt=workflow.attempt,
        defaults={
            "node_id": workflow.node_id,
            "cluster_id": workflow.cluster_id,
            "verb": workflow.plan[index]["verb"],
            "cause": key.cause,
            "sku": key.sku,
            "driver": key.driver,
            "result": result,
            "ended_at": now,
        },
    )


def _sent(workflow: Workflow) -> bool:
    tried = Intent.objects.filter(workflow=workflow, step__attempt=workflow.attempt, verb__in=DISRUPTING)
    return tried.exclude(outcome=REFUSED).exists()


def bounce(pairs: Iterable[tuple[int, str]], now: datetime) -> int:
    """The same (node, cause) is back: what counted as held within the last day did not last."""
    wanted = Q()
    for node_id, cause in pairs:
        wanted |= Q(node_id=node_id, cause=cause)
    if not wanted:
        return 0
    recent = Remedy.objects.filter(wanted, result=Remedy.HELD, ended_at__gte=now - BOUNCE)
    return recent.update(result=Remedy.BOUNCED)


def effects_of(workflows: Sequence[Workflow], now: datetime) -> dict[Key, dict[str, Effect]]:
    """Per key the effect of each verb, in one query whatever the number of workflows."""
    keys = {key_of(workflow) for workflow in workflows}
    if not keys:
        return {}
    rows = Remedy.objects.filter(cause__in={key.cause for key in keys}, ended_at__gte=now - WINDOW)
    counted = list(
        rows.values_list("cause", "sku", "driver", "verb").annotate(
            tries=Count("pk"), held=Count("pk", filter=Q(result=Remedy.HELD))
        )
    )
    return {key: _effects(key, counted) for key in keys}


def _effects(key: Key, counted: Sequence[tuple[str, str, str, str, int, int]]) -> dict[str, Effect]:
    found: dict[str, Effect] = {}
    for verb in {row[3] for row in counted}:
        for depth in (3, 2, 1):
            mine = [row for row in counted if row[3] == verb and row[:depth] == key[:depth]]
            effect = Effect(sum(row[4] for row in mine), sum(row[5] for row in mine))
            if effect.tries >= MIN_TRIES or depth == 1:
                found[verb] = effect
                break
    return found


def bounces(cluster_ids: Sequence[int] | None, now: datetime) -> dict[str, tuple[int, int]]:
    """verb -> (bounced, all tries) in the window, for one line of a page. One query."""
    rows = Remedy.objects.filter(ended_at__gte=now - WINDOW)
    if cluster_ids is not None:
        rows = rows.filter(cluster_id__in=list(cluster_ids))
    counted = rows.values_list("verb").annotate(bounced=Count("pk", filter=Q(result=Remedy.BOUNCED)), tries=Count("pk"))
    return {verb: (bounced, tries) for verb, bounced, tries in counted}


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table of effectiveness: how often `verb` mended `cause` on that SKU and driver."""

    cause: str
    sku: str
    driver: str
    verb: str
    tries: int
    held: int
    bounced: int


def table(cluster_ids: Sequence[int] | None, now: datetime) -> list[Line]:
    """Everything measured in the window, the most tried first. One query."""
    rows = Remedy.objects.filter(ended_at__gte=now - WINDOW)
    if cluster_ids is not None:
        rows = rows.filter(cluster_id__in=list(cluster_ids))
    grouped = (
        rows.values_list("cause", "sku", "driver", "verb")
        .annotate(
            tries=Count("pk"),
            held=Count("pk", filter=Q(result=Remedy.HELD)),
            bounced=Count("pk", filter=Q(result=Remedy.BOUNCED)),
        )
        .order_by("-tries", "cause", "verb")
    )
    return [Line(*row) for row in grouped]
