"""The inbox of what waits for people's approval, and the votes.

Decides who may press what: the right is asked in the request's own cluster. Refuses to vote by GET, on a plan other
than the one that was shown, and for whoever asked for it.
"""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from dashboard import clock, spans
from dashboard.views.said import fixed
from fleet.access.decorators import needs
from fleet.access.rights import VIEW, least_role
from fleet.access.selectors import may, visible_clusters
from fleet.lifecycle import ballots
from fleet.policy import asking
from fleet.readmodels import approvals_page
from fleet.readmodels.approvals_page import May, Request


def may_of(request: HttpRequest) -> May:
    """Has the reader that right there? Cluster "" is the whole site."""

    def asked(right: str, cluster: str) -> bool:
        if cluster:
            return may(request.user, right, cluster)
        return visible_clusters(request.user, right) is None

    return asked


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    now, visible = clock.now(), visible_clusters(request.user, VIEW)
    person, may_ = request.user.get_username(), may_of(request)
    waiting = approvals_page.pending(visible, person, may_, now)
    old = request.GET.get("state") == "decided"
    context = {
        "now": now,
        "old": old,
        "said": _said(waiting),
        "waiting": waiting,
        "requests": approvals_page.decided(visible, person, may_, now) if old else waiting,
        "rows_url": f"{request.path}?{'state=decided&' if old else ''}part=rows",
    }
    return render(request, "approval/_rows.html" if "part" in request.GET else "approval/list.html", context)


def _said(waiting: list[Request]) -> SafeString:
    if not waiting:
        return fixed(_("<b>Nothing waits for approval.</b> <b>Next:</b> nothing to do."))
    mine = sum(not one.refusal for one in waiting)
    text = ngettext("<b>{n} request waits for approval,</b>", "<b>{n} requests wait for approval,</b>", len(waiting))
    yours = ngettext("{n} of them for you to decide.", "{n} of them for you to decide.", mine)
    if not mine:
        yours = _("none that you may decide.")
    return format_html(
        "{} {} {}",
        format_html(text, n=len(waiting)),
        format_html(yours, n=mine),
        format_html(
            _("<b>Next:</b> the first expires in {left}."),
            left=spans.span(max(0.0, (waiting[0].row.expires_at - clock.now()).total_seconds())),
        ),
    )


@needs(VIEW)
@require_POST
def vote(request: HttpRequest, pk: int) -> HttpResponse:
    now, visible = clock.now(), visible_clusters(request.user, VIEW)
    person = request.user.get_username()
    found = approvals_page.one(pk, visible, person, may_of(request), now)
    answer = request.POST.get("answer", "")
    if found is None or answer not in ("yes", "no"):
        raise Http404
    right = approvals_page.right_for(found.row)
    if not may_of(request)(right, found.cluster):
        raise PermissionDenied(least_role(right))
    back = HttpResponseRedirect(reverse("approvals"))
    if request.POST.get("plan") != found.row.plan_hash:
        messages.error(request, _("This is not the plan that was shown: look again. Nothing was voted."))
        return back
    try:
        decision = ballots.vote(pk, person, answer == "yes", request.POST.get("reason", ""), now)
    except asking.VoteRefused as error:
        messages.error(request, str(error))
        return back
    if answer == "no":
        messages.success(request, _("Rejected; the reason is in the audit log."))
    elif decision.allowed:
        messages.success(request, _("Approved. It begins as soon as the guards allow it."))
    else:
        messages.success(request, decision.text)
    return back
