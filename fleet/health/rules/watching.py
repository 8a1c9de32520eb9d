"""Rules over one metric, made from data: levels.

Decides which rows of a metric are bad by its `Watch`, and tells it in the words of the part. Rows that may not be
judged now (an idle link, a part never seen well, a companion metric that is missing) keep what was said of them:
silence neither opens nor clears. Refuses to hold meanings or limits itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.health.rules.base import FrameRule, number
from fleet.health.rules.findings import Findings
from fleet.health.rules.gpu import gpu_evidence, gpu_label
from fleet.health.rules.levels import NEVER, Bools, Floats, Indices, Level, Name
from fleet.health.rules.types import ClusterView, Edge, Rule
from fleet.health.rules.watch import Watch
from fleet.telemetry import names
from fleet.telemetry.frame import STALE_INTERVALS, Frame

_MISSED = 2  # answers without a series that is left out when all is well


def part_label(frame: Frame, row: int) -> str:
    """What people call the part behind a row."""
    device = frame.device_of(row)
    if device.kind == "gpu":
        return gpu_label(frame, device.node, device.key)
    if device.attrs.get("switch"):  # a cable has two ends
        return f"{device.key} ↔ {device.attrs['switch']}/{device.attrs['switch_port']}"
    return device.attrs.get("mountpoint") or device.attrs.get("export") or device.attrs.get("name") or device.key


def cable_evidence(frame: Frame, row: int) -> dict[str, Any]:
    """Both ends of the cable behind a port's row, and which of them counted; nothing where the far end is not known."""
    device, metric = frame.device_of(row), frame.metric_of(row)
    if not device.attrs.get("switch"):
        return {}
    cable = {"node": device.node, "port": device.key}
    cable |= {key: device.attrs[key] for key in ("switch", "switch_port")}
    counted = {"cable": cable, "counted_by": "switch" if metric in names.OF_SWITCHES else "node"}
    return counted | ({"alarms": device.attrs.get("alarms", "")} if metric == names.FABRIC_ALARM else {})


