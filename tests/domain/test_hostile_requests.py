# ruff: noqa: E501 - lists of parameters
"""Every page and every call of the API, asked with what no page ever sends: refused or answered, never failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from fleet.access.models import User
from tests.builders import a_cluster, a_node, a_workflow, an_incident

pytestmark = pytest.mark.django_db
ODD = ["\0", "n\0", "\ud800", "'", '"', "%", "%00", "²", "-1", "0", "9" * 30, "1e999", "nan", "x" * 5000, "../..", "{{7*7}}", "<b>",
       "0001-01-01", "9999-12-31", "٣", "\u202e", "[]", "null", "\\"]  # fmt: skip
PARAMETERS = ("q", "page", "state", "node", "cluster", "sort", "part", "range", "tl", "pool", "rack", "leaf", "verdict", "view",
              "at", "since", "until", "before", "actor", "action", "object", "limit", "offset", "hours", "group", "lens", "w", "device")  # fmt: skip
PLACES = {"int": ["0", "9" * 18, "9" * 30], "str": ODD, "slug": ["x"], "uuid": [], "path": ODD}
NOT_ASKED = ("live/", "__debug__", "static", "readyz")  # streams; and what is not ready here


def _patterns(resolver: URLResolver, before: str = "") -> Iterator[str]:
    for entry in resolver.url_patterns:
        here = before + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _patterns(entry, here)
        elif isinstance(entry, URLPattern):
            yield here.replace("^", "").replace("$", "")


def _routes() -> list[str]:
    return sorted(
        {route for route in _patterns(get_resolver()) if not route.startswith(NOT_ASKED) and "(?P" not in route}
    )


def _filled(route: str, given: str | None) -> str:
    """The path with the given text in its first place, and plausible ones elsewhere."""
    first = True

    def fill(found: re.Match[str]) -> str:
        nonlocal first
        kind = (found[1] or "str:")[:-1]
        text = given if first and given is not None else ("1" if kind == "int" else "gpu-r01-01")
        first = False
        return text

    return "/" + re.sub(r"<(\w+:)?\w+>|\{(?:\w+:)?\w+\}", fill, route)


@pytest.fixture
def admin(client: Client) -> Client:
    cluster = a_cluster("demo")
    node = a_node(cluster, "gpu-r01-01")
    a_workflow(node, an_incident(node))
    client.force_login(User.objects.create_superuser("minseo", "m@example.com", "pass-word-12"))
    client.raise_request_exception = True
    return client


def _ask(client: Client, path: str, data: dict[str, Any] | None = None, method: str = "get") -> int:
    try:
        answer = getattr(client, method)(path, data or {})
        if answer.streaming and not answer.is_async:
            b"".join(answer.streaming_content)
    except UnicodeEncodeError:  # the test client cannot send half a character, and neither can a browser
        return 400
    assert answer.status_code < 500, (path[:80], data, answer.status_code)
    return int(answer.status_code)


def test_there_are_routes_to_ask() -> None:
    assert (
        len(_routes()) > 20
        and any("<" in route for route in _routes())
        and any("api/v1" in route for route in _routes())
    )


def _some(odd: list[str], route: str) -> list[str]:
    """A third of them, another one for the next route: a page costs a tenth of a second, and there are a hundred."""
    return odd[_routes().index(route) % 3 :: 3]


@pytest.mark.parametrize("route", _routes())
def test_odd_query_parameters_fail_nothing(admin: Client, route: str) -> None:
    for odd in _some(ODD, route):
        _ask(admin, _filled(route, None), dict.fromkeys(PARAMETERS, odd))


@pytest.mark.slow
@pytest.mark.parametrize("route", _routes())
def test_each_odd_query_parameter_alone_fails_nothing(admin: Client, route: str) -> None:
    for odd in ODD:
        _ask(admin, _filled(route, None), dict.fromkeys(PARAMETERS, odd))
        for name in PARAMETERS:
            _ask(admin, _filled(route, None), {name: odd})


@pytest.mark.parametrize("route", [route for route in _routes() if "<" in route or "{" in route])
def test_odd_places_in_a_path_fail_nothing(admin: Client, route: str) -> None:
    kind = re.search(r"<(\w+):", route)
    for odd in _some(PLACES.get(kind[1] if kind else "str", ODD), route):
        _ask(admin, _filled(route, odd.replace("%", "%25").replace("\0", "%00").replace("?", "%3F")))


@pytest.mark.parametrize("route", _routes())
def test_odd_forms_fail_nothing(admin: Client, route: str) -> None:
    fields = (*PARAMETERS, "username", "password", "next", "reason", "stopped", "scheme", "language", "theme", "name", "value", "days",
              "start", "end", "minutes", "kind", "mode", "note", "part", "serial", "confirm", "choice")  # fmt: skip
    for odd in ("\0", "9" * 30, "²", "x" * 5000, "0001-01-01"):
        _ask(admin, _filled(route, None), dict.fromkeys(fields, odd), "post")
