"""From the bytes of one scrape to the frame.

Decides, in this order: what the text says (exposition), whose sample it is (series: identity, host label), which
numbers are measurements (blanks), whether its time can be believed, and only then writes. Each sample that falls on
the way is counted by reason on its target. Refuses a sample whose own timestamp is more than five minutes from its
receipt: it is either a backlog, which is history, or a stepped clock, which is a signal of its own (`skewed`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.telemetry import blanks, names, series, units, versions
from fleet.telemetry.exposition import Labels, Parsed, parse
from fleet.telemetry.frame import MAX_ROWS_PER_TARGET, Frame, Rows
from fleet.telemetry.series import REJECTS, Resolver
from fleet.telemetry.targets import Target

MAX_SKEW_SECONDS = 300.0
_EVERYDAY = frozenset({"unwanted", "blank", "nan"})
_SAID = {
    "cut_line": "a text that ends in the middle of a line",
    "malformed": "lines that are no samples",
    "bad_value": "values that are no numbers",
    "bad_label": "labels that cannot be read",
    "bad_encoding": "labels that are not UTF-8",
    "bad_timestamp": "timestamps that are no time",
    "too_long": "lines longer than 16 KiB",
    "too_many_lines": "more than a million lines in one answer",
    "duplicate": "the same series twice in one answer",
    "infinite": "infinite values",
    "absurd_value": "values that the metric cannot have",
    "too_many_series": "more series than one exporter may have",
    "no_device": "samples without the label that names their device",
}
# By the metric's number: what its values may be.
_GAUGE = np.array([not metric.counter for metric in names.METRICS.values()], dtype=bool)
_LO = np.array([metric.lo for metric in names.METRICS.values()])
_HI = np.array([metric.hi for metric in names.METRICS.values()])


@dataclass(frozen=True, slots=True)
class _Noted:
    kind: names.DeviceKind
    place: int  # device index, or a negative reject code
    sub: str = ""


class Intake:
    """Writes scrapes into a frame. Not thread-safe: one intake, one writing thread."""

    def __init__(self, frame: Frame, resolve: Resolver | None = None) -> None:
        self.frame = frame
        self.resolve = resolve
        self.counts: Counter[str] = Counter()
        self._wanted = names.wanted() | versions.WANTED
        self._process_start: dict[int, float] = {}

    def aliases_changed(self, resolve: Resolver | None = None) -> None:
        """The alias table changed: where a verdict on a host label is another one now, forget what was cached with it.

        Only there: a whole fleet's series read anew would cost minutes, and tables change with every node that comes.
        """
        self.resolve = resolve or self.resolve
        for target in self.frame.targets:
            if any(self._judged(said, target.node) != code for said, code in target.claims.items()):
                target.claims.clear()
                target.cache.clear()

    def _judged(self, said: str, node: str) -> int:
        return series.check_host({series.HOST_LABEL: said}, node, self.resolve)

    def failed(self, target: Target, sentence: str) -> None:
        """A scrape that brought nothing. The values stay; their age tells."""
        target.failed(sentence)
        self.counts["failed_scrapes"] += 1

    def scraped(self, target: Target, body: bytes, mono: float, wall: float, seconds: float = 0.0) -> int:
        """One answer of an exporter, received at `mono`/`wall`. Returns how many samples entered the frame."""
        if target.failures:  # between two good scrapes the exporter may have become another process
            self.frame.new_epoch(target)
        parsed = parse(body, target.cache, lambda *line: self._new(target, *line), self._wanted)
        target.counts["samples"] += parsed.counts["samples"]
        for reason, count in parsed.counts.items():
            if reason != "samples":
                self._reject(target, reason, count)
        rows, values, stamps = self._placed(target, parsed)
        rows, values, source = self._timed(target, rows, values, stamps, wall)
        rows, values, source = self._measured(target, rows, values, source)
        if not len(rows):
            some = parsed.counts["samples"] or parsed.counts["unwanted"]
            said = "no sample this fleet reads" if some else "no samples"
            sentence = f"{target.job} on {target.node} answered with {said}."
            self.failed(target, target.last_reject if target.last_reject and parsed.counts["samples"] else sentence)
            return 0
        self._restart_seen(target, rows, values)
        clock = self._own(target, names.NODE_TIME, "", rows, values)
        if clock is not None:
            self._skew(target, clock - wall)
        self.frame.write(rows, values, mono, source)
        self.frame.saw(target, rows, mono, wall)
        target.failures, target.last_error = 0, ""
        target.last_samples, target.last_seconds = len(rows), seconds
        self.counts["samples"] += len(rows)
        return len(rows)

    # -- one stage each -------------------------------------------------------------------------------------------

    def _new(self, target: Target, name: str, labels: Labels, declared: str) -> int:
        metric = series.metric_of(name)
        if metric is None:
            if not series.check_host(labels, target.node, self.resolve):
                self.frame.versions.of_metric(target.node, target.job, name, labels)
            return series.UNWANTED
        noted = labels.place
        if not isinstance(noted, _Noted) or noted.kind != metric.kind:
            noted = labels.place = self._note(target, metric.kind, labels)
        if noted.place < 0:
            return noted.place
        sub = target.job if metric.name == names.PROCESS_START else noted.sub
        row = self.frame.row(target, metric, noted.place, sub)
        target.scaled |= name in names.SCALED
        return units.marked(row, name)

    def _note(self, target: Target, kind: names.DeviceKind, labels: Labels) -> _Noted:
        """Whose the labels are, worked out once for all series of a scrape that carry them."""
        said = series.host_label(labels)
        code = 0 if said and said == target.pod else series.check_host(labels, target.node, self.resolve)
        if said and said not in (target.node, target.pod):
            target.claim(said, code)
        if code:
            target.last_reject = f"{target.job} of {target.node} sent samples of host {said[:100]!r}: {REJECTS[code]}."
            return _Noted(kind, code)
        if kind == "gpu":
            self.frame.versions.of_gpu(target.node, target.job, labels)
        part = series.part_of(kind, labels)
        if isinstance(part, int):
            return _Noted(kind, part)
        if target.rows >= MAX_ROWS_PER_TARGET and self.frame.device(target.node, part.key) is None:
            return _Noted(kind, series.TOO_MANY)
        return _Noted(kind, self.frame.place(target, part), part.sub)

    def _reject(self, target: Target, reason: str, count: int) -> None:
        """Count what did not enter. What exporters send every day without fault is no trouble and gets no sentence."""
        self.counts["rejected_" + reason] += count
        if reason in _EVERYDAY:
            target.counts[reason] += count
            return
        target.rejects[reason] += count
        if reason in _SAID:
            target.last_reject = f"{target.job} of {target.node} sent {_SAID[reason]}."

    def _placed(self, target: Target, parsed: Parsed) -> tuple[Rows, NDArray[np.float64], dict[int, int]]:
        """Drop what has no row; keep the last of duplicates."""
        rows, values, stamps = parsed.rows, parsed.values, parsed.stamps
        if target.scaled:
            rows, values = units.applied(rows, values)
        if len(rows) and int(rows.min()) < 0:
            for code, count in Counter(rows[rows < 0].tolist()).items():
                self._reject(target, REJECTS[code], count)
            rows, values, stamps = _keep(rows >= 0, rows, values, stamps)
        unique = len(set(rows.tolist()))
        if unique != len(rows):
            self._reject(target, "duplicate", len(rows) - unique)
            last = len(rows) - 1 - np.unique(rows[::-1], return_index=True)[1]
            mask = np.zeros(len(rows), dtype=bool)
            mask[last] = True
            rows, values, stamps = _keep(mask, rows, values, stamps)
        return rows, values, stamps

    def _timed(
        self, target: Target, rows: Rows, values: NDArray[np.float64], stamps: dict[int, int], wall: float
    ) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64]]:
        source = np.full(len(rows), wall)
        if not stamps:
            return rows, values, source
        for at, ms in stamps.items():
            source[at] = ms / 1000.0
        self._skew(target, float(np.median(source - wall)))
        keep = np.abs(source - wall) <= MAX_SKEW_SECONDS
        if not keep.all():
            self._reject(target, "clock_skew", int((~keep).sum()))
            off = abs(float((source - wall)[~keep][0]))
            target.last_reject = f"{target.job} of {target.node} sent samples whose time is {off:.0f} s off."
        return rows[keep], values[keep], source[keep]

    def _measured(
        self, target: Target, rows: Rows, values: NDArray[np.float64], source: NDArray[np.float64]
    ) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64]]:
        found = Counter[str]()
        metric = self.frame.r.metric[rows]
        keep = blanks.judge(values, _GAUGE[metric], _LO[metric], _HI[metric], found)
        if keep is None:
            return rows, values, source
        for reason, count in found.items():
            self._reject(target, reason, count)
        return rows[keep], values[keep], source[keep]

    def _skew(self, target: Target, seconds: float) -> None:
        self.frame.t.skew[target.index] = seconds
        self.frame.t.skew_seq[target.index] += 1

    def _own(self, target: Target, metric: str, sub: str, rows: Rows, values: NDArray[np.float64]) -> float | None:
        """The value this scrape brought for a metric of the host."""
        row = self.frame.find(metric, target.node, "", sub)
        if row is None:
            return None
        at = np.flatnonzero(rows == row)
        return float(values[at[0]]) if len(at) else None

    def _restart_seen(self, target: Target, rows: Rows, values: NDArray[np.float64]) -> None:
        started = self._own(target, names.PROCESS_START, target.job, rows, values)
        if started is None:
            return
        before = self._process_start.get(target.index)
        self._process_start[target.index] = started
        if before is not None and abs(before - started) > 1.0:
            self.frame.new_epoch(target, rows)


def _keep(
    mask: NDArray[np.bool_], rows: Rows, values: NDArray[np.float64], stamps: dict[int, int]
) -> tuple[Rows, NDArray[np.float64], dict[int, int]]:
    if stamps:
        places = np.cumsum(mask) - 1
        stamps = {int(places[at]): ms for at, ms in stamps.items() if mask[at]}
    return rows[mask], values[mask], stamps
