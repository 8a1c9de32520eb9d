"""Everything the page of one workflow shows, in a fixed number of queries.

Decides how stored tries become the steps of a stepper: done, current, later; how many attempts there were; what blocks
the current one and until when. Refuses to say that a node is drained while its drain is under way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import OuterRef, Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from fleet.access.rights import APPROVE, OPERATE
from fleet.audit.models import AuditRow
from fleet.audit.services import chain_of
from fleet.lifecycle import skipping
from fleet.lifecycle.machine import ENDED_WORKFLOW_STATES
from fleet.lifecycle.models import Intent, NodeLifecycle, Step, Workflow
from fleet.lifecycle.planner import mode_on
from fleet.lifecycle.playbooks import CLAIMS, remedy_index
from fleet.lifecycle.skipping import SKIPPABLE
from fleet.policy.models import Approval, ApprovalVote
from fleet.readmodels import explain, phrases, words, workflow_facts
from fleet.readmodels.packed import rebuilt, rows_of
from fleet.readmodels.phases import Phase, over_at, phases
from fleet.readmodels.workflow_facts import Deadline, Halt, Rung
from fleet.tickets.models import Ticket

RETRYABLE = ("running", "blocked")
ADDED: dict[str, tuple[tuple[str, ...], words.Word]] = {
    "force": (("pdb", "eviction_denied", "namespace_terminating"), lazy("No budget keeps a pod of this drain.")),
    "hurry": (("job_wait", "gang_joining", "gang_resting", "workload_apart"), lazy("It waits for no job and no gang.")),
}
"""What a person may add to a drain: the reason codes for which it makes sense, and what is said otherwise."""
INNER = (
    "begun", "first_look_at", "rounds_refused", "budgets", "was_kept", "passed", "waiting_since", "unready_since",
    "confirmed", "not_confirmed", "in_use_since", "nvlink_since", "paused_since", "busy_since", "failed_since",
    "held_uid", "apart_since", "workloads", "breaks", "ray_until", "stopping", "evicted_after_all", "unclear_since",
    "at_once", "looked", "planned", "unseen",
)  # fmt: skip
"""What a step remembers for itself alone."""


@dataclass(slots=True)
class StepLine:
    """One verb of the plan with its tries so far."""

    index: int
    verb: str
    state: str  # done, cur, todo, failed, skipped, cancelled
    tries: list[Step] = field(default_factory=list)
    memo: list[tuple[str, str]] = field(default_factory=list)
    guard: str = ""  # the cap that a later step must have a claim of
    left_out: str = ""  # which rung of its ladder is not in this plan, and why

    @property
    def number(self) -> int:
        return self.index + 1

    @property
    def last(self) -> Step | None:
        return self.tries[-1] if self.tries else None

    @property
    def text(self) -> str:
        """What its last try said, else what the verb is going to do."""
        told = (self.last.text if self.last else "") or words.word(words.VERB_SENTENCES, self.verb)
        return f"{told} {self.left_out}".strip()

    @property
    def guard_word(self) -> str:
        """The cap that it needs room under, with freezes and windows, before it may begin; "" where it needs none."""
        return words.word(words.CAP_KINDS, self.guard).lower() if self.guard else ""

    @property
    def state_word(self) -> str:
        return words.word(words.STEP_STATES, self.state).lower()

    @property
    def label(self) -> str:
        return words.word(words.VERBS, self.verb)

    def seconds(self, now: datetime) -> float | None:
        """All its tries together."""
        if not self.tries:
            return None
        return sum(((over_at(step) or now) - step.started_at).total_seconds() for step in self.tries)


@dataclass(slots=True)
class WorkflowPage:
    workflow: Workflow
    state: NodeLifecycle | None
    steps: list[StepLine]
    intents: list[Intent]
    ticket: Ticket | None
    people: list[AuditRow]
    phases: list[Phase]
    output: list[OutputLine]
    wait: explain.Wait | None = None
    request: Approval | None = None
    deadline: Deadline | None = None
    rungs: list[Rung] = field(default_factory=list)
    record: str = ""
    lasted: workflow_facts.Lasted | None = None
    halt: Halt | None = None
    unskippable: str = ""

    @property
    def mode(self) -> str:
        """The least of its cluster's, its pool's and its rule's."""
        return mode_on(self.workflow.node, self.workflow.incident, self.workflow.cluster)

    @property
    def stalled(self) -> bool:
        """Beyond its deadline, or due and taken up by nobody."""
        late = self.deadline is not None and self.deadline.over
        return late or (self.wait is not None and self.wait.code in ("deadline", "worker", "stalled"))

    @property
    def votes(self) -> list[ApprovalVote]:
        return sorted(self.request.votes.all(), key=lambda vote: vote.at) if self.request else []

    @property
    def ended(self) -> bool:
        return self.workflow.state in ENDED_WORKFLOW_STATES

    @property
    def current(self) -> StepLine | None:
        return next((line for line in self.steps if line.state == "cur"), None)

    @property
    def after(self) -> StepLine | None:
        """The step after the current one."""
        later = (line for line in self.steps if line.state == "todo")
        return next(later, None)

    @property
    def max_attempts(self) -> int:
        return self.workflow.attempts if remedy_index(self.workflow.plan) is not None else 1

    @property
    def next_at(self) -> datetime | None:
        """When it is tried again: the block's end, else its wake-up."""
        if self.ended or self.workflow.state in ("planned", "waiting", "repair"):
            return None
        return self.workflow.blocked_until or self.workflow.wake_at


