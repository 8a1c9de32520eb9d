"""Conditions of gangs among each other and towards their scheduler: deadlock, guarantee, sick members."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from django.utils import translation
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.gangs.board import Board, read
from fleet.gangs.conditions.guarantee import guarantee, guarantee_asked
from fleet.gangs.conditions.sickness import sickness
from fleet.gangs.conditions.starvation import deadlocks
from fleet.gangs.counting import count
from fleet.gangs.diagnosis.rooms import Room, Rooms
from fleet.gangs.diagnosis.whatif import play, release
from fleet.gangs.form import Gang
from fleet.gangs.joining import join
from fleet.ports.gangs import Need, Part
from fleet.readmodels import gang_words
from tests.gang_builders import a_member, an_object, later, members_of
from tests.unit.gangs.ray_scenes import RAY, a_group, a_ray_gang, ray_facts
from tests.unit.gangs.scenes import EIGHT, OUT, a_room


def half(name: str, minimum: int, placed: int, first: int, need: Any = EIGHT, **facts: Any) -> Gang:
    """A gang that waits with `placed` of its members on nodes gpu-<first> and on."""
    part = Part("", minimum, need=need)
    group = an_object("volcano", name, minimum=minimum, wanted=minimum, parts=(part,), **facts)
    (joined,) = join([group], members_of(group.ref.key, placed, minimum - placed, first=first, need=need)).values()
    return count(joined)


def board_of(*gangs: Gang, rooms: list[Room] | None = None) -> Board:
    """Rooms with exactly what the gangs hold, and no room to spare unless told."""
    held = [a_room(node, used=8) for gang in gangs for node in gang.nodes]
    return read({g.key: g for g in gangs}, [], Rooms([*held, *(rooms or [])]))


def test_two_halves_of_one_pool_are_told_whom_to_suspend() -> None:
    old, young = half("old", 4, 2, 0), half("young", 4, 2, 2, created_at=later(9))
    told = deadlocks(board_of(old, young))
    assert {one.gang for one in told} == {old.key, young.key}
    values = next(one for one in told if one.gang == old.key).values
    assert (values["suspend"], values["frees"], values["starts"]) == ((young.key,), 16, (old.key,))
    assert (values["held"], values["own"], values["missing"], values["others"]) == (32, 16, 16, (young.key,))


def test_the_gang_of_low_priority_gives_way_though_it_holds_more() -> None:
    high, low = half("high", 3, 1, 0, priority=9), half("low", 4, 3, 1)
    assert deadlocks(board_of(high, low))[0].values["suspend"] == (low.key,)


def test_a_gang_whose_gpus_are_too_few_is_not_the_one_to_suspend() -> None:
    """The cheapest of all would free nothing that helps; the next one does."""
    small, big, other = half("small", 4, 1, 0), half("big", 4, 2, 1), half("other", 4, 2, 3)
    values = deadlocks(board_of(small, big, other))[0].values
    assert len(values["suspend"]) == 1  # type: ignore[arg-type]
    assert values["suspend"] != (small.key,)


def test_two_are_suspended_where_one_is_not_enough() -> None:
    gangs = [half(name, 6, 2, 2 * n) for n, name in enumerate(("a", "b", "c"))]
    board = board_of(*gangs)
    values = deadlocks(board)[0].values
    assert values["held"] == 48
    assert (len(values["suspend"]), values["frees"]) == (2, 32)  # type: ignore[arg-type]
    for gang in gangs:
        space, rest = release(board.starter.rooms, board.space, gang), [t for t in board.turns if t.gang is not gang]
        assert play(board.starter, space, rest) == []


def test_nobody_is_named_in_vain_of_those_that_are_suspended() -> None:
    """Of several, each is needed: with one of them left, nobody of the pool starts."""
    gangs = [half("a", 7, 1, 0), half("b", 7, 2, 1), half("c", 7, 3, 3, priority=1), half("d", 7, 3, 6, priority=2)]
    board = board_of(*gangs)
    values = deadlocks(board)[0].values
    suspended = [g for g in gangs if g.key in values["suspend"]]  # type: ignore[operator]
    assert len(suspended) >= 2
    assert values["starts"]
    for fewer in combinations(suspended, len(suspended) - 1):
        space = board.space
        for gang in fewer:
            space = release(board.starter.rooms, space, gang)
        rest = [turn for turn in board.turns if turn.gang not in fewer]
        assert not set(play(board.starter, space, rest)) & {g.key for g in gangs}


def test_where_all_together_hold_too_little_it_is_no_deadlock_but_a_small_cluster() -> None:
    assert deadlocks(board_of(half("a", 8, 1, 0), half("b", 8, 1, 1))) == []


def test_a_gang_that_fits_starts_by_itself() -> None:
    gangs = half("a", 3, 2, 0), half("b", 4, 2, 2)
    assert len(deadlocks(board_of(*gangs))) == 2
    assert deadlocks(board_of(*gangs, rooms=[a_room("free")])) == []
    assert len(deadlocks(board_of(*gangs, rooms=[a_room("sick", out=OUT)]))) == 2


def test_gangs_of_pools_that_do_not_meet_do_not_starve_each_other() -> None:
    red, blue = (replace(EIGHT, selector=(("pool", pool),)) for pool in ("red", "blue"))
    gangs = half("a", 4, 2, 0, red), half("b", 4, 2, 2, blue)
    rooms = [a_room(f"gpu-{n}", 8, labels={"pool": "red" if n < 2 else "blue"}) for n in range(4)]
    assert deadlocks(read({g.key: g for g in gangs}, [], Rooms(rooms))) == []
    one_pool = half("a", 4, 2, 0, red), half("b", 4, 2, 2, red)
    rooms = [a_room(f"gpu-{n}", 8, labels={"pool": "red"}) for n in range(4)]
    assert len(deadlocks(read({g.key: g for g in one_pool}, [], Rooms(rooms)))) == 2


def test_whole_waiting_and_running_gangs_are_in_no_deadlock() -> None:
    assert deadlocks(board_of(half("runs", 2, 2, 0), half("waits", 4, 0, 0), half("half", 4, 2, 2))) == []


def test_a_gang_that_holds_no_gpu_starves_nobody() -> None:
    """The head of one is placed, beside half a gang: that is a small cluster, not a deadlock."""
    head = a_member("head", "volcano/PodGroup/train/b", node="gpu-0", need=Need(cpu_millis=1000))
    group = an_object("volcano", "b", minimum=3, wanted=3, parts=(Part("", 3, need=EIGHT),))
    (joined,) = join([group], [head, *members_of(group.ref.key, 0, 2, need=EIGHT)]).values()
    waits = count(joined)
    assert 0 < waits.placed < waits.minimum
    assert deadlocks(board_of(half("a", 4, 2, 0), waits)) == []


def test_where_there_are_many_those_tried_first_are_enough_for_one_of_the_others() -> None:
    gangs = [half(f"g{n:02}", 9, 1, n, created_at=later(n)) for n in range(12)]
    values = deadlocks(board_of(*gangs))[0].values
    assert len(values["suspend"]) == 8  # type: ignore[arg-type]
    assert values["starts"] == (gangs[0].key,)


def freed(board: Board, gangs: tuple[Gang, ...]) -> set[str]:
    space = board.space
    for gang in gangs:
        space = release(board.starter.rooms, space, gang)
    return set(play(board.starter, space, [turn for turn in board.turns if turn.gang not in gangs]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(2, 9), st.integers(1, 3), st.integers(0, 2)), min_size=2, max_size=4))
def test_a_way_out_is_named_exactly_where_there_is_one_and_nobody_in_it_in_vain(
    drawn: list[tuple[int, int, int]],
) -> None:
    """Against every choice of whom to suspend."""
    gangs: list[Gang] = []
    first = 0
    for n, (minimum, most, priority) in enumerate(drawn):
        placed = min(most, minimum - 1)
        gangs.append(half(f"g{n}", minimum, placed, first, priority=priority, created_at=later(n)))
        first += placed
    board = board_of(*gangs)
    told = deadlocks(board)
    held = sum(gang.gpus_held for gang in gangs)
    assert bool(told) is (held >= min((gang.minimum - gang.placed) * 8 for gang in gangs))
    if not told:
        return
    ways = [some for n in range(1, len(gangs)) for some in combinations(gangs, n) if freed(board, some)]
    named = tuple(gang for gang in gangs if gang.key in told[0].values["suspend"])  # type: ignore[operator]
    assert bool(named) is bool(ways)
    assert freed(board, named) == set(told[0].values["starts"])  # type: ignore[arg-type]
    assert not named or not any(freed(board, fewer) for fewer in combinations(named, len(named) - 1))
    alone = [(gang.priority, gang.gpus_held) for some in ways if len(some) == 1 for gang in some]
    assert not alone or [(gang.priority, gang.gpus_held) for gang in named] == [min(alone)]


# -- guarantee ----------------------------------------------------------------------------------------------------


def codes(gang: Gang) -> list[tuple[str, str]]:
    return [(one.code, one.about) for one in guarantee(gang)]


def test_a_group_that_pods_name_and_nobody_sees_yet_or_any_more_is_no_missing_guarantee() -> None:
    """The group's own watch is a moment behind that of the pods; and what deletes a cluster deletes the group first."""
    link = "coscheduling/PodGroup/train/llm"
    for ending in (False, True):
        pods = members_of(link, 4, ending=ending)
        (joined,) = join([], pods).values()
        assert codes(count(joined)) == []
    (joined,) = join([an_object("ray", "llm", wanted=5)], []).values()
    assert codes(count(joined)) == [], "its pods are not made yet, and its group neither"


