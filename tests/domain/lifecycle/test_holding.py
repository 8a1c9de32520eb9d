"""Nodes whose holds were granted together are held together; each of them is as safe as if it were held alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from fleet.audit.models import AuditRow
from fleet.lifecycle import engine, grants, messages
from fleet.lifecycle.models import Intent, Step, Workflow
from fleet.policy.models import BreakerRule, Cap, Claim
from fleet.ports.cluster import HOLD_ANNOTATION, HoldRequest, NodeSeen
from fleet.ports.errors import TemporaryError
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import TIMING, Crash, Holds, World

NAMES = tuple(f"gpu-r01-{number:02d}" for number in range(6))
AT_ONCE = replace(TIMING, holds_at_once=2)


def granted(world: World, names: Sequence[str] = NAMES) -> list[Workflow]:
    """Their faults came together, no cap binds; one message holds all of them and waits to be delivered."""
    Cap.objects.all().delete()
    BreakerRule.objects.update(enabled=False)
    workflows = [fault(world, name) for name in names]
    world.queue.clear()
    grants.run(world.cluster.pk, world.clock)
    assert [type(message) for message in world.queue] == [Holds]
    return workflows


def deliver(world: World) -> None:
    """The message of the holds alone."""
    world.take(world.queue.pop(0), AT_ONCE)


@pytest.fixture
def world(build: Build) -> World:
    return build(*NAMES)


def held(world: World) -> list[str]:
    return [name for name in NAMES if world.nodes[name].unschedulable and world.nodes[name].annotations]


def test_all_are_held_and_each_has_its_intent_its_audit_and_asks_for_its_drain(world: World) -> None:
    workflows = granted(world)
    deliver(world)
    assert held(world) == list(NAMES) and len(world.writes) == len(NAMES)
    for workflow in workflows:
        row = again(workflow)
        assert (row.verb, state_of(row.node.name), row.state) == ("drain", "held", "blocked")
        assert world.nodes[row.node.name].annotations[HOLD_ANNOTATION] == row.hold_value
        assert Intent.objects.get(workflow=row).outcome == "done"
        assert Step.objects.get(workflow=row).state == "done" and Step.objects.get(workflow=row).deadline
        said = AuditRow.objects.filter(object=f"workflow:{row.pk}").order_by("seq").values_list("action", flat=True)
        assert list(said) == ["workflow.plan", "claim.grant", "intent.hold", "node.state", "step.done"]
    grants.run(world.cluster.pk, world.clock, asked=True)
    assert sorted(message for message in world.queue if isinstance(message, tuple)) == sorted(
        (workflow.pk, again(workflow).version) for workflow in workflows
    )


def test_what_each_further_node_costs_is_no_statement_of_its_own(build: Build) -> None:
    """Of a message: one look and two transactions, with 24 nodes as with two."""
    cost = []
    for size in (2, messages.TOGETHER):
        world = build(*(f"gpu-{size}-{number:02d}" for number in range(size)), fleet=0)
        granted(world, list(world.nodes)[-size:])
        with CaptureQueriesContext(connection) as seen:
            world.take(world.queue.pop(0), replace(TIMING, holds_at_once=messages.TOGETHER))
        cost.append(len(seen))
        Workflow.objects.all().delete()
    assert cost[0] == cost[1] <= 32


def test_more_than_fit_into_one_message_are_sent_as_several() -> None:
    sent = messages.of([*((pk, 1, "hold") for pk in range(50)), (99, 4, "drain")])
    assert [task for task, _ in sent] == ["tasks.hold"] * 3 + ["tasks.advance"]
    assert [pk for _, what in sent[:3] for pk, _ in what["holds"]] == list(range(50))
    assert sent[3][1] == {"workflow_id": 99, "version": 4, "can_wait": False}


def test_the_fence_is_looked_at_before_each_round_of_patches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first two are being patched a person ends the third and another worker takes the fourth."""
    workflows = granted(world)
    real = world.hold

    def hold(request: HoldRequest) -> NodeSeen:
        Workflow.objects.filter(pk__in=[w.pk for w in workflows[2:4]]).update(version=F("version") + 1)
        return real(request)

    monkeypatch.setattr(world, "hold", hold)
    monkeypatch.setattr(engine, "send", lambda *_args, **_kwargs: None)
    world.take(world.queue.pop(0), replace(TIMING, holds_at_once=1))
    assert NAMES[2] not in held(world) and NAMES[3] not in held(world)
    outcomes = {i.workflow.node.name: i.outcome for i in Intent.objects.select_related("workflow__node")}
    assert outcomes[NAMES[2]] == outcomes[NAMES[3]] == "refused"
    assert [again(workflow).verb for workflow in workflows[2:4]] == ["hold", "hold"]


