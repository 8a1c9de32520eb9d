"""The next remedy is the gentlest that is not known to be in vain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.lifecycle.ladder import MIN_TRIES, Effect, first_rung, next_rung
from fleet.lifecycle.playbooks import REMEDIES

LADDERS = st.lists(st.sampled_from(REMEDIES), min_size=1, max_size=4, unique=True).map(
    lambda found: tuple(sorted(found, key=REMEDIES.index))
)
EFFECTS = st.dictionaries(
    st.sampled_from(REMEDIES),
    st.integers(0, 30).flatmap(lambda tries: st.integers(0, tries).map(lambda held: Effect(tries, held))),
)


def test_a_remedy_that_never_helped_is_passed_over_once_that_is_known() -> None:
    ladder = ("reset_gpu", "reboot", "power_cycle")
    assert first_rung(ladder, {}) == "reset_gpu"
    assert first_rung(ladder, {"reset_gpu": Effect(MIN_TRIES - 1, 0)}) == "reset_gpu"
    assert first_rung(ladder, {"reset_gpu": Effect(MIN_TRIES, 0)}) == "reboot"
    assert next_rung(ladder, "reset_gpu", {"reboot": Effect(40, 1)}) == "power_cycle"


@given(LADDERS, EFFECTS)
def test_the_ladder_is_never_climbed_down_and_never_left(ladder: tuple[str, ...], effects: dict[str, Effect]) -> None:
    rung = first_rung(ladder, effects)
    assert rung in ladder
    for _ in range(6):
        above = next_rung(ladder, rung, effects)
        assert above in ladder and ladder.index(above) >= ladder.index(rung)
        rung = above
    assert rung == ladder[-1], "enough failures lead to the last rung"