def test_a_ray_cluster_that_no_group_binds_has_no_guarantee() -> None:
    assert codes(a_ray_gang()) == [("guarantee_none", "")]


@pytest.mark.parametrize(("minimum", "autoscaling", "expected"), [(5, True, []), (1, False, []),
                         (1, True, [("guarantee_partial", "pg")])])  # fmt: skip
def test_volcano_with_the_autoscaler_guarantees_the_minimum_only(
    minimum: int, autoscaling: bool, expected: list[tuple[str, str]]
) -> None:
    group = an_object("volcano", "pg", minimum=minimum, owners=("uid-ray--llm",))
    assert codes(a_ray_gang(ray_facts(autoscaling=autoscaling), group)) == expected


@pytest.mark.parametrize(("minimum", "stale"), [(5, False), (3, True), (7, True)])
def test_a_group_of_scheduler_plugins_that_was_not_brought_up_to_date(minimum: int, stale: bool) -> None:
    group = an_object("coscheduling", "llm", minimum=minimum, owners=("uid-ray--llm",))
    assert codes(a_ray_gang(None, group)) == ([("guarantee_stale", "llm")] if stale else [])


def test_the_operators_count_of_wanted_workers_goes_before_the_spec() -> None:
    group = an_object("coscheduling", "llm", minimum=5, owners=("uid-ray--llm",))
    (told,) = guarantee(a_ray_gang(ray_facts(desired_workers=6), group))
    assert told.values == {"minimum": 5, "whole": 7}


