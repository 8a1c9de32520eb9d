"""The kill switch: once it is thrown nothing disruptive begins, wherever the engine stands at that moment."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from fleet.lifecycle import intents
from fleet.lifecycle.models import Intent, Step
from fleet.policy import services as policy
from fleet.policy.models import Switch
from fleet.ports.power import BmcTarget, PowerSeen
from tests.builders import T0, a_bmc, a_cluster, a_node, a_workflow
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World

NAME = "gpu-r01-01"


def throw(world: World) -> None:
    if not Switch.objects.filter(stopped=True).exists():
        policy.stop_all(stopped=True, by="minseo", reason="", now=world.clock.now())


@pytest.fixture
def world(build: Build) -> World:
    return build(NAME)


def test_between_the_last_look_and_the_reset(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guards said yes; reading the BMC took time, and in that time somebody threw the switch."""
    probe = world.observe

    def slow(target: BmcTarget, seconds: float) -> PowerSeen:
        seen = probe(target, seconds)
        throw(world)
        return seen

    monkeypatch.setattr(world, "observe", slow)
    workflow = fault(world, NAME)
    world.run(120)
    assert world.resets == [] and not Intent.objects.filter(verb="reset").exists()
    assert again(workflow).blocked_code == "stopped"
    policy.stop_all(stopped=False, by="minseo", reason="it was a drill", now=world.clock.now())
    monkeypatch.setattr(world, "observe", probe)
    assert world.run(400, lambda: again(workflow).state == "succeeded")
    assert len(world.resets) == 1


def test_what_was_sent_before_ends_safely(world: World) -> None:
    workflow = fault(world, NAME)
    assert world.run(60, lambda: bool(world.resets))
    throw(world)
    assert world.run(400, lambda: again(workflow).state == "succeeded"), "it boots, is tested and returns"
    assert len(world.resets) == 1 and state_of(NAME) == "in_service"


def test_a_second_stop_keeps_who_threw_it_and_may_say_why(world: World) -> None:
    throw(world)
    since = Switch.objects.get().since
    world.clock.tick(60)
    policy.stop_all(stopped=True, by="ann", reason="smoke in hall 2", now=world.clock.now())
    row = Switch.objects.get()
    assert (row.by, row.since, row.reason) == ("minseo", since, "smoke in hall 2")


@pytest.mark.django_db(transaction=True)
def test_an_act_that_is_being_written_down_is_before_the_stop_and_no_later_one_is() -> None:
    """The stop waits for intents whose transaction is open; when it has committed, none begins."""
    Switch.objects.update_or_create(pk=1, defaults={"stopped": False})
    node = a_node(a_cluster())
    bmc, workflow = a_bmc(node), a_workflow(node)
    step = Step.objects.create(workflow=workflow, index=0, attempt=1, verb="reboot", started_at=T0)
    order: list[str] = []

    def stop() -> None:
        try:
            policy.stop_all(stopped=True, by="minseo", reason="", now=T0)
            order.append("stopped")
        finally:
            connection.close()

    with transaction.atomic():
        intents.begin(workflow, step, "reset", "ForceRestart x", T0, bmc_id=bmc.pk)
        thread = threading.Thread(target=stop)
        thread.start()
        thread.join(0.5)
        order.append("written")
    thread.join(10)
    assert order == ["written", "stopped"]
    begin: Callable[[str, str], Intent] = lambda verb, target: intents.begin(workflow, step, verb, target, T0)  # noqa: E731
    for verb in intents.STOPPABLE:
        with pytest.raises(intents.Stopped, match="minseo"):
            begin(verb, "ForceOff x")
    assert begin("power", "On x").pk, "what is off may be powered on again"
    assert begin("release", node.name).pk
    assert Intent.objects.count() == 3
