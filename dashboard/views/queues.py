"""The queues: gangs that wait and why, what queues may use, and how the room lies.

Decides from the address alone what is shown: filters, order and page. Refuses clusters that the reader may not see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from dashboard import clock
from dashboard.charts.gather import gather
from dashboard.charts.quota import quota_bar
from dashboard.views.gang_links import gang_href, node_href, out_node
from dashboard.views.paging import Pager, address, whole
from dashboard.views.said_gangs import queues_said
from dashboard.views.said_quota import quota_said
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.readmodels import gang_conditions, gang_cost, gang_list, gang_names, queue_quota
from fleet.readmodels.gang_list import GangLine, GangPage, Wanted
from fleet.readmodels.gang_reasons import gpus, members
from fleet.readmodels.gang_words import CONDITIONS

ORDER_WORDS = {"idle": lazy("Held idle"), "wait": lazy("Wait"), "queue": lazy("Queue")}
STATES = ("waits", "idle", "starting", "suspended", "running", "empty", "finished")
STATE_WORDS = {**gang_names.STATES, "waits": lazy("waiting"), "idle": lazy("holding idle GPUs")}
BADGES = 4  # conditions named beside a gang
BLOCKING = 4  # nodes named beside a gang
QUEUES_BESIDE = 8


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    wanted, visible = wanted_of(request), visible_clusters(request.user, VIEW)
    part, now = request.GET.get("part", ""), clock.now()
    if part == "side":
        return render(request, "queue/_side.html", {"wanted": wanted, "now": now, **_side(visible, wanted.cluster)})
    page = gang_list.read(visible, wanted, now)
    context = {
        "now": now,
        "page": page,
        "wanted": wanted,
        "lines": [shown(line) for line in page.rows],
        "pager": _pager(request, page),
        "said": queues_said(page),
        "many": len({line.cluster_id for line in page.rows}) > 1,
        "rows_url": f"{request.path}{address(request)}&part=rows",
    }
    if part == "rows":
        return render(request, "queue/_rows.html", context)
    context |= _filters(request, page, wanted)
    return render(request, "queue/list.html", context)


@needs(VIEW)
def quota(request: HttpRequest) -> HttpResponse:
    cluster = request.GET.get("cluster", "")[:63]
    lines = queue_quota.read(visible_clusters(request.user, VIEW), cluster)
    context = {
        "now": clock.now(),
        "said": quota_said(lines),
        "lines": [(line, [quota_bar(share) for share in line.shares]) for line in lines],
        "at": "quota",
        "cluster": cluster,
    }
    return render(request, "queue/_quota.html" if "part" in request.GET else "queue/quota.html", context)


@needs(VIEW)
def by_key(request: HttpRequest) -> HttpResponse:
    """From a gang's key to its page: the newest of that key in view, gone or not."""
    rows = gang_list.GangRow.objects.filter(
        **gang_list.scope(visible_clusters(request.user, VIEW), request.GET.get("cluster", "")[:63]),
        key=request.GET.get("key", "")[:600],
    )
    pk = rows.order_by("-changed_at").values_list("pk", flat=True).first()
    if pk is None:
        raise Http404
    return HttpResponseRedirect(gang_href(pk))


def wanted_of(request: HttpRequest) -> Wanted:
    get = request.GET
    order, condition = get.get("by", ""), get.get("condition", "")
    return Wanted(
        state=get.get("state", "")[:12],
        queue=get.get("queue", "")[:600],
        system=get.get("system", "")[:16],
        cluster=get.get("cluster", "")[:63],
        condition=condition if condition in CONDITIONS else "",
        q=get.get("q", "").strip()[:253],
        by=order if order in gang_list.ORDERS else "idle",
        page=max(1, whole(get.get("page", ""))),
    )


