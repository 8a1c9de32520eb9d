"""From the answers of a metrics API to the frame, by the rules of a scrape.

Decides whose a series is (the exporter's own word and the label of the scrape must agree, through the alias table), how
old it is, and what an exporter's silence is. A value is as old as its sample *and* as its arrival: it is written with
the age of its sample, only when the store has a newer one, and never with a time ahead of ours. A GPU whose last sample
is older than its exporter's last answer is gone from it, whatever the store still shows.

An exporter's interval is what the store shows of it: how often samples come, how late the store shows them (Prometheus
at once, VictoriaMetrics half a minute later), how often we ask. Lateness is only ever corrected downwards, so a store
that falls behind makes data stale, not us patient. Refuses to conclude from a partial answer that a part is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fleet.ports.metrics import Vector
from fleet.telemetry import blanks, names, series
from fleet.telemetry.claims import Answers
from fleet.telemetry.frame import STALE_INTERVALS, Frame, Rows
from fleet.telemetry.intake import MAX_SKEW_SECONDS
from fleet.telemetry.promql import Question
from fleet.telemetry.series import REJECTS, Ambiguous, Resolver
from fleet.telemetry.services import MAX_SUBJECTS, OTHERS

FIRST_CADENCE, MAX_CADENCE, MAX_LATENESS = 60.0, 120.0, 60.0
AHEAD_SECONDS = 5.0
LAST_TIME = 1e11  # seconds; what lies behind it is no time
CACHE_SLACK = 10_000
NO_BEAT = -100  # its exporter has no heartbeat yet, so its age would be unknown
_GAUGE = np.array([not metric.counter for metric in names.METRICS.values()], dtype=bool)
_LO = np.array([metric.lo for metric in names.METRICS.values()])
_HI = np.array([metric.hi for metric in names.METRICS.values()])
Places = NDArray[np.int64]


@dataclass(slots=True)
class Pace:
    """What the store shows of the exporters of one job."""

    cadence: float = FIRST_CADENCE
    lateness: float = MAX_LATENESS

    def learn(self, ages: Sequence[float], advances: Sequence[float]) -> None:
        if ages:
            self.lateness = min(self.lateness, max(0.0, float(np.percentile(ages, 10))))
        if advances:
            self.cadence = min(self.cadence, float(np.median(advances)))

    def interval(self, asked_every: float) -> float:
        """Three of these are the age at which a sample is too old."""
        late = (self.lateness + 2 * self.cadence + asked_every) / STALE_INTERVALS
        return max(asked_every, self.cadence, late)


@dataclass(slots=True)
class _Beat:
    """One exporter in this round: its newest sample and, for GPUs, each one's own."""

    newest: float = 0.0
    devices: dict[int, float] = field(default_factory=dict)


