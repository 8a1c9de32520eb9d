"""Rules on GPUs that are missing: one known by name, and a count that falls short without a name.

Decides from the GPUs that DCGM shows against those it showed before, what the node is expected to have, or else the
most it ever showed at once. Refuses to miss GPUs that virtual machines have (vfio), and a bare count where a missing
GPU is known by name: that is the better finding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet.health.rules.base import FrameRule
from fleet.health.rules.findings import Findings
from fleet.health.rules.gpu import gpu_evidence, gpu_label
from fleet.health.rules.levels import NEVER, Bools, Level, Name
from fleet.health.rules.types import ClusterView, Edge, Rule
from fleet.telemetry.frame import Frame


def gpu_targets(frame: Frame) -> NDArray[np.int64]:
    """The exporter of each device; a GPU known only from a checkpoint belongs to the exporter of its peers."""
    size = frame.d.size
    own, node = frame.d.target[:size].copy(), frame.d.node[:size]
    peers = np.full(len(frame.nodes), -1, dtype=np.int64)
    seen = frame.d.gpu[:size] & (own >= 0)
    peers[node[seen]] = own[seen]
    target: NDArray[np.int64] = np.where(frame.d.gpu[:size] & (own < 0), peers[node], own)
    return target


class GpuLost(FrameRule):
    """A GPU that was there is missing from the answers of an exporter that still shows other GPUs."""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.told: set[int] = set()
        self.most = np.zeros(0, dtype=np.int64)  # most GPUs seen at once, by node
        self._known = 0  # devices whose node was marked for saving

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        f = self.frame
        target = gpu_targets(f)
        size = len(target)  # of this look: devices may be added while it lasts
        gpu, node = f.d.gpu[:size], f.d.node[:size]
        if not gpu.any() or not f.t.size:  # right after a restart GPUs are known and no exporter is yet
            return []
        known = gpu & (target >= 0)
        up = ~f.stale_targets(view.monotonic)[target] & f.t.alive[target]
        missed = f.t.seq[target] - f.d.seq[:size]
        here = known & (missed == 0)
        present = np.bincount(node[here], minlength=len(f.nodes))
        self.most = np.maximum(np.pad(self.most, (0, len(present) - len(self.most))), present)
        self.remember(f.devices[index].node for index in range(self._known, size) if gpu[index])
        self._known = size
        enough = missed >= self.pools.thresholds(self.rule, node)
        gone = known & up & (present[node] > 0) & enough & ~quiet_nodes[node]
        edges: list[Edge] = []
        for index in np.flatnonzero(gone).tolist():
            if index not in self.told:
                edges += self._tell(view, index, int(present[node[index]]))
        for index in sorted(self.told):
            device = f.devices[index]
            whole = up[index] and present[node[index]] >= self._wanted(view, device.node)
            if here[index] or whole:
                self.told.discard(index)
                why = "seen_again" if here[index] else "count_whole"
                edges += self.findings.clear((device.node, device.key, self.rule.id), view.now, why)
        return edges

    def _wanted(self, view: ClusterView, node: str) -> int:
        facts = view.nodes.get(node)
        if facts is not None and facts.gpu_expected is not None and not facts.gpus_divided:
            return facts.gpu_expected
        return int(self.most[self.frame.node_index[node]])

    def _tell(self, view: ClusterView, index: int, present: int) -> list[Edge]:
        device = self.frame.devices[index]
        facts = view.nodes.get(device.node)
        if facts is None or facts.gpus_elsewhere or present >= self._wanted(view, device.node):
            return []  # a virtual machine has it, or it was replaced and the count is whole again
        self.told.add(index)
        wall = float(self.frame.t.wall[device.target]) if device.target >= 0 else 0.0
        args = {"gpu": gpu_label(self.frame, device.node, device.key)}
        evidence = {"gpus_seen": present, **gpu_evidence(self.frame, device.node, device.key)}
        title = "GPU %(gpu)s is gone from the bus"
        edge = self.edge(view, device.node, device.key, title, args, wall, evidence)
        return self.findings.observe(edge, facts, view.now, current=True)

    def export(self, node: str) -> Any:
        """The GPUs that count: those of the last answers and those whose loss is open."""
        f, kept = self.frame, {}
        patience = self.pools.rule(self.rule, node).threshold
        for device in f.devices_on(node):
            seen = device.target >= 0 and f.t.seq[device.target] - f.d.seq[device.index] < patience
            if device.kind == "gpu" and (seen or device.target < 0 or device.index in self.told):
                kept[device.key] = device.attrs
        return kept

    def load(self, node: str, state: Any) -> None:
        """GPUs known before a restart, so that one that is off the bus by now still has its UUID and address."""
        for key, attrs in state.items():
            device = self.frame.know_gpu(node, key, dict(attrs))
            if (node, key, self.rule.id) in self.findings.open:
                self.told.add(device.index)
        place = self.frame.node(node)
        self.most = np.pad(self.most, (0, max(0, place + 1 - len(self.most))))
        self.most[place] = max(int(self.most[place]), len(state))

    def forget(self, node: str) -> None:
        self.told = {index for index in self.told if self.frame.devices[index].node != node}


class GpuCount(FrameRule):
    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.level = Level(self.name, self._already)

    def _already(self) -> set[Name]:
        """The finding is the node's, the element an exporter: any of its exporters may clear it."""
        nodes = {node for node, _, _ in self.findings.of_cause(self.rule.id)}
        return {(target.node, target.job) for node in nodes for target in self.frame.targets_of(node)}

    def name(self, place: int) -> Name:
        return self.frame.targets[place].node, self.frame.targets[place].job

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        f = self.frame
        owner = gpu_targets(f)
        devices, size = len(owner), f.t.size  # read after the owners, so that none lies beyond it
        if not size:
            return []
        gpu = f.d.gpu[:devices] & (owner >= 0)
        here = gpu & (f.d.seq[:devices] == f.t.seq[owner])
        seen = np.bincount(owner[here], minlength=size)
        ever = np.bincount(owner[gpu], minlength=size)
        wanted, elsewhere = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=bool)
        for index in np.flatnonzero(f.t.gpu[:size]).tolist():
            facts = view.nodes.get(f.targets[index].node)
            if facts is not None:
                wanted[index] = 0 if facts.gpus_divided else facts.gpu_expected or 0
                elsewhere[index] = facts.gpus_elsewhere
        t = f.t
        # All known GPUs present, yet too few; or none at all while the exporter answers.
        few = wanted - seen >= np.maximum(self.pools.thresholds(self.rule, t.node[:size]), 1)
        short = (few & (seen == ever)) | ((seen == 0) & (ever > 0) & ~elsewhere)
        seq = np.where(t.seq[:size] > 0, t.seq[:size].astype(np.float64), NEVER)
        now = (view.monotonic, view.now.timestamp())
        patience = self.pools.patience(self.rule, t.node[:size])
        mono, wall = t.mono[:size], t.wall[:size].__getitem__
        opens, clears = self.level.step(seq, mono, wall, short, lambda few: quiet_nodes[t.node[few]], now, patience)
        self.remember(self.name(place)[0] for place in self.level.changed.tolist())
        edges: list[Edge] = []
        for place in opens.tolist():
            edges += self._tell(view, place, int(seen[place]), int(max(wanted[place], ever[place])))
        for place in clears.tolist():
            edges += self.findings.clear((f.targets[place].node, "", self.rule.id), view.now, "count_whole")
        return edges

    def _tell(self, view: ClusterView, place: int, seen: int, wanted: int) -> list[Edge]:
        node = self.frame.targets[place].node
        facts = view.nodes.get(node)
        if facts is None:
            return []
        args = {"seen": str(seen), "wanted": str(wanted)}
        title = "DCGM shows %(seen)s of %(wanted)s GPUs"
        first = float(self.level.bad_wall[place])
        edge = self.edge(view, node, "", title, args, first, {"seen": seen, "wanted": wanted})
        return self.findings.observe(edge, facts, view.now, current=True)

    def export(self, node: str) -> Any:
        places = [target.index for target in self.frame.targets_of(node)]
        return self.level.export(node, places)

    def load(self, node: str, state: Any) -> None:
        self.level.load(node, state)

    def forget(self, node: str) -> None:
        self.level.forget(node)
