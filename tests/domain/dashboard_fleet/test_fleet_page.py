"""The fleet page tells what needs a person, and its address is its state."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard import clock
from fleet.access.models import User
from fleet.health.models import NodeVerdict
from fleet.inventory.models import Cluster
from fleet.lifecycle.machine import NodeState, WorkflowState
from fleet.lifecycle.models import NodeLifecycle
from fleet.policy.models import Cap, Claim
from fleet.policy.services import stop_all
from tests.builders import T0, TestClock, a_cluster, a_node, a_workflow, an_incident

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def night(monkeypatch: pytest.MonkeyPatch) -> TestClock:
    still = TestClock(T0)
    monkeypatch.setattr(clock, "_clock", still)
    return still


@pytest.fixture
def rack() -> Cluster:
    """Four nodes of one rack: one unhealthy and rebooting, one blocked, one unknown, one well; a well one elsewhere."""
    cluster = a_cluster(observer_until=T0 + timedelta(seconds=30))
    rebooting = a_node(cluster, "gpu-r01-01", verdict="unhealthy", state=NodeState.REMEDIATING)
    NodeVerdict.objects.filter(node=rebooting).update(reason="GPU 3 fell off the bus (Xid 79)")
    running = a_workflow(rebooting, an_incident(rebooting), step=2)
    Claim.objects.create(
        cluster_id=cluster.pk, kind="in_flight", node_id=rebooting.pk, workflow_id=running.pk, claimed_at=T0
    )
    waiting = a_node(cluster, "gpu-r01-02", verdict="unhealthy", state=NodeState.HELD)
    a_workflow(
        waiting,
        an_incident(waiting),
        state=WorkflowState.BLOCKED,
        blocked_code="cap_in_flight",
        blocked_text="Rack r01: 1 of 1 in flight (gpu-r01-01).",
        blocked_until=T0 + timedelta(minutes=5),
    )
    a_node(cluster, "gpu-r01-03", verdict="unknown")
    a_node(cluster, "gpu-r01-04")
    a_node(cluster, "gpu-r02-01", rack="r02", pool="h100-infer")
    Cap.objects.update_or_create(cluster_id=None, kind="in_flight", scope="rack", defaults={"absolute": 1})
    return cluster


def test_the_page_opens_with_what_needs_a_person(viewer: Client, rack: Cluster) -> None:
    page = viewer.get("/fleet/").content.decode()
    assert "2 of 5 nodes are unhealthy, 1 unknown." in page
    assert '1 workflow waits: <a href="/workflows/?reason=cap_in_flight">1 for the in-flight cap (rack)</a>' in page
    assert re.search(r"asks again in <span [^>]*data-until=[^>]*>5:00<", page)


def test_a_whole_fleet_says_that_nothing_is_needed(viewer: Client) -> None:
    a_node(a_cluster(observer_until=T0 + timedelta(seconds=30)))
    page = viewer.get("/fleet/").content.decode()
    assert "The only node is healthy." in page
    assert "Nothing needs you now." in page
    assert "Every node is in service and healthy" in page


def test_a_cluster_that_nobody_watches_is_named(viewer: Client) -> None:
    a_node(a_cluster(observer_until=T0 - timedelta(minutes=9)))
    assert "No observer watches demo." in viewer.get("/fleet/").content.decode()


def test_without_a_cluster_the_page_names_the_next_command(viewer: Client) -> None:
    page = viewer.get("/fleet/").content.decode()
    assert "No cluster is registered." in page
    assert "manage.py cluster add" in page


def test_every_hex_is_a_link_with_a_name_and_one_is_in_the_tab_order(viewer: Client, rack: Cluster) -> None:
    page = viewer.get("/fleet/").content.decode()
    told = "gpu-r01-01, unhealthy, remediating: GPU 3 fell off the bus (Xid 79)"
    assert f'href="/nodes/gpu-r01-01/" aria-label="{told}" tabindex="0"' in page
    assert page.count('<a class="n ') == 5
    assert page.count('tabindex="0"') == 1


def test_no_fresh_data_is_hatched_whatever_fills_the_map(viewer: Client, rack: Cluster) -> None:
    for fill in ("verdict", "state"):
        page = viewer.get("/fleet/", {"fill": fill}).content.decode()
        assert '<a class="n unk" href="/nodes/gpu-r01-03/"' in page


def test_a_rack_prints_its_cap_only_when_something_is_out(viewer: Client, rack: Cluster) -> None:
    page = viewer.get("/fleet/").content.decode()
    assert '<span class="full">1 of 1 out</span>' in page
    assert "0 of 1 out" not in page


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"verdict": "unhealthy"}, ["gpu-r01-01", "gpu-r01-02"]),
        ({"state": "held"}, ["gpu-r01-01", "gpu-r01-02"]),
        ({"rack": "r02"}, ["gpu-r02-01"]),
        ({"pool": "h100-infer"}, ["gpu-r02-01"]),
        ({"q": "R01-0", "verdict": "healthy"}, ["gpu-r01-04"]),
        ({"verdict": "lost"}, []),
    ],
)
def test_filters_hold_for_map_table_and_csv_alike(
    viewer: Client, rack: Cluster, query: dict[str, str], names: list[str]
) -> None:
    for view in ("", "table"):
        page = viewer.get("/fleet/", {**query, "view": view}).content.decode()
        listed = [
            name
            for name in ("gpu-r01-01", "gpu-r01-02", "gpu-r01-03", "gpu-r01-04", "gpu-r02-01")
            if f'data-key="demo/{name}"' in page
        ]
        assert sorted(listed) == names
    rows = list(csv.DictReader(io.StringIO(viewer.get("/fleet.csv", query).content.decode())))
    assert [row["node"] for row in rows] == names


def test_each_active_filter_can_be_removed_alone(viewer: Client, rack: Cluster) -> None:
    page = viewer.get("/fleet/", {"verdict": "unhealthy", "rack": "r01", "group": "leaf"}).content.decode()
    assert 'href="?rack=r01&amp;group=leaf">verdict unhealthy' in page
    assert 'href="?verdict=unhealthy&amp;group=leaf">rack r01' in page


def test_csv_cells_cannot_become_formulas(viewer: Client) -> None:
    node = a_node(a_cluster(), verdict="degraded")
    NodeVerdict.objects.filter(node=node).update(reason="=HYPERLINK(1)")
    assert ",'=HYPERLINK(1)," in viewer.get("/fleet.csv").content.decode()


def test_words_from_outside_are_escaped(viewer: Client) -> None:
    node = a_node(a_cluster(), verdict="unhealthy", rack='"><script>')
    NodeVerdict.objects.filter(node=node).update(reason='<img src=x onerror="x">')
    page = viewer.get("/fleet/").content.decode()
    assert "<img src=x" not in page
    assert '"><script>' not in page


def test_observe_mode_says_what_would_be_done(viewer: Client) -> None:
    node = a_node(a_cluster(mode="observe"), verdict="unhealthy")
    a_workflow(node, an_incident(node), state=WorkflowState.PLANNED)
    page = viewer.get("/fleet/").content.decode()
    assert "Would do: hold, drain, reboot, validate, soak, return" in page


def test_five_queries_whatever_the_size(
    viewer: Client, rack: Cluster, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(5):
        viewer.get("/fleet/")


def test_a_viewer_of_one_cluster_sees_only_its_nodes(person: Callable[..., User], rack: Cluster) -> None:
    a_node(a_cluster("busan-1"), "gpu-far", verdict="unhealthy")
    client = Client()
    client.force_login(person("viewer", cluster="demo"))
    assert "gpu-far" not in client.get("/fleet/").content.decode()
    assert "gpu-far" not in client.get("/fleet.csv").content.decode()
    assert client.get("/fleet/", {"cluster": "busan-1"}).status_code == 404


def test_a_stop_is_the_first_thing_said(viewer: Client, rack: Cluster) -> None:
    stop_all(stopped=True, by="minseo", reason="power work", now=T0)
    page = viewer.get("/fleet/").content.decode()
    assert "All new disruption is stopped by minseo" in page
    assert "power work" in page


def test_above_four_thousand_nodes_there_is_one_link_per_rack(
    viewer: Client, rack: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.views.fleet.ZOOM_OUT", 3)
    page = viewer.get("/fleet/").content.decode()
    assert page.count('<a class="r"') == 2
    assert 'aria-label="demo r01: 2 unhealthy, 1 unknown"' in page
    assert 'aria-label="demo r02: all healthy"' in page


def test_a_fragment_is_the_same_part_without_the_frame(viewer: Client, rack: Cluster) -> None:
    part = viewer.get("/fleet/", {"part": "top", "verdict": "unhealthy"}).content.decode()
    assert "<html" not in part
    assert "gpu-r01-02, unhealthy" in part
    assert "gpu-r01-04" not in part


def test_a_node_without_verdict_is_unknown_and_not_green(viewer: Client) -> None:
    node = a_node(a_cluster())
    NodeVerdict.objects.filter(node=node).delete()
    NodeLifecycle.objects.filter(node=node).delete()
    assert '<a class="n unk"' in viewer.get("/fleet/").content.decode()
