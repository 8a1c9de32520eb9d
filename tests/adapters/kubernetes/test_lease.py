"""Who may act in a cluster: one installation, whatever the clocks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleet.adapters.kubernetes.acting import KubernetesActor
from fleet.adapters.kubernetes.client import ApiServer
from tests.adapters.kubernetes.scripted import Script, answer, status

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


class StandingClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def lease(holder: str, age: float, seconds: int = 60) -> dict[str, Any]:
    renewed = (NOW - timedelta(seconds=age)).isoformat()
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": seconds, "leaseTransitions": 2}
    return {"metadata": {"name": "muster", "namespace": "default", "resourceVersion": "5"}, "spec": spec}


@pytest.mark.parametrize(
    ("found", "mine", "transitions"),
    [
        (lease("us", 10), True, 2),
        (lease("us", 3600), True, 2),
        (lease("them", 10), False, None),
        (lease("", 10), True, 3),
    ],
)
def test_the_lease_is_taken_only_when_free(
    script: Script, api: ApiServer, found: dict[str, Any], mine: bool, transitions: int | None
) -> None:
    script.on(f"GET {LEASES}/muster", answer(200, found))
    script.on(f"PUT {LEASES}/muster", answer(200, found))
    actor = KubernetesActor(api, clock=StandingClock())
    assert actor.claim_lease("us", 60) is mine
    writes = script.sent("PUT", f"{LEASES}/muster")
    assert len(writes) == int(mine)
    if mine:
        body = writes[0].body
        assert body["metadata"]["resourceVersion"] == "5"
        assert (body["spec"]["holderIdentity"], body["spec"]["leaseTransitions"]) == ("us", transitions)
        assert body["spec"]["renewTime"] == "2026-11-29T12:00:00.000000Z"


class TickingClock(StandingClock):
    """Wall time stands still; only the time that passes here counts."""

    passed = 0.0

    def monotonic(self) -> float:
        return self.passed


@pytest.mark.parametrize(
    "found",
    [
        lease("them", 0),
        lease("them", 61),
        lease("them", 86400),
        lease("them", -86400),
        {"metadata": {"name": "muster"}, "spec": {"holderIdentity": "them"}},
    ],
    ids=["just renewed", "old by our clock", "a day behind us", "a day ahead of us", "tells no time"],
)
def test_anothers_lease_is_taken_only_after_it_was_seen_to_stand_still(
    script: Script, api: ApiServer, found: dict[str, Any]
) -> None:
    """Whatever time it tells: one of the two clocks may be wrong."""
    clock = TickingClock()
    actor = KubernetesActor(api, clock=clock)
    script.on(f"GET {LEASES}/muster", answer(200, found))
    script.on(f"PUT {LEASES}/muster", answer(200, found))
    for seconds, mine in ((0, False), (30, False), (60, False), (61, True)):
        clock.passed = float(seconds)
        assert actor.claim_lease("us", 60) is mine, seconds


def test_anothers_lease_that_is_renewed_is_never_taken_nor_one_that_lasts_longer_than_ours(
    script: Script, api: ApiServer
) -> None:
    clock = TickingClock()
    actor = KubernetesActor(api, clock=clock)
    script.on(f"GET {LEASES}/muster", *[answer(200, lease("them", age)) for age in (4000, 3960, 3920, 3880)])
    for turn in range(4):
        clock.passed = turn * 40.0
        assert actor.claim_lease("us", 60) is False
    script.on(f"GET {LEASES}/muster", answer(200, lease("them", 0, seconds=600)))
    for passed in (200.0, 790.0):
        clock.passed = passed
        assert actor.claim_lease("us", 60) is False


def test_a_lost_race_for_the_lease_is_read_again(script: Script, api: ApiServer) -> None:
    script.on(f"GET {LEASES}/muster", status(404, "none", "NotFound"), answer(200, lease("them", 0)))
    script.on(f"POST {LEASES}", status(409, "exists", "AlreadyExists"))
    assert KubernetesActor(api, clock=StandingClock()).claim_lease("us", 60) is False


def test_a_race_won_by_another_thread_of_ours_is_no_loss(script: Script, api: ApiServer) -> None:
    script.on(f"GET {LEASES}/muster", answer(200, lease("us", 30)), answer(200, lease("us", 0)))
    script.on(f"PUT {LEASES}/muster", status(409, "the object has been modified", "Conflict"))
    assert KubernetesActor(api, clock=StandingClock()).claim_lease("us", 60) is True
    assert len(script.sent("PUT", f"{LEASES}/muster")) == 1
