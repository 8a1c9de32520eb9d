"""Every gang that waits has a reason, and knows who is in front of it."""

from __future__ import annotations

from fleet.gangs.board import read
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.ports.gangs import QueueObject, Ref
from tests.gang_builders import later
from tests.unit.gangs.scenes import OUT, a_gang, a_room


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
