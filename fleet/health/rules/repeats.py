"""Rule: an application error (Xid 13 or 31) that follows the GPU, not the program.

Decides by how many workloads saw the same code on the same GPU within the window, for 13 in the same part of it. Two
sightings are of different workloads when their names differ; where no name is known, when their processes differ and
more than a burst lies between them, because one program that dies on all its ranks is one. Refuses to say more than a
suspicion: an active test or a person confirms it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from fleet.health.rules.base import FrameRule, number
from fleet.health.rules.findings import Findings
from fleet.health.rules.gpu import gpu_evidence, gpu_label
from fleet.health.rules.levels import Bools
from fleet.health.rules.types import ClusterView, Edge, NodeFacts, Rule
from fleet.telemetry.frame import Frame
from fleet.telemetry.kernelsignals import KernelSignal

APPLICATION = frozenset({13, 31})
BURST = timedelta(minutes=3)
KEPT = 16  # sightings of one code on one GPU; more say nothing new
_PLACE = re.compile(r"GPC (\d+), TPC (\d+)")
Key = tuple[str, str, int]  # node, device, code


@dataclass(frozen=True, slots=True)
class Sight:
    """`at` is a time of the wall clock in seconds; `workload`, `process` and `place` are empty where not known."""

    at: float
    workload: str = ""
    process: str = ""
    place: str = ""

    def differs(self, other: Sight) -> bool:
        """Is it surely of another workload?"""
        if self.workload and other.workload:
            return self.workload != other.workload
        apart = abs(self.at - other.at) > BURST.total_seconds()
        return apart and bool(self.process and other.process) and self.process != other.process

    def same_part(self, other: Sight) -> bool:
        return not self.place or not other.place or self.place == other.place


class AppRepeats(FrameRule):
    """Fed by lines as they come; a cycle only forgets what is too old."""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self._seen: dict[Key, list[Sight]] = {}
        self._lock = Lock()

    def saw(
        self, code: int, device: str, signal: KernelSignal, facts: NodeFacts, at: datetime, now: datetime
    ) -> list[Edge]:
        """One line of code 13 or 31."""
        rule = self.pools.rule_of(self.rule, facts.pool)
        place = _PLACE.search(signal.detail) if code == 13 else None
        sight = Sight(
            at.timestamp(), facts.workload, signal.process, f"GPC {place[1]}, TPC {place[2]}" if place else ""
        )
        with self._lock:
            key = (facts.name, device, code)
            since = at.timestamp() - rule.window
            kept = [old for old in self._seen.get(key, []) if old.at >= since]
            self._seen[key] = [*kept, sight][-KEPT:]
            distinct = _distinct([old for old in self._seen[key] if old.same_part(sight)])
        self.findings.remember(facts.name)
        if len(distinct) < max(2, rule.threshold):
            return []
        args = {
            "device": device, "node": facts.name, "gpu": gpu_label(self.frame, facts.name, device), "code": str(code),
            "count": str(len(distinct)), "hours": number(round(rule.window / 3600, 1)),
        }  # fmt: skip
        evidence = {"xid": code, "sightings": [asdict(one) for one in distinct], "part": sight.place}
        edge = Edge(
            "opened", rule.id, facts.name, device, str(code), f"xid-{code}-repeat", rule.severity, rule.action_class,
            "GPU %(gpu)s reported Xid %(code)s under %(count)s workloads within %(hours)s h", args,
            datetime.fromtimestamp(distinct[0].at, now.tzinfo), now, "kernel_log", rule.latched,
            {**evidence, **gpu_evidence(self.frame, facts.name, device)},
        )  # fmt: skip
        return self.findings.observe(edge, facts, at)

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        oldest = view.now.timestamp() - max(self.pools.every(self.rule, "window"))
        with self._lock:
            for key in [key for key, seen in self._seen.items() if key[0] not in view.nodes or seen[-1].at < oldest]:
                del self._seen[key]
        return []

    def export(self, node: str) -> Any:
        with self._lock:
            mine = [(key, seen) for key, seen in self._seen.items() if key[0] == node]
        return [[key[1], key[2], [asdict(sight) for sight in seen]] for key, seen in mine]

    def load(self, node: str, state: Any) -> None:
        for device, code, seen in state:
            self._seen[node, device, int(code)] = [Sight(**sight) for sight in seen]

    def forget(self, node: str) -> None:
        """A remediation or a passed test: what was before counts no more."""
        with self._lock:
            for key in [key for key in self._seen if key[0] == node]:
                del self._seen[key]


def _distinct(seen: Sequence[Sight]) -> list[Sight]:
    """Sightings that are each of another workload than all before."""
    found: list[Sight] = []
    for sight in seen:
        if all(sight.differs(other) for other in found):
            found.append(sight)
    return found
