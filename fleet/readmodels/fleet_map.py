"""Every node of the clusters in view, flat, for the fleet page, its CSV and its metrics.

Decides one query for all nodes with verdict, state and open workflow, the filters that the address may carry, and the
counts over them. Refuses ORM objects: 10,000 nodes are read as tuples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import BooleanField, ExpressionWrapper, F, FilteredRelation, FloatField, Q
from django.db.models.functions import Cast, Extract

from fleet.inventory.models import Node
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState, WorkflowState
from fleet.policy.models import CapKind, Claim

VERDICT_RANK = {"unhealthy": 0, "lost": 1, "degraded": 2, "unknown": 3, "healthy": 4}
NOT_HELD = frozenset(
    str(state)
    for state in (NodeState.IN_SERVICE, NodeState.SUSPECT, NodeState.RELEASED, NodeState.UNMANAGED, NodeState.RETIRED)
)


DIGITS = re.compile(r"(\d+)")


class NodeRow(NamedTuple):
    """Times are seconds since 1970: turning 20,000 of them into datetimes costs more than the query."""

    name: str
    cluster: str
    pool: str
    rack: str
    leaf: str
    verdict: str
    reason: str
    verdict_at: float | None
    state: str
    state_at: float | None
    state_by: str
    state_reason: str
    unschedulable: bool
    foreign_hold: bool
    gpus: int
    in_flight: bool
    workflow: int | None
    workflow_state: str
    step: int
    plan: list[dict[str, Any]] | None
    blocked_text: str
    blocked_until: datetime | None

    @property
    def held(self) -> bool:
        """Takes no new work, by us or by others."""
        return self.unschedulable or self.state not in NOT_HELD

    @property
    def plain(self) -> bool:
        """In service and healthy, with nothing going on."""
        well = self.verdict == "healthy" and self.state == "in_service"
        return well and not self.unschedulable and self.workflow is None

    @property
    def why(self) -> str:
        return self.reason or self.state_reason

    @property
    def since(self) -> datetime | None:
        at = self.state_at if self.verdict == "healthy" else self.verdict_at
        return None if at is None else datetime.fromtimestamp(at, UTC)

    @property
    def verbs(self) -> list[str]:
        return [str(step.get("verb", "")) for step in self.plan or []]

    @property
    def verb(self) -> str:
        verbs = self.verbs
        return verbs[self.step] if self.step < len(verbs) else ""


COLUMNS = (
    "name",
    "cluster__name",
    "pool__name",
    "rack",
    "leaf",
    "verdict_row__verdict",
    "verdict_row__reason",
    "verdict_at",
    "lifecycle__state",
    "state_at",
    "lifecycle__by",
    "lifecycle__reason",
    "unschedulable",
    "foreign_hold",
    "gpu_capacity",
    "in_flight",
    "open_flow__id",
    "open_flow__state",
    "open_flow__step",
    "open_flow__plan",
    "open_flow__blocked_text",
    "open_flow__blocked_until",
)
PLANNED = str(WorkflowState.PLANNED)
SHOWN_WORKFLOWS = [str(state) for state in (*OPEN_WORKFLOW_STATES, WorkflowState.PLANNED)]


def rows(visible: frozenset[str] | None, cluster: str = "", *names: str) -> list[NodeRow]:
    """All present nodes of the `visible` clusters (None: all), of `cluster` or of these `names` alone; by name."""
    nodes = Node.objects.filter(gone_at=None, cluster__removed_at=None)
    if visible is not None:
        nodes = nodes.filter(cluster__name__in=visible)
    if cluster:
        nodes = nodes.filter(cluster__name=cluster)
    if names:
        nodes = nodes.filter(name__in=names)
    claimed = Claim.objects.filter(kind=CapKind.IN_FLIGHT, released_at=None).values("node_id")
    found = (
        nodes.annotate(
            open_flow=FilteredRelation("workflows", condition=Q(workflows__state__in=SHOWN_WORKFLOWS)),
            verdict_at=Cast(Extract("verdict_row__since", "epoch"), FloatField()),
            state_at=Cast(Extract("lifecycle__since", "epoch"), FloatField()),
            in_flight=ExpressionWrapper(Q(pk__in=claimed), output_field=BooleanField()),
        )
        .order_by(F("cluster__name"), "name")
        .values_list(*COLUMNS)
    )
    kept: list[NodeRow] = []
    for row in map(_row, found):
        if kept and row.workflow is not None and (kept[-1].name, kept[-1].cluster) == (row.name, row.cluster):
            if row.workflow_state != PLANNED:  # a plan of observe mode beside a workflow that runs: the latter is told
                kept[-1] = row
            continue
        kept.append(row)
    return kept


def _row(raw: tuple[Any, ...]) -> NodeRow:
    name, cluster, pool, rack, leaf, verdict, reason, verdict_at, state, state_at, by, state_reason = raw[:12]
    unschedulable, foreign, gpus, in_flight, workflow, workflow_state, step, plan, text, until = raw[12:]
    return NodeRow(
        name,
        cluster,
        pool or "",
        rack,
        leaf,
        verdict or "unknown",
        reason or ("" if verdict else "No observer has looked at it yet"),
        verdict_at,
        state or "in_service",
        state_at,
        by or "",
        state_reason or "",
        unschedulable,
        foreign,
        gpus or 0,
        in_flight,
        workflow,
        workflow_state or "",
        step or 0,
        plan,
        text or "",
        until,
    )


@dataclass(frozen=True, slots=True)
class Filters:
    """What the address asks for. Empty means any."""

    cluster: str = ""
    verdict: str = ""
    state: str = ""
    pool: str = ""
    rack: str = ""
    leaf: str = ""
    q: str = ""

    NAMES = ("cluster", "verdict", "state", "pool", "rack", "leaf", "q")

    def active(self) -> list[tuple[str, str]]:
        return [(name, value) for name in self.NAMES if (value := str(getattr(self, name)))]

    def without(self, name: str) -> Filters:
        return replace(self, **{name: ""})

    def take(self, row: NodeRow) -> bool:
        return (
            (not self.verdict or row.verdict == self.verdict)
            and (not self.state or row.state == self.state or (self.state == "held" and row.held))
            and (not self.pool or row.pool == self.pool)
            and (not self.rack or row.rack == self.rack)
            and (not self.leaf or row.leaf == self.leaf)
            and (not self.q or self.q.lower() in row.name.lower())
        )


@dataclass(slots=True)
class Counts:
    """Of the nodes that pass all filters but the one counted; so that each count says what its link will show."""

    nodes: int = 0
    gpus: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    held: int = 0
    in_flight: int = 0

    @property
    def nodes_text(self) -> str:
        return f"{self.nodes:,}"

    @property
    def gpus_text(self) -> str:
        return f"{self.gpus:,}"


def count(all_rows: Sequence[NodeRow], filters: Filters) -> Counts:
    if all(name == "cluster" for name, _value in filters.active()):
        base = by_verdict = by_state = all_rows
    else:
        any_verdict, any_state = filters.without("verdict"), filters.without("state")
        both = any_verdict.without("state")
        base = [row for row in all_rows if both.take(row)]
        by_verdict = [row for row in base if any_verdict.take(row)]
        by_state = [row for row in base if any_state.take(row)]
    return Counts(
        nodes=len(base),
        gpus=sum(map(attrgetter("gpus"), base)),
        verdicts=Counter(map(attrgetter("verdict"), by_verdict)),
        states=Counter(map(attrgetter("state"), by_state)),
        held=sum(row.held for row in by_state),
        in_flight=sum(map(attrgetter("in_flight"), base)),
    )


def ranked(some: Iterable[NodeRow], sort: str = "verdict") -> list[NodeRow]:
    """Worst first; `sort` may also be node, state or since."""
    if sort == "node":
        return sorted(some, key=lambda row: (row.cluster, row.name))
    if sort == "state":
        return sorted(some, key=lambda row: (row.state, VERDICT_RANK.get(row.verdict, 9), row.name))
    if sort == "since":
        return sorted(
            some, key=lambda row: (-((row.state_at if row.verdict == "healthy" else row.verdict_at) or 0.0), row.name)
        )
    return sorted(some, key=_badness)


def worst(some: Iterable[NodeRow]) -> NodeRow:
    """The first of `ranked`, without sorting the others."""
    return min(some, key=_badness)


def _badness(row: NodeRow) -> tuple[int, bool, bool, str]:
    return VERDICT_RANK.get(row.verdict, 9), row.plain, row.state == "in_service", row.name


def grouped(some: Sequence[NodeRow], group: str, many_clusters: bool) -> list[tuple[str, str, list[NodeRow]]]:
    """(cluster, key, nodes) by rack, leaf or pool, in natural order; "" is the key of nodes that name none."""
    found: dict[tuple[str, str], list[NodeRow]] = {}
    key_of = {"rack": lambda row: row.rack, "leaf": lambda row: row.leaf, "pool": lambda row: row.pool}[group]
    for row in some:
        found.setdefault((row.cluster if many_clusters else "", key_of(row)), []).append(row)
    order = sorted(found, key=lambda pair: (pair[0], pair[1] == "", _natural(pair[1])))
    return [(cluster, key, found[cluster, key]) for cluster, key in order]


def _natural(word: str) -> list[tuple[int, str]]:
    """`r9` before `r10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in DIGITS.split(word)]
