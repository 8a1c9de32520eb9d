"""A host is lost when every view says so; one view alone never is enough."""

from __future__ import annotations

import pytest

from fleet.health.rules.types import Edge
from tests.unit.health_rules.world import World

NODES = ("n1", "n2", "n3", "n4")


@pytest.fixture
def world() -> World:
    found = World(nodes=NODES)
    found.scrape()
    return found


def dies(world: World, *silent: str, ready: bool | None = None, rounds: int = 8) -> list[Edge]:
    """Lease of n1 expired (Ready Unknown) while the named nodes' exporters do not answer."""
    world.change("n1", ready=ready, ready_since=world.now, ready_reason="NodeStatusUnknown")
    edges: list[Edge] = []
    for _ in range(rounds):
        edges += world.scrape_but(*silent)
    return edges


def test_a_host_that_nobody_hears_while_its_peers_are_heard_is_lost(world: World) -> None:
    edges = dies(world, "n1")
    assert [edge.action_class for edge in edges if edge.cause == "node-not-ready"][-1] == "fence_node"
    verdict = world.verdict("n1")
    assert verdict.verdict == "lost" and "peers are heard" in verdict.reason
    world.change("n1", ready=True)
    world.scrape_but()
    assert world.verdict("n1").verdict == "healthy"


def test_a_dead_kubelet_on_a_host_that_is_heard_is_not_lost(world: World) -> None:
    edges = dies(world)
    assert {edge.action_class for edge in edges if edge.cause == "node-not-ready"} == {"reboot_node"}
    assert world.verdict("n1").verdict == "unhealthy"


def test_a_kubelet_that_says_not_ready_is_not_lost(world: World) -> None:
    edges = dies(world, "n1", ready=False)
    assert "fence_node" not in {edge.action_class for edge in edges}


def test_silence_of_the_peers_too_means_the_network_or_us(world: World) -> None:
    edges = dies(world, *NODES)
    assert "fence_node" not in {edge.action_class for edge in edges}


def test_a_pool_of_one_has_no_peers_to_prove_it() -> None:
    world = World(nodes=("n1", "n2"))
    world.scrape()
    world.change("n1", pool="alone")
    assert "fence_node" not in {edge.action_class for edge in dies(world, "n1")}
