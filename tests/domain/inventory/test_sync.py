"""Nodes as rows: what changes is written, what is ours and what is foreign is told apart, what is missing is gone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.bus.models import Outbox
from fleet.inventory import aliases, facts, lease, noderows, services
from fleet.inventory.models import Alias, Cluster, Device, Node, Pool
from fleet.inventory.services import DeviceSeen, SyncResult
from fleet.ports.cluster import HOLD_ANNOTATION, NodeSeen
from tests.builders import T0, a_cluster
from tests.domain.inventory.seen import LABELS, a_node_seen

pytestmark = pytest.mark.django_db
HELD = {HOLD_ANNOTATION: "7/3f2c"}


@pytest.fixture
def cluster() -> Cluster:
    return a_cluster(selector="*")


def sync(cluster: Cluster, *seen: NodeSeen, names: frozenset[str] | None = None, after: float = 0) -> SyncResult:
    return services.sync_nodes(cluster, seen, names, T0 + timedelta(seconds=after), cluster.epoch)


def test_a_node_appears_with_place_pool_and_aliases(cluster: Cluster) -> None:
    result = sync(cluster, a_node_seen())
    node = Node.objects.get(name="gpu-r01-01")
    assert result.created == [node.pk] == result.managed
    assert (node.rack, node.leaf, node.pool.name if node.pool else "") == ("r01", "leaf-01", "h100-train")
    assert node.managed and node.gpu_expected == 8 and node.boot_since is None
    table = aliases.load(cluster.pk)
    for name in ("gpu-r01-01", "GPU-R01-01.DC.EXAMPLE", "10.0.0.1", "sys-gpu-r01-01", "uid-gpu-r01-01"):
        assert table.resolve(name).node_id == node.pk


def test_seeing_the_same_again_writes_nothing(cluster: Cluster) -> None:
    sync(cluster, a_node_seen())
    before = Outbox.objects.count()
    result = sync(cluster, a_node_seen(), after=1)
    assert not result.changed and Outbox.objects.count() == before
    assert Node.objects.get().seen_at == T0


def test_a_heartbeat_alone_is_written_seldom_and_tells_nobody(cluster: Cluster) -> None:
    sync(cluster, a_node_seen())
    before = Outbox.objects.count()
    sync(cluster, a_node_seen(heartbeat_at=T0 + timedelta(seconds=2), resource_version="101"), after=2)
    assert Node.objects.get().resource_version == "100"
    sync(cluster, a_node_seen(heartbeat_at=T0 + timedelta(seconds=12), resource_version="102"), after=12)
    assert Node.objects.get().resource_version == "102"
    assert Outbox.objects.count() == before


def test_a_thousand_nodes_cost_as_many_queries_as_one(cluster: Cluster) -> None:
    def names(rack: str, count: int) -> list[NodeSeen]:
        return [a_node_seen(f"{rack}-n{n // 100}-{n % 100:02d}") for n in range(count)]

    sync(cluster, *names("a", 2))
    with CaptureQueriesContext(connection) as few:
        sync(cluster, *names("b", 2))
    with CaptureQueriesContext(connection) as many:
        sync(cluster, *names("c", 900))
    assert len(many) <= len(few) + 2


@pytest.mark.parametrize(
    ("selector", "managed"),
    [
        ("", False),
        ("*", True),
        ("role=gpu", False),
        ("topology.muster.dev/rack in (r01, r02)", True),
        ("!bad,x!=y", True),
    ],
)
def test_the_managed_set_is_opted_in(cluster: Cluster, selector: str, managed: bool) -> None:
    cluster.selector = selector
    sync(cluster, a_node_seen())
    assert Node.objects.get().managed is managed


def test_control_plane_nodes_are_never_managed(cluster: Cluster) -> None:
    sync(cluster, a_node_seen(labels={**LABELS, "node-role.kubernetes.io/control-plane": ""}))
    assert not Node.objects.get().managed


def test_a_cordon_that_was_there_is_foreign_and_stays_so_under_our_hold(cluster: Cluster) -> None:
    sync(cluster, a_node_seen(unschedulable=True))
    assert Node.objects.get().foreign_hold
    sync(cluster, a_node_seen(unschedulable=True, annotations=HELD), after=1)
    node = Node.objects.get()
    assert node.foreign_hold and node.hold_value == "7/3f2c"


def test_our_own_cordon_is_not_foreign(cluster: Cluster) -> None:
    sync(cluster, a_node_seen())
    sync(cluster, a_node_seen(unschedulable=True, annotations=HELD), after=1)
    assert not Node.objects.get().foreign_hold


def test_a_persons_uncordon_is_told_once(cluster: Cluster) -> None:
    sync(cluster, a_node_seen())
    sync(cluster, a_node_seen(unschedulable=True, annotations=HELD), after=1)
    node = Node.objects.get()
    assert sync(cluster, a_node_seen(annotations=HELD), after=2).uncordoned == [node.pk]
    assert sync(cluster, a_node_seen(annotations=HELD, kernel="6.9"), after=3).uncordoned == []


def test_a_new_boot_id_is_a_boot_and_an_empty_one_is_not(cluster: Cluster) -> None:
    sync(cluster, a_node_seen())
    sync(cluster, a_node_seen(boot_id="", ready=None), after=5)
    assert Node.objects.get().boot_id == "boot-gpu-r01-01-1"
    result = sync(cluster, a_node_seen(boot_id="boot-2"), after=9)
    node = Node.objects.get()
    assert result.rebooted == [node.pk]
    assert (node.boot_id, node.boot_since) == ("boot-2", T0 + timedelta(seconds=9))


def test_what_a_full_list_lacks_is_gone_and_may_come_back(cluster: Cluster) -> None:
    sync(cluster, a_node_seen("n-01"), a_node_seen("n-02"))
    result = sync(cluster, a_node_seen("n-01"), names=frozenset({"n-01"}), after=1)
    lost = Node.objects.get(name="n-02")
    assert result.gone == [lost.pk] and lost.gone_at is not None
    assert aliases.load(cluster.pk).resolve("n-02").miss == "unknown_node"
    result = sync(cluster, a_node_seen("n-02"), after=2)
    assert result.back == [lost.pk] and Node.objects.get(name="n-02").gone_at is None


def test_a_name_of_two_nodes_matches_neither(cluster: Cluster) -> None:
    shared = (("InternalIP", "10.0.0.9"),)
    sync(cluster, a_node_seen("n-01", addresses=shared), a_node_seen("n-02", addresses=shared))
    assert aliases.load(cluster.pk).resolve("10.0.0.9").miss == "ambiguous_node"


def test_an_address_that_moves_leaves_its_old_node(cluster: Cluster) -> None:
    sync(cluster, a_node_seen("n-01", addresses=(("InternalIP", "10.0.0.9"),)))
    sync(cluster, a_node_seen("n-01", addresses=(("InternalIP", "10.0.0.10"),)), after=1)
    assert list(Alias.objects.filter(kind="ip").values_list("value", flat=True)) == ["10.0.0.10"]


def test_a_pool_appears_once(cluster: Cluster) -> None:
    sync(cluster, a_node_seen("n-01"), a_node_seen("n-02"))
    assert Pool.objects.count() == 1


def test_parts_are_upserted_and_tell_the_gpu_model(cluster: Cluster) -> None:
    node_id = sync(cluster, a_node_seen(labels={})).created[0]
    parts = [DeviceSeen(node_id, "gpu", f"GPU-{i}", i, f"S{i}", f"0000:0{i}:00", "NVIDIA H100") for i in range(8)]
    services.sync_devices(cluster.pk, parts, T0, cluster.epoch)
    moved = DeviceSeen(node_id, "gpu", "GPU-0", 5, "S0", "0000:09:00", "NVIDIA H100")
    services.sync_devices(cluster.pk, [moved], T0, cluster.epoch)
    assert Device.objects.count() == 8
    assert Device.objects.get(key="GPU-0").index == 5
    assert Node.objects.get().gpu_model == "NVIDIA H100"


def test_workloads_are_written_where_they_changed(cluster: Cluster) -> None:
    node_id = sync(cluster, a_node_seen()).created[0]
    assert services.set_workloads(cluster.pk, {node_id: (3, "train/llm")}, cluster.epoch) == 1
    assert services.set_workloads(cluster.pk, {node_id: (3, "train/llm")}, cluster.epoch) == 0
    assert (Node.objects.get().pods, Node.objects.get().gang) == (3, "train/llm")


def test_a_writer_of_a_past_epoch_is_refused(cluster: Cluster) -> None:
    with pytest.raises(lease.LeaseLost):
        services.sync_nodes(cluster, [a_node_seen()], None, T0, cluster.epoch - 1)
    assert not Node.objects.exists()


CHANGES: tuple[dict[str, object], ...] = (
    {"uid": "another"},
    {"unschedulable": True},
    {"unschedulable": True, "annotations": HELD},
    {"ready": None, "ready_reason": "NodeStatusUnknown", "ready_since": T0 + timedelta(seconds=5)},
    {"boot_id": "boot-2"},
    {"kernel": "6.9.0", "os_image": "Ubuntu 26.04", "kubelet": "v1.34.0"},
    {"gpu_capacity": 7, "gpu_allocatable": 6},
    {"gpu_capacity": None, "gpu_allocatable": None},
    {"labels": {**LABELS, "topology.muster.dev/pool": "spot", "a": "\"b'\\%s{}"}},
    {"labels": {}},
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: "+".join(change))
def test_what_changed_is_written_whichever_column_it_is(cluster: Cluster, change: dict[str, object]) -> None:
    """As a node that was first seen like that has it, beside one on which something else changed."""
    sync(cluster, a_node_seen("gpu-01"), a_node_seen("gpu-02"))
    sync(cluster, a_node_seen("gpu-01", **change), a_node_seen("gpu-02", ready=False), after=20)
    row, other = Node.objects.order_by("name")
    expected = facts.values_of(
        a_node_seen("gpu-01", **change), row, facts.Reading("*", cluster.label_keys, {}), row.seen_at
    )
    assert {name: getattr(row, name) for name in facts.HARD if name != "pool_id"} == {
        name: value for name, value in expected.items() if name in facts.HARD and name != "pool_id"
    }
    assert (other.ready, other.unschedulable, other.kernel) == (False, False, "6.8.0")
    assert row.seen_at == other.seen_at == T0 + timedelta(seconds=20)


def test_a_row_that_is_gone_meanwhile_is_not_made_again(cluster: Cluster) -> None:
    sync(cluster, a_node_seen("gpu-01"))
    node = Node.objects.get()
    Node.objects.all().delete()
    node.kernel = "7"
    noderows.update([node], {"kernel"}, 10)
    assert not Node.objects.exists()
