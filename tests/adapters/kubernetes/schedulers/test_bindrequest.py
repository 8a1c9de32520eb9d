"""BindRequest of the KAI Scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.gangs.diagnosis.reasons import diagnose
from fleet.gangs.roster import Roster
from fleet.ports.gangs import Spoken
from tests.adapters.kubernetes.schedulers import test_kai
from tests.adapters.kubernetes.schedulers.raw import Json, member_in, pods, resource, tell, when
from tests.unit.gangs.scenes import a_room, a_scene

WORDS = "failed to reserve GPUs: no GPU is free on gpu-3"


def request(phase: str = "", pod: str = "llm-3", **status: Any) -> Json:
    spec = {"podName": pod, "selectedNode": "gpu-3"}
    told = {**({"phase": phase} if phase else {}), **status}
    return resource("scheduling.run.ai/v1alpha2", "BindRequest", pod, spec, told)


def roster_with(*raws: Json) -> Roster:
    roster = Roster()
    roster.speak("podgroups", tell(test_kai.group()))
    for raw in pods("llm", 0, 4, **test_kai.NAMED):
        roster.member(member_in(raw))
    for raw in raws:
        roster.speak("bindrequests", tell(raw))
    return roster


@pytest.mark.parametrize(
    "raw",
    [
        request("Failed", failedAttempts=4, reason=WORDS),
        request("Pending", failedAttempts=1, reason=WORDS),
        request(failedAttempts=1, reason=WORDS),
    ],
)
def test_a_binding_that_failed_is_why_its_pod_does_not_start(raw: Json) -> None:
    (gang,) = roster_with(raw).gangs().values()
    reason = diagnose(gang, *a_scene(*(a_room(f"n{n}") for n in range(4))))
    assert (reason.code, reason.raw, reason.since) == ("BIND_FAILED", WORDS, when(3))
    assert sum(said.code == "BIND_FAILED" for said in gang.said) == 1


def test_a_failure_without_words_says_where_and_how_often() -> None:
    ((_, said),) = tell(request("Failed", failedAttempts=3)).of_members
    assert said.text == "Binding to gpu-3 failed 3 times."


@pytest.mark.parametrize("raw", [request("Succeeded", failedAttempts=2), request("Pending"), request()])
def test_a_binding_that_goes_well_says_nothing(raw: Json) -> None:
    assert tell(raw).of_members == ()


def test_what_a_request_said_is_forgotten_with_it() -> None:
    roster = roster_with(request("Failed", reason=WORDS))
    before = next(iter(roster_with().gangs().values())).said
    assert next(iter(roster.gangs().values())).said != before
    roster.silence("bindrequests", "train/llm-3")
    assert next(iter(roster.gangs().values())).said == before


def test_it_may_come_before_its_pod_and_counts_no_more_once_that_is_bound() -> None:
    roster = Roster()
    roster.speak("bindrequests", tell(request("Failed", reason=WORDS)))
    (waiting,) = pods("llm-3", 0, 1, **test_kai.NAMED)
    waiting["metadata"]["name"] = "llm-3"
    roster.member(member_in(waiting))
    assert [said.code for said in next(iter(roster.gangs().values())).said] == ["BIND_FAILED"]
    waiting["spec"]["nodeName"] = "gpu-3"
    roster.member(member_in(waiting))
    assert next(iter(roster.gangs().values())).said == ()
    roster.speak("bindrequests", Spoken("train/llm-3"))
    assert next(iter(roster.gangs().values())).said == ()