def test_yunikorn_goes_on_without_the_gang_after_its_time_out() -> None:
    app = an_object("yunikorn", "app", namespace="", wanted=4, minimum=4, guarantee="lost",
                    parts=(Part("", 4, need=EIGHT),))  # fmt: skip
    (joined,) = join([app], members_of(app.ref.key, 2, 2, need=EIGHT)).values()
    (told,) = guarantee(count(joined))
    assert (told.code, told.severity, told.values) == ("guarantee_lost", "critical", {"placed": 2, "wanted": 4})


def test_who_is_alone_or_asks_for_no_gpu_needs_no_guarantee() -> None:
    assert codes(a_ray_gang(ray_facts(a_group(replicas=0)), placed=1, wanted=1)) == []
    cpus = [a_member(f"m{n}", RAY, node=f"c{n}", need=Need(cpu_millis=1)) for n in range(5)]
    assert codes(a_ray_gang(ray_facts(a_group(gpus_limit=0)), members=cpus)) == []


def test_a_manifest_says_how_much_of_it_will_be_guaranteed() -> None:
    facts = ray_facts(a_group(replicas=4, minimum=0, maximum=8), autoscaling=True, gang_label=False)
    told = {one.code: one.values for one in guarantee_asked("k", facts)}
    assert told == {"guarantee_unasked": {"wanted": 5}, "guarantee_partial": {"minimum": 1, "whole": 5}}
    assert list(guarantee_asked("k", ray_facts(autoscaling=True))) == []


# -- sick members -------------------------------------------------------------------------------------------------


def test_members_that_are_ready_on_a_sick_node_are_counted_by_node() -> None:
    placed = [("w1", "a"), ("w2", "a"), ("w3", "b")]
    members = [a_member(name, RAY, node=node) for name, node in placed]
    members.append(a_member("late", RAY, node="a", state="running"))
    told = list(sickness(a_ray_gang(members=members), {"a": "Xid 79", "c": "NFS"}))
    assert [(one.code, one.about, one.values) for one in told] == [("sick_node", "a", {"reason": "Xid 79", "ready": 2})]


def test_the_kubelets_word_on_a_device_is_passed_on() -> None:
    sick = a_member("w1", RAY, node="a", sick_device="nvidia.com/gpu Unhealthy")
    (told,) = sickness(a_ray_gang(members=[sick, a_member("w2", RAY, node="b")]), {})
    assert (told.code, told.about, told.values["node"]) == ("sick_device", "train/w1", "a")


def test_gangs_are_named_by_what_people_made() -> None:
    """Both of Volcano, whose groups nobody has ever named, for jobs that somebody did."""
    halves = []
    for n, name in enumerate(("old", "young")):
        job = an_object("ray", name, kind="RayJob", namespace="team", uid=f"job-{name}", created_at=later(n))
        group = an_object("volcano", f"ray-{name}-x7k-pg", owners=(job.ref.uid,), minimum=4, wanted=4,
                          parts=(Part("", 4, need=EIGHT),), created_at=later(n))  # fmt: skip
        (joined,) = join([job, group], members_of(group.ref.key, 2, 2, first=2 * n, need=EIGHT)).values()
        halves.append(count(joined))
    condition = next(one for one in deadlocks(board_of(*halves)) if one.gang == halves[0].key)
    with translation.override("en"):
        assert gang_words.told(condition).sentence == (
            "RayJob train/old holds 16 GPUs for nothing and lacks 16; it and RayJob train/young hold 32. "
            "Suspending RayJob train/young frees 16 GPUs, and RayJob train/old would fit."
        )
    assert condition.values["suspend"] == (halves[1].key,), "the API keeps the keys"
