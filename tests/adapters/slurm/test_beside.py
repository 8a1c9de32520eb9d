"""A Slurm beside Kubernetes: a host that it may give work to is not ours, whatever Kubernetes says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, cast

import pytest

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection
from fleet.inventory.owners import of_requests
from fleet.lifecycle.owners import in_the_way, said
from fleet.ports.cluster import ClusterReader, NodeSeen, PodSeen, RequestSeen
from fleet.ports.errors import PortError
from tests.adapters.slurm.fake_rest import FakeRest, Uncounted, running
from tests.builders import T0
from tests.labs.metrics_servers import free_port


class Kubernetes:
    """As much of a reader as is asked here."""

    def __init__(self, *pods: PodSeen) -> None:
        self._pods = list(pods)

    addresses: tuple[tuple[str, str], ...] = ()

    def requests_on(self, node: str) -> list[RequestSeen]:
        return []

    def node(self, name: str) -> NodeSeen:
        return NodeSeen(
            name, "u", "1", False, True, "KubeletReady", None, None, "", "", "", "", "", "", "", self.addresses, {}, {},
            (), {}, None, None, None,
        )  # fmt: skip

    def pods_on(self, node: str) -> list[PodSeen]:
        return self._pods


@pytest.fixture
def slurm() -> Iterator[FakeRest]:
    with ExitStack() as stack:
        yield stack.enter_context(running(FakeRest(42)))


@pytest.fixture
def beside(slurm: FakeRest) -> Callable[..., ClusterReader]:
    def build(*pods: PodSeen, url: str = "", **names: str) -> ClusterReader:
        inner = cast("ClusterReader", Kubernetes(*pods))
        return adapter.beside(inner, Connection(url or slurm.url, "muster", lambda: "a.b.c"), lambda: names)

    return build


def waits_for(reader: ClusterReader, node: str) -> str:
    owner = in_the_way(of_requests(reader.requests_on(node), T0))
    return said(owner) if owner else ""


def test_a_host_that_slurm_gives_work_to_is_waited_for(beside: Callable[..., ClusterReader]) -> None:
    assert waits_for(beside(), "gpu-01") == "Slurm works on it by node gpu-01 (IDLE)"


@pytest.mark.parametrize(
    ("states", "free"),
    [
        (["IDLE", "DRAIN"], True),
        (["MIXED", "DRAIN"], False),
        (["IDLE", "COMPLETING", "DRAIN"], False),
        (["DOWN"], True),
        (["IDLE", "EXTERNAL"], True),  # without a slurmd: its jobs are pods
        (["MIXED", "EXTERNAL"], True),
    ],
)
def test_it_is_free_when_slurm_is_drained_there_and_nothing_is_left(
    beside: Callable[..., ClusterReader], slurm: FakeRest, states: list[str], free: bool
) -> None:
    slurm.node("gpu-01")["state"] = states
    assert bool(waits_for(beside(), "gpu-01")) is not free


def test_it_is_free_as_soon_as_slurm_has_counted_anew() -> None:
    with running(Uncounted(42)) as slurm:
        slurm.node("gpu-01")["state"] = ["IDLE", "DRAIN"]
        inner = cast("ClusterReader", Kubernetes())
        assert not waits_for(adapter.beside(inner, Connection(slurm.url, "muster", lambda: "a.b.c"), dict), "gpu-01")


@pytest.mark.parametrize("version", [38, 39, 40, 43, 45])
def test_a_node_that_slurm_does_not_know_is_no_matter_of_its(version: int) -> None:
    with running(FakeRest(version)) as slurm:
        inner = cast("ClusterReader", Kubernetes())
        reader = adapter.beside(inner, Connection(slurm.url, "muster", lambda: "a.b.c"), dict)
        assert reader.requests_on("cpu-9") == []


def test_it_is_found_by_the_name_that_slurm_gives_it(beside: Callable[..., ClusterReader]) -> None:
    reader = beside(**{"gpu-01": "ip-10-0-0-1"})
    assert "gpu-01" in waits_for(reader, "ip-10-0-0-1")


@pytest.mark.parametrize(
    ("ours", "address", "theirs", "told"),
    [
        ("gpu-01.hall.example", "", "gpu-01", {}),
        ("gpu-01", "", "GPU-01", {}),
        ("gpu-01", "", "gpu-01.hall.example", {}),
        ("ip-10-0-0-7", "10.0.0.7", "gpu-01", {"address": "10.0.0.7"}),
        ("ip-10-0-0-7", "Node7.hall.example", "gpu-01", {"hostname": "node7"}),
        ("node7.hall.example", "", "gpu-01", {"hostname": "node7"}),
    ],
)
def test_a_host_that_slurm_spells_otherwise_is_still_slurm_s(
    slurm: FakeRest, ours: str, address: str, theirs: str, told: dict[str, Any]
) -> None:
    """No inventory tells of it. To take it for nobody's would reboot it under its jobs."""
    slurm.node("gpu-01").update({"name": theirs, "hostname": "", "address": "", **told})
    inner = Kubernetes()
    inner.addresses = (("InternalIP", address),) if address else ()
    reader = adapter.beside(cast("ClusterReader", inner), Connection(slurm.url, "m", lambda: "a.b.c"), dict)
    assert theirs in waits_for(reader, ours)


@pytest.mark.parametrize("name", ["gpu-011", "gpu", "10", "cpu-01", "gpu-0"])
def test_a_name_that_only_looks_like_it_is_another_host(beside: Callable[..., ClusterReader], name: str) -> None:
    assert beside().requests_on(name) == []


def test_a_node_that_the_inventory_gives_to_one_host_is_no_other_s(beside: Callable[..., ClusterReader]) -> None:
    assert beside(**{"gpu-01": "ip-10-0-0-1"}).requests_on("gpu-01.hall.example") == []


def test_a_name_of_the_inventory_that_slurm_knows_no_more_hides_nothing(beside: Callable[..., ClusterReader]) -> None:
    assert "gpu-01" in waits_for(beside(**{"gpu-old": "gpu-01.hall.example"}), "gpu-01.hall.example")


def test_of_two_hosts_that_may_be_meant_each_counts(beside: Callable[..., ClusterReader]) -> None:
    reader = beside()
    assert waits_for(reader, "gpu-01.a.example") and waits_for(reader, "gpu-01.b.example")


def test_a_slurmd_that_is_a_pod_speaks_for_itself(beside: Callable[..., ClusterReader], a_slurmd: Any) -> None:
    assert beside(a_slurmd).requests_on("gpu-01") == []


def test_a_slurm_that_does_not_answer_is_not_one_without_jobs(beside: Callable[..., ClusterReader]) -> None:
    with pytest.raises(PortError):
        beside(url=f"http://127.0.0.1:{free_port()}").requests_on("gpu-01")


@pytest.fixture
def a_slurmd() -> PodSeen:
    return PodSeen(
        "train", "train-0", "uid", "gpu-01", "Running", True, "workload", "NodeSet/train", "", 8, 30, None, (), False,
        {}, {}, slurm=("Idle",),
    )  # fmt: skip
