"""The guards of a workflow, each with its verdict and its sentence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import time, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from fleet.health import detector_changes
from fleet.health.models import Incident, NodeVerdict
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle.models import Workflow
from fleet.policy import services as policy
from fleet.policy.models import Breaker, Cap, Claim, Window
from fleet.readmodels import guard_lines
from fleet.readmodels.guard_lines import GuardLine
from tests.builders import T0, a_node, a_workflow, an_incident
from tests.domain.dashboard_details.conftest import NOW, cluster, now, viewer  # noqa: F401  fixtures

ALL = [
    "mode", "role", "approval", "owner", "freshness", "detector", "switch", "breaker", "window", "caps", "rate",
    "floor",
]  # fmt: skip


@pytest.fixture
def workflow(cluster: Cluster) -> Workflow:  # noqa: F811
    """It is held, and its drain asks."""
    Cap.objects.all().delete()
    for number in range(10):
        a_node(cluster, f"n{number}", pods=1)
    node = Node.objects.get(name="n0")
    NodeVerdict.objects.filter(node=node).update(verdict="unhealthy", telemetry_at=NOW - timedelta(seconds=12))
    return a_workflow(node, an_incident(node, severity="degraded"), state="blocked", step=1)


def lines(workflow: Workflow) -> dict[str, GuardLine]:
    row = Workflow.objects.select_related("cluster", "node__pool", "incident").get(pk=workflow.pk)
    return {line.code: line for line in guard_lines.read(row, NOW)}


def test_every_guard_is_there_and_says_why_it_lets_it_go_on(workflow: Workflow) -> None:
    Cap.objects.create(kind="take_out", scope="rack", absolute=4)
    found = lines(workflow)
    assert list(found) == ALL and all(line.ok and line.text for line in found.values())
    assert found["freshness"].text == "Measured 12 s ago."
    assert found["detector"].text == "0 other nodes fail the check xid-log."
    assert found["caps"].text == "There is room: rack r01 has 0 of 4."
    assert found["rate"].text == "None is set." and found["role"].text == "Muster asks for it itself."


def observe(workflow: Workflow) -> None:
    Cluster.objects.update(mode="observe")


def nobody(workflow: Workflow) -> None:
    Workflow.objects.update(created_by="gone")


def unapproved(workflow: Workflow) -> None:
    Workflow.objects.update(needs_approval=True)


def upgrade(workflow: Workflow) -> None:
    owner = {"name": "GPU Operator", "doing": "upgrades its driver", "stance": "working", "mark": "x", "since": ""}
    Node.objects.filter(name="n0").update(owners=[owner])


def blind(workflow: Workflow) -> None:
    NodeVerdict.objects.update(verdict="unknown", reason="No data for 90 s.")


def unwatched(workflow: Workflow) -> None:
    Cluster.objects.update(observer_until=NOW - timedelta(minutes=1))


def shared(workflow: Workflow) -> None:
    Incident.objects.update(plan_after=NOW + timedelta(seconds=20))


def stopped(workflow: Workflow) -> None:
    policy.stop_all(stopped=True, by="ann", reason="works", now=NOW)


def tripped(workflow: Workflow) -> None:
    Breaker.objects.create(cluster_id=workflow.cluster_id, state="open", since=NOW, text="Too many.")


def frozen(workflow: Workflow) -> None:
    Window.objects.create(kind="freeze", name="year-end", zone="UTC", start=time(0), minutes=1440, created_at=T0)


def full(workflow: Workflow) -> None:
    Cap.objects.create(kind="take_out", scope="rack", absolute=1)
    Node.objects.filter(name="n1").update(foreign_hold=True)


def low(workflow: Workflow) -> None:
    Cap.objects.create(kind="floor", scope="fleet", absolute=10)


def fast(workflow: Workflow) -> None:
    """The reboot asks; another one was begun within the hour."""
    Workflow.objects.filter(pk=workflow.pk).update(step=2)
    Cap.objects.create(kind="rate", scope="fleet", absolute=1, window=3600)
    other = Node.objects.get(name="n1")
    Claim.objects.create(
        cluster_id=other.cluster_id, kind="in_flight", node_id=other.pk, workflow_id=10**6, claimed_at=NOW,
        released_at=NOW,
    )  # fmt: skip


BLOCKS = {
    "mode": observe, "role": nobody, "approval": unapproved, "owner": upgrade, "freshness": blind,
    "freshness ": unwatched, "detector": shared, "switch": stopped, "breaker": tripped, "window": frozen, "caps": full,
    "rate": fast, "floor": low,
}  # fmt: skip


@pytest.mark.parametrize(("code", "block"), BLOCKS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_guard_that_blocks_says_so_alone(workflow: Workflow, code: str, block: Callable[[Workflow], None]) -> None:
    block(workflow)
    found = lines(workflow)
    assert [line.code for line in found.values() if not line.ok] == [code.strip()]
    assert found[code.strip()].text.endswith((".", "!"))


def test_a_change_of_the_check_is_told_beside_it(workflow: Workflow) -> None:
    detector_changes.note_rules(workflow.cluster_id, "version: 1", ["xid-log"], NOW)
    assert "Changed lately: its rule was changed at 03:20 UTC." in lines(workflow)["detector"].text


def test_tests_and_the_return_ask_no_guard(workflow: Workflow) -> None:
    Workflow.objects.update(step=3)
    assert lines(workflow) == {}


def test_a_large_fleet_takes_no_more_queries(workflow: Workflow) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as found:
            lines(workflow)
        return len(found)

    few = queries()
    for number in range(10, 40):
        a_node(workflow.cluster, f"n{number}")
    assert queries() == few <= 25


def test_the_page_shows_them_all_and_reads_them_by_itself(viewer: Client, workflow: Workflow) -> None:  # noqa: F811
    stopped(workflow)
    page = viewer.get(f"/workflows/{workflow.pk}/").content.decode()
    assert f'data-src="/workflows/{workflow.pk}/?part=guards"' in page
    part = viewer.get(f"/workflows/{workflow.pk}/?part=guards").content.decode()
    assert part.count("<li>") == len(ALL) and part.count("blocks it") == 1
    assert "All new disruption was stopped by ann: works." in part
