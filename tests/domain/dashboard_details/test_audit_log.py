"""The audit page, its stream, and its chain line."""

from __future__ import annotations

import csv
import io
from typing import Any

from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from dashboard.views.audit import plain
from fleet.audit.models import AuditHead
from fleet.inventory.models import Cluster
from fleet.readmodels import lists
from tests.builders import TestClock, a_cluster
from tests.domain.dashboard_details.conftest import audit_row, client_of


def _csv(client: Client, query: str = "") -> list[dict[str, str]]:
    answer = client.get(f"/audit.csv{query}")
    body = b"".join(answer.streaming_content)  # type: ignore[attr-defined]
    return list(csv.DictReader(io.StringIO(body.decode())))


def test_a_cell_that_begins_like_a_formula_is_quoted(viewer: Client, cluster: Cluster) -> None:
    audit_row(cluster, "=cmd|' /C calc'!A0", "+note", "@thing", "-node")
    row = next(row for row in _csv(viewer) if "calc" in row["actor"])
    assert row["actor"].startswith("'=") and row["action"].startswith("'+")
    assert row["object"].startswith("'@") and row["node"].startswith("'-")
    assert plain("plain") == "plain"


def test_the_stream_has_exactly_the_filtered_rows(viewer: Client, cluster: Cluster) -> None:
    for number in range(5):
        audit_row(cluster, "jiwoo" if number % 2 else "mina", "workflow.retry", f"workflow:{number}")
    assert len(_csv(viewer, "?actor=jiwoo")) == 2
    assert len(_csv(viewer, "?action=workflow")) == 5
    assert _csv(viewer, "?since=2030-01-01") == []


def test_the_stream_reads_in_slices(viewer: Client, cluster: Cluster) -> None:
    for number in range(7):
        audit_row(cluster, "jiwoo", "note", f"x:{number}")
    was, lists.SLICE = lists.SLICE, 3
    try:
        assert [row["object"] for row in _csv(viewer, "?actor=jiwoo")] == [f"x:{n}" for n in range(6, -1, -1)]
    finally:
        lists.SLICE = was


def test_the_stream_is_asynchronous_under_asgi(viewer: Client, cluster: Cluster) -> None:
    audit_row(cluster, "jiwoo", "note", "x:1")
    client = AsyncClient()
    client.cookies = viewer.cookies

    async def read() -> bytes:
        answer = await client.get("/audit.csv")
        stream: Any = answer
        return b"".join([chunk async for chunk in stream.streaming_content])

    assert b"jiwoo" in async_to_sync(read)()


def test_rows_of_other_clusters_do_not_exist(now: TestClock, cluster: Cluster) -> None:
    audit_row(cluster, "jiwoo", "note", "x:1")
    audit_row(a_cluster("other"), "secretive", "note", "x:2")
    client = client_of("viewer", "demo")
    page = client.get("/audit/").content.decode()
    assert "jiwoo" in page and "secretive" not in page and "user.grant" not in page
    assert {row["actor"] for row in _csv(client)} == {"jiwoo"}


def test_a_page_begins_below_a_row(viewer: Client, cluster: Cluster) -> None:
    for number in range(60):
        audit_row(cluster, "jiwoo", "note", f"x:{number}")
    page = viewer.get("/audit/?actor=jiwoo").content.decode()
    assert "x:59" in page and "x:9<" not in page
    older = page[page.index("before=") : page.index('"', page.index("before="))]
    assert "x:9<" in viewer.get(f"/audit/?actor=jiwoo&{older}").content.decode()


def test_a_tip_that_does_not_match_is_told(viewer: Client, cluster: Cluster) -> None:
    audit_row(cluster, "jiwoo", "note", "x:1")
    assert "its tip matches" in viewer.get("/audit/").content.decode()
    AuditHead.objects.filter(chain=f"cluster:{cluster.pk}").update(hash="0" * 64)
    assert "its tip does not match" in viewer.get("/audit/").content.decode()
