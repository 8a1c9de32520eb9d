"""Why a workflow does not move, and why an open incident has none.

Decides the one answer that pages, API and command give: reason code, sentence with its numbers, since, until, who is
waited for, what clears it, what a person can do, and the place in the line. Refuses silence: whatever does not move has
a code of the catalogue, and a time or a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.health.models import Incident
from fleet.inventory.models import Mode, Node
from fleet.lifecycle import owners, shelf
from fleet.lifecycle.approving import hash_of, subject_of
from fleet.lifecycle.cases import case_of
from fleet.lifecycle.grants import GUARD_CODES
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import plan_for
from fleet.policy import approvals
from fleet.policy.models import Approval
from fleet.readmodels import phrases, reasons
from fleet.readmodels.totals import SCOPED

OVERDUE = timedelta(seconds=90)
"""A lease lasts a minute and the tick comes each second: what is due for longer, nobody takes up."""
PLANNED_WITHIN = timedelta(minutes=1)
OWN = frozenset(
    {"shared", "settling", "flapping", "muted", "no_playbook", "released", "other_work", "planning", "worker"}
)
"""Codes that this module gives; all others come from the engine."""


@dataclass(frozen=True, slots=True)
class Line:
    """The `place`-th of `of` that wait for the same."""

    place: int
    of: int

    @property
    def text(self) -> str:
        if self.of == 1:
            return _("Nothing else waits for it.")
        return _("%(place)s of %(of)s that wait for it; the furthest goes first, then the oldest.") % {
            "place": self.place, "of": self.of,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that does not move. `until` None: no time clears it, `person` then says that a person must act."""

    code: str
    text: str
    since: datetime
    until: datetime | None
    line: Line | None = None

    @property
    def reason(self) -> reasons.Reason:
        return reasons.of(self.code)

    @property
    def who(self) -> str:
        return str(self.reason.who)

    @property
    def clears(self) -> str:
        return str(self.reason.clears)

    @property
    def do(self) -> str:
        return str(self.reason.do)

    @property
    def person(self) -> bool:
        return self.reason.person or self.until is None

    @property
    def link(self) -> str:
        """The address of the page where one can act on it; "" for the workflow's own."""
        return page_of(self.code)

    def as_json(self) -> dict[str, Any]:
        """`reason`, `text` and `until` are what scripts rely on."""
        return {
            "reason": self.code,
            "text": self.text,
            "since": self.since.isoformat(),
            "until": self.until.isoformat() if self.until else None,
            "waits_for": self.who,
            "clears": self.clears,
            "do": self.do,
            "needs_person": self.person,
            "line": {"place": self.line.place, "of": self.line.of} if self.line else None,
        }


def page_of(code: str) -> str:
    name = reasons.of(code).link
    try:
        return reverse(name) if name else ""
    except NoReverseMatch:
        return ""


def of_workflow(workflow: Workflow, now: datetime) -> Wait | None:
    """What keeps it; None while it moves, is only a plan, or is over. No query: see `in_full` for line and votes."""
    if workflow.state not in (WorkflowState.WAITING, WorkflowState.BLOCKED, WorkflowState.REPAIR):
        return _overdue(workflow, now) if workflow.state == WorkflowState.RUNNING else None
    code = workflow.blocked_code or ("approval" if workflow.state == WorkflowState.WAITING else "internal_error")
    since, until = workflow.blocked_since or workflow.created_at, workflow.blocked_until
    text = phrases.told(reasons.told(reasons.of(code), workflow.blocked_text))
    return Wait(code, text, since, max(until, now) if until else None)


def _overdue(workflow: Workflow, now: datetime) -> Wait | None:
    due = workflow.wake_at
    if due is not None and now - due <= OVERDUE:
        return None
    at = due or workflow.started_at or workflow.created_at
    text = _("It was due at %(at)s UTC and no worker has taken it up.") % {"at": f"{at:%Y-%m-%d %H:%M:%S}"}
    return Wait("worker", text, at, None)


def in_full(workflow: Workflow, now: datetime) -> Wait | None:
    """The same with its place in the line, and with the votes of an approval. At most two queries."""
    found = of_workflow(workflow, now)
    if found is None:
        return None
    if found.code == "approval":
        return _with_votes(found, workflow, request_of(workflow), now)
    if found.code in GUARD_CODES:
        return Wait(found.code, found.text, found.since, found.until, line_of(workflow))
    return found


def request_of(workflow: Workflow) -> Approval | None:
    """The newest request for approval of it, with its votes. Two queries, one where there is none."""
    rows = Approval.objects.filter(subject=subject_of(workflow)).exclude(state=Approval.WITHDRAWN)
    return rows.prefetch_related("votes").order_by("-pk").first()


