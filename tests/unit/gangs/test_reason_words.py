"""Why a gang does not start, in a sentence: each says what is known, and none more than that."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import translation

from fleet.ports.gangs import SENT
from fleet.readmodels.gang_reasons import told


@pytest.mark.parametrize(
    ("code", "facts", "queue", "part"),
    [
        ("UNKNOWN", {"fits": True}, "", "nothing says why"),
        ("UNKNOWN", {"fits": True, "raw": "0/3 nodes are available"}, "", "in its own words"),
        ("UNKNOWN", {"raw": "strange"}, "", "words that are not known here"),
        ("UNKNOWN", {}, "", "Neither its scheduler nor the arithmetic"),
        ("UNKNOWN", {"unmade": 1, "raw": "3/2 tasks"}, "", "it lacks 1 member that nobody has made yet"),
        ("UNKNOWN", {"kept_out": True, "raw": "0/0 tasks", "fits": True}, "", "has not let it in yet"),
        ("UNKNOWN", {"placed": True}, "", "has nodes and has not started yet"),
        ("EXCEEDS_MAX", {"fits": False, "needs": 0}, "", "every node were whole and empty"),
        ("EXCEEDS_MAX", {"fits": False, "needs": 8}, "", "8 GPUs more"),
        ("EXCEEDS_MAX", {"fits": None}, "", "more than its queue may ever use"),
        ("TOPOLOGY", {"needs": 8, "lacking": 1}, "", "finds no domain of the topology"),
        ("TOPOLOGY", {"needs": 8, "lacking": 1, "level": "rack"}, "", "not inside one domain of rack"),
        ("QUEUE_STOPPED", {}, "team-a", "team-a lets nothing in: it is stopped, is not ready or does not exist"),
        ("QUEUE_STOPPED", {}, "", "does not exist"),
        ("SUSPENDED", {}, "", "it is not to start now"),
        ("SUSPENDED", {"source": SENT}, "", "sent to another cluster, and nothing of it waits for room here"),
    ],
)
def test_a_sentence_says_what_is_known(code: str, facts: dict[str, Any], queue: str, part: str) -> None:
    assert part in told(code, facts, queue=queue).sentence
    with translation.override("ko"):
        assert not any(word.isascii() and word.islower() for word in told(code, facts).sentence.split())


OURS = [
    "It was sent to the cluster worker1.",
    "It names no queue.",
    "Held by the scheduling gates kueue.x-k8s.io/admission, kueue.x-k8s.io/topology.",
    "The check dws-prov is Pending.",
    "The queue is Closed.",
    "Fewer members than its minimum run.",
    "Binding to gpu-3 failed 2 times.",
    "Its queue runs as many applications as it may (maxRunningApps).",
    "2 of its allocations are being taken back for others (preempted).",
    "The application is Failing and 8 GPUs are still allocated to it.",
    "16 of 32 nvidia.com/gpu of the queue are in use, and 24 more are needed.",
]


@pytest.mark.parametrize("raw", OURS)
def test_what_a_system_tells_by_a_field_is_said_in_the_readers_language(raw: str) -> None:
    assert told("QUOTA", {"raw": raw}).raw == raw
    with translation.override("ko"):
        said = told("QUOTA", {"raw": raw}).raw
    assert said != raw and any("가" <= letter <= "힣" for letter in said)


def test_a_schedulers_own_words_are_left_as_they_are() -> None:
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    with translation.override("ko"):
        assert told("CAPACITY", {"raw": words}).raw == words


def test_nobody_is_asked_to_resume_what_runs_in_another_cluster() -> None:
    here, there = told("SUSPENDED", {}), told("SUSPENDED", {"source": SENT})
    assert "esume" in here.waits and "esume" in here.do
    assert "esume" not in there.waits + there.do


@pytest.mark.parametrize(
    ("source", "has_quota"),
    [
        ("Workload admission check prov: Pending", True),
        ("Workload condition Admitted: UnsatisfiedAdmissionChecks", True),
        ("Workload condition QuotaReserved: AdmissionGated", False),
        ("Workload condition BlockedOnPreemptionGates", False),
        ("Pod spec.schedulingGates", False),
        ("squeue state_reason: Dependency", False),
        ("", False),
    ],
)
def test_only_what_a_check_of_its_queue_keeps_is_said_to_have_its_quota(source: str, has_quota: bool) -> None:
    why = told("ADMISSION_CHECK", {"source": source})
    assert ("It has its quota" in why.sentence, "The check" in why.waits) == (has_quota, has_quota)
