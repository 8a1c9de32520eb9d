"""One list of everything that happened to a node: signals, incidents, steps, tickets and what people did.

Decides what is one event, its order (newest first; within one instant the consequence stands above its cause) and its
words. One query whatever the number of rows: a union whose parts are each limited. Refuses to hold rules: it tells what
was stored. An audit row of ours whose story a step, incident or ticket already tells is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import CharField, F, IntegerField, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat
from django.utils.translation import gettext as _

from fleet.audit.models import AuditRow
from fleet.audit.services import chain_of
from fleet.health.models import Incident, Signal
from fleet.inventory.models import Node
from fleet.lifecycle.models import Step
from fleet.readmodels import words
from fleet.tickets.models import Ticket

GROUPS: dict[str, tuple[str, ...]] = {
    "all": ("signal", "incident", "step", "ticket", "audit"),
    "signals": ("signal", "incident"),
    "steps": ("step", "ticket"),
    "people": ("audit",),
}
_ICONS = {
    "signal": "rules",
    "incident": "inc",
    "step": "flow",
    "ticket": "ticket",
    "audit": "who",
    "blocked": "lock",
}
_SHORT = timedelta(seconds=5)
_GAP = timedelta(days=1)
_COLUMNS = ("kind", "when", "rank", "ref", "a", "b", "c", "d")
_TOLD = Q(object__startswith="incident:") | Q(object__startswith="ticket:") | Q(object__startswith="workflow:")
BLOCKED = "workflow.blocked"
TITLE = "said"  # the part of an evidence that holds its title's pieces, for translation


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a timeline. `lead` is its bold beginning; `link` names a page and what it is about."""

    at: datetime
    kind: str  # signal, incident, step, ticket, audit, next, gap
    lead: str
    text: str = ""
    detail: str = ""
    mono: bool = False
    by: str = ""
    tone: str = ""  # "", go, hot
    verdict: str = ""
    link: str = ""
    ref: int = 0

    @property
    def icon(self) -> str:
        return _ICONS.get(self.kind, "rules")


def events(node: Node, *, group: str = "all", limit: int = 60) -> list[Event]:
    """The newest `limit` events of `node`, newest first, with a line where a day or more passed in between."""
    parts = [part for kind in GROUPS.get(group, GROUPS["all"]) for part in _PARTS[kind](node, group)]
    order = ("-when", "-rank", "-ref")
    limited = [part.order_by(*order)[:limit] for part in parts]
    rows = limited[0].union(*limited[1:], all=True).order_by(*order)[:limit] if limited[1:] else limited[0]
    return with_gaps([_TELL[row[0]](row) for row in rows])


def with_gaps(told: Sequence[Event]) -> list[Event]:
    out: list[Event] = []
    for event in told:
        if out and out[-1].at - event.at >= _GAP:
            quiet = _("%(days)s without an event") % {"days": words.days((out[-1].at - event.at).days)}
            out.append(Event(at=event.at, kind="gap", lead="", text=quiet))
        out.append(event)
    return out


def _rows(query: QuerySet[Any], kind: str, rank: int, **columns: Any) -> QuerySet[Any, tuple[Any, ...]]:
    text = {name: Cast(columns[name], TextField()) for name in "abcd"}
    named = query.annotate(
        kind=Value(kind, CharField()),
        when=columns["when"],
        rank=Value(rank, IntegerField()),
        ref=columns["ref"],
        **text,
    )
    return named.values_list(*_COLUMNS)


def _signals(node: Node, group: str) -> list[QuerySet[Any]]:
    mine = Signal.objects.filter(node=node)
    fields = {"ref": F("pk"), "a": F("title"), "b": F("severity"), "c": F("source"), "d": F("evidence")}
    return [
        _rows(mine, "signal", 0, when=F("opened_at"), **fields),
        _rows(mine.filter(cleared_at__isnull=False), "signal_end", 1, when=F("cleared_at"), **fields),
    ]


def _incidents(node: Node, group: str) -> list[QuerySet[Any]]:
    mine = Incident.objects.filter(node=node)
    fields = {"ref": F("pk"), "a": F("title"), "b": F("severity"), "c": F("rule"), "d": F("resolution")}
    return [
        _rows(mine, "incident", 2, when=F("detected_at"), **fields),
        _rows(mine.filter(resolved_at__isnull=False), "incident_end", 7, when=F("resolved_at"), **fields),
    ]


def _steps(node: Node, group: str) -> list[QuerySet[Any]]:
    mine = Step.objects.filter(workflow__node=node)
    spot = Concat(Cast(F("index"), TextField()), Value("/"), Cast(F("attempt"), TextField()), output_field=TextField())
    fields = {"ref": F("workflow_id"), "a": F("verb"), "b": F("state"), "c": spot, "d": F("text")}
    begun = mine.filter(Q(ended_at=None) | Q(ended_at__gt=F("started_at") + _SHORT))
    return [
        _rows(begun, "step", 3, when=F("started_at"), **fields),
        _rows(
            mine.filter(ended_at__isnull=False).exclude(state="running"), "step_end", 4, when=F("ended_at"), **fields
        ),
    ]


def _tickets(node: Node, group: str) -> list[QuerySet[Any]]:
    mine = Ticket.objects.filter(node=node)
    fields = {"ref": F("pk"), "a": F("title"), "b": F("part"), "c": F("closed_by")}
    return [
        _rows(mine, "ticket", 5, when=F("opened_at"), d=F("reason"), **fields),
        _rows(mine.filter(closed_at__isnull=False), "ticket_end", 6, when=F("closed_at"), d=F("resolution"), **fields),
    ]


