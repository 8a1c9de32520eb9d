"""What needs a person now, as one sentence and five numbers.

Decides the wording and which number is hot. Refuses to rank faults: it counts what health, lifecycle and tickets say.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.template import Context
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard import spans
from dashboard.templatetags import muster as tags
from dashboard.words import MODE_WORD, STATE_WORD, VERDICT_WORD
from fleet.readmodels import explain, reasons
from fleet.readmodels.fleet_map import PLANNED, Counts, NodeRow, ranked
from fleet.readmodels.gang_reasons import gpus
from fleet.readmodels.totals import Totals

SILENT = timedelta(seconds=60)


class Item(NamedTuple):
    """One cell of the strip: `hot` when somebody should look."""

    icon: str
    title: str
    big: str
    small: str
    link: str
    href: str
    rest: str | SafeString
    hot: bool


def address(name: str, *args: object) -> str:
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return reverse("fleet")


def sentence(counts: Counts, found: Totals, blocked: int, now: datetime) -> SafeString:
    """State first, then what waits for a person; never empty."""
    if found.stopped_since is not None:
        since = spans.age(found.stopped_since, now)
        return format_html(
            "<b>{}</b> {}",
            _("All new disruption is stopped by %(by)s since %(span)s.") % {"by": found.stopped_by, "span": since},
            _("Detection goes on; nothing is held, drained or rebooted until it is started again."),
        )
    if not found.clusters:
        return format_html("<b>{}</b> {}", _("Nothing is watched yet."), _("An admin adds the first cluster."))
    if not counts.nodes:
        return format_html("<b>{}</b>", _("No node is in view."))
    sick = _sick_words(counts)
    rest: list[str | SafeString] = []
    if counts.held:
        rest.append(ngettext("%(n)s takes no new work", "%(n)s take no new work", counts.held) % {"n": counts.held})
    if blocked:
        rest.append(waiting(found, blocked))
    if found.gpus_idle:
        rest.append(held_idle(found))
    if found.tickets:
        rest.append(
            ngettext("%(n)s ticket waits for people", "%(n)s tickets wait for people", found.tickets)
            % {"n": found.tickets}
        )
    silent = [line.name for line in found.clusters if line.observer_until is None or line.observer_until < now - SILENT]
    said = format_html("<b>{}</b>", sick or _well_words(counts.nodes))
    if rest:
        said = format_html("{} {}.", said, format_html_join(", ", "{}", ((part,) for part in rest)))
    if silent:
        said = format_html(
            "{} <b>{}</b> {}",
            said,
            _("No observer watches %(names)s.") % {"names": ", ".join(silent)},
            _("What you see there is the last word, not today's."),
        )
    if not rest and not sick and not any(line.conditions for line in found.clusters):
        return format_html("{} {}", said, _("Nothing needs you now."))
    return said


def held_idle(found: Totals) -> SafeString:
    """`12 GPUs held idle by 2 gangs`, a link to those gangs."""
    text = ngettext("%(gpus)s held idle by %(n)s gang", "%(gpus)s held idle by %(n)s gangs", found.gangs_idle)
    told = text % {"gpus": gpus(found.gpus_idle), "n": found.gangs_idle}
    return format_html('<a href="{}?state=idle">{}</a>', address("queues"), told)


def waiting(found: Totals, blocked: int) -> SafeString:
    """`9 workflows wait: 7 for the in-flight cap (rack), 2 for approval`, each a link to those workflows."""
    head = ngettext("%(n)s workflow waits", "%(n)s workflows wait", blocked) % {"n": blocked}
    listed = address("workflows")
    parts = [
        format_html('<a href="{}?reason={}">{}</a>', listed, group.code,
                    _("%(n)s for %(reason)s") % {"n": group.n, "reason": group.name})
        for group in explain.groups(found.waits)
    ]  # fmt: skip
    if not parts:
        return format_html("{}", head)
    return format_html("{}: {}", head, format_html_join(", ", "{}", ((part,) for part in parts)))


def _sick_words(counts: Counts) -> str:
    """`5 of 256 nodes are unhealthy, 1 lost, 8 unknown.`; "" when all are healthy."""
    kinds = [kind for kind in ("unhealthy", "lost", "degraded", "unknown") if counts.verdicts[kind]]
    if not kinds:
        return ""
    first, number = kinds[0], counts.verdicts[kinds[0]]
    words = {"n": f"{number:,}", "all": f"{counts.nodes:,}", "verdict": VERDICT_WORD[first]}
    head = ngettext("%(n)s of %(all)s nodes is %(verdict)s", "%(n)s of %(all)s nodes are %(verdict)s", number) % words
    return _join([head, *(f"{counts.verdicts[kind]:,} {VERDICT_WORD[kind]}" for kind in kinds[1:])]) + "."


def _well_words(nodes: int) -> str:
    said = ngettext("The only node is healthy.", "All %(n)s nodes are healthy.", nodes)
    return said % {"n": f"{nodes:,}"}


def _join(parts: Sequence[str]) -> str:
    return ", ".join(parts)


def strip(nodes: Sequence[NodeRow], counts: Counts, found: Totals, now: datetime) -> list[Item]:
    return [
        _sick(nodes, counts, now),
        _blocked(nodes, found, now),
        _held(nodes, counts),
        _tickets(found, now),
        _guards(counts, found),
    ]


def _at(now: datetime) -> Context:
    """The context that the time tags ask for."""
    return Context({"now": now})


def _node_link(row: NodeRow) -> str:
    return address("node", row.name)


def _sick(nodes: Sequence[NodeRow], counts: Counts, now: datetime) -> Item:
    bad = counts.verdicts["unhealthy"] + counts.verdicts["lost"]
    worst = ranked([row for row in nodes if row.verdict in ("unhealthy", "lost")])
    fresh = max(worst, key=lambda row: row.verdict_at or 0.0, default=None)
    if fresh is None:
        return Item(
            "inc",
            _("Unhealthy"),
            "0",
            _("of %(n)s nodes") % {"n": f"{counts.nodes:,}"},
            _("No incident needs you"),
            address("incidents"),
            "",
            False,
        )
    since = tags.ago(_at(now), fresh.since)
    return Item(
        "inc",
        _("Unhealthy"),
        str(bad),
        _("of %(n)s nodes") % {"n": f"{counts.nodes:,}"},
        f"{fresh.name}: {_short(fresh.why)}",
        _node_link(fresh),
        format_html(_("newest, {since}"), since=since),
        True,
    )


def _blocked(nodes: Sequence[NodeRow], found: Totals, now: datetime) -> Item:
    stuck = [row for row in nodes if row.workflow_state in ("blocked", "waiting")]
    small = ngettext("of %(n)s workflow", "of %(n)s workflows", found.open_workflows) % {"n": found.open_workflows}
    planned = sum(row.workflow_state == PLANNED for row in nodes)
    if not stuck:
        rest = ngettext("%(n)s plan would run", "%(n)s plans would run", planned) % {"n": planned} if planned else ""
        return Item(
            "lock", _("Blocked"), "0", small, _("No guard keeps a workflow waiting"), address("workflows"), rest, False
        )
    first = min(stuck, key=lambda row: (row.blocked_until is None, row.blocked_until or now))
    until: str | SafeString = ""
    if first.blocked_until is not None and first.blocked_until > now:
        until = format_html(_("asks again in {left}"), left=tags.countdown(_at(now), first.blocked_until))
    href = address("workflow", first.workflow) if first.workflow is not None else address("workflows")
    text = reasons.in_readers_words(first.blocked_text) or _("waits for approval")
    return Item("lock", _("Blocked"), str(len(stuck)), small, f"{first.name}: {_short(text)}", href, until, True)


def _held(nodes: Sequence[NodeRow], counts: Counts) -> Item:
    gpus = sum(row.gpus for row in nodes if row.held)
    small = ngettext("node, %(gpus)s GPUs", "nodes, %(gpus)s GPUs", counts.held) % {"gpus": f"{gpus:,}"}
    states = [
        f"{number} {STATE_WORD[state]}"
        for state, number in counts.states.most_common()
        if state not in ("in_service", "suspect", "unmanaged", "retired", "released")
    ]
    others = sum(row.foreign_hold for row in nodes)
    if others:
        states.append(ngettext("%(n)s by others", "%(n)s by others", others) % {"n": others})
    return Item(
        "gang",
        _("Held"),
        str(counts.held),
        small,
        ", ".join(states[:3]) or (_("Held, in service") if counts.held else _("Every node takes work")),
        f"{reverse('fleet')}?state=held",
        "",
        False,
    )


def _tickets(found: Totals, now: datetime) -> Item:
    if not found.tickets:
        return Item(
            "ticket", _("Tickets"), "0", _("open"), _("No repair waits for people"), address("tickets"), "", False
        )
    oldest = format_html(_("oldest: {age}"), age=tags.since(_at(now), found.oldest_ticket_at))
    return Item(
        "ticket",
        _("Tickets"),
        str(found.tickets),
        _("open"),
        _("Repairs wait for people"),
        address("tickets"),
        oldest,
        True,
    )


def _guards(counts: Counts, found: Totals) -> Item:
    limit = found.limit("in_flight", "fleet", "", counts.nodes)
    mode = str(MODE_WORD.get(found.mode, _("no cluster")))
    small = _("of %(n)s nodes") % {"n": limit} if limit is not None else _("nodes, no cap set")
    text = _("All new disruption is stopped") if found.stopped_since else _("mode: %(mode)s") % {"mode": mode}
    return Item(
        "policy",
        _("In flight"),
        str(counts.in_flight),
        small,
        text,
        address("workflows"),
        "",
        found.stopped_since is not None,
    )


def _short(text: str, most: int = 70) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
