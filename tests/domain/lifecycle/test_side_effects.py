"""At every side effect a call fails before, dies after, loses its answer, answers late or lies: nothing is done twice.

Each run is one fault that heals with one to three calls gone wrong and a crash somewhere; resets, power-offs and
power-ons that took effect are counted by the fake world. `MUSTER_EFFECTS` sets how many nodes are run.
"""

from __future__ import annotations

import random

import pytest

from fleet.policy.models import BreakerRule, Cap
from tests.domain.lifecycle.storm import MOODS
from tests.domain.lifecycle.story import FLEET, Story, a_story
from tests.labs.tally import rounds, told

pytestmark = pytest.mark.django_db
EFFECTS = ("hold", "evict", "power", "job", "uncordon", "fence", "unfence")


def heal(story: Story, names: tuple[str, ...], action: str) -> None:
    """Every node is ill and must end well; the oracle judges each call meanwhile.

    All at once, so that whatever goes wrong finds each of them in the middle of something.
    """
    Cap.objects.filter(kind__in=["rate", "floor"]).delete()
    Cap.objects.update(absolute=len(names), percent=None)
    BreakerRule.objects.update(enabled=False)
    for name in names:
        story.fault(name, action)
    story.live(200)
    story.finish()
    oracle = story.storm.oracle
    assert oracle.acts and all(count == 1 for count in oracle.power.values())
    assert not any(node.unschedulable or node.annotations for node in story.storm.nodes.values())


def test_many_calls_gone_wrong_and_crashes_repeat_nothing() -> None:
    """A whole fleet a story; the seed is told with a failure."""
    for seed, _ in rounds("MUSTER_EFFECTS", len(FLEET), each=len(FLEET)):
        rng = random.Random(seed)
        with a_story(len(FLEET)) as story:
            for _ in range(rng.randint(len(FLEET), 3 * len(FLEET))):
                story.go_wrong(rng.choice(EFFECTS), rng.choice(MOODS))
            for _ in range(rng.randint(0, 6)):
                story.crash(rng.randint(1, 4000))
            try:
                heal(story, tuple(FLEET), rng.choice(["reboot_node", "reboot_node", "fence_node"]))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            told("effects", runs=len(FLEET), powers=sum(story.storm.oracle.power.values()))
