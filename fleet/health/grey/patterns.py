"""The second detector: whose whole five minutes run unlike those of its peers, node by node.

Decides per measure. The course of a node is the mean of its GPUs, sample by sample, scaled to 0..1 within its group;
its distance is the sum of the Euclidean distances to the courses of the others. A node stands out when that sum is more
than 5 spreads above the middle and half as much again, in four looks in a row. It finds what no median shows: many
small differences of one kind, or a shape. After Minder (NSDI 2025), which feeds the courses through an autoencoder
first; that part is left out. Refuses groups of fewer than 4 nodes, and to be more than one domain of evidence: a
pipeline's last stage stands out as well.
"""

from __future__ import annotations

import numpy as np

from fleet.health.grey.measures import Measure
from fleet.health.grey.peers import Bools, Floats, Groups, medians

LEAST_NODES, Z, TIMES, LOOKS = 4, 5.0, 1.5, 4
SPREAD_FLOOR = 0.05  # of the middle distance: courses of pure noise lie that close together
COMPARED = 256  # nodes of a large group that stand for all of it, so that no group costs its square


class Patterns:
    """Remembers in how many looks in a row each node stood out; `take` tells where that lasts."""

    def __init__(self, measures: tuple[Measure, ...]) -> None:
        self._measures = [place for place, measure in enumerate(measures) if measure.pattern]
        self._count = len(measures)
        self._run = np.zeros((len(self._measures), 0), dtype=np.uint8)

    def take(self, values: Floats, chosen: Bools, groups: Groups, node: Groups, nodes: int) -> Bools:
        """Measures by parts, True where the course of the part's node stands out and has for four looks.

        `chosen` are the parts to look at (active, in a group), `node` the number of each part's node, of `nodes`.
        """
        lasting = np.zeros((self._count, values.shape[1]), dtype=bool)
        if nodes > self._run.shape[1]:
            more = nodes - self._run.shape[1]
            self._run = np.concatenate([self._run, np.zeros((len(self._measures), more), np.uint8)], axis=1)
        parts = np.flatnonzero(chosen & (groups >= 0))
        if not len(parts):
            return lasting
        out = np.zeros((len(self._measures), nodes), dtype=bool)
        heads, group, courses = _courses(values[self._measures], parts, groups, node)
        out[:, heads] = stands_out(courses, group)
        self._run = np.where(out, np.minimum(self._run + 1, LOOKS), 0).astype(np.uint8)
        lasting[self._measures] = (self._run >= LOOKS)[:, node]
        return lasting & chosen


def _courses(values: Floats, parts: Groups, groups: Groups, node: Groups) -> tuple[Groups, Groups, Floats]:
    """Per pair of group and node: the node, the group's number, and the mean course (measures by pairs by samples)."""
    order = parts[np.lexsort((node[parts], groups[parts]))]
    pair = groups[order] * (int(node.max()) + 1) + node[order]
    starts = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
    mine = values[:, order]
    known = ~np.isnan(mine)
    total = np.add.reduceat(np.where(known, mine, np.float32(0)), starts, axis=1)
    count = np.add.reduceat(known.astype(np.float32), starts, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        courses = (total / count).astype(np.float32)
    _, group = np.unique(groups[order][starts], return_inverse=True)
    return node[order][starts], group.astype(np.int64), courses


def stands_out(courses: Floats, group: Groups) -> Bools:
    """Measures by nodes. Groups of one size are worked at once; a node with a gap in its course is not compared."""
    out = np.zeros(courses.shape[:2], dtype=bool)
    sizes = np.bincount(group)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    for size in np.unique(sizes[sizes >= LEAST_NODES]).tolist():
        columns = first[sizes == size][:, None] + np.arange(size)
        out[:, columns] = _far(courses[:, columns])
    return out


def _far(courses: Floats) -> Bools:
    """`courses` are measures by groups by nodes by samples."""
    gaps: Bools = np.any(np.isnan(courses), axis=-1)
    low = np.where(gaps[..., None], np.float32(np.inf), courses).min(axis=(-2, -1), keepdims=True)
    high = np.where(gaps[..., None], np.float32(-np.inf), courses).max(axis=(-2, -1), keepdims=True)
    room = np.where(high > low, high - low, np.float32(1))
    scaled = np.where(gaps[..., None], np.float32(0), (courses - np.where(low < np.inf, low, np.float32(0))) / room)
    step = -(-scaled.shape[-2] // COMPARED)
    others, there = scaled[..., ::step, :], ~gaps[..., None, ::step]
    square, theirs = (scaled**2).sum(-1)[..., :, None], (others**2).sum(-1)[..., None, :]
    near = square + theirs - 2 * scaled @ np.swapaxes(others, -1, -2)
    distance = (np.sqrt(np.maximum(near, 0)) * there).sum(-1)
    distance = np.where(gaps, np.float32(np.nan), distance).astype(np.float32)
    middle = medians(distance)[..., None]
    spread = np.float32(1.4826) * medians(np.abs(distance - middle))[..., None]
    with np.errstate(invalid="ignore"):
        z = (distance - middle) / np.maximum(np.maximum(spread, SPREAD_FLOOR * middle), np.float32(1e-6))
        found: Bools = (z > Z) & (distance > TIMES * middle)
    return found
