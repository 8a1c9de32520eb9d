"""The fleet page: what needs me now, counts as filters, the map, its table twin, and the same rows as CSV.

Decides from the address alone what is shown: filters, grouping, fill, sort and page. Refuses client-side filtering and
state in the session.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from dashboard import clock, nodetable, overview
from dashboard.hexmap import Group, Zone, hexes, racks
from dashboard.nodelist import as_csv
from dashboard.shell import totals_of
from dashboard.words import MODE_WORD, STATE_ORDER, STATE_WORD, VERDICT_CLASS, VERDICT_ORDER, VERDICT_WORD
from fleet.access.decorators import needs, public
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.readmodels import fleet_kept, phrases
from fleet.readmodels.fleet_kept import once
from fleet.readmodels.fleet_map import Counts, Filters, NodeRow, count, grouped, ranked, rows, worst
from fleet.readmodels.totals import Totals

GROUPS = {"rack": gettext_lazy("Rack"), "leaf": gettext_lazy("Leaf"), "pool": gettext_lazy("Pool")}
FILLS = {"verdict": gettext_lazy("Verdict"), "state": gettext_lazy("State")}
SORTS = ("verdict", "state", "since", "node")
PAGE = 100
ZOOM_OUT = 4000
PARTS = {"top": "fleet/top.html", "table": "fleet/table.html"}


@public
def home(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(reverse("fleet"))


@needs(VIEW)
def fleet(request: HttpRequest) -> HttpResponse:
    part = request.GET.get("part", "")
    template = PARTS.get(part, "fleet/page.html")
    return render(request, template, _context(request, part))


@needs(VIEW)
def export(request: HttpRequest) -> HttpResponse:
    filters = _filters(request.GET)
    chosen = [row for row in _rows(request, filters) if filters.take(row)]
    response = HttpResponse(as_csv(ranked(chosen, "node")), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="fleet.csv"'
    return response


def _filters(query: QueryDict) -> Filters:
    return Filters(**{name: query.get(name, "")[:253] for name in Filters.NAMES})


def _rows(request: HttpRequest, filters: Filters) -> list[NodeRow]:
    visible = visible_clusters(request.user, VIEW)
    if filters.cluster and visible is not None and filters.cluster not in visible:
        raise Http404
    lines = [line for line in totals_of(request).clusters if filters.cluster in ("", line.name)]
    kept = fleet_kept.fetch(line.id for line in lines)
    if not kept:
        return rows(visible, filters.cluster)
    rest = frozenset(line.name for line in lines if line.id not in kept)
    if len(lines) == 1:
        return kept[lines[0].id]
    some = [row for line in lines for row in kept.get(line.id, ())]
    return sorted([*some, *(rows(rest) if rest else ())], key=lambda row: row.cluster)


class Links:
    """Addresses of this page with one thing changed; the page number never survives a change."""

    def __init__(self, query: QueryDict) -> None:
        kept = (*Filters.NAMES, "group", "fill", "view", "sort")
        self.now = {name: query[name] for name in kept if query.get(name)}

    def __call__(self, **changes: str) -> str:
        wanted = {name: value for name, value in {**self.now, **changes}.items() if value}
        return f"?{urlencode(wanted)}" if wanted else "?"


def _context(request: HttpRequest, part: str) -> dict[str, Any]:
    query, now = request.GET, clock.now()
    filters, links = _filters(query), Links(query)
    found = totals_of(request)
    here = found.within(filters.cluster) if filters.cluster else found
    nodes = _rows(request, filters)
    chosen = once(nodes, ("chosen", filters), lambda: _chosen(nodes, filters)) if filters.active() else nodes
    counts = once(nodes, ("count", filters), lambda: count(nodes, filters))
    bare = Filters(cluster=filters.cluster)
    whole = once(nodes, ("count", bare), lambda: count(nodes, bare)) if filters.active() else counts
    blocked = once(nodes, "blocked", lambda: sum(row.workflow_state in ("blocked", "waiting") for row in nodes))
    as_table = query.get("view") == "table"
    context = {
        "now": now,
        "counts": counts,
        "whole": whole,
        "shown": len(chosen),
        "filters": filters,
        "chips": _chips(filters, links),
        "as_table": as_table,
        "link_map": links(view=""),
        "link_table": links(view="table"),
        "csv": f"{reverse('fleet_csv')}{links(group='', fill='', view='', sort='')}",
        "act_on": f"{reverse('bulk_new')}{links(group='', fill='', view='', sort='')}",
        "src": f"{reverse('fleet')}{links()}{'&' if links() != '?' else ''}",
        "clusters": found.clusters,
    }
    if part != "table":
        context |= {
            "said": overview.sentence(whole, here, blocked, now),
            "strip": overview.strip(once(nodes, "odd", lambda: _odd(nodes)), whole, here, now),
            "ailing": [line for line in here.clusters if line.conditions],
            "verdict_counts": _verdict_counts(counts, filters, links),
            "state_counts": _state_counts(counts, filters, links),
            "link_all": links(verdict="", state=""),
        }
        if not as_table:
            context |= _map(nodes, chosen, query, links, found)
    if part != "top":
        context |= _table(nodes, chosen, filters, query, links, as_table, now)
    return context


def _odd(nodes: list[NodeRow]) -> list[NodeRow]:
    """Those of which there is something to say."""
    return [row for row in nodes if not row.plain or row.foreign_hold]


def _chosen(nodes: list[NodeRow], filters: Filters) -> list[NodeRow]:
    return [row for row in nodes if filters.take(row)]


def _chips(filters: Filters, links: Links) -> list[tuple[str, str, str]]:
    labels = {
        "cluster": _("cluster"),
        "verdict": _("verdict"),
        "state": _("state"),
        "pool": _("pool"),
        "rack": _("rack"),
        "leaf": _("leaf"),
        "q": _("name contains"),
    }
    words: dict[str, dict[str, Any]] = {"verdict": VERDICT_WORD, "state": STATE_WORD}
    return [
        (labels[name], str(words.get(name, {}).get(value, value)), links(**{name: ""}))
        for name, value in filters.active()
    ]


def _verdict_counts(counts: Counts, filters: Filters, links: Links) -> list[dict[str, Any]]:
    return [
        {
            "kind": VERDICT_CLASS[verdict],
            "word": VERDICT_WORD[verdict],
            "n": f"{counts.verdicts[verdict]:,}",
            "here": filters.verdict == verdict,
            "href": links(verdict="" if filters.verdict == verdict else verdict),
        }
        for verdict in VERDICT_ORDER
    ]


def _state_counts(counts: Counts, filters: Filters, links: Links) -> list[dict[str, Any]]:
    shown = [("held", counts.held)] + [
        (state, counts.states[state]) for state in STATE_ORDER if state != "held" and counts.states[state]
    ]
    shown.sort(key=lambda pair: pair[0] != "in_service")
    return [
        {
            "word": STATE_WORD[state],
            "n": f"{number:,}",
            "here": filters.state == state,
            "href": links(state="" if filters.state == state else state),
        }
        for state, number in shown
    ]


def _node_links(many_clusters: bool) -> Any:
    """The address of a node's page without asking the resolver once per node."""
    try:
        before, after = reverse("node", args=["NODE"]).split("NODE")
    except NoReverseMatch:
        return lambda row: f"{reverse('fleet')}?q={quote(row.name)}"
    if many_clusters:
        return lambda row: f"{before}{quote(row.name)}{after}?cluster={quote(row.cluster)}"
    return lambda row: f"{before}{quote(row.name)}{after}"


