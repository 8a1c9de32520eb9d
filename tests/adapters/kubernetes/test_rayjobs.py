"""A RayJob's time to live: mark and time in one patch on the version that was read, at the simulator's API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import CustomObjectsApi

from fleet.adapters import kubernetes
from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.rayjobs import KubernetesRayJobs
from fleet.ports.errors import Conflict, MissingRight, NotFound
from tests.adapters.kubernetes.scripted import Script, answer, status
from tests.adapters.kubernetes.world import World, credentials

JOB = "/apis/ray.io/v1/namespaces/train/rayjobs/llm"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with credentials(tmp_path_factory.mktemp("cluster")) as pair:
        found = World(*pair)
        yield found
        found.end()


@pytest.fixture
def jobs(world: World) -> KubernetesRayJobs:
    return kubernetes.ray_jobs(world.acting, namespaces=[world.mark])


def made(world: World, name: str) -> CustomObjectsApi:
    """A suspended job, which nobody's operator begins."""
    api = CustomObjectsApi(config.new_client_from_config(world.acting, persist_config=False))
    pod = {"spec": {"containers": [{"name": "ray", "image": "none"}]}}
    cluster = {"headGroupSpec": {"rayStartParams": {}, "template": pod}}
    spec = {
        "suspend": True, "entrypoint": "true", "shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 600,
        "rayClusterSpec": cluster,
    }  # fmt: skip
    body = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name}, "spec": spec}
    api.create_namespaced_custom_object("ray.io", "v1", world.mark, "rayjobs", body)
    return api


def spec_of(world: World, api: CustomObjectsApi, name: str) -> dict[str, Any]:
    found = api.get_namespaced_custom_object("ray.io", "v1", world.mark, "rayjobs", name)
    return {"ttl": found["spec"]["ttlSecondsAfterFinished"], "notes": found["metadata"].get("annotations") or {}}


def test_mark_and_time_are_written_together_and_taken_back_together(world: World, jobs: KubernetesRayJobs) -> None:
    api = made(world, "there-and-back")
    seen = jobs.read(world.mark, "there-and-back")
    assert (seen.ttl, seen.shuts_down, seen.failed, seen.mark) == (600, True, False, "") and seen.uid
    jobs.change(world.mark, "there-and-back", seen.version, 4200, "17/op/600")
    kept = jobs.read(world.mark, "there-and-back")
    assert (kept.ttl, kept.mark) == (4200, "17/op/600")
    jobs.change(world.mark, "there-and-back", kept.version, 600, None)
    assert spec_of(world, api, "there-and-back") == {"ttl": 600, "notes": {}}


def test_a_job_that_changed_since_it_was_read_is_not_written(world: World, jobs: KubernetesRayJobs) -> None:
    api = made(world, "races")
    seen = jobs.read(world.mark, "races")
    jobs.change(world.mark, "races", seen.version, None, "a person's")
    with pytest.raises(Conflict):
        jobs.change(world.mark, "races", seen.version, 4200, "17/op/600")
    assert spec_of(world, api, "races")["ttl"] == 600


def test_a_job_that_is_not_there_is_said_so(world: World, jobs: KubernetesRayJobs) -> None:
    with pytest.raises(NotFound):
        jobs.read(world.mark, "nobody")
    assert jobs.allows(world.mark) and not jobs.allows("other")


@pytest.mark.parametrize(
    ("told", "failed"),
    [
        ({"jobDeploymentStatus": "Failed", "endTime": "2026-11-29T03:00:00Z"}, True),
        ({"jobStatus": "FAILED"}, True),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, False),
        ({}, False),
    ],
)
def test_which_status_is_a_failure(api: ApiServer, script: Script, told: dict[str, str], failed: bool) -> None:
    script.on(f"GET {JOB}", answer(200, {"metadata": {"uid": "u"}, "spec": {}, "status": told}))
    seen = KubernetesRayJobs(api, ["train"]).read("train", "llm")
    assert (seen.failed, seen.ttl, seen.ended_at is None) == (failed, 0, "endTime" not in told)


def test_a_patch_that_is_refused_names_the_right(api: ApiServer, script: Script) -> None:
    script.on(f"PATCH {JOB}", status(403, "no", "Forbidden"))
    with pytest.raises(MissingRight):
        KubernetesRayJobs(api, ["train"]).change("train", "llm", "4", 60, "m")
    review = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    script.on(review, *(answer(201, {"status": {"allowed": allowed}}) for allowed in (True, False)))
    (sentence,) = KubernetesRayJobs(api, ["train"]).check()
    assert "patch rayjobs.ray.io in namespace train" in sentence
