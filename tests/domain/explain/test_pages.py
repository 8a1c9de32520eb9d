"""What a page and the API say about a workflow that waits."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.test.utils import override_settings

from fleet.inventory.models import Cluster
from fleet.lifecycle.models import Remedy, Step, Workflow
from fleet.policy.models import Approval, Switch
from tests.builders import T0, a_node, a_workflow, an_incident
from tests.domain.dashboard_details.conftest import NOW, cluster, now, viewer  # noqa: F401  fixtures

LADDER = [
    {"verb": "hold"}, {"verb": "drain"}, {"verb": "reboot", "ladder": ["reset_gpu", "reboot", "power_cycle"]},
    {"verb": "validate"}, {"verb": "soak"}, {"verb": "return"},
]  # fmt: skip


@pytest.fixture
def capped(cluster: Cluster) -> list[Workflow]:  # noqa: F811
    """Three that wait for the same rack, the second the furthest."""
    made = []
    for number, step in enumerate((1, 2, 1)):
        node = a_node(cluster, f"gpu-r01-0{number + 1}")
        made.append(
            a_workflow(
                node, an_incident(node), state="blocked", step=step, plan=LADDER, blocked_code="cap_in_flight",
                blocked_text="Rack r01: 2 of 2 in flight (gpu-a, gpu-b).", blocked_since=T0, wake_at=None,
                blocked_until=NOW + timedelta(minutes=4), created_at=T0 + timedelta(seconds=number),
            )
        )  # fmt: skip
    return made


def page_of(client: Client, workflow: Workflow) -> str:
    return client.get(f"/workflows/{workflow.pk}/").content.decode()


def test_a_cap_is_told_with_numbers_place_and_what_to_do(viewer: Client, capped: list[Workflow]) -> None:  # noqa: F811
    page = page_of(viewer, capped[2])
    for said in ("Rack r01: 2 of 2 in flight (gpu-a, gpu-b).", "3 of 3 that wait for it", "the guard", "raise the cap"):
        assert said in page
    told = viewer.get(f"/api/v1/workflows/{capped[1].pk}/why").json()
    assert told["line"] == {"place": 1, "of": 3} and told["waits_for"] == "the guard" and told["until"]


def test_the_fleet_says_how_many_wait_for_what(viewer: Client, capped: list[Workflow]) -> None:  # noqa: F811
    told = viewer.get("/api/v1/why").json()
    assert [(one["reason"], one["name"], one["workflows"]) for one in told] == [
        ("cap_in_flight", "the in-flight cap (rack)", 3)
    ]
    listed = viewer.get("/workflows/?reason=pdb").content.decode()
    assert "gpu-r01-01" not in listed and "a PodDisruptionBudget" in listed


def test_the_ladder_tells_what_was_tried_and_how_often_it_helps(viewer: Client, capped: list[Workflow]) -> None:  # noqa: F811
    flow = capped[1]
    results = (Remedy.HELD, Remedy.HELD, Remedy.FAILED, Remedy.BOUNCED, Remedy.AGAIN)
    for attempt, result in enumerate(results, 1):
        if attempt == len(results):
            assert "Reboot mended 2 of 4 xid-79 on any hardware within 90 days." in page_of(viewer, flow), "too few yet"
        Remedy.objects.create(
            workflow=flow, attempt=attempt, node_id=flow.node_id, cluster_id=flow.cluster_id, verb="reboot",
            cause="xid-79", sku=flow.node.gpu_model, result=result, ended_at=NOW - timedelta(days=1),
        )  # fmt: skip
    page = page_of(viewer, flow)
    assert "Reboot mended 2 of 5 xid-79 on NVIDIA H100 80GB HBM3 within 90 days. 1 came back within a day." in page
    assert "After 1 another fault took the node out within a day." in page
    assert "left out: it has mended too few such faults" in page and "if all before fail" in page


def test_a_step_beyond_its_deadline_is_stalled(viewer: Client, cluster: Cluster) -> None:  # noqa: F811
    node = a_node(cluster)
    flow = a_workflow(node, an_incident(node), step=1, wake_at=NOW)
    step = Step.objects.create(
        workflow=flow, index=1, attempt=1, verb="drain", started_at=T0, deadline=NOW + timedelta(minutes=1)
    )
    page = page_of(viewer, flow)
    assert ">stalled<" not in page and "A person is asked: retry, skip or abort." in page
    Step.objects.filter(pk=step.pk).update(deadline=NOW - timedelta(minutes=1))
    assert ">stalled<" in page_of(viewer, flow)


def test_the_kill_switch_is_said_on_the_workflow(viewer: Client, capped: list[Workflow]) -> None:  # noqa: F811
    assert "All new disruption was stopped" not in page_of(viewer, capped[0])
    Switch.objects.update_or_create(pk=1, defaults={"stopped": True, "by": "ann", "reason": "Power.", "since": T0})
    assert "All new disruption was stopped by ann: Power." in page_of(viewer, capped[0])


def test_votes_and_expiry_stand_beside_the_plan(viewer: Client, cluster: Cluster) -> None:  # noqa: F811
    node = a_node(cluster)
    flow = a_workflow(node, an_incident(node), state="waiting", needs_approval=True, blocked_code="approval")
    row = Approval.objects.create(
        cluster_id=cluster.pk, subject=f"workflow:{flow.pk}", kind="reprovision", plan_hash="x", requested_by="ann",
        needed=2, created_at=T0, expires_at=NOW + timedelta(minutes=9),
    )  # fmt: skip
    row.votes.create(by="bo", yes=True, reason="Fine.", at=T0)
    page = page_of(viewer, flow)
    assert "2 people beside the requester" in page and "Fine." in page and "the request expires at" in page


def test_the_playbooks_page_shows_the_book_and_what_helped(viewer: Client, capped: list[Workflow]) -> None:  # noqa: F811
    flow = capped[0]
    for attempt in range(1, 7):
        Remedy.objects.create(
            workflow=flow, attempt=attempt, node_id=flow.node_id, cluster_id=flow.cluster_id, verb="reset_gpu",
            cause="xid-48", sku="NVIDIA H200", result=Remedy.HELD if attempt == 1 else Remedy.FAILED,
            ended_at=NOW - timedelta(days=1),
        )  # fmt: skip
    page = viewer.get("/playbooks/").content.decode()
    assert '<tr id="pb-reboot">' in page and "repair-recurring" in page
    assert "xid-48" in page and "17 %" in page and "left out" in page


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("action=reboot_node", 'href="#pb-reboot"'),
        ("action=reboot_node&recurring=1", 'href="#pb-repair-recurring"'),
        ("action=reboot_node&pool_kind=spot", "no BMC verb and no hardware ticket off metal"),
        ("action=monitor", "No playbook answers the action class monitor."),
        ("action=%3Cb%3E&cause=%22%3E", "No playbook answers the action class &lt;b&gt;."),
    ],
)
def test_a_case_is_answered_as_the_planner_would(viewer: Client, cluster: Cluster, asked: str, said: str) -> None:  # noqa: F811
    assert said in viewer.get(f"/playbooks/?{asked}").content.decode()


def test_a_site_file_that_cannot_be_used_is_told_first(
    viewer: Client,  # noqa: F811
    cluster: Cluster,  # noqa: F811
    tmp_path: Path,
) -> None:
    book = tmp_path / "book.yaml"
    book.write_text("playbooks: [1", encoding="utf-8")
    with override_settings(PLAYBOOKS_FILE=str(book)):
        page = viewer.get("/playbooks/").content.decode()
    assert "cannot be used" in page and "No playbook is in force." in page


def test_the_browsers_wish_and_a_persons_choice_give_korean(viewer: Client, capped: list[Workflow]) -> None:  # noqa: F811
    address = f"/workflows/{capped[0].pk}/"
    wished = viewer.get(address, headers={"accept-language": "ko-KR,ko;q=0.9,en;q=0.5"}).content.decode()
    assert '<html lang="ko"' in wished and "랙 r01: 동시 작업 2대 중 2대(gpu-a, gpu-b)." in wished
    assert "할 수 있는 일" in wished and "현재 단계" not in wished
    assert '<html lang="en"' in viewer.get(address).content.decode()
    chosen = viewer.post("/prefs/language", {"language": "ko", "next": address})
    assert chosen.url == address
    assert '<html lang="ko"' in viewer.get(address).content.decode()
    assert viewer.post("/prefs/language", {"language": "xx"}).status_code == 400
    assert viewer.post("/prefs/language", {"language": "en", "next": "//evil.example"}).url == "/"


def test_lists_say_stored_sentences_in_korean_too(viewer: Client, capped: list[Workflow]) -> None:  # noqa: F811
    for address in ("/fleet/", "/workflows/", "/nodes/gpu-r01-01/"):
        page = viewer.get(address, headers={"accept-language": "ko"}).content.decode()
        assert "랙 r01: 동시 작업 2대 중 2대(gpu-a, gpu-b)" in page, address


def test_the_api_speaks_the_language_that_is_asked_for(viewer: Client, capped: list[Workflow]) -> None:  # noqa: F811
    told = viewer.get(f"/api/v1/workflows/{capped[0].pk}/why", headers={"accept-language": "ko"}).json()
    assert told["waits_for"] == "가드" and told["reason"] == "cap_in_flight"
