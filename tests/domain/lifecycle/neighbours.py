"""The fleet in a storm, shared with other owners: what they do to nodes, and what we may never do to them.

Judges by the cluster alone: what stood on a node when it was last read and still stands when we act was knowable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from fleet.inventory.models import Cluster, Node
from fleet.inventory.owners import Stance, kept, of_requests, on_node
from fleet.lifecycle import withdrawing
from fleet.lifecycle.models import Workflow
from fleet.ports.cluster import GPU_SERVICES, HOLD_ANNOTATION, OUT_OF_SERVICE, NodeSeen, RequestSeen
from tests.builders import TestClock
from tests.domain.lifecycle.oracle import Act, Violation
from tests.domain.lifecycle.storm import Storm

UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
UPGRADES = ("upgrade-required", "cordon-required", "drain-required", "uncordon-required", "upgrade-done")
NVSENTINEL = "dgxc.nvidia.com/nvsentinel-state"
KURED = "weave.works/kured-reboot-in-progress"
DELETED = ("ToBeDeletedByClusterAutoscaler", "1777890000", "NoSchedule")
BUSY = (Stance.WORKING, Stance.DELETING)
BEGINS = ("hold", "evict", "power", "fence")


class Neighbours(Storm):
    def __init__(self, cluster: Cluster, clock: TestClock) -> None:
        super().__init__(cluster, clock)
        self.read: dict[str, NodeSeen] = {}
        self.asked: dict[str, list[RequestSeen]] = {}
        self.begun: set[str] = set()  # nodes whose drain or fence is under way
        self.waits = 0
        self.objections: list[str] = []  # an engine takes an exception of a call for a bug of its own, and goes on

    # -- what they do --------------------------------------------------------------------------------------------

    def upgrade(self, name: str) -> None:
        """The operator goes one state further; it cordons, and uncordons what it cordoned."""
        now = self.nodes[name].labels.get(UPGRADE, "upgrade-done")
        state = UPGRADES[(UPGRADES.index(now) + 1) % len(UPGRADES)]
        self._label(name, UPGRADE, state)
        if state == "cordon-required":
            self.cordon(name)
        if state == "uncordon-required" and name in self.oracle.cordoned:
            self.uncordon(name)

    def quarantine(self, name: str) -> None:
        """NVSentinel cordons; of a node that was cordoned before it takes away its own label only."""
        if self.nodes[name].labels.get(NVSENTINEL):
            self._label(name, NVSENTINEL, "")
            if name in self.oracle.cordoned:
                self.uncordon(name)
            return
        self._label(name, NVSENTINEL, "quarantined")
        self.cordon(name)

    def drain_by_other(self, name: str) -> None:
        if self.nodes[name].labels.get(NVSENTINEL):
            self._label(name, NVSENTINEL, "draining")

    def request(self, name: str) -> None:
        """NVSentinel asks for a reboot, which happens; asked again, it is over."""
        there = self.requests.get(name, [])
        if there and not there[0].finished:
            self.requests[name] = [dataclasses.replace(there[0], finished=True)]
            self.change(name, boot_id=f"boot-{name}-by-other-{len(self.sent)}")
            return
        self.requests[name] = [
            RequestSeen("janitor.dgxc.nvidia.com", "RebootNode", f"r-{name}", "", False, self.clock.now())
        ]

    def kured(self, name: str) -> None:
        marks = dict(self.nodes[name].annotations)
        if marks.pop(KURED, None) is None:
            marks[KURED] = "2026-05-04T11:00:00Z"
        self.change(name, annotations=marks)

    def taint(self, name: str) -> None:
        """The autoscaler begins to delete, or calls it off."""
        others = tuple(taint for taint in self.nodes[name].taints if taint != DELETED)
        self.change(name, taints=others if DELETED in self.nodes[name].taints else (*others, DELETED))

    def recreate(self, name: str) -> None:
        """The Node object is deleted and made anew: nothing of it is left."""
        self.change(name, uid=f"{self.nodes[name].uid}x", annotations={}, labels={}, taints=(), unschedulable=False)
        self.boots_at.pop(name, None)  # a host registers anew when it is up
        self.requests.pop(name, None)
        self.oracle.cordoned.discard(name)
        self.begun.discard(name)

    def _label(self, name: str, key: str, value: str) -> None:
        labels = {**self.nodes[name].labels, key: value}
        self.change(name, labels={key: value for key, value in labels.items() if value})

    def all_leave(self) -> None:
        for name, seen in self.nodes.items():
            notes = {key: mark for key, mark in seen.annotations.items() if key == HOLD_ANNOTATION}
            self.change(name, labels={}, annotations=notes, taints=tuple(t for t in seen.taints if t != DELETED))
        self.requests.clear()

    # -- the observer, the sweep, what is read ---------------------------------------------------------------------

    def settle(self) -> None:
        super().settle()
        if self.blind:
            return
        for name, seen in self.nodes.items():
            marks = on_node(seen)
            foreign = seen.unschedulable and (HOLD_ANNOTATION not in seen.annotations or name in self.oracle.cordoned)
            before = self.told[name].get("owners", ())
            rows = kept(marks, foreign, before, self.clock.now())
            fields = {"owners": rows, "labels": dict(seen.labels), "uid": seen.uid}
            if {key: self.told[name].get(key) for key in fields} != fields:
                Node.objects.filter(name=name, gone_at=None).update(**fields)
            self.told[name] = {**self.told[name], **fields}

    def sweep(self) -> None:
        withdrawing.leave_departing(self.clock.now())
        super().sweep()

    def node(self, name: str) -> NodeSeen:
        seen = super().node(name)
        self.read[name] = seen
        self.asked.pop(name, None)
        return seen

    def requests_on(self, node: str) -> list[RequestSeen]:
        self.point()
        self.asked[node] = list(super().requests_on(node))
        return self.asked[node]

    # -- judging ------------------------------------------------------------------------------------------------------

    def call(self, act: Act, do: Callable[[], Any], untrue: Callable[[], Any]) -> Any:
        def judged() -> Any:
            before = self.nodes.get(act.node)
            self._may_begin(act)
            answer = do()
            if before is not None:
                self._left_alone(act, before, self.nodes[act.node])
            return answer

        return super().call(act, judged, untrue)

    def _busy(self, seen: NodeSeen, requests: list[RequestSeen]) -> set[str]:
        found = (*on_node(seen), *of_requests(requests, self.clock.now()))
        return {owner.name for owner in found if owner.stance in BUSY}

    def _may_begin(self, act: Act) -> None:
        name = act.node
        begins = act.kind in BEGINS and act.value != "On" and name not in self.begun
        if begins and name in self.read:
            then = self._busy(self.read[name], self.asked.get(name, []))
            now = self._busy(self.nodes[name], self.requests.get(name, []))
            if then & now:
                self.objections.append(f"{act.kind} began on {name} beside {', '.join(sorted(then & now))}")
        if act.kind in ("evict", "power", "fence"):
            self.begun.add(name)
        if act.kind in ("release", "uncordon"):
            self.begun.discard(name)
        if act.kind == "uncordon":
            marks = [{o.name for o in on_node(s) if o.stance in (Stance.WORKING, Stance.HOLDING)}
                     for s in (self.read[name], self.nodes[name])]  # fmt: skip
            if marks[0] & marks[1]:
                self.objections.append(f"{name} was uncordoned while {', '.join(sorted(marks[0] & marks[1]))} holds it")

    def _left_alone(self, act: Act, before: NodeSeen, after: NodeSeen) -> None:
        """Every mark but our own is what it was."""

        def theirs(seen: NodeSeen) -> tuple[Any, ...]:
            notes = {key: mark for key, mark in seen.annotations.items() if key != HOLD_ANNOTATION}
            labels = {key: value for key, value in seen.labels.items() if key not in GPU_SERVICES}
            return notes, labels, {taint for taint in seen.taints if taint != OUT_OF_SERVICE}

        if theirs(before) != theirs(after):
            self.objections.append(f"{act.kind} on {act.node} changed others' marks: {theirs(before)}, {theirs(after)}")

    def look(self) -> None:
        """What was objected to; and whoever waits for another owner names it."""
        if self.objections:
            raise Violation(self.objections[0])
        for workflow in Workflow.objects.filter(blocked_code="owner"):
            self.waits += 1
            if not workflow.blocked_text.startswith(("NVIDIA GPU", "NVSentinel ", "kured ", "cluster-autoscaler ")):
                raise Violation(f"{workflow.label} waits for an owner without a name: {workflow.blocked_text}")
