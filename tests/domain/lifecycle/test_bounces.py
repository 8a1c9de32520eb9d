"""A node that fails again within a day was not mended: the verb that returned it is told so."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from fleet.audit.models import AuditRow
from fleet.health.models import Incident
from fleet.inventory.models import Device, Node
from fleet.lifecycle import bounces, effectiveness, planner
from fleet.lifecycle.firmware import Key, keys_of
from fleet.lifecycle.models import Remedy, Workflow
from fleet.readmodels import timeline, workflow_facts
from tests.builders import T0, a_cluster, a_node, a_workflow, an_incident
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World

NODES = ("gpu-r01-01", "gpu-r01-02")
NODE = NODES[0]


@pytest.fixture
def world(build: Build) -> World:
    return build(*NODES)


def heal(world: World, name: str, cause: str = "xid-79") -> Workflow:
    workflow = fault(world, name, cause=cause)
    assert world.run(300, lambda: again(workflow).state == "succeeded")
    return workflow


def now(world: World, node: Node, **fields: str) -> Incident:
    return an_incident(node, detected_at=world.clock.now(), first_bad_at=world.clock.now(), **fields)


def counted(world: World, verb: str = "reboot") -> tuple[int, int, int, int]:
    """Tries, held, came back, failed again."""
    line = effectiveness.bounces([world.cluster.pk], world.clock.now())[verb]
    return line.tries, line.held, line.bounced, line.again


def test_a_fault_that_is_back_within_a_day_counts_against_the_reboot(world: World) -> None:
    for name in NODES:
        heal(world, name)
    assert counted(world) == (2, 2, 0, 0)
    world.clock.tick(23 * 3600)
    fault(world, NODE)
    assert counted(world) == (2, 1, 1, 0)


def test_another_fault_within_a_day_counts_against_it_too_and_is_told_apart(world: World) -> None:
    healed = heal(world, NODE)
    world.clock.tick(3 * 3600)
    incident = fault(world, NODE, cause="xid-48").incident
    assert incident is not None and counted(world) == (1, 0, 0, 1)
    lasted = workflow_facts.lasted_of(healed, world.clock.now())
    assert lasted is not None and (lasted.result, lasted.incident) == ("again", incident.pk)
    assert "another fault took the node out 3 h" in lasted.text
    lines = [event.text for event in timeline.events(healed.node)]
    assert any("counted a bounce: another fault" in line for line in lines)


def test_the_same_fault_after_another_one_is_a_bounce_by_the_same_cause(world: World) -> None:
    heal(world, NODE)
    heal(world, NODE, cause="xid-48")
    assert counted(world) == (2, 1, 0, 1)
    fault(world, NODE, cause="xid-79")
    assert counted(world) == (2, 0, 1, 1)  # the first came back; after the second it failed again


@pytest.mark.parametrize("cause", ["xid-79", "xid-48"])
def test_a_fault_after_a_day_counts_against_nothing(world: World, cause: str) -> None:
    heal(world, NODE)
    world.clock.tick(timedelta(hours=25).total_seconds())
    fault(world, NODE, cause=cause)
    assert counted(world) == (1, 1, 0, 0)


def test_what_was_found_within_the_day_counts_though_it_is_planned_after_it(world: World) -> None:
    heal(world, NODE)
    incident = now(world, again(Workflow.objects.get()).node, cause="xid-79")
    Incident.objects.filter(pk=incident.pk).update(muted_until=world.clock.now() + timedelta(hours=30))
    assert plan(world, incident) == (1, 1, 0, 0)
    world.clock.tick(31 * 3600)
    assert plan(world, incident) == (1, 0, 1, 0)


def plan(world: World, incident: Incident) -> tuple[int, int, int, int]:
    planner.plan(world.cluster.pk, [incident.pk], world.clock)
    return counted(world)


@pytest.mark.parametrize(
    "change",
    [
        {"action_class": "confirm"}, {"action_class": "monitor"}, {"action_class": "ticket"}, {"node": None},
        {"plan_after": T0 + timedelta(days=300)}, {"state": "resolved"}, {"detected_at": T0 - timedelta(days=1)},
    ],
    ids=lambda change: next(iter(change)) + str(next(iter(change.values())))[:8],
)  # fmt: skip
def test_what_is_no_new_fault_of_the_node_counts_against_nothing(world: World, change: dict[str, object]) -> None:
    heal(world, NODE)
    incident = now(world, Workflow.objects.get().node, cause="xid-48")
    Incident.objects.filter(pk=incident.pk).update(**change)
    assert plan(world, incident) == (1, 1, 0, 0)


def test_a_suspicion_counts_once_a_test_has_confirmed_it(world: World) -> None:
    heal(world, NODE)
    incident = now(world, Workflow.objects.get().node, cause="grey", action_class="confirm")
    assert plan(world, incident) == (1, 1, 0, 0)
    bounces.find([incident.pk], world.clock.now(), confirmed=True)
    assert counted(world) == (1, 0, 0, 1)


def test_it_is_counted_and_told_once_however_often_it_is_looked_at(world: World) -> None:
    heal(world, NODE)
    fault(world, NODE, cause="xid-48")
    for _ in range(3):
        planner.replan(world.cluster.pk, world.clock, "muster:sweep")
    assert counted(world) == (1, 0, 0, 1)
    assert AuditRow.objects.filter(action__startswith="remedy.").count() == 1


def test_a_second_fault_of_a_node_that_is_out_already_is_still_seen(world: World) -> None:
    """The plan is of the first; the cause that came back may be the second."""
    heal(world, NODE)
    fault(world, NODE, cause="xid-48")
    incident = now(world, Workflow.objects.latest("pk").node, cause="xid-79")
    assert plan(world, incident) == (1, 0, 1, 0)


@pytest.mark.django_db
def test_each_verb_and_cluster_is_counted_by_itself_and_nothing_older_than_the_window() -> None:
    here, there = a_cluster(), a_cluster("other")
    made = [
        (here, "reboot", Remedy.BOUNCED, 1), (here, "reboot", Remedy.HELD, 1), (here, "reboot", Remedy.FAILED, 1),
        (here, "reset_gpu", Remedy.HELD, 89), (here, "reset_gpu", Remedy.BOUNCED, 91),
        (there, "reboot", Remedy.AGAIN, 1),
    ]  # fmt: skip
    for number, (cluster, verb, result, days) in enumerate(made):
        workflow = a_workflow(a_node(cluster, f"n{number}"), state="succeeded")
        Remedy.objects.create(
            workflow=workflow, attempt=1, node_id=workflow.node_id, cluster_id=cluster.pk, verb=verb, cause="xid-79",
            result=result, ended_at=T0 - timedelta(days=days),
        )  # fmt: skip
    found = effectiveness.bounces([here.pk], T0)
    assert {verb: (line.bounced, line.again, line.tries) for verb, line in found.items()} == {
        "reboot": (1, 0, 3), "reset_gpu": (0, 0, 1),
    }  # fmt: skip
    everywhere = effectiveness.bounces(None, T0)["reboot"]
    assert (everywhere.bounced, everywhere.again, everywhere.tries) == (1, 1, 4)
    assert effectiveness.bounces([], T0) == {}


GPU = "GPU-00000000-0000-0000-0000-00000000000{}"
TOLD = {"VBIOS": "96.1", "driver": "550"}


def a_part(workflow: Workflow, number: int, versions: dict[str, str], kind: str = "gpu") -> Device:
    key = GPU.format(number) if kind == "gpu" else f"mlx5_{number}/1"
    return Device.objects.create(
        node=workflow.node, kind=kind, key=key, index=number, pci=f"0{number}:00.0", versions=versions,
        first_seen_at=T0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("device", "driver", "firmware"),
    [
        (GPU.format(0), "550", "InfoROM G520, VBIOS 96.1"),
        ("GPU-1", "550", "VBIOS 96.2"),
        ("pci:01:00.0", "550", "VBIOS 96.2"),
        ("mlx5_2/1", "550", "InfiniBand firmware 28.43"),
        ("mlx5_2", "550", "InfiniBand firmware 28.43"),
        ("mount:/data", "550", ""),
        ("", "550", ""),
    ],
)
def test_the_firmware_is_that_of_the_device_which_the_fault_names(
    world: World, device: str, driver: str, firmware: str
) -> None:
    workflow = fault(world, NODE, cause="xid-48")
    a_part(workflow, 0, {**TOLD, "InfoROM": "G520"})
    a_part(workflow, 1, {**TOLD, "VBIOS": "96.2"})
    a_part(workflow, 2, {"InfiniBand firmware": "28.43"}, kind="hca")
    assert workflow.incident is not None
    workflow.incident.device = device
    assert keys_of([workflow]) == [Key("xid-48", workflow.node.gpu_model, driver, firmware)]


def test_a_fault_that_names_no_device_has_the_firmware_of_all_gpus_if_it_is_one(world: World) -> None:
    workflow = fault(world, NODE, cause="xid-48")
    parts = [a_part(workflow, number, TOLD) for number in range(2)]
    assert keys_of([workflow])[0].firmware == "VBIOS 96.1"
    Device.objects.filter(pk=parts[0].pk).update(versions={"driver": "570"})
    assert keys_of([workflow])[0][2:] == ("", "")
    workflow.node.labels = {"nvidia.com/cuda.driver-version.full": "580"}
    assert keys_of([workflow])[0].driver == "580"


def test_a_remedy_is_measured_on_the_firmware_that_it_was_tried_on(world: World) -> None:
    """Five failures on one VBIOS say nothing against the verb on another that has tries of its own."""
    workflow = fault(world, NODE, cause="xid-48")
    a_part(workflow, 0, TOLD)
    key = keys_of([workflow])[0]
    other = key._replace(firmware="VBIOS 95.0")
    for number in range(10):
        mine, result = (key, Remedy.HELD) if number < 5 else (other, Remedy.FAILED)
        Remedy.objects.create(
            workflow=workflow, attempt=number + 1, node_id=0, cluster_id=world.cluster.pk, verb="reboot",
            result=result, ended_at=world.clock.now(), **mine._asdict(),
        )  # fmt: skip
    [lines] = effectiveness.measured([workflow], world.clock.now())
    assert (lines["reboot"].tries, lines["reboot"].held, lines["reboot"].firmware) == (5, 5, "VBIOS 96.1")
    assert workflow_facts.record_of(workflow, "reboot", world.clock.now()).startswith("Reboot mended 5 of 5 xid-48 on ")
    Remedy.objects.filter(result=Remedy.HELD).update(attempt=F("attempt") + 100, firmware="VBIOS 94.0")
    [lines] = effectiveness.measured([workflow], world.clock.now())
    assert (lines["reboot"].tries, lines["reboot"].held, lines["reboot"].firmware) == (10, 5, "")
