"""What was refused of a node's input stands on the node's page, and on no other."""

from __future__ import annotations

import pytest
from django.test import Client

from fleet.telemetry.services import Refusal, count_rejections
from tests.builders import T0, a_cluster, a_node

pytestmark = pytest.mark.django_db
TEXT = "dcgm of gpu-r01-01 sent samples of gpu-r01-02"


def test_refused_samples_are_counted_on_the_page_of_the_node_they_came_from(viewer: Client) -> None:
    cluster = a_cluster()
    for name in ("gpu-r01-01", "gpu-r01-011", "gpu-r01-02"):
        a_node(cluster, name)
    for _ in range(2):
        count_rejections(cluster.pk, {Refusal("scrape", "wrong_node", "gpu-r01-01/dcgm"): (40, TEXT)}, T0)
    page = viewer.get("/nodes/gpu-r01-01/").content.decode()
    assert "Refused input" in page and TEXT in page
    assert '80 × <span class="mono">wrong_node</span>' in page
    for other in ("gpu-r01-011", "gpu-r01-02"):
        assert "Refused input" not in viewer.get(f"/nodes/{other}/").content.decode()
