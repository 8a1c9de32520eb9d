"""What the watches told becomes rows: the first list in parts, and pods in whatever order."""

from __future__ import annotations

import pytest

from fleet.inventory import selectors
from fleet.inventory.models import Cluster, Node
from fleet.observer.session import Session
from fleet.observer.world import World
from fleet.observer.writer import Writer
from fleet.ports.cluster import Change
from tests.domain.inventory.seen import a_node_seen, a_pod_seen

pytestmark = pytest.mark.django_db
NEW = ("gpu-r02-01", "gpu-r02-02", "gpu-r02-03")


def tell(world: World, name: str) -> None:
    world.node_change(Change("added", a_node_seen(name)))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def writer(session: Session, world: World) -> Writer:
    return Writer(session, world, lambda: None, lambda nodes: None)


def test_a_first_list_in_parts_reads_the_names_once_it_is_whole(
    session: Session, world: World, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.load_names()
    read: list[int] = []
    asked = selectors.node_ids

    def counted(cluster_id: int) -> dict[str, int]:
        read.append(cluster_id)
        return asked(cluster_id)

    monkeypatch.setattr(selectors, "node_ids", counted)
    for name in NEW:
        tell(world, name)
        writer.turn()
    assert read == []
    world.node_change(Change("synced", names=frozenset(NEW)))
    writer.turn()
    assert len(read) == 1
    assert set(session.node_ids) == set(NEW)


def test_a_node_that_joins_later_is_known_at_once(session: Session, world: World, writer: Writer) -> None:
    world.node_change(Change("synced", names=frozenset()))
    writer.turn()
    tell(world, NEW[0])
    writer.turn()
    assert NEW[0] in session.node_ids


def test_a_pod_told_before_its_node_is_counted_when_the_node_comes(
    cluster: Cluster, world: World, writer: Writer
) -> None:
    world.pod_change(Change("added", a_pod_seen("a", node=NEW[0])))
    world.pod_change(Change("synced", names=frozenset({"train/a"})))
    writer.turn()
    tell(world, NEW[0])
    world.node_change(Change("synced", names=frozenset({NEW[0]})))
    writer.turn()
    assert Node.objects.get(cluster=cluster, name=NEW[0]).pods == 1
