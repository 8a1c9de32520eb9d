"""Other owners of a node beside us: waited for, never undone, and last to leave where they came last."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fleet.inventory.models import Alias, Node
from fleet.inventory.owners import on_node
from fleet.lifecycle import manual, planner, services, withdrawing
from fleet.lifecycle.models import Intent, NodeLifecycle, Step, Workflow
from fleet.ports.cluster import HOLD_ANNOTATION, RequestSeen
from fleet.ports.errors import MissingRight, NotFound
from fleet.tickets.models import Ticket
from tests.builders import a_node
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World, a_pod

pytestmark = pytest.mark.django_db
NODE = "gpu-001"
UPGRADING = {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}
WANTED = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-required"}
DONE = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}
QUARANTINED = {"dgxc.nvidia.com/nvsentinel-state": "quarantined"}
DELETED = (("ToBeDeletedByClusterAutoscaler", "1777890000", "NoSchedule"),)


def told(world: World, **fields: Any) -> None:
    """Somebody changes the node, and the observer writes who works on it."""
    seen = world.change(NODE, **fields) if fields else world.nodes[NODE]
    owners = [owner.as_json() for owner in on_node(seen)]
    Node.objects.filter(name=NODE).update(owners=owners, labels=dict(seen.labels), unschedulable=seen.unschedulable)


def with_pod(world: World) -> World:
    pod = a_pod("w-0", NODE, gang="")
    world.pods[pod.key] = pod
    return world


# -- waiting ------------------------------------------------------------------------------------------------------


def test_nothing_begins_while_a_driver_is_being_upgraded(build: Build) -> None:
    world = with_pod(build(NODE))
    told(world, labels=UPGRADING, unschedulable=True)
    workflow = fault(world, NODE)
    world.run(60)
    waiting = again(workflow)
    assert (waiting.state, waiting.blocked_code, waiting.verb) == ("blocked", "owner", "hold")
    assert "NVIDIA GPU Operator upgrades its driver (drain-required)" in waiting.blocked_text
    assert waiting.blocked_until is not None and world.writes == []
    told(world, labels=DONE, unschedulable=False)
    assert world.run(120, lambda: again(workflow).state == "succeeded")


def test_who_only_wants_to_begin_is_not_waited_for(build: Build) -> None:
    world = build(NODE)
    told(world, labels=WANTED)
    workflow = fault(world, NODE)
    assert world.run(120, lambda: again(workflow).state == "succeeded")


@pytest.mark.parametrize("verb", ["hold", "drain", "reboot"])
def test_an_owner_that_the_observer_has_not_seen_yet_is_seen_at_the_act(build: Build, verb: str) -> None:
    world = with_pod(build(NODE))
    workflow = fault(world, NODE)
    last = {"hold": "before", "drain": "after hold", "reboot": "after evict"}[verb]
    begin = lambda place: world.change(NODE, labels=UPGRADING) if place == last else None  # noqa: E731
    begin(last) if verb == "hold" else setattr(world, "crash", begin)
    world.run(60)
    waiting = again(workflow)
    assert (waiting.blocked_code, waiting.verb) == ("owner", verb)
    assert len(world.writes) == ["hold", "drain", "reboot"].index(verb) and world.resets == []


def test_a_reboot_that_nvsentinel_asks_for_is_waited_for_and_then_looked_at(build: Build) -> None:
    world = with_pod(build(NODE))
    world.budgets["w-0"] = "train/pdb"
    workflow = fault(world, NODE)
    world.run(10)
    asked = RequestSeen("janitor.dgxc.nvidia.com", "RebootNode", "maintenance-1", "", False, world.clock.now())
    world.requests[NODE] = [asked]
    world.pods.clear()
    world.run(90)
    waiting = again(workflow)
    since = waiting.blocked_since
    assert (waiting.blocked_code, waiting.verb) == ("owner", "reboot")
    assert "NVSentinel works on it by RebootNode maintenance-1" in waiting.blocked_text
    world.run(45)
    assert again(workflow).blocked_since == since and world.resets == []
    world.change(NODE, boot_id="boot-by-nvsentinel")
    world.requests[NODE] = [dataclasses.replace(asked, finished=True)]
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    assert world.resets == []


def test_requests_that_may_not_be_read_keep_us_from_beginning(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    world = build(NODE)

    def refuse(node: str) -> list[RequestSeen]:
        raise MissingRight("list", "rebootnodes.janitor.dgxc.nvidia.com")

    monkeypatch.setattr(world, "requests_on", refuse)
    workflow = fault(world, NODE)
    world.run(30)
    assert again(workflow).blocked_code == "missing_right" and world.writes == []


# -- holds ----------------------------------------------------------------------------------------------------------


def test_a_hold_joins_a_quarantine_and_leaves_its_cordon(build: Build) -> None:
    world = build(NODE)
    told(world, labels=QUARANTINED, unschedulable=True)
    workflow = fault(world, NODE)
    assert world.run(120, lambda: again(workflow).verb == "return" and again(workflow).blocked_code == "owner")
    assert "NVSentinel has quarantined it" in again(workflow).blocked_text
    told(world, labels={})  # NVSentinel lets go of a node on which another hold stands
    assert world.run(60, lambda: again(workflow).state == "succeeded")
    assert f"release {NODE} keep" in world.writes and world.nodes[NODE].unschedulable


def test_whoever_came_on_top_of_our_hold_leaves_first_and_we_uncordon(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    world.run(15)
    told(world, labels=QUARANTINED)
    assert world.run(120, lambda: again(workflow).blocked_code == "owner")
    assert world.nodes[NODE].unschedulable
    told(world, labels={})
    assert world.run(60, lambda: again(workflow).state == "succeeded")
    assert not world.nodes[NODE].unschedulable and HOLD_ANNOTATION not in world.nodes[NODE].annotations


@pytest.mark.parametrize(
    "left",
    [
        {"annotations": {"quarantineHealthEvent": "[]", "quarantinedNodeUncordonedManually": "True"}},
        {"labels": {"dgxc.nvidia.com/nvsentinel-state": "remediation-failed"}},
        {"labels": {"k8saas.nvidia.com/cordon-by": "NVSentinel", "k8saas.nvidia.com/uncordon-by": "NVSentinel"}},
        {"annotations": {"weave.works/kured-most-recent-reboot-needed": "2026-05-04T11:00:00Z"}},
        {"taints": (("DeletionCandidateOfClusterAutoscaler", "1", "PreferNoSchedule"),)},
    ],
)
def test_what_others_left_behind_keeps_no_node_from_its_return(build: Build, left: dict[str, Any]) -> None:
    world = build(NODE)
    told(world, **left)
    workflow = fault(world, NODE)
    assert world.run(200, lambda: again(workflow).state == "succeeded"), again(workflow).blocked_text
    assert not world.nodes[NODE].unschedulable
    for key, marks in left.items():
        assert set(marks) <= set(getattr(world.nodes[NODE], key)), "and it stays as it was"


def test_an_aborted_workflow_leaves_the_cordon_to_whoever_came_on_top(build: Build) -> None:
    world = with_pod(build(NODE))
    world.budgets["w-0"] = "train/pdb"
    workflow = fault(world, NODE)
    world.run(10)
    told(world, labels=QUARANTINED)
    services.abort(workflow.pk, "ann", "mine", world.clock.now())
    world.run(5)
    assert again(workflow).state == "cancelled"
    assert world.nodes[NODE].unschedulable and HOLD_ANNOTATION not in world.nodes[NODE].annotations


STEPS = ("hold", "drain", "reboot", "validate", "soak", "repair after a reboot", "wait_repair", "keep")


@pytest.mark.parametrize("at", STEPS)
def test_a_person_who_uncordons_ends_the_workflow_at_every_step(build: Build, at: str) -> None:
    world = with_pod(build(NODE))
    workflow = _at(world, at)
    writes = [w for w in world.writes if w.startswith("hold")]
    world.change(NODE, unschedulable=False)
    services.person_uncordoned(world.cluster.pk, [Node.objects.get(name=NODE).pk], world.clock.now())
    assert world.run(60, lambda: again(workflow).state == "cancelled"), again(workflow).blocked_text
    seen = world.nodes[NODE]
    assert not seen.unschedulable and HOLD_ANNOTATION not in seen.annotations
    assert [w for w in world.writes if w.startswith("hold")] == writes
    assert Ticket.objects.count() <= 1 and len(world.resets) <= 3


def _at(world: World, at: str) -> Any:
    """A workflow that has come as far as that."""
    if at == "keep":
        made, _ = manual.request([Node.objects.get(name=NODE).pk], "hold", "ann", "x", world.clock.now(), world.clock)
        assert world.run(30, lambda: again(made[0]).blocked_code == "kept")
        return made[0]
    if at == "wait_repair":
        world.pods.clear()
        workflow = fault(world, NODE, action_class="replace_part")
        assert world.run(60, lambda: again(workflow).state == "repair")
        return workflow
    if at in ("hold", "drain"):
        world.budgets["w-0"] = "train/pdb"
    else:
        world.pods.clear()
    if at == "repair after a reboot":
        world.bmc[NODE] = "lies"
    if at == "validate":
        world.job_result = "running"
    workflow = fault(world, NODE)
    if at == "hold":
        assert world.run(30, lambda: again(workflow).hold_value != "")
        return workflow
    if at == "repair after a reboot":
        assert world.run(2400, lambda: again(workflow).state == "repair")
        return workflow
    assert world.run(120, lambda: again(workflow).verb == at and Step.objects.filter(verb=at).exists())
    return workflow


def test_people_who_repair_are_not_asked_twice_when_the_wake_was_stale(build: Build) -> None:
    world = with_pod(build(NODE))
    workflow = _at(world, "repair after a reboot")
    resets = len(world.resets)
    services.person_uncordoned(world.cluster.pk, [Node.objects.get(name=NODE).pk], world.clock.now())
    world.run(60)
    assert again(workflow).state == "repair" and len(world.resets) == resets and Ticket.objects.count() == 1


# -- nodes that go ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["drain", "soak", "repair after a reboot", "wait_repair", "keep"])
def test_a_node_that_an_autoscaler_deletes_is_left_alone(build: Build, at: str) -> None:
    world = with_pod(build(NODE))
    workflow = _at(world, at)
    resets, pods = list(world.resets), dict(world.pods)
    told(world, taints=DELETED)
    withdrawing.leave_departing(world.clock.now())
    assert world.run(30, lambda: again(workflow).state == "cancelled")
    assert "cluster-autoscaler deletes it" in again(workflow).outcome
    assert world.resets == resets and world.pods == pods and world.nodes[NODE].taints == DELETED


@pytest.mark.parametrize("at", ["drain", "soak"])
def test_a_sick_node_whose_deletion_is_called_off_is_healed_after_all(build: Build, at: str) -> None:
    """An autoscaler that cannot drain a node takes its taint back. The fault is as old as the release, and open."""
    world = with_pod(build(NODE))
    workflow = _at(world, at)
    told(world, taints=DELETED)
    assert world.run(30, lambda: again(workflow).state == "cancelled")
    assert state_of(NODE) == "released"
    planner.replan(world.cluster.pk, world.clock, "muster:sweep")
    assert Workflow.objects.count() == 1, "it may still be deleted"
    told(world, taints=())
    planner.replan(world.cluster.pk, world.clock, "muster:sweep")
    second = Workflow.objects.exclude(pk=workflow.pk).get()
    world.budgets.clear()
    assert world.run(300, lambda: again(second).state == "succeeded"), again(second).blocked_text
    assert state_of(NODE) == "in_service"


def test_a_sick_node_that_a_person_took_back_is_not_planned_for_again(build: Build) -> None:
    world = with_pod(build(NODE))
    workflow = _at(world, "drain")
    world.change(NODE, unschedulable=False)
    assert world.run(60, lambda: again(workflow).state == "cancelled")
    planner.replan(world.cluster.pk, world.clock, "muster:sweep")
    assert Workflow.objects.count() == 1


def test_nothing_is_planned_for_a_node_that_is_being_deleted(build: Build) -> None:
    world = build(NODE)
    told(world, taints=DELETED)
    with pytest.raises(AssertionError, match="nothing was planned"):
        fault(world, NODE)


def test_a_plan_that_waits_ends_when_the_deletion_begins(build: Build) -> None:
    world = build(NODE)
    told(world, labels=UPGRADING)
    workflow = fault(world, NODE)
    told(world, taints=DELETED, labels={})
    assert withdrawing.leave_departing(world.clock.now()) == [workflow.pk]
    assert again(workflow).state == "cancelled" and world.writes == []
    assert withdrawing.leave_departing(world.clock.now()) == []


def test_the_object_of_a_node_that_is_being_deleted_is_not_written(build: Build) -> None:
    world = with_pod(build(NODE))
    workflow = _at(world, "drain")
    writes = list(world.writes)
    told(world, deleting=True)
    assert world.run(30, lambda: again(workflow).state == "cancelled")
    assert world.writes == writes


def test_the_opt_out_label_ends_the_workflow_and_gives_the_node_back(build: Build) -> None:
    world = with_pod(build(NODE))
    workflow = _at(world, "drain")
    told(world, labels={"muster.dev/managed": "false"})
    assert world.run(30, lambda: again(workflow).state == "cancelled")
    assert "muster.dev/managed=false" in again(workflow).outcome
    assert not world.nodes[NODE].unschedulable and state_of(NODE) == "released"


def _alias(name: str, value: str) -> None:
    node = Node.objects.get(name=name)
    Alias.objects.create(cluster_id=node.cluster_id, node=node, kind="system_uuid", value=value)


def _renamed(world: World) -> None:
    world.clock.tick(1)
    now = world.clock.now()
    a_node(world.cluster, "gpu-901", first_seen_at=now, seen_at=now)
    _alias("gpu-901", "sys-1")


def test_a_machine_that_joins_under_another_name_ends_the_workflow(build: Build) -> None:
    world = with_pod(build(NODE))
    _alias(NODE, "sys-1")
    workflow = _at(world, "drain")
    _renamed(world)
    world.run(5)
    assert again(workflow).state in ("running", "blocked")  # still Ready under its old name: not the same machine
    world.change(NODE, ready=None)
    world.run(15)
    assert again(workflow).state == "cancelled" and "it is gpu-901 now" in again(workflow).outcome
    assert state_of(NODE) == "released" and not Ticket.objects.exists()


def test_boards_that_share_a_system_uuid_tell_nothing(build: Build) -> None:
    world = with_pod(build(NODE))
    for name in (NODE, "other-001"):
        _alias(name, "sys-1")
    workflow = _at(world, "drain")
    _renamed(world)
    world.change(NODE, ready=None)
    world.run(15)
    assert again(workflow).state in ("running", "blocked")


def test_a_retired_node_leaves_no_step_open_and_names_its_new_name(build: Build) -> None:
    world = with_pod(build(NODE))
    _alias(NODE, "sys-1")
    workflow = _at(world, "drain")
    _renamed(world)
    services.retire_nodes(world.cluster.pk, [Node.objects.get(name=NODE).pk], world.clock.now())
    assert "it is gpu-901 now" in again(workflow).outcome
    assert not Step.objects.filter(workflow=workflow, ended_at=None).exists()
    assert again(workflow).blocked_since is None and again(workflow).blocked_until is None


def test_a_node_that_was_deleted_in_the_middle_ends_the_workflow(build: Build) -> None:
    world = with_pod(build(NODE))
    workflow = _at(world, "drain")
    del world.nodes[NODE]
    world.run(15)
    assert again(workflow).state == "cancelled" and "deleted from the cluster" in again(workflow).outcome


def test_something_else_that_is_missing_is_no_missing_node(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    world = build(NODE)

    def missing(request: Any) -> None:
        raise NotFound('namespaces "tests" not found')

    monkeypatch.setattr(world, "create_job", missing)
    workflow = fault(world, NODE)
    world.run(90)
    stuck = again(workflow)
    assert (stuck.state, stuck.blocked_code) == ("blocked", "not_found") and "namespaces" in stuck.blocked_text
    assert world.nodes[NODE].unschedulable  # and still held


def test_every_release_had_its_intent(build: Build) -> None:
    world = with_pod(build(NODE))
    workflow = _at(world, "drain")
    told(world, labels={"muster.dev/managed": "false"})
    world.run(30)
    assert Intent.objects.filter(workflow=workflow, verb="release", outcome="done").count() == 1
    assert NodeLifecycle.objects.get(node__name=NODE).reason.startswith("The label muster.dev/managed=false")


def test_a_person_asks_for_nothing_on_a_node_that_is_being_deleted(build: Build) -> None:
    world = build(NODE)
    told(world, taints=DELETED)
    made, refused = manual.request([Node.objects.get(name=NODE).pk], "reboot", "ann", "x", world.clock.now())
    assert made == [] and "cluster-autoscaler deletes it" in refused[NODE]
