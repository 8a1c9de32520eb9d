"""A suspect beside its peers: the card, the figure, and what the pages say comes next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from dashboard.charts import peers
from fleet.health.models import Incident
from fleet.inventory.models import Cluster, Node
from fleet.readmodels.incident_page import evidence_text
from tests.builders import T0, a_node, an_incident
from tests.domain.dashboard_details.conftest import a_signal, client_of

POINTS = [[(T0 + timedelta(seconds=30 * n)).isoformat(), 1980 if n < 8 else 990, 1960, 1990] for n in range(20)]
EVIDENCE = {
    "text": "SM clock 990 MHz against 1980", "gang": "train/llm-7", "role": "worker", "peers": 31,
    "traces": [{"name": "SM clock", "unit": "MHz", "points": POINTS},
               {"name": "NVLink traffic", "unit": "B/s", "points": [[T0.isoformat(), 2.1e11, None, 3.5e11]]}],
}  # fmt: skip


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return a_node(cluster, gang="train/llm-7")


@pytest.fixture
def incident(node: Node) -> Incident:
    title = "GPU 3 does not work like its 31 peers: SM clock 990 MHz against 1980"
    said = {"said": {"id": title, "args": {"part": "3"}}}
    fields: dict[str, Any] = {"cause": "grey-suspect", "rule": "grey-suspect", "action_class": "confirm"}
    found = an_incident(node, device="GPU-3", severity="degraded", title=title, evidence={**EVIDENCE, **said}, **fields)
    a_signal(node, found, title=title, severity="degraded", source="dcgm", evidence=EVIDENCE, **fields)
    return found


def test_both_pages_show_the_suspect_beside_its_peers_and_what_comes_next(
    viewer: Client, incident: Incident, node: Node
) -> None:
    for address in (f"/incidents/{incident.pk}/", f"/nodes/{node.name}/"):
        text = viewer.get(address).content.decode()
        assert "GPU 3 beside its peers" in text and "31 peers, p10 to p90" in text
        assert f"/incidents/{incident.pk}/charts/0.json" in text and "train/llm-7" in text and "role worker" in text
        assert "an active test confirms" in text
        assert "muster/js/charts.js" in text


def test_the_figure_has_the_band_of_the_peers_and_the_parts_own_line(viewer: Client, incident: Incident) -> None:
    figure = viewer.get(f"/incidents/{incident.pk}/charts/0.json").json()
    low, high, own = figure["data"]
    assert set(low["y"]) == {1960} and set(high["y"]) == {1990} and high["fill"] == "tonexty"
    assert (own["name"], own["y"][0], own["y"][-1]) == ("GPU 3", 1980, 990)
    assert own["line"]["color"].startswith("var(--") and len(own["x"]) == 20
    assert "990 MHz at the end, its peers between 1960 and 1990" in figure["text"]
    other = viewer.get(f"/incidents/{incident.pk}/charts/1.json").json()
    assert other["data"][2]["y"] == [pytest.approx(210)]
    assert viewer.get(f"/incidents/{incident.pk}/charts/2.json").status_code == 404


def test_the_newest_signal_is_drawn_while_it_lasts(viewer: Client, incident: Incident, node: Node) -> None:
    newer = {**EVIDENCE, "traces": [{"name": "power", "unit": "W", "points": [[T0.isoformat(), 300, 600, 640]]}]}
    a_signal(node, incident, cause="grey-suspect", evidence=newer)
    text = viewer.get(f"/incidents/{incident.pk}/").content.decode()
    assert "Power, W" in text and "SM clock, MHz" not in text


def test_another_incident_and_another_reader_have_no_such_chart(viewer: Client, incident: Incident, node: Node) -> None:
    plain = an_incident(node)
    assert viewer.get(f"/incidents/{plain.pk}/charts/0.json").status_code == 404
    assert "beside its peers" not in viewer.get(f"/incidents/{plain.pk}/").content.decode()
    stranger = client_of("viewer", "elsewhere")
    assert stranger.get(f"/incidents/{incident.pk}/charts/0.json").status_code == 404


@pytest.mark.parametrize(
    "traces", [None, "x", [1], [{}], [{"name": "x"}], [{"name": "x", "unit": "W", "points": [["never", 1, 2, 3]]}],
               [{"name": "x", "unit": "W", "points": [[T0.isoformat(), 1]]}],
               [{"name": "x", "unit": "W", "points": 7}]],
)  # fmt: skip
def test_evidence_that_cannot_be_read_draws_nothing(traces: object) -> None:
    assert peers.courses({"traces": traces}) == []


def test_courses_are_drawn_and_not_printed() -> None:
    assert "points" not in evidence_text(EVIDENCE) and "SM clock 990" in evidence_text(EVIDENCE)


def test_what_is_stated_of_a_gang_is_on_its_nodes_pages(viewer: Client, cluster: Cluster, node: Node) -> None:
    cluster.conditions = [
        {"code": "job_slow:train/llm-7", "text": "Gang train/llm-7 runs 32% slower.", "since": T0.isoformat()},
        {"code": "job_slow:train/other", "text": "Gang train/other runs slower.", "since": T0.isoformat()},
    ]
    cluster.save()
    text = viewer.get(f"/nodes/{node.name}/").content.decode()
    assert "train/llm-7 runs 32% slower" in text and "train/other" not in text
