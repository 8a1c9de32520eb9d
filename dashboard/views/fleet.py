"""The fleet page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from fleet.access.decorators import needs, public
from fleet.access.rights import VIEW


@public
def home(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(reverse("fleet"))


@needs(VIEW)
def fleet(request: HttpRequest) -> HttpResponse:
    return render(request, "fleet/page.html", {})


@needs(VIEW)
def export(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=501)
