"""The gangs of the clusters in view, filtered, counted, ordered and cut into pages by the database.

Decides which filters exist and the orders: by what is held for nothing, by wait, by queue. Three queries a page: counts
with the queues to choose from, the rows, their conditions. Refuses members and objects, which can be large: the page of
one gang reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, Exists, F, IntegerField, OuterRef, Q, QuerySet, Sum, Value, When

from fleet.gangs.models import GangCondition, GangRow
from fleet.readmodels import gang_suspended
from fleet.readmodels.gang_conditions import Shown, of_gangs
from fleet.readmodels.gang_cost import idle_seconds
from fleet.readmodels.gang_reasons import Told, told

SIZE = 25
Visible = frozenset[str] | None
STATES = ("partial", "waiting", "starting", "suspended", "running", "empty", "finished")  # who needs somebody first
WAIT = ("waiting", "partial")
ORDERS = ("idle", "wait", "queue")
COLUMNS = (
    "pk", "cluster_id", "cluster__name", "key", "system", "kind", "namespace", "name", "title", "owner", "queue_key",
    "queue", "priority", "position", "state", "wanted", "minimum", "placed", "running", "ready", "gpus_per_member",
    "gpus_wanted", "gpus_held", "gpus_held_idle", "waits_since", "started_at", "idle_since", "reason_code", "reason",
    "blockers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for; empty fields ask for nothing.

    `state` may also be "waits" (waiting or partly placed) or "idle" (holds GPUs for nothing).
    """

    state: str = ""
    queue: str = ""  # its key, or its name where no object tells of it
    system: str = ""
    cluster: str = ""
    condition: str = ""
    q: str = ""
    by: str = "idle"
    page: int = 1

    @property
    def narrow(self) -> bool:
        return bool(self.state or self.queue or self.system or self.condition or self.q)


@dataclass(slots=True)
class GangLine:
    """One gang of a list. `idle` are the GPU-seconds that it has held for nothing up to now."""

    pk: int
    cluster_id: int
    cluster: str
    key: str
    system: str
    kind: str
    namespace: str
    name: str
    title: str
    owner: str
    queue_key: str
    queue: str
    priority: int
    position: int | None
    state: str
    wanted: int
    minimum: int
    placed: int
    running: int
    ready: int
    gpus_per_member: int
    gpus_wanted: int
    gpus_held: int
    gpus_held_idle: int
    waits_since: datetime | None
    started_at: datetime | None
    idle_since: datetime | None
    reason_code: str
    facts: dict[str, Any]
    blockers: list[dict[str, Any]]
    idle: float
    conditions: list[Shown] = field(default_factory=list)
    ours: str = ""  # what Muster did to its job for a drain, and when it ends

    @property
    def waits(self) -> bool:
        return self.state in WAIT

    @property
    def why(self) -> Told | None:
        """None for a gang of which there is nothing to explain."""
        if not self.reason_code:
            return None
        why = told(self.reason_code, self.facts, self.blockers, self.queue)
        return gang_suspended.ours(why, self.ours) if self.ours and why.code == "SUSPENDED" else why

    def jobs(self, objects: Sequence[Mapping[str, Any]]) -> set[gang_suspended.Named]:
        """Whatever of it can have been suspended; `objects` as its row keeps them."""
        kind, _space, name = self.title.partition(" ")
        spoken = {(str(one.get("kind")), str(one.get("namespace")), str(one.get("name"))) for one in objects}
        return {*spoken, (kind, self.namespace, name), (self.kind, self.namespace, self.name)}

    @property
    def could_now(self) -> int:
        """Members that would fit now, of those that it lacks."""
        lacking, slots = self.facts.get("lacking") or 0, self.facts.get("slots") or 0
        if not self.waits:
            return 0
        return int(lacking if self.facts.get("fits") else min(lacking, slots))


NAMES = [one.name for one in fields(GangLine)][: len(COLUMNS) + 1]


