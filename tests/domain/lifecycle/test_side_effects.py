"""At every side effect a call fails before, dies after, loses its answer, answers late or lies: nothing is done twice.

Resets, power-offs and power-ons that took effect are counted by the fake world. `MUSTER_EFFECTS` sets how many nodes
are run, a whole fleet a story; `MUSTER_SEED` begins with the story that a failure names.
"""

from __future__ import annotations

import pytest

from tests.domain.lifecycle.healing import healed
from tests.domain.lifecycle.oracle import Violation
from tests.domain.lifecycle.planted import BUGS, Bug
from tests.domain.lifecycle.story import FLEET
from tests.labs.tally import rounds, told

pytestmark = pytest.mark.django_db
FOUND_BLINDLY = (
    "the intent is written after the act", "a reset without an answer is sent again unseen",
    "the claim ends before the boot is proved",
)  # fmt: skip
SEEDS, FEW = 8, 5


def test_many_calls_gone_wrong_and_crashes_repeat_nothing() -> None:
    for seed, _ in rounds("MUSTER_EFFECTS", len(FLEET), each=len(FLEET)):
        try:
            powers = healed(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        told("effects", runs=len(FLEET), powers=powers)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.name in FOUND_BLINDLY], ids=lambda bug: bug.name)
def test_calls_that_go_wrong_by_chance_find_a_planted_bug(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody shows the way here: whoever draws must come upon it. The other bugs need people or caps."""
    bug.plant(monkeypatch)
    with pytest.raises(Violation):
        for seed in range(SEEDS):
            healed(seed, FEW)
