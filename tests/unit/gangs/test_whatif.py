"""What would fit if: held against every way to pack small clusters."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.gangs.diagnosis.blocking import blockers
from fleet.gangs.diagnosis.fragmentation import SIZES, scatter
from fleet.gangs.diagnosis.order import turns
from fleet.gangs.diagnosis.packing import Space, place
from fleet.gangs.diagnosis.rooms import Out, Room, Rooms
from fleet.gangs.diagnosis.starting import Starter
from fleet.gangs.diagnosis.whatif import draining, play, returning, suspending
from fleet.gangs.form import Gang, Missing
from fleet.ports.gangs import Need, QueueObject, Ref, Topology
from tests.gang_builders import later
from tests.unit.gangs.scenes import GPU, OUT, a_gang, a_room, a_scene


def test_the_first_in_line_takes_what_a_node_brings_back() -> None:
    starter, space = a_scene(a_room("a", out=OUT), a_room("b", used=8))
    waiting = turns([a_gang("young", 1, created_at=later(5)), a_gang("old", 1)])
    found = returning(starter, space, waiting, ["a"])
    assert (found.starts, found.gpus) == (("volcano/PodGroup/train/old",), 8)


def test_a_strict_queue_ends_at_its_head_and_another_queue_goes_on() -> None:
    starter, space = a_scene(a_room("a", out=OUT))
    strict = QueueObject(Ref("kueue", "ClusterQueue", "", "strict"), head_blocks=True)
    gangs = [
        a_gang("head", 2, queue="strict", priority=9),
        a_gang("behind", 1, queue="strict"),
        a_gang("other", 1, queue="loose"),
    ]
    found = returning(starter, space, turns(gangs, {"strict": strict}), ["a"])
    assert found.starts == ("volcano/PodGroup/train/other",)


def test_a_drain_names_who_breaks_and_whether_they_can_form_again() -> None:
    llm = a_gang("llm", 2, placed=2)
    rooms = [a_room("gpu-0", used=8), a_room("gpu-1", used=8)]
    (broken,) = draining(*a_scene(*rooms), [], [llm], ["gpu-1"]).broken
    assert (broken.loses, broken.left, broken.breaks, broken.again) == (1, 1, True, False)
    (broken,) = draining(*a_scene(*rooms, a_room("spare")), [], [llm], ["gpu-1"]).broken
    assert broken.again


def test_suspending_a_half_gang_lets_the_other_start() -> None:
    a, b = a_gang("a", 3, placed=1), a_gang("b", 2)
    starter, space = a_scene(a_room("gpu-0", used=8), a_room("gpu-1"))
    found = suspending(starter, space, turns([a, b]), a)
    assert (found.starts, found.gpus) == ((b.key,), 8)


def test_a_node_that_brings_nothing_changes_nothing() -> None:
    starter, space = a_scene(a_room("a"))
    assert returning(starter, space, turns([a_gang("x", 2)]), ["a", "no-such-node"]).starts == ()


def test_a_gpu_that_was_lost_under_a_member_does_not_come_free_with_it() -> None:
    a, b = a_gang("a", 1, placed=1), a_gang("b", 1)
    starter, space = a_scene(a_room("gpu-0", used=8, gpus=7))
    assert suspending(starter, space, turns([b]), a).starts == ()
    whole = space.returned(starter.rooms, [0])
    assert suspending(starter, whole, turns([b]), a).starts == (b.key,)


def test_who_asks_for_a_whole_node_shares_it_with_no_work_of_any_kind() -> None:
    alone = a_gang("alone", 1, need=Need(gpus=1, cpu_millis=1000, whole_node=True))
    assert not play(*a_scene(a_room("busy", cpu_used=4000)), turns([alone]))
    small = a_gang("small", 1, need=Need(cpu_millis=1000), created_at=later(-5))
    assert play(*a_scene(a_room("n0")), turns([small, alone])) == [small.key]


def test_a_gang_of_unknown_need_says_nothing_of_others() -> None:
    known = a_gang("known", 1)
    riddle = replace(known, key="riddle", missing=(*known.missing, Missing(None, 1)), priority=9)
    assert play(*a_scene(a_room("a")), turns([riddle, known])) == [known.key]


def test_members_that_a_drain_takes_come_back_only_to_their_own_domain() -> None:
    llm = a_gang("llm", 2, placed=2, topology=Topology("rack", required=True))
    here, there = {"rack": "r1"}, {"rack": "r2"}
    rooms = [a_room("gpu-0", used=8, labels=here), a_room("gpu-1", used=8, labels=here)]
    (broken,) = draining(*a_scene(*rooms, a_room("far", labels=there)), [], [llm], ["gpu-1"]).broken
    assert not broken.again
    (broken,) = draining(*a_scene(*rooms, a_room("near", labels=here)), [], [llm], ["gpu-1"]).broken
    assert broken.again


def test_who_was_first_makes_way_on_a_node_for_who_fits_nowhere_else() -> None:
    small = a_gang("small", 1, need=Need(gpus=2))
    picky = a_gang("picky", 1, need=Need(gpus=4, selector=(("rack", "r1"),)), created_at=later(5))
    rooms = [a_room("fullest", used=4, labels={"rack": "r1"}), a_room("roomy")]
    assert play(*a_scene(*rooms), turns([small, picky])) == [small.key, picky.key]


def test_scatter_counts_what_lies_in_pieces() -> None:
    starter, space = a_scene(a_room("a", used=4), a_room("b", used=4), a_room("c"), a_room("d", out=OUT))
    found = scatter(starter.rooms, space, "rack")
    assert (found.free_gpus, found.slots[SIZES.index(8)], found.packed_slots[SIZES.index(8)]) == (16, 1, 2)
    assert (found.partly_used, found.scattered(8), found.scattered(4)) == (2, 0.5, 0.0)
    assert found.histogram == ((4, 2), (8, 1))


# -- against every way to pack ------------------------------------------------------------------------------------

needs = st.builds(Need, gpus=st.integers(0, 4), cpu_millis=st.integers(1, 3)).map(
    lambda need: replace(need, cpu_millis=need.cpu_millis * 1000)
)
rooms = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 6), st.booleans()), min_size=1, max_size=4
)


def built(drawn: list[tuple[int, int, int, bool]]) -> list[Room]:
    return [
        Room(f"n{n}", ((GPU, 8),), ((GPU, used),), ((GPU, 8),), cpu_left=cpu * 1000, out=OUT if out else None)
        for n, (used, _, cpu, out) in enumerate(drawn)
    ]


def brute(rooms: list[Room], asks: list[tuple[Need, int]], back: frozenset[str] = frozenset()) -> bool:
    """All ways to deal members out to nodes."""
    members = [need for need, count in asks for _ in range(count)]
    nodes = [room for room in rooms if room.out is None or room.node in back]
    if members and not nodes:
        return False
    for ways in product(range(len(nodes)), repeat=len(members)):
        gpus = [8 - sum(n for _, n in room.used) for room in nodes]
        cpu = [room.cpu_left or 0 for room in nodes]
        for where, need in zip(ways, members, strict=True):
            gpus[where] -= need.gpus
            cpu[where] -= need.cpu_millis
        if min(gpus, default=0) >= 0 and min(cpu, default=0) >= 0:
            return True
    return not members


@settings(max_examples=150, deadline=None)
@given(rooms, st.lists(st.tuples(needs, st.integers(1, 2)), min_size=1, max_size=2, unique_by=lambda ask: ask[0]))
def test_it_fits_exactly_when_some_way_of_dealing_members_out_does(
    drawn: list[tuple[int, int, int, bool]], asks: list[tuple[Need, int]]
) -> None:
    nodes = built(drawn)
    starter, space = a_scene(*nodes)
    after = place(space, asks, starter.eligibility)
    assert (after is not None) is brute(nodes, asks)
    if after is not None:
        assert all((column >= 0).all() for column in after.gpus.values())
        given_away = int((space.gpus[GPU] - after.gpus[GPU]).sum())
        assert given_away == sum(need.gpus * count for need, count in asks)


@settings(max_examples=100, deadline=None)
@given(rooms, st.integers(1, 8), st.integers(1, 4))
def test_blockers_are_enough_and_no_fewer_would_do(
    drawn: list[tuple[int, int, int, bool]], gpus: int, minimum: int
) -> None:
    nodes = [replace(room, cpu_left=None) for room in built(drawn)]
    starter, space = a_scene(*nodes)
    gang = a_gang("g", minimum, need=Need(gpus=gpus))
    asks = starter.asks(gang)
    if starter.could(gang, space):
        return
    out = [room.node for room in nodes if room.out]
    enough = [
        frozenset(some)
        for bits in product((0, 1), repeat=len(out))
        for some in [{node for node, bit in zip(out, bits, strict=True) if bit}]
        if could_with(starter, space, gang, some)
    ]
    found = {blocker.node for blocker in blockers(starter, gang, space)}
    assert len(found) == (min(map(len, enough)) if enough else 0)
    assert asks and (not found or could_with(starter, space, gang, found))


def could_with(starter: Starter, space: Space, gang: Gang, back: set[str] | frozenset[str]) -> bool:
    return starter.could(gang, space.returned(starter.rooms, starter.rooms.places(back)))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_who_starts_in_a_played_queue_has_room_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [a_room(f"n{n}", used=int(rng.integers(0, 9)), out=OUT if rng.random() < 0.3 else None) for n in range(4)]
    gangs = [
        a_gang(f"g{n}", int(rng.integers(1, 3)), need=Need(gpus=int(rng.integers(1, 9))), created_at=later(n))
        for n in range(3)
    ]
    starter, space = a_scene(*nodes)
    started = play(starter, space, turns(gangs))
    asks = [ask for gang in gangs if gang.key in started for ask in starter.asks(gang)]
    assert brute([replace(room, cpu_left=10**9) for room in nodes], asks)


def test_putting_one_node_is_the_same_as_building_anew() -> None:
    before = [a_room("a"), a_room("b", used=8)]
    rooms_ = Rooms(before)
    after = a_room("b", used=2, out=Out("cordoned"))
    assert rooms_.put(after)
    anew = Rooms([before[0], after])
    assert (rooms_.free[GPU] == anew.free[GPU]).all()
    assert (rooms_.usable == anew.usable).all()
    assert not rooms_.put(a_room("c"))
    assert not rooms_.put(a_room("b", labels={"rack": "r9"}))
