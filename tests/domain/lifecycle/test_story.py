"""One fault from incident to service, and each way it can stop on the road."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from fleet.audit.selectors import verify
from fleet.audit.services import chain_of
from fleet.health.models import Incident, NodeVerdict
from fleet.inventory.models import Bmc, Cluster, Mode, Node
from fleet.lifecycle import forcing, services
from fleet.lifecycle.models import Intent, Step, Workflow
from fleet.policy.models import Claim
from fleet.tickets.models import Ticket
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"


def with_pods(world: World, *names: str) -> World:
    for name in names:
        pod = a_pod(name, NODE)
        world.pods[pod.key] = pod
    return world


def test_a_faulty_node_is_held_drained_rebooted_validated_soaked_and_returned(build: Build) -> None:
    world = with_pods(build(NODE), "w-0", "w-1")
    workflow = fault(world, NODE)
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    kinds = [write.split()[0] for write in world.writes]
    assert kinds == ["hold", "evict", "evict", "job", "release"]
    assert world.resets == [(NODE, "ForceRestart")]
    assert state_of(NODE) == "in_service"
    assert not world.nodes[NODE].unschedulable
    assert not Claim.objects.filter(released_at=None).exists()
    assert Incident.objects.get(pk=workflow.incident_id).state == "resolved"
    assert [step.verb for step in Step.objects.order_by("index")] == [
        "hold", "drain", "reboot", "validate", "soak", "return",
    ]  # fmt: skip
    assert verify(chain_of(world.cluster.pk)).problem == ""


def test_running_work_is_untouched_until_the_take_out_is_granted(build: Build) -> None:
    world = with_pods(build(NODE), "w-0")
    for name in ("other-000", "other-001"):
        Node.objects.filter(name=name).update(rack="r01", foreign_hold=True)
    Node.objects.filter(name=NODE).update(pods=1)
    workflow = fault(world, NODE)
    world.run(5)
    workflow = again(workflow)
    assert world.nodes[NODE].unschedulable
    assert workflow.blocked_code == "cap_take_out"
    assert "Rack r01: 2 of 2 out of service (other-000, other-001)" in workflow.blocked_text
    assert workflow.blocked_until is not None and workflow.blocked_until > world.clock.now()
    assert not [write for write in world.writes if write.startswith("evict")]


def test_a_node_that_serves_nobody_is_not_stopped_by_other_peoples_cordons(build: Build) -> None:
    world = build(NODE)
    Node.objects.filter(name__in=["other-000", "other-001"]).update(rack="r01", foreign_hold=True)
    Node.objects.filter(name=NODE).update(pods=0)
    workflow = fault(world, NODE)
    assert world.run(120, lambda: again(workflow).state == "succeeded")


def test_a_budget_that_never_yields_is_named_and_nothing_is_forced(build: Build) -> None:
    world = with_pods(build(NODE), "w-0")
    world.budgets["w-0"] = "serving/feature-cache"
    workflow = fault(world, NODE)
    world.run(60)
    workflow = again(workflow)
    assert (workflow.state, workflow.blocked_code) == ("blocked", "pdb")
    assert "serving/feature-cache" in workflow.blocked_text and "train/w-0" in workflow.blocked_text
    assert world.resets == []


def test_a_person_may_skip_a_drain_that_cannot_end_once_another_agreed_to_force_it(build: Build) -> None:
    world = with_pods(build(NODE), "w-0")
    world.budgets["w-0"] = "serving/feature-cache"
    workflow = fault(world, NODE)
    world.run(10)
    with pytest.raises(services.Refused, match="takes a reason"):
        services.skip_step(workflow.pk, "minseo", " ", world.clock.now())
    with pytest.raises(services.Refused, match="would end it without a word"):
        services.skip_step(workflow.pk, "minseo", "the owner agreed", world.clock.now())
    forcing.force_drain(workflow.pk, "minseo", "the owner agreed", world.clock.now())
    with pytest.raises(services.Refused, match="would end it without a word"):
        services.skip_step(workflow.pk, "minseo", "the owner agreed", world.clock.now())
    services.approve(workflow.pk, "jiwoo", world.clock.now())
    services.skip_step(workflow.pk, "minseo", "the owner agreed", world.clock.now())
    assert world.run(90, lambda: again(workflow).state == "succeeded")


def test_a_pod_stuck_behind_a_finalizer_is_named_and_left(build: Build) -> None:
    world = build(NODE)
    world.pods["train/w-0"] = a_pod("w-0", NODE, finalizers=("example.com/wait",))
    workflow = fault(world, NODE)
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    text = Step.objects.get(workflow=workflow, verb="drain").text
    assert "train/w-0" in text and "example.com/wait" in text


def test_a_bmc_that_says_yes_and_does_nothing_ends_in_a_ticket(build: Build) -> None:
    world = build(NODE)
    world.bmc[NODE] = "lies"
    workflow = fault(world, NODE)
    assert world.run(600, lambda: again(workflow).state == "repair")
    assert [verb for _, verb in world.resets] == ["ForceRestart", "PowerCycle", "PowerCycle"]
    ticket = Ticket.objects.get()
    assert "never rebooted" in ticket.reason and ticket.evidence["calls"]
    assert state_of(NODE) == "awaiting_repair"
    assert world.nodes[NODE].unschedulable


def test_a_bmc_of_another_machine_gets_no_power_call(build: Build) -> None:
    world = build(NODE)
    world.bmc[NODE] = "wrong_serial"
    workflow = fault(world, NODE)
    assert world.run(60, lambda: again(workflow).state == "repair")
    assert world.resets == []
    assert Bmc.objects.get(node__name=NODE).condition == "identity_mismatch"
    assert "not the pinned one" in Ticket.objects.get().reason


def test_a_node_without_a_bmc_address_goes_to_people(build: Build) -> None:
    world = build(NODE)
    Bmc.objects.all().delete()
    workflow = fault(world, NODE)
    assert world.run(60, lambda: again(workflow).state == "repair")
    assert "No BMC address" in Ticket.objects.get().reason


def test_an_answer_that_never_comes_is_observed_before_anything_else_is_sent(build: Build) -> None:
    world = build(NODE)
    world.bmc[NODE] = "no_answer"
    workflow = fault(world, NODE)
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    assert len(world.resets) == 1


def test_failed_validation_tries_once_more_and_then_opens_a_ticket_whose_end_is_validated(build: Build) -> None:
    world = build(NODE)
    world.job_result = "failed"
    workflow = fault(world, NODE)
    assert world.run(200, lambda: again(workflow).state == "repair")
    assert len(world.resets) == 2
    ticket = Ticket.objects.get()
    world.job_result = "succeeded"
    services.close_ticket(ticket.pk, "jiwoo", "GPU 3 replaced", world.clock.now())
    assert state_of(NODE) == "validating"
    assert world.run(60, lambda: again(workflow).state == "succeeded")
    with pytest.raises(services.Refused):
        services.close_ticket(ticket.pk, "jiwoo", "again", world.clock.now())


def test_unknown_never_returns_a_node(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    assert world.run(90, lambda: again(workflow).verb == "soak")
    NodeVerdict.objects.filter(node__name=NODE).update(verdict="unknown", reason="no data from dcgm-exporter")
    world.run(60)
    workflow = again(workflow)
    assert (workflow.verb, workflow.blocked_code) == ("soak", "no_data")


def test_a_fault_that_comes_back_in_the_soak_is_another_attempt(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    assert world.run(90, lambda: again(workflow).verb == "soak")
    NodeVerdict.objects.filter(node__name=NODE).update(verdict="unhealthy", reason="Xid 79 again")
    world.run(6)
    assert again(workflow).attempt == 2


def test_observe_mode_plans_and_writes_nothing(build: Build, cluster: Cluster) -> None:
    Cluster.objects.update(mode=Mode.OBSERVE)
    world = build(NODE)
    workflow = fault(world, NODE)
    world.run(30)
    workflow = again(workflow)
    assert workflow.state == "planned"
    assert [item["verb"] for item in workflow.plan][:3] == ["hold", "drain", "reboot"]
    assert world.writes == [] and world.resets == []


def test_lowering_the_mode_stops_every_write_and_says_so(build: Build, cluster: Cluster) -> None:
    world = with_pods(build(NODE), "w-0")
    world.budgets["w-0"] = "serving/feature-cache"
    workflow = fault(world, NODE)
    world.run(5)
    services.set_mode(cluster, "observe", "minseo", world.clock.now(), world.clock)
    before = list(world.writes)
    world.budgets.clear()
    world.run(60)
    assert world.writes == before
    assert again(workflow).blocked_code == "mode"


def test_a_raised_mode_plans_from_current_health_and_begins_with_one_node(
    build: Build, cluster: Cluster, django_capture_on_commit_callbacks: Any
) -> None:
    Cluster.objects.update(mode=Mode.OBSERVE)
    world = build("gpu-r01-01", "gpu-r01-02", "gpu-r01-03")
    for name in ("gpu-r01-01", "gpu-r01-02", "gpu-r01-03"):
        fault(world, name)
    Incident.objects.filter(node__name="gpu-r01-03").update(state="resolved")
    with django_capture_on_commit_callbacks(execute=True):
        services.set_mode(cluster, "automate", "minseo", world.clock.now(), world.clock)
    opened = Workflow.objects.filter(state__in=["running", "blocked"])
    assert {w.node.name for w in opened} == {"gpu-r01-01", "gpu-r01-02"}
    world.run(15)
    assert world.rebooting_most == 1
    assert world.run(200, lambda: Workflow.objects.filter(state="succeeded").count() == 2)
    assert not Cluster.objects.get().half_open


def test_a_persons_uncordon_cancels_the_workflow_and_is_respected(build: Build) -> None:
    world = with_pods(build(NODE), "w-0")
    world.budgets["w-0"] = "serving/feature-cache"
    workflow = fault(world, NODE)
    world.run(10)
    world.change(NODE, unschedulable=False)
    services.person_uncordoned(world.cluster.pk, [Node.objects.get(name=NODE).pk], world.clock.now())
    world.run(20)
    assert again(workflow).state == "cancelled"
    assert state_of(NODE) == "released"
    assert not world.nodes[NODE].unschedulable and not world.nodes[NODE].annotations
    assert not Claim.objects.filter(released_at=None).exists()


def test_a_cordon_that_was_there_before_stays_after_the_return(build: Build) -> None:
    world = build(NODE)
    world.change(NODE, unschedulable=True)
    workflow = fault(world, NODE)
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    assert world.nodes[NODE].unschedulable and not world.nodes[NODE].annotations


def test_abort_gives_the_node_back_but_not_while_a_reset_is_under_way(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    assert world.run(30, lambda: bool(world.resets))
    with pytest.raises(services.Refused, match="reset was sent"):
        services.abort(workflow.pk, "minseo", "stop it", world.clock.now())
    assert world.run(60, lambda: again(workflow).verb == "soak")
    services.abort(workflow.pk, "minseo", "stop it", world.clock.now())
    assert world.run(10, lambda: again(workflow).state == "cancelled")
    assert state_of(NODE) == "released" and not world.nodes[NODE].unschedulable


def test_a_node_that_somebody_rebooted_meanwhile_is_not_rebooted_again(build: Build) -> None:
    world = with_pods(build(NODE), "w-0")
    world.budgets["w-0"] = "serving/feature-cache"
    workflow = fault(world, NODE)
    world.run(10)
    world.change(NODE, boot_id="boot-by-hand")
    world.budgets.clear()
    assert world.run(90, lambda: again(workflow).state == "succeeded")
    assert world.resets == []


def test_another_machine_under_the_same_name_is_left_alone(build: Build) -> None:
    world = with_pods(build(NODE), "w-0")
    world.budgets["w-0"] = "serving/feature-cache"
    workflow = fault(world, NODE)
    world.run(10)
    world.nodes[NODE] = dataclasses.replace(world.nodes[NODE], uid="another-machine")
    world.budgets.clear()
    world.run(30)
    assert again(workflow).state == "cancelled" and "made anew" in again(workflow).outcome
    assert world.resets == [] and world.pods and state_of(NODE) == "released"


def test_a_node_that_leaves_the_cluster_ends_its_workflow(build: Build) -> None:
    world = with_pods(build(NODE), "w-0")
    world.budgets["w-0"] = "serving/feature-cache"
    workflow = fault(world, NODE)
    world.run(10)
    services.retire_nodes(world.cluster.pk, [Node.objects.get(name=NODE).pk], world.clock.now())
    assert again(workflow).state == "cancelled" and state_of(NODE) == "retired"
    assert not Claim.objects.filter(released_at=None).exists()


def test_what_does_not_last_goes_to_people(build: Build) -> None:
    world = build(NODE)
    for _ in range(3):
        workflow = fault(world, NODE)
        assert world.run(120, lambda w=workflow: again(w).state == "succeeded")  # type: ignore[misc]
        world.change(NODE, boot_id=Node.objects.get(name=NODE).boot_id)
    assert fault(world, NODE).playbook == "repair-recurring"


def test_no_message_can_advance_what_another_has_taken(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    world.run(2)
    stale = again(workflow).version - 1
    before = Intent.objects.count()
    world.queue = [(workflow.pk, stale)] * 3
    world.deliver()
    assert Intent.objects.count() == before


def test_a_bug_in_a_step_is_seen_on_the_page(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    world = build(NODE)
    monkeypatch.setattr(world, "pods_on", lambda node: 1 / 0)
    workflow = fault(world, NODE)
    world.run(5)
    assert again(workflow).blocked_code == "internal_error" and "ZeroDivisionError" in again(workflow).blocked_text


def test_a_pool_in_observe_mode_is_not_touched_in_an_automate_cluster(build: Build) -> None:
    world = build(NODE)
    Node.objects.get(name=NODE).pool.__class__.objects.update(mode=Mode.OBSERVE)
    assert fault(world, NODE).state == "planned"
    world.run(10)
    assert world.writes == []


def test_an_incident_that_is_closed_meanwhile_gives_the_node_back_without_a_reset(build: Build) -> None:
    world = with_pods(build(NODE), "w-0")
    workflow = fault(world, NODE)
    world.run(2)
    Incident.objects.update(state="resolved")
    assert world.run(30, lambda: again(workflow).state == "cancelled")
    assert world.resets == [] and not world.nodes[NODE].unschedulable
    Node.objects.update(hold_value="")
    assert services.settle_released(world.clock.now()) == 1
    assert state_of(NODE) == "in_service"


def test_nobody_watches_so_nothing_disruptive_begins_and_no_node_returns(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    assert world.run(90, lambda: again(workflow).verb == "soak")
    Cluster.objects.update(observer_until=world.clock.now() - timedelta(minutes=1))
    world.run(60)
    blocked = again(workflow)
    assert (blocked.verb, blocked.blocked_code) == ("soak", "no_data") and "No observer" in blocked.blocked_text
    other = build("gpu-r01-02", fleet=0)  # a second world on the same cluster
    begun = fault(other, "gpu-r01-02")
    other.run(30)
    assert again(begun).blocked_code == "unwatched" and other.writes == []
