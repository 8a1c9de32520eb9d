"""The few numbers that every page's frame shows, in one query.

Decides open incidents, workflows by state, open tickets, pending approvals, gangs that wait or hold GPUs for nothing,
clusters with mode, observer and what ails their connection, caps and the kill switch.
Refuses a second query: the parts are one UNION ALL.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from django.db.models import (
    Case,
    CharField,
    Count,
    DateTimeField,
    F,
    FloatField,
    Func,
    IntegerField,
    Min,
    OuterRef,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce

from fleet.gangs.models import GangRow
from fleet.health.models import Incident
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.policy.models import Approval, Cap, Switch
from fleet.tickets.models import Ticket

WAITING = [str(state) for state in (WorkflowState.WAITING, WorkflowState.BLOCKED)]
GANGS_WAIT = ("waiting", "partial")
SCOPED = ("cap_hold", "cap_take_out", "cap_in_flight", "rate", "floor")
_FIRST_WORD = Func(F("blocked_text"), Value(" "), Value(1), function="split_part", output_field=CharField())
COLUMNS = ("kind", "scope", "key", "n", "share", "since", "note")


@dataclass(frozen=True, slots=True)
class Condition:
    """What the observer states to be wrong with the connection."""

    code: str
    text: str
    since: datetime


@dataclass(frozen=True, slots=True)
class ClusterLine:
    id: int
    name: str
    mode: str
    observer_until: datetime | None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class CapLine:
    cluster_id: int | None
    kind: str
    scope: str
    absolute: int | None
    percent: float | None

    def limit(self, nodes: int) -> int | None:
        """How many of `nodes` it allows; never below 1, None when it has no limit."""
        limits = [] if self.absolute is None else [self.absolute]
        if self.percent is not None:
            limits.append(int(nodes * self.percent / 100))
        return max(1, min(limits)) if limits else None


@dataclass(slots=True)
class Totals:
    clusters: list[ClusterLine] = field(default_factory=list)
    incidents: int = 0
    workflows: Counter[str] = field(default_factory=Counter)
    waits: Counter[tuple[str, str]] = field(default_factory=Counter)  # by reason and the first word of the sentence
    tickets: int = 0
    gangs_waiting: int = 0
    gangs_idle: int = 0  # that hold GPUs for nothing
    gpus_idle: int = 0
    approvals: int = 0
    oldest_ticket_at: datetime | None = None
    caps: list[CapLine] = field(default_factory=list)
    stopped_by: str = ""
    stopped_since: datetime | None = None
    stopped_reason: str = ""
    rows: list[tuple[Any, ...]] = field(default_factory=list, repr=False)

    @property
    def open_workflows(self) -> int:
        return sum(self.workflows[str(state)] for state in OPEN_WORKFLOW_STATES)

    def limit(self, kind: str, scope: str, cluster: str, nodes: int) -> int | None:
        """The cap on `nodes` nodes of a scope in `cluster`: the cluster's own, else the default; None without one."""
        own = {line.id for line in self.clusters if line.name == cluster}
        fitting = [cap for cap in self.caps if (cap.kind, cap.scope) == (kind, scope)]
        chosen = [cap for cap in fitting if cap.cluster_id in own] or [cap for cap in fitting if cap.cluster_id is None]
        return chosen[0].limit(nodes) if chosen else None

    @property
    def mode(self) -> str:
        """The least mode of the clusters in view."""
        order = [str(mode) for mode in (Mode.OBSERVE, Mode.RECOMMEND, Mode.AUTOMATE)]
        return min((line.mode for line in self.clusters), key=order.index, default="")

    @classmethod
    def of(cls, rows: list[tuple[Any, ...]]) -> Totals:
        found = cls(rows=rows)
        for kind, scope, key, n, share, since, note in rows:
            match kind:
                case "cluster":
                    found.clusters.append(ClusterLine(n, scope, key, since, _stated(note)))
                case "incident":
                    found.incidents += n
                case "workflow":
                    found.workflows[key] += n
                case "wait":
                    found.waits[key or "approval", note] += n
                case "ticket":
                    found.tickets += n
                    found.oldest_ticket_at = min(filter(None, (found.oldest_ticket_at, since)), default=None)
                case "gangs":
                    found.gangs_waiting += n
                case "idle":
                    found.gangs_idle += n
                    found.gpus_idle += int(share or 0)
                case "approval":
                    found.approvals += n
                case "cap":
                    found.caps.append(CapLine(int(scope) if scope else None, note, key, n if n >= 0 else None, share))
                case "switch":
                    found.stopped_by, found.stopped_since, found.stopped_reason = key, since, note
        found.clusters.sort(key=lambda line: line.name)
        return found

    def within(self, cluster: str) -> Totals:
        """The same numbers of one cluster alone; caps and the switch stay. No query."""
        return Totals.of([row for row in self.rows if row[0] in ("cap", "switch") or row[1] == cluster])


