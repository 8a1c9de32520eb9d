"""Denies by default.

Decides for every request whether its view was declared: public, or needing a right (`fleet.access.decorators`). A view
that declares nothing is a 403, so that a forgotten decorator fails closed. Refuses a NUL in an address, a query or a
form: no page sends one, and no database compares with it. Refuses to know clusters: a view about one cluster asks
`selectors.may` itself for that scope.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponseBase, JsonResponse

from fleet.access.decorators import declared_right
from fleet.access.rights import least_role
from fleet.access.selectors import may

_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})


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
        if _holds_nul(request):
            said = "The request holds a NUL."
            if request.path.startswith("/api/"):
                return JsonResponse({"error": said}, status=400)
            raise BadRequest(said)
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


def _holds_nul(request: HttpRequest) -> bool:
    given = [request.GET] if request.META.get("QUERY_STRING") else []
    if request.method == "POST" and request.content_type in _FORMS:
        given.append(request.POST)
    return "\0" in request.path or any("\0" in text for form in given for _, many in form.lists() for text in many)
