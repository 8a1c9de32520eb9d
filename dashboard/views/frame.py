"""The frame's own addresses: its live parts, and the switch that stops all new disruption.

Decides who may throw the switch, at one click and without asking why first; and that to lift it takes a reason. Refuses
to stop detection, tickets or safe completion.
"""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from dashboard import clock
from fleet.access.decorators import needs
from fleet.access.rights import OPERATE, VIEW
from fleet.policy.services import stop_all

PARTS = {
    "nav": "partials/nav_inner.html",
    "switch": "partials/switch.html",
    "stopped": "partials/stopped.html",
    "mode": "partials/mode.html",
}


@needs(VIEW)
def frame(request: HttpRequest, part: str) -> HttpResponse:
    """A part of the frame as it would be on the page at `?at=`."""
    at = request.GET.get("at", "")
    if at.startswith("/"):
        request.path = at
    return render(request, PARTS[part])


@needs(OPERATE)
@require_POST
def switch(request: HttpRequest) -> HttpResponse:
    stop = request.POST.get("stopped") == "1"
    reason = request.POST.get("reason", "").strip()[:300]
    target = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
        target = reverse("fleet")
    if not stop and not reason:
        messages.error(request, _("Say why: the reason is kept in the audit log. Nothing was changed."))
        return HttpResponseRedirect(target)
    stop_all(stopped=stop, by=request.user.get_username(), reason=reason, now=clock.now())
    said = _("All new disruption is stopped.") if stop else _("Disruption may start again, one grant at a time.")
    messages.success(request, said)
    return HttpResponseRedirect(target)
