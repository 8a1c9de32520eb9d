"""A whole fleet that falls ill at once and heals, while calls go wrong and the engine dies.

Decides by a seed which remedy it takes, which calls go wrong, how, and where the engine dies. Each node is one run: one
fault, one to three calls gone wrong.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.policy.models import BreakerRule, Cap
from fleet.ports.cluster import GPU_SERVICE_ON, GPU_SERVICES
from tests.domain.lifecycle.installing import REPROVISION, Installing, on_the_last_rung
from tests.domain.lifecycle.oracle import RESET_GPU, SECOND
from tests.domain.lifecycle.storm import MOODS
from tests.domain.lifecycle.story import FLEET, Story, a_story

POWER = ("reboot_node", "fence_node")
ACTIONS = ("reboot_node", "fence_node", RESET_GPU, RESET_GPU, REPROVISION, REPROVISION)
COMMON = ("hold", "evict", "job", "uncordon")
EFFECTS = {
    "reboot_node": (*COMMON, "power"),
    "fence_node": (*COMMON, "power", "fence", "unfence"),
    RESET_GPU: (*COMMON, RESET_GPU, "pause", "resume"),
    REPROVISION: (*COMMON, "provision"),
}
"""The side effects of each remedy, and of what comes before and after it."""
UNHEARD = 4
"""Of so many fleets one has GPUs that no reset helps: each leads to a reboot."""


def heal(story: Story, action: str) -> None:
    """Every node is ill and must end well; the oracle judges each call meanwhile.

    All at once, so that whatever goes wrong finds each of them in the middle of something.
    """
    Cap.objects.filter(kind__in=["rate", "floor"]).delete()
    Cap.objects.update(absolute=len(story.names), percent=None)
    BreakerRule.objects.update(enabled=False)
    for name in story.names:
        story.storm.change(name, labels=dict.fromkeys(GPU_SERVICES, GPU_SERVICE_ON))
        story.fault(name, "reboot_node" if action == REPROVISION else action)
    if action == REPROVISION:
        on_the_last_rung()
    story.live(200)
    story.finish()
    oracle = story.storm.oracle
    assert oracle.acts and all(count == 1 for count in oracle.effects.values())
    assert not any(node.unschedulable or node.annotations for node in story.storm.nodes.values())
    assert all(set(node.labels.values()) == {GPU_SERVICE_ON} for node in story.storm.nodes.values())


@dataclass(frozen=True, slots=True)
class Took:
    """What took effect on the fleet of one story, as its machines counted it."""

    powers: int
    gpu_resets: int
    reprovisions: int


def healed(seed: int, nodes: int = len(FLEET), actions: Sequence[str] = ACTIONS) -> Took:
    """Raises Violation, or AssertionError for what is not as it was."""
    rng = random.Random(seed)
    action = rng.choice(actions)
    with a_story(nodes) as story:
        if action == REPROVISION:
            Installing(story.storm, stages=rng.choice((1, 2)), recreates=rng.choice((False, True)))
        if action == RESET_GPU and rng.randrange(UNHEARD) == 0:
            story.storm.reset_result = "failed"
        for _ in range(rng.randint(nodes, 3 * nodes)):
            story.go_wrong(rng.choice(EFFECTS[action]), rng.choice(MOODS))
        for _ in range(rng.randint(0, 6)):
            story.crash(rng.randint(1, 4000))
        heal(story, action)
        return _counted(story)


def _counted(story: Story) -> Took:
    took = [verb for _, _, verb in story.storm.oracle.effects]  # each of them once, or the oracle had spoken
    resets, installed = took.count(RESET_GPU), took.count(REPROVISION)
    return Took(len(took) - resets - installed - took.count(SECOND), resets, installed)
