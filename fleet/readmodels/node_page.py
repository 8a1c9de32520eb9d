"""Everything the page of one node shows, in a fixed number of queries.

Decides which incident and workflow the page is about (the open one, else the newest), what stands on each GPU, and what
comes next. Refuses to decide health or policy again: verdicts, blocks and plans are read as they were stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, OuterRef, Value, When
from django.db.models.functions import JSONObject
from django.utils.translation import gettext as _

from fleet.health.models import Incident, NodeVerdict, Signal
from fleet.inventory.models import Alias, Bmc, Device, Node
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES
from fleet.lifecycle.models import NodeLifecycle, Step, Workflow
from fleet.readmodels import measures, words
from fleet.readmodels.gpus import Gpu, Port, gpus_of, ports_of
from fleet.readmodels.phases import Phase, phases
from fleet.tickets.models import Ticket

RECENT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Next:
    """The next act in words, and when it comes if that is known."""

    text: str
    until: datetime | None = None
    tone: str = "go"


@dataclass(slots=True)
class NodePage:
    node: Node
    lifecycle: NodeLifecycle
    verdict: NodeVerdict
    incident: Incident | None
    workflow: Workflow | None
    steps: list[Step]
    signals: list[Signal]
    ticket: dict[str, Any] | None
    gpus: list[Gpu]
    ports: list[Port]
    measured_at: datetime | None
    rows: measures.Rows
    next: Next
    phases: list[Phase] = field(default_factory=list)

    @property
    def aliases(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for kind, value in self.node.alias_rows:  # type: ignore[attr-defined]
            found.setdefault(kind, []).append(value)
        return found

    @property
    def alias_count(self) -> int:
        return len(self.node.alias_rows)  # type: ignore[attr-defined]

    @property
    def alias_lines(self) -> list[tuple[str, str]]:
        return [(kind.replace("_", " "), ", ".join(values)) for kind, values in self.aliases.items()]

    @property
    def well_ports(self) -> int:
        return sum(1 for port in self.ports if port.verdict == "healthy")

    @property
    def fresh(self) -> bool:
        """Something of a GPU was measured lately."""
        return any(gpu.measured for gpu in self.gpus)

    @property
    def bmcs(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self.node.bmc_rows]  # type: ignore[attr-defined]

    @property
    def working(self) -> bool:
        """A workflow is open on it."""
        return self.workflow is not None and self.workflow.state in OPEN_WORKFLOW_STATES

    @property
    def seen_gpus(self) -> int:
        return sum(1 for gpu in self.gpus if not gpu.gone)

    @property
    def attempts(self) -> int:
        return sum(1 for step in self.steps if self.workflow and step.index == self.workflow.step)


def find(name: str, clusters: frozenset[str] | None, cluster: str = "") -> list[Node]:
    """Nodes of that name in the clusters named (None: all), with their parts. One query."""
    mine = OuterRef("pk")
    device = JSONObject(kind="kind", key="key", index="index", serial="serial", gone="gone_at", pci="pci")
    bmc = JSONObject(kind="kind", address="address", condition="condition", text="condition_text",
                     answered="answered_at", pinned="pinned_serial", uuid="pinned_uuid")  # fmt: skip
    ticket = JSONObject(pk="pk", title="title", part="part", serial="serial")
    rows = Node.objects.select_related("cluster", "pool", "lifecycle", "verdict_row").annotate(
        device_rows=ArraySubquery(Device.objects.filter(node=mine).order_by("kind", "index", "key").values(row=device)),
        alias_rows=ArraySubquery(
            Alias.objects.filter(node=mine).order_by("kind", "value").values(row=JSONObject(kind="kind", value="value"))
        ),
        bmc_rows=ArraySubquery(Bmc.objects.filter(node=mine).order_by("kind", "address").values(row=bmc)),
        ticket_rows=ArraySubquery(
            Ticket.objects.filter(node=mine, state=Ticket.OPEN).order_by("-opened_at").values(row=ticket)[:1]
        ),
    )
    rows = rows.filter(name=name, cluster__removed_at=None)
    if clusters is not None:
        rows = rows.filter(cluster__name__in=clusters)
    if cluster:
        rows = rows.filter(cluster__name=cluster)
    found: list[Any] = list(rows.order_by("cluster__name")[:20])
    for node in found:
        node.alias_rows = [(row["kind"], row["value"]) for row in node.alias_rows]
    return found


def read(node: Node, now: datetime, history: timedelta = RECENT) -> NodePage:
    """The page of a node that came from `find`: five queries. `history` is how far back the measures go."""
    workflow = Workflow.objects.filter(node=node).select_related("incident").order_by(
        Case(When(ended_at=None, then=Value(0)), default=Value(1)), "-created_at"
    ).first()  # fmt: skip
    incident = Incident.objects.filter(node=node).order_by(
        Case(When(state=Incident.OPEN, then=Value(0)), default=Value(1)), "-detected_at"
    ).first()  # fmt: skip
    if workflow is not None and workflow.ended_at is None and workflow.incident is not None:
        incident = workflow.incident
    steps = list(Step.objects.filter(workflow=workflow).order_by("started_at", "pk")) if workflow else []
    signals = list(Signal.objects.filter(node=node, cleared_at=None).order_by("-opened_at")[:50])
    lifecycle = _lifecycle(node)
    verdict = _verdict(node)
    rows = measures.read(node.pk, now - max(history, RECENT))
    fresh = [row for row in rows if row[0] >= now - RECENT]
    devices: list[dict[str, Any]] = node.device_rows  # type: ignore[attr-defined]
    tickets: list[dict[str, Any]] = node.ticket_rows  # type: ignore[attr-defined]
    told = workflow if workflow is not None and incident is not None and workflow.incident_id == incident.pk else None
    page = NodePage(
        node=node,
        lifecycle=lifecycle,
        verdict=verdict,
        incident=incident,
        workflow=workflow,
        steps=steps,
        signals=signals,
        ticket=tickets[0] if tickets else None,
        gpus=gpus_of(node, devices, verdict, signals, fresh),
        ports=ports_of(devices, verdict),
        measured_at=rows[-1][0] if rows else verdict.telemetry_at,
        rows=rows,
        next=Next(""),
        phases=phases(incident, told, steps if told else [], now),
    )
    page.next = next_act(page)
    return page


def _lifecycle(node: Node) -> NodeLifecycle:
    try:
        return node.lifecycle
    except NodeLifecycle.DoesNotExist:
        state = "in_service" if node.managed else "unmanaged"
        return NodeLifecycle(node=node, cluster_id=node.cluster_id, state=state, since=node.first_seen_at)


def _verdict(node: Node) -> NodeVerdict:
    try:
        return node.verdict_row
    except NodeVerdict.DoesNotExist:
        reason = _("nothing was measured yet")
        return NodeVerdict(node=node, cluster_id=node.cluster_id, since=node.first_seen_at, reason=reason)


def next_act(page: NodePage) -> Next:
    """What happens next with the node, as one sentence without its full stop."""
    workflow = page.workflow
    if workflow is None or workflow.ended_at is not None:
        return _next_without_workflow(page)
    verb = words.word(words.VERBS, workflow.verb).lower()
    if workflow.state == "planned":
        steps = ", ".join(words.word(words.VERBS, entry["verb"]).lower() for entry in workflow.plan)
        return Next(_("nothing is written in mode observe; it would do: %(steps)s") % {"steps": steps}, tone="")
    if workflow.state == "waiting":
        return Next(_("a person approves the plan of %(workflow)s") % {"workflow": workflow.label}, tone="hot")
    if workflow.state == "repair":
        name = f"TKT-{page.ticket['pk']}" if page.ticket else _("its ticket")
        return Next(_("someone repairs it and closes %(ticket)s; then it is tested") % {"ticket": name}, tone="hot")
    if workflow.state == "blocked":
        return Next(_("%(verb)s as soon as it may") % {"verb": verb}, workflow.blocked_until or workflow.wake_at, "hot")
    after = workflow.plan[workflow.step + 1]["verb"] if workflow.step + 1 < len(workflow.plan) else ""
    doing = _("%(verb)s goes on") % {"verb": verb}
    if after:
        doing = _("%(verb)s goes on, then %(after)s") % {"verb": verb, "after": words.word(words.VERBS, after).lower()}
    return Next(doing)


def _next_without_workflow(page: NodePage) -> Next:
    state, verdict = page.lifecycle.state, page.verdict.verdict
    open_incident = page.incident is not None and page.incident.state == Incident.OPEN
    if state == "unmanaged":
        return Next(_("nothing: it is outside the managed set and is never touched"), tone="")
    if state == "retired":
        return Next(_("nothing: it left the cluster"), tone="")
    if state == "released":
        return Next(_("a person took it back; it counts as in service when it is schedulable and healthy"), tone="")
    if open_incident:
        return Next(_("no workflow was planned; the card Why says what keeps it"), tone="hot")
    if verdict == "unknown":
        return Next(_("nothing until fresh data arrives; unknown never starts a disruption"), tone="")
    if page.node.foreign_hold:
        return Next(_("nothing by Muster: whoever cordoned it must uncordon it"), tone="")
    return Next(_("nothing is planned"), tone="")


def plan_words(plan: list[dict[str, Any]]) -> list[str]:
    return [words.word(words.VERBS, str(entry.get("verb", ""))) for entry in plan]
