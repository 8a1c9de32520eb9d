"""No sequence of other owners' acts makes us begin beside them, undo what is theirs, or wait for nobody by name."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from fleet.policy.models import Cap
from tests.domain.lifecycle import story as stories
from tests.domain.lifecycle.neighbours import Neighbours
from tests.domain.lifecycle.oracle import Violation
from tests.domain.lifecycle.story import NODES, Story, a_story

NAMES = st.sampled_from(list(NODES))
ACTS = (
    "upgrade", "upgrade", "quarantine", "drain_by_other", "request", "kured", "taint", "recreate", "cordon", "uncordon",
)  # fmt: skip
MOODS = ("before", "lost", "error_after", "crash_before", "crash_after")  # an API server does not lie
CALLS = ("hold", "release", "uncordon", "evict", "power", "job")


class Beside(RuleBasedStateMachine):
    """One sequence. Time passes after every rule, so that each act meets an engine at work."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(stories, "Storm", Neighbours)
        self.story: Story = self.stack.enter_context(a_story())
        Cap.objects.filter(kind="rate").delete()  # of nodes that stay; here they come and go
        for name in ("n1", "n4"):
            self.story.fault(name)

    @property
    def near(self) -> Neighbours:
        assert isinstance(self.story.storm, Neighbours)
        return self.story.storm

    def act(self, name: str, what: str) -> None:
        if name in self.near.nodes:
            getattr(self.near, what)(name)

    def live(self, seconds: float) -> None:
        self.story.live(seconds)
        self.near.look()

    @rule(name=NAMES, action=st.sampled_from(["reboot_node", "reboot_node", "replace_part"]))
    def fault(self, name: str, action: str) -> None:
        self.story.anyhow(lambda: self.story.fault(name, action))
        self.live(5)

    @rule(name=NAMES, what=st.sampled_from(ACTS), seconds=st.sampled_from([2, 25]))
    def other(self, name: str, what: str, seconds: float) -> None:
        self.act(name, what)
        self.live(seconds)

    @rule(points=st.integers(1, 90), name=NAMES, what=st.sampled_from(ACTS))
    def other_meanwhile(self, points: int, name: str, what: str) -> None:
        self.story.meanwhile(points, lambda: self.act(name, what))
        self.live(15)

    @rule(seconds=st.sampled_from([10, 60, 400]))
    def wait(self, seconds: float) -> None:
        self.live(seconds)

    @rule(points=st.integers(1, 90))
    def crash(self, points: int) -> None:
        self.story.crash(points)
        self.live(15)

    @rule(kind=st.sampled_from(CALLS), mood=st.sampled_from(MOODS))
    def go_wrong(self, kind: str, mood: str) -> None:
        self.story.go_wrong(kind, mood)
        self.live(20)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name != "n1":
            self.story.anyhow(lambda: self.story.vanish(name))
        self.live(10)

    @rule(on=st.booleans())
    def stale_rows(self, on: bool) -> None:
        self.story.blind(on)

    def teardown(self) -> None:
        try:
            if getattr(self, "story", None) is not None:
                self.near.planned.clear()
                self.near.all_leave()
                self.story.finish()
        finally:
            self.stack.close()


@pytest.mark.django_db
def test_no_sequence_of_other_owners_acts_is_worked_against() -> None:
    run_state_machine_as_test(
        Beside,
        settings=settings(
            max_examples=int(os.environ.get("MUSTER_SCHEDULES", "3")),
            stateful_step_count=12,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            print_blob=True,
        ),
    )


@pytest.mark.django_db
@pytest.mark.parametrize("what", ["upgrade", "request", "kured", "quarantine"])
def test_the_judge_sees_who_begins_beside_an_owner(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the last look switched off the judge must object, or it judges nothing."""
    from fleet.lifecycle import owners

    monkeypatch.setattr(stories, "Storm", Neighbours)
    monkeypatch.setattr(owners, "in_the_way", lambda found: None)
    with a_story() as story:
        near = story.storm
        assert isinstance(near, Neighbours)
        for doing in {"upgrade": ["upgrade", "upgrade"], "quarantine": ["quarantine", "drain_by_other"]}.get(
            what, [what]
        ):
            getattr(near, doing)("n1")
        story.fault("n1")
        story.live(10)
        with pytest.raises(Violation, match="began on n1 beside"):
            near.look()
