"""The domains of a network's tree as the rooms of nodes know them."""

from __future__ import annotations

import time

import pytest

from fleet.gangs.diagnosis.reasons import Reason, diagnose
from fleet.gangs.diagnosis.tiers import levels_of
from fleet.gangs.roster import Roster
from fleet.observer.gangrooms import RoomBook
from fleet.ports.gangs import Domain, Inside, Spoken, Topology
from tests.unit.gangs.scenes import GPU, a_gang, a_scene
from tests.unit.gangs.test_two_books import seen


def of_nodes(name: str, *nodes: str, tier: int = 1, tier_name: str = "") -> Domain:
    return Domain(name, tier, tier_name, tuple(Inside(domains=False, name=node) for node in nodes))


def of_domains(name: str, *domains: str, tier: int = 2, tier_name: str = "") -> Domain:
    return Domain(name, tier, tier_name, tuple(Inside(domains=True, name=one) for one in domains))


TREE = (
    of_nodes("leaf-0", "a", "b", tier_name="leaf"),
    of_nodes("leaf-1", "c", "d", tier_name="leaf"),
    of_domains("spine-0", "leaf-0", "leaf-1", tier_name="spine"),
    of_nodes("lone", "e"),
)
NODES: dict[str, dict[str, str]] = {name: {} for name in "abcdef"}


def test_each_tier_is_the_largest_domain_that_is_no_higher() -> None:
    levels = levels_of(TREE, NODES)
    assert levels["a"] == {"tier 1": "leaf-0", "tier 2": "spine-0", "tier leaf": "leaf-0", "tier spine": "spine-0"}
    assert levels["d"]["tier 1"] == "leaf-1" and levels["d"]["tier 2"] == "spine-0"
    assert levels["e"] == {"tier 1": "lone", "tier 2": "lone"}, "nothing stands above it, so it may go no further"
    assert "f" not in levels


def test_a_name_means_the_domain_of_its_own_tree_however_deep_that_is() -> None:
    deep = (
        of_nodes("pod-0", "x", tier=1, tier_name="superpod"),
        of_domains("leaf-9", "pod-0", tier=2, tier_name="leaf"),
    )
    levels = levels_of((*TREE, *deep), {**NODES, "x": {}})
    assert (levels["a"]["tier leaf"], levels["x"]["tier leaf"]) == ("leaf-0", "leaf-9")


def test_domains_in_a_circle_or_without_their_members_end() -> None:
    circle = (of_domains("p", "q", "gone", tier=2), of_domains("q", "p", tier=3), of_nodes("r", "a", "missing"))
    assert levels_of((*circle, of_domains("s", "r", "s", tier=2)), NODES)["a"]["tier 3"] in ("s", "q")
    assert set(levels_of(circle, NODES)) == {"a"}


@pytest.mark.parametrize("pattern", ["(a+)+$", "(", "a" * 201, "[", "a{99999999999}"])
def test_a_pattern_that_is_none_or_takes_for_ever_finds_nothing(pattern: str) -> None:
    domain = Domain("s", 1, "", (Inside(domains=False, pattern=pattern),))
    begun = time.monotonic()
    assert levels_of([domain], {"a" * 60 + "b": {}}) == {}
    assert time.monotonic() - begun < 1


def reason_of(tier: str, *domains: Domain) -> Reason:
    """Of a gang of two that must stay within the tier; a and c have GPUs, b and d have none."""
    roster, book = Roster(), RoomBook()
    for one in domains:
        roster.speak("hypernodes", Spoken(one.name, domains=(one,)))
    nodes = {
        name: seen(name, gpu_capacity=n, allocatable=((GPU, n),)) for name, n in zip("abcd", (8, 0, 8, 0), strict=True)
    }
    rooms = book.rooms(nodes, roster, {})
    return diagnose(a_gang("llm", 2, topology=Topology(tier, required=True)), *a_scene(*rooms.rows))


def test_a_gang_that_fits_only_across_its_tier_waits_for_the_topology() -> None:
    assert (reason_of("tier 1", *TREE).code, reason_of("tier 1", *TREE).level) == ("TOPOLOGY", "tier 1")
    assert reason_of("tier 2", *TREE).fits is True
    assert reason_of("tier spine", *TREE).fits is True


def test_rooms_follow_the_tree() -> None:
    roster, book = Roster(), RoomBook()
    nodes = {"a": seen("a"), "b": seen("b", labels={"tor": "1"})}
    assert "tier 1" not in book.rooms(nodes, roster, {}).rows[0].labels
    roster.speak("hypernodes", Spoken("leaf-0", domains=(of_nodes("leaf-0", "a"),)))
    assert [row.labels.get("tier 1") for row in book.rooms(nodes, roster, {}).rows] == ["leaf-0", None]
    nodes = {**nodes, "c": seen("c")}
    roster.speak("hypernodes", Spoken("leaf-0", domains=(of_nodes("leaf-0", "a", "c"),)))
    assert [row.labels.get("tier 1") for row in book.rooms(nodes, roster, {}).rows] == ["leaf-0", None, "leaf-0"]
    assert book.rooms(nodes, roster, {}).rows[1].labels == {"tor": "1"}, "its own labels stay"
    roster.silence("hypernodes", "leaf-0")
    assert "tier 1" not in book.rooms(nodes, roster, {}).rows[0].labels
