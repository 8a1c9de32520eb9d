"""At every side effect a call fails before, dies after, loses its answer, answers late or lies: nothing is done twice.

Each run is one fault that heals with up to three calls gone wrong and a crash somewhere; resets, power-offs and
power-ons that took effect are counted by the fake world. `MUSTER_EFFECTS` sets how many nodes are run.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.domain.lifecycle.storm import MOODS
from tests.domain.lifecycle.story import NODES, Story, a_story
from tests.labs.tally import told

pytestmark = pytest.mark.django_db
EFFECTS = ("hold", "evict", "power", "job", "uncordon", "fence", "unfence")


def heal(story: Story, names: tuple[str, ...], action: str) -> None:
    """Every node is ill and must end well; the oracle judges each call meanwhile."""
    for name in names:
        story.fault(name, action)
    story.live(60)
    story.finish()
    oracle = story.storm.oracle
    assert oracle.acts and all(count == 1 for count in oracle.power.values())
    assert not any(node.unschedulable or node.annotations for node in story.storm.nodes.values())


def test_many_calls_gone_wrong_and_crashes_repeat_nothing() -> None:
    """Five nodes a story; the seed is told with a failure."""
    runs, seed = int(os.environ.get("MUSTER_EFFECTS", "10")), int(os.environ.get("MUSTER_SEED", "1"))
    for number in range(runs // len(NODES)):
        rng = random.Random(f"{seed}/{number}")
        with a_story() as story:
            for _ in range(rng.randint(1, 8)):
                story.go_wrong(rng.choice(EFFECTS), rng.choice(MOODS))
            for _ in range(rng.randint(0, 3)):
                story.crash(rng.randint(1, 900))
            try:
                heal(story, tuple(NODES), rng.choice(["reboot_node", "reboot_node", "fence_node"]))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}/{number}: {error}") from error
            told("effects", runs=len(NODES), powers=sum(story.storm.oracle.power.values()))
