"""Budgets count as they go along: never differently from counting all pods anew."""

from random import Random
from typing import Any

import pytest

from fleet.simulator.budgets import Budgets
from fleet.simulator.kube.selectors import object_selector
from fleet.simulator.store import Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]
OWNED, LOOSE = {"app": "cache", "pod-template-hash": "1"}, {"app": "cache"}


def _budget(name: str, **spec: Any) -> Json:
    about = {"name": name, "namespace": "services", "uid": name, "generation": 1}
    return {"metadata": about, "spec": {"selector": {"matchLabels": {"app": "cache"}}, **spec}, "status": {}}


def _pod(number: int, labels: dict[str, str], ready: bool, deleting: bool) -> Json:
    meta: Json = {"name": f"p{number}", "namespace": "services", "uid": str(number), "labels": labels}
    if deleting:
        meta["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": meta, "spec": {}, "status": {"phase": "Running", "conditions": conditions}}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_counted_step_by_step_is_what_is_there(seed: int) -> None:
    dice, store = Random(seed), Store()
    owner = {"name": "cache-1", "namespace": "services", "uid": "rs"}
    store["replicasets"].put({"metadata": owner, "spec": {"replicas": 12}})
    for budget in (_budget("few", maxUnavailable=2), _budget("share", minAvailable="50%")):
        store["poddisruptionbudgets"].put(budget)
    budgets = Budgets(store, Timeline())
    for number in range(6):
        store["pods"].put(_pod(number, OWNED, True, False))
    budgets.begin()
    for _ in range(120):
        number = dice.randrange(20)
        record = store["pods"].get(f"services/p{number}")
        covering = budgets.covering(record) if record is not None else []
        if record is not None and dice.random() < 0.2:
            store["pods"].remove(record.key)
        elif covering and covering[0]["status"]["disruptionsAllowed"] and record is not None and record.ready:
            budgets.spend(covering[0], record)  # its end follows, or does not
        else:
            labels = dice.choice([OWNED, LOOSE, {"app": "other"}])
            store["pods"].put(_pod(number, labels, dice.random() < 0.7, dice.random() < 0.3))
        for key in ("services/few", "services/share"):
            budgets.recount(key)
            assert _status(store, key) == _anew(store, key)


def _status(store: Store, key: str) -> Json:
    status = store["poddisruptionbudgets"].read(key)["status"]  # type: ignore[index]
    return {name: status[name] for name in ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")}


def _anew(store: Store, key: str) -> Json:
    budget = store["poddisruptionbudgets"].read(key)
    assert budget is not None
    covers = object_selector(budget["spec"]["selector"])
    pods = [pod for pod in store["pods"].records.values() if covers(pod.labels)]
    spent = budget["status"].get("disruptedPods") or {}
    healthy = sum(pod.ready and not pod.deleting and pod.name not in spent for pod in pods)
    owned = 12 if any("pod-template-hash" in pod.labels for pod in pods) else 0
    expected = owned + sum("pod-template-hash" not in pod.labels and not pod.deleting for pod in pods)
    desired = max(0, expected - 2) if "maxUnavailable" in budget["spec"] else -(-expected // 2)
    allowed = max(0, healthy - desired) if expected else 0
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
    }
