"""What the watches tell, in memory: loads, exporters, and changes that are not written yet."""

from __future__ import annotations

from fleet.observer.world import World, exporter_of
from fleet.ports.cluster import Change
from tests.domain.inventory.seen import a_node_seen, a_pod_seen

SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": "9400", "prometheus.io/path": "/x/metrics"}


def world_with(*pods: str) -> World:
    world = World()
    world.node_change(Change("added", a_node_seen()))
    for name in pods:
        world.pod_change(Change("added", a_pod_seen(name)))
    world.pod_change(Change("synced", names=frozenset(f"train/{name}" for name in pods)))
    return world


def test_only_unfinished_work_counts_and_the_larger_gang_names_the_node() -> None:
    world = world_with("a", "b")
    world.pod_change(Change("added", a_pod_seen("c", gang="train/small")))
    world.pod_change(Change("added", a_pod_seen("d", phase="Succeeded")))
    world.pod_change(Change("added", a_pod_seen("e", kind="daemonset", gang="")))
    assert world.take().loads == {"gpu-r01-01": (3, "train/llm")}


def test_loads_are_not_told_before_the_first_full_list() -> None:
    world = World()
    world.node_change(Change("added", a_node_seen()))
    world.pod_change(Change("added", a_pod_seen("a")))
    assert world.take().loads == {}
    world.pod_change(Change("synced", names=frozenset({"train/a"})))
    assert world.take().loads == {"gpu-r01-01": (1, "train/llm")}


def test_a_load_waits_for_the_node_whose_pods_were_told_first() -> None:
    world = World()
    world.pod_change(Change("added", a_pod_seen("a")))
    world.pod_change(Change("synced", names=frozenset({"train/a"})))
    assert not world.take()
    world.node_change(Change("added", a_node_seen()))
    pending = world.take()
    assert [seen.name for seen in pending.nodes] == ["gpu-r01-01"]
    assert pending.loads == {"gpu-r01-01": (1, "train/llm")}
    assert not world.take()


def test_a_list_settles_what_is_gone() -> None:
    world = world_with("a", "b")
    world.take()
    world.pod_change(Change("synced", names=frozenset({"train/a"}), relist=True))
    assert world.take().loads == {"gpu-r01-01": (1, "train/llm")}


def test_a_pod_that_finishes_or_is_deleted_leaves_its_node() -> None:
    world = world_with("a", "b")
    world.take()
    world.pod_change(Change("modified", a_pod_seen("a", phase="Failed")))
    world.pod_change(Change("deleted", a_pod_seen("b")))
    assert world.take().loads == {"gpu-r01-01": (0, "")}


def test_what_could_not_be_written_comes_again() -> None:
    world = world_with("a")
    world.node_change(Change("synced", names=frozenset({"gpu-r01-01"})))
    pending = world.take()
    assert not world.take()
    world.give_back(pending)
    again = world.take()
    assert (again.nodes, again.names, again.loads) == (pending.nodes, pending.names, pending.loads)


def test_a_node_told_twice_without_a_change_is_not_pending() -> None:
    world = world_with()
    world.take()
    world.node_change(Change("modified", a_node_seen()))
    assert not world.take()


def test_a_deleted_node_is_told() -> None:
    world = world_with()
    world.take()
    world.node_change(Change("deleted", a_node_seen()))
    assert world.take().deleted == ["gpu-r01-01"]


def test_exporters_are_found_by_annotations() -> None:
    pod = a_pod_seen(
        "dcgm-exporter-x", owner="DaemonSet/dcgm-exporter", kind="daemonset", pod_ip="10.2.0.7", annotations=SCRAPED
    )
    found = exporter_of(pod)
    assert found is not None
    assert (found.job, found.url) == ("dcgm", "http://10.2.0.7:9400/x/metrics")
    assert exporter_of(a_pod_seen("p", pod_ip="10.2.0.7")) is None
    assert exporter_of(a_pod_seen("p", annotations=SCRAPED)) is None
    world = World()
    world.pod_change(Change("added", pod))
    assert list(world.exporters()) == [("gpu-r01-01", "dcgm")]
    version = world.exporters_version
    world.pod_change(Change("modified", pod))
    assert world.exporters_version == version


def test_the_role_of_a_node_is_that_of_its_gang() -> None:
    world = world_with()
    for name, gang, role in (("a", "llm", "worker"), ("b", "llm", "worker"), ("c", "llm", "launcher"),
                             ("d", "other", "head")):  # fmt: skip
        world.pod_change(Change("added", a_pod_seen(name, gang=f"train/{gang}", role=role)))
    world.pod_change(Change("added", a_pod_seen("e", kind="daemonset", gang="train/llm", role="sidecar")))
    assert world.roles() == {"gpu-r01-01": "worker"}
    for name in "abc":
        world.pod_change(Change("deleted", a_pod_seen(name, gang="train/llm")))
    assert world.roles() == {"gpu-r01-01": "head"}
