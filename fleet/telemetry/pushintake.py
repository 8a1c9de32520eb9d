"""From pushed samples to the frame, under the same identity as if they had been scraped.

Decides whose a pushed series is: the node that its host and node labels name, all of which must agree, else the host
of `instance`. Decides what counts as one scrape when a push brings only a part of one: the samples of a job on a node
that carry one time. What we scrape ourselves is better than what is pushed, so a fresh scrape keeps its rows.

Refuses, each counted: a series of no node, of two, or of another node than the sender may speak for; a sample older
than five minutes (a backlog is history and is never judged) or from the future; one no newer than what is known.
A stale marker ends its series: the row has no value until the next sample.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from fleet.telemetry import blanks, names, series, units, versions
from fleet.telemetry.claims import Answers, claims
from fleet.telemetry.frame import MAX_ROWS_PER_TARGET, NEVER, STALE_INTERVALS, Frame
from fleet.telemetry.intake import MAX_SKEW_SECONDS
from fleet.telemetry.remotewrite import STALE, PushCache, PushedSamples
from fleet.telemetry.series import REJECTS, Ambiguous, Resolver
from fleet.telemetry.targets import Target

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
PREFIX, GPU_SUFFIX = "push/", "/gpu"
MAX_JOBS = 32  # pushed jobs of one node; more is somebody inventing names
BASELINE_ROUNDS = 3  # a request may bring half of a scrape: what is new that early was there before
FORGET_SECONDS = 3600.0
EVERYDAY = frozenset({"unwanted", "blank", "nan", "history", "out_of_order", "also_scraped", "stale_marker"})
_GAUGE = np.array([not metric.counter for metric in names.METRICS.values()], dtype=bool)
_LO = np.array([metric.lo for metric in names.METRICS.values()])
_HI = np.array([metric.hi for metric in names.METRICS.values()])


def _job(labels: dict[str, str], kind: names.DeviceKind) -> str:
    """The exporter behind a series. One job may scrape several on a node: ports tell them apart, addresses change."""
    port = labels.get("instance", "").rpartition(":")[2]
    name = PREFIX + labels.get("job", "unnamed")[:64] + (f":{port}" if port.isdigit() else "")
    return name + GPU_SUFFIX if kind == "gpu" else name


class _Rounds:
    """By target: the scrape that its pushed samples are part of now. By device: the last one that showed it."""

    def __init__(self) -> None:
        self.stamp = np.zeros(256)
        self.heard = np.full(256, NEVER)
        self.number = np.zeros(256, dtype=np.int64)
        self.shown = np.zeros(1024, dtype=np.int64)
        self.devices: dict[int, set[int]] = {}

    def add(self, target: int, device: int) -> None:
        self.devices.setdefault(target, set()).add(device)
        if target >= len(self.stamp):
            self.stamp = np.pad(self.stamp, (0, target))
            self.number = np.pad(self.number, (0, target))
            self.heard = np.pad(self.heard, (0, target), constant_values=NEVER)
        if device >= len(self.shown):
            self.shown = np.pad(self.shown, (0, device))


class PushIntake:
    """Writes pushed samples into a frame. Used by the one thread that writes it."""

    def __init__(self, frame: Frame, resolve: Resolver, interval: float) -> None:
        self.frame, self.resolve, self.interval = frame, resolve, interval
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, str] = {}  # reason -> the name last refused for it
        self._caches: dict[str, PushCache] = {}
        self._pushed_by = np.full(1024, -1, dtype=np.int32)  # row -> the target that pushes it
        self._rounds = _Rounds()
        self._jobs: Counter[str] = Counter()
        self._scaled = False  # somebody told a metric in another unit than ours
        self._process_start: dict[int, float] = {}
        self._swept = NEVER
        self._answers = Answers()

    def cache(self, node: str, mono: float) -> PushCache:
        """What a sender may know: one that speaks for a single node shares no verdicts with the others."""
        found = self._caches.get(node)
        if found is None:
            found = self._caches[node] = PushCache(limit=10_000, most=50_000) if node else PushCache()
        found.now = mono
        return found

    def aliases_changed(self) -> None:
        """Whose a series is was cached with it: forget what another answer would change."""
        stale = self._answers.again(self.resolve)
        if stale == "all":
            self._caches.clear()
        elif stale == "unknown":
            for cache in self._caches.values():
                cache.forget(series.NO_NODE)

    def place(self, labels: dict[str, str], only: str, mono: float) -> int:
        """The row of a series, made at first sight, or a negative reject code."""
        name = labels["__name__"]
        metric = series.metric_of(name)
        if metric is None and name not in versions.BY_METRIC:
            return series.UNWANTED
        node = self._node(labels)
        if isinstance(node, int):
            return node
        if only and node != only:
            self.examples[REJECTS[series.OTHER_NODE]] = node
            return series.OTHER_NODE
        if metric is None:
            self.frame.versions.of_metric(node, _job(labels, "host"), name, labels)
            return series.UNWANTED
        if metric.kind == "gpu":
            self.frame.versions.of_gpu(node, _job(labels, "gpu"), labels)
        part = series.part_of(metric.kind, labels)
        if isinstance(part, int):
            return part
        target = self._target(node, _job(labels, metric.kind), metric.kind, mono)
        if target is None or target.rows >= MAX_ROWS_PER_TARGET:
            return series.TOO_MANY
        device = self.frame.device(node, part.key)
        index = self.frame.place(target, part) if device is None or device.target < 0 else device.index
        sub = target.job if metric.name == names.PROCESS_START else part.sub
        known = self.frame.find(metric.name, node, part.key, sub)
        row = self.frame.row(target, metric, index, sub) if known is None else known
        if known is None and row >= 0 and self.frame.t.epoch_seq[target.index] < BASELINE_ROUNDS:
            self.frame.r.born[row] = 1
        if row >= len(self._pushed_by):
            self._pushed_by = np.pad(self._pushed_by, (0, row), constant_values=-1)
        if row >= 0:
            self._pushed_by[row] = target.index
            self._rounds.add(target.index, index)
        self._scaled |= name in names.SCALED
        return units.marked(row, name)

    def _node(self, labels: dict[str, str]) -> str | int:
        said = claims(labels)
        found: set[str] = set()
        for name in said:
            node = self._answers.ask(name, self.resolve)
            if node is None or isinstance(node, Ambiguous):
                code = series.NO_NODE if node is None else series.TWO_NODES
                self.examples[REJECTS[code]] = name[:253]
                return code
            found.add(node)
        if len(found) == 1:
            return found.pop()
        code = series.OTHER_NODE if found else series.NO_NODE
        self.examples[REJECTS[code]] = " and ".join(sorted(found))[:253]
        return code

    def _target(self, node: str, job: str, kind: names.DeviceKind, mono: float) -> Target | None:
        frame = self.frame
        index = frame.target_index.get((node, job))
        if index is not None and frame.t.alive[index]:
            return frame.targets[index]
        if index is None:
            if self._jobs[node] >= MAX_JOBS:
                return None
            self._jobs[node] += 1
        target = frame.target(node, job, self.interval, mono)
        frame.t.gpu[target.index] = kind == "gpu"
        return target

    # -- one part of a request ------------------------------------------------------------------------------------

    def take(self, pushed: PushedSamples, mono: float, wall: float) -> tuple[int, Counter[str]]:
        """How many samples entered the frame, and how many did not by reason."""
        rejects = Counter({reason: pushed.counts[reason] for reason in ("malformed",) if pushed.counts[reason]})
        rows, values, source = pushed.rows, pushed.values, pushed.stamps / 1000.0
        if self._scaled:
            rows, values = units.applied(rows, values)
        if len(rows) and int(rows.min()) < 0:
            for code, count in Counter(rows[rows < 0].tolist()).items():
                rejects[REJECTS[code]] += count
            rows, values, source = _keep(rows >= 0, rows, values, source)
        age = wall - source
        for reason, mask in (("history", age > MAX_SKEW_SECONDS), ("clock_skew", age < -MAX_SKEW_SECONDS)):
            rejects[reason] += int(mask.sum())
        rows, values, source = _keep(np.abs(age) <= MAX_SKEW_SECONDS, rows, values, source)
        rows, values, source = self._unscraped(rows, values, source, mono, rejects)
        rows, values, source = self._newest(rows, values, source, rejects)
        taken = self._write(rows, values, source, mono, wall, rejects) if len(rows) else 0
        self.counts["samples"] += taken
        self.counts.update({f"rejected_{reason}": count for reason, count in rejects.items()})
        if mono - self._swept > 60.0:
            self._sweep(mono)
        return taken, +rejects

    def _unscraped(
        self, rows: Rows, values: Floats, source: Floats, mono: float, rejects: Counter[str]
    ) -> tuple[Rows, Floats, Floats]:
        """Leave the rows that a scrape of our own keeps fresh to it."""
        t = self.frame.t
        owner, mine = self.frame.r.target[rows], self._pushed_by[rows]
        other = (owner != mine) & (owner >= 0)
        if not other.any():
            return rows, values, source
        scraped = np.array([not target.job.startswith(PREFIX) for target in self.frame.targets], dtype=bool)
        fresh = t.alive[owner] & (mono - t.mono[owner] <= STALE_INTERVALS * t.interval[owner])
        kept = other & scraped[owner] & fresh
        rejects["also_scraped"] += int(kept.sum())
        t.mono[mine[kept]] = mono  # heard, and not needed
        return _keep(~kept, rows, values, source)

    def _newest(self, rows: Rows, values: Floats, source: Floats, rejects: Counter[str]) -> tuple[Rows, Floats, Floats]:
        """Of each row the newest sample, if it is newer than what is known; a repeated request changes nothing."""
        r = self.frame.r
        newer = (source > r.source[rows]) | (r.mono[rows] == NEVER)
        rejects["out_of_order"] += int((~newer).sum())
        rows, values, source = _keep(newer, rows, values, source)
        order = np.lexsort((source, rows))
        rows, values, source = rows[order], values[order], source[order]
        last = np.append(rows[1:] != rows[:-1], True) if len(rows) else np.zeros(0, dtype=bool)
        return _keep(last, rows, values, source)

    def _write(
        self, rows: Rows, values: Floats, source: Floats, mono: float, wall: float, rejects: Counter[str]
    ) -> int:
        r = self.frame.r
        stale = values.view(np.int64) == STALE
        if stale.any():
            ended = rows[stale]
            r.source[ended], r.mono[ended] = source[stale], NEVER
            rejects["stale_marker"] += int(stale.sum())
            self._heard(self._pushed_by[ended], source[stale], _NO_ROWS, mono, wall)
            rows, values, source = _keep(~stale, rows, values, source)
        found: Counter[str] = Counter()
        metric = r.metric[rows]
        keep = blanks.judge(values, _GAUGE[metric], _LO[metric], _HI[metric], found)
        if keep is not None:
            rejects.update(found)
            rows, values, source = _keep(keep, rows, values, source)
        if not len(rows):
            return 0
        mine = self._pushed_by[rows]
        taken_over = rows[r.target[rows] != mine]
        if len(taken_over):
            r.target[rows] = mine
            for row in taken_over[self.frame.d.gpu[r.device[taken_over]]].tolist():
                self.frame.own(int(r.device[row]), int(self._pushed_by[row]))
        self._clocks(rows, values, source)
        self.frame.write(rows, values, 0.0, source)
        r.mono[rows] = mono - np.maximum(wall - source, 0.0)
        self._heard(mine, source, rows, mono, wall)
        return len(rows)

    # -- what counts as one scrape --------------------------------------------------------------------------------

    def _heard(self, targets: NDArray[np.int32], source: Floats, rows: Rows, mono: float, wall: float) -> None:
        rounds = self._rounds
        order = np.argsort(targets, kind="stable")
        sorted_targets = targets[order]
        first = np.flatnonzero(np.append(True, sorted_targets[1:] != sorted_targets[:-1]))
        mine, newest = sorted_targets[first], np.maximum.reduceat(source[order], first)
        rounds.heard[mine] = mono
        later = newest > rounds.stamp[mine]
        for index, stamp in zip(mine[later].tolist(), newest[later].tolist(), strict=True):
            self._next(index, stamp, mono, wall)
        if len(rows):
            number = rounds.number[targets] - (source < rounds.stamp[targets])
            np.maximum.at(rounds.shown, self.frame.r.device[rows], number)

    def _next(self, index: int, stamp: float, mono: float, wall: float) -> None:
        """A newer time: the scrape before is whole. Devices first, the count last, as the frame does it."""
        frame, t, rounds = self.frame, self.frame.t, self._rounds
        gap, number = stamp - float(rounds.stamp[index]), int(rounds.number[index])
        if number and gap > STALE_INTERVALS * float(t.interval[index]):
            frame.new_epoch(frame.targets[index])  # meanwhile the exporter may have become another process
        elif number > 1:
            t.interval[index] = max(self.interval, gap)
        for device in rounds.devices.get(index, ()):
            if frame.d.target[device] == index:
                frame.d.seq[device] = min(int(rounds.shown[device]), number)
        t.wall[index] = stamp
        t.mono[index] = mono - max(wall - stamp, 0.0)
        if number:
            t.epoch_seq[index] += 1
        t.seq[index] = number
        rounds.stamp[index], rounds.number[index] = stamp, number + 1
        frame.targets[index].last_samples = frame.targets[index].rows

    def _clocks(self, rows: Rows, values: Floats, source: Floats) -> None:
        """What an exporter tells of its own clock and of its restart."""
        frame, metric = self.frame, self.frame.r.metric[rows]
        for at in np.flatnonzero(metric == names.ORDER[names.NODE_TIME]).tolist():
            index = int(self._pushed_by[rows[at]])
            frame.t.skew[index] = values[at] - source[at]
            frame.t.skew_seq[index] += 1
        for at in np.flatnonzero(metric == names.ORDER[names.PROCESS_START]).tolist():
            index = int(self._pushed_by[rows[at]])
            before = self._process_start.get(index)
            self._process_start[index] = float(values[at])
            if before is not None and abs(before - float(values[at])) > 1.0:
                target = frame.targets[index]
                for job in (target.job, target.job + GPU_SUFFIX):
                    same = frame.target_index.get((target.node, job))
                    if same is not None:
                        frame.new_epoch(frame.targets[same])

    def _sweep(self, mono: float) -> None:
        """A job that nobody has pushed for an hour is no longer expected."""
        self._swept = mono
        for index in np.flatnonzero(np.isfinite(self._rounds.heard)).tolist():
            if mono - float(self._rounds.heard[index]) > FORGET_SECONDS:
                target = self.frame.targets[index]
                self.frame.drop_target(target.node, target.job)
                self._rounds.heard[index], self._rounds.number[index] = NEVER, 0


_NO_ROWS: Rows = np.empty(0, dtype=np.int64)


def _keep(mask: NDArray[np.bool_], rows: Rows, values: Floats, source: Floats) -> tuple[Rows, Floats, Floats]:
    return (rows, values, source) if mask.all() else (rows[mask], values[mask], source[mask])
