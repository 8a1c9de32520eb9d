"""Limits in every scope: levels, rates and floors, with their numbers in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleet.policy.breaker import Counts, TripRule, trips
from fleet.policy.rules import FLEET, FLOOR, HOLD, IN_FLIGHT, RATE, TAKE_OUT, CapRule, Place, Tally, decide

NOW = datetime(2026, 11, 30, 3, tzinfo=UTC)
TENANT = ("tenant", "seoul", "vision")


def places(count: int) -> list[Place]:
    return [Place(number, f"n{number:02d}", (FLEET, TENANT)) for number in range(count)]


def test_a_tenants_floor_of_healthy_capacity_is_kept_and_told() -> None:
    nodes = places(10)
    tally = Tally({FLEET: 10, TENANT: 10})
    for node in nodes[:2]:
        tally.add(TAKE_OUT, node)
    floor = CapRule(FLOOR, "tenant", None, 75.0)
    blocked = decide(TAKE_OUT, nodes[5], [floor], tally, NOW)
    assert blocked.code == "floor"
    assert blocked.text == "Tenant vision: 8 of 10 nodes are in service, and 8 must stay (n00, n01 out)."
    assert decide(TAKE_OUT, nodes[0], [floor], tally, NOW).allowed, "who is out already costs nothing"
    assert decide(TAKE_OUT, Place(5, "n05", (FLEET, TENANT), serves=False), [floor], tally, NOW).allowed


def test_a_host_that_is_not_ready_is_held_whatever_is_held_already() -> None:
    """It takes no new work, so the hold takes nothing away; it counts for those who ask after it."""
    nodes = places(4)
    tally = Tally({FLEET: 4, TENANT: 4})
    tally.add(HOLD, nodes[0])
    cap = CapRule(HOLD, "fleet", 1, None)
    assert decide(HOLD, nodes[1], [cap], tally, NOW).code == "cap_hold"
    dead = Place(2, "n02", (FLEET, TENANT), ready=False)
    assert decide(HOLD, dead, [cap], tally, NOW).allowed
    assert not decide(TAKE_OUT, dead, [CapRule(TAKE_OUT, "fleet", 1, None)], _out(tally, nodes[1]), NOW).allowed


def test_hosts_that_were_held_dead_and_came_back_keep_everybody_else_from_being_held() -> None:
    """More are held than may be, until enough of them have been given back; nobody who could work joins them."""
    nodes = places(4)
    tally, cap = Tally({FLEET: 4, TENANT: 4}), CapRule(HOLD, "fleet", 1, None)
    for dead in nodes[:3]:
        assert decide(HOLD, replace(dead, ready=False), [cap], tally, NOW).allowed
        tally.add(HOLD, dead)
    said = decide(HOLD, nodes[3], [cap], tally, NOW)
    assert said.code == "cap_hold" and "3 of 1 held" in said.text
    del tally.members[HOLD, FLEET][nodes[0].node_id], tally.members[HOLD, FLEET][nodes[1].node_id]
    assert not decide(HOLD, nodes[3], [cap], tally, NOW).allowed
    del tally.members[HOLD, FLEET][nodes[2].node_id]
    assert decide(HOLD, nodes[3], [cap], tally, NOW).allowed


def _out(tally: Tally, place: Place) -> Tally:
    tally.add(TAKE_OUT, place)
    return tally


def test_a_rate_lets_the_next_through_when_the_oldest_leaves_its_window() -> None:
    nodes = places(4)
    tally = Tally({FLEET: 4, TENANT: 4})
    for minutes in (50, 20):
        tally.begin(nodes[0], NOW - timedelta(minutes=minutes))
    rate = CapRule(RATE, "fleet", 2, None, 3600)
    blocked = decide(IN_FLIGHT, nodes[1], [rate], tally, NOW)
    assert (blocked.code, blocked.until) == ("rate", NOW + timedelta(minutes=10))
    assert blocked.text == "Fleet: 2 of 2 disruptive verbs begun in the last 1 h."
    assert decide(IN_FLIGHT, nodes[1], [rate], tally, NOW + timedelta(minutes=11)).allowed
    assert decide(HOLD, nodes[1], [rate], tally, NOW).allowed, "a rate counts what disrupts"


@given(
    size=st.integers(1, 60),
    percent=st.floats(0, 100),
    absolute=st.none() | st.integers(0, 70),
    kind=st.sampled_from([HOLD, TAKE_OUT, IN_FLIGHT]),
)
def test_grants_one_by_one_never_pass_a_limit(size: int, percent: float, absolute: int | None, kind: str) -> None:
    cap = CapRule(kind, "fleet", absolute, percent)
    tally = Tally({FLEET: size})
    for node in places(size):
        if decide(kind, node, [cap], tally, NOW).allowed:
            tally.add(kind, node)
    limit = cap.limit(size)
    assert limit is not None and len(tally.used(kind, FLEET)) == min(limit, size)


@given(size=st.integers(1, 60), percent=st.floats(0, 100), least=st.none() | st.integers(0, 70))
def test_a_floor_is_never_passed(size: int, percent: float, least: int | None) -> None:
    floor = CapRule(FLOOR, "fleet", least, percent)
    tally = Tally({FLEET: size})
    for node in places(size):
        if decide(TAKE_OUT, node, [floor], tally, NOW).allowed:
            tally.add(TAKE_OUT, node)
    in_service = size - len(tally.used(TAKE_OUT, FLEET))
    assert in_service >= min(size, floor.floor(size))


def test_the_breaker_trips_on_many_holds_and_on_remedies_in_vain_and_says_why() -> None:
    rule = TripRule(percent=25, least=20)
    assert not trips(rule, Counts(nodes=256, held=60, ended=0, failed=0), more=4)
    assert "65 of 256 nodes asked to be held within 10 min; 64 may" in trips(rule, Counts(256, 60), more=5)
    assert not trips(rule, Counts(30, 20)), "a few faults in a small fleet are no storm"
    assert "6 of 9 remedies were in vain within 1 h" in trips(rule, Counts(256, 0, ended=9, failed=6))
    assert not trips(rule, Counts(256, 0, ended=20, failed=6))
    assert not trips(TripRule(enabled=False), Counts(10, 10, 10, 10), more=1000)


@given(held=st.integers(1, 6), limit=st.integers(1, 6), kind=st.sampled_from([HOLD, TAKE_OUT]))
def test_of_those_that_have_a_share_as_many_as_fit_go_on_and_nobody_new(held: int, limit: int, kind: str) -> None:
    """Under a cap that was lowered below what is held the first go on, or each would wait for the others."""
    nodes = places(held + 1)
    tally = Tally({FLEET: len(nodes)})
    for minute, place in enumerate(nodes[:held]):
        tally.add(kind, place)
        tally.shares[kind, place.node_id] = NOW + timedelta(minutes=minute)
    caps = [CapRule(kind, "fleet", limit, None)]
    go_on = [decide(kind, place, caps, tally, NOW).allowed for place in nodes]
    assert go_on[:held] == [number < limit for number in range(held)]
    assert go_on[held] == (held < limit)


def test_a_share_that_others_hold_without_asking_is_waited_for() -> None:
    """A cordon of a person's has no date: it counts against everybody."""
    mine, cordoned = places(2)
    tally = Tally({FLEET: 2})
    tally.add(TAKE_OUT, mine)
    tally.shares[TAKE_OUT, mine.node_id] = NOW
    tally.add(TAKE_OUT, cordoned)
    assert not decide(TAKE_OUT, mine, [CapRule(TAKE_OUT, "fleet", 1, None)], tally, NOW).allowed