@dataclass(frozen=True, slots=True)
class OutputLine:
    at: datetime
    step: int
    verb: str
    text: str
    bad: bool


def read(pk: int, clusters: frozenset[str] | None, now: datetime) -> WorkflowPage | None:
    """The page of one workflow in the clusters named (None: all); None if there is none to see.

    At most eleven queries: four for the workflow itself, the others for what stands around it, where that can be.
    """
    tickets = Ticket.objects.filter(Q(workflow_id=OuterRef("pk")) | Q(incident=OuterRef("incident_id")))
    rows = Workflow.objects.select_related("cluster", "node", "node__lifecycle", "node__pool", "incident").annotate(
        ticket_rows=rows_of(tickets.order_by("-state", "-opened_at"), 1)
    )
    if clusters is not None:
        rows = rows.filter(cluster__name__in=clusters)
    workflow = rows.filter(pk=pk).first()
    if workflow is None:
        return None
    steps = list(Step.objects.filter(workflow=workflow).order_by("started_at", "pk"))
    intents = list(Intent.objects.filter(workflow=workflow).order_by("-created_at")[:100])
    found = rebuilt(Ticket, workflow.ticket_rows)
    people = AuditRow.objects.filter(chain=chain_of(workflow.cluster_id), object=f"workflow:{pk}")
    people = people.exclude(Q(action__startswith="intent.")).order_by("-seq")[:30]
    try:
        state: NodeLifecycle | None = workflow.node.lifecycle
    except NodeLifecycle.DoesNotExist:
        state = None
    page = WorkflowPage(
        workflow=workflow,
        state=state,
        steps=step_lines(workflow, steps),
        intents=intents,
        ticket=found[0] if found else None,
        people=list(people),
        phases=phases(workflow.incident, workflow, steps, now),
        output=output_of(steps, intents),
    )
    _surround(page, steps, now)
    return page


def _surround(page: WorkflowPage, steps: list[Step], now: datetime) -> None:
    """Why it waits, for whom, until when, and what follows."""
    workflow, current = page.workflow, page.current
    page.wait = explain.in_full(workflow, now)
    if workflow.needs_approval or workflow.state == "waiting":
        page.request = explain.request_of(workflow)
    page.deadline = workflow_facts.deadline_of(workflow, current.last if current else None, now)
    page.rungs = workflow_facts.rungs_of(workflow, steps)
    page.record = workflow_facts.record_of(workflow, _remedy(workflow), now)
    if page.ended:
        page.lasted = workflow_facts.lasted_of(workflow, now)
    page.halt = workflow_facts.halt_of(workflow, now)
    page.unskippable = _unskippable(workflow, now)


def _unskippable(workflow: Workflow, now: datetime) -> str:
    """Why its present step may be skipped by nobody, or not by one person; "" if it may."""
    if workflow.verb not in SKIPPABLE:
        return _("Only a drain, a validation or a soak can be skipped.")
    return phrases.told(skipping.refusal(workflow, now)) if workflow.state in RETRYABLE else ""


def _remedy(workflow: Workflow) -> str:
    """The disruptive verb of its plan that is tried, or is next to be tried."""
    index = remedy_index(workflow.plan)
    return str(workflow.plan[index]["verb"]) if index is not None else ""


def step_lines(workflow: Workflow, steps: list[Step]) -> list[StepLine]:
    """The plan's verbs in order, each with its tries and where it stands."""
    lines = []
    for index, entry in enumerate(workflow.plan):
        verb = str(entry.get("verb", ""))
        tries = [step for step in steps if step.index == index]
        line = StepLine(index, verb, _stand(workflow, index, tries), tries, guard=CLAIMS.get(verb, ""))
        line.left_out = str(entry.get("left_out", ""))
        line.memo = memo_lines(tries[-1].memo) if tries else []
        lines.append(line)
    return lines


def _stand(workflow: Workflow, index: int, tries: list[Step]) -> str:
    ended = workflow.state in ENDED_WORKFLOW_STATES
    if not ended and workflow.state not in ("planned",) and index == workflow.step:
        return "cur"
    if not tries or (index > workflow.step and not ended):
        return "todo"
    last = tries[-1].state
    return last if last in ("done", "failed", "skipped", "cancelled") else "cancelled" if ended else "done"


