"""Bulk actions and planned maintenance: the form, the plan, the progress, and what a person may do to it.

Decides who may press what: the right is asked in the batch's own cluster. Refuses to start anything but the list that
was shown, and hides clusters that the reader may not see.
"""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from dashboard import clock
from dashboard.views import bulk_form
from dashboard.views.acts import ORDER
from dashboard.views.approvals import may_of
from dashboard.views.bulk_said import batch_said, batches_said, window_said
from dashboard.views.paging import filter_of, list_context
from fleet.access.decorators import needs
from fleet.access.rights import OPERATE, VIEW, least_role
from fleet.access.selectors import may, roles_in, visible_clusters
from fleet.inventory.selectors import active_clusters
from fleet.lifecycle import bulk, shelf
from fleet.lifecycle.models import Batch
from fleet.lifecycle.playbooks import FENCE
from fleet.policy import rolecaps
from fleet.policy import selectors as policy
from fleet.readmodels import approvals_page, batch_page, words
from fleet.readmodels.selection import SelectionRefused, resolve

STATES = {state: word for state, word in words.BATCH_STATES.items() if state != "draft"}
DAYS = [
    ("1", gettext_lazy("Mon")), ("2", gettext_lazy("Tue")), ("3", gettext_lazy("Wed")), ("4", gettext_lazy("Thu")),
    ("5", gettext_lazy("Fri")), ("6", gettext_lazy("Sat")), ("7", gettext_lazy("Sun")),
]  # fmt: skip
USUAL = {"zone": "UTC", "start": "02:00", "minutes": "120", "at_once": "2", "stop_after": "3"}


@needs(VIEW)
def index(request: HttpRequest, windowed: bool) -> HttpResponse:
    wanted = filter_of(request)
    page = batch_page.batches(visible_clusters(request.user, VIEW), wanted, windowed)
    progress = batch_page.progress(page.rows)
    context = {
        **list_context(request, page, wanted, STATES),
        "now": clock.now(),
        "windowed": windowed,
        "said": batches_said(page, windowed),
        "batches": [
            (row, batch_page.title_of(row, sum(progress[row.pk].values())), progress[row.pk], window_said(row))
            for row in page.rows
        ],
        "may_plan": may(request.user, OPERATE),
    }
    return render(request, "bulk/_rows.html" if "part" in request.GET else "bulk/list.html", context)


@needs(OPERATE)
def new(request: HttpRequest, windowed: bool) -> HttpResponse:
    """The form, and the list that it resolves to."""
    if request.method == "POST":
        try:
            batch = _draft(request, windowed)
        except (bulk_form.BadForm, SelectionRefused, bulk.Refused) as error:
            return _form(request, windowed, str(error))
        return HttpResponseRedirect(reverse("batch", args=[batch.pk]))
    return _form(request, windowed, "")


def _form(request: HttpRequest, windowed: bool, wrong: str) -> HttpResponse:
    given = request.POST if request.method == "POST" else request.GET
    usual = USUAL if windowed and request.method != "POST" else {}
    operated = visible_clusters(request.user, OPERATE)
    clusters = [row for row in active_clusters() if operated is None or row.name in operated]
    role, most = rolecaps.most(roles_in(request.user, given.get("cluster", "")), policy.role_caps())
    context = {
        "wrong": wrong,
        "windowed": windowed,
        "clusters": clusters,
        "form": {name: given.get(name, usual.get(name, ""))[:1000] for name in bulk_form.FIELDS},
        "actions": [
            (action, words.word(words.VERBS, action)) for action in ORDER if not (windowed and action == "release")
        ],
        "playbooks": [
            (f"{one.name}@{one.version}", one.name, one.name == given.get("playbook", "").partition("@")[0])
            for one in shelf.book().playbooks
            if not any(step.verb == FENCE for step in one.steps)
        ],
        "days": [(day, word, day in given.getlist("days") or bool(usual)) for day, word in DAYS],
        "spare_jobs": "spare_jobs" in given or bool(usual),
        "zones": sorted(available_timezones()) if windowed else [],
        "most": most,
        "role": role,
    }
    return render(request, "bulk/form.html", context)


