"""The one sentence that opens a page about one thing.

Decides its order: state, cause, since, by whom, next. A person woken at night reads that and may close the page.
Refuses rules of its own: it puts words to what a read model found. Every part from outside is escaped.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.template import Context
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from dashboard import spans
from dashboard.templatetags import muster as tags
from fleet.health.models import Incident
from fleet.lifecycle import owners
from fleet.lifecycle.grants import GUARD_CODES
from fleet.readmodels import phrases, reasons, words
from fleet.readmodels.node_page import NodePage
from fleet.readmodels.workflow_page import WorkflowPage

Clause = str | SafeString


def node_said(page: NodePage, now: datetime) -> SafeString:
    return _join([_node_state(page, now), _holder(page), _block(page), _next(page, now)])


def fixed(text: str) -> SafeString:
    """A sentence of ours with its own markup, without any part from outside."""
    return SafeString(text)


def _join(clauses: list[Clause]) -> SafeString:
    return format_html_join(" ", "{}", ((clause,) for clause in clauses if clause))


def _node_state(page: NodePage, now: datetime) -> SafeString:
    lifecycle, verdict = page.lifecycle, page.verdict
    state = words.word(words.NODE_STATES, lifecycle.state)
    lead = format_html(_("<b>{state} since {time}</b>"), state=state, time=_clock(lifecycle.since, now))
    if page.incident is not None and page.incident.state == Incident.OPEN:
        return format_html(_("{lead} because <b>{cause}</b>."), lead=lead, cause=_bare(page.incident.title))
    if page.unwatched is not None:
        word = words.word(words.VERDICTS, verdict.verdict).lower()
        return format_html(_("{lead}; nobody watches now, last known {verdict}."), lead=lead, verdict=word)
    if verdict.verdict == "healthy":
        return format_html(_("{lead}, healthy."), lead=lead)
    if page.signals:
        return format_html(_("{lead}, {verdict}: <b>{cause}</b>."), lead=lead, cause=_bare(page.signals[0].title),
                           verdict=words.word(words.VERDICTS, verdict.verdict).lower())  # fmt: skip
    reason = _bare(verdict.reason) or _("no reason was given")
    word = words.word(words.VERDICTS, verdict.verdict).lower()
    return format_html(
        _("{lead}, {verdict} since {time}: {reason}."),
        lead=lead,
        reason=reason,
        verdict=word,
        time=_clock(verdict.since, now),
    )


def _holder(page: NodePage) -> Clause:
    node = page.node
    if page.foreign_mark:
        text = _("Another installation of Muster holds the node, with the mark {mark}: only that one lets it go.")
        return format_html(text, mark=page.foreign_mark)
    ours = page.held_by_us
    if ours and page.incident is not None:
        link = format_html('<a href="{}">{}</a>', reverse("incident", args=[page.incident.pk]), page.incident.label)
        if node.foreign_hold:
            text = _("Muster holds it for incident {incident}; somebody else cordoned it too.")
            return format_html(text, incident=link)
        return format_html(_("Muster holds the node for incident {incident}."), incident=link)
    if ours:
        return _("Muster holds the node.")
    named = owners.named(node.owners)
    if node.foreign_hold and not named:
        return _("Cordoned outside Muster: it takes no new work until whoever cordoned it uncordons it.")
    return format_html("{}", named)


def _block(page: NodePage) -> Clause:
    workflow = page.workflow
    if workflow is None or workflow.state != "blocked":
        return ""
    return format_html("{}.", _bare(reasons.told(reasons.of(workflow.blocked_code), workflow.blocked_text)))


def _next(page: NodePage, now: datetime) -> SafeString:
    following = page.next
    if following.until is None or following.until <= now:
        return format_html(_("<b>Next:</b> {text}."), text=following.text)
    return format_html(
        _("<b>Next:</b> {text}; asked again in {left}."), text=following.text, left=_left(following.until, now)
    )


def workflow_said(page: WorkflowPage, now: datetime) -> SafeString:
    workflow = page.workflow
    clauses: list[Clause]
    if workflow.state == "planned":
        clauses = [_("<b>Only a plan:</b> the mode allows no write."), _cause(page), _would(page)]
    elif workflow.state == "waiting":
        lead = _("<b>Waiting for approval:</b> nothing is written before a person agrees.")
        clauses = [lead, _cause(page), _would(page)]
    elif workflow.state == "repair":
        clauses = [_("<b>Waiting for people:</b> the node must be repaired."), _cause(page), _ticket_next(page)]
    elif page.ended:
        return _ended_said(page, now)
    else:
        clauses = [_under_way(page), _after(page, now)]
    return _join([clause if isinstance(clause, SafeString) else fixed(clause) for clause in clauses if clause])


def _under_way(page: WorkflowPage) -> SafeString:
    workflow, current = page.workflow, page.current
    waits = page.wait.text if page.wait is not None else ""
    guarded = workflow.verb != "drain" or workflow.blocked_code in GUARD_CODES
    if workflow.state == "blocked" and guarded and workflow.blocked_since:
        verb, since = words.word(words.VERBS, workflow.verb), tags.at(workflow.blocked_since, "hm")
        text = _("<b>{verb} blocked since {time}:</b> {text}.")
        return format_html(text, verb=verb, time=since, text=_bare(waits) or _("the guard is asked"))
    doing = words.word(words.VERB_DOING, workflow.verb)
    text = waits if workflow.state == "blocked" else (current.text if current else "")
    if text.startswith(doing):
        text = text[len(doing) :].lstrip(":, ")
    return format_html("<b>{}:</b> {}.", doing, _bare(text))


def _after(page: WorkflowPage, now: datetime) -> SafeString:
    workflow, after = page.workflow, page.after
    following = after.label.lower() if after else _("the end")
    if workflow.state == "blocked" and page.next_at is not None and page.next_at > now:
        verb = words.word(words.VERBS, workflow.verb).lower()
        return format_html(_("<b>Next:</b> {verb} is asked again in {left}, then {after}."), verb=verb,
                           left=_left(page.next_at, now), after=following)  # fmt: skip
    return format_html(_("<b>Next:</b> {after}."), after=following)


def _ended_said(page: WorkflowPage, now: datetime) -> SafeString:
    workflow = page.workflow
    ended = workflow.ended_at or now
    state = words.word(words.WORKFLOW_STATES, workflow.state)
    took = spans.span((ended - (workflow.started_at or workflow.created_at)).total_seconds())
    outcome = _bare(workflow.outcome) or _("no outcome was recorded")
    lead = format_html(
        _("<b>{state} at {time}</b> after {took}: {outcome}."),
        state=state,
        time=_clock(ended, now),
        took=took,
        outcome=outcome,
    )
    if workflow.state == "succeeded":
        return _join([lead, fixed(_("<b>Next:</b> nothing; the node takes work again."))])
    return _join([lead, fixed(_("<b>Next:</b> a person decides what follows."))])


def _cause(page: WorkflowPage) -> Clause:
    incident = page.workflow.incident
    return format_html(_("The cause: <b>{title}</b>."), title=_bare(incident.title)) if incident else ""


def _would(page: WorkflowPage) -> SafeString:
    steps = ", ".join(line.label.lower() for line in page.steps)
    return format_html(_("<b>Next:</b> it would do: {steps}."), steps=steps)


def _ticket_next(page: WorkflowPage) -> SafeString:
    if page.ticket is None:
        return fixed(_("<b>Next:</b> a ticket is opened."))
    link = format_html('<a href="{}">{}</a>', reverse("ticket", args=[page.ticket.pk]), page.ticket.label)
    return format_html(_("<b>Next:</b> closing {ticket} sends the node to validation."), ticket=link)


def _bare(text: str) -> str:
    return phrases.told(text.strip()).rstrip(".")


def _clock(when: datetime, now: datetime) -> Clause:
    """Hours and minutes of the last day, else the date as well."""
    return tags.at(when, "hm" if now - when < timedelta(hours=20) else "full")


def _left(until: datetime, now: datetime) -> Clause:
    return tags.countdown(Context({"now": now}), until)
