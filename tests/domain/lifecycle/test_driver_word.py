"""A fresh Xid is held at once; what is done then waits for the driver's own request, and follows it."""

from __future__ import annotations

from datetime import timedelta

from fleet.audit.models import AuditRow
from fleet.health import handling
from fleet.health.models import Incident, Signal
from fleet.lifecycle import planner, services
from fleet.lifecycle.models import Workflow
from fleet.tickets.models import Ticket
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World

NODE = "gpu-r01-01"


def fresh_xid(world: World, code: int = 48) -> Workflow:
    """As `fault`, but seen this very moment."""
    workflow = fault(world, NODE)
    Incident.objects.filter(pk=workflow.incident_id).update(cause=f"xid-{code}", detected_at=world.clock.now())
    return workflow


def test_the_hold_does_not_wait_and_the_reboot_does(build: Build) -> None:
    world = build(NODE)
    workflow = fresh_xid(world)
    begun = world.clock.now()
    assert world.run(7, lambda: world.nodes[NODE].unschedulable)
    assert world.clock.now() - begun < timedelta(seconds=3)
    waits = lambda: again(workflow).blocked_code == "driver_word"  # noqa: E731
    assert waits() or world.run(7, waits)
    assert again(workflow).blocked_until == begun + timedelta(seconds=8), "who waits says for what and until when"
    world.run(30, lambda: bool(world.resets))
    assert timedelta(seconds=8) <= world.clock.now() - begun <= timedelta(seconds=14)


def test_the_reboot_follows_at_once_when_154_has_come(build: Build) -> None:
    world = build(NODE)
    workflow = fresh_xid(world)
    begun = world.clock.now()
    Signal.objects.create(
        cluster_id=world.cluster.pk, node_id=workflow.node_id, rule="xid-log", cause="xid-48", source="kernel_log",
        severity="unhealthy", action_class="reboot_node", title="x", first_bad_at=begun, opened_at=begun, seen_at=begun,
        incident_id=workflow.incident_id, evidence={"recovery_line": "Node Reboot Required"},
    )  # fmt: skip
    assert world.run(7, lambda: bool(world.resets))
    assert world.clock.now() - begun < timedelta(seconds=8)


def test_other_faults_do_not_wait(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    Incident.objects.filter(pk=workflow.incident_id).update(cause="gpu-lost", detected_at=world.clock.now())
    assert world.run(7, lambda: bool(world.resets))


def test_a_plan_is_exchanged_before_its_remediation_and_never_after(build: Build) -> None:
    world = build(NODE)
    workflow = fresh_xid(world)
    world.run(3)
    Incident.objects.filter(pk=workflow.incident_id).update(action_class="contact_support")
    planner.replan(world.cluster.pk, world.clock, "muster:beat")
    changed = again(workflow)
    assert changed.playbook == "repair"
    assert [item["verb"] for item in changed.plan[:3]] == ["hold", "drain", "wait_repair"]
    entry = AuditRow.objects.get(action="workflow.exchange")
    assert (entry.detail["from"], entry.detail["to"]) == ("reboot", "repair")
    world.run(20, lambda: again(workflow).state == "repair")
    assert (world.resets, again(workflow).state) == ([], "repair")
    Incident.objects.filter(pk=workflow.incident_id).update(action_class="reboot_node")
    planner.replan(world.cluster.pk, world.clock, "muster:beat")
    assert again(workflow).playbook == "repair"


def an_incident(world: World, action_class: str) -> Incident:
    workflow = fault(world, NODE)
    incident = Incident.objects.get(pk=workflow.incident_id)
    Workflow.objects.all().delete()
    Incident.objects.filter(pk=incident.pk).update(action_class=action_class)
    incident.refresh_from_db()
    return incident


def test_a_ticket_without_a_workflow_for_what_is_mended_beside_running_work(build: Build) -> None:
    world = build(NODE)
    incident = an_incident(world, "ticket")
    for _ in range(2):
        assert services.plan(world.cluster.pk, [incident.pk], clock=world.clock) == []
    ticket = Ticket.objects.get()
    assert (ticket.incident_id, ticket.workflow_id) == (incident.pk, None)
    assert not Workflow.objects.exists()
    world.run(5)
    assert not world.nodes[NODE].unschedulable


def test_a_muted_incident_plans_nothing_until_its_end(build: Build) -> None:
    world = build(NODE)
    incident = an_incident(world, "reboot_node")
    now = world.clock.now()
    handling.mute(incident.pk, "ann", "vendor looks at it", now + timedelta(hours=1), now)
    assert planner.replan(world.cluster.pk, world.clock, "muster:beat") == []
    world.clock.tick(3601)
    assert len(planner.replan(world.cluster.pk, world.clock, "muster:beat")) == 1


def test_an_unmuted_incident_is_planned_again(build: Build) -> None:
    world = build(NODE)
    incident = an_incident(world, "reboot_node")
    now = world.clock.now()
    handling.mute(incident.pk, "ann", "vendor looks at it", now + timedelta(hours=1), now)
    handling.unmute(incident.pk, "ann", now)
    assert len(planner.replan(world.cluster.pk, world.clock, "muster:beat")) == 1
    assert list(AuditRow.objects.filter(action__startswith="incident.").values_list("action", flat=True)) == [
        "incident.mute",
        "incident.unmute",
    ]
