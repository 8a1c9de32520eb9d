"""What the adapter relies on, true of the simulator and of a real API server alike.

Set MUSTER_TEST_KUBECONFIG to run against a real one (1.30 to 1.36), and MUSTER_TEST_ACT_KUBECONFIG where acting has a
credential of its own. The credential must be able to create nodes, namespaces and pods; all of them are fake and are
deleted afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fleet.adapters import kubernetes
from fleet.adapters.kubernetes import reading, watch
from fleet.adapters.kubernetes.watch import Tuning
from fleet.ports.cluster import (
    GPU_SERVICE_PAUSED,
    HOLD_ANNOTATION,
    OUT_OF_SERVICE,
    Change,
    HoldRequest,
    JobRequest,
    NodeSeen,
    PodSeen,
    WatchState,
)
from fleet.ports.errors import Conflict, EvictionBlocked, MissingRight, NotFound
from tests.adapters.kubernetes.world import IMAGE, World, credentials
from tests.patience import PATIENCE, until


@pytest.fixture(scope="module")
def kubeconfigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with credentials(tmp_path_factory.mktemp("cluster")) as pair:
        yield pair


@pytest.fixture(scope="module")
def shared_world(kubeconfigs: tuple[str, str]) -> Iterator[World]:
    world = World(*kubeconfigs)
    yield world
    world.end()


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    yield shared_world
    shared_world.clear()


class Following:
    """A stream read in a thread, as the observer does."""

    def __init__(self, open_stream: Callable[..., Iterator[Change]]) -> None:
        self.changes: list[Change] = []
        self.states: list[WatchState] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(open_stream,), daemon=True)

    def _read(self, open_stream: Callable[..., Iterator[Change]]) -> None:
        for change in open_stream(self._ended.is_set, self.states.append):
            self.changes.append(change)

    def __enter__(self) -> Following:
        self._thread.start()
        until(lambda: any(state.connected for state in self.states))
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    @property
    def sync(self) -> Change:
        return next(change for change in self.changes if change.kind == "synced")

    def items(self, kind: str, name: str) -> list[NodeSeen | PodSeen]:
        return [c.item for c in list(self.changes) if c.kind == kind and c.item is not None and c.item.name == name]


def test_the_server_tells_its_version_and_no_right_lacks(world: World) -> None:
    assert world.reader.server_version().startswith("v1.")
    assert world.reader.check() == []
    assert world.actor.check() == []


def test_a_node_is_seen_with_its_devices_and_names(world: World) -> None:
    name = world.node("a")
    assert [node.name for node in world.reader.nodes()] == [name]
    seen = world.reader.node(name)
    assert (seen.gpu_capacity, seen.gpu_allocatable) == (8, 7)
    assert seen.provider_id == f"fake://{name}" and ("InternalIP", "192.0.2.7") in seen.addresses
    assert seen.uid and seen.resource_version and seen.created_at and not seen.unschedulable
    with pytest.raises(NotFound):
        world.reader.node(f"{name}-none")


def test_a_hold_is_one_write_and_its_release_undoes_it(world: World) -> None:
    name = world.node("a")
    before = world.reader.node(name)
    with Following(world.reader.watch_nodes) as stream:
        held = world.actor.hold(HoldRequest(name, "inc-1/op-1", before.resource_version))
        assert held.unschedulable and held.annotations[HOLD_ANNOTATION] == "inc-1/op-1"
        first = until(lambda: [n for n in stream.items("modified", name) if HOLD_ANNOTATION in n.annotations])[0]
        assert isinstance(first, NodeSeen) and first.unschedulable
    released = world.actor.release(name, "inc-1/op-1", world.reader.node(name).resource_version, uncordon=True)
    assert not released.unschedulable and HOLD_ANNOTATION not in released.annotations


def test_a_hold_on_a_node_that_changed_meanwhile_is_a_conflict(world: World) -> None:
    name = world.node("a")
    stale = world.reader.node(name).resource_version
    world.core.patch_node(name, {"metadata": {"annotations": {"somebody": "else"}}})
    with pytest.raises(Conflict):
        world.actor.hold(HoldRequest(name, "inc-1/op-1", stale))
    after = world.reader.node(name)
    assert not after.unschedulable and HOLD_ANNOTATION not in after.annotations


def test_only_our_own_hold_is_released_and_a_cordon_can_stay(world: World) -> None:
    name = world.node("a")
    world.actor.hold(HoldRequest(name, "inc-1/op-1", world.reader.node(name).resource_version))
    with pytest.raises(Conflict):
        world.actor.release(name, "inc-2/op-9", "", uncordon=True)
    kept = world.actor.release(name, "inc-1/op-1", "", uncordon=False)
    assert kept.unschedulable and HOLD_ANNOTATION not in kept.annotations
    with pytest.raises(NotFound):
        world.actor.hold(HoldRequest(f"{name}-none", "inc-1/op-1", ""))


def test_a_fence_is_one_taint_among_others_and_comes_off_alone(world: World) -> None:
    name = world.node("a")
    other = {"key": "example.com/theirs", "effect": "NoSchedule", "value": "x"}
    world.core.patch_node(name, {"spec": {"taints": [other]}})
    for _ in range(2):
        fenced = world.actor.fence(name, on=True)
        assert OUT_OF_SERVICE in fenced.taints
        assert ("example.com/theirs", "x", "NoSchedule") in fenced.taints
    for _ in range(2):
        back = world.actor.fence(name, on=False)
        keys = {key for key, _, _ in back.taints}
        assert OUT_OF_SERVICE[0] not in keys and "example.com/theirs" in keys


def test_only_gpu_services_that_run_are_paused_and_only_those_come_back(world: World) -> None:
    name = world.node("a")
    plugin, dcgm, other = (f"nvidia.com/gpu.deploy.{what}" for what in ("device-plugin", "dcgm", "driver"))
    world.core.patch_node(name, {"metadata": {"labels": {plugin: "true", dcgm: "false", other: "true"}}})
    for _ in range(2):
        paused = world.actor.pause_gpu_services(name, on=True).labels
        assert (paused[plugin], paused[dcgm], paused[other]) == (GPU_SERVICE_PAUSED, "false", "true")
    for _ in range(2):
        back = world.actor.pause_gpu_services(name, on=False).labels
        assert (back[plugin], back[dcgm], back[other]) == ("true", "false", "true")


def test_a_stream_lists_in_pages_and_then_tells_each_change(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PAGE", 2)
    monkeypatch.setattr(reading, "PAGE", 2)
    names = [world.node(suffix) for suffix in "abcde"]
    assert sorted(node.name for node in world.reader.nodes()) == names
    with Following(world.reader.watch_nodes) as stream:
        assert stream.sync.names == frozenset(names)
        assert all(len(stream.items("added", name)) == 1 for name in names)
        fresh = world.node("f")
        until(lambda: stream.items("added", fresh))
        world.core.patch_node(fresh, {"metadata": {"labels": {"rack": "r1"}}})
        until(lambda: any(node.labels.get("rack") == "r1" for node in stream.items("modified", fresh)))
        world.core.delete_node(fresh)
        until(lambda: stream.items("deleted", fresh))
    assert not world.reader.counts["skipped"] and not world.reader.counts["garbage"]


def test_a_node_that_leaves_the_selector_is_deleted_from_the_stream(world: World) -> None:
    name = world.node("a")
    with Following(world.reader.watch_nodes) as stream:
        world.core.patch_node(name, {"metadata": {"labels": {"muster.dev/contract": "no-more"}}})
        until(lambda: stream.items("deleted", name))


def test_a_watch_that_ends_goes_on_where_it_was(world: World, kubeconfigs: tuple[str, str]) -> None:
    brief = kubernetes.reader(kubeconfigs[0], node_selector=f"muster.dev/contract={world.mark}")
    brief._tuning = Tuning(watch_seconds=1.0)
    with Following(brief.watch_nodes) as stream:
        time.sleep(1.2)
        late = world.node("late")
        until(lambda: stream.items("added", late))
        assert sum(change.kind == "synced" for change in stream.changes) == 1
    assert not brief.counts["lost"]


def test_all_pods_of_a_node_are_seen_and_only_those(world: World) -> None:
    here, there = world.node("a"), world.node("b")
    world.pod("rank-0", here, gpus=4, labels={"scheduling.x-k8s.io/pod-group": "llm"})
    world.pod("other", there)
    (rank,) = [pod for pod in world.everything.pods_on(here) if pod.namespace == world.mark]
    assert (rank.name, rank.gpus, rank.gang, rank.kind) == ("rank-0", 4, f"{world.mark}/llm", "bare")
    assert (rank.phase, rank.ready, rank.deleting_since) == ("Running", True, None)


def test_pods_come_and_go_in_their_stream(world: World) -> None:
    node = world.node("a")
    world.pod("before", node)
    unbound = {"containers": [{"name": "main", "image": IMAGE}], "schedulerName": "nobody"}
    world.core.create_namespaced_pod(world.mark, {"metadata": {"name": "unbound"}, "spec": unbound})
    with Following(world.everything.watch_pods) as stream:
        assert {f"{world.mark}/before", f"{world.mark}/unbound"} <= stream.sync.names
        world.pod("after", node)
        until(lambda: any(isinstance(pod, PodSeen) and pod.ready for pod in stream.items("modified", "after")))
        world.core.delete_namespaced_pod("after", world.mark, grace_period_seconds=0)
        until(lambda: stream.items("deleted", "after"))


def test_an_eviction_begins_a_graceful_end(world: World) -> None:
    node = world.node("a")
    pod = world.pod("rank-0", node)
    world.actor.evict(pod)
    left = [found for found in world.everything.pods_on(node) if found.uid == pod.uid]
    assert not left or left[0].deleting_since is not None


def test_an_eviction_means_one_pod_and_no_other_of_its_name(world: World) -> None:
    pod = world.pod("rank-0", world.node("a"))
    world.core.delete_namespaced_pod("rank-0", world.mark, grace_period_seconds=0)
    until(lambda: not [found for found in world.everything.pods_on(pod.node) if found.uid == pod.uid])
    with pytest.raises(NotFound):
        world.actor.evict(pod)
    again = world.pod("rank-0", pod.node)
    with pytest.raises(NotFound):
        world.actor.evict(pod)
    assert world.seen("rank-0", pod.node).uid == again.uid
    assert world.seen("rank-0", pod.node).deleting_since is None


def test_a_budget_that_refuses_an_eviction_is_named(world: World) -> None:
    node = world.node("a")
    pod = world.pod("rank-0", node, labels={"job": "llm"})
    world.budget("keep-llm", {"job": "llm"})
    for _ in range(2):
        with pytest.raises(EvictionBlocked) as caught:
            world.actor.evict(pod)
        assert caught.value.budget == f"{world.mark}/keep-llm"
    assert world.seen("rank-0", node).deleting_since is None
    world.policy.delete_namespaced_pod_disruption_budget("keep-llm", world.mark)
    world.actor.evict(pod)


def test_a_validation_job_is_created_once_and_taken_away(world: World) -> None:
    node = world.node("a")
    request = JobRequest("validate-a", world.mark, node, IMAGE, ("true",), 300, {"muster.dev/incident": "7"}, 8)
    assert world.actor.job(world.mark, request.name).phase == "missing"
    world.actor.create_job(request)
    world.actor.create_job(request)
    assert world.actor.job(world.mark, request.name).phase in ("pending", "running")
    world.actor.delete_job(world.mark, request.name)
    world.actor.delete_job(world.mark, request.name)
    until(lambda: world.actor.job(world.mark, request.name).phase == "missing")


def test_the_log_of_a_job_that_was_never_made_is_none(world: World) -> None:
    assert world.actor.job_log(world.mark, "never-made") is None


def test_pods_without_a_node_are_those_that_wait(world: World) -> None:
    waiting = world.reader.unscheduled_pods()
    assert all(not pod.node and pod.phase == "Pending" for pod in waiting)


def test_one_installation_at_a_time_holds_the_lease(world: World) -> None:
    assert world.actor.claim_lease("us", 60)
    assert world.actor.claim_lease("us", 60)
    assert not world.actor.claim_lease("them", 60)
    assert world.actor.claim_lease("us", 1)


def test_events_about_an_object_are_found(world: World) -> None:
    name = world.node("a")
    about = {"kind": "Node", "name": name, "apiVersion": "v1"}
    body = {
        "metadata": {"generateName": "contract-", "namespace": "default"},
        "involvedObject": about,
        "reason": "Contract",
        "message": "said for a test",
        "type": "Normal",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    made = world.core.create_namespaced_event("default", body)
    found = [event for event in world.reader.events_of("Node", name) if event.reason == "Contract"]
    world.core.delete_namespaced_event(made.metadata.name, "default")
    assert [(event.name, event.message) for event in found] == [(name, "said for a test")]
    assert found[0].at is not None


def test_the_reading_credential_cannot_write(world: World) -> None:
    if world.reading == world.acting:
        pytest.skip("reading and acting share one credential here")
    name = world.node("a")
    trespasser = kubernetes.actor(world.reading)
    with pytest.raises(MissingRight) as caught:
        trespasser.hold(HoldRequest(name, "inc-1/op-1", ""))
    assert (caught.value.verb, caught.value.resource) == ("patch", "nodes")
    assert any("patch nodes" in sentence for sentence in trespasser.check())
