"""One population that is compared: all GPUs, or all ports of the network.

Decides the order of a look: distances, the courses of whole nodes, suspicion, and what is kept for a chart. Refuses to
know what a gang is: groups come as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleet.health.grey.measures import Measure
from fleet.health.grey.patterns import Patterns
from fleet.health.grey.peers import ACTIVE, Bools, Distances, Groups, compare
from fleet.health.grey.readings import Indices
from fleet.health.grey.suspicion import Suspicion
from fleet.health.grey.traces import Traces
from fleet.health.grey.window import Window
from fleet.telemetry.frame import Frame


@dataclass(frozen=True, slots=True)
class Found:
    """What a look saw: places of parts that became suspect, that no longer are, and that are still."""

    distances: Distances
    groups: Groups
    fresh: Indices
    over: Indices
    standing: Indices


class Side:
    def __init__(self, frame: Frame, measures: tuple[Measure, ...]) -> None:
        self.frame, self.measures = frame, measures
        self.window = Window(measures)
        self.suspicion = Suspicion(measures)
        self.traces = Traces(self.window)
        self._patterns = Patterns(measures)

    def node(self) -> Groups:
        """The number of each part's node in the frame."""
        return self.frame.d.node[self.window.parts].astype(np.int64)

    def adopt(self, open_now: list[tuple[str, str]]) -> None:
        """The suspicions that stand now, as (node, device): some ended elsewhere, some are from before a start."""
        self.suspicion.grow(len(self.window.parts))
        self.suspicion.suspect[:] = False
        for node, key in open_now:
            device = self.frame.device(node, key)
            here = np.flatnonzero(self.window.parts == device.index) if device is not None else ()
            for place in here:
                self.suspicion.suspect[place] = True

    def look(self, groups: Groups, wider: Groups, slow_since: Groups, courses: bool = True) -> Found:
        window = self.window
        found = compare(window.values, window.active, groups, wider, self.measures)
        patterns: Bools | None = None
        if courses:
            working = window.active.mean(axis=1) >= ACTIVE
            patterns = self._patterns.take(window.values, working, groups, self.node(), len(self.frame.nodes))
        fresh, over = self.suspicion.take(found, patterns, slow_since)
        differs = self.suspicion.differs()
        suspect = self.suspicion.suspect[differs]
        self.traces.follow(np.concatenate([differs[suspect], differs[~suspect]]), groups)
        standing = np.setdiff1d(np.flatnonzero(self.suspicion.suspect), fresh)
        return Found(found, groups, fresh, over, standing)
