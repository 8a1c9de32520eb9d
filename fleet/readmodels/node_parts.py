"""The rows that belong to one node, read together.

Decides which workflow and which incident a node's page is about: the open one, else a plan or a shared one, else the
newest. Two queries: one finds the node, one brings everything that hangs on it. Refuses to judge what it brings.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Case, Exists, IntegerField, OuterRef, Q, QuerySet, Subquery, Value, When

from fleet.health.models import Incident, Signal
from fleet.inventory.models import Alias, Bmc, Device, Node
from fleet.lifecycle.models import Step, Workflow
from fleet.readmodels.packed import Row, rebuilt, rows_of
from fleet.telemetry.models import Rejection
from fleet.tickets.models import Ticket

SIGNALS = 50
REFUSED = 10
RANK = Case(
    When(Q(ended_at=None) & ~Q(state="planned"), then=Value(0)),
    When(ended_at=None, then=Value(1)),
    default=Value(2),
    output_field=IntegerField(),
)
OPEN_FIRST = Case(When(state=Incident.OPEN, then=Value(0)), default=Value(1), output_field=IntegerField())


@dataclass(slots=True)
class Parts:
    devices: list[Device]
    aliases: list[Alias]
    bmcs: list[Bmc]
    signals: list[Signal]
    ticket: Ticket | None
    incident: Incident | None
    workflow: Workflow | None
    steps: list[Step]
    rejections: list[Rejection]
    hold_is_ours: bool


def marked_by_us() -> Exists:
    """Does the mark of a hold on a node come from a workflow of ours? An annotation alone may be anybody's."""
    return Exists(
        Workflow.objects.filter(node=OuterRef("pk"), hold_value=OuterRef("hold_value")).exclude(hold_value="")
    )


def find(name: str, clusters: frozenset[str] | None, cluster: str = "") -> list[Node]:
    """Nodes of that name in the clusters named (None: all). One query."""
    rows = Node.objects.select_related("cluster", "pool", "lifecycle", "verdict_row")
    rows = rows.filter(name=name, cluster__removed_at=None)
    if clusters is not None:
        rows = rows.filter(cluster__name__in=clusters)
    if cluster:
        rows = rows.filter(cluster__name=cluster)
    return list(rows.order_by("cluster__name")[:20])


def parts_of(node: Node) -> Parts:
    """Everything of one node. One query."""
    mine = OuterRef("pk")
    current = Workflow.objects.filter(node=OuterRef(OuterRef("pk"))).order_by(RANK, "-created_at", "-pk").values("pk")
    row = (
        Node.objects.filter(pk=node.pk)
        .annotate(
            p_devices=rows_of(Device.objects.filter(node=mine).order_by("kind", "index", "key")),
            p_aliases=rows_of(Alias.objects.filter(node=mine).order_by("kind", "value")),
            p_bmcs=rows_of(Bmc.objects.filter(node=mine).order_by("kind", "address")),
            p_signals=rows_of(Signal.objects.filter(node=mine, cleared_at=None).order_by("-opened_at", "-pk"), SIGNALS),
            p_tickets=rows_of(Ticket.objects.filter(node=mine, state=Ticket.OPEN).order_by("-opened_at"), 1),
            p_incidents=rows_of(Incident.objects.filter(node=mine).order_by(OPEN_FIRST, "-detected_at", "-pk"), 1),
            p_shared=rows_of(_shared_with(), 1),
            p_workflows=rows_of(Workflow.objects.filter(node=mine).order_by(RANK, "-created_at", "-pk"), 1),
            p_cause=rows_of(Incident.objects.filter(workflows__pk=Subquery(current[:1]))),
            p_steps=rows_of(Step.objects.filter(workflow_id=Subquery(current[:1])).order_by("started_at", "pk")),
            p_rejections=rows_of(_refused(node), REFUSED),
            p_ours=marked_by_us(),
        )
        .values("p_devices", "p_aliases", "p_bmcs", "p_signals", "p_tickets", "p_incidents", "p_shared", "p_workflows",
                "p_cause", "p_steps", "p_rejections", "p_ours")
        .get()
    )  # fmt: skip
    workflow = _first(rebuilt(Workflow, row["p_workflows"]))
    incident = _first(rebuilt(Incident, row["p_incidents"]))
    cause, shared = _first(rebuilt(Incident, row["p_cause"])), _first(rebuilt(Incident, row["p_shared"]))
    if shared is not None and (incident is None or incident.state != Incident.OPEN):
        incident = shared
    if workflow is not None and workflow.ended_at is None and cause is not None:
        incident = cause
    return Parts(
        devices=rebuilt(Device, row["p_devices"]),
        aliases=rebuilt(Alias, row["p_aliases"]),
        bmcs=rebuilt(Bmc, row["p_bmcs"]),
        signals=rebuilt(Signal, row["p_signals"]),
        ticket=_first(rebuilt(Ticket, row["p_tickets"])),
        incident=incident,
        workflow=workflow,
        steps=rebuilt(Step, row["p_steps"]),
        rejections=rebuilt(Rejection, row["p_rejections"]),
        hold_is_ours=row["p_ours"],
    )


def _refused(node: Node) -> QuerySet[Rejection]:
    """Input that was refused and came from the node, or claimed to: by its exporters, or by a shipper in its name."""
    mine = Q(subject=node.name) | Q(subject__startswith=f"{node.name}/")
    return Rejection.objects.filter(mine, cluster_id=node.cluster_id).order_by("-last_at")


def _shared_with() -> QuerySet[Incident]:
    """Open incidents that many nodes share and that this one shows a sign of now."""
    signs = Signal.objects.filter(incident=OuterRef("pk"), node=OuterRef(OuterRef("pk")), cleared_at=None)
    return Incident.objects.filter(Exists(signs), node=None, state=Incident.OPEN).order_by("-detected_at")


def _first(rows: list[Row]) -> Row | None:
    return rows[0] if rows else None
