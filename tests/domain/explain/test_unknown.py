"""A node of which nothing is known is never said to be well."""

from __future__ import annotations

import pytest

from fleet.readmodels.why import sentence
from tests.builders import a_cluster, a_node

SINCE = "2026-11-30T12:00:00+00:00"


@pytest.mark.django_db
@pytest.mark.parametrize("verdict", ["unknown", "degraded", "unhealthy", "lost"])
def test_only_a_healthy_node_has_nothing_wrong(verdict: str) -> None:
    cluster = a_cluster()
    assert sentence(a_node(cluster, "well"), None, None).startswith("Nothing is wrong")
    told = sentence(a_node(cluster, "other", verdict=verdict), None, None)
    assert "Nothing is wrong" not in told and "Nothing is under way" in told


@pytest.mark.django_db
def test_a_node_whose_cluster_is_cut_off_says_since_when() -> None:
    cluster = a_cluster()
    cluster.conditions = [{"code": "watch_nodes", "text": "https://k8s cannot be reached.", "since": SINCE}]
    told = sentence(a_node(cluster, "well"), None, None)
    assert "not known since 2026-11-30 12:00:00 UTC: https://k8s cannot be reached." in told