@dataclass(slots=True)
class Tally:
    """Over all gangs that pass every filter but the state's."""

    states: Counter[str] = field(default_factory=Counter)
    queues: list[tuple[str, str, str]] = field(default_factory=list)  # key, name, system
    systems: list[str] = field(default_factory=list)
    idle_gangs: int = 0
    idle_gpus: int = 0
    idle: float = 0.0  # GPU-seconds of those that hold some now

    @property
    def all(self) -> int:
        return sum(self.states.values())

    @property
    def waiting(self) -> int:
        return sum(self.states[state] for state in WAIT)


@dataclass(slots=True)
class GangPage:
    rows: list[GangLine]
    tally: Tally
    number: int
    more: bool

    @property
    def first(self) -> int:
        return (self.number - 1) * SIZE + 1 if self.rows else 0


def scope(visible: Visible, cluster: str = "") -> dict[str, Any]:
    """The filters on rows with a `cluster` that keep to what the reader may see."""
    found: dict[str, Any] = {"cluster__removed_at": None}
    if visible is not None:
        found["cluster__name__in"] = visible
    if cluster:
        found["cluster__name"] = cluster
    return found


def read(visible: Visible, wanted: Wanted, now: datetime) -> GangPage:
    """Three queries."""
    within = _within(visible, wanted)
    tally = _tally(within, wanted, now)
    rows = _in_state(_narrowed(within, wanted), wanted.state)
    start = (wanted.page - 1) * SIZE
    found = lines(ordered(rows, wanted.by)[start : start + SIZE + 1], now)
    shown = found[:SIZE]
    conditions = of_gangs((line.cluster_id, line.key) for line in shown)
    for line in shown:
        line.conditions = conditions.get((line.cluster_id, line.key), [])
    return GangPage(shown, tally, wanted.page, len(found) > SIZE)


def chosen(visible: Visible, wanted: Wanted) -> QuerySet[GangRow]:
    """Every gang that passes all filters, in no order."""
    return _in_state(_narrowed(_within(visible, wanted), wanted), wanted.state)


def present(visible: Visible, cluster: str = "") -> QuerySet[GangRow]:
    return GangRow.objects.filter(**scope(visible, cluster), gone_at=None)


def lines(rows: QuerySet[GangRow], now: datetime) -> list[GangLine]:
    """Without their conditions. One query, and two more where some are suspended."""
    read = rows.annotate(idle_now=idle_seconds(now)).values_list(*COLUMNS, "idle_now")
    found = [GangLine(*row) for row in read]
    _tell_ours([line for line in found if line.state == "suspended"])
    return found


def _tell_ours(suspended: Sequence[GangLine]) -> None:
    if not suspended:
        return
    rows = GangRow.objects.filter(pk__in=[line.pk for line in suspended]).values_list("pk", "objects_seen")
    spoken = dict(rows)
    jobs = {line.pk: line.jobs(spoken.get(line.pk, [])) for line in suspended}
    ours = gang_suspended.sentences((line.cluster_id, job) for line in suspended for job in jobs[line.pk])
    for line in suspended:
        told = (ours.get((line.cluster_id, job), "") for job in sorted(jobs[line.pk]))
        line.ours = next(filter(None, told), "")


def ordered(rows: QuerySet[GangRow], by: str) -> QuerySet[GangRow]:
    rank = Case(
        *(When(state=state, then=Value(place)) for place, state in enumerate(STATES)),
        default=Value(len(STATES)),
        output_field=IntegerField(),
    )
    oldest = F("waits_since").asc(nulls_last=True)
    if by == "wait":
        return rows.order_by(oldest, rank, "pk")
    if by == "queue":
        named = Case(When(queue_key="", then=Value(1)), default=Value(0), output_field=IntegerField())
        return rows.order_by(
            "cluster__name", named, "queue", "queue_key", F("position").asc(nulls_last=True), rank, "pk"
        )
    return rows.order_by("-gpus_held_idle", rank, oldest, "pk")


