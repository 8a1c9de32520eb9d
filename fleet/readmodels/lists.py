"""The lists of workflows, incidents, tickets and audit rows: filtered, counted and cut into pages by the database.

Decides which filters exist, their order and the size of a page. Two queries a list: counts by state, and one page with
one row more than shown, which tells whether there is a next. Refuses to load a list whole; the audit stream reads in
slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Generic, TypeVar

from django.db.models import Case, Count, F, IntegerField, Model, OuterRef, Q, QuerySet, Subquery, Value, When

from fleet.audit.models import AuditHead, AuditRow
from fleet.health.models import Incident
from fleet.inventory.models import Cluster
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES
from fleet.lifecycle.models import Workflow
from fleet.tickets.models import Ticket

SIZE = 50
SLICE = 1000
Row = TypeVar("Row", bound=Model)
Visible = frozenset[str] | None


@dataclass(slots=True)
class Page(Generic[Row]):
    rows: list[Row]
    number: int
    more: bool
    counts: dict[str, int] = field(default_factory=dict)
    first: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list's address asks for. Empty fields ask for nothing."""

    state: str = ""
    node: str = ""
    cluster: str = ""
    q: str = ""
    page: int = 1
    reason: str = ""  # the code of what a workflow waits for


def _seen(rows: QuerySet[Row], visible: Visible, wanted: Filter) -> QuerySet[Row]:
    if visible is not None:
        rows = rows.filter(cluster__name__in=visible)
    if wanted.cluster:
        rows = rows.filter(cluster__name=wanted.cluster)
    if wanted.node:
        rows = rows.filter(node__name__icontains=wanted.node)
    return rows


def cut(rows: QuerySet[Row], number: int, counts: dict[str, int]) -> Page[Row]:
    start = (number - 1) * SIZE
    found = list(rows[start : start + SIZE + 1])
    return Page(found[:SIZE], number, len(found) > SIZE, counts, start + 1 if found else 0)


def counts_of(rows: QuerySet[Any]) -> dict[str, int]:
    return dict(rows.order_by().values_list("state").annotate(n=Count("pk")))


def workflows(visible: Visible, wanted: Filter) -> Page[Workflow]:
    """Open ones first: blocked, waiting, running, in repair; then plans; then what is over, newest first."""
    rows = _seen(Workflow.objects.select_related("cluster", "node", "incident"), visible, wanted)
    if wanted.reason:
        rows = rows.filter(blocked_code=wanted.reason, ended_at=None)
    counts = counts_of(rows)
    if wanted.state == "open":
        rows = rows.filter(state__in=[str(state) for state in OPEN_WORKFLOW_STATES])
    elif wanted.state:
        rows = rows.filter(state=wanted.state)
    first = ("blocked", "waiting", "running", "repair", "planned")
    rank = Case(
        *(When(state=state, then=Value(place)) for place, state in enumerate(first)),
        default=Value(9),
        output_field=IntegerField(),
    )
    return cut(rows.order_by(rank, "-created_at", "-pk"), wanted.page, counts)


def incidents(visible: Visible, wanted: Filter) -> Page[Incident]:
    """Open ones first, then newest first; each with its newest workflow. What became part of a shared one is there."""
    rows = _seen(Incident.objects.select_related("cluster", "node"), visible, wanted)
    if not wanted.node:
        rows = rows.filter(part_of=None)
    if wanted.q:
        rows = rows.filter(Q(title__icontains=wanted.q) | Q(cause__icontains=wanted.q))
    counts = counts_of(rows)
    if wanted.state:
        rows = rows.filter(state=wanted.state)
    newest = Workflow.objects.filter(incident=OuterRef("pk")).order_by("-created_at")
    rows = rows.annotate(
        workflow_pk=Subquery(newest.values("pk")[:1]), workflow_state=Subquery(newest.values("state")[:1])
    )
    return cut(rows.order_by("state", "-detected_at", "-pk"), wanted.page, counts)


def tickets(visible: Visible, wanted: Filter) -> Page[Ticket]:
    """Open ones first, the oldest of them on top: it has waited longest; then what was closed, newest first."""
    rows = _seen(Ticket.objects.select_related("cluster", "node", "incident"), visible, wanted)
    counts = counts_of(rows)
    if wanted.state:
        rows = rows.filter(state=wanted.state)
    is_closed = Case(When(state=Ticket.OPEN, then=Value(0)), default=Value(1), output_field=IntegerField())
    return cut(rows.order_by(is_closed, F("closed_at").desc(nulls_last=True), "opened_at", "pk"), wanted.page, counts)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """`before` is the id of the row above the page: rows are only ever appended, so pages never shift."""

    actor: str = ""
    node: str = ""
    action: str = ""
    object: str = ""
    since: date | None = None
    until: date | None = None
    before: int = 0


def chains_seen(visible: Visible) -> dict[str, str]:
    """Each chain in view with the name of its cluster ("site": what belongs to no cluster). One query."""
    rows = Cluster.objects.all() if visible is None else Cluster.objects.filter(name__in=visible)
    found = {f"cluster:{pk}": name for pk, name in rows.order_by("name").values_list("pk", "name")}
    return {**found, "site": "site"} if visible is None else found


def audit_rows(chains: dict[str, str], wanted: AuditFilter) -> QuerySet[AuditRow]:
    rows = AuditRow.objects.filter(chain__in=list(chains))
    if wanted.actor:
        rows = rows.filter(actor__icontains=wanted.actor)
    if wanted.node:
        rows = rows.filter(node__icontains=wanted.node)
    if wanted.action:
        rows = rows.filter(action__istartswith=wanted.action)
    if wanted.object:
        rows = rows.filter(object=wanted.object)
    if wanted.since:
        rows = rows.filter(at__gte=datetime.combine(wanted.since, time.min, UTC))
    if wanted.until:
        rows = rows.filter(at__lt=datetime.combine(wanted.until + timedelta(days=1), time.min, UTC))
    if wanted.before:
        rows = rows.filter(pk__lt=wanted.before)
    return rows.order_by("-pk")


def audit(chains: dict[str, str], wanted: AuditFilter) -> Page[AuditRow]:
    found = list(audit_rows(chains, wanted)[: SIZE + 1])
    return Page(found[:SIZE], 1, len(found) > SIZE)


def audit_slices(chains: dict[str, str], wanted: AuditFilter) -> Iterator[list[AuditRow]]:
    """Every row that fits, newest first, in slices: no cursor stays open while a slow reader reads."""
    rows = audit_rows(chains, wanted)
    last: int | None = None
    while True:
        found = list(rows.filter(pk__lt=last)[:SLICE] if last else rows[:SLICE])
        if found:
            yield found
        if len(found) < SLICE:
            return
        last = found[-1].pk


@dataclass(frozen=True, slots=True)
class ChainTip:
    """The tip of one chain against its newest row. `whole` is about the tip only; the command walks all rows."""

    name: str
    rows: int
    hash: str
    whole: bool


def chain_tips(chains: dict[str, str]) -> list[ChainTip]:
    """One query."""
    newest = AuditRow.objects.filter(chain=OuterRef("chain")).order_by("-seq")
    heads = AuditHead.objects.filter(chain__in=list(chains)).annotate(
        last_seq=Subquery(newest.values("seq")[:1]), last_hash=Subquery(newest.values("hash")[:1])
    )
    return [
        ChainTip(
            chains[head.chain],
            head.seq,
            head.hash,
            (head.seq, head.hash) == (head.last_seq or 0, head.last_hash or ""),
        )
        for head in heads.order_by("chain")
    ]