def _workflow_link() -> Callable[[int], str]:
    """The same for workflows."""
    try:
        before, after = reverse("workflow", args=[0]).split("0")
    except NoReverseMatch:
        return lambda pk: ""
    return lambda pk: f"{before}{pk}{after}"


def _map(nodes: list[NodeRow], chosen: list[NodeRow], query: QueryDict, links: Links, found: Totals) -> dict[str, Any]:
    group = query.get("group", "rack") if query.get("group") in GROUPS else "rack"
    fill = query.get("fill", "verdict") if query.get("fill") in FILLS else "verdict"
    many = len(found.clusters) > 1
    far = len(chosen) > ZOOM_OUT
    context: dict[str, Any] = {
        "far": far,
        "groups": [(links(group="" if key == "rack" else key), word, key == group) for key, word in GROUPS.items()],
        "fills": [(links(fill="" if key == "verdict" else key), word, key == fill) for key, word in FILLS.items()],
        "fill": fill,
    }
    modes = tuple((line.name, line.mode) for line in found.clusters)
    key = ("map", group, fill, tuple(links.now.items()), modes, tuple(found.caps), get_language())
    if far:
        context["drawing"] = once(nodes, key, lambda: racks(_zones(chosen, group, links, found)))
    elif chosen:
        link = _node_links(many)
        label = {"rack": _("Nodes by rack"), "leaf": _("Nodes by leaf"), "pool": _("Nodes by pool")}[group]
        context["peek"] = once(nodes, ("peek", key), lambda: _peek(worst(chosen), link))
        context["drawing"] = once(
            nodes, key, lambda: hexes(_groups(nodes, chosen, group, many, links, found), fill, link, label)
        )
    return context


