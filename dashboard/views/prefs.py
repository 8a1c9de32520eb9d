"""Display choices.

Decides where the theme is kept: with the user, and in a cookie for the pages before the log-in; and that a chosen
language is kept in a cookie, before which the browser's own wish counts. Refuses other themes than the three, languages
that there are no texts for, and to send anybody off this origin.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from dashboard.shell import THEMES
from fleet.access.decorators import public
from fleet.access.models import User

YEAR = 365 * 24 * 3600


@public
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    chosen = request.POST.get("theme", "")
    if chosen not in THEMES:
        return HttpResponse(status=400)
    response = _back(request)
    if isinstance(request.user, User):
        User.objects.filter(pk=request.user.pk).update(theme=chosen)
    response.set_cookie("theme", chosen, max_age=YEAR, samesite="Lax", secure=request.is_secure(), httponly=True)
    return response


@public
@require_POST
def language(request: HttpRequest) -> HttpResponse:
    chosen = request.POST.get("language", "")
    if chosen not in dict(settings.LANGUAGES):
        return HttpResponse(status=400)
    response = _back(request)
    name, secure = settings.LANGUAGE_COOKIE_NAME, request.is_secure()
    response.set_cookie(name, chosen, max_age=YEAR, samesite="Lax", secure=secure, httponly=True)
    return response


def _back(request: HttpRequest) -> HttpResponse:
    """To the page that was left, on this origin alone."""
    target = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
        target = reverse("home")
    return HttpResponseRedirect(target)
