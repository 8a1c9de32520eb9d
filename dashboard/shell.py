"""What every page's frame shows.

Decides the navigation's counts, the mode badge, the clusters to choose from, the theme and the kill switch. Refuses
more than one query, and runs even that only when a template asks for it: fragments pay nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise, SimpleLazyObject
from django.utils.translation import gettext_lazy as _

from dashboard import clock
from dashboard.words import MODE_WORD
from fleet.access.rights import OPERATE, VIEW
from fleet.access.selectors import may, visible_clusters
from fleet.readmodels.totals import Totals, totals

THEMES = ("auto", "light", "dark")
BELOW = {
    "fleet": ("/nodes/",),
    "incidents": ("/offenders/",),
    "queues": ("/gangs/",),
}  # pages that belong to a place without its address

HOT = ("approvals",)  # places whose count is of people who wait


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of the navigation. `count` None shows no number."""

    name: str
    label: str | Promise
    icon: str
    url: str
    here: bool
    count: int | None
    hot: bool = False  # the count waits for people


@dataclass(frozen=True, slots=True)
class Section:
    label: str | Promise
    places: list[Place]


def totals_of(request: HttpRequest) -> Totals:
    """The frame's numbers, read once a request."""
    found: Totals | None = getattr(request, "_totals", None)
    if found is None:
        found = totals(visible_clusters(getattr(request, "user", AnonymousUser()), VIEW))
        request._totals = found  # type: ignore[attr-defined]
    return found


def theme_of(request: HttpRequest) -> str:
    """The user's theme; before the log-in, or if the user chose none, that of the browser's cookie."""
    chosen = getattr(getattr(request, "user", None), "theme", "auto")
    if chosen == "auto":
        chosen = request.COOKIES.get("theme", "auto")
    return chosen if chosen in THEMES else "auto"


def shell(request: HttpRequest) -> dict[str, Any]:
    return {
        "now": clock.now(),
        "theme": SimpleLazyObject(lambda: theme_of(request)),
        "shell": SimpleLazyObject(lambda: _frame(request)),
    }


def _frame(request: HttpRequest) -> dict[str, Any]:
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"signed_in": False}
    found = totals_of(request)
    name = user.get_full_name() or user.get_username()
    return {
        "signed_in": True,
        "sections": _sections(request.path, found),
        "clusters": found.clusters,
        "cluster": request.GET.get("cluster", "") or (found.clusters[0].name if len(found.clusters) == 1 else ""),
        "mode": found.mode,
        "mode_word": MODE_WORD.get(found.mode, ""),
        "stopped": found.stopped_since is not None,
        "stopped_by": found.stopped_by,
        "stopped_since": found.stopped_since,
        "stopped_reason": found.stopped_reason,
        "may_stop": may(user, OPERATE),
        "name": name,
        "initials": "".join(part[0] for part in name.split()[:2]).upper(),
    }


def _sections(path: str, found: Totals) -> list[Section]:
    """Only places that exist: a name without an address is left out."""
    wanted: list[tuple[Promise, list[tuple[str, Promise, str, int | None]]]] = [
        (
            _("Watch"),
            [
                ("fleet", _("Fleet"), "fleet", None),
                ("incidents", _("Incidents"), "inc", found.incidents),
                ("queues", _("Queues"), "queue", found.gangs_waiting),
            ],
        ),
        (
            _("Act"),
            [
                ("workflows", _("Workflows"), "flow", found.open_workflows),
                ("approvals", _("Approvals"), "appr", found.approvals),
                ("bulk", _("Bulk actions"), "cluster", None),
                ("maintenance", _("Maintenance"), "retry", None),
                ("tickets", _("Tickets"), "ticket", found.tickets),
            ],
        ),
        (_("Know"), [("audit", _("Audit"), "audit", None)]),
        (
            _("Set"),
            [
                ("policy", _("Policy"), "policy", None),
                ("playbooks", _("Playbooks"), "flow", None),
                ("rules", _("Rules"), "rules", None),
            ],
        ),
    ]
    sections = []
    for label, entries in wanted:
        places = []
        for name, word, icon, count in entries:
            try:
                url = reverse(name)
            except NoReverseMatch:
                continue
            inside = path.startswith((url, *BELOW.get(name, ())))
            places.append(Place(name, word, icon, url, inside, count, name in HOT and bool(count)))
        if places:
            sections.append(Section(label, places))
    return sections