def shown(line: GangLine) -> dict[str, Any]:
    """One gang with its bar, its words and its links."""
    idle = bool(line.gpus_held_idle)
    return {
        "gang": line,
        "href": gang_href(line.pk),
        "system": gang_names.word(gang_names.SYSTEMS, line.system),
        "state": gang_names.word(gang_names.STATES, line.state),
        "bar": gather(line.placed, line.minimum, line.wanted, line.could_now, idle=idle, waits=line.waits).svg,
        "why": line.why,
        "cost": gang_cost.cost(line.idle) if idle else "",
        "size": f"{members(line.wanted)}, {gpus(line.gpus_wanted)}",
        "where": ", ".join(part for part in (_queue(line), _turn(line)) if part),
        "turn": _turn(line),
        "numbered": _numbered(line),
        "held": _("%(gpus)s held idle") % {"gpus": gpus(line.gpus_held_idle)} if idle else "",
        "badges": line.conditions[:BADGES],
        "more": max(0, len(line.conditions) - BADGES),
        "out": [out_node(one, line.cluster) for one in line.blockers[:BLOCKING]],
        "others": max(0, len(line.blockers) - BLOCKING),
        "all_of": len(line.blockers),
    }


def _queue(line: GangLine) -> str:
    return _("queue %(queue)s") % {"queue": line.queue} if line.queue else _("no queue")


def _turn(line: GangLine) -> str:
    return "" if line.position is None else _("place %(n)s") % {"n": line.position + 1}


def _numbered(line: GangLine) -> SafeString:
    """Only numbers of ours go into the markup."""
    told = [
        _("<b>%(n)s</b> placed") % {"n": f"{line.placed:,}"},
        *([_("<b>%(n)s</b> running") % {"n": f"{line.running:,}"}] if line.running != line.placed else []),
        _("min <b>%(n)s</b>") % {"n": f"{line.minimum:,}"},
        _("wanted <b>%(n)s</b>") % {"n": f"{line.wanted:,}"},
    ]
    return SafeString("".join(f"<span>{one}</span>" for one in told))


def _pager(request: HttpRequest, page: GangPage) -> Pager:
    back = address(request, page=str(page.number - 1) if page.number > 2 else "") if page.number > 1 else ""
    on = address(request, page=str(page.number + 1)) if page.more else ""
    return Pager(back, on, page.first, page.first + len(page.rows) - 1 if page.rows else 0)


def _filters(request: HttpRequest, page: GangPage, wanted: Wanted) -> dict[str, Any]:
    tally = page.tally
    numbers: Mapping[str, int] = {**tally.states, "waits": tally.waiting, "idle": tally.idle_gangs}
    return {
        "at": "gangs",
        "side_url": f"{request.path}?{urlencode({'part': 'side', 'cluster': wanted.cluster})}",
        "states": [
            (state, STATE_WORDS[state], numbers.get(state, 0), address(request, state=state, page=""))
            for state in STATES
        ],
        "all_url": address(request, state="", page=""),
        "orders": [
            (address(request, by="" if by == "idle" else by, page=""), word, by == wanted.by)
            for by, word in ORDER_WORDS.items()
        ],
        "systems": [(system, gang_names.word(gang_names.SYSTEMS, system)) for system in tally.systems],
        "condition_name": CONDITIONS[wanted.condition].name if wanted.condition else "",  # type: ignore[index]
        "without_condition": address(request, condition="", page=""),
        "clear": address(request, q="", queue="", system="", state="", condition="", page=""),
    }


def _side(visible: gang_list.Visible, cluster: str) -> dict[str, Any]:
    within = gang_list.scope(visible, cluster)
    queues = queue_quota.read(visible, cluster)
    return {
        "kinds": gang_conditions.kinds(within),
        "queues": [(line, [quota_bar(share) for share in line.shares[:2]]) for line in queues if line.shares][
            :QUEUES_BESIDE
        ],
        "helping": [
            {
                "node": out_node(one.out, one.cluster),
                "href": node_href(one.node, one.cluster),
                "gpus": one.gpus,
                "gangs": [(gang_href(pk), title) for pk, title in one.gangs[:2]],
                "more": max(0, len(one.gangs) - 2),
                "together": len(one.together),
            }
            for one in gang_list.helping(visible, cluster)
        ],
    }
