"""The list of incidents and the page of one.

Decides nothing: it shows what belongs to an incident. Refuses clusters that the reader may not see.
"""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _

from dashboard import clock
from dashboard.views.paging import filter_of, list_context, node_address
from dashboard.views.said_lists import incident_said, incidents_said
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.readmodels import company, incident_page, lists, words
from fleet.readmodels.timeline import evidence_line

STATES = {"open": _("Open"), "resolved": _("Resolved")}


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    wanted = filter_of(request)
    page = lists.incidents(visible_clusters(request.user, VIEW), wanted)
    context = {**list_context(request, page, wanted, STATES), "said": incidents_said(page)}
    return render(request, "incident/_rows.html" if "part" in request.GET else "incident/list.html", context)


@needs(VIEW)
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    found = incident_page.read_incident(pk, visible_clusters(request.user, VIEW))
    if found is None:
        raise Http404
    context = {
        "page": found,
        "incident": found.incident,
        "members": company.members_of(found.incident) if found.incident.is_shared else [],
        "now": clock.now(),
        "said": incident_said(found),
        "asks": words.word(words.ACTION_CLASSES, found.incident.action_class),
        "node_url": node_address(found.incident.node, found.incident.cluster) if found.incident.node else "",
        "signals": [
            (signal, evidence_line(signal.evidence), words.word(words.SOURCES, signal.source))
            for signal in found.signals
        ],
        "evidence": incident_page.evidence_text(found.incident.evidence),
    }
    return render(request, "incident/_live.html" if "part" in request.GET else "incident/page.html", context)