def _with_votes(found: Wait, workflow: Workflow, request: Approval | None, now: datetime) -> Wait:
    if request is None or request.state != Approval.PENDING:
        return found
    ask = approvals.Ask(request.plan_hash, request.requested_by, request.needed, request.expires_at)
    votes = [approvals.Vote(vote.by, vote.yes) for vote in request.votes.all()]
    decision = approvals.answer(ask, votes, hash_of(workflow), now)
    text = reasons.told(reasons.of("approval"), decision.text) if not decision.allowed else found.text
    if workflow.incident is not None and workflow.incident.mode == Mode.RECOMMEND and not decision.allowed:
        said = _("The rule %(rule)s is in mode recommend.") % {"rule": workflow.incident.rule}
        text = f"{said} {text}"
    return Wait(found.code, text, found.since, max(request.expires_at, now))


def line_of(workflow: Workflow) -> Line | None:
    """Its place among those that wait for the same guard, in the order in which `grants` answers. One query."""
    if workflow.state != WorkflowState.BLOCKED:
        return None
    rows = Workflow.objects.filter(
        cluster_id=workflow.cluster_id, state=WorkflowState.BLOCKED, blocked_code=workflow.blocked_code
    )
    scope = scope_of(workflow.blocked_code, workflow.blocked_text)
    if scope:
        rows = rows.filter(blocked_text__startswith=f"{scope}:")
    at = workflow.created_at
    ahead = Q(step__gt=workflow.step) | Q(step=workflow.step, created_at__lt=at)
    ahead |= Q(step=workflow.step, created_at=at, pk__lt=workflow.pk)
    counted = rows.aggregate(all=Count("pk"), ahead=Count("pk", filter=ahead))
    return Line(counted["ahead"] + 1, max(counted["all"], counted["ahead"] + 1))


def scope_of(code: str, stored: str) -> str:
    """`Rack r07` out of the stored sentence of a cap; "" for what has no scope."""
    found = reasons.parts_of(reasons.of(code), stored) if code in SCOPED else None
    return found[1].get("where", "") if found else ""


def of_incident(incident: Incident | None, node: Node, now: datetime) -> Wait | None:
    """Why an open incident has no workflow. No query where the node came with its cluster, pool and state."""
    if incident is None or incident.state != Incident.OPEN:
        return None
    since = incident.detected_at
    if incident.is_shared:
        text = _("%(incident)s is shared by many nodes: nothing is done to any one of them for it.")
        return Wait("shared", text % {"incident": incident.label}, since, None)
    if not node.managed:
        return _plain("unmanaged", since)
    going = owners.departing(owners.of_row(node.owners), node.labels)
    if going:
        return Wait(owners.CODE, going, since, None)
    if incident.muted_until is not None and incident.muted_until > now:
        text = _("Muted by %(by)s: %(reason)s") % {"by": incident.muted_by, "reason": incident.muted_reason}
        return Wait("muted", text, since, incident.muted_until)
    if incident.plan_after is not None and incident.plan_after > now:
        return _plain("settling", since, incident.plan_after)
    if incident.open_until is not None:
        return _plain("flapping", since, incident.open_until)
    return _unplanned(incident, node, now)


def _unplanned(incident: Incident, node: Node, now: datetime) -> Wait:
    """Nothing about the incident itself keeps it from being planned."""
    since = incident.detected_at
    lifecycle = getattr(node, "lifecycle", None)
    if lifecycle is not None and lifecycle.state == "released" and since <= lifecycle.since:
        return _plain("released", since)
    watched = node.cluster.observer_until
    if watched is None or watched + PLANNED_WITHIN < now:
        return _plain("unwatched", watched or since)
    chosen = plan_for(case_of(incident, node), shelf.book())
    if not chosen.playbook:
        return Wait("no_playbook", reasons.told(reasons.of("no_playbook"), chosen.why_not), since, None)
    return _plain("planning", since, now + PLANNED_WITHIN)


def _plain(code: str, since: datetime, until: datetime | None = None) -> Wait:
    return Wait(code, str(reasons.of(code).text), since, until)


@dataclass(frozen=True, slots=True)
class Group:
    """`n` workflows that wait for one thing; `name` says for what, `code` is the filter of the list."""

    code: str
    name: str
    n: int


def groups(counts: Mapping[tuple[str, str], int]) -> list[Group]:
    """Of counts by (code, first word of the sentence): the most first. A cap is told with its scope."""
    found: dict[tuple[str, str], int] = {}
    for (code, word), n in counts.items():
        name = str(reasons.of(code).name)
        scope = reasons.SCOPES.get(word.rstrip(":")) if code in SCOPED else None
        told = _("%(reason)s (%(scope)s)") % {"reason": name, "scope": str(scope).lower()} if scope else name
        found[code, told] = found.get((code, told), 0) + n
    some = [Group(code, name, n) for (code, name), n in found.items()]
    return sorted(some, key=lambda group: (-group.n, group.name))


def summary(some: list[Group]) -> str:
    """`9 workflows wait: 7 for the in-flight cap (rack), 2 for approval`, without its full stop; "" for none."""
    total = sum(group.n for group in some)
    if not total:
        return ""
    parts = [_("%(n)s for %(reason)s") % {"n": group.n, "reason": group.name} for group in some]
    head = ngettext("%(n)s workflow waits", "%(n)s workflows wait", total) % {"n": total}
    return f"{head}: {', '.join(parts)}"
