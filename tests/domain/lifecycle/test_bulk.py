"""Many nodes in one action: exactly those that were shown and agreed to, and never beyond a guard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fleet.access.models import Grant, User
from fleet.audit.models import AuditRow
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import approving, bulk, bulk_foresee, maintenance, services
from fleet.lifecycle.asked import of_action
from fleet.lifecycle.models import Batch, BatchNode, Workflow
from fleet.policy import asking
from fleet.policy import services as policy
from fleet.policy.models import Approval, ApprovalRule, RoleCap
from tests.domain.lifecycle.conftest import Build, fault, state_of
from tests.domain.lifecycle.world import World, a_pod

NODES = tuple(f"gpu-r01-{number:02}" for number in range(1, 7))


@pytest.fixture
def world(build: Build) -> World:
    return build(*NODES)


def wanted(world: World, action: str = "reboot", names: tuple[str, ...] = NODES, **fields: Any) -> bulk.Wanted:
    ids = list(Node.objects.filter(name__in=names).values_list("pk", flat=True))
    return bulk.Wanted(world.cluster, ids, action, "ann", "new firmware", fields.pop("roles", {"operator"}), **fields)


def drawn(world: World, action: str = "reboot", **fields: Any) -> Batch:
    return bulk.draft(wanted(world, action, **fields), world.clock.now())


def running(world: World, action: str = "reboot", **fields: Any) -> Batch:
    batch = drawn(world, action, **fields)
    bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    for person in ("bo", "cho"):
        bulk.vote(batch.pk, person, True, "", world.clock.now())
    return anew(batch)


def anew(batch: Batch) -> Batch:
    return Batch.objects.get(pk=batch.pk)


def members(batch: Batch, *states: str) -> list[str]:
    return list(batch.members.filter(state__in=states).order_by("place").values_list("node__name", flat=True))


def go(world: World, batch: Batch, seconds: int, state: str = Batch.DONE) -> Batch:
    """Let time pass with a sweep every ten seconds, until the batch is in that state."""
    for _ in range(0, seconds, 10):
        maintenance.sweep(world.clock)
        if anew(batch).state == state:
            break
        world.run(10)
    return anew(batch)


def test_all_nodes_are_rebooted_once_and_never_more_at_once_than_the_caps_allow(world: World) -> None:
    batch = go(world, running(world), 900)
    assert (batch.state, batch.text) == (Batch.DONE, "6 done.")
    assert sorted(name for name, _ in world.resets) == sorted(NODES)
    assert world.rebooting_most <= 2  # the cap of a rack
    assert {state_of(name) for name in NODES} == {"in_service"}


def test_who_waits_is_told_for_which_guard_with_its_numbers(world: World) -> None:
    batch = running(world)
    maintenance.sweep(world.clock)
    begun, waiting = members(batch, BatchNode.BEGUN), batch.members.filter(state=BatchNode.PENDING)
    assert len(begun) == 2 and waiting.count() == 4
    assert {member.code for member in waiting} == {"cap_take_out"}
    assert all("Rack r01: 2 of 2 out of service (gpu-r01-01, gpu-r01-02)" in member.text for member in waiting)


def test_the_plan_says_beforehand_who_may_begin_who_would_wait_and_who_is_refused(world: World) -> None:
    Node.objects.filter(name=NODES[5]).update(managed=False)
    busy = fault(world, NODES[4])
    nodes = list(Node.objects.select_related("cluster", "pool").filter(name__in=NODES).order_by("name"))
    found = bulk_foresee.foresee(world.cluster, nodes, of_action("reboot"), world.clock.now())
    assert [one.answer for one in found] == ["now", "now", "waits", "waits", "waits", "refused"]
    assert "2 of 2 out of service" in found[2].why.text
    assert found[4].why.text == f"{busy.label} works on {NODES[4]} already."
    assert found[5].why.text == f"{NODES[5]} is not in the managed set."
    assert Workflow.objects.count() == 1 and world.writes == []


def test_nothing_begins_before_two_other_people_agreed(world: World) -> None:
    batch = drawn(world)
    bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    with pytest.raises(asking.VoteRefused, match="Another person"):
        bulk.vote(batch.pk, "ann", True, "", world.clock.now())
    bulk.vote(batch.pk, "bo", True, "", world.clock.now())
    with pytest.raises(asking.VoteRefused, match="already"):
        bulk.vote(batch.pk, "bo", True, "", world.clock.now())
    maintenance.sweep(world.clock)
    assert anew(batch).state == Batch.WAITING and "1 of 2" in anew(batch).text
    assert not Workflow.objects.exists()


def test_a_list_that_changed_after_its_approval_begins_nothing(world: World) -> None:
    batch = running(world)
    batch.members.filter(place=0).update(node=Node.objects.get(name="other-000"))
    maintenance.sweep(world.clock)
    assert anew(batch).state == Batch.PAUSED and "not the list that was approved" in anew(batch).text
    assert not Workflow.objects.exists()


def test_a_vote_on_a_list_that_changed_does_not_count(world: World) -> None:
    batch = drawn(world)
    bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    Batch.objects.filter(pk=batch.pk).update(at_once=500)
    with pytest.raises(asking.VoteRefused, match="changed"):
        bulk.vote(batch.pk, "bo", True, "", world.clock.now())


def test_only_what_was_shown_starts_and_only_by_whom_it_was_shown_to(world: World) -> None:
    batch, now = drawn(world), world.clock.now()
    with pytest.raises(bulk.Refused, match="not the list that was shown"):
        bulk.start(batch.pk, "0" * 64, "ann", now)
    with pytest.raises(bulk.Refused, match="ann drew it up"):
        bulk.start(batch.pk, batch.plan_hash, "bo", now)
    bulk.start(batch.pk, batch.plan_hash, "ann", now)
    with pytest.raises(bulk.Refused, match="already"):
        bulk.start(batch.pk, batch.plan_hash, "ann", now)
    assert Approval.objects.count() == 1


def test_a_node_that_was_replaced_since_is_left_alone(world: World) -> None:
    batch = running(world, "hold")
    Node.objects.filter(name=NODES[0]).update(uid="another-machine")
    batch = go(world, batch, 120)
    assert members(batch, BatchNode.REFUSED) == [NODES[0]]
    assert state_of(NODES[0]) == "in_service" and state_of(NODES[1]) == "held"


def test_more_nodes_than_the_role_may_touch_are_refused_with_the_number(world: World) -> None:
    RoleCap.objects.create(role="operator", nodes=5)
    with pytest.raises(bulk.Refused) as said:
        drawn(world)
    assert str(said.value) == (
        "The role operator may touch 5 nodes in one action; these are 6. The role approver may touch 20."
    )
    assert not Batch.objects.exists()
    assert drawn(world, roles={"operator", "admin"}).members.count() == 6
    with pytest.raises(bulk.Refused, match="None of your roles"):
        drawn(world, roles={"viewer"})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"names": ()}, "No node passes"),
        ({"action": "explode"}, "no action explode"),
        ({"pace": bulk.Pace(at_once=0)}, "At once"),
        ({"pace": bulk.Pace(stop_after=10**9)}, "Failures that stop it"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(world: World, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(bulk.Refused, match=said):
        drawn(world, **fields)


def test_a_request_that_nobody_answers_ends_the_batch(world: World) -> None:
    batch = drawn(world)
    bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    world.clock.tick(3700)
    approving.expire(world.clock.now())
    maintenance.sweep(world.clock)
    assert anew(batch).state == Batch.CANCELLED and "expired" in anew(batch).text


def test_one_no_ends_it(world: World) -> None:
    batch = drawn(world)
    bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    bulk.vote(batch.pk, "bo", False, "not today", world.clock.now())
    assert anew(batch).text == "Rejected by bo: not today"
    maintenance.sweep(world.clock)
    assert not Workflow.objects.exists()


def test_a_paused_batch_begins_no_further_node_and_goes_on_when_told(world: World) -> None:
    batch = running(world)
    maintenance.sweep(world.clock)
    bulk.pause(batch.pk, "bo", "the vendor called", world.clock.now())
    assert go(world, batch, 200).state == Batch.PAUSED
    assert len(world.resets) == 2 and members(batch, BatchNode.DONE) == list(NODES[:2])
    bulk.resume(batch.pk, "bo", world.clock.now())
    assert go(world, batch, 900).state == Batch.DONE


def test_a_cancelled_batch_leaves_what_it_did_not_touch(world: World) -> None:
    batch = running(world)
    maintenance.sweep(world.clock)
    bulk.cancel(batch.pk, "bo", "wrong rack", world.clock.now())
    go(world, batch, 300)
    assert anew(batch).state == Batch.CANCELLED
    assert world.resets == [] and world.writes == []
    assert not Workflow.objects.exclude(state="cancelled").exists()
    with pytest.raises(bulk.Refused, match="ended already"):
        bulk.cancel(batch.pk, "bo", "again", world.clock.now())


def test_driven_by_two_sweeps_at_once_nothing_begins_twice(world: World) -> None:
    batch = running(world, "drain")
    for _ in range(5):
        maintenance.drive(batch.pk, world.clock)
    assert Workflow.objects.values("node").distinct().count() == Workflow.objects.count()


def test_the_kill_switch_and_observe_keep_a_running_batch_waiting(world: World) -> None:
    batch = running(world, "hold")
    policy.stop_all(stopped=True, by="cho", reason="drill", now=world.clock.now())
    maintenance.sweep(world.clock)
    assert {member.code for member in batch.members.all()} == {"stopped"} and not Workflow.objects.exists()
    policy.stop_all(stopped=False, by="cho", reason="over", now=world.clock.now())
    Cluster.objects.update(mode="observe")
    maintenance.sweep(world.clock)
    assert {(member.state, member.code) for member in batch.members.all()} == {("pending", "mode")}
    Cluster.objects.update(mode="automate")
    assert go(world, batch, 300).state == Batch.DONE


def test_held_nodes_are_released_together_without_anybodys_approval(world: World) -> None:
    assert go(world, running(world, "hold"), 120).state == Batch.DONE
    assert all(world.nodes[name].unschedulable for name in NODES)
    batch = drawn(world, "release")
    bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    assert go(world, batch, 120).text == "6 done."
    assert not any(world.nodes[name].unschedulable for name in NODES)


def test_where_no_approval_is_asked_for_it_starts_at_once(world: World) -> None:
    ApprovalRule.objects.create(kind="bulk", needed=0, minutes=60)
    batch = drawn(world, "drain")
    bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    assert anew(batch).state == Batch.RUNNING
    batch = drawn(world, "reboot")  # a reboot has a rule of its own
    bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    assert Approval.objects.get(subject=f"batch:{batch.pk}").kind == "bmc_power"


def test_the_gangs_that_it_interrupts_are_told_to_who_agrees(world: World) -> None:
    Node.objects.filter(name__in=NODES[:2]).update(gang="train/llm")
    batch = drawn(world)
    bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    summary = Approval.objects.get().summary
    assert (summary["gangs"], summary["count"], summary["nodes"][0]) == (["train/llm"], 6, NODES[0])


def test_the_audit_log_tells_who_asked_agreed_and_what_began(world: World) -> None:
    batch = go(world, running(world, "hold"), 120)
    told = list(AuditRow.objects.filter(object=f"batch:{batch.pk}").values_list("actor", "action"))
    assert told == [
        ("ann", "batch.ask"), ("bo", "approval.vote"), ("cho", "approval.vote"), ("cho", "batch.start"),
        ("muster:sweep", "batch.done"),
    ]  # fmt: skip
    assert AuditRow.objects.filter(action="workflow.request", actor="ann").count() == len(NODES)


def test_a_draft_that_nobody_starts_is_dropped(world: World) -> None:
    batch = drawn(world)
    world.clock.tick(timedelta(hours=2).total_seconds())
    maintenance.sweep(world.clock)
    assert not Batch.objects.filter(pk=batch.pk).exists()


def test_a_workflow_that_is_aborted_while_it_waits_asks_nobody_any_more(world: World) -> None:
    from fleet.lifecycle import manual

    made, _ = manual.request([Node.objects.get(name=NODES[0]).pk], "reboot", "ann", "x", world.clock.now(), world.clock)
    services.abort(made[0].pk, "ann", "not needed", world.clock.now())
    assert Approval.objects.get().state == Approval.WITHDRAWN


def test_a_drain_of_a_whole_rack_stops_at_its_cap_until_nodes_are_released(world: World) -> None:
    for name in NODES:
        world.pods[f"train/{name}"] = a_pod(name, name, gang=f"train/{name}")
    batch = go(world, running(world, "drain"), 300)
    assert members(batch, BatchNode.DONE) == list(NODES[:2]) and len(world.pods) == 4
    assert {state_of(name) for name in NODES[:2]} == {"drained"}
    first = drawn(world, "release", names=NODES[:2])
    bulk.start(first.pk, first.plan_hash, "ann", world.clock.now())
    go(world, batch, 300)
    assert members(batch, BatchNode.DONE) == list(NODES[:4])


def test_a_list_is_not_started_by_somebody_whose_role_may_not_touch_as_many_any_more(world: World) -> None:
    batch = drawn(world)
    RoleCap.objects.create(role="operator", nodes=5)
    with pytest.raises(bulk.Refused, match="operator may touch 5 nodes in one action; these are 6"):
        bulk.start(batch.pk, batch.plan_hash, "ann", world.clock.now())
    assert anew(batch).state == Batch.DRAFT


def closed(world: World) -> None:
    User.objects.filter(username="ann").update(is_active=False)


def moved_away(world: World) -> None:
    Grant.objects.filter(user__username="ann").update(cluster="another")


def capped(world: World) -> None:
    RoleCap.objects.create(role="operator", nodes=5)


@pytest.mark.parametrize("change", [closed, moved_away, capped])
def test_a_list_that_waited_for_approval_pauses_if_who_asked_may_not_have_it_done_any_more(
    world: World, change: Callable[[World], None]
) -> None:
    batch = running(world)
    change(world)
    maintenance.sweep(world.clock)
    assert anew(batch).state == Batch.PAUSED and "ann" in anew(batch).text
    assert not Workflow.objects.exists() and world.writes == []
