"""Old results of tests go, and nothing that anybody still reads with them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fleet.inventory.models import Cluster, Node
from fleet.lifecycle.validation import keeping, retention
from fleet.lifecycle.validation.findings import Finding, Status
from fleet.lifecycle.validation.models import ValidationResult, ValidationRun
from tests.builders import T0, a_cluster, a_node

pytestmark = pytest.mark.django_db
LONG_AGO = T0 - timedelta(days=400)


@pytest.fixture
def nodes() -> list[Node]:
    cluster: Cluster = a_cluster()
    return [a_node(cluster, name) for name in ("n1", "n2", "n3", "n4")]


def a_run(node: Node, at: datetime, result: str = "passed", test: str = "nccl", **fields: object) -> ValidationRun:
    number = ValidationRun.objects.count()
    ended = None if not result else at
    values = {"purpose": "validate", "suite": "h100", "kind": "nccl", "job": f"default/j{number}", **fields}
    run = ValidationRun.objects.create(
        cluster_id=node.cluster_id, node=node, test=test, started_at=at, deadline=at, ended_at=ended, result=result,
        **values,
    )  # fmt: skip
    key = keeping.key_in(run, BUS)
    ValidationResult.objects.create(run=run, name=BUS.name, status="pass", value=400.0 + number, unit="GB/s", key=key)
    return run


BUS = Finding("busbw", Status.PASS, "", 400.0, "GB/s")


def left() -> set[int]:
    return set(ValidationRun.objects.values_list("pk", flat=True))


def test_old_runs_go_and_the_newest_of_each_kind_stays(nodes: list[Node]) -> None:
    node = nodes[0]
    gone = [a_run(node, LONG_AGO), a_run(node, LONG_AGO, "failed")]
    kept = [
        a_run(node, LONG_AGO + timedelta(days=1)), a_run(node, LONG_AGO + timedelta(days=1), "failed"),
        a_run(node, LONG_AGO, test="dcgm"), a_run(nodes[1], LONG_AGO), a_run(node, LONG_AGO, purpose="burn_in"),
    ]  # fmt: skip
    assert retention.retain(T0) == len(gone)
    assert left() == {run.pk for run in kept}
    assert ValidationResult.objects.count() == len(kept), "findings go with their run"
    assert retention.retain(T0) == 0


def test_what_is_not_old_or_still_runs_stays(nodes: list[Node]) -> None:
    young = [a_run(nodes[0], T0 - timedelta(days=179)) for _ in range(3)]
    running = a_run(nodes[0], LONG_AGO, "")
    assert retention.retain(T0) == 0 and left() == {running.pk, *(run.pk for run in young)}


def test_a_baseline_is_the_same_before_and_after(nodes: list[Node]) -> None:
    for day in range(3):
        for node in nodes:
            a_run(node, LONG_AGO + timedelta(days=day))
    probe = a_run(nodes[0], T0, "")
    before = keeping.baselines(probe, [BUS])
    assert before and retention.retain(T0) == 8
    assert keeping.baselines(probe, [BUS]) == before


def test_it_goes_in_portions(nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    for day in range(5):
        a_run(nodes[0], LONG_AGO + timedelta(days=day))
    assert [retention.retain(T0) for _ in range(3)] == [2, 2, 0]
