"""Every page renders empty and full, says the sentence first, and escapes what came from outside."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from fleet.health.models import NodeVerdict
from fleet.inventory.models import Cluster
from fleet.lifecycle.models import NodeLifecycle, Workflow
from tests.builders import T0, a_cluster, a_node, a_workflow, an_incident
from tests.domain.dashboard_details.conftest import NOW, a_signal, a_story, audit_row

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
LISTS = ("/workflows/", "/incidents/", "/tickets/", "/audit/")


def _text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


@pytest.mark.parametrize("path", LISTS)
def test_an_empty_list_names_the_cause(viewer: Client, path: str) -> None:
    from fleet.audit.models import AuditHead, AuditRow

    assert AuditRow.objects.count() == AuditHead.objects.get(chain="site").seq  # the grant of the viewer alone
    page = _text(viewer, path + ("?node=nobody" if path == "/audit/" else ""))
    assert 'class="empty"' in page
    assert 'class="said"' in page


@pytest.mark.parametrize("path", LISTS)
def test_a_filter_without_a_match_leads_back(viewer: Client, cluster: Cluster, path: str) -> None:
    a_story(cluster)
    assert "Show all" in _text(viewer, f"{path}?node=nobody")


def test_a_bare_node_renders(viewer: Client, cluster: Cluster) -> None:
    node = a_node(cluster, "bare", managed=False, gpu_expected=None, pool="p")
    NodeVerdict.objects.filter(node=node).delete()
    NodeLifecycle.objects.filter(node=node).delete()
    page = _text(viewer, "/nodes/bare/")
    assert "outside the managed set" in page
    assert "No GPU is known of this node." in page
    assert "Nothing has happened here yet." in page


def test_the_node_page_tells_the_story(viewer: Client, cluster: Cluster) -> None:
    workflow = a_story(cluster)
    page = _text(viewer, "/nodes/gpu-r01-01/")
    said = page[page.index('class="said"') : page.index("</p>", page.index('class="said"'))]
    incident = f"INC-{workflow.incident_id}"
    for part in ("Draining since", "GPU 3 fell off the bus (Xid 79)", incident, "PDB serving/cache", "Next:", "0:24"):
        assert part in said
    assert "Off the bus" in page
    assert "7 of 8 measured" in page
    assert "I am looking at it" in page
    assert "Detect" in page and "1 s" in page


def test_a_verdict_without_data_is_unknown_and_never_well(viewer: Client, cluster: Cluster) -> None:
    node = a_node(cluster, verdict="unknown")
    NodeVerdict.objects.filter(node=node).update(reason="no fresh data", telemetry_at=T0, since=T0)
    page = _text(viewer, f"/nodes/{node.name}/")
    assert "0 of 8 measured" in page
    assert "m-ok" not in page[page.index('class="gpus"') : page.index("What it did")]
    assert "No data since 03:00:00 UTC" in page


def test_without_an_observer_nothing_is_called_healthy(viewer: Client, cluster: Cluster) -> None:
    cluster.observer_until = T0
    cluster.save()
    node = a_node(cluster)
    page = _text(viewer, f"/nodes/{node.name}/")
    assert "No observer watches demo." in page and "last known: healthy" in page
    main = page[page.index("<main") :]
    assert "m-ok" not in main and "m-unk" in main


def test_observe_mode_shows_what_would_be_done(viewer: Client, cluster: Cluster) -> None:
    node = a_node(cluster, verdict="unhealthy")
    a_workflow(node, an_incident(node), state="planned", step=0, started_at=None, wake_at=None)
    page = _text(viewer, f"/nodes/{node.name}/")
    assert "it would do: hold, drain, reboot, validate, soak, return to service" in page


def test_the_workflow_page_says_draining_not_drained(viewer: Client, cluster: Cluster) -> None:
    workflow = a_story(cluster)
    page = _text(viewer, f"/workflows/{workflow.pk}/")
    assert "<b>Draining, not drained:</b> PDB serving/cache keeps serving/cache-2." in page
    assert "8 of 10 pods gone" in page
    assert 'aria-current="step"' in page
    assert f'data-live="workflow:{workflow.pk} node:gpu-r01-01"' in page


@pytest.mark.parametrize(
    "state", ["planned", "waiting", "running", "blocked", "repair", "succeeded", "failed", "cancelled"]
)
def test_the_workflow_page_renders_in_every_state(viewer: Client, cluster: Cluster, state: str) -> None:
    node = a_node(cluster)
    over = state in ("succeeded", "failed", "cancelled")
    workflow = a_workflow(node, an_incident(node), state=state, step=6 if over else 2, ended_at=NOW if over else None)
    page = _text(viewer, f"/workflows/{workflow.pk}/")
    assert "<b>Next:</b>" in page
    assert _text(viewer, f"/workflows/{workflow.pk}/?part=live") in page or 'class="head"' in page


@pytest.mark.parametrize("part", ["now", "timeline", "side", "caps"])
def test_a_live_part_is_a_fragment(viewer: Client, cluster: Cluster, part: str) -> None:
    a_story(cluster)
    fragment = _text(viewer, f"/nodes/gpu-r01-01/?part={part}")
    assert "<html" not in fragment and fragment.strip()


def test_hostile_text_is_escaped_everywhere(viewer: Client, cluster: Cluster) -> None:
    workflow = a_story(cluster)
    node, incident = workflow.node, workflow.incident
    assert incident is not None
    Workflow.objects.filter(pk=workflow.pk).update(blocked_text=HOSTILE, playbook=HOSTILE[:60])
    incident.title, incident.evidence, incident.rule = HOSTILE, {"line": HOSTILE}, HOSTILE[:60]
    incident.save()
    a_signal(node, incident, code="1", title=HOSTILE, evidence={"line": HOSTILE}, device="GPU-aaaa")
    node.gang, node.kernel, node.os_image = HOSTILE, HOSTILE[:90], HOSTILE
    node.save()
    ticket = node.tickets.get()
    ticket.title = ticket.reason = ticket.part = HOSTILE
    ticket.evidence = {HOSTILE: HOSTILE}
    ticket.save()
    audit_row(cluster, HOSTILE, HOSTILE[:60], f"workflow:{workflow.pk}", node.name, reason=HOSTILE)
    for path in ("/nodes/gpu-r01-01/", f"/workflows/{workflow.pk}/", f"/incidents/{incident.pk}/",
                 f"/tickets/{ticket.pk}/", *LISTS, f"/audit/?actor={HOSTILE}"):  # fmt: skip
        page = _text(viewer, path)
        assert "<script>alert" not in page, path
        assert "<img src=x" not in page, path


def test_two_clusters_with_one_name_ask_which(viewer: Client, cluster: Cluster) -> None:
    a_node(cluster)
    a_node(a_cluster("other"))
    answer = viewer.get("/nodes/gpu-r01-01/")
    assert answer.status_code == 300
    assert "2 clusters have a node of this name." in answer.content.decode()
    assert viewer.get("/nodes/gpu-r01-01/?cluster=other").status_code == 200


def test_lists_are_cut_into_pages(viewer: Client, cluster: Cluster) -> None:
    for number in range(60):
        node = a_node(cluster, f"n{number}")
        an_incident(node, detected_at=T0 + timedelta(seconds=number))
    first, second = _text(viewer, "/incidents/"), _text(viewer, "/incidents/?page=2")
    assert "1 to 50" in first and "51 to 60" in second
    assert 'rel="next"' in first and 'rel="next"' not in second
    assert "page=2" in first


def test_open_workflows_stand_first_and_the_blocked_one_on_top(viewer: Client, cluster: Cluster) -> None:
    for state, minutes in (("succeeded", 9), ("running", 8), ("blocked", 1)):
        ended = NOW if state == "succeeded" else None
        at = T0 + timedelta(minutes=minutes)
        a_workflow(a_node(cluster, f"n-{state}"), state=state, ended_at=ended, created_at=at)
    page = _text(viewer, "/workflows/?part=rows")
    assert page.index("n-blocked") < page.index("n-running") < page.index("n-succeeded")
