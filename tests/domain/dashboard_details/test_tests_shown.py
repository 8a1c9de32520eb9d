"""What the pages of a node and of a workflow tell of its tests."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from fleet.access.models import User
from fleet.inventory.models import Node
from fleet.lifecycle.validation.models import ValidationResult, ValidationRun
from fleet.readmodels import tests_shown
from tests.builders import T0, a_cluster, a_node


@pytest.fixture
def run(db: None) -> ValidationRun:
    node = a_node(a_cluster())
    found = ValidationRun.objects.create(
        cluster_id=node.cluster_id, node=node, purpose="burn_in", suite="s", test="nccl", kind="nccl", job="d/j",
        started_at=T0, deadline=T0, ended_at=T0, result="failed", text="busbw: too low", tail="<script>x</script>",
    )  # fmt: skip
    ValidationResult.objects.create(
        run=found,
        name="busbw",
        status="fail",
        value=250.0,
        unit="GB/s",
        baseline=500.0,
        spread=4.0,
        nodes=9,
        floor=450.0,
    )
    for gpu in range(8):
        ValidationResult.objects.create(run=found, name="memory", device=f"GPU {gpu}", status="pass")
    return found


def test_a_value_is_drawn_against_what_it_was_held_to(run: ValidationRun) -> None:
    (shown,) = tests_shown.of_node(run.node_id)
    (bar,) = shown.bars
    assert (bar.width, bar.floor, bar.baseline, bar.tone) == (300, 540, 600, "x")
    assert shown.good == 8 and [row.name for row in shown.faults] == ["busbw"]


def test_the_node_page_tells_values_and_escapes_logs(run: ValidationRun, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root", password="x" * 12))
    address = reverse("node", args=[Node.objects.get().name])
    page = client.get(address, {"part": "tests"}).content.decode()
    assert "250 GB/s" in page and "at least 450" in page and "of 9 nodes" in page and "while it was idle" in page
    assert "<script>x" not in page
    for odd in ("0", "x", "9" * 30, "-1"):
        assert client.get(address, {"part": "tests", "workflow": odd}).status_code == 200


def test_two_queries_whatever_the_number_of_runs(run: ValidationRun, django_assert_num_queries: object) -> None:
    for number in range(6):
        ValidationRun.objects.create(
            cluster_id=run.cluster_id, node=run.node, purpose="validate", suite="s", test="dcgm", kind="dcgm",
            job=f"d/j{number}", started_at=T0, deadline=T0,
        )  # fmt: skip
    with django_assert_num_queries(2):  # type: ignore[operator]
        tests_shown.of_node(run.node_id)
