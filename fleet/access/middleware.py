"""Denies by default.

Decides for every request whether its view was declared: public, or needing a right (`fleet.access.decorators`). A view
that declares nothing is a 403, so that a forgotten decorator fails closed. Refuses to know clusters: a view about one
cluster asks `selectors.may` itself for that scope.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, JsonResponse

from fleet.access.decorators import declared_right
from fleet.access.rights import least_role
from fleet.access.selectors import may


class DenyByDefault:
    """Works in both chains, so that an asynchronous view (the live stream) is not called from a thread that waits."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        right = declared_right(view)
        if right == "":
            return None
        if right is None:
            raise PermissionDenied("This address has no declared right.")
        if not request.user.is_authenticated:
            if request.path.startswith(("/api/", "/live/")):
                return JsonResponse({"error": "log in, or send a token"}, status=401)
            return redirect_to_login(request.get_full_path())
        if not may(request.user, right):
            raise PermissionDenied(least_role(right))
        return None
