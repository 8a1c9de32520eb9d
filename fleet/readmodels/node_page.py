"""Everything the page of one node shows, in a fixed number of queries.

Decides which incident and workflow the page is about (the open one, else the newest), what stands on each GPU, and what
comes next. Refuses to decide health or policy again: verdicts, blocks and plans are read as they were stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from fleet.health.models import Incident, NodeVerdict, Signal
from fleet.inventory.models import Node
from fleet.lifecycle import owners
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES
from fleet.lifecycle.models import NodeLifecycle, Workflow
from fleet.ports.history import Past, Whose
from fleet.readmodels import measures, words
from fleet.readmodels.gpus import Gpu, Port, gpus_of, ports_of
from fleet.readmodels.node_parts import Parts, find, parts_of
from fleet.readmodels.phases import Phase, phases

__all__ = ["Next", "NodePage", "find", "read"]
RECENT = timedelta(minutes=10)
STALE = timedelta(minutes=2)
GRACE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Next:
    """The next act in words, and when it comes if that is known."""

    text: str
    until: datetime | None = None
    tone: str = "go"


@dataclass(frozen=True, slots=True)
class Beside:
    """Another owner of the node: what it does, by which mark, since when, and what Muster does about it."""

    name: str
    doing: str
    mark: str
    since: datetime | None
    muster: str


def instant(text: str) -> datetime | None:
    """A stored time; None where none was told."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


@dataclass(slots=True)
class NodePage:
    node: Node
    parts: Parts
    lifecycle: NodeLifecycle
    verdict: NodeVerdict
    gpus: list[Gpu]
    ports: list[Port]
    measured_at: datetime | None
    rows: measures.Rows
    stale: bool
    unwatched: datetime | None  # since when no observer keeps the verdict true; None while one does
    phases: list[Phase] = field(default_factory=list)
    next: Next = field(default_factory=lambda: Next(""))
    past: Past | None = None  # where `rows` came from a longer range than samples are kept for

    @property
    def shown_verdict(self) -> str:
        """Unknown while nobody watches: a healthy of yesterday is no healthy."""
        return "unknown" if self.unwatched else str(self.verdict.verdict)

    @property
    def incident(self) -> Incident | None:
        return self.parts.incident

    @property
    def workflow(self) -> Workflow | None:
        return self.parts.workflow

    @property
    def signals(self) -> list[Signal]:
        return self.parts.signals

    @property
    def whose(self) -> Whose:
        """The node as stores of measurements know it."""
        spoken = [alias.value for alias in self.parts.aliases if alias.kind in ("hostname", "ip")]
        return Whose(self.node.pk, self.node.name, (self.node.name, *spoken))

    def show(self, past: Past) -> None:
        """Draw from this past; what stands on each GPU now stays as it is."""
        self.past, self.rows = past, past.rows

    @property
    def alias_count(self) -> int:
        return len(self.parts.aliases)

    @property
    def alias_lines(self) -> list[tuple[str, str]]:
        found: dict[str, list[str]] = {}
        for alias in self.parts.aliases:
            found.setdefault(alias.kind.replace("_", " "), []).append(alias.value)
        return [(kind, ", ".join(values)) for kind, values in found.items()]

    @property
    def well_ports(self) -> int:
        return sum(1 for port in self.ports if port.verdict == "healthy")

    @property
    def fresh(self) -> bool:
        """Something of a GPU was measured lately."""
        return any(gpu.measured for gpu in self.gpus)

    @property
    def working(self) -> bool:
        """A workflow is open on it."""
        return self.workflow is not None and self.workflow.state in OPEN_WORKFLOW_STATES

    @property
    def held_by_us(self) -> bool:
        """By a workflow of ours, whose mark the cluster has shown already or not yet."""
        if self.node.hold_value:
            return self.parts.hold_is_ours
        return self.working and self.workflow is not None and bool(self.workflow.hold_value)

    @property
    def foreign_mark(self) -> str:
        """The mark of another installation's hold, or "" without one."""
        return "" if self.held_by_us else self.node.hold_value

    @property
    def owners(self) -> list[Beside]:
        """Who else works on the node or holds it, the strictest first."""
        return [
            Beside(owner.name, owner.doing, owner.mark, instant(owner.since), words.word(words.BESIDE, owner.stance))
            for owner in owners.of_row(self.node.owners)
        ]

    @property
    def seen_gpus(self) -> int:
        return sum(1 for gpu in self.gpus if gpu.measured and not gpu.gone)

    @property
    def step_text(self) -> str:
        """What the newest try of the current step said."""
        workflow = self.workflow
        tries = [step for step in self.parts.steps if workflow is not None and step.index == workflow.step]
        return tries[-1].text if tries else ""


def read(node: Node, now: datetime, history: timedelta = RECENT) -> NodePage:
    """The page of a node that came from `find`: two queries. `history` is how far back the measures go."""
    parts = parts_of(node)
    lifecycle, verdict = _lifecycle(node), _verdict(node)
    rows = measures.read(node.pk, now - max(history, RECENT))
    fresh = [row for row in rows if row[0] >= now - RECENT]
    workflow, incident = parts.workflow, parts.incident
    told = workflow if workflow and incident and workflow.incident_id == incident.pk else None
    unwatched = unwatched_since(node, now)
    stale = unwatched is not None or verdict.telemetry_at is None or verdict.telemetry_at < now - STALE
    page = NodePage(
        unwatched=unwatched,
        stale=stale,
        node=node,
        parts=parts,
        lifecycle=lifecycle,
        verdict=verdict,
        gpus=gpus_of(node, parts.devices, verdict, parts.signals, fresh, stale),
        ports=ports_of(parts.devices, verdict),
        measured_at=max([at for at in (rows[-1][0] if rows else None, verdict.telemetry_at) if at], default=None),
        rows=rows,
        phases=phases(parts.incident, told, parts.steps if told else [], now),
    )
    page.next = next_act(page)
    return page


def unwatched_since(node: Node, now: datetime) -> datetime | None:
    """When the cluster's observer was last there, if it is not: the verdict is then the last word, not today's."""
    until = node.cluster.observer_until
    if until is not None and until >= now - GRACE:
        return None
    return until or node.cluster.created_at


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
        name = page.parts.ticket.label if page.parts.ticket else _("its ticket")
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
    if open_incident and page.incident is not None and page.incident.action_class == "confirm":
        return Next(_("an active test confirms the suspicion or not; nothing is done to the node before"), tone="")
    if open_incident:
        return Next(_("no workflow was planned; the card Why says what keeps it"), tone="hot")
    if verdict == "unknown":
        return Next(_("nothing until fresh data arrives; unknown never starts a disruption"), tone="")
    if page.node.foreign_hold:
        return Next(_("nothing by Muster: whoever cordoned it must uncordon it"), tone="")
    return Next(_("nothing is planned"), tone="")


def plan_words(plan: list[dict[str, Any]]) -> list[str]:
    return [words.word(words.VERBS, str(entry.get("verb", ""))) for entry in plan]
