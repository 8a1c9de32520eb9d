"""Who calls the API: a person's session, a machine's token of scope read, or a token that stands for a person.

Decides which clusters the caller may see and which person acts. Refuses tokens of another scope, sessions without the
right to view, and a session's write without the page's own token against forged forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from ninja.errors import HttpError
from ninja.security import HttpBearer
from ninja.utils import check_csrf

from fleet.access.models import User
from fleet.access.rights import VIEW, least_role
from fleet.access.selectors import may, token_for, visible_clusters
from fleet.ports.clock import SYSTEM_CLOCK

SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Caller:
    """`visible` None: every cluster. `user` None: nobody acts, the caller only reads."""

    visible: frozenset[str] | None
    user: User | None = None

    @property
    def name(self) -> str:
        return self.user.username if self.user else ""


def caller_of(request: HttpRequest) -> Caller:
    """Whoever `by_session` or `ByToken` let in."""
    found: Caller = request.auth  # type: ignore[attr-defined]
    return found


def rows_in_view(request: HttpRequest, cluster: str = "", node: str = "") -> dict[str, Any]:
    """What to filter rows of a cluster's node by."""
    wanted: dict[str, Any] = {"cluster__removed_at": None}
    visible = caller_of(request).visible
    if visible is not None:
        wanted["cluster__name__in"] = visible
    if cluster:
        wanted["cluster__name"] = cluster
    if node:
        wanted["node__name"] = node
    return wanted


class ByToken(HttpBearer):
    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        now = SYSTEM_CLOCK.now()
        found = token_for(token, "read", now)
        if found is not None:
            return Caller(frozenset({found.cluster}) if found.cluster else None)
        acting = token_for(token, "act", now)
        if acting is None or acting.user is None:
            return None
        visible = visible_clusters(acting.user, VIEW)
        if acting.cluster:
            visible = frozenset({acting.cluster}) if visible is None else visible & {acting.cluster}
        return Caller(visible, acting.user)


def by_session(request: HttpRequest) -> Caller | None:
    user = request.user
    if not isinstance(user, User) or not user.is_authenticated:
        return None
    if not may(user, VIEW):
        raise HttpError(403, f"This needs the role {least_role(VIEW)}.")
    if request.method not in SAFE and check_csrf(request) is not None:
        raise HttpError(403, "The write lacks the token against forged forms (X-CSRFToken).")
    return Caller(visible_clusters(user, VIEW), user)
