"""Who calls the API: a person's session or a machine's token of scope read.

Decides which clusters the caller may see. Refuses tokens of another scope, and sessions without the right to view.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from ninja.errors import HttpError
from ninja.security import HttpBearer

from fleet.access.rights import VIEW, least_role
from fleet.access.selectors import may, token_for, visible_clusters
from fleet.ports.clock import SYSTEM_CLOCK


@dataclass(frozen=True, slots=True)
class Caller:
    """`visible` None: every cluster."""

    visible: frozenset[str] | None


class ByToken(HttpBearer):
    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        found = token_for(token, "read", SYSTEM_CLOCK.now())
        if found is None:
            return None
        return Caller(frozenset({found.cluster}) if found.cluster else None)


def by_session(request: HttpRequest) -> Caller | None:
    if not request.user.is_authenticated:
        return None
    if not may(request.user, VIEW):
        raise HttpError(403, f"This needs the role {least_role(VIEW)}.")
    return Caller(visible_clusters(request.user, VIEW))