def memo_lines(memo: dict[str, Any]) -> list[tuple[str, str]]:
    """A step's memory as people read it: plain values, lists by their names, nothing empty."""
    found = []
    for key, value in memo.items():
        if value in (None, "", [], {}, False) or key in INNER:
            continue
        if isinstance(value, bool):
            text = _("yes")
        elif isinstance(value, float) and key.endswith(("_at", "_since")):
            text = f"{datetime.fromtimestamp(value, UTC):%H:%M:%S} UTC"
        elif isinstance(value, list):
            said = [phrases.told(str(item)) for item in value[:20]]
            text = (" " if all(item.endswith(".") for item in said) else ", ").join(said)
        elif isinstance(value, dict):
            pairs = [item if isinstance(item, list) else [name, item] for name, item in value.items()]
            text = ", ".join(" ".join(str(part) for part in pair) for pair in pairs[:20])
        else:
            text = str(value)
        found.append((words.word(words.MEMO, key), text))
    return found


def output_of(steps: list[Step], intents: list[Intent]) -> list[OutputLine]:
    """What was done and answered, oldest first: the intents with their outcomes and each try's last word."""
    index = {step.pk: step.index for step in steps}
    lines = [
        OutputLine(
            intent.resolved_at or intent.created_at, index.get(intent.step_id, 0) + 1, intent.verb,
            f"{intent.target}: {intent.outcome or _('under way')}" + (f", {intent.text}" if intent.text else ""),
            intent.outcome in ("refused", "unknown", "expired", "failed"),
        )
        for intent in intents
    ]  # fmt: skip
    lines += [
        OutputLine(step.ended_at, step.index + 1, step.verb, f"{step.state}: {step.text}", step.state == "failed")
        for step in steps
        if step.ended_at is not None and step.state != "running"
    ]
    return sorted(lines, key=lambda line: line.at)


def refusal(page: WorkflowPage, act: str, may_operate: bool, may_approve: bool, username: str) -> str:
    """Why a person may not do `act` now, as a sentence; "" if the button works."""
    workflow = page.workflow
    if act == "approve":
        if not may_approve:
            return _("Needs the role approver in cluster %(cluster)s.") % {"cluster": workflow.cluster.name}
        if workflow.created_by == username:
            return _("You asked for it; another person must approve.")
        return "" if workflow.state == "waiting" else _("It does not wait for an approval.")
    if not may_operate:
        return _("Needs the role operator in cluster %(cluster)s.") % {"cluster": workflow.cluster.name}
    if page.ended:
        return _("The workflow is over.")
    if workflow.state == "planned":
        return _("It is only a plan: mode observe writes nothing.")
    if act == "abort":
        return ""
    if act in ADDED:
        return "" if workflow.blocked_code in ADDED[act][0] else str(ADDED[act][1])
    if act == "skip" and page.unskippable:
        return page.unskippable
    if workflow.state == "waiting":
        return _("It waits for an approval first.")
    if workflow.state == "repair":
        return _("People repair the node: close its ticket to go on.")
    return "" if workflow.state in RETRYABLE else _("Nothing is under way.")


RIGHT_OF = {"retry": OPERATE, "skip": OPERATE, "abort": OPERATE, "approve": APPROVE}


def who_did_what(page: WorkflowPage) -> list[tuple[AuditRow, str, str, str]]:
    """Audit rows with their actor, act and reason as people say them."""
    return [
        (row, words.actor(row.actor), words.word(words.AUDIT_ACTIONS, row.action), _because(row)) for row in page.people
    ]


def _because(row: AuditRow) -> str:
    if row.action == "node.state":
        before, after = str(row.detail.get("from", "")), str(row.detail.get("to", ""))
        return f"{words.word(words.NODE_STATES, before)} → {words.word(words.NODE_STATES, after).lower()}"
    told = row.detail.get("reason") or row.detail.get("text")
    return str(told) if told else words.word(words.VERBS, str(row.detail.get("verb") or "")).lower()


def pips(page: WorkflowPage) -> list[str]:
    """One mark per attempt: failed, current, left."""
    now = page.workflow.attempt
    return ["x" if n < now else "c" if n == now else "" for n in range(1, page.max_attempts + 1)]


@dataclass(frozen=True, slots=True)
class Drain:
    """How far a drain is: pods that were to leave, and those still there."""

    total: int
    left: int

    @property
    def gone(self) -> int:
        return max(0, self.total - self.left)

    @property
    def width(self) -> float:
        return round(600 * self.gone / self.total, 1) if self.total else 0


def drain_progress(page: WorkflowPage) -> Drain | None:
    """Out of the intents' pods and the pods that the node still has; None while no drain is under way."""
    if page.current is None or page.current.verb != "drain":
        return None
    pods: set[str] = set()
    for intent in page.intents:
        pods.update(intent.before.get("pods", {}))
    left = page.workflow.node.pods
    return Drain(max(len(pods), left), left) if pods or left else None