def test_a_stale_message_does_nothing(world: World) -> None:
    workflows = granted(world)
    Workflow.objects.filter(pk=workflows[0].pk).update(version=F("version") + 1)
    deliver(world)
    assert held(world) == list(NAMES[1:])
    assert not Intent.objects.filter(workflow=workflows[0]).exists()


def test_the_same_message_twice_holds_once(world: World) -> None:
    granted(world)
    message = world.queue[0]
    deliver(world)
    world.take(message, AT_ONCE)
    assert len(world.writes) == Intent.objects.count() == len(NAMES)


def people_cordoned(world: World, name: str) -> str:
    world.change(name, unschedulable=True)
    return "held"


def holds_of_others(world: World, name: str) -> str:
    world.change(name, annotations={HOLD_ANNOTATION: "another/1"})
    return "foreign_hold"


def goes(world: World, name: str) -> str:
    world.change(name, deleting=True)
    return "cancelled"


def is_another(world: World, name: str) -> str:
    world.change(name, uid="another")
    return "cancelled"


def has_no_claim(world: World, name: str) -> str:
    Claim.objects.filter(node_id=Workflow.objects.get(node__name=name).node_id).delete()
    return "asking"


@pytest.mark.parametrize("odd", [people_cordoned, holds_of_others, goes, is_another, has_no_claim])
def test_one_that_is_not_plain_goes_by_itself_and_the_others_are_held(
    world: World, odd: Callable[[World, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = granted(world)[2]
    wanted = odd(world, NAMES[2])
    monkeypatch.setattr(grants, "run", lambda *_args, **_kwargs: 0)
    deliver(world)
    row = again(workflow)
    assert wanted in (row.blocked_code, row.state, state_of(NAMES[2]))
    assert [name for name in held(world) if name != NAMES[2]] == [name for name in NAMES if name != NAMES[2]]
    if wanted == "held":
        assert Step.objects.get(workflow=workflow).memo["foreign"] is True, "its cordon stays when we leave"


def test_one_whose_answer_is_bad_waits_and_the_others_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    workflows = granted(world)
    real = world.hold

    def hold(request: HoldRequest) -> NodeSeen:
        if request.node == NAMES[1]:
            raise TemporaryError("the server is busy", code="busy", retry_after=7.0)
        return real(request)

    monkeypatch.setattr(world, "hold", hold)
    deliver(world)
    assert again(workflows[1]).blocked_code == "busy" and len(held(world)) == len(NAMES) - 1
    monkeypatch.setattr(world, "hold", real)
    assert world.run(30, lambda: len(held(world)) == len(NAMES))


def test_a_node_that_changed_while_it_was_held_is_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    granted(world)
    real = world.hold
    changed: list[NodeSeen] = []

    def hold(request: HoldRequest) -> NodeSeen:
        if request.node == NAMES[4] and not changed:
            changed.append(world.change(NAMES[4], labels={"heartbeat": "1"}))
        return real(request)

    monkeypatch.setattr(world, "hold", hold)
    deliver(world)
    assert held(world) == list(NAMES) or world.run(5, lambda: held(world) == list(NAMES))
    assert sorted(Intent.objects.filter(workflow__node__name=NAMES[4]).values_list("outcome", flat=True)) == [
        "done",
        "refused",
    ]


@pytest.mark.parametrize("place", ["before hold", "after hold"])
def test_what_a_crash_left_is_taken_up_by_the_lease(world: World, place: str) -> None:
    """The process dies at the third patch: two nodes are held and recorded nowhere, three not even asked."""
    granted(world)
    visits: list[str] = []

    def crash(at: str) -> None:
        visits.append(at)
        if at == place and visits.count(at) == 3:
            raise Crash(at)

    world.crash = crash
    with pytest.raises(Crash):
        world.take(world.queue.pop(0), replace(TIMING, holds_at_once=1))
    world.queue.clear()
    assert Intent.objects.count() == len(NAMES), "every intent stood before the first patch"
    assert world.run(30, lambda: {state_of(name) for name in NAMES}.isdisjoint({"in_service"}))
    holds: list[Any] = [write for write in world.writes if write.startswith("hold ")]
    assert len(holds) == len(NAMES), "none was patched twice"
