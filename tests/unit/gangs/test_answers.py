"""Gangs that ask for the same share one answer, and nobody's answer is another one's."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from django.utils import translation

from fleet.gangs.board import Board, read
from fleet.gangs.diagnosis.answers import Answers
from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.reasons import diagnose, judge
from fleet.gangs.diagnosis.rooms import Room, Rooms
from fleet.gangs.diagnosis.starting import Starter
from fleet.gangs.form import Gang
from fleet.gangs.rows import Columns
from fleet.ops.bench._gangscene import Scene, scene
from fleet.ports.gangs import Need, QueueObject, Ref, Topology
from fleet.readmodels import gang_reasons
from tests.gang_builders import later
from tests.unit.gangs.scenes import OUT, a_gang, a_room

LEAF = "leaf"
NEEDS = (Need(gpus=8), Need(gpus=4), Need(gpus=2, selector=(("pool", "p0"),)), Need(gpus=9), Need(cpu_millis=5000))


def _rooms(dice: random.Random) -> list[Room]:
    labels = [{LEAF: f"l{dice.randrange(3)}", "pool": f"p{dice.randrange(2)}"} for _ in range(8)]
    return [
        a_room(f"gpu-{n}", dice.choice((0, 0, 4, 8)), gpus=dice.choice((8, 8, 7)), labels=labels[n], cpu_left=8000,
               out=dice.choice((None, None, None, OUT)))
        for n in range(8)
    ]  # fmt: skip


def _gangs(dice: random.Random) -> list[Gang]:
    found = []
    for n in range(30):
        minimum = dice.randrange(1, 5)
        topology = dice.choice((None, None, Topology(LEAF, required=True), Topology(LEAF, required=False)))
        placed = dice.randrange(minimum)
        found.append(a_gang(f"g{n}", minimum, placed, dice.choice(NEEDS), topology=topology))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_shared_answer_is_what_each_gang_would_have_got_by_itself(seed: int) -> None:
    dice = random.Random(seed)
    rooms = Rooms(_rooms(dice))
    starter, space = Starter(rooms), Space.now(rooms)
    shared = Answers(starter, space)
    for gang in _gangs(dice):
        assert judge(gang, shared) == diagnose(gang, Starter(rooms), Space.now(rooms)), gang.name


def test_equal_asks_are_worked_out_once() -> None:
    rooms = Rooms([a_room("gpu-0", 4), a_room("gpu-1")])
    answers = Answers(Starter(rooms), Space.now(rooms))
    same = {id(answers.of(a_gang(f"g{n}", 3))) for n in range(50)}
    assert len(same) == 1
    assert answers.of(a_gang("other", 4)) is not answers.of(a_gang("g", 3))


def test_columns_are_made_anew_only_for_what_changed() -> None:
    here = scene(50)
    here.feed()
    columns = Columns()
    first, _ = columns.of(here.judge())
    ends = next(member for member in here.members if member.node and member.need.gpus)
    here.roster.leave(ends.key)
    second, _ = columns.of(here.judge())
    assert [key for key in first if first[key] is not second[key]] == list(ends.links)
    assert second == Columns().of(_fresh(here, {ends.key}))[0]


def test_who_is_in_front_is_called_by_what_people_made() -> None:
    first, second = a_gang("first", 1, queue="q"), a_gang("second", 1, queue="q", created_at=later(5))
    queue, columns = QueueObject(Ref("volcano", "Queue", "", "q")), Columns()
    for title in ("RayJob llm", "RayJob other"):  # a new name is a change, though the second one is as it was
        named = replace(first, title=title)
        made = read({g.key: g for g in (second, named)}, [queue], Rooms([a_room("a")]))
        told = columns.of(made)[0][second.key]
        assert told["reason"]["ahead"] == [first.key]
        kind, name = title.split()
        assert told["reason"]["ahead_called"] == [f"{kind} train/{name}"]
        with translation.override("en"):
            words = gang_reasons.told("PRIORITY_BEHIND", told["reason"])
        assert words.sentence == f"It waits its turn behind {kind} train/{name}."


def test_after_any_changes_a_board_is_what_a_fresh_look_would_make() -> None:
    """Nothing of an earlier world is left in the arithmetic."""
    dice, here = random.Random(7), scene(60)
    here.feed()
    gone = {member.key for member in dice.sample(here.members, 40)}
    for key in gone:
        here.roster.leave(key)
        made = here.judge()
    fresh = _fresh(here, gone)
    assert made.reasons == fresh.reasons
    assert made.positions == fresh.positions
    assert any(reason.free for reason in made.reasons.values())


def _fresh(here: Scene, gone: set[str]) -> Board:
    here.members = [member for member in here.members if member.key not in gone]
    here.feed()
    return here.judge()


def test_an_answer_lasts_while_no_node_changes_that_its_gang_may_use() -> None:
    """And what nobody asks any more is let go: a cluster lives longer than its jobs."""
    rooms = Rooms([a_room("gpu-0", labels={"pool": "p0"}), a_room("gpu-1", labels={"pool": "p1"})])
    asks = {name: a_gang(name, 3, need=Need(gpus=8, selector=(("pool", name),))) for name in ("p0", "p1")}
    first = Answers.after(None, rooms)
    before = {name: first.of(gang) for name, gang in asks.items()}
    assert all(not answer.fits for answer in before.values())
    rooms.put(a_room("gpu-1", 8, labels={"pool": "p1"}))
    second = Answers.after(first, rooms)
    assert second.of(asks["p0"]) is before["p0"] and second.of(asks["p1"]) is not before["p1"]
    assert (second.of(asks["p0"]).free, second.of(asks["p1"]).free) == (8, 0)
    third = Answers.after(second, rooms)
    third.of(asks["p1"])
    assert Answers.after(third, rooms).of(asks["p0"]) is not before["p0"]
