"""The switches' ends of our cables into the frame, beside what the HCAs' ends say.

Decides which row a counter of a switch's port is: one on the HCA port at the other end of its cable, so that a rule
sees both ends of one thing. Refuses ports without a cable of ours (between switches, of other clusters), and never
makes a node silent: who tells of a fabric tells of all nodes at once, and its silence is its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fleet.ports.fabric import AlarmSeen, EndSeen
from fleet.telemetry import blanks, fabrictext, names, series
from fleet.telemetry.cables import Cable, Joined, join
from fleet.telemetry.exposition import Labels, SeriesCache, parse
from fleet.telemetry.frame import Frame
from fleet.telemetry.names import METRICS
from fleet.telemetry.series import Resolver

JOB = "fabric"
CACHE_LINES = 1 << 21
_GAUGE = np.array([not metric.counter for metric in METRICS.values()], dtype=bool)
_LO = np.array([metric.lo for metric in METRICS.values()])
_HI = np.array([metric.hi for metric in METRICS.values()])


@dataclass(slots=True)
class FabricIntake:
    """One per source of a fabric. Used by the thread that writes the frame."""

    frame: Frame
    resolve: Resolver
    interval: float  # seconds between two readings
    listed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    joined: Joined = field(default_factory=Joined)
    _cache: SeriesCache = field(default_factory=lambda: SeriesCache(limit=CACHE_LINES))

    @property
    def cables(self) -> Mapping[tuple[str, str], Cable]:
        return self.joined.cables

    def know(self, links: Iterable[tuple[EndSeen, EndSeen]]) -> None:
        """The links there are now. A cable that is not among them is told nothing of any more."""
        before, self.joined = self.cables, join(links, self.resolve, self.listed)
        if self.cables == before:
            return
        self._cache.clear()
        for cable in self.cables.values():
            device = self.frame.know_port(cable.node, cable.port)
            device.attrs.update(switch=cable.switch, switch_port=cable.switch_port)

    def text(self, piece: bytes, mono: float, wall: float) -> int:
        """Lines of counters. How many samples entered the frame."""
        parsed = parse(piece, self._cache, self._row)
        self.counts.update({reason: n for reason, n in parsed.counts.items() if reason not in ("samples", "unwanted")})
        ours = parsed.rows >= 0
        rows, values = parsed.rows[ours], parsed.values[ours]
        metric = self.frame.r.metric[rows]
        keep = blanks.judge(values, _GAUGE[metric], _LO[metric], _HI[metric], self.counts)
        if keep is not None:
            rows, values = rows[keep], values[keep]
        self.frame.write(rows, values, mono, wall)
        return len(rows)

    def raised(self, alarms: Iterable[AlarmSeen], mono: float, wall: float) -> int:
        """The alarms that stand now, told of every cable, so that one that is over is heard to be over."""
        standing: dict[tuple[str, str], list[str]] = {}
        for alarm in alarms:
            place = (alarm.guid, alarm.port)
            if place in self.cables:
                standing.setdefault(place, []).append(f"{alarm.name or 'alarm'} ({alarm.code})")
            else:
                self.counts["alarm_of_no_cable"] += 1
        rows, values = np.empty(len(self.cables), dtype=np.int64), np.empty(len(self.cables))
        for number, (place, cable) in enumerate(self.cables.items()):
            rows[number], values[number] = self._place(cable, names.FABRIC_ALARM), place in standing
            if place in standing:
                said = ", ".join(sorted(standing[place]))[:200]
                self.frame.know_port(cable.node, cable.port).attrs["alarms"] = said
        self.frame.write(rows[rows >= 0], values[rows >= 0], mono, wall)
        return len(standing)

    def _row(self, name: str, labels: Labels, declared: str) -> int:
        metric, cable = fabrictext.metric_of(name), self.cables.get(fabrictext.port_of(labels))
        return series.UNWANTED if metric is None or cable is None else self._place(cable, metric)

    def _place(self, cable: Cable, metric: str) -> int:
        """The row on the HCA's port. Its target is asked by nobody alone, so no silence is told of it."""
        target = self.frame.target(cable.node, JOB, self.interval, expected=False)
        return self.frame.row(target, METRICS[metric], self.frame.know_port(cable.node, cable.port).index)
