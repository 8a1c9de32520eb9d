"""At every side effect a call fails before, dies after, loses its answer, answers late or lies: nothing is done twice.

Power calls, resets of GPUs and installations that took effect are counted by the fake machines. `MUSTER_EFFECTS` sets
how many nodes are run, a whole fleet a story; `MUSTER_SEED` begins with the story that a failure names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pytest

from tests.domain.lifecycle.healing import POWER, healed
from tests.domain.lifecycle.installing import REPROVISION
from tests.domain.lifecycle.oracle import RESET_GPU, Violation
from tests.domain.lifecycle.planted import BUGS, Bug
from tests.domain.lifecycle.story import FLEET
from tests.labs.tally import rounds, told

pytestmark = pytest.mark.django_db
FOUND_BLINDLY = {
    "the intent is written after the act": POWER,
    "a reset without an answer is sent again unseen": POWER,
    "the claim ends before the boot is proved": POWER,
    "a GPU reset without an answer is asked for again unseen": (RESET_GPU,),
    "an installation without an answer is asked for again unseen": (REPROVISION,),
    "a pod is evicted without an intent": (REPROVISION,),
}
"""Bug -> the remedies of which one shows it."""
SEED, SEEDS, FEW = 4, 8, 5


@pytest.mark.parametrize("remedy", [POWER, (RESET_GPU,), (REPROVISION,)], ids=lambda of: of[0])
def test_calls_gone_wrong_and_crashes_repeat_nothing_of_any_remedy(remedy: Sequence[str]) -> None:
    """A few nodes for each, so that none is left to chance."""
    healed(SEED, FEW, remedy)


def test_many_calls_gone_wrong_and_crashes_repeat_nothing() -> None:
    for seed, _ in rounds("MUSTER_EFFECTS", len(FLEET), each=len(FLEET)):
        try:
            took = healed(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        told("effects", runs=len(FLEET), **asdict(took))


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.name in FOUND_BLINDLY], ids=lambda bug: bug.name)
def test_calls_that_go_wrong_by_chance_find_a_planted_bug(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody shows the way here: whoever draws must come upon it. The other bugs need people or caps."""
    bug.plant(monkeypatch)
    with pytest.raises(Violation):
        for seed in range(SEEDS):
            healed(seed, FEW, FOUND_BLINDLY[bug.name])
