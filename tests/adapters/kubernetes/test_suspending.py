"""Jobs that a field of their own stops whole: found, read and written at the simulator's API server, or at a real one.

On a real server (MUSTER_TEST_KUBECONFIG) a kind that it does not serve is skipped. No controller is needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from fleet.adapters import kubernetes
from fleet.adapters.kubernetes.jobkinds import BY_KIND
from fleet.adapters.kubernetes.suspending import MADE_FOR, QUEUE, KubernetesSuspends
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import Conflict, NotFound, PermanentError
from fleet.ports.suspends import WISH, Job
from tests.adapters.kubernetes.world import IMAGE, World, credentials

Json = dict[str, Any]
POD: Json = {
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "infinity"]}],
}
WORK: Json = {"parallelism": 1, "completions": 1, "template": {"spec": POD}}
RAY = {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD}}, "workerGroupSpecs": []}
SPECS: dict[str, Json] = {
    "Job": WORK,
    "JobSet": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": WORK}}]},
    "TrainJob": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 1}},
    "PyTorchJob": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": POD}}}},
    "RayJob": {"entrypoint": "true", "shutdownAfterJobFinishes": True, "rayClusterSpec": RAY},
    "Workload": {"podSets": [{"name": "main", "count": 1, "template": {"spec": POD}}]},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with credentials(tmp_path_factory.mktemp("cluster")) as pair:
        found = World(*pair)
        yield found
        found.end()


@pytest.fixture
def port(world: World) -> KubernetesSuspends:
    return kubernetes.suspends(world.acting, kinds={world.mark: ["JobSet"]})


@pytest.fixture
def made(world: World) -> Iterator[list[tuple[str, str]]]:
    """(kind, name) of what a test made, taken away at its end."""
    found: list[tuple[str, str]] = []
    yield found
    for kind, name in reversed(found):
        with contextlib.suppress(ApiException):
            api(world).delete_namespaced_custom_object(*place(kind), world.mark, BY_KIND[kind].plural, name)


def api(world: World) -> CustomObjectsApi:
    return CustomObjectsApi(config.new_client_from_config(world.acting, persist_config=False))


def place(kind: str) -> tuple[str, str]:
    """Group and version. The contract is held for the newest version that the pinned schemas have."""
    versions = {"JobSet": "v1alpha2", "TrainJob": "v1alpha1", "Workload": "v1beta2"}
    return BY_KIND[kind].group, versions.get(kind, "v1")


def create(
    world: World, made: list[tuple[str, str]], kind: str, name: str, meta: Json | None = None, **spec: Any
) -> Json:
    group, version = place(kind)
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name, **(meta or {})}}
    body["spec"] = SPECS[kind] | spec
    try:
        found: Any = api(world).create_namespaced_custom_object(group, version, world.mark, BY_KIND[kind].plural, body)
    except ApiException as error:
        if error.status == 404:
            pytest.skip(f"this server has no {kind}")
        raise
    made.append((kind, name))
    return {**found}


def raw(world: World, kind: str, name: str) -> Json:
    group, version = place(kind)
    found: Any = api(world).get_namespaced_custom_object(group, version, world.mark, BY_KIND[kind].plural, name)
    return {**found}


def made_by(kind: str, maker: Json) -> Json:
    group, version = place(kind)
    owner = {"apiVersion": f"{group}/{version}", "kind": kind, "controller": True}
    return {"ownerReferences": [owner | {key: maker["metadata"][key] for key in ("name", "uid")}]}


def pod_of(world: World, job: Json, name: str = "rank-0") -> PodSeen:
    node = world.node(f"for-{name}")
    labels = {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]}
    return world.pod(name, node, labels=labels, **made_by("Job", job))


def settled(port: KubernetesSuspends, kind: str, world: World, name: str) -> Job:
    return port.read(BY_KIND[kind].kind, world.mark, name)


def again(port: KubernetesSuspends, job: Job, suspend: bool | None, mark: str | None) -> None:
    """As the engine does: a status that came between is no reason to give up."""
    for _ in range(5):
        try:
            port.change(port.read(job.kind, job.namespace, job.name), suspend, mark)
        except Conflict:
            continue
        return
    raise AssertionError("it changes faster than it can be written")


@pytest.fixture(autouse=True)
def cleared(world: World) -> Iterator[None]:
    yield
    world.clear()


@pytest.mark.parametrize("kind", SPECS)
def test_field_and_mark_are_written_together_and_taken_back_together(
    world: World, port: KubernetesSuspends, made: list[tuple[str, str]], kind: str
) -> None:
    create(world, made, kind, "there-and-back")
    seen = settled(port, kind, world, "there-and-back")
    assert (seen.suspended, seen.mark, seen.ended, seen.refusal) == (False, "", False, "") and seen.uid
    again(port, seen, True, "17/op")
    stopped = port.read(seen.kind, world.mark, seen.name)
    assert (stopped.suspended, stopped.mark, stopped.generation) == (True, "17/op", seen.generation + 1)
    again(port, stopped, False, None)
    back = port.read(seen.kind, world.mark, seen.name)
    assert (back.suspended, back.mark, back.generation) == (False, "", seen.generation + 2)


@pytest.mark.parametrize("kind", SPECS)
def test_what_changed_since_it_was_read_is_not_written(
    world: World, port: KubernetesSuspends, made: list[tuple[str, str]], kind: str
) -> None:
    create(world, made, kind, "races")
    seen = settled(port, kind, world, "races")
    again(port, seen, None, "somebody's")
    with pytest.raises(Conflict):
        port.change(seen, True, "17/op")
    assert settled(port, kind, world, "races").mark == "somebody's"
    assert settled(port, kind, world, "races").generation == seen.generation, "a mark alone is no change of the spec"


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_another_object_of_the_same_name_is_not_written(
    world: World, port: KubernetesSuspends, made: list[tuple[str, str]], kind: str
) -> None:
    create(world, made, kind, "twice", suspend=True)
    seen = settled(port, kind, world, "twice")
    with pytest.raises((Conflict, PermanentError)):
        port.change(replace(seen, uid="00000000-0000-0000-0000-000000000000"), False, None)
    assert settled(port, kind, world, "twice").suspended


def test_a_job_that_is_gone_is_said_so(world: World, port: KubernetesSuspends) -> None:
    with pytest.raises(NotFound):
        port.read("Job", world.mark, "nobody")


def test_no_other_namespace_is_written(world: World, port: KubernetesSuspends, made: list[tuple[str, str]]) -> None:
    create(world, made, "Job", "elsewhere", suspend=True)
    seen = port.read("Job", world.mark, "elsewhere")
    with pytest.raises(PermanentError):
        kubernetes.suspends(world.acting, kinds={"other": ["Job"]}).change(seen, False, None)
    assert port.kinds("other") is None and port.kinds(world.mark) == frozenset({"JobSet"})


def test_the_uppermost_of_a_pods_makers_is_its_job(
    world: World, port: KubernetesSuspends, made: list[tuple[str, str]]
) -> None:
    above = create(world, made, "JobSet", "llm", {"annotations": {WISH: "true"}}, suspend=True)
    job = create(world, made, "Job", "llm-x-0", made_by("JobSet", above), suspend=True)
    found = port.job_of(pod_of(world, job))
    assert found is not None and (found.title, found.uid) == (f"JobSet {world.mark}/llm", above["metadata"]["uid"])
    assert (found.wish, found.suspended, found.refusal) == ("true", True, "")


def test_what_somebody_unknown_made_is_not_ours_to_suspend(
    world: World, port: KubernetesSuspends, made: list[tuple[str, str]]
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u-1", "controller": True}
    job = create(world, made, "Job", "nightly-1", {"ownerReferences": [owner]}, suspend=True)
    found = port.job_of(pod_of(world, job))
    assert found is not None and found.refusal == "is made by CronJob nightly, which may start and stop it itself"


def test_a_pod_of_an_older_job_of_that_name_has_none(
    world: World, port: KubernetesSuspends, made: list[tuple[str, str]]
) -> None:
    job = create(world, made, "Job", "renewed", suspend=True)
    old = {"metadata": job["metadata"] | {"uid": "11111111-0000-0000-0000-000000000000"}}
    assert port.job_of(pod_of(world, old)) is None


def test_under_kueue_its_workload_is_what_is_suspended(
    world: World, port: KubernetesSuspends, made: list[tuple[str, str]]
) -> None:
    notes = {"labels": {QUEUE: "team"}, "annotations": {WISH: "false"}}
    job = create(world, made, "Job", "queued", notes, suspend=True)
    pod = pod_of(world, job)
    alone = port.job_of(pod)
    assert alone is not None and alone.kind == "Job"
    assert alone.refusal == "is started and stopped by Kueue and has no Workload yet"
    create(world, made, "Workload", "job-queued", {"labels": {MADE_FOR: job["metadata"]["uid"]}})
    found = port.job_of(pod)
    assert found is not None and (found.title, found.wish) == (f"Workload {world.mark}/job-queued", "false")
    port.change(found, True, "17/op")
    assert raw(world, "Workload", "job-queued")["spec"]["active"] is False


def test_a_workload_without_a_label_of_a_queue_is_found_all_the_same(
    world: World, port: KubernetesSuspends, made: list[tuple[str, str]]
) -> None:
    """Kueue may be told to manage every job of a namespace."""
    job = create(world, made, "Job", "managed", suspend=True)
    create(world, made, "Workload", "job-managed", {"labels": {MADE_FOR: job["metadata"]["uid"]}})
    found = port.job_of(pod_of(world, job))
    assert found is not None and found.kind == "Workload"