class RowRule(FrameRule):
    """What levels, growths and rates share: rows of one metric with their sub-series, and their companions."""

    def __init__(self, rule: Rule, watch: Watch, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.watch = watch
        self.cause = rule.id  # another one for each further source, so that each clears its own
        self._companions: dict[str, Indices] = {}

    def name(self, place: int) -> Name:
        row = int(self.frame.rows(self.watch.metric)[place])
        device, sub = self.frame.device_of(row), self.frame.row_sub[row]
        return device.node, f"{device.key}|{sub}" if sub else device.key

    def key(self, place: int) -> Name:
        """Node and device of the finding: all sub-series of a part are one."""
        device = self.frame.device_of(int(self.frame.rows(self.watch.metric)[place]))
        return device.node, device.key

    def cause_at(self, place: int) -> str:
        """What the finding of an element is called."""
        return self.cause

    def already(self) -> set[Name]:
        names: set[Name] = set()
        for node, key, _ in self.findings.of_cause(self.cause):
            names |= {self.name(p) for p in self.frame.places(node, self.watch.metric) if self.key(p)[1] == key}
        return names

    def mine(self, rows: Indices) -> Bools:
        """Rows of the sub-series that is watched."""
        if not self.watch.sub:
            return np.ones(len(rows), dtype=bool)
        code = self.frame.row_sub.known(self.watch.sub)
        found: Bools = self.frame.r.sub[rows] == (-1 if code is None else code)
        return found

    def companion(self, metric: str, rows: Indices) -> Indices:
        """For each row the row of another metric on the same part and sub-series; -1 where there is none yet."""
        known = self._companions.get(metric, np.empty(0, dtype=np.int64))
        if len(known) < len(rows):
            known = np.concatenate([known, np.full(len(rows) - len(known), -1, dtype=np.int64)])
        theirs = len(self.frame.rows(metric))
        missing = np.flatnonzero(known < 0)
        if theirs and len(missing) and self._grew(metric, theirs, len(rows)):
            known[missing] = self.frame.beside(metric, rows[missing])
        self._companions[metric] = known
        return known

    def _grew(self, metric: str, theirs: int, mine: int) -> bool:
        sizes = self.__dict__.setdefault("_sizes", {})
        grew = sizes.get(metric) != (theirs, mine)
        sizes[metric] = (theirs, mine)
        return bool(grew)

    def beside(self, metric: str, rows: Indices) -> Floats:
        """Values of a companion metric, nan where it is missing or older than the row by three intervals."""
        at = self.companion(metric, rows)
        r = self.frame.r
        values = np.full(len(rows), np.nan)
        told = at >= 0
        values[told] = r.value[at[told]]
        lag = np.full(len(rows), np.inf)
        with np.errstate(invalid="ignore"):  # neither was ever heard
            lag[told] = r.mono[rows[told]] - r.mono[at[told]]
        values[lag > STALE_INTERVALS * self.frame.t.interval[r.target[rows]]] = np.nan
        return values

    def tell(self, view: ClusterView, place: int, title: str, value: float, limit: float, first_bad: float) -> Edge:
        row = int(self.frame.rows(self.watch.metric)[place])
        node, device = self.key(place)
        sub = self.frame.row_sub[row]
        minutes = number(round(self.pools.rule(self.rule, node).window / 60, 1))
        args = {"part": part_label(self.frame, row), "sub": sub, "minutes": minutes}
        args |= {"value": short(value), "limit": short(limit)}
        evidence: dict[str, Any] = {"metric": self.watch.metric, "value": value, "limit": limit}
        evidence |= ({"sub": sub} if sub else {}) | gpu_evidence(self.frame, node, device)
        evidence |= cable_evidence(self.frame, row)
        args["sub"] = sub or str(evidence.get("alarms", ""))
        source = self.cause.partition(".")[2]  # a further source of the same rule is a signal of its own
        return self.edge(view, node, device, title, args, first_bad, evidence, cause=self.cause, code=source)

    def clear_if_last(self, view: ClusterView, place: int, still: Bools, why: str) -> list[Edge]:
        """Clear the part's finding unless another of its sub-series is still bad."""
        finding = (*self.key(place), self.cause_at(place))
        others = [p for p in self.frame.places(finding[0], self.watch.metric) if p < len(still) and still[p]]
        if any((*self.key(p), self.cause_at(p)) == finding for p in others):
            return []
        return self.findings.clear(finding, view.now, why)

    def taken_back(self, rows: Indices, mono: Floats) -> Floats:
        """For each row when its exporter last spoke of it: by the row, or by leaving it out where that means good."""
        return self.frame.t.mono[self.frame.r.target[rows]] if self.watch.gone_is_good else mono


class GaugeRule(RowRule):
    """A value that is bad for long enough."""

    def __init__(self, rule: Rule, watch: Watch, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, watch, frame, findings)
        self.level = Level(self.name, self.already)
        self.best: Floats = np.empty(0)  # nan: never seen well
        self._waiting: dict[Name, float] = {}

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        f, watch = self.frame, self.watch
        rows = f.rows(watch.metric)
        if not len(rows):
            return []
        r = f.r
        values, mono = r.value[rows], r.mono[rows]
        judged = self.mine(rows)
        if watch.how == "silent":
            between = STALE_INTERVALS * f.t.interval[r.target[rows]]  # it is asked no oftener than that
            limit = self.limits(rows)
            bad, mono = view.monotonic - mono > np.maximum(limit, between), mono.copy()
            judged = judged & np.isfinite(mono) & self._heard(view)[r.target[rows]]
            mono[:] = view.monotonic
        else:
            bad, limit, known = self._bad(rows, values)
            judged = judged & known
        spoke = self.taken_back(rows, mono)
        if spoke is not mono:
            bad, mono = bad & ~(spoke > mono), np.maximum(spoke, mono)
        stamp = np.where(judged, mono, NEVER)
        patience = self.pools.patience(self.rule, self.nodes_of(rows))
        now = (view.monotonic, view.now.timestamp())
        opens, clears = self.level.step(
            stamp, mono, lambda few: r.source[rows[few]], bad, lambda few: quiet_nodes[r.node[rows[few]]], now, patience
        )
        self.remember_rows(rows[self.level.changed])
        edges: list[Edge] = []
        for place in opens.tolist():
            facts = view.nodes.get(self.key(place)[0])
            if facts is None:
                self.level.open[place] = False
                continue
            first = float(self.level.bad_wall[place])
            edge = self.tell(view, place, watch.title, float(values[place]), float(limit[place]), first)
            edges += self.findings.observe(edge, facts, view.now, current=True)
        for place in clears.tolist():
            edges += self.clear_if_last(view, place, self.level.open, "good_again")
        return edges

    def _heard(self, view: ClusterView) -> Bools:
        """By exporter: whether it still answers. One that is silent as a whole says nothing of its parts."""
        t, size = self.frame.t, self.frame.t.size
        return t.alive[:size] & (view.monotonic - t.mono[:size] <= STALE_INTERVALS * t.interval[:size])

    def _bad(self, rows: Indices, values: Floats) -> tuple[Bools, Floats, Bools]:
        """Which are bad, against which limit, and which may be judged at all."""
        watch = self.watch
        known = np.ones(len(rows), dtype=bool)
        limit = self.limits(rows)
        values = values * watch.scale if watch.scale != 1.0 else values
        if watch.plus:
            values = values + np.nan_to_num(self.beside(watch.plus, rows))
        if watch.over:
            whole = self.beside(watch.over, rows)
            known &= whole > 0
            values = np.divide(values, whole, out=np.full(len(rows), np.nan), where=whole > 0)
        if watch.against:
            theirs = self.beside(watch.against, rows)
            known &= ~np.isnan(theirs)
            limit = theirs
        if watch.own_best:
            self._learn(values)
            limit = np.fmax(self.best, limit)
        if watch.active:
            known &= np.nan_to_num(self.beside(watch.active, rows), nan=-1.0) >= watch.active_from
        with np.errstate(invalid="ignore"):
            bad = _compare(watch, values, limit)
        if watch.seen_good:
            self._learn(np.where(bad | ~known, np.nan, values))
            known &= ~np.isnan(self.best)
        return bad, limit, known

    def _learn(self, values: Floats) -> None:
        old = len(self.best)
        if len(values) > old:
            more = np.full(len(values) - old, np.nan)
            if self._waiting:
                for place in range(old, len(values)):
                    more[place - old] = self._waiting.pop(self.name(place), np.nan)
            self.best = np.concatenate([self.best, more])
        better = np.fmax(self.best, values)
        grown = np.flatnonzero(~np.isnan(better) & (np.isnan(self.best) | (better > self.best)))
        self.best = better
        self.remember_rows(self.frame.rows(self.watch.metric)[grown])

    def export(self, node: str) -> Any:
        places = self.frame.places(node, self.watch.metric)
        best = {self.name(p)[1]: float(self.best[p]) for p in places if p < len(self.best) and self.best[p] > NEVER}
        level = self.level.export(node, places)
        return {"level": level, "best": best} if level or best else None

    def load(self, node: str, state: Any) -> None:
        self.level.load(node, state["level"])
        self._waiting |= {(node, device): float(best) for device, best in state["best"].items()}

    def forget(self, node: str) -> None:
        self.level.forget(node)


def _compare(watch: Watch, values: Floats, limit: Floats) -> Bools:
    how = watch.how
    if how == "at_least":
        bad = values >= limit
    elif how == "above":
        bad = values > limit
    elif how == "at_most":
        bad = values <= limit
    elif how == "below":
        bad = values < limit
    elif how == "not":
        bad = values != limit
    elif how == "is":
        bad = np.isin(values, np.array(watch.values))
    else:
        bad = (np.nan_to_num(values).astype(np.int64) & watch.mask) != 0
    return bad & ~np.isnan(values)


def short(value: float) -> str:
    """A number in a sentence: no more digits than people read."""
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1000 else f"{value:.4g}"
