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
