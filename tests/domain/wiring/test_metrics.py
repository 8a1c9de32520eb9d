"""From a cluster's row to its metrics API: credential, tenant, what is missing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet import wiring
from fleet.inventory.models import Cluster
from fleet.ports.errors import PermanentError
from tests.adapters.prometheus.fake_api import FakeApi, running, success


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with running(FakeApi()) as fake:
        yield fake


def test_without_an_address_there_is_none() -> None:
    assert wiring.metrics(Cluster(name="east")) is None
    assert wiring.metrics_missing(Cluster(name="east")) == []


@pytest.mark.parametrize(
    ("secret", "header"),
    [
        ("me:pass:word", "Basic " + base64.b64encode(b"me:pass:word").decode()),
        ("abc.def", "Bearer abc.def"),
        ("Bearer a:b", "Bearer a:b"),
    ],
)
def test_the_credential_is_read_where_it_lies(api: FakeApi, tmp_path: Path, secret: str, header: str) -> None:
    place = tmp_path / "secret"
    place.write_text(secret + "\n")
    cluster = Cluster(name="east", prometheus_url=api.url, prometheus_credential=f"file:{place}")
    cluster.prometheus_tenant = "gpu"
    found = wiring.metrics(cluster)
    assert found is not None and found is wiring.metrics(cluster)
    found.instant("up")
    assert api.asked[0][2]["Authorization"] == header
    assert api.asked[0][2]["X-Scope-OrgID"] == "gpu"
    place.unlink()
    with pytest.raises(PermanentError) as caught:
        found.instant("up")
    assert caught.value.code == "metrics_credential" and secret not in str(caught.value)


def test_an_api_without_our_series_is_said(api: FakeApi) -> None:
    cluster = Cluster(name="east", prometheus_url=api.url, prometheus_match='cluster="east"')
    api.body = success("vector", [{"metric": {}, "value": [1, "0"]}])
    assert "no series" in wiring.metrics_missing(cluster)[0]
    assert 'cluster="east"' in api.asked[0][1]["query"]
