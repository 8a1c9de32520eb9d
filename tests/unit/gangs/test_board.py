"""Every gang that waits has a reason, and knows who is in front of it."""

from __future__ import annotations

import pytest

from fleet.gangs.answering import answer
from fleet.gangs.board import read
from fleet.gangs.diagnosis import whatif
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.questions import Question
from fleet.ports.gangs import QueueObject, Quota, Ref
from tests.gang_builders import later
from tests.unit.gangs.scenes import GPU, OUT, a_gang, a_room


def a_queue(name: str, system: str = "volcano", kind: str = "Queue", **facts: object) -> QueueObject:
    return QueueObject(Ref(system, kind, str(facts.pop("namespace", "")), name), **facts)  # type: ignore[arg-type]


def test_the_second_in_line_knows_the_first() -> None:
    first, second = a_gang("first", 1, queue="q"), a_gang("second", 1, queue="q", created_at=later(5))
    board = read({g.key: g for g in (second, first)}, [a_queue("q")], Rooms([a_room("a")]))
    assert board.positions == {first.key: 0, second.key: 1}
    assert (board.reasons[second.key].code, board.reasons[second.key].ahead) == ("PRIORITY_BEHIND", (first.key,))


def test_a_local_queue_stands_for_the_queue_it_leads_to() -> None:
    local = a_queue("team-a", "kueue", "LocalQueue", namespace="train", leads_to="cluster-a")
    shared = a_queue("cluster-a", "kueue", "ClusterQueue", stopped=True)
    gang = a_gang("llm", 1, queue="team-a", system="kueue")
    board = read({gang.key: gang}, [local, shared], Rooms([a_room("a")]))
    assert (board.queue_keys[gang.key], board.reasons[gang.key].code) == (shared.ref.key, "QUEUE_STOPPED")


def test_an_elastic_quota_is_that_of_its_namespace_whatever_it_is_called() -> None:
    ours = a_queue("gpus", "coscheduling", "ElasticQuota", namespace="train")
    theirs = a_queue("gpus", "coscheduling", "ElasticQuota", namespace="serve")
    gang = a_gang("llm", 1, system="coscheduling")
    board = read({gang.key: gang}, [ours, theirs], Rooms([a_room("a")]))
    assert board.queue_keys[gang.key] == ours.ref.key


def test_a_ceiling_is_held_against_a_gang_where_its_scheduler_says_nothing() -> None:
    def judged(system: str, kind: str, used: float, ceiling: float) -> str:
        quota = Quota("", GPU, used=used, ceiling=ceiling)
        gang = a_gang("llm", 2, queue="q", system=system)
        queue = a_queue("q", system, kind, quotas=(quota,))
        return read({gang.key: gang}, [queue], Rooms([a_room("a"), a_room("b")])).reasons[gang.key].code

    assert [judged("volcano", "Queue", used, 24) for used in (8, 9)] == ["UNKNOWN", "QUOTA"]
    assert judged("volcano", "Queue", 0, 8) == "EXCEEDS_MAX"
    assert judged("slurm", "Partition", 16, 16) == "UNKNOWN", "what a partition has is no right to it"


def test_who_waits_for_a_quota_has_no_turn_for_room() -> None:
    gang = a_gang("llm", 1, queue="q", suspended=True)
    ready = a_gang("go", 1, queue="q")
    board = read({g.key: g for g in (gang, ready)}, [a_queue("q")], Rooms([a_room("a", out=OUT)]))
    assert {turn.gang.key: turn.by_room for turn in board.turns} == {ready.key: True}
    assert board.reasons[gang.key].code == "SUSPENDED"


def test_gangs_that_hold_gpus_for_nothing_come_with_the_most_first() -> None:
    some, more = a_gang("some", 3, placed=1), a_gang("more", 4, placed=2)
    board = read({g.key: g for g in (some, more)}, [], Rooms([a_room("a")]))
    assert [g.name for g in board.held_idle] == ["more", "some"]


def test_several_what_ifs_of_one_moment_play_the_present_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = Rooms([a_room("a", out=OUT), a_room("b", out=OUT), a_room("c")])
    gangs = [a_gang("now", 1), a_gang("next", 1, created_at=later(5)), a_gang("last", 1, created_at=later(9))]
    board = read({gang.key: gang for gang in gangs}, [], rooms)
    plays: list[int] = []
    real = whatif.play
    monkeypatch.setattr(whatif, "play", lambda *told: plays.append(1) or real(*told))
    asked = [Question("return", ("a",)), Question("return", ("a", "b")), Question("drain", ("c",))]
    told = answer(board, asked, lambda: False)
    assert [[one.title for one in answered.starts] for answered in told] == [
        ["PodGroup next"],
        ["PodGroup next", "PodGroup last"],
        [],
    ]
    assert [one.title for one in told[2].no_longer] == ["PodGroup now"]
    assert board.starting == (gangs[0].key,) and len(plays) == len(asked)
