"""ClusterQueue, LocalQueue and Cohort of Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.ports.gangs import Quota
from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    condition,
    queue_in,
    resource,
    when,
)


def cluster_queue(*conditions: Json, api: str = "v1beta2", status: Json | None = None, **spec: Any) -> Json:
    flavor = {"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 32, **spec.pop("quota", {})}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}]
    told = {"conditions": list(conditions), **(status or {})}
    return resource(
        f"kueue.x-k8s.io/{api}", "ClusterQueue", "research", {"resourceGroups": groups, **spec}, told, namespace=""
    )


def used(total: str, borrowed: str = "0") -> list[Json]:
    return [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": total, "borrowed": borrowed}]}]


def test_a_queue_tells_what_it_uses_reserves_and_borrows() -> None:
    status = {
        "flavorsUsage": used("40", "8"),
        "flavorsReservation": used("48", "16"),
        "pendingWorkloads": 3,
        "admittedWorkloads": 5,
        "reservingWorkloads": 6,
        "fairSharing": {"weightedShare": 250},
    }
    raw = cluster_queue(
        condition("Active", True, "Ready"),
        status=status,
        cohortName="all",
        queueingStrategy="StrictFIFO",
        fairSharing={"weight": "1500m"},
        quota={"borrowingLimit": "16"},
    )
    found = queue_in(raw)
    assert found.quotas == (
        Quota("h100", "nvidia.com/gpu", guaranteed=32, used=40, reserved=48, borrowed=8, ceiling=48),
    )
    assert (found.parent, found.head_blocks, found.stopped, found.weight) == ("all", True, False, 1.5)
    assert (found.share, found.share_text, found.waiting, found.admitted) == (250.0, "weighted share", 3, 5)


@pytest.mark.parametrize(
    ("spec", "ceiling"),
    [
        ({}, 32.0),  # nobody to borrow from
        ({"cohortName": "all"}, None),
        ({"cohortName": "all", "quota": {"borrowingLimit": 0}}, 32.0),
        ({"cohort": "all", "api": "v1beta1"}, None),
    ],
)
def test_a_queue_ends_at_what_it_may_borrow(spec: Json, ceiling: float | None) -> None:
    assert queue_in(cluster_queue(**spec)).quotas[0].ceiling == ceiling


def test_no_weight_and_borrowing_is_no_number() -> None:
    found = queue_in(cluster_queue(status={"fairSharing": {"weightedShare": 9_223_372_036_854_775_807}}))
    assert (found.share, found.share_text) == (None, "no weight, and borrowing")


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_a_stopped_queue_says_so_before_its_controller_does(kind: str, policy: str) -> None:
    make = cluster_queue if kind == "ClusterQueue" else local_queue
    found = queue_in(make(stopPolicy=policy))
    assert (found.stopped, [said.text for said in found.said]) == (True, [f"stopPolicy is {policy}"])
    told = queue_in(make(condition("Active", False, "Stopped", "is stopped", since=at(4)), stopPolicy=policy))
    assert [(said.text, said.at) for said in told.said] == [("is stopped", when(4))]
    missing = queue_in(make(condition("Active", False, "FlavorNotFound", "no flavor")))
    assert (missing.stopped, missing.said[0].source) == (True, f"{kind} condition Active: FlavorNotFound")
    assert not queue_in(make(stopPolicy="None")).stopped


def local_queue(*conditions: Json, **spec: Any) -> Json:
    status = {"conditions": list(conditions), "pendingWorkloads": 2, "admittedWorkloads": 1}
    body = {"clusterQueue": "research", **spec}
    return resource("kueue.x-k8s.io/v1beta2", "LocalQueue", "team", body, status)


def test_a_local_queue_leads_to_its_cluster_queue() -> None:
    found = queue_in(local_queue())
    assert (found.ref.namespace, found.leads_to, found.waiting, found.admitted) == ("train", "research", 2, 1)


@pytest.mark.parametrize(("api", "field"), [("v1beta2", "parentName"), ("v1beta1", "parentName")])
def test_a_cohort_has_a_parent_and_a_share(api: str, field: str) -> None:
    raw = resource(
        f"kueue.x-k8s.io/{api}",
        "Cohort",
        "all",
        {field: "root"},
        {"fairSharing": {"weightedShare": 0}},
        namespace="",
    )
    assert (queue_in(raw).parent, queue_in(raw).share) == ("root", 0.0)
