"""PodDisruptionBudgets: how many pods may be missing right now.

It decides the status of every budget whenever a pod or a budget changes. It refuses to count a pod that is about to
go: an eviction that was allowed has been spent until its replacement is ready. What a change costs does not grow with
the pods that a budget covers.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import orjson

from fleet.simulator.kube.selectors import LabelTest, object_selector
from fleet.simulator.store import Event, Record, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]


@dataclass(slots=True)
class Covered:
    """The pods of one budget, counted as they come and go."""

    pods: dict[str, Record] = field(default_factory=dict)
    up: int = 0  # ready, and not about to go
    of_owner: Counter[str] = field(default_factory=Counter)
    standing: Counter[str] = field(default_factory=Counter)  # of each owner, not about to go

    def put(self, pod: Record) -> None:
        self.drop(pod.key)
        self.pods[pod.key] = pod
        self._count(pod, 1)

    def drop(self, key: str) -> None:
        pod = self.pods.pop(key, None)
        if pod is not None:
            self._count(pod, -1)

    def _count(self, pod: Record, one: int) -> None:
        owner = f"{pod.namespace}/{pod.labels.get('app')}-{pod.labels.get('pod-template-hash')}"
        self.up += one * (pod.ready and not pod.deleting)
        self.standing[owner] += one * (not pod.deleting)
        self.of_owner[owner] += one
        if not self.of_owner[owner]:
            del self.of_owner[owner], self.standing[owner]


class Budgets:
    """The disruption controller."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self.pods = store["pods"]
        self.sets = store["replicasets"]
        self.budgets = store["poddisruptionbudgets"]
        self.timeline = timeline
        self.active = False  # during construction every pod would recount everything
        self.tests: dict[str, LabelTest] = {}
        self.members: defaultdict[str, Covered] = defaultdict(Covered)
        # namespace and app -> budgets that select by that label alone; others are asked about every pod ("" as app)
        self.by_app: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self.pods.listeners.append(self._pod_changed)
        self.budgets.listeners.append(self._budget_changed)

    def begin(self) -> None:
        self.active = True
        for record in self.budgets.ordered():
            self._watch(record)
        for pod in self.pods.records.values():
            for key in self._candidates(pod):
                if self.tests[key](pod.labels):
                    self.members[key].put(pod)
        for record in self.budgets.ordered():
            self.recount(record.key)

    def covering(self, pod: Record) -> list[Json]:
        keys = sorted(key for key in self._candidates(pod) if pod.key in self.members[key].pods)
        return [budget for key in keys if (budget := self.budgets.read(key)) is not None]

    def spend(self, budget: Json, pod: Record) -> None:
        status = budget["status"]
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[pod.name] = self.timeline.stamp()
        self.budgets.put(budget)

    def recount(self, key: str) -> None:
        budget = self.budgets.read(key)
        if budget is None:
            return
        covered = self.members[key]
        old = budget.get("status") or {}
        going = {n: self._still(key, n) for n in old.get("disruptedPods") or {}}
        disrupted = {n: t for n, t in (old.get("disruptedPods") or {}).items() if going[n]}
        healthy = covered.up - sum(pod.ready for pod in going.values() if pod)
        expected, desired = self._wanted(budget["spec"], covered)
        status: Json = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 1),
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        if status != {k: v for k, v in old.items() if k != "conditions"}:
            allowed = status["disruptionsAllowed"] > 0
            status["conditions"] = [
                {
                    "type": "DisruptionAllowed",
                    "status": "True" if allowed else "False",
                    "reason": "SufficientPods" if allowed else "InsufficientPods",
                    "message": "",
                    "observedGeneration": status["observedGeneration"],
                    "lastTransitionTime": self.timeline.stamp(),
                }
            ]
            self.budgets.put(budget | {"status": status})

    def _still(self, key: str, name: str) -> Record | None:
        """The pod whose eviction was allowed and has not begun."""
        pod = self.members[key].pods.get(f"{key.partition('/')[0]}/{name}")
        return None if pod is None or pod.deleting else pod

    def _wanted(self, spec: Json, covered: Covered) -> tuple[int, int]:
        """How many pods there should be, and how many of them must be healthy."""
        expected = 0
        for owner, standing in covered.standing.items():
            replicas = self.sets.read(owner)
            expected += standing if replicas is None else replicas["spec"]["replicas"]
        if "maxUnavailable" in spec:
            return expected, max(0, expected - _share(spec["maxUnavailable"], expected))
        return expected, _share(spec.get("minAvailable", 1), expected)

    def _candidates(self, pod: Record) -> set[str]:
        general = self.by_app.get((pod.namespace, ""), set())
        return general | self.by_app.get((pod.namespace, pod.labels.get("app", "")), set())

    def _watch(self, record: Record) -> LabelTest:
        selector = (orjson.loads(record.body).get("spec") or {}).get("selector")
        simple = (selector or {}).get("matchLabels", {}).get("app", "")
        self.by_app[(record.namespace, simple)].add(record.key)
        test = self.tests[record.key] = object_selector(selector)
        return test

    def _forget(self, record: Record) -> None:
        for keys in self.by_app.values():
            keys.discard(record.key)
        self.members.pop(record.key, None)

    def _learn(self, record: Record) -> None:
        self._forget(record)
        test = self._watch(record)
        for pod in self.pods.records.values():
            if pod.namespace == record.namespace and test(pod.labels):
                self.members[record.key].put(pod)

    def _budget_changed(self, event: Event) -> None:
        key = event.record.key
        if not self.active:
            return
        if event.type == "DELETED":
            self._forget(event.record)
        elif event.type == "ADDED" or _generation(event.record) != _generation(event.before):
            self._learn(event.record)
            self.timeline.real_after(0.01, lambda: self.recount(key))

    def _pod_changed(self, event: Event) -> None:
        if not self.active:
            return
        pod, before = event.record, event.before
        concerned = self._candidates(pod)
        if before is not None and before.labels != pod.labels:
            concerned |= self._candidates(before)
        for key in concerned:
            covered = event.type != "DELETED" and self.tests[key](pod.labels)
            if not covered and pod.key not in self.members[key].pods:
                continue
            if covered:
                self.members[key].put(pod)
            else:
                self.members[key].drop(pod.key)
            if before is None or not covered or (pod.ready, pod.deleting) != (before.ready, before.deleting):
                self.recount(key)


def _share(value: int | str, whole: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(whole * int(value[:-1]) / 100)
    return int(value)


def _generation(record: Record | None) -> int:
    return 0 if record is None else int(orjson.loads(record.body)["metadata"].get("generation", 1))
