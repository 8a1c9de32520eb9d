"""Live hints (first the address; the stream follows)."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from fleet.access.decorators import needs
from fleet.access.rights import VIEW


@needs(VIEW)
def live(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=503)