def _draft(request: HttpRequest, windowed: bool) -> Batch:
    wanted = bulk_form.selection(request.POST)
    pace = bulk_form.pace(request.POST, windowed)
    cluster, ids = resolve(wanted, visible_clusters(request.user, VIEW))
    if not may(request.user, OPERATE, cluster.name):
        raise PermissionDenied(least_role(OPERATE))
    return bulk.draft(
        bulk.Wanted(
            cluster=cluster,
            node_ids=ids,
            action="" if request.POST.get("playbook") else request.POST.get("action", ""),
            playbook=request.POST.get("playbook", "")[:80],
            by=request.user.get_username(),
            reason=request.POST.get("reason", ""),
            roles=roles_in(request.user, cluster.name),
            selection=wanted.as_told(),
            pace=pace,
            spare_jobs="spare_jobs" in request.POST,
        ),
        clock.now(),
    )


@needs(VIEW)
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    now, visible = clock.now(), visible_clusters(request.user, VIEW)
    page = batch_page.read(pk, visible, now)
    if page is None:
        raise Http404
    if page.batch.window:
        request.path = reverse("maintenance_batch", args=[pk])  # its place in the menu, whichever address led here
    template = "bulk/_live.html" if "part" in request.GET else "bulk/page.html"
    return render(request, template, _context(request, page))


def _context(request: HttpRequest, page: batch_page.BatchPage) -> dict[str, Any]:
    now, batch, person = clock.now(), page.batch, request.user.get_username()
    operate = may(request.user, OPERATE, batch.cluster.name)
    refusal = "" if operate else _("Needs the role operator in cluster %(cluster)s.") % {"cluster": batch.cluster.name}
    kind = bulk.kind_of(bulk.asked_of(batch))
    asked = None
    if page.approval is not None:
        visible = visible_clusters(request.user, VIEW)
        asked = approvals_page.one(page.approval.pk, visible, person, may_of(request), now)
    return {
        "now": now,
        "page": page,
        "batch": batch,
        "cluster": batch.cluster,
        "said": batch_said(page, now),
        "window": window_said(batch),
        "refusal": refusal,
        "start_refusal": refusal or _not_theirs(batch, person),
        "people": policy_people(kind),
        "asked": asked,
        "open": batch.state in bulk.OPEN,
        "bars": page.bars,
        "selection": [(name, ", ".join(v) if isinstance(v, list) else v) for name, v in batch.selection.items()],
    }


def policy_people(kind: str) -> int:
    """How many others must agree."""
    from fleet.policy.asking import rule

    return rule(kind)[0] if kind else 0


def _not_theirs(batch: Batch, person: str) -> str:
    if batch.requested_by == person:
        return ""
    return _("%(who)s drew it up, and is the one to start it.") % {"who": batch.requested_by}


@needs(OPERATE)
@require_POST
def act(request: HttpRequest, pk: int, act: str) -> HttpResponse:
    """Start, pause, resume or cancel."""
    visible = visible_clusters(request.user, VIEW)
    batch = Batch.objects.select_related("cluster").filter(pk=pk).first()
    if batch is None or act not in _DONE or (visible is not None and batch.cluster.name not in visible):
        raise Http404
    if not may(request.user, OPERATE, batch.cluster.name):
        raise PermissionDenied(least_role(OPERATE))
    try:
        _do(request, batch, act)
    except bulk.Refused as error:
        messages.error(request, str(error))
    else:
        messages.success(request, str(_DONE[act]))
    return HttpResponseRedirect(reverse("batch", args=[pk]))


def _do(request: HttpRequest, batch: Batch, act: str) -> None:
    by, now, reason = request.user.get_username(), clock.now(), request.POST.get("reason", "")
    if act == "start":
        bulk.start(batch.pk, request.POST.get("plan", ""), by, now)
    elif act == "pause":
        bulk.pause(batch.pk, by, reason, now)
    elif act == "resume":
        bulk.resume(batch.pk, by, now)
    else:
        bulk.cancel(batch.pk, by, reason, now)


_DONE = {
    "start": gettext_lazy("Exactly this list was handed on: it begins once those who must agree have."),
    "pause": gettext_lazy("Paused: no further node begins."),
    "resume": gettext_lazy("It goes on."),
    "cancel": gettext_lazy("Cancelled: what was not touched is left as it is."),
}
