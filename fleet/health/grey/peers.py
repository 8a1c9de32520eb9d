"""How far each part is from its peers.

Decides, per measure and group, the robust distance of each member's median from the group's, and which distances are
bad: more than 5 spreads and more than a tenth of the group's median, in the direction that speaks against it. A group
of 4 to 7 is measured against all parts of its model instead, and says so: `wide` is weaker evidence, because other work
may run there. Refuses to judge groups of fewer than 4, members that were idle, and a measure on which a tenth of the
group differs: that is how the work is shaped (stages of a pipeline, a checkpoint), not a fault.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.health.grey.measures import GPU_MEASURES, Measure

LEAST, LEAST_WIDE, Z, SHARE, ACTIVE, CROWD = 8, 4, 5.0, 0.10, 0.8, 0.10
SPREAD_FLOOR = 0.02
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Groups = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Distances:
    """Arrays are measures by parts, NaN and False where not judged; `wide` and `few` are by part.

    `few`: active in a group too small for any comparison.
    """

    value: Floats
    centre: Floats
    z: Floats
    bad: Bools
    judged: Bools
    wide: Bools
    few: Bools


def medians(values: Floats) -> Floats:
    """The median over the last axis without its gaps; NaN where more than half are gaps."""
    ordered = np.sort(values, axis=-1)  # NaN goes last
    known = values.shape[-1] - np.isnan(values).sum(axis=-1)
    low, high = np.maximum(known - 1, 0) // 2, known // 2
    high = np.minimum(high, np.maximum(known - 1, 0))
    pick = np.take_along_axis(ordered, np.stack([low, high], axis=-1), axis=-1)
    middle = pick.mean(axis=-1, dtype=np.float32)
    return np.where(known * 2 < values.shape[-1], np.float32(np.nan), middle).astype(np.float32)


def compare(
    values: Floats,
    active: Bools,
    groups: Groups,
    wider: Groups | None = None,
    measures: tuple[Measure, ...] = GPU_MEASURES,
) -> Distances:
    """`values` are measures by parts by samples, `active` parts by samples; `groups` and `wider` a number per part, -1
    for none: its peers, and who stands in for them where they are 4 to 7."""
    chosen = np.flatnonzero((active.mean(axis=1) >= ACTIVE) & (groups >= 0)) if active.size else np.empty(0, np.int64)
    shape = values.shape[:2]
    value, centre, z = (np.full(shape, np.nan, dtype=np.float32) for _ in range(3))
    bad, judged = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    wide, few = np.zeros(shape[1], dtype=bool), np.zeros(shape[1], dtype=bool)
    if len(chosen):
        members, group = _ordered(chosen, groups)
        size = np.bincount(group)[group]
        small = (size >= LEAST_WIDE) & (size < LEAST)
        alone = np.full(len(members), True) if wider is None else wider[members] < 0
        few[members] = (size < LEAST_WIDE) | (small & alone)
        if wider is not None:
            wide[members] = small & (wider[members] >= 0)
            others, company = _ordered(chosen[wider[chosen] >= 0], wider)
        for place, measure in enumerate(measures):
            mine = medians(values[place, members])
            middle, far, is_bad, ok = _judge(mine, group, measure)
            value[place, members], centre[place, members], z[place, members] = mine, middle, far
            bad[place, members], judged[place, members] = is_bad, ok
            if wide.any():
                middle, far, is_bad, ok = _judge(value[place, others], company, measure)
                keep = wide[others]
                theirs = others[keep]
                centre[place, theirs], z[place, theirs] = middle[keep], far[keep]
                bad[place, theirs], judged[place, theirs] = is_bad[keep], ok[keep]
    return Distances(value, centre, z, bad, judged, wide, few)


def _ordered(chosen: Groups, groups: Groups) -> tuple[Groups, Groups]:
    """The chosen parts group by group, and the number of the group of each."""
    members = chosen[np.argsort(groups[chosen], kind="stable")]
    _, group = np.unique(groups[members], return_inverse=True)
    return members, group.astype(np.int64)


def _judge(mine: Floats, group: Groups, measure: Measure) -> tuple[Floats, Floats, Bools, Bools]:
    count = np.bincount(group[~np.isnan(mine)], minlength=int(group[-1]) + 1)
    middle = by_group(mine, group, count)[group]
    off = mine - middle
    spread = 1.4826 * by_group(np.abs(off), group, count)[group]
    scale = np.maximum(np.maximum(spread, SPREAD_FLOOR * np.abs(middle)), measure.floor)
    far = (off / scale).astype(np.float32)
    judged = ~np.isnan(mine) & (count[group] >= LEAST)
    with np.errstate(invalid="ignore"):
        bad = judged & (np.abs(far) > Z) & (np.abs(off) > SHARE * np.abs(middle))
        if measure.bad:
            bad &= np.sign(off) == measure.bad
    crowd = np.bincount(group[bad], minlength=len(count)) > np.maximum(1, CROWD * count)
    return middle, far, bad & ~crowd[group], judged & ~crowd[group]


def by_group(mine: Floats, group: Groups, count: NDArray[np.int64]) -> Floats:
    """The median of each group without its gaps; `count` are the values that are none. One sort of whole numbers."""
    order = np.sort(group.astype(np.uint64) << np.uint64(32) | _sortable(mine))
    ordered = _back((order & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    size = np.bincount(group, minlength=len(count))
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    most = np.maximum(count - 1, 0)
    last = len(ordered) - 1
    low, high = np.minimum(start + most // 2, last), np.minimum(start + np.minimum(count // 2, most), last)
    middle = (ordered[low] + ordered[high]) / np.float32(2)
    return np.where(count > 0, middle, np.float32(np.nan)).astype(np.float32)


def _sortable(values: Floats) -> NDArray[np.uint64]:
    """Bits that sort as the numbers do, gaps last."""
    bits = values.astype(np.float32).view(np.uint32)
    flipped = np.where(bits >> 31, ~bits, bits | np.uint32(0x80000000))
    return np.where(np.isnan(values), np.uint32(0xFFFFFFFF), flipped).astype(np.uint64)


def _back(bits: NDArray[np.uint32]) -> Floats:
    plain = np.where(bits >> 31, bits & np.uint32(0x7FFFFFFF), ~bits).astype(np.uint32).view(np.float32)
    return np.where(bits == np.uint32(0xFFFFFFFF), np.float32(np.nan), plain)
