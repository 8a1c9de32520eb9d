"""PodDisruptionBudgets: how many pods may be missing right now.

It decides the status of every budget whenever a pod or a budget changes. It refuses to count a pod that is about to
go: an eviction that was allowed has been spent until its replacement is ready.
"""

import math
from collections import defaultdict
from typing import Any

import orjson

from fleet.simulator.kube.selectors import LabelTest, object_selector
from fleet.simulator.store import Event, Record, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]


class Budgets:
    """The disruption controller."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self.pods = store["pods"]
        self.sets = store["replicasets"]
        self.budgets = store["poddisruptionbudgets"]
        self.timeline = timeline
        self.active = False  # during construction every pod would recount everything
        self.tests: dict[str, LabelTest] = {}
        self.members: defaultdict[str, dict[str, Record]] = defaultdict(dict)  # budget -> the pods it covers
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
                    self.members[key][pod.key] = pod
        for record in self.budgets.ordered():
            self.recount(record.key)

    def covering(self, pod: Record) -> list[Json]:
        keys = sorted(key for key in self._candidates(pod) if pod.key in self.members[key])
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
        pods = self.members[key].values()
        old = budget.get("status") or {}
        disrupted = {n: t for n, t in (old.get("disruptedPods") or {}).items() if self._still(key, n)}
        healthy = sum(1 for pod in pods if pod.ready and not pod.deleting and pod.name not in disrupted)
        expected, desired = self._wanted(budget["spec"], list(pods))
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

    def _still(self, key: str, name: str) -> bool:
        pod = self.members[key].get(f"{key.partition('/')[0]}/{name}")
        return pod is not None and not pod.deleting

    def _wanted(self, spec: Json, pods: list[Record]) -> tuple[int, int]:
        """How many pods there should be, and how many of them must be healthy."""
        expected, seen = 0, set()
        for pod in pods:
            owner = f"{pod.namespace}/{pod.labels.get('app')}-{pod.labels.get('pod-template-hash')}"
            if owner in seen:
                continue
            replicas = self.sets.read(owner)
            if replicas is None:
                expected += not pod.deleting
            else:
                expected += replicas["spec"]["replicas"]
                seen.add(owner)
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
        mine = {p.key: p for p in self.pods.records.values() if p.namespace == record.namespace and test(p.labels)}
        self.members[record.key] = mine

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
            if not covered and pod.key not in self.members[key]:
                continue
            if covered:
                self.members[key][pod.key] = pod
            else:
                self.members[key].pop(pod.key, None)
            if before is None or not covered or (pod.ready, pod.deleting) != (before.ready, before.deleting):
                self.recount(key)


def _share(value: int | str, whole: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(whole * int(value[:-1]) / 100)
    return int(value)


def _generation(record: Record | None) -> int:
    return 0 if record is None else int(orjson.loads(record.body)["metadata"].get("generation", 1))
