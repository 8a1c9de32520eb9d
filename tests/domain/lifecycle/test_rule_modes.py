"""The mode of a rule: how far the workflows of its faults may go, whatever its cluster and pool allow."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fleet.health.models import Incident
from fleet.health.modes import ORDER, Renewed
from fleet.inventory.models import Cluster, Mode, Node
from fleet.lifecycle import manual, planner, rule_modes, services
from fleet.lifecycle.models import Workflow
from fleet.policy.models import Approval, Claim
from fleet.readmodels import guard_lines, why
from fleet.tickets.models import Ticket
from tests.builders import an_incident
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World

NODE = "gpu-r01-01"


def set_mode(world: World, workflow: Workflow, mode: str, *, raised: bool) -> None:
    """As the observer does when the site's rules change."""
    pk = workflow.incident_id
    assert pk is not None
    Incident.objects.filter(pk=pk).update(mode=mode)
    renewed = Renewed((pk,), ()) if raised else Renewed((), (pk,))
    rule_modes.follow(world.cluster.pk, renewed, world.clock.now(), world.clock)
    rule_modes._again(world.cluster.pk, world.clock)  # what follows its commit


@pytest.mark.parametrize(("cluster", "pool", "rule"), list(product(ORDER, repeat=3)))
def test_the_effective_mode_is_the_least_of_the_three(cluster: str, pool: str, rule: str) -> None:
    least = min((cluster, pool, rule), key=ORDER.index)
    assert planner.effective_mode(cluster, pool, rule) == least
    assert planner.effective_mode(cluster, None, None) == cluster


def test_in_observe_the_plan_is_only_what_would_be_done(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE, mode="observe")
    world.run(30)
    assert (again(workflow).state, world.writes) == ("planned", [])
    assert not Claim.objects.exists()
    told = why.why("", NODE, world.clock.now())
    assert told["would"][0] == "hold"
    assert told["text"].startswith("The rule xid-log is in mode observe: would hold, drain, ")


def test_in_recommend_a_person_approves_each_plan(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE, mode="recommend")
    world.run(30)
    assert (again(workflow).state, again(workflow).needs_approval, world.writes) == ("waiting", True, [])
    assert again(workflow).blocked_text == "The rule xid-log is in mode recommend: it waits for a person's approval."
    assert "The rule xid-log is in mode recommend. " in why.why("", NODE, world.clock.now())["blocked"]["text"]
    services.approve(workflow.pk, "ann", world.clock.now())
    assert world.run(60, lambda: bool(world.resets))


@pytest.mark.parametrize("verb", ["hold", "drain", "reboot", "validate", "soak"])
def test_a_workflow_of_a_rule_that_was_lowered_writes_nothing_more(build: Build, verb: str) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    if verb != "hold":
        assert world.run(200, lambda: again(workflow).verb == verb)
    Incident.objects.update(mode="observe")
    before = list(world.writes), list(world.resets)
    world.run(400)
    assert (world.writes, world.resets) == before
    stopped = again(workflow)
    assert (stopped.state, stopped.verb, stopped.blocked_code) == ("blocked", verb, "mode")
    assert stopped.blocked_text.startswith("The rule xid-log is in mode observe: nothing is written.")
    line = next(line for line in guard_lines._who(stopped) if line.code == "mode")
    assert (line.ok, line.text) == (False, "The rule xid-log is in mode observe: nothing is written.")


def test_raising_the_mode_lets_a_workflow_that_was_stopped_go_on(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    assert world.run(200, lambda: again(workflow).verb == "drain")
    set_mode(world, workflow, "observe", raised=False)
    world.run(30)
    assert again(workflow).blocked_code == "mode"
    set_mode(world, workflow, "automate", raised=True)
    assert world.run(600, lambda: again(workflow).state == "succeeded")


def test_raising_discards_stored_plans_and_goes_on_with_one_node(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE, mode="observe")
    set_mode(world, workflow, "automate", raised=True)
    fresh = Workflow.objects.exclude(pk=workflow.pk).get()
    assert (again(workflow).state, again(workflow).outcome) == ("cancelled", "The mode of its rule changed.")
    assert (fresh.state, fresh.incident_id) == ("running", workflow.incident_id)
    assert Cluster.objects.get().half_open


@pytest.mark.parametrize(("mode", "state"), [("recommend", "waiting"), ("observe", "planned")])
def test_lowering_makes_a_plan_that_has_not_begun_anew(build: Build, mode: str, state: str) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    set_mode(world, workflow, mode, raised=False)
    fresh = Workflow.objects.exclude(pk=workflow.pk).get()
    assert (again(workflow).state, fresh.state, world.writes) == ("cancelled", state, [])
    assert not Cluster.objects.get().half_open


def test_an_approval_that_nobody_needs_any_more_is_withdrawn(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE, mode="recommend")
    set_mode(world, workflow, "automate", raised=True)
    assert list(Approval.objects.values_list("state", flat=True)) == [Approval.WITHDRAWN]


def test_what_a_person_asks_for_is_not_limited_by_a_rule(build: Build) -> None:
    world = build(NODE)
    fault(world, NODE, mode="observe")
    made, refused = manual.request(
        [Node.objects.get(name=NODE).pk], "drain", "ann", "look at it", world.clock.now(), world.clock
    )
    assert (len(made), refused) == (1, {})
    assert world.run(60, lambda: world.nodes[NODE].unschedulable)


def test_what_may_go_further_does_not_wait_behind_what_may_not(build: Build) -> None:
    world = build(NODE)
    node = Node.objects.get(name=NODE)
    shown = an_incident(node, mode="observe")
    acted = an_incident(node, cause="xid-48", device="GPU-5")
    services.plan(world.cluster.pk, [shown.pk, acted.pk], clock=world.clock)
    assert list(Workflow.objects.values_list("incident_id", "state")) == [(acted.pk, "blocked")]


def test_a_suspicion_that_is_being_followed_does_not_give_way_to_a_rule_that_may_do_less(build: Build) -> None:
    world = build(NODE)
    followed = fault(world, NODE, cause="grey-suspect", rule="grey-suspect", action_class="confirm")
    shown = an_incident(Node.objects.get(name=NODE), mode="observe")
    services.plan(world.cluster.pk, [shown.pk], clock=world.clock)
    assert again(followed).incident_id == followed.incident_id
    assert again(followed).state == "waiting"


@pytest.mark.parametrize(("mode", "tickets"), [("observe", 0), ("recommend", 1), ("automate", 1)])
def test_in_observe_nobody_is_sent_a_ticket(build: Build, mode: Any, tickets: int) -> None:
    world = build(NODE)
    incident = an_incident(Node.objects.get(name=NODE), action_class="ticket", mode=mode)
    services.plan(world.cluster.pk, [incident.pk], clock=world.clock)
    assert Ticket.objects.count() == tickets


def test_a_cluster_that_only_looks_is_named_before_the_rule(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE, mode="recommend")
    workflow.cluster.mode = workflow.node.cluster.mode = Mode.OBSERVE
    line = next(line for line in guard_lines._who(workflow) if line.code == "mode")
    assert line.text == "The mode is observe: nothing is written."