def _audit(node: Node, group: str) -> list[QuerySet[Any]]:
    mine = AuditRow.objects.filter(chain=chain_of(node.cluster_id), node=node.name)
    ours = Q(actor="muster") | Q(actor__startswith="muster:")
    mine = mine.exclude(ours) if group == "people" else mine.exclude(ours & _TOLD & ~Q(action=BLOCKED))
    fields = {"ref": F("pk"), "a": F("action"), "b": F("actor"), "c": F("object"), "d": F("detail")}
    return [_rows(mine, "audit", 8, when=F("at"), **fields)]


_PARTS = {"signal": _signals, "incident": _incidents, "step": _steps, "ticket": _tickets, "audit": _audit}


def evidence_line(evidence: dict[str, Any]) -> str:
    """The one line of an evidence that says most: the raw line if there is one, else its values."""
    for key in ("line", "log", "message", "text"):
        if evidence.get(key):
            return str(evidence[key])
    told = ((key, value) for key, value in evidence.items() if key != TITLE and value not in (None, "", [], {}))
    return ", ".join(f"{key} {_short(value)}" for key, value in told)


def _short(value: Any) -> str:
    """A change [old, new] by its arrow; anything else as it is."""
    if isinstance(value, list) and len(value) == 2:
        old, new = value
        return f"{old} → {new}" if old not in (None, "") else f"{new}"
    return str(value)


def _loads(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _tell_signal(row: tuple[Any, ...]) -> Event:
    _kind, when, _rank, ref, title, severity, source, evidence = row
    return Event(
        at=when, kind="signal", lead=_("Signal:"), text=title, detail=evidence_line(_loads(evidence)), mono=True,
        by=words.word(words.SOURCES, source), verdict=severity, ref=ref,
    )  # fmt: skip


def _tell_signal_end(row: tuple[Any, ...]) -> Event:
    cleared = _tell_signal(row)
    return replace(cleared, lead=_("Signal cleared:"), detail="", verdict="healthy")


def _tell_incident(row: tuple[Any, ...]) -> Event:
    _kind, when, _rank, ref, title, severity, rule, _resolution = row
    detail = _("%(title)s; rule %(rule)s, %(severity)s") % {
        "title": title, "rule": rule, "severity": words.word(words.VERDICTS, severity).lower(),
    }  # fmt: skip
    return Event(at=when, kind="incident", lead=f"INC-{ref}", text=_("opened"), detail=detail, by="Muster",
                 link="incident", ref=ref)  # fmt: skip


def _tell_incident_end(row: tuple[Any, ...]) -> Event:
    opened = _tell_incident(row)
    return replace(opened, text=_("resolved"), detail=row[7])


def _tell_step(row: tuple[Any, ...]) -> Event:
    _kind, when, _rank, workflow, verb, _state, spot, _text = row
    index, attempt = (int(part) for part in spot.split("/"))
    text = _("started, step %(n)d") % {"n": index + 1}
    if attempt > 1:
        text = _("started, step %(n)d, attempt %(attempt)d") % {"n": index + 1, "attempt": attempt}
    return Event(at=when, kind="step", lead=words.word(words.VERBS, verb), text=text, by="Muster", tone="go",
                 link="workflow", ref=workflow)  # fmt: skip


def _tell_step_end(row: tuple[Any, ...]) -> Event:
    begun = _tell_step(row)
    state = row[5]
    ended = {"done": _("done"), "failed": _("failed"), "skipped": _("skipped"), "cancelled": _("cancelled")}
    return replace(
        begun, text=ended.get(state, state), detail=row[7], tone="hot" if state in ("failed", "skipped") else "go"
    )


def _tell_ticket(row: tuple[Any, ...]) -> Event:
    _kind, when, _rank, ref, title, _part, _by, reason = row
    return Event(at=when, kind="ticket", lead=f"TKT-{ref}", text=_("opened: %(title)s") % {"title": title},
                 detail=reason, by="Muster", link="ticket", ref=ref)  # fmt: skip


def _tell_ticket_end(row: tuple[Any, ...]) -> Event:
    opened = _tell_ticket(row)
    return replace(opened, text=_("closed"), detail=row[7], by=words.actor(row[6] or "muster"))


def _tell_audit(row: tuple[Any, ...]) -> Event:
    _kind, when, _rank, ref, action, actor, thing, detail = row
    facts = _loads(detail)
    if action == BLOCKED:
        verb = words.word(words.VERBS, str(facts.get("verb", "")))
        return Event(
            at=when, kind="blocked", lead=_("%(verb)s blocked:") % {"verb": verb}, text=str(facts.get("text", "")),
            by=words.actor(actor), tone="hot", ref=ref,
        )  # fmt: skip
    return Event(
        at=when, kind="audit", lead=words.actor(actor),
        text=_did(action, thing),
        detail=str(facts.get("reason") or facts.get("text") or evidence_line(facts)), by=_("audit"), ref=ref,
    )  # fmt: skip


def _did(action: str, thing: str) -> str:
    """The act, with its object unless that is the node itself."""
    act = words.word(words.AUDIT_ACTIONS, action)
    return act if thing.startswith("node:") else f"{act} ({object_label(thing)})"


_TELL = {
    "signal": _tell_signal,
    "signal_end": _tell_signal_end,
    "incident": _tell_incident,
    "incident_end": _tell_incident_end,
    "step": _tell_step,
    "step_end": _tell_step_end,
    "ticket": _tell_ticket,
    "ticket_end": _tell_ticket_end,
    "audit": _tell_audit,
}
_PREFIX = {"workflow": "WF", "incident": "INC", "ticket": "TKT"}


def object_label(thing: str) -> str:
    """`workflow:12` as people say it: WF-12."""
    kind, _sep, ref = thing.partition(":")
    return f"{_PREFIX[kind]}-{ref}" if kind in _PREFIX else thing
