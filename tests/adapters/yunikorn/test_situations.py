"""What YuniKorn's answers become, beside the pods that the API server tells: one situation each."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.yunikorn import applications
from fleet.gangs import board
from fleet.gangs.conditions.guarantee import guarantee
from fleet.gangs.counting import count
from fleet.gangs.diagnosis.reasons import Reason
from fleet.gangs.diagnosis.rooms import Room, Rooms
from fleet.gangs.form import Gang
from fleet.gangs.joining import join
from fleet.ports.gangs import GangObject, Need, key_of
from tests.adapters.yunikorn.shapes import (
    QUOTA,
    a_placeholder,
    a_request,
    an_allocation,
    an_application,
    at,
)
from tests.gang_builders import a_member, later
from tests.unit.gangs.scenes import OUT, a_room

KEY = key_of("yunikorn", "Application", "", "llm")
NEED = Need(gpus=8, cpu_millis=64_000, memory_mib=512 * 1024)


def read(raw: Any, full: frozenset[str] = frozenset(), nodes: frozenset[str] = frozenset()) -> GangObject:
    return applications.application(raw, full, nodes)


def gang_of(raw: Any, placed: int = 0, waiting: int = 0, **facts: Any) -> Gang:
    pods = [a_member(f"llm-{n}", KEY, node=f"gpu-{n}", role="worker", need=NEED, **facts) for n in range(placed)]
    pods += [a_member(f"llm-{placed + n}", KEY, role="worker", need=NEED) for n in range(waiting)]
    (joined,) = join([read(raw)], pods).values()
    return count(joined)


def reason_of(gang: Gang, *rooms: Room) -> Reason:
    return board.read({gang.key: gang}, [], Rooms(rooms)).reasons[gang.key]


def form(gang: Gang) -> dict[str, Any]:
    names = ("state", "wanted", "minimum", "placed", "unscheduled", "gpus_held", "gpus_held_idle", "guarantee")
    return {name: getattr(gang, name) for name in names}


def test_healthy() -> None:
    raw = an_application(
        placeholderData=[a_placeholder(replaced=4)],
        allocations=[an_allocation(f"gpu-{n}", placeholderUsed=True) for n in range(4)],
        stateLog=[{"time": at(0), "applicationState": "New"}, {"time": at(3), "applicationState": "Running"}],
    )
    gang = gang_of(raw, placed=4)
    assert form(gang) == {
        "state": "running", "wanted": 4, "minimum": 4, "placed": 4, "unscheduled": 0, "gpus_held": 32,
        "gpus_held_idle": 0, "guarantee": "whole",
    }  # fmt: skip
    assert (gang.owner, gang.queue, gang.priority, gang.created_at, gang.started_at) == (
        "ada", "root.train", 7, later(0), later(3),
    )  # fmt: skip
    assert not list(guarantee(gang))


def test_partial_with_placeholders_that_hold_room_for_nobody() -> None:
    raw = an_application(
        "Accepted", allocations=[an_allocation(f"gpu-{n}", placeholder=True) for n in range(3)],
        requests=[a_request("Preemption does not help", placeholder=True)],
    )  # fmt: skip
    gang = gang_of(raw, placed=3, waiting=1, placeholder=True)
    assert form(gang) == {
        "state": "partial", "wanted": 4, "minimum": 4, "placed": 3, "unscheduled": 1, "gpus_held": 24,
        "gpus_held_idle": 24, "guarantee": "whole",
    }  # fmt: skip
    assert [(one.role, one.count) for one in gang.missing] == [("worker", 1)]


def test_all_placeholders_there_and_none_taken_over_is_idle_too() -> None:
    raw = an_application("Running", allocations=[
        *(an_allocation(f"gpu-{n}", placeholder=True) for n in range(3)),
        an_allocation("gpu-3", placeholder=True, placeholderUsed=True),
    ])  # fmt: skip
    gang = gang_of(raw, placed=4)
    assert (gang.state, gang.gpus_held, gang.gpus_held_idle) == ("running", 32, 24)


@pytest.mark.parametrize("words", [QUOTA, "Not enough user quota"])
def test_quota(words: str) -> None:
    gang = gang_of(an_application("Accepted", requests=[a_request("some nodes did not fit", words)]), waiting=4)
    told = reason_of(gang, *(a_room(f"gpu-{n}") for n in range(8)))
    assert (told.code, told.raw, told.source) == ("QUOTA", words, "YuniKorn allocation log")
    assert told.since == later(2), "the last word counts, not the first"
    assert (gang.state, gang.not_created, gang.waits_since) == ("waiting", 0, later(0))


def test_a_queue_that_runs_as_many_applications_as_it_may() -> None:
    held = read(an_application("Accepted"), full=frozenset({"root.train"}))
    assert held.admitted is False and held.said[0].code == "QUOTA"
    assert read(an_application("Accepted")).admitted is True
    assert read(an_application("Running"), full=frozenset({"root.train"})).admitted is True


def test_topology_by_its_words() -> None:
    words = "node(s) didn't match pod topology spread constraints"
    gang = gang_of(an_application("Accepted", requests=[a_request(words)]), waiting=4)
    assert [(one.code, one.text) for one in gang.said] == [("TOPOLOGY", words)]


def test_fragmentation() -> None:
    gang = gang_of(an_application("Accepted", requests=[a_request("Preemption does not help")]), waiting=4)
    told = reason_of(gang, *(a_room(f"gpu-{n}", used=4) for n in range(8)))
    assert told.code == "FRAGMENTATION"


def test_unhealthy_node() -> None:
    gang = gang_of(an_application("Accepted", requests=[a_request("node is unschedulable")]), waiting=4)
    rooms = [a_room(f"gpu-{n}", out=OUT if n == 3 else None) for n in range(4)]
    told = reason_of(gang, *rooms)
    assert told.code == "NODE_UNHEALTHY" and [one.node for one in told.blockers] == ["gpu-3"]


def test_requeued_after_the_placeholders_timed_out_has_lost_its_guarantee() -> None:
    log = [{"time": at(n), "applicationState": state} for n, state in
           enumerate(("New", "Accepted", "Resuming", "Accepted"))]  # fmt: skip
    raw = an_application("Accepted", stateLog=log, placeholderData=[a_placeholder(timedout=4)])
    gang = gang_of(raw, placed=1, waiting=3)
    assert (gang.guarantee, gang.waits_since, gang.gpus_held_idle) == ("lost", later(2), 8)
    assert [one.code for one in guarantee(gang)] == ["guarantee_lost"]
    assert gang_of(an_application("Resuming"), waiting=4).guarantee == "lost"


def test_placeholders_that_timed_out_where_the_gang_had_gathered_lose_nothing() -> None:
    raw = an_application("Running", placeholderData=[a_placeholder(replaced=3, timedout=1)])
    assert read(raw).guarantee == "whole"


def test_evicted_by_preemption() -> None:
    raw = an_application("Running", allocations=[an_allocation("gpu-0", preempted=True), an_allocation("gpu-1")])
    assert [one.code for one in read(raw).said] == ["PRIORITY_BEHIND"]


def test_stale() -> None:
    raw = an_application("Completing", allocations=[an_allocation("gpu-0", placeholder=True)])
    one = read(raw)
    assert one.stale is not None and "8 GPUs" in one.stale.text
    assert read(an_application("Completing")).stale is None


def test_rejected_and_failed() -> None:
    words = "application 'llm' placeholder ask exceeds queue limit"
    one = read(an_application("Rejected", rejectedMessage=words, finishedTime=at(5)))
    assert (one.finished, one.ended_at, one.said[0].code) == (True, later(5), "EXCEEDS_MAX")
    assert read(an_application("Failed", finishedTime=at(5))).phase == "Failed"
    assert not read(an_application("Failing")).finished


def test_an_application_without_task_groups_is_no_gang_and_counts_as_its_pods_do() -> None:
    gang = gang_of(an_application(placeholderData=None), placed=2, waiting=1)
    assert (gang.wanted, gang.guarantee) == (3, "none")
    assert [one.code for one in guarantee(gang)] == ["guarantee_none"]


def test_nodes_that_it_keeps_reserved() -> None:
    raw = an_application(hasReserved=True, reservations=["gpu-3|uid-1", "uid-2|gpu-4", "uid-3"])
    assert read(raw, nodes=frozenset({"gpu-3", "gpu-4", "gpu-5"})).planned_nodes == ("gpu-3", "gpu-4")