def _within(visible: Visible, wanted: Wanted) -> QuerySet[GangRow]:
    rows = present(visible, wanted.cluster)
    if wanted.q:
        words = Q(title__icontains=wanted.q) | Q(key__icontains=wanted.q) | Q(owner__icontains=wanted.q)
        rows = rows.filter(words | Q(queue__icontains=wanted.q))
    if wanted.condition:
        has = GangCondition.objects.filter(
            cluster_id=OuterRef("cluster_id"), gang_key=OuterRef("key"), code=wanted.condition, ended_at=None
        )
        rows = rows.filter(Exists(has))
    return rows


def _in_state(rows: QuerySet[GangRow], state: str) -> QuerySet[GangRow]:
    if state == "idle":
        return rows.filter(gpus_held_idle__gt=0)
    if state == "waits":
        return rows.filter(state__in=WAIT)
    return rows.filter(state=state) if state else rows


def _narrowed(rows: QuerySet[GangRow], wanted: Wanted) -> QuerySet[GangRow]:
    if wanted.queue:
        rows = rows.filter(queue_key=wanted.queue)
    return rows.filter(system=wanted.system) if wanted.system else rows


def _tally(rows: QuerySet[GangRow], wanted: Wanted, now: datetime) -> Tally:
    holds = Q(gpus_held_idle__gt=0)
    grouped = (
        rows.order_by()
        .values("state", "system", "queue_key", "queue")
        .annotate(
            n=Count("pk"),
            holding=Count("pk", filter=holds),
            held=Sum("gpus_held_idle"),
            seconds=Sum(idle_seconds(now), filter=holds),
        )
    )
    found, queues, systems = Tally(), {}, set()
    for row in grouped:
        systems.add(row["system"])
        if row["queue_key"]:
            queues[row["queue_key"]] = (row["queue_key"], row["queue"], row["system"])
        if wanted.queue not in ("", row["queue_key"]) or wanted.system not in ("", row["system"]):
            continue
        found.states[row["state"]] += row["n"]
        found.idle_gangs += row["holding"]
        found.idle_gpus += row["held"] or 0
        found.idle += row["seconds"] or 0.0
    found.queues = sorted(queues.values(), key=lambda queue: (queue[1], queue[0]))
    found.systems = sorted(systems)
    return found


@dataclass(frozen=True, slots=True)
class Helping:
    """A node whose return is part of what lets gangs gather, and the GPUs that those would then use."""

    node: str
    cluster: str
    out: Mapping[str, Any]
    gangs: tuple[tuple[int, str], ...]  # page, title
    gpus: int
    together: tuple[str, ...]  # other nodes that must come back too, for one of them at least


HELPING_FROM = 200  # gangs looked at: those that hold most, then those that wait longest


def helping(visible: Visible, cluster: str = "", most: int = 8) -> list[Helping]:
    """Nodes by the GPUs that their return sets to work. One query."""
    rows = ordered(present(visible, cluster).filter(state__in=WAIT).exclude(blockers=[]), "idle")
    read = rows.values_list("pk", "title", "cluster__name", "gpus_wanted", "blockers")[:HELPING_FROM]
    found: dict[tuple[str, str], list[Any]] = {}
    for pk, title, name, gpus, blockers in read:
        for one in blockers:
            entry = found.setdefault((name, one["node"]), [one, [], 0, set()])
            entry[1].append((pk, title))
            entry[2] += gpus
            entry[3].update(_others(blockers, one["node"]))
    made = [
        Helping(node, name, out, tuple(gangs), gpus, tuple(sorted(others)))
        for (name, node), (out, gangs, gpus, others) in found.items()
    ]
    return sorted(made, key=lambda one: (-one.gpus, one.out.get("back_at") or "~", one.node))[:most]


def _others(blockers: Sequence[Mapping[str, Any]], node: str) -> list[str]:
    return [one["node"] for one in blockers if one["node"] != node]
