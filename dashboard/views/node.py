"""The page of one node: why it is as it is, what comes next, what was measured, what happened.

Decides which cluster is meant when two have a node of that name, and which part of the page a live reload gets.
Refuses nodes of clusters that the reader may not see: they look as if they did not exist.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _

from dashboard import clock, grafana, spans
from dashboard.charts import bars, figures, sparks
from dashboard.views import suspicion
from dashboard.views.gang_asks import node_answers
from dashboard.views.paging import node_address
from dashboard.views.queues import shown
from dashboard.views.said import node_said
from fleet import wiring
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.inventory.models import Node
from fleet.lifecycle.machine import OUT_STATES
from fleet.lifecycle.playbooks import CLAIMS
from fleet.policy import selectors as policy
from fleet.policy.rules import decide
from fleet.readmodels import company, gangs_of_node, guard_lines, measures, node_page, tests_shown, timeline, words
from fleet.readmodels.suspicion import gang_advice
from fleet.readmodels.why import answer

RANGE_WORDS = {"45m": _("45 min"), "2h": _("2 h"), "24h": _("24 h"), "7d": _("7 d"), "30d": _("30 d")}
GROUP_WORDS = {"all": _("All"), "signals": _("Signals"), "steps": _("Steps"), "people": _("People")}
RANGES = {
    "45m": timedelta(minutes=45),
    "2h": timedelta(hours=2),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
SAMPLED = RANGES["2h"]  # beyond that, points stand for longer than one sample
LIVE_EVERY, SLOW_EVERY = 15, 300  # seconds between two drawings
PARTS = {"now": "node/_now.html", "timeline": "node/_timeline.html", "side": "node/_side.html"}
CAPS = "node/_caps.html"
OFFENCES = "node/_offences.html"
TESTS = "node/_tests.html"
GANGS = "node/_gangs.html"
WHAT_IF = "node/_what_if.html"


def _nodes(request: HttpRequest, name: str) -> list[Node]:
    found = node_page.find(name, visible_clusters(request.user, VIEW), request.GET.get("cluster", ""))
    if not found:
        raise Http404
    return found


@needs(VIEW)
def node(request: HttpRequest, name: str) -> HttpResponse:
    found = _nodes(request, name)
    if len(found) > 1:
        return render(request, "node/choose.html", {"name": name, "nodes": found}, status=300)
    part = request.GET.get("part", "")
    if part == "caps":
        return render(request, CAPS, _caps(found[0]))
    if part == "offences":
        record = company.record_of(found[0], clock.now())
        return render(request, OFFENCES, {"node": found[0], "record": record})
    if part == "tests":
        return render(request, TESTS, {"tests": _tests(request, found[0])})
    if part == "gangs":
        return render(request, GANGS, _gangs(found[0]))
    if part == "what-if":
        out = found[0].unschedulable or found[0].ready is not True
        return render(request, WHAT_IF, {"outcomes": node_answers(found[0].cluster, found[0].name, out)})
    return render(request, PARTS.get(part, "node/page.html"), _context(request, found[0]))


def _gangs(row: Node) -> dict[str, Any]:
    """Whose members are here, and who waits for its return."""
    now = clock.now()
    found = gangs_of_node.read(row, now)
    return {"node": row, "now": now, "here": [shown(line) for line in found.here],
            "blocked": [shown(line) for line in found.blocked]}  # fmt: skip


def _tests(request: HttpRequest, row: Node) -> list[tests_shown.Shown]:
    """Those of one workflow where the reader looks at one, else the newest of the node."""
    workflow = request.GET.get("workflow", "")
    shown = tests_shown.of_workflow(int(workflow)) if workflow.isdecimal() and len(workflow) < 16 else None
    return tests_shown.of_node(row.pk) if shown is None else [one for one in shown if one.run.node_id == row.pk]


def _context(request: HttpRequest, row: Node) -> dict[str, Any]:
    now = clock.now()
    group = request.GET.get("tl", "all")
    group = group if group in timeline.GROUPS else "all"
    span = request.GET.get("range", "45m")
    span = span if span in RANGES else "45m"
    page = _read(row, now, RANGES[span])
    drawn = figures.cards(page)
    return {
        **suspicion.context(page.incident),
        "advice": gang_advice(row),
        "self": node_address(row, row.cluster),
        "by": words.actor(page.lifecycle.by) if page.lifecycle.by else "",
        "step_number": page.workflow.step + 1 if page.workflow else 0,
        "measured_at": spans.absolute(page.measured_at, "hms") if page.measured_at else "",
        "measured": any(not card.empty for card in drawn),
        "faulty": next((card.faulty for card in drawn), None),
        "ranges": RANGE_WORDS.items(),
        "groups": GROUP_WORDS.items(),
        "managed": row.managed,
        "page": page,
        "node": row,
        "now": now,
        "said": node_said(page, now),
        "why": _why(row, page, now),
        "mode": guard_lines.mode_line(row, page.incident, row.cluster).text,
        "events": _timed(timeline.events(row, group=group), now),
        "group": group,
        "range": span,
        "charts": drawn,
        "gpus": sparks.strips(page),
        "rolled": RANGES[span] > SAMPLED,
        "time_form": "hms" if RANGES[span] <= SAMPLED else "full",
        "redraw": LIVE_EVERY if RANGES[span] <= SAMPLED else SLOW_EVERY,
        "notes": page.past.notes if page.past else (),
        "grafana": grafana.address(row.cluster.grafana_url, row.name, row.cluster.name, now - RANGES[span], now),
    }


def _read(row: Node, now: datetime, span: timedelta, measures: tuple[str, ...] = ()) -> node_page.NodePage:
    """The page with its past: our own samples where they reach, else from wherever the cluster's past is kept."""
    page = node_page.read(row, now, history=min(span, SAMPLED))
    if span > SAMPLED or (not page.rows and row.cluster.prometheus_url):
        page.show(wiring.history(row.cluster).past(page.whose, now - span, now, measures))
    return page


