"""Whose whole course runs unlike the others."""

from __future__ import annotations

import numpy as np

from fleet.health.grey.measures import CLOCK, GPU_MEASURES
from fleet.health.grey.patterns import LOOKS, Patterns

CLOCKS = next(place for place, measure in enumerate(GPU_MEASURES) if measure.name == CLOCK)
NODES, GPUS, SAMPLES = 16, 8, 10


def values(seed: int = 1, nodes: int = NODES) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((len(GPU_MEASURES), nodes * GPUS, SAMPLES))
    return (100 * (1 + 0.01 * noise)).astype(np.float32)


def take(patterns: Patterns, seen: np.ndarray, groups: np.ndarray | None = None) -> list[int]:
    """Nodes whose clock stands out."""
    parts = seen.shape[1]
    node = np.repeat(np.arange(parts // GPUS), GPUS)
    groups = np.zeros(parts, dtype=np.int64) if groups is None else groups
    lasting = patterns.take(seen, np.ones(parts, dtype=bool), groups, node, parts // GPUS)
    return sorted(set(node[lasting[CLOCKS]].tolist()))


def low(seed: int, node: int, share: float = 0.95) -> np.ndarray:
    seen = values(seed)
    seen[CLOCKS, node * GPUS : (node + 1) * GPUS] *= share
    return seen


def test_a_node_a_little_slower_in_all_its_gpus_stands_out_after_four_looks() -> None:
    patterns = Patterns(GPU_MEASURES)
    told = [take(patterns, low(seed, 5)) for seed in range(LOOKS)]
    assert told == [[]] * (LOOKS - 1) + [[5]]
    assert take(patterns, values(9)) == []
    assert take(patterns, low(10, 5)) == [], "it began anew"


def test_noise_stands_out_nowhere() -> None:
    patterns = Patterns(GPU_MEASURES)
    assert [take(patterns, values(seed)) for seed in range(60)] == [[]] * 60


def test_a_shape_is_seen_that_the_median_does_not_show() -> None:
    patterns = Patterns(GPU_MEASURES)
    for seed in range(LOOKS):
        seen = values(seed)
        seen[CLOCKS, :GPUS, ::3] *= 0.7
        told = take(patterns, seen)
    assert told == [0]


def test_gangs_of_any_sizes_are_compared_each_with_itself() -> None:
    patterns = Patterns(GPU_MEASURES)
    groups = np.repeat([7, 3, 9], [3 * GPUS, 5 * GPUS, 8 * GPUS])
    for seed in range(LOOKS):
        seen = low(seed, 4)
        seen[CLOCKS, groups == 9] *= 0.6
        seen[CLOCKS, :GPUS] *= 0.5
        told = take(patterns, seen, groups)
    assert told == [4], "three nodes are too few, and another gang's pace is its own"


def test_a_course_with_a_gap_is_not_compared_and_spoils_no_other() -> None:
    patterns = Patterns(GPU_MEASURES)
    for seed in range(LOOKS):
        seen = low(seed, 5)
        seen[CLOCKS, 6 * GPUS : 7 * GPUS, 2] = np.nan
        told = take(patterns, seen)
    assert told == [5]


def test_a_very_large_gang_is_compared_with_some_of_it() -> None:
    patterns = Patterns(GPU_MEASURES)
    for seed in range(LOOKS):
        seen = values(seed, 600)
        seen[CLOCKS, 333 * GPUS : 334 * GPUS] *= 0.9
        told = take(patterns, seen)
    assert told == [333]
