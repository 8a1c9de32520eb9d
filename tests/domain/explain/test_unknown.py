"""A node of which nothing is known is never said to be well."""

from __future__ import annotations

import pytest

from fleet.readmodels.why import sentence
from tests.builders import a_cluster, a_node


@pytest.mark.django_db
@pytest.mark.parametrize("verdict", ["unknown", "degraded", "unhealthy", "lost"])
def test_only_a_healthy_node_has_nothing_wrong(verdict: str) -> None:
    cluster = a_cluster()
    assert sentence(a_node(cluster, "well"), None, None).startswith("Nothing is wrong")
    told = sentence(a_node(cluster, "other", verdict=verdict), None, None)
    assert "Nothing is wrong" not in told and "Nothing is under way" in told
