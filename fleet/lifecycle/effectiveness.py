"""What became of each remedy, and how often each mends such a fault.

Decides what counts: a remedy *held* when its node came back to service and stayed a day without a fault of its own; it
*bounced* when the same fault returned within the day; the node *failed again* when another fault took it out within the
day; the remedy *failed* when the node did not pass its tests or the verb had no effect. All but the first count against
the verb. Refuses to mix hardware: the most specific of (cause, SKU, driver, firmware), (cause, SKU, driver), (cause,
SKU), (cause) that has enough tries speaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q, QuerySet

from fleet.lifecycle.firmware import Key, keys_of
from fleet.lifecycle.intents import DISRUPTING, REFUSED
from fleet.lifecycle.ladder import MIN_TRIES, Effect
from fleet.lifecycle.models import Intent, Remedy, Workflow
from fleet.lifecycle.playbooks import remedy_index

WINDOW = timedelta(days=90)
"""Older tries speak of other hardware and other people."""
BY = ("cause", "sku", "driver", "firmware")
_COUNTS = {
    "tries": Count("pk"),
    "held": Count("pk", filter=Q(result=Remedy.HELD)),
    "bounced": Count("pk", filter=Q(result=Remedy.BOUNCED)),
    "again": Count("pk", filter=Q(result=Remedy.AGAIN)),
}


def record(workflow: Workflow, result: str, now: datetime) -> None:
    """Keep what came of the workflow's present try. A workflow without a remedy leaves nothing, nor does a remedy that
    failed before anything was sent: it says nothing about the verb."""
    index = remedy_index(workflow.plan)
    if index is None or workflow.step < index or (result == Remedy.FAILED and not _sent(workflow)):
        return
    Remedy.objects.update_or_create(
        workflow=workflow,
        attempt=workflow.attempt,
        defaults={
            "node_id": workflow.node_id,
            "cluster_id": workflow.cluster_id,
            "verb": workflow.plan[index]["verb"],
            **keys_of([workflow])[0]._asdict(),
            "result": result,
            "ended_at": now,
        },
    )


def _sent(workflow: Workflow) -> bool:
    tried = Intent.objects.filter(workflow=workflow, step__attempt=workflow.attempt, verb__in=DISRUPTING)
    return tried.exclude(outcome=REFUSED).exists()


@dataclass(frozen=True, slots=True)
class Line:
    """How often `verb` mended `cause` on that SKU, driver and firmware. `held` lasted; `bounced` came back within the
    day; of `again` the node failed within the day by another fault; the rest failed."""

    cause: str
    sku: str
    driver: str
    firmware: str
    verb: str
    tries: int
    held: int
    bounced: int
    again: int

    @property
    def effect(self) -> Effect:
        return Effect(self.tries, self.held)


def effects_of(workflows: Sequence[Workflow], now: datetime) -> list[dict[str, Effect]]:
    """For each workflow the effect of each verb on such a fault; two queries whatever the number of workflows."""
    return [{verb: line.effect for verb, line in lines.items()} for lines in measured(workflows, now)]


def measured(workflows: Sequence[Workflow], now: datetime) -> list[dict[str, Line]]:
    """For each workflow by verb what was measured: the most specific that has enough tries. What a line does not tell
    apart (its driver, its firmware) is ""."""
    keys = keys_of(workflows)
    if not keys:
        return []
    rows = Remedy.objects.filter(cause__in={key.cause for key in keys}, ended_at__gte=now - WINDOW)
    lines = _lines(rows)
    found = {key: _measured(key, lines) for key in set(keys)}
    return [found[key] for key in keys]


def _lines(rows: QuerySet[Remedy]) -> list[Line]:
    lines = [Line(*row) for row in rows.values_list(*BY, "verb").annotate(**_COUNTS).order_by()]
    return sorted(lines, key=lambda line: (-line.tries, line.cause, line.verb))


def _measured(key: Key, lines: Sequence[Line]) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for verb in {line.verb for line in lines}:
        for depth in (4, 3, 2, 1):
            mine = [line for line in lines if line.verb == verb and _key(line)[:depth] == key[:depth]]
            told = Key(*key[:depth])  # what is not told apart is ""
            known = Line(
                told.cause, told.sku, told.driver, told.firmware, verb,
                sum(line.tries for line in mine), sum(line.held for line in mine),
                sum(line.bounced for line in mine), sum(line.again for line in mine),
            )  # fmt: skip
            if known.tries >= MIN_TRIES or depth == 1:
                found[verb] = known
                break
    return found


def _key(line: Line) -> Key:
    return Key(line.cause, line.sku, line.driver, line.firmware)


def bounces(cluster_ids: Sequence[int] | None, now: datetime) -> dict[str, Line]:
    """By verb what came of all its tries in the window. One query."""
    found: dict[str, Line] = {}
    for row in _of(cluster_ids, now).values_list("verb").annotate(**_COUNTS):
        found[row[0]] = Line("", "", "", "", *row)
    return found


def table(cluster_ids: Sequence[int] | None, now: datetime) -> list[Line]:
    """Everything measured in the window, the most tried first. One query."""
    return _lines(_of(cluster_ids, now))


def _of(cluster_ids: Iterable[int] | None, now: datetime) -> QuerySet[Remedy]:
    rows = Remedy.objects.filter(ended_at__gte=now - WINDOW)
    return rows if cluster_ids is None else rows.filter(cluster_id__in=list(cluster_ids))
