"""The audit log: filtered, in pages, and as a stream of comma-separated values.

Decides that a page begins below a row's number, so that pages do not shift while rows are appended, and that a cell
which a spreadsheet would run as a formula is quoted. Refuses to hold the whole log in memory.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import date
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render

from dashboard import clock
from dashboard.views.paging import address, whole
from dashboard.views.said_lists import audit_said
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.audit.models import AuditRow
from fleet.readmodels import lists
from fleet.readmodels.timeline import evidence_line, object_label

COLUMNS = ("at", "actor", "action", "object", "node", "detail", "chain", "seq", "hash")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


FIRST_YEAR, LAST_YEAR = 1970, 9000  # beyond them a day has no beginning in every time zone


def _day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if FIRST_YEAR <= day.year <= LAST_YEAR else None


def _wanted(request: HttpRequest) -> lists.AuditFilter:
    get = request.GET
    return lists.AuditFilter(
        actor=get.get("actor", "").strip(),
        node=get.get("node", "").strip(),
        action=get.get("action", "").strip(),
        object=get.get("object", "").strip(),
        since=_day(get.get("since", "")),
        until=_day(get.get("until", "")),
        before=whole(get.get("before", ""), 0),
    )


@needs(VIEW)
def index(request: HttpRequest) -> HttpResponse:
    wanted = _wanted(request)
    chains = lists.chains_seen(visible_clusters(request.user, VIEW))
    page = lists.audit(chains, wanted)
    tips = lists.chain_tips(chains)
    context: dict[str, Any] = {
        "said": audit_said(tips),
        "now": clock.now(),
        "wanted": wanted,
        "filtered": any((wanted.actor, wanted.node, wanted.action, wanted.object, wanted.since, wanted.until)),
        "rows": [(row, object_label(row.object), evidence_line(row.detail), chains[row.chain]) for row in page.rows],
        "tips": tips,
        "older": address(request, before=str(page.rows[-1].pk)) if page.more else "",
        "newest": address(request, before="") if wanted.before else "",
        "csv": address(request, before=""),
    }
    return render(request, "audit/list.html", context)


@needs(VIEW)
def stream(request: HttpRequest) -> StreamingHttpResponse:
    slices = lists.audit_slices(lists.chains_seen(visible_clusters(request.user, VIEW)), _wanted(request))
    lines: Iterable[bytes] | AsyncIterator[bytes] = _lines(slices)
    if isinstance(request, ASGIRequest):
        lines = _async_lines(_lines(slices))
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="muster-audit.csv"'
    response["Cache-Control"] = "no-store"
    return response


async def _async_lines(lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    def following() -> bytes:
        return next(lines, b"")

    while chunk := await sync_to_async(following)():
        yield chunk


def _lines(slices: Iterable[list[AuditRow]]) -> Iterator[bytes]:
    yield _csv([COLUMNS])
    for rows in slices:
        yield _csv(_cells(row) for row in rows)


def _cells(row: AuditRow) -> tuple[str, ...]:
    detail = json.dumps(row.detail, ensure_ascii=False, sort_keys=True)
    cells = (row.actor, row.action, row.object, row.node, detail, row.chain, str(row.seq), row.hash)
    return (row.at.isoformat(), *(plain(cell) for cell in cells))


def plain(cell: str) -> str:
    """A cell that begins like a formula gets a quote in front, so that no spreadsheet runs it."""
    return f"'{cell}" if cell.startswith(FORMULA) else cell


def _csv(rows: Iterable[tuple[str, ...]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()
