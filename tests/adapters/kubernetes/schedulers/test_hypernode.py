"""HyperNode of Volcano."""

from __future__ import annotations

from typing import Any

from fleet.gangs.diagnosis.tiers import levels_of
from fleet.ports.gangs import Domain, Inside, Match
from tests.adapters.kubernetes.schedulers.raw import Json, resource, tell


def hyper_node(name: str, tier: int, *members: Json, **spec: Any) -> Json:
    body = {"tier": tier, "members": list(members), **spec}
    return resource("topology.volcano.sh/v1alpha1", "HyperNode", name, body, namespace="")


def exact(name: str, kind: str = "Node") -> Json:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def like(pattern: str, kind: str = "Node") -> Json:
    return {"type": kind, "selector": {"regexMatch": {"pattern": pattern}}}


def labelled(*expressions: Json, **labels: str) -> Json:
    return {
        "type": "Node",
        "selector": {"labelMatch": {"matchLabels": labels, "matchExpressions": list(expressions)}},
    }


def test_members_are_found_by_name_pattern_or_labels() -> None:
    outside = {"key": "pool", "operator": "NotIn", "values": ["spare"]}
    spoken = tell(hyper_node("s0", 1, exact("a"), like("^b-"), labelled(outside, tor="t1"), tierName="leaf"))
    by_labels = (Match("tor", "In", ("t1",)), Match("pool", "NotIn", ("spare",)))
    assert spoken.domains == (
        Domain(
            "s0",
            1,
            "leaf",
            (
                Inside(domains=False, name="a"),
                Inside(domains=False, pattern="^b-"),
                Inside(domains=False, labels=by_labels),
            ),
        ),
    )
    nodes = {"a": {}, "b-1": {}, "ab-1": {}, "c": {"tor": "t1"}, "d": {"tor": "t1", "pool": "spare"}}
    assert sorted(levels_of(spoken.domains, nodes)) == ["a", "b-1", "c"]


def test_a_domain_without_a_tier_has_no_place_in_the_tree() -> None:
    raw = hyper_node("s0", 1, exact("a"))
    del raw["spec"]["tier"]
    assert tell(raw).domains == ()
