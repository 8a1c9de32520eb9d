"""A whole fleet that falls ill at once and heals, while calls go wrong and the engine dies.

Decides by a seed which calls, how, and where it dies. Each node is one run: one fault, one to three calls gone wrong.
"""

from __future__ import annotations

import random

from fleet.policy.models import BreakerRule, Cap
from tests.domain.lifecycle.storm import MOODS
from tests.domain.lifecycle.story import FLEET, Story, a_story

EFFECTS = ("hold", "evict", "power", "job", "uncordon", "fence", "unfence")
ACTIONS = ("reboot_node", "reboot_node", "fence_node")


def heal(story: Story, action: str) -> None:
    """Every node is ill and must end well; the oracle judges each call meanwhile.

    All at once, so that whatever goes wrong finds each of them in the middle of something.
    """
    Cap.objects.filter(kind__in=["rate", "floor"]).delete()
    Cap.objects.update(absolute=len(story.names), percent=None)
    BreakerRule.objects.update(enabled=False)
    for name in story.names:
        story.fault(name, action)
    story.live(200)
    story.finish()
    oracle = story.storm.oracle
    assert oracle.acts and all(count == 1 for count in oracle.power.values())
    assert not any(node.unschedulable or node.annotations for node in story.storm.nodes.values())


def healed(seed: int, nodes: int = len(FLEET)) -> int:
    """How many resets and power calls took effect."""
    rng = random.Random(seed)
    with a_story(nodes) as story:
        for _ in range(rng.randint(nodes, 3 * nodes)):
            story.go_wrong(rng.choice(EFFECTS), rng.choice(MOODS))
        for _ in range(rng.randint(0, 6)):
            story.crash(rng.randint(1, 4000))
        heal(story, rng.choice(ACTIONS))
        return sum(story.storm.oracle.power.values())