class Gleaner:
    """Writes rounds of answers into a frame. One thread, the one that writes the frame."""

    def __init__(self, frame: Frame, resolve: Resolver, interval: float) -> None:
        self.frame, self.resolve, self.asked_every = frame, resolve, interval
        self.counts: Counter[str] = Counter()
        self.refused: dict[tuple[str, str], tuple[int, str]] = {}  # (reason, who) -> (count, sentence)
        self.paces: dict[str, Pace] = {}
        self._answers = Answers()
        self._cache: dict[str, dict[tuple[str, ...], int]] = {}
        self._source: dict[int, float] = {}  # target -> time of its newest sample
        self._beats: dict[int, _Beat] = {}
        self._rows: dict[int, list[Rows]] = {}
        self._values: dict[int, list[NDArray[np.float64]]] = {}
        self._partial: set[str] = set()

    def aliases_changed(self) -> None:
        """Whose a series is was cached with it."""
        if self._answers.again(self.resolve) != "none":
            self._cache.clear()

    def begin(self, beats: Sequence[tuple[Question, Vector]], mono: float, wall: float) -> None:
        """A new round: which exporters have newer samples than the last one."""
        self._beats, self._rows, self._values, self._partial = {}, {}, {}, set()
        for question, answer in beats:
            self._note(question.job, answer)
            places = self._placed(question, answer, "beat:" + question.job)
            for place, stamp in zip(places.tolist(), answer.values.tolist(), strict=True):
                if place < 0 or not 0 < stamp < LAST_TIME:
                    continue
                device = self.frame.devices[place]
                beat = self._beats.setdefault(device.target, _Beat())
                beat.newest = max(beat.newest, stamp)
                beat.devices[place] = max(stamp, beat.devices.get(place, 0.0))
        self._pace(mono, wall)

    def take(self, question: Question, answer: Vector) -> None:
        """One metric's answer. It waits until the round is whole."""
        self._note(question.job, answer)
        rows = self._placed(question, answer, question.metric.name)
        keep = rows >= 0
        rows, values = rows[keep], np.asarray(answer.values)[keep]
        if not len(rows):
            return
        metric = self.frame.r.metric[rows]
        found = Counter[str]()
        good = blanks.judge(values, _GAUGE[metric], _LO[metric], _HI[metric], found)
        self.counts.update({"rejected_" + reason: count for reason, count in found.items()})
        for reason in found.keys() & {"infinite", "absurd_value"}:
            self._refuse(reason, question.metric.name, "values that the metric cannot have", found[reason])
        if good is not None:
            rows, values = rows[good], values[good]
        targets = self.frame.r.target[rows]
        for target in np.unique(targets).tolist():
            if target in self._beats:
                mine = targets == target
                self._rows.setdefault(target, []).append(rows[mine])
                self._values.setdefault(target, []).append(values[mine])

    def finish(self, mono: float, wall: float) -> int:
        """Write what is new; how many samples entered the frame."""
        before = self.counts["samples"]
        for target, beat in self._beats.items():
            self._write(target, beat, mono, wall)
        return self.counts["samples"] - before

    # -- the parts ------------------------------------------------------------------------------------------------

    def _note(self, job: str, answer: Vector) -> None:
        self.counts["series"] += len(answer.labels)
        self.counts["histograms"] += answer.skipped
        if answer.partial:
            self._partial.add(job)

    def _placed(self, question: Question, answer: Vector, cache_key: str) -> Places:
        """The row of each series (of a heartbeat: the device), or a negative reject code. Looked up, rarely made."""
        cache = self._cache.setdefault(cache_key, {})
        if len(cache) > 2 * len(answer.labels) + CACHE_SLACK:
            cache.clear()
        find, rejects = cache.get, Counter[tuple[int, str]]()
        places: list[int] = []
        for labels in answer.labels:
            key = (*labels, *labels.values())
            place = find(key)
            if place is None:
                place = self._place(question, dict(labels))
                if place != NO_BEAT:
                    cache[key] = place
            if NO_BEAT < place < series.UNWANTED:
                rejects[place, _who(labels)] += 1
            places.append(place)
        for (code, who), count in rejects.items():
            self._refuse(REJECTS[code], who, f"series of {who[:100]!r}: {REJECTS[code]}", count)
        return np.array(places, dtype=np.int64)

    def _place(self, question: Question, labels: dict[str, str]) -> int:
        node = self._node(labels)
        if isinstance(node, int):
            return node
        part = series.part_of(question.metric.kind, labels)
        if isinstance(part, int):
            return part
        known = self.frame.target_index.get((node, question.job))
        if known is None and not question.heartbeat:
            return NO_BEAT
        if question.metric.kind == "gpu":
            self.frame.versions.of_gpu(node, question.job, labels)
        target = self.frame.target(node, question.job, self._interval(question.job))
        device = self.frame.place(target, part)
        return device if question.heartbeat else self.frame.row(target, question.metric, device, part.sub)

    def _node(self, labels: Mapping[str, str]) -> str | int:
        """Whose the series is, or why it is nobody's. What the exporter says and where it was scraped must agree."""
        said, at = series.host_label(dict(labels)), labels.get("node") or _host(labels.get("instance", ""))
        place = self._answers.ask(at, self.resolve) if at else None
        if not said:
            return _answer(place)
        claimed = self._answers.ask(said, self.resolve)
        if isinstance(claimed, str) and isinstance(place, str) and claimed != place:
            return series.OTHER_NODE
        return _answer(claimed)

    def _refuse(self, reason: str, who: str, what: str, count: int) -> None:
        self.counts["rejected_" + reason] += count
        if (reason, who) not in self.refused and len(self.refused) >= MAX_SUBJECTS:
            who = OTHERS
        told = self.refused.get((reason, who), (0, ""))[0]
        self.refused[reason, who] = (told + count, f"The metrics API showed {what}.")

    def take_refused(self) -> dict[tuple[str, str], tuple[int, str]]:
        taken, self.refused = self.refused, {}
        return taken

    def _interval(self, job: str) -> float:
        return self.paces.setdefault(job, Pace()).interval(self.asked_every)

    def _pace(self, mono: float, wall: float) -> None:
        ages: dict[str, list[float]] = {}
        advances: dict[str, list[float]] = {}
        for index, beat in self._beats.items():
            job, before = self.frame.targets[index].job, self._source.get(index)
            ages.setdefault(job, []).append(wall - beat.newest)
            if before is not None and 1.0 <= beat.newest - before <= MAX_CADENCE:
                advances.setdefault(job, []).append(beat.newest - before)
        for job, found in ages.items():
            pace = self.paces.setdefault(job, Pace())
            pace.learn(found, advances.get(job, []))
            interval = pace.interval(self.asked_every)
            for index in self._beats:
                if self.frame.targets[index].job == job:
                    self.frame.t.interval[index] = interval
                    self.frame.t.alive[index] = True

    def _write(self, index: int, beat: _Beat, mono: float, wall: float) -> None:
        frame, target, before = self.frame, self.frame.targets[index], self._source.get(index)
        pace = self.paces[target.job]
        ahead = beat.newest - wall
        if ahead > MAX_SKEW_SECONDS:
            self._skew(index, ahead)
            self._refuse("clock_skew", target.node, f"samples of {target.node} from {ahead:.0f} s ahead", 1)
            return
        if before is not None and beat.newest <= before:
            return  # nothing newer: it ages
        rows = np.concatenate(self._rows.get(index, [np.empty(0, dtype=np.int64)]))
        values = np.concatenate(self._values.get(index, [np.empty(0)]))
        sources = self._sources(index, beat, rows)
        keep = sources > beat.newest - max(1.5 * pace.cadence, AHEAD_SECONDS)
        rows, values, sources = rows[keep], values[keep], sources[keep]
        if not len(rows):
            return
        if before is None or beat.newest - before > 2.5 * pace.cadence + self.asked_every:
            frame.new_epoch(target)  # between the two it may have become another process
        self._source[index] = beat.newest
        ages = np.maximum(0.0, wall - sources)
        frame.r.value[rows], frame.r.source[rows], frame.r.mono[rows] = values, sources, mono - ages
        if self._may_count(target.job, index, rows):
            frame.saw(target, rows, mono - max(0.0, wall - beat.newest), beat.newest)
        self._clock(index, rows, values, beat.newest, ahead)
        target.failures, target.last_error, target.last_samples = 0, "", len(rows)
        target.counts["samples"] += len(rows)
        self.counts["samples"] += len(rows)

    def _sources(self, index: int, beat: _Beat, rows: Rows) -> NDArray[np.float64]:
        """Each row's time: its GPU's own heartbeat (none: not there any more), or its exporter's."""
        if self.frame.targets[index].job != "dcgm" or not len(rows):
            return np.full(len(rows), beat.newest)
        devices = self.frame.r.device[rows]
        gpu = self.frame.d.gpu[devices]
        own = np.array([beat.devices.get(device, 0.0) for device in devices.tolist()])
        return np.where(gpu, own, beat.newest)

    def _may_count(self, job: str, index: int, rows: Rows) -> bool:
        """A partial answer closes no scrape in which a known GPU is missing: it may be what the store left out."""
        if job not in self._partial:
            return True
        d, size = self.frame.d, self.frame.d.size
        mine = (d.target[:size] == index) & d.gpu[:size] & (d.seq[:size] == self.frame.t.seq[index])
        return not (set(np.flatnonzero(mine).tolist()) - set(self.frame.r.device[rows].tolist()))

    def _clock(self, index: int, rows: Rows, values: NDArray[np.float64], newest: float, ahead: float) -> None:
        """How far the node's clock is from its sample's time; a store ahead of us is told as skew as well."""
        skew = max(0.0, ahead - AHEAD_SECONDS)
        row = self.frame.find(names.NODE_TIME, self.frame.targets[index].node)
        at = np.flatnonzero(rows == row) if row is not None else np.empty(0, dtype=np.int64)
        if len(at):
            skew = float(values[at[0]]) - newest
        self._skew(index, skew)

    def _skew(self, index: int, seconds: float) -> None:
        self.frame.t.skew[index] = seconds
        self.frame.t.skew_seq[index] += 1


def _answer(found: str | Ambiguous | None) -> str | int:
    if found is None:
        return series.NO_NODE
    return series.TWO_NODES if isinstance(found, Ambiguous) else found


def _host(instance: str) -> str:
    """`10.0.0.1:9100` or `[fd00::1]:9100` without its port."""
    host, colon, port = instance.rpartition(":")
    if not colon or not port.isdigit() or (":" in host and not host.startswith("[")):
        host = instance
    return host.strip("[]")


def _who(labels: Mapping[str, str]) -> str:
    return labels.get("Hostname") or labels.get("hostname") or labels.get("node") or labels.get("instance") or "?"
