"""The nodes that fail again and again, the worst first, each with what counts against it.

Decides nothing: the score is worked out by health. Refuses clusters that the reader may not see.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard import clock
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.readmodels import company


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    now = clock.now()
    found = company.offenders(visible_clusters(request.user, VIEW), now)
    many = len({offender.node.cluster_id for offender in found}) > 1
    template = "offender/_rows.html" if "part" in request.GET else "offender/list.html"
    return render(request, template, {"offenders": found, "many": many, "now": now})
