"""The past on a node's page: ranges, sparklines, and the way to Grafana."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard import grafana
from dashboard.charts import sparks
from fleet import wiring
from fleet.inventory.models import Cluster
from fleet.ports.errors import TemporaryError
from fleet.ports.metrics import Curve, Curves, Vector
from fleet.telemetry.models import NodeHistory
from tests.builders import a_cluster, a_node
from tests.domain.dashboard_details.conftest import NOW, a_story, client_of, history

PAGE = "/nodes/gpu-r01-01/"


def test_every_range_is_offered_and_marked(viewer: Client, cluster: Cluster) -> None:
    a_story(cluster)
    for key in ("45m", "2h", "24h", "7d", "30d"):
        text = viewer.get(PAGE, {"range": key}).content.decode()
        assert f'range={key}&amp;tl=all#ch" aria-current="true"' in text
        assert text.count("range=") > 5


def test_a_long_range_shows_means_within_lows_and_highs(viewer: Client, cluster: Cluster) -> None:
    a_story(cluster)
    page = viewer.get(PAGE, {"range": "24h"}).content.decode()
    assert "lowest to highest" in page and "p10 to p90" not in page
    figure = viewer.get(f"{PAGE}charts/power.json", {"range": "24h"}).json()
    low, high, mean = figure["data"][:3]
    assert (low["y"][0], high["y"][0]) == (300, 307)
    assert low["x"] == mean["x"] and figure["layout"]["xaxis"]["range"][0] == "2026-11-28T03:20:00Z"


class Store:
    """A metrics API that has one GPU's hour, or is away."""

    def __init__(self, away: bool = False) -> None:
        self.away, self.asked = away, list[str]()

    def overs(self, expressions: Sequence[str], since: datetime, until: datetime, step: float) -> list[Curves]:
        if self.away:
            raise TemporaryError("The metrics API cannot be reached.")
        self.asked += expressions
        stamps = np.array([until.timestamp() - 600, until.timestamp()])
        return [Curves([Curve({"gpu": "0"}, stamps, np.array([333.0, 334.0]))]) for _ in expressions]

    def over(self, expression: str, since: datetime, until: datetime, step: float) -> Curves:
        raise NotImplementedError

    def instant(self, expression: str, at: datetime | None = None) -> Vector:
        raise NotImplementedError

    def instants(self, expressions: Sequence[str]) -> list[Vector]:
        raise NotImplementedError


def test_a_cluster_with_a_metrics_api_asks_it_for_long_ranges(
    viewer: Client, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_story(cluster)
    store = Store()
    monkeypatch.setattr(wiring, "metrics", lambda cluster: store)
    assert "334" in viewer.get(PAGE, {"range": "7d"}).content.decode()
    assert store.asked and all("gpu-r01-01" in expression for expression in store.asked)
    store.asked.clear()
    viewer.get(PAGE, {"range": "45m"})
    assert store.asked == []


def test_a_metrics_api_that_is_away_is_said_and_the_page_stands(
    viewer: Client, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_story(cluster)
    monkeypatch.setattr(wiring, "metrics", lambda cluster: Store(away=True))
    answer = viewer.get(PAGE, {"range": "30d"})
    assert answer.status_code == 200 and "cannot be reached" in answer.content.decode()


def test_each_gpu_has_a_line_on_one_scale(viewer: Client, cluster: Cluster) -> None:
    a_story(cluster)
    text = viewer.get(PAGE).content.decode()
    assert text.count('<svg class="spark"') >= 2
    assert sparks.path([0.0, None, 10.0, 5.0], 0.0, 10.0) == "M0.0 19.0M66.7 1.0L100.0 10.0"
    assert sparks.path([1.0], 0.0, 1.0) == ""


def test_grafana_is_opened_at_the_same_node_and_time(viewer: Client, cluster: Cluster) -> None:
    Cluster.objects.update(grafana_url="https://grafana.example/d/n?var-node={node}")
    a_story(cluster)
    text = viewer.get(PAGE, {"range": "2h"}).content.decode()
    since, until = (int(at.timestamp() * 1000) for at in (NOW - timedelta(hours=2), NOW))
    assert f"https://grafana.example/d/n?var-node=gpu-r01-01&amp;from={since}&amp;to={until}" in text
    assert grafana.address("", "n", "c", NOW, NOW) == ""
    assert grafana.address("https://g/{cluster}/{node}?a={from}", "n&x", "é", NOW, NOW).startswith(
        "https://g/%C3%A9/n%26x?a="
    )


def test_the_fleets_table_gets_its_lines_at_once_and_only_of_what_may_be_seen(viewer: Client, cluster: Cluster) -> None:
    busy, calm, west = a_node(cluster, "gpu-1"), a_node(cluster, "gpu-2"), a_node(a_cluster("west"), "gpu-1")
    for node in (busy, west):
        history(node, minutes=90)
    a_node(cluster, "gpu-3")
    names = [f"{row.cluster.name}/{row.name}" for row in (busy, calm, west)] + ["demo/", "", "nowhere/gpu-1"]
    with CaptureQueriesContext(connection) as seen:
        told = viewer.get("/fleet/use.json", {"n": names}).json()
    assert set(told) == {f"{cluster.name}/gpu-1", "west/gpu-1"}
    assert told["west/gpu-1"]["now"] == "304 %" and told["west/gpu-1"]["line"].startswith("M")
    assert len([query for query in seen.captured_queries if "nodehistory" in query["sql"]]) == 1
    assert set(client_of("viewer", "west").get("/fleet/use.json", {"n": names}).json()) == {"west/gpu-1"}


def test_a_use_that_nobody_measured_lately_is_a_gap_and_no_number(viewer: Client, cluster: Cluster) -> None:
    node = a_node(cluster, "gpu-1")
    history(node, minutes=60)
    NodeHistory.objects.filter(at__gte=NOW - timedelta(minutes=20)).delete()
    told = viewer.get("/fleet/use.json", {"n": f"{cluster.name}/gpu-1"}).json()[f"{cluster.name}/gpu-1"]
    assert told["now"] == "–" and "used at" in told["said"]
