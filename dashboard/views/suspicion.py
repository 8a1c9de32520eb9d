"""What a suspect did beside its peers: the card on the pages of its incident and its node, and its figures.

Decides what both pages are given. Refuses incidents of clusters that the reader may not see.
"""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse

from dashboard.charts import peers
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.health.models import Incident
from fleet.readmodels import suspicion

FIGURE_EVERY = 30  # seconds between two drawings while the suspicion stands


def context(incident: Incident | None) -> dict[str, Any]:
    """Empty where the incident is none of a suspicion."""
    suspected = suspicion.read(incident)
    if suspected is None:
        return {}
    every = FIGURE_EVERY if suspected.incident.state == Incident.OPEN else 0
    return {"suspected": suspected, "courses": peers.courses(suspected.evidence), "course_every": every}


@needs(VIEW)
def chart(request: HttpRequest, pk: int, place: int) -> HttpResponse:
    """One figure as JSON."""
    visible = visible_clusters(request.user, VIEW)
    incident = Incident.objects.select_related("cluster").filter(pk=pk).first()
    if incident is None or (visible is not None and incident.cluster.name not in visible):
        raise Http404
    suspected = suspicion.read(incident)
    course = next((one for one in peers.courses(suspected.evidence) if one.place == place), None) if suspected else None
    if suspected is None or course is None:
        raise Http404
    response = JsonResponse(peers.figure(course, suspected.part))
    response["Cache-Control"] = "no-store"
    return response
