"""Which changes of the policy let more happen: exactly those under which a guard says yes where it said no."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.policy import windows
from fleet.policy.breaker import Counts, TripRule, trips
from fleet.policy.document import Policy, Section, limits_of
from fleet.policy.document_file import parse
from fleet.policy.loosening import compare, loosening
from fleet.policy.rules import (
    APPLIES,
    FLOOR,
    HOLD,
    IN_FLIGHT,
    RATE,
    SCOPES,
    TAKE_OUT,
    CapRule,
    Place,
    ScopeKey,
    Tally,
    decide,
)
from tests.unit.policy.policies import CLUSTERS, NOW, ROLES, cap_rules, changed, policies
from tests.unit.policy.policies import windows as some_window

CLAIMS = (HOLD, TAKE_OUT, IN_FLIGHT)


def policy(text: str) -> Policy:
    return parse(f"version: 1\n{text}", "policy.yaml", CLUSTERS, ROLES)


def loose(old: str, new: str, now: datetime = NOW) -> list[str]:
    return [change.what for change in loosening(policy(old), policy(new), now)]


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Place], Tally]:
    """Nodes in two clusters and few scopes, any of them claimed, out or just disrupted."""
    places = []
    for number in range(draw(st.integers(1, 30))):
        cluster = draw(st.sampled_from([*CLUSTERS, "unnamed"]))
        keys: list[ScopeKey] = [("fleet", "", ""), ("cluster", cluster, cluster)]
        keys += [(scope, cluster, draw(st.sampled_from(["a", "b"]))) for scope in SCOPES[2:]]
        places.append(Place(number, f"n{number}", tuple(keys), draw(st.booleans())))
    tally = Tally({})
    sizes: dict[ScopeKey, int] = {}
    for place in places:
        for key in place.scopes:
            sizes[key] = sizes.get(key, 0) + 1
    tally.sizes = sizes
    for place in places:
        for kind in draw(st.sets(st.sampled_from(CLAIMS))):
            tally.add(kind, place)
        for ago in draw(st.lists(st.integers(1, 4000), max_size=2)):
            tally.begin(place, NOW - timedelta(seconds=ago))
    return places, tally


@settings(deadline=None, max_examples=60)
@given(changed(), fleets())
def test_without_a_loosening_nothing_is_allowed_that_was_not(
    pair: tuple[Policy, Policy], fleet: tuple[list[Place], Tally]
) -> None:
    old, new = pair
    said = loosening(old, new, NOW)
    places, tally = fleet
    for place in places:
        cluster = place.scopes[1][1]
        mine = [change for change in said if change.cluster in ("", cluster)]
        for kind in CLAIMS:
            if decide(kind, place, new.caps(cluster), tally, NOW).allowed and not any(
                change.what.startswith(("caps.", "rates.", "floors.")) for change in mine
            ):
                assert decide(kind, place, old.caps(cluster), tally, NOW).allowed


@settings(deadline=None, max_examples=250)
@given(st.data())
def test_each_loosened_limit_lets_somebody_through_whom_the_old_one_kept_and_no_other_does(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([*CLAIMS, RATE, FLOOR]))
    old, new = (data.draw(st.none() | cap_rules(kind, "rack")) for _ in range(2))
    before, after = (Policy(Section(limits_of([cap] if cap else []))) for cap in (old, new))
    found = loosening(before, after, NOW)
    claim = next(claim for claim, kinds in APPLIES.items() if kind in kinds)
    sizes = [found[0].size] if found else [1, 2, 3, 7, 20, 41, 100, 400]
    differs = any(
        decide(claim, place, after.caps(""), tally, NOW).allowed
        and not decide(claim, place, before.caps(""), tally, NOW).allowed
        for size in sizes
        for place, tally in everything_of(kind, size, old, new)
    )
    assert differs == bool(found)


def everything_of(kind: str, size: int, *caps: CapRule | None) -> Iterator[tuple[Place, Tally]]:
    """A rack of that size with a candidate, in each state of it that either limit could tell apart."""
    key: ScopeKey = ("rack", "seoul", "r01")
    edges = {cap.floor(size) if kind == FLOOR else cap.limit(size) or size for cap in caps if cap}
    counts = {edge + more for edge in edges for more in (-1, 0, 1)}
    counts |= {size - 1 - count for count in counts} | {0, size - 1}
    for count in counts:
        if count < 0 or (count > size - 1 and kind != RATE):
            continue
        if kind != RATE:
            tally = Tally({key: size})
            for number in range(count):
                tally.add(TAKE_OUT if kind == FLOOR else kind, Place(number, "n", (key,)))
            yield Place(size, "x", (key,)), tally
            continue
        for ago in (30, 75, 600, 2400):
            tally = Tally({key: size})
            tally.begun[key] = [NOW - timedelta(seconds=ago)] * count
            yield Place(size, "x", (key,)), tally


@settings(deadline=None, max_examples=60)
@given(policies, policies, st.integers(0, 300), st.integers(0, 300), st.integers(0, 12), st.integers(0, 12))
def test_a_breaker_rule_that_is_not_looser_trips_on_all_that_the_old_one_tripped_on(
    one: Policy, other: Policy, nodes: int, held: int, ended: int, failed: int
) -> None:
    old, new = Policy(one.default), Policy(dataclasses.replace(one.default, breaker=other.default.breaker))
    counts = Counts(nodes, held, ended, min(failed, ended))
    said = [change for change in loosening(old, new, NOW) if change.what.startswith("breaker.")]
    if not said and trips(old.breaker(""), counts):
        assert trips(new.breaker(""), counts)


@pytest.mark.parametrize(("field", "looser"), [("percent", 30), ("least", 30), ("failed", 9), ("failed_percent", 80)])
def test_a_breaker_rule_that_counts_higher_is_looser_and_back_is_not(field: str, looser: Any) -> None:
    usual = TripRule()
    old, new = Policy(Section({}, usual)), Policy(Section({}, dataclasses.replace(usual, **{field: looser})))
    assert [change.what for change in loosening(old, new, NOW)] == [f"breaker.{field}"]
    assert not loosening(new, old, NOW)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_windows_that_are_not_looser_open_no_moment(data: st.DataObject) -> None:
    old = [data.draw(some_window(f"w{number}")) for number in range(data.draw(st.integers(0, 3)))]
    kept = [window for window in old if data.draw(st.integers(0, 3))]
    bent = [
        dataclasses.replace(window, minutes=data.draw(st.sampled_from([30, window.minutes, 1440])))
        if data.draw(st.booleans())
        else window
        for window in kept
    ]
    new = [*bent, *(data.draw(some_window(f"x{number}")) for number in range(data.draw(st.integers(0, 1))))]
    before, after = Policy(Section(windows=tuple(old))), Policy(Section(windows=tuple(new)))
    if loosening(before, after, NOW):
        return
    for _ in range(12):
        at = NOW + timedelta(minutes=data.draw(st.integers(0, 60 * 24 * 40)))
        pool, urgent = data.draw(st.sampled_from(["h100", "a100", "other", ""])), data.draw(st.booleans())
        if windows.decide(new, pool, urgent, at).allowed:
            assert windows.decide(old, pool, urgent, at).allowed


FREEZE = "{kind: freeze, name: a, zone: UTC, start: '02:00', lasts: 4h%s}"
OPENING = "{kind: opening, name: o, zone: UTC, start: '02:00', lasts: 4h%s}"


def windowed(*items: str) -> str:
    return f"default: {{windows: [{', '.join(items)}]}}"


def test_freezes_tighten_where_they_come_and_loosen_where_they_go() -> None:
    assert loose(windowed(), windowed(FREEZE % "")) == []
    assert loose(windowed(FREEZE % ""), windowed()) == ["windows.a"]
    assert loose(windowed(FREEZE % ""), windowed(FREEZE % ", pool: h100")) == ["windows.a"]
    assert loose(windowed(FREEZE % ", pool: h100"), windowed(FREEZE % "")) == []
    assert loose(windowed(FREEZE % ", ends: 2026-11-01"), windowed()) == [], "it is over"
    assert loose(windowed(FREEZE % ", days: [mon, tue]"), windowed(FREEZE % ", days: [mon]")) == ["windows.a"]
    assert loose(windowed(FREEZE % ", days: [mon]"), windowed(FREEZE % ", days: [mon, tue]")) == []
    assert loose(windowed(FREEZE % ", ends: 2026-12-09"), windowed(FREEZE % ", ends: 2026-12-08")) == ["windows.a"]
    assert loose(windowed(FREEZE % ""), windowed(FREEZE % ", urgent_passes: true")) == ["windows.a"]


def test_the_first_opening_confines_and_the_next_one_opens() -> None:
    other = "{kind: opening, name: p, zone: UTC, start: '12:00', lasts: 1h}"
    assert loose(windowed(), windowed(OPENING % "")) == []
    assert loose(windowed(OPENING % ""), windowed(OPENING % "", other)) == ["windows.p"]
    assert loose(windowed(OPENING % "", other), windowed(OPENING % "")) == []
    assert loose(windowed(OPENING % ""), windowed()) == ["windows.o"]
    assert loose(windowed(OPENING % ", ends: 2026-11-01"), windowed()) == ["windows.o"], "over, it still kept all out"
    assert loose(windowed(), windowed(OPENING % ", pool: h100")) == []


def test_a_clusters_own_word_counts_against_what_held_there_before() -> None:
    base = "default: {caps: {in_flight: {rack: 2}}}\n"
    assert loose(base, f"{base}clusters: {{seoul: {{caps: {{in_flight: {{rack: 1}}}}}}}}") == []
    assert loose(base, f"{base}clusters: {{seoul: {{caps: {{in_flight: {{rack: none}}}}}}}}") == ["caps.in_flight.rack"]
    own = f"{base}clusters: {{seoul: {{caps: {{in_flight: {{rack: 1}}}}}}}}"
    found = compare(policy(own), policy(base), NOW)
    assert [(change.cluster, change.old, change.new, change.loosens) for change in found] == [("seoul", "1", "2", True)]


def test_a_rate_is_looser_with_a_higher_number_or_a_shorter_memory() -> None:
    rate = "default: {rates: {fleet: {verbs: %d, within: %s}}}"
    assert loose(rate % (5, "1h"), rate % (6, "1h")) == ["rates.fleet"]
    assert loose(rate % (5, "1h"), rate % (5, "59m")) == ["rates.fleet"]
    assert loose(rate % (5, "1h"), rate % (1, "1m")) == ["rates.fleet"], "it forgets what was done an hour ago"
    assert loose(rate % (5, "1h"), rate % (4, "2h")) == []
    assert loose("default: {}", rate % (9, "1h")) == [] and loose(rate % (9, "1h"), "default: {}") == ["rates.fleet"]


def test_limits_that_no_scope_can_reach_are_no_limits() -> None:
    cap = "default: {caps: {hold: {rack: %s}}}"
    assert loose(cap % "100%", cap % "none") == [], "as many as there are may be held either way"
    assert loose(cap % "{nodes: 1, percent: 5}", cap % "{nodes: 1, percent: 50}") == [], "one either way"
    assert loose(cap % "{nodes: 2, percent: 5}", cap % "{nodes: 2, percent: 50}") == ["caps.hold.rack"]
    assert loose(cap % "20000", cap % "30000") == ["caps.hold.rack"], "scopes beyond ten thousand nodes count too"


def test_fewer_people_a_longer_life_and_more_nodes_for_a_role_are_looser() -> None:
    assert loose("approvals: {bulk: {people: 2}}", "approvals: {bulk: {people: 1}}") == ["approvals.bulk"]
    assert loose("approvals: {bulk: {within: 1h}}", "approvals: {bulk: {within: 2h}}") == ["approvals.bulk"]
    assert loose("approvals: {bulk: {people: 2}}", "approvals: {bulk: {people: 3, within: 30m}}") == []
    assert loose("roles: {operator: 10}", "roles: {operator: 20}") == ["roles.operator"]
    assert loose("roles: {operator: 10}", "roles: {operator: 5}") == []
    assert loose("default: {}", "roles: {operator: 10000}") == ["roles.operator"], "above its usual number"
    assert loose("default: {}", "roles: {operator: 5, policy: 0}") == []
    assert loose("roles: {operator: 5}", "default: {}") == ["roles.operator"], "back to its usual number"


@given(policies)
@settings(deadline=None, max_examples=15)
def test_a_policy_differs_in_nothing_from_itself(same: Policy) -> None:
    assert compare(same, same, NOW) == []
