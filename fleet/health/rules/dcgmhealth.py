"""Rules on DCGM's own health checks, by their codes.

Decides from the status of each check (10 warns, 20 fails) and the code beside it, which the table `dcgm.csv` or the
site gives a meaning; each code is a finding of its own. A check that tells another code now has taken its old one back:
that, and not the silence of the series, ends the finding. Refuses to act on a warning.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fleet.health.rules import dcgmcodes
from fleet.health.rules.findings import Findings
from fleet.health.rules.levels import Bools, Floats, Indices, Name
from fleet.health.rules.types import ClusterView, Edge, Meaning, Rule
from fleet.health.rules.watch import Watch
from fleet.health.rules.watching import GaugeRule
from fleet.telemetry import names
from fleet.telemetry.frame import Frame

WARN, FAIL = 10.0, 20.0
_TITLES = {
    FAIL: "DCGM's health check %(sub)s of GPU %(part)s fails: %(name)s",
    WARN: "DCGM's health check %(sub)s of GPU %(part)s warns: %(name)s",
}


class HealthCheck(GaugeRule):
    """One of the two states; rows are (GPU, check, code)."""

    status = FAIL

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        watch = Watch("is", names.HEALTH_STATUS, _TITLES[self.status], values=(self.status,))
        super().__init__(rule, watch, frame, findings)
        self._codes: list[tuple[str, str]] = []  # of each row: its check and its code
        self._checks: dict[Name, list[int]] = {}  # (node, device and check) -> its rows
        self._coded: list[int] = []  # rows of a check with several codes

    def cause_at(self, place: int) -> str:
        check, code = self._codes[place]
        return dcgmcodes.cause(code, check, self.status == WARN)

    def already(self) -> set[Name]:
        self._learn_rows()
        rows = range(len(self._codes))
        return {self.name(p) for p in rows if (*self.key(p), self.cause_at(p)) in self.findings.open}

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        self._learn_rows()
        return super().cycle(view, quiet_nodes)

    def _learn_rows(self) -> None:
        rows = self.frame.rows(self.watch.metric)
        for place in range(len(self._codes), len(rows)):
            check, _, code = self.frame.row_sub[int(rows[place])].partition("|")
            self._codes.append((check, code))
            node, device = self.key(place)
            mates = self._checks.setdefault((node, f"{device}|{check}"), [])
            mates.append(place)
            if len(mates) > 1:
                self._coded += mates if len(mates) == 2 else [place]

    def taken_back(self, rows: Indices, mono: Floats) -> Floats:
        """For rows whose check tells another code now, since when; else as they are."""
        newest = mono
        for place in self._coded:
            node, device = self.key(place)
            mates = self._checks[node, f"{device}|{self._codes[place][0]}"]
            latest = float(max(mono[mate] for mate in mates))
            if latest > mono[place]:
                newest = newest.copy() if newest is mono else newest
                newest[place] = latest
        return newest

    def tell(self, view: ClusterView, place: int, title: str, value: float, limit: float, first_bad: float) -> Edge:
        edge = super().tell(view, place, title, value, limit, first_bad)
        check, code = self._codes[place]
        what = self._meaning(code, edge.node)
        severity, action = what.severity, what.action
        if self.status == WARN and severity is not None:
            severity, action = self.rule.severity, self.rule.action_class
        evidence = {**edge.evidence, "check": check, "dcgm_code": code, "by_table": what.source}
        return replace(
            edge, cause=self.cause_at(place), code=(code or check).removeprefix("DCGM_FR_")[:32],
            severity=severity or "degraded", action_class=action, evidence=evidence,
            args={**edge.args, "sub": check, "name": what.name},
        )  # fmt: skip

    def _bad(self, rows: Indices, values: Floats) -> tuple[Bools, Floats, Bools]:
        bad, limit, known = super()._bad(rows, values)
        for place in np.flatnonzero(bad).tolist():
            if self._meaning(self._codes[place][1], self.key(place)[0]).severity is None:
                bad[place] = False
        return bad, limit, known

    def _meaning(self, code: str, node: str) -> Meaning:
        """The site's word, else the table's; a failure without a code is the rule's own."""
        facts = self.pools.by_name.get(node)
        said = self.pools.codes.said("dcgm", code, facts.pool if facts else "")
        if said is not None:
            return said
        if code in dcgmcodes.FINE:
            return Meaning(0, "no code is told", self.rule.action_class, self.rule.severity, self.rule.origin)
        return dcgmcodes.meaning(code)


class HealthWarning(HealthCheck):
    status = WARN
