"""Bulk actions and maintenance by their pages: the list is the server's, and what starts is what was shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import bulk, maintenance
from fleet.lifecycle.models import Batch, Workflow
from fleet.policy.models import Approval, RoleCap
from tests.builders import TestClock, a_cluster, a_node
from tests.domain.dashboard_acts.conftest import NAMES, NOW, client_of, the_batch

WINDOW = {"zone": "Asia/Seoul", "start": "02:00", "minutes": "120", "days": ["1", "2", "3"]}


def draw(client: Client, kind: str = "bulk", **fields: Any) -> str:
    form = {"action": "reboot", "reason": "new firmware", "rack": "r01", **fields}
    return client.post(f"/{kind}/new/", form, follow=True).content.decode()


def test_the_fleet_pages_filter_becomes_an_exact_list_with_the_guards_answers(
    rack: list[Node], cluster: Cluster
) -> None:
    a_node(cluster, "gpu-r02-01", rack="r02")
    client = client_of("operator")
    assert 'value="r01"' in client.get("/bulk/new/?rack=r01&cluster=demo").content.decode()
    page = draw(client)
    assert "Reboot 4 nodes" in page and "gpu-r02-01" not in page
    assert "2 nodes may begin now, 2 would wait." in page
    assert "Rack r01: 2 of 2 out of service" in page
    assert the_batch().members.count() == 4 and not Workflow.objects.exists()


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"rack": "", "labels": "site in (seoul)"}, NAMES),
        ({"rack": "", "names": f"{NAMES[0]}, {NAMES[1]}\n{NAMES[0]}"}, NAMES[:2]),
        ({"rack": "", "q": "-01"}, NAMES[:1]),
        ({"rack": "", "verdict": "degraded"}, NAMES[3:]),
    ],
)
def test_labels_names_and_verdicts_select(rack: list[Node], fields: dict[str, str], names: tuple[str, ...]) -> None:
    rack[3].verdict_row.verdict = "degraded"
    rack[3].verdict_row.save()
    draw(client_of("operator"), **fields)
    assert tuple(the_batch().members.order_by("place").values_list("node__name", flat=True)) == names


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rack": ""}, "an empty selection would be every node"),
        ({"rack": "nowhere"}, "No node passes this selection."),
        ({"names": "gpu-r01-01 gpu-x"}, "Not among the nodes in view: gpu-x."),
        ({"labels": "a in ("}, "selector"),
        ({"reason": " "}, "It takes a reason"),
        ({"action": "explode"}, "There is no action explode"),
        ({"playbook": "explode"}, "There is no playbook explode"),
        ({"at_once": "many"}, "At once: a whole number."),
        ({"at_once": "٣"}, "At once: a whole number."),
        ({"at_once": "0"}, "At once: a number from 1"),
    ],
)
def test_what_cannot_be_read_is_said_and_the_form_keeps_what_was_typed(
    rack: list[Node], fields: dict[str, str], said: str
) -> None:
    page = draw(client_of("operator"), **fields)
    assert said in page and "Which nodes" in page and not Batch.objects.exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"zone": "Mars/Olympus"}, "There is no time zone"),
        ({"zone": "../../etc/passwd"}, "There is no time zone"),
        ({"start": "25:00"}, "Starts at"),
        ({"days": ["8"]}, "Days are weekdays"),
        ({"minutes": "999999"}, "A window lasts from one minute to seven days."),
        ({"begins": "2026-13-01"}, "A day such as"),
        ({"begins": "9999-12-31"}, "A day such as"),
        ({"begins": "2026-12-02", "ends": "2026-11-01"}, "It ends before it begins."),
    ],
)
def test_a_window_that_cannot_be_is_said(rack: list[Node], fields: dict[str, Any], said: str) -> None:
    assert said in draw(client_of("operator"), "maintenance", **{**WINDOW, **fields})
    assert not Batch.objects.exists()


def test_a_maintenance_is_planned_shown_and_waits_for_its_window(rack: list[Node], now: TestClock) -> None:
    client = client_of("operator")
    page = draw(client, "maintenance", **WINDOW, at_once="1", stop_after="2", spare_jobs="on")
    assert "Mon, Tue, Wed at 02:00 for 120 min, Asia/Seoul" in page
    batch = the_batch()
    client.post(f"/bulk/{batch.pk}/start/", {"plan": batch.plan_hash})
    for person in ("bo", "cho"):
        bulk.vote(batch.pk, person, True, "", NOW)
    maintenance.sweep(now)
    page = client.get(f"/bulk/{batch.pk}/").content.decode()
    assert "Outside the window; it opens 2026-11-30 02:00 Asia/Seoul" in page
    assert "Reboot 4 nodes" in client.get("/maintenance/").content.decode()
    assert "Reboot 4 nodes" not in client.get("/bulk/").content.decode()


def test_a_maintenance_by_a_playbook_shows_its_steps_and_version(rack: list[Node]) -> None:
    page = draw(client_of("operator"), "maintenance", **WINDOW, playbook="reboot")
    assert "Playbook reboot on 4 nodes" in page and "Reboot → Power-cycle" in page
    assert f"reboot@{(the_batch().playbook or {})['version']}" in page


def test_what_starts_is_what_was_shown_and_asks_two_others(rack: list[Node]) -> None:
    client = client_of("operator")
    assert "Ask 2 other people to agree to this list" in draw(client)
    batch = the_batch()
    wrong = client.post(f"/bulk/{batch.pk}/start/", {"plan": "0" * 64}, follow=True).content.decode()
    assert "not the list that was shown" in wrong
    client.post(f"/bulk/{batch.pk}/start/", {"plan": batch.plan_hash})
    assert Approval.objects.get().plan_hash == batch.plan_hash
    assert "Reboot 4 nodes" in client_of("approver").get("/approvals/").content.decode()


def test_progress_pause_and_cancel_are_on_the_page(rack: list[Node], now: TestClock) -> None:
    client = client_of("operator")
    draw(client)
    batch = the_batch()
    client.post(f"/bulk/{batch.pk}/start/", {"plan": batch.plan_hash})
    for person in ("bo", "cho"):
        bulk.vote(batch.pk, person, True, "", NOW)
    maintenance.sweep(now)
    page = client.get(f"/bulk/{batch.pk}/?part=live").content.decode()
    assert "0 done · 2 under way · 2 waiting · 0 failed · 0 refused" in page
    assert "Pausing takes a reason" in client.post(f"/bulk/{batch.pk}/pause/", follow=True).content.decode()
    client.post(f"/bulk/{batch.pk}/pause/", {"reason": "the vendor called"})
    assert the_batch().text == "Paused by operator-everywhere: the vendor called"
    client.post(f"/bulk/{batch.pk}/resume/")
    assert the_batch().state == Batch.RUNNING
    client.post(f"/bulk/{batch.pk}/cancel/", {"reason": "wrong rack"})
    assert the_batch().state == Batch.CANCELLED
    assert "wrong rack" in client.get("/bulk/").content.decode()


def test_more_nodes_than_the_role_may_touch_are_refused_with_the_number(rack: list[Node]) -> None:
    RoleCap.objects.create(role="operator", nodes=3)
    assert "The role operator may touch 3 nodes in one action; these are 4." in draw(client_of("operator"))
    assert not Batch.objects.exists()
    draw(client_of("admin"))
    assert Batch.objects.exists()


def test_nodes_of_two_clusters_are_no_one_action(rack: list[Node]) -> None:
    a_node(a_cluster("other"), "gpu-x")
    assert "These nodes lie in 2 clusters (demo, other): choose one." in draw(client_of("operator"))


@pytest.mark.parametrize("role", ["viewer", "policy"])
def test_who_may_only_look_draws_up_and_stops_nothing(rack: list[Node], role: str) -> None:
    client = client_of(role)
    assert client.post("/bulk/new/", {"action": "hold", "reason": "x", "rack": "r01"}).status_code == 403
    assert client.get("/maintenance/new/").status_code == 403
    draw(client_of("operator"))
    for act in ("start", "pause", "resume", "cancel"):
        assert client.post(f"/bulk/{the_batch().pk}/{act}/", {"reason": "x"}).status_code == 403
    assert the_batch().state == Batch.DRAFT
    assert "Needs the role operator in cluster demo." in client.get(f"/bulk/{the_batch().pk}/").content.decode()


def test_who_operates_one_cluster_reaches_no_other(rack: list[Node], cluster: Cluster) -> None:
    draw(client_of("operator"))
    a_cluster("other")
    client = client_of("operator", "other")
    pk = the_batch().pk
    assert client.get(f"/bulk/{pk}/").status_code == 404
    assert client.post(f"/bulk/{pk}/cancel/", {"reason": "x"}).status_code == 404
    assert "No node passes this selection." in draw(client)
    assert "Reboot" not in client.get("/bulk/").content.decode().split("<main")[1]


def test_acting_by_get_or_in_an_unknown_way_does_nothing(rack: list[Node]) -> None:
    client = client_of("admin")
    draw(client)
    assert client.get(f"/bulk/{the_batch().pk}/start/").status_code == 405
    assert client.post(f"/bulk/{the_batch().pk}/explode/").status_code == 404
    assert client.post("/bulk/999999999999/cancel/", {"reason": "x"}).status_code == 404


def test_a_page_of_many_nodes_costs_no_more_queries(
    rack: list[Node], cluster: Cluster, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(60):
        a_node(cluster, f"gpu-r01-1{number:02}")
    client = client_of("admin")
    draw(client)
    with django_assert_max_num_queries(32):
        client.get(f"/bulk/{the_batch().pk}/")


def test_empty_pages_name_what_to_do_next(cluster: Cluster) -> None:
    client = client_of("operator")
    assert "No bulk action was started yet." in client.get("/bulk/").content.decode()
    assert "Plan maintenance" in client.get("/maintenance/").content.decode()