def totals(visible: frozenset[str] | None) -> Totals:
    """The totals over the clusters named in `visible` (None: all of them)."""
    return Totals.of(_rows(visible))


def _rows(visible: frozenset[str] | None) -> list[tuple[Any, ...]]:
    live = Cluster.objects.filter(removed_at=None)
    of_cluster: dict[str, Any] = {"cluster__removed_at": None}
    if visible is not None:
        live = live.filter(name__in=visible)
        of_cluster["cluster__name__in"] = visible
    parts: list[QuerySet[Any, Any]] = [
        _part(
            live, "cluster", scope=F("name"), key=F("mode"), n=F("id"), since=F("observer_until"), note=F("conditions")
        ),
        _part(
            Incident.objects.filter(state=Incident.OPEN, **of_cluster).values("cluster__name"),
            "incident",
            scope=F("cluster__name"),
            n=Count("pk"),
        ),
        _part(
            Workflow.objects.filter(ended_at=None, **of_cluster).values("cluster__name", "state"),
            "workflow",
            scope=F("cluster__name"),
            key=F("state"),
            n=Count("pk"),
        ),
        _part(
            Workflow.objects.filter(state__in=WAITING, **of_cluster)
            .annotate(word=Case(When(blocked_code__in=SCOPED, then=_FIRST_WORD), default=Value("")))
            .values("cluster__name", "blocked_code", "word"),
            "wait",
            scope=F("cluster__name"),
            key=F("blocked_code"),
            n=Count("pk"),
            note=F("word"),
        ),
        _part(
            Ticket.objects.filter(state=Ticket.OPEN, **of_cluster).values("cluster__name"),
            "ticket",
            scope=F("cluster__name"),
            n=Count("pk"),
            since=Min("opened_at"),
        ),
        *_gangs(of_cluster),
        _part(
            _asked(visible).values("named"),
            "approval",
            scope=F("named"),
            n=Count("pk"),
        ),
        _part(
            Cap.objects.all(),
            "cap",
            scope=Coalesce(Cast("cluster_id", CharField()), Value("")),
            key=F("scope"),
            n=Coalesce("absolute", Value(-1)),
            share=F("percent"),
            note=F("kind"),
        ),
        _part(Switch.objects.filter(stopped=True), "switch", key=F("by"), since=F("since"), note=F("reason")),
    ]
    return list(parts[0].union(*parts[1:], all=True))


def _gangs(of_cluster: dict[str, Any]) -> list[QuerySet[Any, Any]]:
    """Those that wait, and those that hold GPUs for nothing."""
    return [
        _part(
            GangRow.objects.filter(state__in=GANGS_WAIT, gone_at=None, **of_cluster).values("cluster__name"),
            "gangs",
            scope=F("cluster__name"),
            n=Count("pk"),
        ),
        _part(
            GangRow.objects.filter(gpus_held_idle__gt=0, gone_at=None, **of_cluster).values("cluster__name"),
            "idle",
            scope=F("cluster__name"),
            n=Count("pk"),
            share=Sum("gpus_held_idle"),
        ),
    ]


def _asked(visible: frozenset[str] | None) -> QuerySet[Any, Any]:
    """Requests that wait for approval, `named` after their cluster; those of the whole site for who sees all of it."""
    name = Cluster.objects.filter(pk=OuterRef("cluster_id")).values("name")[:1]
    rows = Approval.objects.filter(state=Approval.PENDING).annotate(named=Coalesce(Subquery(name), Value("")))
    return rows if visible is None else rows.filter(named__in=visible)


def _stated(conditions: str) -> tuple[Condition, ...]:
    told = sorted(orjson.loads(conditions or "[]"), key=lambda one: str(one["since"]))
    return tuple(Condition(one["code"], one["text"], datetime.fromisoformat(one["since"])) for one in told)


def _part(rows: QuerySet[Any, Any], kind: str, **given: Any) -> QuerySet[Any, Any]:
    blank: dict[str, Any] = {
        "scope": Value(""),
        "key": Value(""),
        "n": Value(0),
        "share": Cast(Value(None), FloatField()),
        "since": Cast(Value(None), DateTimeField()),
        "note": Value(""),
    }
    types: dict[str, Any] = {"n": IntegerField(), "share": FloatField(), "since": DateTimeField()}
    columns = {"kind": Value(kind), **blank, **given}
    named = {
        f"u_{name}": columns[name] if name == "n" else Cast(columns[name], types.get(name, CharField()))
        for name in COLUMNS
    }
    return rows.order_by().annotate(**named).values_list(*(f"u_{name}" for name in COLUMNS))
