"""The list of incidents and the page of one.

Decides who may acknowledge or mute one; for the rest it shows what belongs to an incident. Refuses clusters that the
reader may not see, and to act by GET.
"""

from __future__ import annotations

from datetime import timedelta

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from dashboard import clock
from dashboard.views import suspicion
from dashboard.views.paging import filter_of, list_context, node_address
from dashboard.views.said_lists import incident_said, incidents_said
from fleet.access.decorators import needs
from fleet.access.rights import OPERATE, VIEW, least_role
from fleet.access.selectors import may, visible_clusters
from fleet.health import handling
from fleet.health.models import Incident
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
    until = found.incident.muted_until
    context = {
        "page": found,
        "muted": until is not None and until > clock.now(),
        "may_handle": may(request.user, OPERATE, found.incident.cluster.name),
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
        **suspicion.context(found.incident),
    }
    return render(request, "incident/_live.html" if "part" in request.GET else "incident/page.html", context)


@needs(OPERATE)
@require_POST
def handle(request: HttpRequest, pk: int, act: str) -> HttpResponse:
    """Acknowledge, mute or unmute."""
    visible = visible_clusters(request.user, VIEW)
    incident = Incident.objects.select_related("cluster").filter(pk=pk).first()
    if incident is None or act not in _DONE or (visible is not None and incident.cluster.name not in visible):
        raise Http404
    if not may(request.user, OPERATE, incident.cluster.name):
        raise PermissionDenied(least_role(OPERATE))
    actor, now = request.user.get_username(), clock.now()
    try:
        if act == "acknowledge":
            handling.acknowledge(pk, actor, now)
        elif act == "mute":
            hours = request.POST.get("hours", "")
            until = now + timedelta(hours=int(hours) if hours.isdecimal() and len(hours) < 5 else 0)
            handling.mute(pk, actor, request.POST.get("reason", ""), until, now)
        else:
            handling.unmute(pk, actor, now)
    except handling.Refused as error:
        messages.error(request, str(error))
    else:
        messages.success(request, gettext(_DONE[act]))
    return HttpResponseRedirect(reverse("incident", args=[pk]))


_DONE = {
    "acknowledge": gettext_noop("Acknowledged."),
    "mute": gettext_noop("Muted: nothing is planned for it until then."),
    "unmute": gettext_noop("Unmuted: it is planned again with the next look."),
}
