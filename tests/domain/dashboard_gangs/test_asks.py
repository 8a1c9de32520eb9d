"""What-ifs on their way: bounds, bytes that are no question, time that runs out, levels of a topology."""

from __future__ import annotations

import threading
import time
from typing import Any

import orjson
import pytest

from fleet.bus.outbox import connection
from fleet.gangs import asking, board
from fleet.gangs.answering import answer, levels_of
from fleet.gangs.board import Board
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.questions import QUESTIONS_AT_MOST, Answers, Question, answers_of, question_of
from tests.gang_answers import asks_of
from tests.unit.gangs.scenes import OUT, a_gang, a_room

RACK = "topology.muster.dev/rack"


def a_board() -> Board:
    rooms = [a_room("gpu-0", 8, labels={RACK: "r0"}), a_room("gpu-1", 3, labels={RACK: "r1"})]
    gangs = {gang.key: gang for gang in (a_gang("llm", 1), a_gang("runs", 1, 1))}
    return board.read(gangs, [], Rooms([*rooms, a_room("out", out=OUT, labels={RACK: "r1"})]))


ALL = [
    Question("return", ("out", "nowhere")),
    Question("drain", ("gpu-0",)),
    Question("suspend", gang="volcano/PodGroup/train/runs"),
    Question("suspend", gang="nobody"),
    Question("room", level=RACK),
]


def test_what_is_told_arrives_as_it_was_told() -> None:
    told = Answers("2026-11-29T03:00:00+00:00", answer(a_board(), ALL, lambda: False))
    assert answers_of(orjson.loads(orjson.dumps(told))) == told
    assert told.answers[3].unknown == ("nobody",)
    assert told.answers[4].room is not None and told.answers[4].room.levels == (RACK,)


def test_without_time_an_answer_is_late_and_says_nothing_else() -> None:
    assert {one.late for one in answer(a_board(), ALL, lambda: True)} == {True}


def test_nobody_asks_for_more_than_a_few_things() -> None:
    asked = [Question("return", ("out",))] * 50
    assert len(answer(a_board(), asked, lambda: False)) == QUESTIONS_AT_MOST


@pytest.mark.parametrize(
    "raw",
    [None, [], "return", {}, {"kind": "delete"}, {"kind": "return", "nodes": "a"}, {"kind": "return", "nodes": [1]},
     {"kind": "suspend", "gang": None}],
)  # fmt: skip
def test_what_is_no_question_is_none(raw: Any) -> None:
    assert question_of(raw) is None


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[]", b"{}", b'{"token": "t"}', b'{"token": "t", "ask": []}', b'{"token": "t", "ask": 3}',
     b'{"token": "t", "ask": [{"kind": "delete"}]}'],
)  # fmt: skip
def test_bytes_that_are_no_question_get_no_answer(body: bytes) -> None:
    assert not asks_of(1, a_board(), threading.Event()).serve(body)


@pytest.mark.parametrize("told", [b"", b"{}", b'{"at": "x", "answers": [{}]}', b'{"at": "x", "answers": 3}', b"\xff"])
def test_an_answer_that_cannot_be_read_is_none(told: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking.secrets, "token_hex", lambda _n: "known")
    connection().set(asking.listens_key(77), 1, ex=5)
    connection().rpush(asking.answer_key("known"), told)
    assert asking.ask(77, [Question("room")], 0.2) is None


def test_nobody_waits_for_an_observer_that_does_not_listen() -> None:
    began = time.monotonic()
    assert asking.ask(79, [Question("room")], 30) is None
    assert time.monotonic() - began < 5 and not connection().exists(asking.questions_key(79))


def test_what_nobody_took_up_is_forgotten() -> None:
    connection().set(asking.listens_key(78), 1, ex=5)
    for _ in range(asking.WAITING_AT_MOST + 5):
        asking.ask(78, [Question("room")], 0.01)
    key = asking.questions_key(78)
    assert connection().llen(key) == asking.WAITING_AT_MOST
    assert 0 < connection().ttl(key) <= asking.KEPT_SECONDS


def test_a_level_parts_the_nodes() -> None:
    labels = [{"rack": f"r{n // 2}", "zone": "one", "kubernetes.io/hostname": f"h{n}", "team": f"t{n % 2}",
               "leaf-switch": f"l{n // 2}", "nvlink.domain": f"d{n}"} for n in range(4)]  # fmt: skip
    rooms = Rooms([a_room(f"gpu-{n}", labels=labels[n]) for n in range(4)])
    assert levels_of(rooms) == ["rack", "leaf-switch"]
