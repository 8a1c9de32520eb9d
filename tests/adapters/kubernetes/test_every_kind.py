"""Every kind that speaks of gangs is listed and watched, at a scripted server in each of its versions, and at the
simulator's API server or a real one whatever that serves.

On a real server (MUSTER_TEST_KUBECONFIG) with the definitions of all kinds nothing is skipped. Each object is made
suspended or stopped where its kind knows that, and deleted afterwards.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from fleet.adapters import kubernetes
from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.schedulers.objects import Reader
from fleet.adapters.kubernetes.schedulers.watching import READERS, GangWatches
from fleet.ports.cluster import Change, WatchState
from fleet.ports.gangs import Kind, Spoken
from fleet.simulator.kube.kinds import KINDS
from tests.adapters.kubernetes.schedulers.plain import SPECS, plain
from tests.adapters.kubernetes.scripted import Script, answer, kubeconfig, page, serving, stream
from tests.adapters.kubernetes.world import World, credentials
from tests.patience import PATIENCE, until

EACH = [(reader, version) for reader in READERS for version in reader.versions]


def named(value: Any) -> str:
    return f"{value.kind}.{value.group}" if isinstance(value, Reader) else str(value)


class Following:
    """The stream of one kind, read in a thread."""

    def __init__(self, watches: GangWatches, kind: Kind) -> None:
        self.changes: list[Change] = []
        self.states: list[WatchState] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(watches, kind), daemon=True)

    def _read(self, watches: GangWatches, kind: Kind) -> None:
        for change in watches.watch(kind, self._ended.is_set, self.states.append):
            self.changes.append(change)

    def __enter__(self) -> Following:
        self._thread.start()
        until(lambda: any(state.connected for state in self.states))
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def spoken(self, kind: str, key: str) -> list[Spoken]:
        found = [one.item for one in list(self.changes) if one.kind == kind]
        return [item for item in found if isinstance(item, Spoken) and item.key == key]


def test_there_is_a_resource_of_every_kind() -> None:
    assert set(SPECS) == {(reader.group, reader.kind) for reader in READERS}


# -- a scripted server, in each version --------------------------------------------------------------------------------


def announce(script: Script, served: dict[tuple[str, str], list[str]]) -> None:
    """Discovery of (group, version) -> plurals."""
    groups: dict[str, list[dict[str, str]]] = {}
    for (group, version), plurals in served.items():
        groups.setdefault(group, []).append({"groupVersion": f"{group}/{version}", "version": version})
        script.on(f"GET /apis/{group}/{version}", answer(200, {"resources": [{"name": one} for one in plurals]}))
    script.on("GET /apis", answer(200, {"groups": [{"name": name, "versions": each} for name, each in groups.items()]}))


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[tuple[Script, GangWatches]]:
    script = Script()
    with serving(script) as url:
        yield script, kubernetes.gang_watcher(kubeconfig(tmp_path, url))


@pytest.mark.parametrize(("reader", "version"), EACH, ids=named)
def test_each_kind_is_read_in_each_of_its_versions(
    scripted: tuple[Script, GangWatches], reader: Reader, version: str
) -> None:
    script, watches = scripted
    announce(script, {(reader.group, version): ["others", reader.plural]})
    (kind,) = watches.kinds()
    assert (kind.system, kind.kind, kind.version) == (reader.system, reader.kind, version)
    first, later = (plain(reader.group, version, reader.kind, name, "train") for name in ("first", "later"))
    first["metadata"]["resourceVersion"], later["metadata"]["resourceVersion"] = "7", "8"
    path = f"/apis/{reader.group}/{version}/{reader.plural}"
    script.on(f"GET {path}", page([first], "7"))
    events = ({"type": word, "object": later} for word in ("ADDED", "DELETED"))
    script.on(f"WATCH {path}", stream(*events, then="hang"))
    with Following(watches, kind) as following:
        until(lambda: following.spoken("deleted", "train/later"))
        script.released.set()
    assert following.spoken("added", "train/first") and following.spoken("added", "train/later")
    (told,) = following.spoken("added", "train/first")
    assert told.objects or told.queues or told.domains or reader.kind == "BindRequest"  # one that goes well is silent
    assert not watches.counts["garbage"] and not watches.counts["skipped"]


def test_of_several_versions_the_best_that_has_the_kind_is_read(scripted: tuple[Script, GangWatches]) -> None:
    script, watches = scripted
    served: dict[tuple[str, str], list[str]] = {}
    for reader, version in EACH:
        served.setdefault((reader.group, version), []).append(reader.plural)
    announce(script, served)
    found = {(kind.group, kind.kind): kind.version for kind in watches.kinds()}
    assert found == {(reader.group, reader.kind): reader.versions[0] for reader in READERS}
    announce(script, {**served, ("kueue.x-k8s.io", "v1beta2"): ["workloads"]})
    found = {(kind.group, kind.kind): kind.version for kind in watches.kinds()}
    assert found["kueue.x-k8s.io", "Workload"] == "v1beta2" and found["kueue.x-k8s.io", "ClusterQueue"] == "v1beta1"


# -- the simulator, or a real server -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with credentials(tmp_path_factory.mktemp("cluster")) as pair:
        found = World(*pair)
        yield found
        found.end()


class Maker:
    """Makes plain objects of one kind, and takes away what is left of them."""

    def __init__(self, world: World, kind: Kind) -> None:
        self._api = CustomObjectsApi(config.new_client_from_config(world.acting, persist_config=False))
        self._kind, self._left = kind, list[str]()
        server = ApiServer(world.reading, None, frozenset())
        resources = server.get(f"/apis/{kind.group}/{kind.version}", "apis")["resources"]
        (mine,) = (one for one in resources if one["name"] == kind.plural)
        self._within = world.mark if mine["namespaced"] else ""

    def make(self, name: str) -> str:
        """The key under which it is told."""
        kind = self._kind
        body: Any = plain(kind.group, kind.version, kind.kind, name, self._within)
        at = kind.group, kind.version
        if self._within:
            self._api.create_namespaced_custom_object(*at, self._within, kind.plural, body)
        else:
            self._api.create_cluster_custom_object(*at, kind.plural, body)
        self._left.append(name)
        return f"{self._within}/{name}"

    def delete(self, name: str) -> None:
        at = self._kind.group, self._kind.version
        if self._within:
            self._api.delete_namespaced_custom_object(*at, self._within, self._kind.plural, name)
        else:
            self._api.delete_cluster_custom_object(*at, self._kind.plural, name)
        self._left.remove(name)

    def end(self) -> None:
        for name in list(self._left):
            with contextlib.suppress(ApiException):
                self.delete(name)


def expected() -> list[Reader]:
    """Every kind of a real server; of the simulator those that it serves."""
    if os.environ.get("MUSTER_TEST_KUBECONFIG"):
        return list(READERS)
    served = {(kind.group, kind.kind) for kind in KINDS}
    return [reader for reader in READERS if (reader.group, reader.kind) in served]


@pytest.mark.parametrize("reader", expected(), ids=named)
def test_each_kind_that_is_served_is_listed_and_watched(world: World, reader: Reader) -> None:
    watches = kubernetes.gang_watcher(world.reading)
    kind = next((one for one in watches.kinds() if (one.group, one.kind) == (reader.group, reader.kind)), None)
    if kind is None and os.environ.get("MUSTER_TEST_KUBECONFIG"):
        pytest.skip(f"this server has no {reader.kind} of {reader.group}")
    assert kind is not None
    maker = Maker(world, kind)
    try:
        before = maker.make(f"{world.mark}-before")
        with Following(watches, kind) as following:
            until(lambda: following.spoken("added", before))
            later = maker.make(f"{world.mark}-later")
            until(lambda: following.spoken("added", later))
            maker.delete(f"{world.mark}-later")
            until(lambda: following.spoken("deleted", later))
        assert not watches.counts["garbage"] and not watches.counts["skipped"]
    finally:
        maker.end()
