"""The list of workflows, the page of one, and what a person may do to it.

Decides who may press what: the right is asked in the workflow's own cluster, and each act goes through the lifecycle's
services, whose refusal is shown as they put it. Refuses to act by GET, and hides clusters that the reader may not see.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from dashboard import clock, spans
from dashboard.views.paging import filter_of, list_context, node_address
from dashboard.views.said import workflow_said
from dashboard.views.said_lists import workflows_said
from fleet.access.decorators import needs
from fleet.access.rights import APPROVE, OPERATE, VIEW, least_role
from fleet.access.selectors import may, visible_clusters
from fleet.lifecycle import forcing, services
from fleet.lifecycle.models import Workflow
from fleet.readmodels import guard_lines, lists, reasons, words, workflow_page

ACTS = ("retry", "skip", "abort", "approve", "force", "hurry")


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    wanted = filter_of(request)
    page = lists.workflows(visible_clusters(request.user, VIEW), wanted)
    context = {
        **list_context(request, page, wanted, words.WORKFLOW_STATES),
        "said": workflows_said(page),
        "reason_name": reasons.of(wanted.reason).name if wanted.reason else "",
    }
    return render(request, "workflow/_rows.html" if "part" in request.GET else "workflow/list.html", context)


@needs(VIEW)
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    now = clock.now()
    page = workflow_page.read(pk, visible_clusters(request.user, VIEW), now)
    if page is None:
        raise Http404
    if request.GET.get("part") == "guards":
        return render(request, "workflow/_guards.html", {"guards": guard_lines.read(page.workflow, now)})
    template = "workflow/_live.html" if "part" in request.GET else "workflow/page.html"
    return render(request, template, _context(request, page))


def _context(request: HttpRequest, page: workflow_page.WorkflowPage) -> dict[str, Any]:
    now = clock.now()
    cluster = page.workflow.cluster.name
    operate, approve = may(request.user, OPERATE, cluster), may(request.user, APPROVE, cluster)
    refusals = {act: workflow_page.refusal(page, act, operate, approve, request.user.get_username()) for act in ACTS}
    return {
        "page": page,
        "workflow": page.workflow,
        "node": page.workflow.node,
        "now": now,
        "said": workflow_said(page, now),
        "refusals": refusals,
        "steps": [(line, words.duration(line.seconds(now))) for line in page.steps],
        "drain": workflow_page.drain_progress(page),
        "node_url": node_address(page.workflow.node, page.workflow.cluster),
        "who": workflow_page.who_did_what(page),
        "pips": workflow_page.pips(page),
        "request_state": words.word(words.APPROVAL_STATES, page.request.state) if page.request else "",
        "left": spans.minutes_left((page.next_at - now).total_seconds()) if page.next_at else "",
    }


def _act(request: HttpRequest, pk: int, act: str, right: str) -> HttpResponse:
    clusters = visible_clusters(request.user, VIEW)
    workflow = Workflow.objects.select_related("cluster").filter(pk=pk).first()
    if workflow is None or (clusters is not None and workflow.cluster.name not in clusters):
        raise Http404
    if not may(request.user, right, workflow.cluster.name):
        raise PermissionDenied(least_role(right))
    actor, now = request.user.get_username(), clock.now()
    reason = request.POST.get("reason", "").strip()[:500]
    back = HttpResponseRedirect(reverse("workflow", args=[pk]))
    if act in REASONED and not reason:
        messages.error(request, _("Nothing was done: give a reason, it is kept in the audit log."))
        return back
    try:
        if act == "retry":
            services.retry_now(pk, actor, now)
        elif act == "approve":
            services.approve(pk, actor, now)
        else:
            REASONED[act](pk, actor, reason, now)
    except (services.Refused, forcing.ForceRefused) as error:
        messages.error(request, str(error))
    else:
        messages.success(request, _DONE[act]())
    return back


REASONED: dict[str, Callable[[int, str, str, datetime], object]] = {
    "skip": services.skip_step,
    "abort": services.abort,
    "force": forcing.force_drain,
    "hurry": forcing.wait_for_nobody,
}
_DONE = {
    "retry": lambda: _("It is asked again now."),
    "approve": lambda: _("Approved. The workflow goes on as the plan says."),
    "skip": lambda: _("The step is skipped; the reason is in the audit log."),
    "abort": lambda: _("Aborted; the reason is in the audit log."),
    "force": lambda: _("Asked for: another person must agree before a pod is deleted."),
    "hurry": lambda: _("The drain waits for no job; the reason is in the audit log."),
}


@needs(OPERATE)
@require_POST
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, pk, "retry", OPERATE)


@needs(OPERATE)
@require_POST
def skip(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, pk, "skip", OPERATE)


@needs(OPERATE)
@require_POST
def force(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, pk, "force", OPERATE)


@needs(OPERATE)
@require_POST
def hurry(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, pk, "hurry", OPERATE)


@needs(OPERATE)
@require_POST
def abort(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, pk, "abort", OPERATE)


@needs(APPROVE)
@require_POST
def approve(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, pk, "approve", APPROVE)
