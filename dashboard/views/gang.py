"""The page of one gang: why it does not start, where its members are, what was said of it, what would let it start.

Decides which part of the page a live reload gets. Refuses gangs of clusters that the reader may not see, and to answer
what-ifs by itself: the observer does, and the part that asks it is read after the page.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard import clock
from dashboard.hexmap import Group, hexes
from dashboard.views.gang_asks import gang_answers
from dashboard.views.gang_links import gang_by_key, node_href, out_node
from dashboard.views.paging import whole
from dashboard.views.queues import shown
from dashboard.views.said_gangs import gang_said
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.readmodels import gang_names, gang_page
from fleet.readmodels.fleet_map import NodeRow, grouped
from fleet.readmodels.gang_page import MEMBERS_A_PAGE, GangView, MemberLine
from fleet.readmodels.gang_reasons import before
from fleet.readmodels.node_page import instant

PARTS = {"live": "gang/_live.html", "members": "gang/_members.html"}
NOT_KNOWN = (
    "", "", "", "unknown", "", None, "in_service", None, "", "", False, False, 0, False, None, "", 0, None, "", None,
)  # fmt: skip
"""Of a node that no inventory knows, after its name and its cluster."""


@needs(VIEW)
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    now = clock.now()
    found = gang_page.read(pk, visible_clusters(request.user, VIEW), now)
    if found is None:
        raise Http404
    part = request.GET.get("part", "")
    if part == "what-if":
        return render(request, "gang/_what_if.html", gang_answers(found, now))
    return render(request, PARTS.get(part, "gang/page.html"), _context(request, found))


def _context(request: HttpRequest, found: GangView) -> dict[str, Any]:
    now, line = clock.now(), found.line
    number = max(1, whole(request.GET.get("members", "")))
    start = (number - 1) * MEMBERS_A_PAGE
    return {
        **shown(line),
        "now": now,
        "view": found,
        "said": gang_said(line, found.gone_at, now),
        "self": reverse("gang", args=[line.pk]),
        "guarantee": gang_names.word(gang_names.GUARANTEES, found.guarantee),
        "state_sentence": gang_names.word(gang_names.STATE_SENTENCES, line.state),
        "drawing": _map(found),
        "members": [_member(found, member) for member in found.members[start : start + MEMBERS_A_PAGE]],
        "first": start + 1,
        "last": min(len(found.members), start + MEMBERS_A_PAGE),
        "back": number - 1,
        "on": number + 1 if len(found.members) > start + MEMBERS_A_PAGE else 0,
        "ahead": [(gang_by_key(key, line.cluster), name) for key, name in before(line.facts) if key.count("/") >= 3],
        "numbers": _numbers(found),
        "moments": [
            (moment, [(node_href(node, line.cluster), node) for node in moment.nodes[:5]], _form(moment, now))
            for moment in found.moments
        ],
        "objects": [
            (one, [(text, instant(at or ""), source) for text, at, source in one.said]) for one in found.objects
        ],
        "ending": _ending(found),
        "blocking": [out_node(one, line.cluster) for one in line.blockers],
    }


def _form(moment: gang_page.Moment, now: datetime) -> str:
    """The clock today, the day before that."""
    return "hms" if now - moment.at < timedelta(hours=20) else "day"


def _map(found: GangView) -> Any:
    """The nodes that hold members, by rack, and those whose return is waited for; unknown ones as such."""
    holding = [_row(found, name) for name in found.places]
    if not holding:
        return ""
    groups = [
        Group(key or _("no rack named"), key or _("no rack named"), node_rack(found, key), some)
        for _cluster, key, some in grouped(holding, "rack", False)
    ]
    return hexes(groups, "verdict", lambda row: node_href(row.name, found.line.cluster), _("Nodes of its members"))


def node_rack(found: GangView, rack: str) -> str:
    return f"{reverse('fleet')}?cluster={found.line.cluster}&rack={rack}"


def _row(found: GangView, name: str) -> NodeRow:
    known = found.nodes.get(name)
    return known or NodeRow(name, found.line.cluster, *NOT_KNOWN)


def _member(found: GangView, member: MemberLine) -> dict[str, Any]:
    row = found.nodes.get(member.node)
    return {
        "member": member,
        "state": gang_names.word(gang_names.MEMBER_STATES, member.state),
        "href": node_href(member.node, found.line.cluster) if member.node else "",
        "verdict": row.verdict if row is not None else "unknown",
        "node_state": row.state if row is not None else "",
    }


def _numbers(found: GangView) -> list[tuple[str, str]]:
    """What the arithmetic found, with its names."""
    facts = found.line.facts
    named = [
        ("needs", _("GPUs it lacks")),
        ("free", _("free where it may run")),
        ("lacking", _("members it lacks")),
        ("slots", _("members that fit now")),
    ]
    told = [(word, f"{facts[name]:,}") for name, word in named if isinstance(facts.get(name), int)]
    if not facts.get("needs"):
        return []
    return [*told, *([(_("within one"), str(facts["level"]))] if facts.get("level") else [])]


def _ending(found: GangView) -> dict[str, Any] | None:
    one = found.ending
    if one is None:
        return None
    nodes = [
        (node_href(str(node.get("node", "")), found.line.cluster), node) for node in one.nodes if isinstance(node, dict)
    ]
    return {"row": one, "nodes": nodes, "events": [_event(event) for event in one.events]}


def _event(event: Any) -> str:
    if not isinstance(event, dict):
        return str(event)
    return " ".join(str(value) for value in event.values() if value not in (None, "", [], {}))
