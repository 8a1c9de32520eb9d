"""What if: nodes return, nodes are drained, a gang is suspended.

Decides that the address is the whole question, so that an answer can be shown to somebody else. Refuses to act: it only
asks the observer, and says so when that does not answer.
"""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from dashboard import clock
from dashboard.views.gang_asks import shown_all
from dashboard.views.said import fixed
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.gangs.questions import NODES_AT_MOST, Question
from fleet.inventory.models import Cluster
from fleet.readmodels import gang_list
from fleet.readmodels.gang_whatif import Outcome, outcomes

DOES = {
    "return": lazy("Nodes return to service"),
    "drain": lazy("Nodes are drained"),
    "suspend": lazy("A gang is suspended"),
}
NAMES = re.compile(r"[\s,]+")
CHOICES = 30  # gangs to choose from


@needs(VIEW)
def what_if(request: HttpRequest) -> HttpResponse:
    visible = visible_clusters(request.user, VIEW)
    cluster = chosen(visible, request.GET.get("cluster", "")[:63])
    asked = _question(request)
    told = outcomes(cluster, [asked]) if cluster is not None and asked is not None else []
    name = cluster.name if cluster is not None else ""
    context = {
        "now": clock.now(),
        "at": "what_if",
        "cluster": name,
        "one_only": True,
        "does": DOES.items(),
        "kind": asked.kind if asked else request.GET.get("kind", "return"),
        "nodes": " ".join(asked.nodes) if asked else "",
        "gang": asked.gang if asked else "",
        "holding": _holding(visible, name),
        "outcomes": shown_all(told, name),
        "said": _said(told),
        "asked": asked,
    }
    return render(request, "queue/what_if.html", context)


def chosen(visible: gang_list.Visible, name: str) -> Cluster | None:
    """The cluster that is named, else the first in view."""
    rows = Cluster.objects.filter(removed_at=None).order_by("name")
    if visible is not None:
        rows = rows.filter(name__in=visible)
    return rows.filter(name=name).first() if name else rows.first()


def _question(request: HttpRequest) -> Question | None:
    get = request.GET
    kind, nodes = get.get("kind", ""), tuple(word[:253] for word in NAMES.split(get.get("nodes", "")) if word)
    if kind in ("return", "drain") and nodes:
        return Question("return" if kind == "return" else "drain", nodes[:NODES_AT_MOST])
    if kind == "suspend" and get.get("gang"):
        return Question("suspend", gang=get["gang"][:600])
    return None


def _holding(visible: gang_list.Visible, cluster: str) -> list[tuple[str, str, int]]:
    """Gangs that hold GPUs, those that hold them for nothing first. One query."""
    rows = gang_list.present(visible, cluster).filter(gpus_held__gt=0)
    return list(rows.order_by("-gpus_held_idle", "-gpus_held", "pk").values_list("key", "title", "gpus_held")[:CHOICES])


def _said(told: list[Outcome]) -> SafeString:
    if not told:
        return fixed(
            _(
                "<b>Ask before you act.</b> The queues are played in their own order in the imagined world and in the "
                "present one; the difference is told. <b>Next:</b> name nodes or a gang."
            )
        )
    one: Any = told[0]
    return format_html(_("<b>If {what}:</b> {comes}"), what=one.title, comes=one.sentence)
