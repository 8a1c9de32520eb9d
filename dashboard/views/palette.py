"""The jump field.

Decides where a typed word leads: a label (INC-4, WF-12, TKT-3), or the exact name of one node or one gang, opens its
page; anything else filters the fleet. Refuses to search free text.
"""

from __future__ import annotations

import re
from urllib.parse import urlencode

from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse

from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.inventory.models import Node
from fleet.readmodels.gang_list import present

LABEL = re.compile(r"^(INC|WF|TKT)-?(\d{1,18})$", re.IGNORECASE)
PAGE = {"INC": "incident", "WF": "workflow", "TKT": "ticket"}


@needs(VIEW)
def jump(request: HttpRequest) -> HttpResponse:
    word = request.GET.get("q", "").strip()
    return HttpResponseRedirect(
        _label(word) or _node(request, word) or _gang(request, word) or f"{reverse('fleet')}?{urlencode({'q': word})}"
    )


def _label(word: str) -> str:
    match = LABEL.match(word)
    if match is None:
        return ""
    try:
        return reverse(PAGE[match[1].upper()], args=[int(match[2])])
    except NoReverseMatch:
        return ""


def _node(request: HttpRequest, word: str) -> str:
    rows = Node.objects.filter(name=word, cluster__removed_at=None)
    visible = visible_clusters(request.user, VIEW)
    if visible is not None:
        rows = rows.filter(cluster__name__in=visible)
    found = list(rows.values_list("name", "cluster__name")[:2])
    if len(found) != 1:
        return ""
    try:
        return f"{reverse('node', args=[found[0][0]])}?{urlencode({'cluster': found[0][1]})}"
    except NoReverseMatch:
        return ""


def _gang(request: HttpRequest, word: str) -> str:
    """By its name or by what people call it, where one alone is called so."""
    rows = present(visible_clusters(request.user, VIEW)).filter(Q(name=word) | Q(title=word))
    found = list(rows.values_list("pk", flat=True)[:2]) if word else []
    return reverse("gang", args=[found[0]]) if len(found) == 1 else ""
