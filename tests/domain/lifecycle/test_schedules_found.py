"""Schedules that once broke an invariant, each as the kind of thing that it was."""

from __future__ import annotations

import pytest

from fleet.lifecycle.models import Workflow
from fleet.policy.models import Cap
from tests.domain.lifecycle.story import Story, a_story
from tests.domain.lifecycle.test_schedules import Schedules

pytestmark = pytest.mark.django_db
HOLD_POINTS = (2, 7, 12, 17, 24)


def through(story: Story, name: str) -> None:
    story.fault(name)
    story.live(3)


def test_a_cordon_that_comes_while_we_put_ours_stays_its_owners() -> None:
    """At whichever point of the hold a person cordons, that cordon is never taken off by us."""
    for points in HOLD_POINTS:
        with a_story(1) as story:
            story.meanwhile(points, lambda story=story: story.cordon("n1"))  # type: ignore[misc]
            through(story, "n1")
            story.live(150)
            assert story.storm.nodes["n1"].unschedulable == ("n1" in story.storm.oracle.cordoned), points


def test_an_uncordon_right_after_the_hold_is_never_undone() -> None:
    """At whichever point after the patch we die, a person's uncordon stands."""
    for points in HOLD_POINTS:
        with a_story(1) as story:
            story.crash(points)
            through(story, "n1")
            if not story.storm.nodes["n1"].unschedulable:
                continue
            story.uncordon("n1")
            story.live(60)
            held = [write for write in story.storm.writes if write.startswith("hold")]
            assert len(held) == 1 and not story.storm.nodes["n1"].unschedulable, points


@pytest.mark.parametrize("points", [20, 29, 38, 60])
@pytest.mark.parametrize("halt", ["trip", "stop"])
def test_those_that_were_out_when_all_was_halted_go_on_one_after_the_other(halt: str, points: int) -> None:
    """Fewer may be out afterwards than are: if each waited for the others, none would ever return."""
    with a_story(4) as story:
        story.fault("n1")
        story.fault("n4")
        story.live(10)
        story.meanwhile(points, story.trip if halt == "trip" else lambda: story.stop(True))
        story.live(170)
        Cap.objects.filter(kind="take_out", scope="fleet").update(absolute=1, percent=None)
        story.finish(hours=2)


@pytest.mark.django_db
def test_two_that_reboot_when_the_mode_is_lowered_both_go_on_when_it_is_raised() -> None:
    """Half-open lets one begin; whoever has begun looks at what came of it, and waits for nobody."""
    with a_story() as story:
        for name in ("n1", "n4"):
            story.fault(name)
        story.live(35)
        assert len(story.storm.resets) == 2, "both are to be under way"
        story.mode("observe")
        story.live(12)
        story.mode("automate")
        story.finish()


def test_a_test_after_a_reset_is_the_later_one_although_the_clock_was_set_back_between_them() -> None:
    drawn = Schedules()
    with drawn.stack:
        drawn.clock(seconds=-900)
        drawn.clock(seconds=-900)
        drawn.cap(kind="hold", most=1)
        drawn.site(what="go")
        drawn.cap(kind="hold", most=1)
        drawn.clock(seconds=-900)
        drawn.clock(seconds=-900)
        oracle = drawn.story.storm.oracle
        assert oracle.tested_at["n1"] > oracle.reset_at["n1"]


def test_a_dead_host_and_those_that_are_held_do_not_wait_for_each_other() -> None:
    """It is out, so they may not be drained; they fill the cap of holds, so it could not be held."""
    with a_story() as story:
        Cap.objects.filter(kind="hold").update(absolute=2, percent=None)
        Cap.objects.filter(kind="take_out").update(absolute=1, percent=None)
        story.storm.change("n3", ready=None)
        story.live(5)
        for name in ("n1", "n2"):
            story.fault(name)
        story.live(10)
        waiting = Workflow.objects.filter(blocked_code="cap_take_out").values_list("node__name", flat=True)
        assert set(waiting) == {"n1", "n2"}
        story.fault("n3", "fence_node")
        story.finish()
        healed = Workflow.objects.get(node__name="n3")
        assert healed.state == "succeeded", (healed.state, healed.blocked_text)
