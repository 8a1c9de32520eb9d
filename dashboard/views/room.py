"""Room and waiting: how the free GPUs lie, and how utilisation and waiting went together over time.

Decides range and cluster by the address. The past comes from rows; how the room lies now comes from the observer, in a
part that is read after the page. Refuses to show an old room as today's: without an answer it is not known.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from dashboard import clock, spans
from dashboard.charts.pulling import draw
from dashboard.charts.slots import Histogram, domain_bars, histogram
from dashboard.views.said import fixed
from dashboard.views.what_if import chosen
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.gangs.questions import Question, Room
from fleet.inventory.models import Cluster
from fleet.readmodels import queue_minutes
from fleet.readmodels.gang_whatif import answers, watched
from fleet.readmodels.queue_minutes import Bucket

RANGES = {"6h": timedelta(hours=6), "24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
RANGE_WORDS = {"6h": lazy("6 h"), "24h": lazy("24 h"), "7d": lazy("7 d"), "30d": lazy("30 d")}
TABLE_ROWS = 12


@needs(VIEW)
def room(request: HttpRequest) -> HttpResponse:
    cluster = chosen(visible_clusters(request.user, VIEW), request.GET.get("cluster", "")[:63])
    if request.GET.get("part") == "now":
        return render(request, "queue/_room.html", _now(cluster, request.GET.get("level", "")[:300]))
    span = request.GET.get("range", "24h")
    span = span if span in RANGES else "24h"
    now = clock.now()
    since = now - RANGES[span]
    buckets = queue_minutes.read(cluster.pk, since, now) if cluster is not None else []
    context = {
        "now": now,
        "at": "room",
        "cluster": cluster.name if cluster is not None else "",
        "one_only": True,
        "range": span,
        "ranges": RANGE_WORDS.items(),
        "drawn": draw(buckets, since, now, queue_minutes.step_of(RANGES[span])),
        "rows": [_row(one) for one in buckets[:: -max(1, len(buckets) // TABLE_ROWS)]],
        "said": _said(buckets),
        "level": request.GET.get("level", ""),
    }
    return render(request, "queue/room.html", context)


def _row(one: Bucket) -> dict[str, Any]:
    return {
        "at": one.at,
        "works": f"{one.works:.0%}",
        "held": f"{one.idle:,.0f}",
        "waiting": f"{one.waiting:,.0f}",
        "median": spans.span(one.median) if one.median is not None else "–",
        "longest": spans.span(one.longest) if one.longest is not None else "–",
        "free": f"{one.free_nodes:,.0f}",
        "packed": f"{one.packed_nodes:,.0f}",
    }


def _said(buckets: list[Bucket]) -> SafeString:
    if not buckets:
        return fixed(_("<b>No minute is recorded yet.</b> <b>Next:</b> the observer writes one line each minute."))
    last = buckets[-1]
    lost = last.packed_nodes - last.free_nodes
    lead = format_html(
        _("<b>{works} of the GPUs work, {held} are held for nothing;</b> the median wait is {wait}."),
        works=f"{last.works:.0%}",
        held=f"{last.held:.0%}",
        wait=spans.span(last.median) if last.median is not None else _("none"),
    )
    if lost < 1:
        return format_html("{} {}", lead, _("Packing would give no further whole node."))
    text = _("{free} whole nodes are free; packed tightly, {packed} would be.")
    return format_html("{} {}", lead, text.format(free=f"{last.free_nodes:,.0f}", packed=f"{last.packed_nodes:,.0f}"))


def _now(cluster: Cluster | None, level: str) -> dict[str, Any]:
    if cluster is None:
        return {"room": None, "cluster": ""}
    told = answers(cluster, [Question("room", level=level)])
    found: Room | None = told.answers[0].room if told is not None and told.answers else None
    drawn: Histogram | None = histogram(found) if found is not None else None
    return {
        "room": found,
        "answered": told is not None,
        "watched": watched(cluster),
        "cluster": cluster.name,
        "histogram": drawn,
        "domains": domain_bars(found) if found is not None else [],
        "sizes": list(zip(found.sizes, found.slots, found.packed, _scattered(found), strict=True)) if found else [],
    }


def _scattered(found: Room) -> list[str]:
    """The share of the free GPUs that no member of that size can use."""
    if not found.free:
        return ["–" for _size in found.sizes]
    return [f"{1 - size * slots / found.free:.0%}" for size, slots in zip(found.sizes, found.slots, strict=True)]
