"""The page on the policy: what may happen, how much of it is used, and how it is changed.

Decides who may look, who may change what (the right is asked for the clusters that a change touches), and that nobody
applies a change of a policy that became another while they looked. What holds at once and what waits is said by the
versions. Refuses to change anything by GET.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from dashboard import clock, policy_form
from dashboard.charts.bars import use_line
from dashboard.views.said_policy import policy_said, preview_said
from fleet.access.decorators import needs
from fleet.access.rights import OPERATE, POLICY, VIEW, least_role
from fleet.access.selectors import may, visible_clusters
from fleet.inventory.selectors import UnknownCluster, cluster_named
from fleet.lifecycle import services
from fleet.policy import versions
from fleet.policy.approvals import plan_hash
from fleet.policy.document import LEVELS, Policy, text_of
from fleet.policy.document_file import BadPolicy
from fleet.policy.loosening import compare
from fleet.policy.models import PolicyVersion
from fleet.policy.rules import SCOPES
from fleet.readmodels import policy_effects, policy_page, words


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    now = clock.now()
    page = policy_page.read(visible_clusters(request.user, VIEW), now)
    section = request.GET.get("section", "")
    section = section if section in page.clusters else ""
    context = {
        "page": page,
        "now": now,
        "said": policy_said(page),
        "limits": [
            (line, words.word(words.CAP_KINDS, line.kind), words.word(words.SCOPES, line.scope), _bars(line))
            for line in page.limits
        ],
        "breakers": [(line, may(request.user, OPERATE, line.cluster)) for line in page.breakers],
        "asked": [
            {"word": words.word(words.APPROVAL_KINDS, kind), "people": people, "within": words.duration(minutes * 60.0)}
            for kind, (people, minutes) in page.policy.approvals.items()
        ],
        "may_change": may(request.user, POLICY),
        "section": section,
        "text": text_of(page.policy),
        "base": _base(page.policy),
    }
    return render(request, "policy/page.html", {**context, **_form(page.policy, section)})


def _bars(line: policy_page.LimitLine) -> list[Any]:
    return [use_line(use) for use in line.uses]


def _form(policy: Policy, section: str) -> dict[str, Any]:
    """The caps as a table: a row for each scope, a field for each kind."""
    filled = policy_page.editable(policy, section)
    rows = [
        (
            words.word(words.SCOPES, scope),
            [
                (policy_form.field_name(kind, scope), words.word(words.CAP_KINDS, kind), filled.get((kind, scope), ""))
                for kind in LEVELS
            ],
        )
        for scope in SCOPES
    ]
    return {"rows": rows, "kinds": [words.word(words.CAP_KINDS, kind) for kind in LEVELS]}


def _base(policy: Policy) -> str:
    return plan_hash({"policy": text_of(policy)})


@needs(POLICY)
@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """What the numbers of the form, or the file, would change; nothing is changed yet."""
    now, old = clock.now(), versions.current()
    text = request.POST.get("text", "")
    if "section" in request.POST:
        text = policy_form.document(old, request.POST["section"], request.POST.dict())
    try:
        new = versions.read(text, _("the form") if "section" in request.POST else _("the text"))
    except BadPolicy as error:
        return render(request, "policy/mistakes.html", {"problem": str(error), "text": text}, status=422)
    changes = compare(old, new, now)
    effects = policy_effects.read(old, new, visible_clusters(request.user, VIEW), now)
    context = {
        "changes": changes,
        "looser": any(change.loosens for change in changes),
        "effects": effects,
        "over": [use_line(use, of=True) for use in effects.over],
        "days": policy_effects.DAYS,
        "said": preview_said(changes, effects),
        "diff": versions.diff_of(text_of(old), text_of(new)),
        "text": text_of(new),
        "base": request.POST.get("base", "") or _base(old),
        "now": now,
    }
    return render(request, "policy/preview.html", context)


@needs(POLICY)
@require_POST
def apply(request: HttpRequest) -> HttpResponse:
    back = HttpResponseRedirect(reverse("policy"))
    by, reason = request.user.get_username(), request.POST.get("reason", "").strip()[:300]
    if request.POST.get("base") != _base(versions.current()):
        messages.error(request, _("The policy was changed while you looked. Nothing was changed; look at it again."))
        return back
    try:
        new = versions.read(request.POST.get("text", ""), _("the text"))
        row = versions.propose(new, by, reason, clock.now(), visible_clusters(request.user, POLICY))
    except (versions.Refused, BadPolicy) as error:
        messages.error(request, str(error))
        return back
    if row.applied_at:
        messages.success(request, _("%(label)s is in force.") % {"label": row.label})
    else:
        messages.success(request, _("%(label)s loosens a limit: it waits for another person.") % {"label": row.label})
    return back


@needs(VIEW)
def version(request: HttpRequest, pk: int) -> HttpResponse:
    line = policy_page.version(pk)
    if line is None:
        raise Http404
    mine = line.row.author == request.user.get_username()
    context = {
        "line": line,
        "now": clock.now(),
        "diff": versions.diff_of(line.row.base, line.row.text, (_("before"), line.row.label)),
        "may_withdraw": line.state == "pending" and (mine or may(request.user, POLICY)),
    }
    return render(request, "policy/version.html", context)


@needs(POLICY)
@require_POST
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    try:
        versions.withdraw(pk, request.user.get_username(), request.POST.get("reason", ""), clock.now())
        messages.success(request, _("It is not asked for any more."))
    except PolicyVersion.DoesNotExist as error:
        raise Http404 from error
    except versions.Refused as error:
        messages.error(request, str(error))
    return HttpResponseRedirect(reverse("policy"))


@needs(OPERATE)
@require_POST
def reset_breaker(request: HttpRequest, cluster: str) -> HttpResponse:
    try:
        row = cluster_named(cluster)
    except UnknownCluster as error:
        raise Http404 from error
    if not may(request.user, OPERATE, cluster):
        raise PermissionDenied(least_role(OPERATE))
    try:
        services.reset_breaker(row, request.user.get_username(), request.POST.get("reason", "")[:300], clock.now())
    except services.Refused as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request, _("The breaker cools down; then current health is looked at anew and one node goes first.")
        )
    return HttpResponseRedirect(reverse("policy"))
