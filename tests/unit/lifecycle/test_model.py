"""No schedule over the pure core passes a limit, skips a proof, climbs down a ladder or grants what is not agreed.

`MUSTER_CORE_SCHEDULES` sets how many; `make soak` runs a hundred thousand.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.labs.tally import rounds, told
from tests.unit.lifecycle.model import NODES, Model

NODE = st.integers(0, NODES - 1)
ACTIONS = st.sampled_from(["reboot_node", "reset_gpu", "fence_node", "replace_part"])


class Core(RuleBasedStateMachine):
    """Three faults to begin with; everybody is answered after each rule."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        for number in (0, 1, 5):
            self.model.fault(number, "reboot_node", approval=False)

    @rule(number=NODE, action=ACTIONS, approval=st.booleans())
    def fault(self, number: int, action: str, approval: bool) -> None:
        self.model.fault(number, action, approval)
        self.model.grant()

    @rule(number=NODE, works=st.booleans(), again=st.booleans())
    def act(self, number: int, works: bool, again: bool) -> None:
        self.model.act(number, works, again)
        self.model.grant()

    @rule(rounds=st.integers(1, 4))
    def all_act(self, rounds: int) -> None:
        for _ in range(rounds):
            for number in range(NODES):
                self.model.act(number, works=True)
            self.model.time(30)
            self.model.grant()

    @rule(seconds=st.sampled_from([-600, 5, 60, 600, 3600]))
    def time(self, seconds: float) -> None:
        self.model.time(seconds)
        self.model.grant()

    @rule(number=NODE, on=st.booleans(), what=st.sampled_from(["cordon", "unknown", "empty"]))
    def node(self, number: int, on: bool, what: str) -> None:
        getattr(self.model, what)(number, on)
        self.model.grant()

    @rule(index=st.integers(0, 7), most=st.integers(0, 6))
    def cap(self, index: int, most: int) -> None:
        self.model.cap(index, most)
        self.model.grant()

    @rule(on=st.booleans(), what=st.sampled_from(["stop", "close", "freeze"]), minutes=st.integers(2, 600))
    def site(self, on: bool, what: str, minutes: int) -> None:
        if what == "stop":
            self.model.stop(on)
        elif what == "close":
            self.model.close_breaker()
        else:
            self.model.freeze(on, minutes)
        self.model.grant()

    @rule(number=NODE, person=st.sampled_from(["ann", "bo", "cho"]), yes=st.booleans())
    def vote(self, number: int, person: str, yes: bool) -> None:
        self.model.vote(number, person, yes)
        self.model.grant()

    @rule(number=NODE, what=st.sampled_from(["abort", "edit"]))
    def person(self, number: int, what: str) -> None:
        getattr(self.model, what)(number)
        self.model.grant()

    @invariant()
    def holds(self) -> None:
        self.model.look()

    def teardown(self) -> None:
        told("core", grants=self.model.granted)


def test_no_schedule_over_the_pure_core_breaks_an_invariant() -> None:
    for seed, count in rounds("MUSTER_CORE_SCHEDULES", 150, each=1000):
        run_state_machine_as_test(
            seeded(seed)(Core),
            settings=settings(
                max_examples=count,
                stateful_step_count=20,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
            ),
        )
