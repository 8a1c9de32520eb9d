"""The one sentence that opens a list, and the pages of an incident and a ticket.

Decides what of a list matters at night: what is open, and what waits for people. Refuses rules of its own.
"""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard import spans
from dashboard.templatetags import muster as tags
from dashboard.views.said import fixed
from fleet.health.models import Incident
from fleet.lifecycle.models import Workflow
from fleet.readmodels import phrases, words
from fleet.readmodels.incident_page import IncidentPage
from fleet.readmodels.lists import ChainTip, Page
from fleet.tickets.models import Ticket


def workflows_said(page: Page[Workflow]) -> SafeString:
    count = page.counts.get
    running, blocked = count("running", 0), count("blocked", 0)
    waiting, repair = count("waiting", 0), count("repair", 0)
    if not running + blocked + waiting + repair:
        lead = fixed(_("<b>No workflow is open.</b>"))
        planned = count("planned", 0)
        if planned:
            text = ngettext(
                "{n} plan would run if the mode allowed it.", "{n} plans would run if the mode allowed it.", planned
            )
            return format_html("{} {}", lead, text.format(n=planned))
        return format_html(_("{lead} <b>Next:</b> nothing is planned."), lead=lead)
    text = _(
        "<b>{running} running, {blocked} blocked,</b> {waiting} waiting for approval, {repair} in repair. "
        "<b>Next:</b> {following}."
    )
    following = _("what is blocked is asked again as room becomes free")
    if waiting:
        following = _("a person approves or aborts what waits")
    elif not blocked:
        following = _("they go on by themselves")
    return format_html(text, running=running, blocked=blocked, waiting=waiting, repair=repair, following=following)


def incidents_said(page: Page[Incident]) -> SafeString:
    opened = page.counts.get("open", 0)
    if not opened:
        return fixed(_("<b>No incident is open.</b> <b>Next:</b> nothing to do."))
    text = ngettext("<b>{n} incident is open.</b>", "<b>{n} incidents are open.</b>", opened)
    return format_html(
        "{} {}", format_html(text, n=opened), fixed(_("<b>Next:</b> its workflow, or the reason why none runs."))
    )


def tickets_said(page: Page[Ticket]) -> SafeString:
    opened = page.counts.get("open", 0)
    if not opened:
        return fixed(_("<b>No ticket is open.</b> <b>Next:</b> nothing waits for hands."))
    text = ngettext("<b>{n} ticket waits for people.</b>", "<b>{n} tickets wait for people.</b>", opened)
    return format_html(
        "{} {}", format_html(text, n=opened), fixed(_("<b>Next:</b> closing one sends its node to validation."))
    )


def audit_said(tips: list[ChainTip]) -> SafeString:
    rows = sum(tip.rows for tip in tips)
    broken = [tip.name for tip in tips if not tip.whole]
    if broken:
        text = _("<b>The tip of {names} does not match its newest row.</b> <b>Next:</b> walk the chain, see below.")
        return format_html(text, names=", ".join(broken))
    text = ngettext(
        "<b>{n} act is kept,</b> who did what to which node and why.",
        "<b>{n} acts are kept,</b> who did what to which node and why.",
        rows,
    )
    return format_html(text, n=rows)


def incident_said(page: IncidentPage) -> SafeString:
    incident = page.incident
    where = _on(incident.node.name) if incident.node else SafeString("")
    took = spans.span((incident.detected_at - incident.first_bad_at).total_seconds())
    text = _("<b>{title}</b>{where}, detected at {time}, {took} after its first bad sample.")
    lead = format_html(
        text,
        title=phrases.told(incident.title).rstrip("."),
        where=where,
        time=tags.at(incident.detected_at, "hms"),
        took=took,
    )
    return format_html_join(" ", "{}", ((part,) for part in (lead, _incident_next(page))))


def _on(name: str) -> SafeString:
    return format_html(_(' on <span class="mono">{name}</span>'), name=name)


def _incident_next(page: IncidentPage) -> SafeString:
    incident = page.incident
    if incident.state != Incident.OPEN:
        time = tags.at(incident.resolved_at, "hms")
        reason = phrases.told(incident.resolution).rstrip(".") or _("its cause is clear")
        return format_html(_("<b>Resolved at {time}:</b> {reason}."), time=time, reason=reason)
    running = next((row for row in page.workflows if row.ended_at is None), None)
    if incident.is_shared:
        return fixed(_("<b>Next:</b> a person looks at what its nodes share; nothing is done to any one of them."))
    if running is None and incident.open_until is not None:
        text = _("<b>It flaps:</b> it came three times within an hour and stays open until {time} if it is quiet.")
        return format_html(text, time=tags.at(incident.open_until, "hm"))
    if running is None and incident.plan_after is not None:
        text = _("<b>Next:</b> it is planned at {time}, unless other nodes turn out to share it.")
        return format_html(text, time=tags.at(incident.plan_after, "hms"))
    if running is None and incident.action_class == "confirm":
        return fixed(_("<b>Next:</b> an active test confirms it or not; nothing is done to the node before."))
    if running is None:
        return fixed(_("<b>Next:</b> no workflow is open for it; a person looks at it."))
    link = format_html('<a href="{}">{}</a>', reverse("workflow", args=[running.pk]), running.label)
    state = words.word(words.WORKFLOW_STATES, running.state).lower()
    return format_html(_("<b>Next:</b> {workflow}, {state}."), workflow=link, state=state)


def ticket_said(ticket: Ticket) -> SafeString:
    title, reason = (phrases.told(text).rstrip(".") for text in (ticket.title, ticket.reason))
    where = _on(ticket.node.name)
    lead = format_html(_("<b>{title}</b>{where}."), title=title, where=where)
    if reason and reason != title:
        lead = format_html("{} {}.", lead, reason)
    if ticket.state == Ticket.OPEN:
        return format_html(_("{lead} <b>Next:</b> people repair it; closing sends the node to validation."), lead=lead)
    time = tags.at(ticket.closed_at, "hm")
    return format_html(_("{lead} <b>Closed at {time}</b> by {who}."), lead=lead, time=time, who=ticket.closed_by)


def paste(ticket: Ticket, evidence: str) -> str:
    """What one pastes to a vendor: part, serial and place above the evidence."""
    head: list[tuple[str, Any]] = [
        ("ticket", ticket.label),
        ("node", ticket.node.name),
        ("cluster", ticket.cluster.name),
        ("rack", ticket.node.rack),
        ("gpu model", ticket.node.gpu_model),
        ("part", ticket.part),
        ("serial", ticket.serial),
        ("fault", ticket.title),
        ("opened", f"{spans.absolute(ticket.opened_at)} UTC"),
    ]
    return "\n".join([*(f"{name}: {value}" for name, value in head if value), evidence]).strip()
