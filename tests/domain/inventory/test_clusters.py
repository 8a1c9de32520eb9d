"""Registering clusters: idempotent, audited, never with a credential's content."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.audit.models import AuditRow
from fleet.inventory import clusters
from fleet.inventory.clusters import Registration
from fleet.inventory.models import Cluster
from tests.builders import T0

pytestmark = pytest.mark.django_db


def register(tmp_path: Path, **fields: object) -> list[str]:
    wanted = Registration(name="east", **fields)  # type: ignore[arg-type]
    return clusters.register(wanted, simulated_under=tmp_path / "simulator", by="minseo", now=T0)[1]


def test_the_same_registration_twice_changes_nothing(tmp_path: Path) -> None:
    assert register(tmp_path, kubeconfig=str(tmp_path / "k"), selector="gpu=yes") != []
    assert register(tmp_path, kubeconfig=str(tmp_path / "k"), selector="gpu=yes") == []
    assert AuditRow.objects.count() == 1


def test_a_change_touches_only_what_is_said(tmp_path: Path) -> None:
    register(tmp_path, kubeconfig=str(tmp_path / "k"), selector="gpu=yes")
    assert register(tmp_path, context="other") == ["context"]
    cluster = Cluster.objects.get()
    assert (cluster.context, cluster.selector) == ("other", "gpu=yes")


def test_without_a_selector_only_a_simulated_cluster_is_managed(tmp_path: Path) -> None:
    register(tmp_path, kubeconfig=str(tmp_path / "real"))
    assert Cluster.objects.get().selector == ""
    register(tmp_path, kubeconfig=str(tmp_path / "simulator" / "kubeconfig"))
    assert Cluster.objects.get().selector == "*"


def test_a_removed_cluster_may_come_back(tmp_path: Path) -> None:
    register(tmp_path)
    clusters.remove(Cluster.objects.get(), by="minseo", now=T0)
    assert register(tmp_path) == ["removed_at"]
    assert list(AuditRow.objects.order_by("seq").values_list("action", flat=True)) == [
        "cluster.add",
        "cluster.remove",
        "cluster.update",
    ]


@pytest.mark.parametrize("fields", [{"selector": "a in (b"}, {"label_keys": {"planet": "x"}}])
def test_what_cannot_be_read_is_refused(tmp_path: Path, fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"not understood|no scope"):
        register(tmp_path, **fields)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("prometheus_url", "ftp://x", "must begin with http"),
        ("prometheus_url", "https://me:secret@prometheus", "carries a credential"),
        ("prometheus_credential", "hunter2", "env:NAME or file:PATH"),
        ("prometheus_tenant", "two words", "one word"),
        ("prometheus_match", 'cluster="east"} or up{x="', "Matchers look like"),
        ("grafana_url", "https://grafana/d/x?var-host={host}", "has no place {host}"),
    ],
)
def test_a_metrics_api_that_cannot_be_meant_is_refused(tmp_path: Path, field: str, value: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        register(tmp_path, **{field: value})
    assert "secret" not in str(caught.value)


def test_a_metrics_api_is_registered_by_reference(tmp_path: Path) -> None:
    register(
        tmp_path,
        prometheus_url="https://mimir.example/prometheus",
        prometheus_credential="env:EAST_METRICS",
        prometheus_tenant="gpu",
        prometheus_match='cluster="east", env=~"prod|stage"',
        metrics_source="query",
        grafana_url="https://grafana.example/d/node?var-node={node}&from={from}&to={to}",
    )
    cluster = Cluster.objects.get()
    assert (cluster.metrics_source, cluster.prometheus_credential) == ("query", "env:EAST_METRICS")
