"""The list of tickets, the page of one, and closing it.

Decides who may close: whoever may operate in the ticket's cluster. The service sends the node to validation. Refuses to
close without a resolution in words.
"""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from dashboard import clock
from dashboard.views.paging import filter_of, list_context, node_address
from dashboard.views.said_lists import paste, ticket_said, tickets_said
from fleet.access.decorators import needs
from fleet.access.rights import OPERATE, VIEW, least_role
from fleet.access.selectors import may, visible_clusters
from fleet.lifecycle import services
from fleet.readmodels import incident_page, lists
from fleet.tickets.models import Ticket

STATES = {"open": gettext_lazy("Open"), "closed": gettext_lazy("Closed")}


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    wanted = filter_of(request)
    page = lists.tickets(visible_clusters(request.user, VIEW), wanted)
    context = {**list_context(request, page, wanted, STATES), "said": tickets_said(page)}
    return render(request, "ticket/_rows.html" if "part" in request.GET else "ticket/list.html", context)


def _ticket(request: HttpRequest, pk: int) -> Ticket:
    found = incident_page.read_ticket(pk, visible_clusters(request.user, VIEW))
    if found is None:
        raise Http404
    return found


@needs(VIEW)
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    ticket = _ticket(request, pk)
    operate = may(request.user, OPERATE, ticket.cluster.name)
    refusal = "" if operate else _("Needs the role operator in cluster %(cluster)s.") % {"cluster": ticket.cluster.name}
    context = {
        "ticket": ticket,
        "now": clock.now(),
        "said": ticket_said(ticket),
        "paste": paste(ticket, incident_page.evidence_text(ticket.evidence)),
        "node_url": node_address(ticket.node, ticket.cluster),
        "refusal": refusal,
    }
    return render(request, "ticket/_live.html" if "part" in request.GET else "ticket/page.html", context)


@needs(OPERATE)
@require_POST
def close(request: HttpRequest, pk: int) -> HttpResponse:
    ticket = _ticket(request, pk)
    if not may(request.user, OPERATE, ticket.cluster.name):
        raise PermissionDenied(least_role(OPERATE))
    resolution = request.POST.get("resolution", "").strip()[:4000]
    back = HttpResponseRedirect(reverse("ticket", args=[pk]))
    if not resolution:
        messages.error(request, _("Not closed: say what was repaired."))
        return back
    try:
        services.close_ticket(pk, request.user.get_username(), resolution, clock.now())
    except services.Refused as error:
        messages.error(request, str(error))
    else:
        messages.success(request, _("Closed. The node goes to validation."))
    return back
