"""Timeline, phases, figures: what was stored, told in order."""

from __future__ import annotations

from datetime import timedelta

from django.test import Client

from fleet.inventory.models import Cluster
from fleet.lifecycle.models import Step, Workflow
from fleet.readmodels import incident_page, measures, node_page, timeline, workflow_page
from fleet.readmodels.phases import phases
from tests.builders import T0, TestClock, a_node, a_workflow, an_incident
from tests.domain.dashboard_details.conftest import NOW, a_signal, a_story, audit_row, history


def test_the_timeline_is_newest_first_and_consequences_stand_above_causes(cluster: Cluster) -> None:
    node = a_story(cluster).node
    told = timeline.events(node)
    assert [event.at for event in told] == sorted((event.at for event in told), reverse=True)
    at_t0 = [event.kind for event in told if event.at == T0]
    assert at_t0.index("ticket") < at_t0.index("step") < at_t0.index("signal")


def test_groups_show_their_own_kinds(cluster: Cluster) -> None:
    node = a_story(cluster).node
    kinds = {group: {event.kind for event in timeline.events(node, group=group)} for group in timeline.GROUPS}
    assert kinds["signals"] == {"signal", "incident"}
    assert kinds["steps"] == {"step", "ticket"}
    assert kinds["people"] == {"audit"}


def test_what_steps_tell_is_not_told_twice_but_a_block_is_kept(cluster: Cluster) -> None:
    workflow = a_story(cluster)
    thing, node = f"workflow:{workflow.pk}", workflow.node
    audit_row(cluster, "muster:worker", "step.done", thing, node.name, verb="hold")
    audit_row(cluster, "muster:worker", "workflow.blocked", thing, node.name, verb="drain", text="PDB says no.")
    told = timeline.events(node)
    assert [event.text for event in told if event.kind == "blocked"] == ["PDB says no."]
    assert not [event for event in told if event.kind == "audit" and event.lead == "Muster"]


def test_quiet_days_are_one_line(cluster: Cluster) -> None:
    node = a_node(cluster)
    a_signal(node, None, opened_at=T0)
    a_signal(node, None, code="48", opened_at=T0 - timedelta(days=17))
    assert [event.text for event in timeline.events(node) if event.kind == "gap"] == ["17 days without an event"]


def test_another_clusters_audit_rows_are_not_this_nodes(cluster: Cluster) -> None:
    from tests.builders import a_cluster

    audit_row(a_cluster("other"), "jiwoo", "note", "x:1", "gpu-r01-01")
    assert timeline.events(a_node(cluster)) == []


def test_phases_sum_up_with_what_was_waited(cluster: Cluster) -> None:
    node = a_node(cluster)
    incident = an_incident(node)
    workflow = a_workflow(node, incident, state="succeeded", step=6, ended_at=T0 + timedelta(seconds=100))
    spans = (("hold", 1, 2), ("drain", 2, 30), ("reboot", 50, 80), ("return", 99, 100))
    steps = [
        Step(workflow=workflow, index=n, attempt=1, verb=verb, started_at=T0 + timedelta(seconds=a),
             ended_at=T0 + timedelta(seconds=b), state="done")
        for n, (verb, a, b) in enumerate(spans)
    ]  # fmt: skip
    found = {phase.key: round(phase.seconds, 3) for phase in phases(incident, workflow, steps, NOW)}
    assert found == {"detect": 1, "hold": 1, "drain": 28, "reboot": 30, "return": 1, "wait": 39, "total": 100}


def test_a_later_attempt_puts_later_steps_back(cluster: Cluster) -> None:
    workflow = a_workflow(a_node(cluster), state="running", step=2, attempt=2)
    for index, verb, state, attempt in (
        (0, "hold", "done", 1), (1, "drain", "done", 1), (2, "reboot", "done", 1), (3, "validate", "failed", 1),
        (2, "reboot", "running", 2),
    ):  # fmt: skip
        Step.objects.create(workflow=workflow, index=index, attempt=attempt, verb=verb, state=state, started_at=T0)
    page = workflow_page.read(workflow.pk, None, NOW)
    assert page is not None
    assert [line.state for line in page.steps] == ["done", "done", "cur", "todo", "todo", "todo"]
    assert workflow_page.pips(page) == ["x", "c"]


