"""The page on the rules: what is judged, by which limits, and how it fared.

Decides nothing: the catalogue and the site's file do. Refuses to change a rule: rules are a file under version control.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard import clock, spans
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.health.rules.types import Meaning
from fleet.readmodels import rules_page, words
from fleet.readmodels.rules_page import RulesPage


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    page = rules_page.read(visible_clusters(request.user, VIEW), clock.now())
    lines = [
        (line, words.word(words.ACTION_CLASSES, line.rule.action_class), words.word(words.SOURCES, line.rule.source))
        for line in page.lines
    ]
    codes = [(code, _asks(code.here), _asks(code.by_table)) for code in page.codes]
    context = {"page": page, "lines": lines, "codes": codes, "days": rules_page.DAYS, "now": clock.now()}
    return render(request, "rules/list.html", {**context, "said": _said(page)})


def _asks(what: Meaning) -> str:
    return words.word(words.ACTION_CLASSES, what.action)


def _said(page: RulesPage) -> SafeString:
    if page.problem:
        return format_html("<b>{}</b>", _("The site's rules file has mistakes; the built-in rules are shown."))
    count = {"n": len(page.lines), "off": page.off, "shadow": page.shadowed}
    lead = _("%(n)s rules judge every node; %(off)s are off, %(shadow)s only show what they would have seen.") % count
    if page.overall.p95 is None:
        return format_html("<b>{}</b> {}", lead, _("None has fired within 30 days."))
    facts = {"fired": page.overall.fired, "p95": spans.span(page.overall.p95)}
    fared = ngettext(
        "They fired once within 30 days, %(p95)s after the first bad sample.",
        "They fired %(fired)s times within 30 days, 95 of 100 within %(p95)s of the first bad sample.",
        page.overall.fired,
    )
    fared %= facts
    return format_html("<b>{}</b> {}", lead, fared)
