"""The eviction subresource of pods: a delete that asks the PodDisruptionBudgets first.

It decides 201, 429 or 500 as the API server does. It refuses to hurry: an accepted eviction only begins a graceful
termination.
"""

from typing import Any

from fleet.simulator.budgets import Budgets
from fleet.simulator.kube.errors import ApiError, bad_request, not_found
from fleet.simulator.kube.kinds import Kind
from fleet.simulator.kube.writing import Writing
from fleet.simulator.stats import Stats
from fleet.simulator.store import Record, Store

Json = dict[str, Any]
WHY = ("EvictionByEvictionAPI", "Eviction API: evicting")
REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(
    store: Store, writing: Writing, budgets: Budgets, stats: Stats, kind: Kind, key: str, body: Any, dry: bool
) -> Json:
    name = key.rpartition("/")[2]
    record = store["pods"].get(key)
    if record is None:
        raise not_found(kind, name)
    if not isinstance(body, dict) or body.get("kind", "Eviction") != "Eviction":
        raise bad_request("the body of the request must be a policy/v1 Eviction")
    if (body.get("metadata") or {}).get("name", name) != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = dict(body.get("deleteOptions") or {})
    dry = dry or bool(options.get("dryRun"))
    writing.check_preconditions(kind, record, options.get("preconditions") or {})
    if not (record.deleting or record.phase in ("Succeeded", "Failed", "Pending")):
        try:
            _ask(budgets, record, dry)
        except ApiError:
            stats.evictions["refused"] += 1
            raise
    if not dry:
        stats.evictions["repeated" if record.deleting else "accepted"] += 1
        writing.kubelets.delete(record, options.get("gracePeriodSeconds"), WHY)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _unhealthy_may_go(spec: Json, status: Json) -> bool:
    """A pod that serves nobody costs its budget nothing."""
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = int(status.get("desiredHealthy", 0))
    return 0 < desired <= int(status.get("currentHealthy", 0))


def _ask(budgets: Budgets, record: Record, dry: bool) -> None:
    covering = budgets.covering(record)
    if not covering:
        return
    if len(covering) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "InternalError", text, {})
    budget = covering[0]
    status = budget.get("status") or {}
    if not record.ready and _unhealthy_may_go(budget["spec"], status):
        return
    about: Json = {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        about["retryAfterSeconds"] = 10
        said = f"The disruption budget {budget['metadata']['name']} is still being processed by the server."
    elif status.get("disruptionsAllowed", 0) > 0:
        if not dry and record.ready:
            budgets.spend(budget, record)
        return
    else:
        said = (
            f"The disruption budget {budget['metadata']['name']} needs {status.get('desiredHealthy', 0)} "
            f"healthy pods and has {status.get('currentHealthy', 0)} currently"
        )
    about["causes"] = [{"reason": "DisruptionBudget", "message": said}]
    raise ApiError(429, "TooManyRequests", REFUSAL, about)