def _peek(row: NodeRow, link: Any) -> dict[str, Any] | None:
    """The node that the strip tells first: the worst one, if anything is wrong."""
    if row.plain:
        return None
    words = f"{VERDICT_WORD.get(row.verdict, row.verdict)}, {STATE_WORD.get(row.state, row.state)}"
    why = phrases.told(row.blocked_text or row.why)
    return {
        "kind": VERDICT_CLASS.get(row.verdict, "unk"),
        "href": link(row),
        "name": row.name,
        "state": words,
        "why": why,
    }


def _groups(
    nodes: list[NodeRow], chosen: list[NodeRow], group: str, many: bool, links: Links, found: Totals
) -> list[Group]:
    whole = {(cluster, key): some for cluster, key, some in grouped(nodes, group, many)}
    made = []
    for cluster, key, some in grouped(chosen, group, many):
        bare = key or _("none named")
        title = f"{cluster} {bare}" if cluster else bare
        note, full = _cap_note(whole[cluster, key], group, found)
        changes = {group: key, **({"cluster": cluster} if cluster else {})}
        made.append(Group(title, f"{GROUPS[group]} {title}", links(**changes), some, note, full))
    return made


def _cap_note(members: list[NodeRow], scope: str, found: Totals) -> tuple[str, bool]:
    """The cap of a rack, leaf or pool in words, and whether it is full; nothing while nothing is out."""
    used = sum(row.in_flight for row in members)
    if not used:
        return "", False
    limit = found.limit("in_flight", scope, members[0].cluster, len(members))
    if limit is None:
        return _("%(used)s out") % {"used": used}, False
    return _("%(used)s of %(limit)s out") % {"used": used, "limit": limit}, used >= limit


def _zones(chosen: list[NodeRow], group: str, links: Links, found: Totals) -> list[Zone]:
    modes = {line.name: str(MODE_WORD.get(line.mode, line.mode)).lower() for line in found.clusters}
    inner = "leaf" if group == "leaf" else "rack"
    zones: dict[tuple[str, str], list[NodeRow]] = {}
    for row in chosen:
        zones.setdefault((row.cluster, row.pool if group == "pool" else ""), []).append(row)
    made = []
    for (cluster, pool), nodes in sorted(zones.items()):
        within = {"cluster": cluster, **({"pool": pool} if pool else {})}
        title = f"{cluster} · {pool}" if pool else cluster
        groups = [
            Group(key, f"{cluster} {key}", links(**{**within, inner: key}), some)
            for _cluster, key, some in grouped(nodes, inner, many_clusters=True)
        ]
        made.append(Zone(title, links(**within), modes.get(cluster, ""), groups))
    return made


def _table(
    nodes: list[NodeRow],
    chosen: list[NodeRow],
    filters: Filters,
    query: QueryDict,
    links: Links,
    as_table: bool,
    now: datetime,
) -> dict[str, Any]:
    sort = query.get("sort", "verdict") if query.get("sort") in SORTS else "verdict"
    everything = as_table or any(name != "cluster" for name, _value in filters.active())
    listed = once(
        nodes,
        ("listed", filters, everything, sort),
        lambda: ranked(chosen if everything else [row for row in chosen if not row.plain], sort),
    )
    asked = query.get("page", "")
    page = max(1, int(asked)) if asked.isdecimal() and len(asked) < 7 else 1
    pages = max(1, -(-len(listed) // PAGE))
    page = min(page, pages)
    start = (page - 1) * PAGE
    many = once(nodes, ("many", filters, everything), lambda: len({row.cluster for row in listed}) > 1)
    shown = listed[start : start + PAGE]
    again = links(sort="" if sort == "verdict" else sort)
    joint = "&" if again != "?" else ""
    return {
        "lines": nodetable.body(shown, _node_links(many), _workflow_link(), many, now),
        "everything": everything,
        "listed": len(listed),
        "first": start + 1 if listed else 0,
        "last": start + len(shown),
        "many": many,
        "sort": sort,
        "sorts": {name: links(sort="" if name == "verdict" else name) for name in SORTS},
        "previous": f"{again}{joint}page={page - 1}" if page > 1 else "",
        "following": f"{again}{joint}page={page + 1}" if page < pages else "",
        "page": page,
    }
