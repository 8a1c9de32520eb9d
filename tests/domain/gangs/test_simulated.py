"""Gangs of a simulated fleet, seen as the observer sees them, and what-ifs held against what its scheduler does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.gangs.diagnosis.whatif import Broken, draining, returning
from tests.watched_gangs import Watched, watching

pytestmark = pytest.mark.django_db
GANGS = ("pretrain", "ablation", "grasping", "dictation", "evaluation")


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Watched]:
    with watching(tmp_path, nodes=64, scenario="day", speed=10) as watched:
        watched.until(lambda: all(f"RayJob {name}" in watched.states() for name in GANGS))
        yield watched


def test_a_day_shows_who_waits_and_why(day: Watched) -> None:
    day.until(lambda: day.gang("RayJob pretrain").state == "running")
    day.until(lambda: day.gang("RayJob grasping").placed + day.gang("RayJob dictation").placed == 6)  # two heads
    reasons = {day.title(key): reason.code for key, reason in day.board.reasons.items()}
    assert reasons["RayJob ablation"] == "QUOTA"
    assert reasons["RayJob evaluation"] == "NODE_UNHEALTHY"
    assert day.gang("RayJob grasping").gpus_held_idle + day.gang("RayJob dictation").gpus_held_idle == 32
    queue = day.board.queues.of(day.gang("RayJob ablation"))
    assert queue is not None and queue.ref.kind == "ClusterQueue"
    assert [(quota.used, quota.guaranteed) for quota in queue.quotas] == [(32.0, 40.0)]
    day.until(lambda: ("deadlock", "RayJob grasping") in day.named)
    trained = [gang for gang in day.board.gangs.values() if gang.namespace == "train"]
    assert trained and all(gang.guarantee == "whole" for gang in trained)


def test_the_scheduler_starts_whom_the_return_of_the_named_node_lets_start(day: Watched) -> None:
    evaluation = day.until(lambda: _blamed(day, "RayJob evaluation"))
    (node,) = evaluation
    told = returning(day.board.starter, day.board.space, day.board.turns, [node])
    assert [day.title(key) for key in told.starts] == ["RayJob evaluation"]
    day.cordon(node, False)
    day.until(lambda: day.gang("RayJob evaluation").state == "running")
    assert node in day.gang("RayJob evaluation").nodes


def _blamed(day: Watched, title: str) -> list[str]:
    reason = day.board.reasons.get(day.gang(title).key)
    return [blocker.node for blocker in reason.blockers] if reason else []


def test_who_is_told_to_break_breaks_and_forms_again_where_there_is_room(day: Watched) -> None:
    day.until(lambda: day.gang("RayJob pretrain").state == "running")
    day.until(lambda: day.gang("RayJob grasping").placed + day.gang("RayJob dictation").placed == 6)
    node = next(m.node for m in day.gang("RayJob pretrain").members if m.node and m.need.gpus)
    assert not _broken(day, node).again
    day.cordon(node, True)
    _evict(day, node, "team-vision")
    day.until(lambda: day.gang("RayJob pretrain").state == "partial")
    day.until(lambda: _blamed(day, "RayJob pretrain") == [node])
    for job in ("team-robotics/grasping", "team-speech/dictation"):
        day.suspend(job)
    day.until(lambda: day.gang("RayJob pretrain").state == "running")
    node = next(m.node for m in day.gang("RayJob pretrain").members if m.node and m.need.gpus)
    day.until(lambda: _broken(day, node).again)
    day.cordon(node, True)
    _evict(day, node, "team-vision")
    day.until(lambda: day.gang("RayJob pretrain").state == "running" and node not in day.gang("RayJob pretrain").nodes)


def _broken(day: Watched, node: str) -> Broken:
    board = day.board
    found = draining(board.starter, board.space, board.turns, board.gangs.values(), [node]).broken
    (broken,) = (one for one in found if day.title(one.key) == "RayJob pretrain")
    assert broken.breaks
    return broken


def _evict(day: Watched, node: str, namespace: str) -> None:
    for pod in day.fleet.pods(fieldSelector=f"spec.nodeName={node}"):
        if pod["metadata"]["namespace"] == namespace:
            assert day.fleet.evict(pod).status == 201
