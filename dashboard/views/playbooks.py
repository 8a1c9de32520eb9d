"""The page on playbooks: what is done for which fault, how often it helped, and what would answer a case.

Decides which case the form in the address asks about. Refuses to change a playbook: a book is a file under version
control.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard import clock
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.lifecycle.playbooks import Case
from fleet.readmodels import playbook_page, words
from fleet.readmodels.playbook_page import PlaybookPage

FIELDS = ("cause", "device", "pool", "sku")


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    page = playbook_page.read(visible_clusters(request.user, VIEW), clock.now())
    case = _case(request.GET)
    context = {
        "page": page,
        "said": _said(page),
        "actions": [(key, word) for key, word in words.ACTION_CLASSES.items()],
        "kinds": [(key, word) for key, word in words.POOL_KINDS.items()],
        "asked": {name: request.GET.get(name, "")[:100] for name in ("action", "pool_kind", "recurring", *FIELDS)},
        "answer": playbook_page.answer(case) if case else None,
    }
    return render(request, "playbook/list.html", context)


def _case(query: QueryDict) -> Case | None:
    """What the form asks about; None before it was sent."""
    action = query.get("action", "")[:32]
    if not action:
        return None
    kind = query.get("pool_kind", "")
    cause, device, pool, sku = (query.get(name, "").strip()[:100] for name in FIELDS)
    return Case(
        action,
        cause,
        device,
        pool,
        kind if kind in words.POOL_KINDS else "bare_metal",
        sku,
        query.get("recurring") == "1",
    )


def _said(page: PlaybookPage) -> SafeString:
    count = len(page.playbooks)
    if page.problem:
        return format_html("<b>{}</b> {}", _("The site's playbooks cannot be used."), page.problem)
    if not count:
        return format_html("<b>{}</b> {}", _("No playbook is in force."), _("Nothing is planned until one is read."))
    lead = ngettext("%(n)s playbook is in force.", "%(n)s playbooks are in force.", count) % {"n": count}
    rest = ngettext("%(n)s is the site's own.", "%(n)s are the site's own.", page.own) % {"n": page.own}
    first = _("The first one whose match fits is taken.")
    return format_html("<b>{}</b> {} {}", lead, rest if page.own else _("All are built in."), first)
