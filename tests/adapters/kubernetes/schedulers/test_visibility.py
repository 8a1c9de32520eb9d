"""Kueue's own order: read where it is served, and never believed beyond what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.schedulers.visibility import ASKED_AGAIN, LIMIT, KueuePlaces
from fleet.gangs.roster import Roster
from fleet.ports.errors import MissingRight, NotFound, TemporaryError
from fleet.ports.gangs import GangPoll, Spoken, key_of
from tests.builders import TestClock
from tests.gang_builders import an_object

Json = Any
PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta1/clusterqueues/{}/pendingworkloads"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
A, B = (key_of("kueue", "Workload", "train", name) for name in ("a", "b"))


def group(*versions: str) -> Json:
    return {"versions": [{"version": version} for version in versions]}


def a_queue(name: str, **status: Any) -> Json:
    return {"metadata": {"name": name}, "status": status}


def pending(*names: str) -> Json:
    return {"items": [
        {"metadata": {"name": name, "namespace": "train"}, "priority": 0, "positionInClusterQueue": n,
         "positionInLocalQueue": 0, "localQueueName": "lq"}
        for n, name in enumerate(names)
    ]}  # fmt: skip


class Api:
    """An API server that answers with what a test puts there, or raises it."""

    def __init__(self) -> None:
        self.says: dict[str, Any] = {
            "/apis/visibility.kueue.x-k8s.io": group("v1beta1", "v9"), "/apis/kueue.x-k8s.io": group("v1beta2"),
            QUEUES: {"items": [a_queue("h100", pendingWorkloads=2), a_queue("idle", pendingWorkloads=0)]},
            PENDING.format("h100"): pending("a", "b"),
        }  # fmt: skip
        self.asked: list[tuple[str, Mapping[str, str] | None]] = []

    def get(self, path: str, resource: str, *, verb: str = "get", params: Mapping[str, str] | None = None) -> Any:
        self.asked.append((path, params))
        said = self.says.get(path, NotFound(f"no {path}"))
        if isinstance(said, Exception):
            raise said
        return said


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def poll(api: Api) -> GangPoll:
    return KueuePlaces(cast(ApiServer, api), TestClock())


def test_the_places_of_queues_in_which_something_waits(api: Api, poll: GangPoll) -> None:
    found = poll.read()
    assert (found.positions, found.troubles, found.objects) == (((A, 0), (B, 1)), (), ())
    assert (PENDING.format("h100"), {"limit": str(LIMIT)}) in api.asked
    assert PENDING.format("idle") not in [path for path, _ in api.asked]


def test_without_that_api_there_are_no_places_and_no_trouble(api: Api) -> None:
    clock = TestClock()
    poll = KueuePlaces(cast(ApiServer, api), clock)
    kept = api.says.pop("/apis/visibility.kueue.x-k8s.io")
    assert (poll.read().positions, poll.read().troubles, len(api.asked)) == ((), (), 2)
    clock.tick(ASKED_AGAIN)
    api.says["/apis/visibility.kueue.x-k8s.io"] = kept
    assert poll.read().positions


def test_a_missing_right_is_said_once_and_stops_the_asking(api: Api, poll: GangPoll) -> None:
    api.says[QUEUES]["items"].append(a_queue("b200", pendingWorkloads=1))
    api.says[PENDING.format("h100")] = MissingRight("get", "clusterqueues/pendingworkloads")
    found = poll.read()
    assert len(found.troubles) == 1 and "pendingworkloads" in found.troubles[0]
    assert PENDING.format("b200") not in [path for path, _ in api.asked]


def test_one_queue_that_fails_takes_no_other_with_it(api: Api, poll: GangPoll) -> None:
    api.says[QUEUES]["items"] += [a_queue("gone", pendingWorkloads=1), a_queue("slow", pendingWorkloads=1)]
    api.says[PENDING.format("slow")] = TemporaryError("It did not answer in time.")
    found = poll.read()
    assert dict(found.positions) == {A: 0, B: 1} and len(found.troubles) == 1 and "slow" in found.troubles[0]


@pytest.mark.parametrize("odd", [None, "x", 7, [], [None, 5], {"items": "x"}, {"items": [None, {}, {"metadata": 3}]}])
def test_what_is_odd_is_no_place(api: Api, poll: GangPoll, odd: Any) -> None:
    api.says[PENDING.format("h100")] = odd
    assert poll.read().positions == ()
    api.says[QUEUES] = odd
    assert poll.read().positions == ()


@pytest.mark.parametrize("place", [None, True, -1, "0", 0.5])
def test_a_place_is_a_whole_number_from_nought(api: Api, poll: GangPoll, place: Any) -> None:
    api.says[PENDING.format("h100")]["items"][0]["positionInClusterQueue"] = place
    assert A not in dict(poll.read().positions) or isinstance(dict(poll.read().positions)[A], int)


def test_the_watched_workload_gets_its_place_and_loses_it(api: Api, poll: GangPoll) -> None:
    roster = Roster()
    for name in ("a", "b"):
        roster.speak("workloads", Spoken(name, (an_object("kueue", name, wanted=1),)))
    roster.reading(poll.read(), "kueue")
    assert {key: gang.objects[0].position for key, gang in roster.gangs().items()} == {A: 0, B: 1}
    api.says[PENDING.format("h100")] = pending("b")
    roster.reading(poll.read(), "kueue")
    assert {key: gang.objects[0].position for key, gang in roster.gangs().items()} == {A: None, B: 0}