def test_ended_workflows_have_no_current_step(cluster: Cluster) -> None:
    workflow = a_workflow(a_node(cluster), state="cancelled", step=1, ended_at=NOW)
    Step.objects.create(workflow=workflow, index=0, attempt=1, verb="hold", state="done", started_at=T0)
    Step.objects.create(workflow=workflow, index=1, attempt=1, verb="drain", state="running", started_at=T0)
    page = workflow_page.read(workflow.pk, None, NOW)
    assert page is not None and page.current is None
    assert [line.state for line in page.steps] == ["done", "cancelled", "todo", "todo", "todo", "todo"]


def test_the_faulty_gpu_is_told_apart_and_its_gap_stays(viewer: Client, now: TestClock, cluster: Cluster) -> None:
    a_story(cluster)
    figure = viewer.get("/nodes/gpu-r01-01/charts/power.json").json()
    lines = {trace["name"]: trace for trace in figure["data"] if trace["mode"] == "lines"}
    assert lines["GPU 3"]["y"][-1] is None and lines["GPU 3"]["y"][0] == 303
    assert lines["GPU 3"]["line"]["color"] == "var(--c-2)"
    assert all(value is not None for value in lines["other GPUs, mean"]["y"])
    assert "no data since" in figure["text"]
    assert figure["layout"]["xaxis"]["range"] == ["2026-11-29T02:35:00Z", "2026-11-29T03:20:00Z"]


def test_peers_are_a_band_of_the_pool(viewer: Client, now: TestClock, cluster: Cluster) -> None:
    node = a_node(cluster)
    for number in range(3):
        history(a_node(cluster, f"peer-{number}"), minutes=3)
    band = measures.peer_band(node, "gpu_power", NOW - timedelta(minutes=45))
    assert len(band) == 3 and all(300 <= low <= high <= 307 for _at, low, high in band)
    figure = viewer.get(f"/nodes/{node.name}/charts/power.json").json()
    assert figure["data"][1]["fill"] == "tonexty"


def test_charts_without_a_sample_say_so(viewer: Client, cluster: Cluster) -> None:
    node = a_node(cluster)
    figure = viewer.get(f"/nodes/{node.name}/charts/temp.json").json()
    assert figure["text"] == "GPU temperature: no data in this range."
    assert viewer.get(f"/nodes/{node.name}/charts/nonsense.json").status_code == 404


def test_the_page_is_about_the_open_workflow(cluster: Cluster) -> None:
    node = a_node(cluster)
    old = an_incident(node, cause="old", state="resolved", resolved_at=NOW)
    a_workflow(node, old, state="succeeded", ended_at=NOW, created_at=NOW)
    fresh = a_workflow(node, an_incident(node), state="running", created_at=T0)
    page = node_page.read(node_page.find(node.name, None)[0], NOW)
    assert page.workflow == fresh and page.incident == fresh.incident
    assert Workflow.objects.count() == 2


def test_a_repair_lasts_until_people_are_done(cluster: Cluster) -> None:
    node = a_node(cluster)
    incident = an_incident(node)
    workflow = a_workflow(node, incident, state="repair", step=2)
    wait = Step.objects.create(
        workflow=workflow, index=2, attempt=1, verb="wait_repair", state="running", started_at=T0, ended_at=T0
    )
    assert {p.key: p.seconds for p in phases(incident, workflow, [wait], NOW)}["wait_repair"] == 20 * 60
    assert [event.text for event in timeline.events(node, group="steps")] == []


def test_what_a_step_remembers_is_readable() -> None:
    memo = {"bmc_failing_since": 1795992770.6, "foreign": False, "pods": ["a/b", "c/d"], "empty": ""}
    assert workflow_page.memo_lines(memo) == [("bmc failing since", "22:52:50 UTC"), ("pods", "a/b, c/d")]


def test_evidence_leaves_out_the_pieces_of_its_title() -> None:
    evidence = {"said": {"id": "GPU %(gpu)s", "args": {"gpu": "0"}}, "celsius": 88.0, "rack": ["", "r01"]}
    assert timeline.evidence_line(evidence) == "celsius 88.0, rack r01"
    assert incident_page.evidence_text(evidence) == "celsius: 88.0\nrack:\n  \n  r01"
