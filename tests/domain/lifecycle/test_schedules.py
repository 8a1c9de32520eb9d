"""No schedule of faults, crashes, repeats, stale reads, people and clocks breaks an invariant.

Hypothesis draws the schedule; the oracle judges every call and every grant by counting for itself; at the end the
weather clears and everything must end. `MUSTER_SCHEDULES` sets how many, `make soak` runs thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.domain.lifecycle.storm import MOODS
from tests.domain.lifecycle.story import NODES, PEOPLE, Story, a_story
from tests.labs.tally import rounds, told

NAMES = st.sampled_from(list(NODES))
POINTS = st.integers(1, 90)
CALLS = ("hold", "release", "uncordon", "evict", "power", "job", "fence", "unfence", "observe")
PERSON = ("cordon", "uncordon", "abort", "skip", "retry", "clear", "edit", "reject", "fault", "unknown", "known")
SITE = ("stop", "trip", "freeze", "observe", "pause", "duplicate", "lower")
Doing = Callable[[], None]


class Schedules(RuleBasedStateMachine):
    """One schedule. Time passes after every rule, so that each is met by an engine at work."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.story: Story = self.stack.enter_context(a_story())
        for name in ("n1", "n4"):
            self.story.fault(name)

    def of(self, what: str, name: str) -> Doing:
        story = self.story
        return lambda: getattr(story, what)(name)

    def on_site(self, what: str) -> Doing:
        story = self.story
        return {
            "stop": lambda: story.stop(True),
            "trip": story.trip,
            "freeze": lambda: story.freeze(120),
            "observe": lambda: story.mode("observe"),
            "pause": story.pause,
            "duplicate": story.again,
            "lower": lambda: story.cap("in_flight", 1),
        }[what]

    @rule(name=NAMES, action=st.sampled_from(["reboot_node", "reboot_node", "fence_node", "replace_part"]))
    def fault(self, name: str, action: str) -> None:
        self.story.anyhow(lambda: self.story.fault(name, action))
        self.story.live(5)

    @rule(seconds=st.sampled_from([1, 10, 40, 150, 700]))
    def wait(self, seconds: float) -> None:
        self.story.live(seconds)

    @rule(points=POINTS, seconds=st.sampled_from([5, 30]))
    def crash(self, points: int, seconds: float) -> None:
        self.story.crash(points)
        self.story.live(seconds)

    @rule(kind=st.sampled_from(CALLS), mood=st.sampled_from(MOODS))
    def go_wrong(self, kind: str, mood: str) -> None:
        self.story.go_wrong(kind, mood)
        self.story.live(20)

    @rule(name=NAMES, what=st.sampled_from(PERSON))
    def someone(self, name: str, what: str) -> None:
        self.story.anyhow(self.of(what, name))
        self.story.live(3)

    @rule(points=POINTS, name=NAMES, what=st.sampled_from(PERSON))
    def someone_meanwhile(self, points: int, name: str, what: str) -> None:
        self.story.meanwhile(points, self.of(what, name))
        self.story.live(12)

    @rule(points=POINTS, what=st.sampled_from(SITE))
    def something_meanwhile(self, points: int, what: str) -> None:
        self.story.meanwhile(points, self.on_site(what))
        self.story.live(12)

    @rule(name=NAMES, person=st.sampled_from(PEOPLE), also=st.sampled_from(["", "ann", "bo"]))
    def ask(self, name: str, person: str, also: str) -> None:
        self.story.anyhow(lambda: self.story.ask_reboot(name, person))
        if also:
            self.story.anyhow(lambda: self.story.approve(name, also))
        self.story.live(20)

    @rule(what=st.sampled_from(["stop", "go", "observe", "recommend", "automate", "trip", "close", "freeze", "again"]))
    def site(self, what: str) -> None:
        story = self.story
        doing: dict[str, Doing] = {
            "stop": lambda: story.stop(True),
            "go": lambda: story.stop(False),
            "trip": story.trip,
            "close": story.reset_breaker,
            "freeze": lambda: story.freeze(200),
            "again": story.again,
        }
        story.anyhow(doing.get(what) or (lambda: story.mode(what)))
        story.live(12)

    @rule(kind=st.sampled_from(["hold", "take_out", "in_flight"]), most=st.integers(1, 3))
    def cap(self, kind: str, most: int) -> None:
        self.story.cap(kind, most)
        self.story.live(5)

    @rule(seconds=st.sampled_from([-900, -30, 30, 3600]))
    def clock(self, seconds: float) -> None:
        self.story.jump(seconds)
        self.story.live(5)

    @rule(name=NAMES, how=st.sampled_from(["lies", "no_answer", "wrong_serial", ""]))
    def bmc(self, name: str, how: str) -> None:
        self.story.storm.bmc[name] = how
        self.story.live(20)

    @rule(name=NAMES, on=st.booleans())
    def budget(self, name: str, on: bool) -> None:
        self.story.storm.budgets = {f"p-{name}": "train/pdb"} if on else {}
        self.story.live(10)

    @rule(on=st.booleans())
    def stale_rows(self, on: bool) -> None:
        self.story.blind(on)

    @rule(name=NAMES, passes=st.booleans())
    def tests(self, name: str, passes: bool) -> None:
        self.story.storm.job_result = "succeeded" if passes else "failed"
        self.story.live(10)

    @rule(name=NAMES)
    def vanish(self, name: str) -> None:
        if name != "n1":
            self.story.anyhow(lambda: self.story.vanish(name))
        self.story.live(10)

    def teardown(self) -> None:
        try:
            if getattr(self, "story", None) is not None:
                self.story.storm.job_result = "succeeded"
                self.story.finish()
                told("postgres", crashes=self.story.storm.crashes, acts=self.story.storm.oracle.acts)
        finally:
            self.stack.close()


@pytest.mark.django_db
def test_no_schedule_breaks_an_invariant() -> None:
    for seed, count in rounds("MUSTER_SCHEDULES", 3, each=20):
        run_state_machine_as_test(
            seeded(seed)(Schedules),
            settings=settings(
                max_examples=count,
                stateful_step_count=8,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
                print_blob=True,
            ),
        )