def _timed(events: list[timeline.Event], now: datetime) -> list[tuple[timeline.Event, str]]:
    """Each event with the form of its time: the clock today, the day before that."""
    return [(event, "hms" if now - event.at < timedelta(hours=20) else "day") for event in events]


def _why(row: Node, page: node_page.NodePage, now: datetime) -> dict[str, Any]:
    workflow = page.workflow if page.workflow is not None and page.workflow.ended_at is None else None
    incident = page.incident if page.incident is not None and page.incident.state == "open" else None
    found = answer(row, workflow, incident, page.step_text, now)
    blocked = found.get("blocked")
    if blocked and isinstance(blocked.get("until"), str):
        found["blocked"] = {**blocked, "until": datetime.fromisoformat(blocked["until"])}
    return found


def _caps(row: Node) -> dict[str, Any]:
    """Every cap that the node counts against, and what the guard would say to each act that needs room."""
    now = clock.now()
    fleet = policy.read_fleet(now, OUT_STATES)
    caps = policy.caps_of(row.cluster_id)
    place = fleet.places.get(row.pk)
    guards = [
        (words.word(words.VERBS, verb), decide(kind, place, caps, fleet.tally, now))
        for verb, kind in CLAIMS.items()
        if place is not None
    ]
    lines = [bars.cap_line(cap, row.name) for cap in policy.cap_usage(fleet, row.pk, caps)]
    return {"node": row, "caps": lines, "guards": guards, "managed": row.managed, "now": now}


@needs(VIEW)
def chart(request: HttpRequest, name: str, kind: str) -> HttpResponse:
    """One Plotly figure as JSON. Peers are the other nodes of the pool."""
    if kind not in figures.KINDS:
        raise Http404
    row = _nodes(request, name)[0]
    now = clock.now()
    span = RANGES.get(request.GET.get("range", ""), RANGES["45m"])
    key, ports = figures.KINDS[kind].key, figures.KINDS[kind].of_ports
    page = _read(row, now, span, (key, "ib_tx") if ports else (key,))
    band = [] if ports or span > SAMPLED else measures.peer_band(row, key, now - span)
    response = JsonResponse(figures.figure(kind, page, band, now - span, now))
    response["Cache-Control"] = "no-store"
    return response
