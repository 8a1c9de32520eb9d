"""Rules on GPUs that need more than one metric to judge: Xid through DCGM, and heat.

Decides from DCGM's samples alone. The Xid metric keeps its last value until the exporter restarts, so only a change
between two scrapes of one exporter counts, and whatever the first scrape shows is a baseline. Refuses to read a
vanished metric as good news.
"""

from __future__ import annotations

import numpy as np

from fleet.health.rules import xid
from fleet.health.rules.base import FrameRule, LevelRule, aligned, number
from fleet.health.rules.findings import Findings
from fleet.health.rules.levels import Bools, Floats, Indices
from fleet.health.rules.types import ClusterView, Edge, Rule
from fleet.telemetry import names
from fleet.telemetry.frame import Frame

HW_THERMAL = 0x40
XID_TITLE = "GPU %(gpu)s reported Xid %(code)s: %(name)s"


def gpu_label(frame: Frame, node: str, device: str) -> str:
    """What people call a GPU: its index where known, else its key."""
    known = frame.device(node, device)
    return known.attrs.get("index") or device if known else device


def gpu_evidence(frame: Frame, node: str, device: str) -> dict[str, str]:
    known = frame.device(node, device)
    return {} if known is None else {key: known.attrs[key] for key in ("index", "pci", "serial") if key in known.attrs}


class XidMetric(FrameRule):
    """The backup of the kernel log: an edge of (GPU, value) between two scrapes of the same exporter process."""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.value: Floats = np.empty(0)
        self.epoch = np.empty(0, dtype=np.int64)

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        f = self.frame
        rows = f.rows(names.XID)
        if not len(rows):
            return []
        values, epoch = f.r.value[rows], f.t.epoch[f.r.target[rows]]
        old = len(self.value)
        if len(rows) > old:
            # Exporters show the metric only from the first Xid on: late rows grew from zero, first ones are a baseline.
            late = np.where(f.r.born[rows[old:]] > 1, 0.0, np.nan)
            self.value = np.concatenate([self.value, late])
            self.epoch = np.concatenate([self.epoch, epoch[old:]])
        same = epoch == self.epoch
        changed = same & ~np.isnan(self.value) & (values != self.value) & (values > 0)
        self.value, self.epoch = values.copy(), epoch.copy()
        edges: list[Edge] = []
        for place in np.flatnonzero(changed).tolist():
            row = int(rows[place])
            edges += self.told(view, row, int(f.r.value[row]))
        return edges

    def told(self, view: ClusterView, row: int, code: int) -> list[Edge]:
        """The finding of a code that a GPU's exporter has just told by that row."""
        device = self.frame.device_of(row)
        facts = view.nodes.get(device.node)
        said = self.pools.codes.said("xid", code, facts.pool) if facts else None
        what = said or xid.meaning(code)
        quiet = code == xid.RECOVERY or (code in xid.AFTER_EFFECTS and said is None)
        if what.severity is None or facts is None or quiet:
            self.findings.counts["ignored_xid"] += 1
            return []
        address = device.attrs.get("pci", "")
        key = device.key
        if address and (device.node, f"pci:{address}", f"xid-{code}") in self.findings.open:
            key = f"pci:{address}"  # the log was first and did not know the UUID yet
        args = {"gpu": gpu_label(self.frame, device.node, device.key), "code": str(code), "name": what.name}
        evidence = {"xid": code, "by_table": what.source, **gpu_evidence(self.frame, device.node, device.key)}
        source = float(self.frame.r.source[row])
        edge = self.edge(
            view, device.node, key, XID_TITLE, args, source, evidence,
            cause=f"xid-{code}", code=str(code), severity=what.severity, action=what.action,
        )  # fmt: skip
        return self.findings.observe(edge, facts, edge.first_bad_at)


class Thermal(LevelRule):
    metric = names.GPU_TEMP

    def _limit(self, rows: Indices) -> Floats:
        fallback = self.limits(rows)
        limit = fallback.copy()
        own = aligned(self.frame, rows, names.SLOWDOWN_TEMP)
        told = own >= 0
        limit[told] = self.frame.r.value[own[told]]
        return np.where(np.isnan(limit), fallback, limit)

    def bad(self, view: ClusterView, rows: Indices, values: Floats) -> Bools:
        hot = values >= self._limit(rows)
        reasons = aligned(self.frame, rows, names.CLOCK_REASONS)
        told = np.flatnonzero(reasons >= 0)
        bits = np.nan_to_num(self.frame.r.value[reasons[told]]).astype(np.int64)
        fresh = self.frame.r.mono[reasons[told]] >= self.frame.r.mono[rows[told]]
        hot[told] |= ((bits & HW_THERMAL) != 0) & fresh
        return hot

    def tell(self, view: ClusterView, row: int, first_bad: float) -> Edge:
        device = self.frame.device_of(row)
        value = float(self.frame.r.value[row])
        limit = float(self._limit(np.array([row]))[0])
        args = {"gpu": gpu_label(self.frame, device.node, device.key), "value": number(value), "limit": number(limit)}
        evidence = {"celsius": value, "limit": limit, **gpu_evidence(self.frame, device.node, device.key)}
        title = "GPU %(gpu)s is slowed down by heat at %(value)s °C"
        if value >= limit:
            title = "GPU %(gpu)s is slowed down by heat at %(value)s °C (limit %(limit)s °C)"
        return self.edge(view, device.node, device.key, title, args, first_bad, evidence)
