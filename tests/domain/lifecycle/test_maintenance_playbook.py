"""Planned maintenance by a playbook: its steps as they were agreed to, on the nodes that it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fleet.inventory.models import Node, Pool
from fleet.lifecycle import asked, bulk, bulk_foresee, maintenance, services, shelf
from fleet.lifecycle.asked import Unknown
from fleet.lifecycle.maintenance_pace import Pace
from fleet.lifecycle.models import Batch, BatchNode, Workflow
from fleet.lifecycle.playbook_file import parse
from fleet.lifecycle.playbooks import Book, Playbook
from fleet.tickets.models import Ticket
from tests.domain.lifecycle.conftest import Build
from tests.domain.lifecycle.test_bulk import NODES, anew, drawn, go, members, running
from tests.domain.lifecycle.test_maintenance import window
from tests.domain.lifecycle.world import World

SITE = """
version: 1
playbooks:
  - name: firmware-night
    match: {action: [reboot_node], pool_kind: [bare_metal], sku: ["*H100*"]}
    attempts: 2
    steps:
      [hold, drain: {deadline: 2h, at_deadline: ask}, reboot: {ladder: [reboot, power_cycle]}, validate, soak, return]
"""
Put = Callable[[str], None]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Puts a site's file in force."""

    def into_force(text: str) -> None:
        found = Book(shelf.merged(parse(text, "site.yaml")))
        monkeypatch.setattr(shelf, "book", lambda: found)

    into_force(SITE)
    return into_force


@pytest.fixture
def world(build: Build, put: Put) -> World:
    return build(*NODES, gpu_model="NVIDIA H100 80GB")


def of(name: str) -> Playbook:
    found = shelf.book().named(name)
    assert found is not None
    return found


def test_it_rolls_through_its_nodes_by_the_steps_of_the_playbook(world: World) -> None:
    batch = running(world, "", playbook="firmware-night", pace=Pace(at_once=2, window=window(world)))
    assert go(world, batch, 1500).text == "6 done."
    made = Workflow.objects.filter(batch_members__batch=batch)
    assert {(w.playbook, w.attempts) for w in made} == {("firmware-night", 2)}
    assert [step["verb"] for step in made[0].plan] == ["hold", "drain", "reboot", "validate", "soak", "return"]
    assert made[0].plan[1]["deadline"] == 7200 and sorted(name for name, _ in world.resets) == sorted(NODES)


def test_its_ladder_is_climbed_as_the_playbook_says_and_was_agreed_to_as_a_whole(world: World) -> None:
    world.job_result = "failed"
    batch = running(world, "", playbook="firmware-night", names=(NODES[0],))
    assert go(world, batch, 3000).text == "1 failed."
    workflow = Workflow.objects.get()
    assert (workflow.plan[2]["verb"], workflow.attempt) == ("power_cycle", 2)
    assert "approval" not in workflow.blocked_code and members(batch, BatchNode.FAILED) == [NODES[0]]


def test_a_book_that_changes_after_the_list_was_made_changes_nothing_of_it(world: World, put: Put) -> None:
    batch = running(world, "", playbook="firmware-night", names=(NODES[0],))
    put(SITE.replace("reboot: {ladder: [reboot, power_cycle]}", "power_cycle").replace("attempts: 2", "attempts: 1"))
    assert go(world, batch, 900).state == Batch.DONE
    assert "reboot" in [step["verb"] for step in Workflow.objects.get().plan]


def test_another_text_is_another_version_and_another_list(world: World) -> None:
    first = drawn(world, "", playbook="firmware-night")
    playbook = of("firmware-night")
    assert replace(playbook, title="x", source="y").version == playbook.version
    assert replace(playbook, attempts=3).version != playbook.version
    assert bulk.named_of(first) == f"firmware-night@{playbook.version}"
    assert first.plan_hash != drawn(world, "", playbook="reboot").plan_hash != drawn(world, "reboot").plan_hash
    assert drawn(world, "", playbook=f"firmware-night@{playbook.version}").plan_hash == first.plan_hash


