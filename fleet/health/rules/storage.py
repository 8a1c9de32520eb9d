"""Rule: a mount that does not answer.

Decides from node_exporter's own stat time-out, and from the kernel's NFS stall whose OK has not come. Refuses to
touch the mount: looking at a hung mount hangs.
"""

from __future__ import annotations

from datetime import datetime
from threading import Lock
from typing import Any

from fleet.health.rules.base import FrameRule, LevelRule
from fleet.health.rules.findings import Findings
from fleet.health.rules.levels import Bools, Floats, Indices
from fleet.health.rules.types import ClusterView, Edge, Rule
from fleet.telemetry import names
from fleet.telemetry.frame import Frame


class MountHung(LevelRule):
    """node_exporter could not stat the mount."""

    metric = names.MOUNT_ERROR

    def bad(self, view: ClusterView, rows: Indices, values: Floats) -> Bools:
        return values > 0

    def tell(self, view: ClusterView, row: int, first_bad: float) -> Edge:
        device = self.frame.device_of(row)
        mount = device.attrs.get("mountpoint", device.key)
        title, args = "Mount %(mount)s does not answer", {"mount": mount}
        return self.edge(view, device.node, device.key, title, args, first_bad, dict(device.attrs))


class NfsStalled(FrameRule):
    """The kernel said that a server does not respond, and has not said OK since. Fed by lines, judged by cycles."""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self._stalls: dict[tuple[str, str], tuple[datetime, datetime]] = {}  # since by the line, since by our clock
        self._lock = Lock()

    def stalled(self, node: str, server: str, at: datetime, now: datetime) -> None:
        with self._lock:
            self._stalls.setdefault((node, server), (at, now))
            self.findings.remember(node)

    def answered(self, node: str, server: str, at: datetime, now: datetime) -> list[Edge]:
        with self._lock:
            since = self._stalls.get((node, server))
            if since is not None and since[0] > at:
                return []  # an OK older than the stall: lines came out of order
            self._stalls.pop((node, server), None)
            self.findings.remember(node)
        return self.findings.clear((node, f"nfs:{server}", self.rule.id), now, "server_ok")

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        with self._lock:
            stalls = list(self._stalls.items())
        edges: list[Edge] = []
        for (node, server), (at, heard) in stalls:
            facts = view.nodes.get(node)
            if facts is None or at < facts.horizon:
                with self._lock:
                    self._stalls.pop((node, server), None)
                edges += self.findings.clear((node, f"nfs:{server}", self.rule.id), view.now, "new_boot")
                continue
            place = self.frame.node_index.get(node)
            quiet = facts.in_remediation or (place is not None and bool(quiet_nodes[place]))
            key = (node, f"nfs:{server}", self.rule.id)
            window = self.pools.rule(self.rule, node).window
            if quiet or key in self.findings.open or (view.now - heard).total_seconds() < window:
                continue
            title, args, evidence = "NFS server %(server)s does not answer", {"server": server}, {"server": server}
            edge = self.edge(view, node, f"nfs:{server}", title, args, at.timestamp(), evidence)
            edges += self.findings.observe(edge, facts, view.now, current=True)
        return edges

    def export(self, node: str) -> Any:
        with self._lock:
            return {s: [at.isoformat(), now.isoformat()] for (n, s), (at, now) in self._stalls.items() if n == node}

    def load(self, node: str, state: Any) -> None:
        for server, (at, now) in state.items():
            self._stalls[node, server] = (datetime.fromisoformat(at), datetime.fromisoformat(now))
