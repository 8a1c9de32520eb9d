"""Pages for what went wrong.

Decides the sentence: which role is missing, that nothing lies at an address, or the number to quote for a fault of
ours. Refuses to show a stack trace or to need the database for a 500.
"""

from __future__ import annotations

import logging
import secrets

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from fleet.access.rights import ROLE_RIGHTS

log = logging.getLogger(__name__)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    said = str(exception or "")
    role = said if said in ROLE_RIGHTS else ""
    return render(request, "403.html", {"role": role, "said": "" if role else said}, status=403)


def missing(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "404.html", {"path": request.path}, status=404)


def fault(request: HttpRequest) -> HttpResponse:
    number = secrets.token_hex(4)
    log.error("fault %s at %s %s", number, request.method, request.path, exc_info=True)
    return HttpResponse(render_to_string("500.html", {"number": number}), status=500)