def test_what_was_agreed_to_is_what_runs(world: World) -> None:
    batch = running(world, "", playbook="firmware-night", names=(NODES[0],))
    kept = batch.playbook
    assert kept is not None
    Batch.objects.filter(pk=batch.pk).update(playbook={**kept, "attempts": 5})
    maintenance.sweep(world.clock)
    assert (anew(batch).state, anew(batch).text) == ("paused", "It is not the list that was approved.")
    assert not Workflow.objects.exists()


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("firmware-noon", "There is no playbook firmware-noon; there are firmware-night, "),
        ("firmware-night@0badc0de", "in force is"),
        ("lost", "fences a host that is gone"),
        ("@", "There is no playbook ;"),
    ],
)
def test_what_the_book_does_not_have_is_refused(world: World, named: str, said: str) -> None:
    with pytest.raises(bulk.Refused, match=said):
        drawn(world, "", playbook=named)


@pytest.mark.parametrize(("action", "playbook"), [("", ""), ("reboot", "firmware-night")])
def test_it_is_either_an_action_or_a_playbook(world: World, action: str, playbook: str) -> None:
    with pytest.raises(bulk.Refused, match="Either an action or a playbook"):
        drawn(world, action, playbook=playbook)


def test_nodes_that_it_is_not_for_are_refused_one_by_one(world: World) -> None:
    spot = Pool.objects.create(cluster=world.cluster, name="spot", kind="spot")
    Node.objects.filter(name=NODES[0]).update(gpu_model="NVIDIA A100")
    Node.objects.filter(name=NODES[1]).update(pool=spot)
    batch = running(world, "", playbook="firmware-night", names=NODES[:3])
    maintenance.sweep(world.clock)
    refused = {member.node.name: member.text for member in batch.members.filter(state=BatchNode.REFUSED)}
    assert refused[NODES[0]] == "The playbook firmware-night is not for this pool, kind of pool or SKU."
    assert refused[NODES[1]] == "The pool is spot: no BMC verb off metal."
    assert members(batch, BatchNode.BEGUN) == [NODES[2]]
    nodes = list(Node.objects.select_related("cluster", "pool").filter(name=NODES[0]))
    seen = bulk_foresee.foresee(world.cluster, nodes, bulk.asked_of(batch), world.clock.now())
    assert seen[0].answer == "refused"


def test_who_must_agree_is_asked_for_every_rung(world: World) -> None:
    plan = asked.of_playbook("reset-gpu", shelf.book(), provisioned=True)
    assert plan.verbs[2:6] == ("reset_gpu", "reboot", "power_cycle", "reprovision")
    assert plan.kinds == ["bmc_power", "reprovision"]
    without = asked.of_playbook("reset-gpu", shelf.book(), provisioned=False)
    assert "reprovision" not in without.verbs and without.attempts == plan.attempts - 1


def test_what_is_kept_of_a_playbook_comes_back_as_it_was(world: World) -> None:
    for playbook in shelf.book().playbooks:
        try:
            plan = asked.of_playbook(playbook.name, shelf.book(), provisioned=True)
        except Unknown:
            continue
        assert asked.again(plan.action, asked.kept(plan)) == plan


def test_a_playbook_for_people_waits_for_their_ticket_and_has_not_failed(world: World) -> None:
    batch = running(world, "", playbook="repair", names=(NODES[0],), pace=Pace(at_once=1, stop_after=1))
    for _ in range(30):
        maintenance.sweep(world.clock)
        world.run(10)
    assert Workflow.objects.get().state == "repair" and anew(batch).state == Batch.RUNNING
    assert members(batch, BatchNode.BEGUN) == [NODES[0]]
    services.close_ticket(Ticket.objects.get().pk, "bo", "exchanged", world.clock.now())
    assert go(world, batch, 900).state == Batch.DONE
