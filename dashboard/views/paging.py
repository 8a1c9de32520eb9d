"""Filters and pages of the lists, read from and written to the address.

Decides that the address is the whole state of a list. Refuses numbers that are none and pages below the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise

from fleet.inventory.models import Cluster, Node
from fleet.readmodels.lists import Filter, Page


@dataclass(frozen=True, slots=True)
class Pager:
    """Addresses of the neighbours, "" where there is none, and which rows are shown."""

    back: str
    on: str
    first: int
    last: int


def whole(text: str, default: int = 1) -> int:
    return min(int(text), 1_000_000) if text.isdecimal() and len(text) < 12 else default


def filter_of(request: HttpRequest) -> Filter:
    get = request.GET
    return Filter(
        state=get.get("state", ""),
        node=get.get("node", "").strip(),
        cluster=get.get("cluster", ""),
        q=get.get("q", "").strip(),
        reason=get.get("reason", "")[:32],
        page=max(1, whole(get.get("page", ""))),
    )


def address(request: HttpRequest, **changes: str) -> str:
    """This page's query string with some parts replaced; an empty value removes the part."""
    query = request.GET.copy()
    query.pop("part", None)
    for name, value in changes.items():
        if value:
            query[name] = value
        else:
            query.pop(name, None)
    return f"?{query.urlencode()}"


def node_address(node: Node, cluster: Cluster) -> str:
    """A node's page; with the cluster, since names may repeat between clusters."""
    return f"{reverse('node', args=[node.name])}?cluster={quote(cluster.name)}"


def list_context(
    request: HttpRequest, page: Page[Any], wanted: Filter, states: Mapping[str, str | Promise]
) -> dict[str, Any]:
    """What every list shows around its rows: counts that are filters, and the pages."""
    return {
        "page": page,
        "wanted": wanted,
        "states": [
            (state, word, page.counts.get(state, 0), address(request, state=state, page=""))
            for state, word in states.items()
        ],
        "all_url": address(request, state="", page=""),
        "rows_url": f"{request.path}{address(request)}&part=rows",
        "pager": pager(request, page),
    }


def pager(request: HttpRequest, page: Page[Any]) -> Pager:
    back = address(request, page=str(page.number - 1) if page.number > 2 else "") if page.number > 1 else ""
    on = address(request, page=str(page.number + 1)) if page.more else ""
    return Pager(back, on, page.first, page.first + len(page.rows) - 1 if page.rows else 0)
