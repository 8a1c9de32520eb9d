"""The one sentence that opens a page about gangs.

Decides its order: what is held for nothing, who waits for what, what comes next. Refuses rules of its own: it puts
words to what a read model found. Every part from outside is escaped.
"""

from __future__ import annotations

from datetime import datetime

from django.template import Context
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard import spans
from dashboard.templatetags import muster as tags
from dashboard.views.gang_links import OutNode, gang_href, out_node
from dashboard.views.said import fixed
from fleet.readmodels import gang_cost, gang_names
from fleet.readmodels.gang_list import GangLine, GangPage, Tally
from fleet.readmodels.gang_reasons import gpus


def queues_said(page: GangPage) -> SafeString:
    tally = page.tally
    if not tally.all:
        return fixed(_("<b>No gang is known.</b> <b>Next:</b> what schedulers and pods say of gangs appears here."))
    parts = [_held(tally), _starved(page), _waits(tally), _next(page)]
    return format_html_join(" ", "{}", ((part,) for part in parts if part))


def _held(tally: Tally) -> SafeString:
    if not tally.idle_gpus:
        return fixed(_("<b>No GPU is held for nothing.</b>"))
    text = ngettext(
        "<b>{gpus} held and idle by {n} gang,</b> {cost} so far.",
        "<b>{gpus} held and idle by {n} gangs,</b> {cost} so far.",
        tally.idle_gangs,
    )
    return format_html(text, gpus=gpus(tally.idle_gpus), n=tally.idle_gangs, cost=gang_cost.cost(tally.idle))


def _starved(page: GangPage) -> SafeString | str:
    """A deadlock ends by nobody's waiting, so it is said before anything that does."""
    for line in page.rows:
        for one in line.conditions:
            if one.told.code == "deadlock":
                return format_html("<b>{}:</b> {}", one.told.name, one.told.sentence)
    return ""


def _waits(tally: Tally) -> SafeString:
    if not tally.waiting:
        return fixed(_("No gang waits."))
    return format_html(ngettext("{n} gang waits.", "{n} gangs wait.", tally.waiting), n=f"{tally.waiting:,}")


def _next(page: GangPage) -> SafeString | str:
    """What the first gang of the page waits for, where it is nodes; else its reason."""
    first = next((line for line in page.rows if line.waits), None)
    if first is None:
        return ""
    name = format_html('<a href="{}">{}</a>', gang_href(first.pk), first.title)
    if first.blockers:
        nodes = [out_node(one, first.cluster) for one in first.blockers]
        back = _back(nodes)
        text = ngettext(
            "<b>Next:</b> {gang} would fit when {nodes} is back{at}.",
            "<b>Next:</b> {gang} would fit when {nodes} are back{at}.",
            len(nodes),
        )
        return format_html(text, gang=name, nodes=node_links(nodes), at=back)
    why = first.why
    return format_html(_("<b>Next:</b> {gang}: {clears}"), gang=name, clears=why.waits) if why else ""


def _back(nodes: list[OutNode]) -> SafeString | str:
    if any(node.back_at is None for node in nodes):
        return _(" (nobody knows when)")
    return format_html(_(", about {time}"), time=tags.at(max(node.back_at for node in nodes if node.back_at), "hm"))


def node_links(nodes: list[OutNode], most: int = 3) -> SafeString:
    shown = format_html_join(
        ", ", '<a class="mono" href="{}">{}</a>', ((node.href, node.name) for node in nodes[:most])
    )
    if len(nodes) <= most:
        return shown
    return format_html(_("{names} and {n} more"), names=shown, n=len(nodes) - most)


def gang_said(line: GangLine, gone_at: datetime | None, now: datetime) -> SafeString:
    """State, cause, since, what is held, next."""
    if gone_at is not None:
        gone = format_html(
            _("<b>It went away {time}.</b> What you see is what was known last."), time=tags.ago(_at(now), gone_at)
        )
        return format_html("{} <b>{}</b>", gone, line.ours) if line.ours else gone
    parts = [_state(line, now), _cause(line), _costs(line, now), _clears(line)]
    return format_html_join(" ", "{}", ((part,) for part in parts if part))


def _state(line: GangLine, now: datetime) -> SafeString:
    state = gang_names.word(gang_names.STATES, line.state)
    counts = _("%(placed)s of %(minimum)s placed") % {"placed": f"{line.placed:,}", "minimum": f"{line.minimum:,}"}
    since = line.waits_since if line.waits else line.started_at
    if since is None:
        return format_html("<b>{}</b>, {}.", state[:1].upper() + state[1:], counts)
    return format_html(
        _("<b>{state} for {span}</b>, {counts}."),
        state=state[:1].upper() + state[1:],
        span=tags.since(_at(now), since),
        counts=counts,
    )


def _cause(line: GangLine) -> SafeString | str:
    why = line.why
    if line.ours and (why is None or why.sentence != line.ours):
        return format_html("<b>{} {}</b>", why.sentence if why else "", line.ours)
    return format_html("<b>{}</b>", why.sentence) if why else ""


def _costs(line: GangLine, now: datetime) -> SafeString | str:
    if not line.gpus_held_idle:
        return ""
    span = spans.age(line.idle_since, now) if line.idle_since else ""
    if not span:
        return format_html(_("It holds {gpus} for nothing."), gpus=gpus(line.gpus_held_idle))
    return format_html(
        _("It has held {gpus} for nothing for {span}: {cost}."),
        gpus=gpus(line.gpus_held_idle),
        span=span,
        cost=gang_cost.cost(line.idle),
    )


def _clears(line: GangLine) -> SafeString | str:
    why = line.why
    if why is None:
        return fixed(_("<b>Next:</b> nothing is waited for.")) if line.state == "running" else ""
    if not line.blockers:
        return format_html(_("<b>Next:</b> {clears}"), clears=why.waits)
    nodes = [out_node(one, line.cluster) for one in line.blockers]
    text = ngettext("<b>Next:</b> {nodes} comes back{at}.", "<b>Next:</b> {nodes} come back{at}.", len(nodes))
    return format_html(text, nodes=node_links(nodes), at=_back(nodes))


def _at(now: datetime) -> Context:
    return Context({"now": now})
