"""Planned maintenance: inside its window, at its pace, stopping when it hurts, and going on after a restart."""

from __future__ import annotations

from datetime import UTC, time
from typing import Any

import pytest

from fleet.inventory.models import Node
from fleet.lifecycle import bulk, maintenance
from fleet.lifecycle.maintenance_pace import Pace
from fleet.lifecycle.models import Batch, BatchNode, Workflow
from fleet.policy.models import Cap
from fleet.policy.windows import OPENING, Window
from tests.domain.lifecycle.conftest import Build
from tests.domain.lifecycle.test_bulk import NODES, anew, drawn, go, members, running
from tests.domain.lifecycle.world import World

EVERY_DAY = frozenset(range(1, 8))


@pytest.fixture
def world(build: Build) -> World:
    return build(*NODES)


def window(world: World, opens_in: int = 0, minutes: int = 60, **fields: Any) -> Window:
    """In Seoul's time, opening so many seconds from now."""
    from datetime import timedelta
    from zoneinfo import ZoneInfo

    at = (world.clock.now() + timedelta(seconds=opens_in)).astimezone(ZoneInfo("Asia/Seoul"))
    return Window(OPENING, "night", "Asia/Seoul", EVERY_DAY, time(at.hour, at.minute), minutes, **fields)


def test_it_rolls_through_its_nodes_at_its_pace_and_no_faster(world: World) -> None:
    batch = running(world, pace=Pace(at_once=1, window=window(world)))
    most = 0
    for _ in range(120):
        maintenance.sweep(world.clock)
        most = max(most, len(members(batch, BatchNode.BEGUN)))
        if anew(batch).state == Batch.DONE:
            break
        world.run(10)
    assert anew(batch).text == "6 done." and most == 1 and world.rebooting_most == 1


def test_nothing_begins_before_the_window_opens_and_the_page_can_say_when(world: World) -> None:
    batch = running(world, pace=Pace(window=window(world, opens_in=1800)))
    maintenance.sweep(world.clock)
    waiting = anew(batch)
    assert "it opens 2026-11-29 12:30 Asia/Seoul" in waiting.text and waiting.until is not None
    assert waiting.until.astimezone(UTC) == world.clock.now().replace(minute=30, second=0)
    assert {member.code for member in batch.members.all()} == {"window"} and not Workflow.objects.exists()
    world.clock.tick(1800)
    assert go(world, batch, 900).state == Batch.DONE


def test_a_window_that_closes_lets_what_began_end_and_begins_the_rest_the_next_day(world: World) -> None:
    batch = running(world, pace=Pace(at_once=1, window=window(world, minutes=1)))
    maintenance.sweep(world.clock)
    for _ in range(18):
        world.run(10)
        maintenance.sweep(world.clock)
    done = members(batch, BatchNode.DONE)
    assert done and members(batch, BatchNode.BEGUN) == [] and len(members(batch, BatchNode.PENDING)) == 6 - len(done)
    assert "it opens 2026-11-30" in anew(batch).text
    world.clock.tick(24 * 3600 - 180)
    maintenance.sweep(world.clock)
    assert members(batch, BatchNode.BEGUN) == [NODES[len(done)]]


def test_failures_pause_it_and_a_person_lets_it_go_on(world: World) -> None:
    Cap.objects.filter(kind="take_out").delete()  # those that failed are out, and would keep the others waiting
    world.bmc[NODES[0]] = world.bmc[NODES[1]] = "wrong_serial"
    batch = running(world, pace=Pace(at_once=2, stop_after=2))
    batch = go(world, batch, 1200, Batch.PAUSED)
    assert batch.state == Batch.PAUSED, batch.text
    assert batch.text.startswith("2 nodes failed, and 2 stop it")
    begun = Workflow.objects.count()
    world.run(60)
    maintenance.sweep(world.clock)
    assert Workflow.objects.count() == begun
    bulk.resume(batch.pk, "bo", world.clock.now())
    done = go(world, batch, 1200)
    assert done.state == Batch.DONE and len(members(done, BatchNode.DONE)) == 4


def test_a_node_that_runs_a_gang_waits_for_its_end_while_others_go(world: World) -> None:
    Node.objects.filter(name=NODES[0]).update(gang="train/llm")
    batch = running(world, pace=Pace(at_once=1), spare_jobs=True)
    maintenance.sweep(world.clock)
    first = batch.members.get(node__name=NODES[0])
    assert (first.state, first.text) == ("pending", "Waits until the gang train/llm has ended.")
    assert members(batch, BatchNode.BEGUN) == [NODES[1]]
    Node.objects.filter(name=NODES[0]).update(gang="")
    assert go(world, batch, 1500).state == Batch.DONE


def test_a_worker_that_died_between_two_turns_loses_and_repeats_nothing(world: World) -> None:
    batch = running(world, pace=Pace(at_once=2))
    maintenance.sweep(world.clock)
    world.queue.clear()  # the messages died with the worker
    assert go(world, batch, 1200).state == Batch.DONE
    assert sorted(name for name, _ in world.resets) == sorted(NODES)


def test_a_window_that_cannot_be_is_refused(world: World) -> None:
    nowhere = Window(OPENING, "night", "Mars/Olympus", EVERY_DAY, time(2), 60)
    with pytest.raises(bulk.Refused, match="no time zone"):
        drawn(world, pace=Pace(window=nowhere))


def test_what_was_planned_comes_back_as_it_was(world: World) -> None:
    given = window(world, opens_in=600, begins=world.clock.now())
    batch = anew(drawn(world, pace=Pace(3, 2, given)))
    kept = bulk.pace_of(batch)
    assert (kept.at_once, kept.stop_after) == (3, 2) and kept.window is not None
    assert (kept.window.spans(world.clock.now()), kept.window.zone) == (given.spans(world.clock.now()), "Asia/Seoul")
    assert batch.label.startswith("MW-")
