"""Display choices.

Decides where the theme is kept: with the user, and in a cookie for the pages before the log-in. Refuses other themes
than the three, and to send anybody off this origin.
"""

from __future__ import annotations

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
    target = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
        target = reverse("home")
    response: HttpResponse = HttpResponseRedirect(target)
    if isinstance(request.user, User):
        User.objects.filter(pk=request.user.pk).update(theme=chosen)
    response.set_cookie("theme", chosen, max_age=YEAR, samesite="Lax", secure=request.is_secure(), httponly=True)
    return response
