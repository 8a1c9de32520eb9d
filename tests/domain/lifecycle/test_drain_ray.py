"""Ray hears of a drain before its workers are evicted, where it may be told; what was not told is said."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import pytest
from django.utils import translation

from fleet import wiring_gangs
from fleet.gangs import asking
from fleet.gangs.questions import Answer, Answers, Loses
from fleet.inventory.models import Cluster
from fleet.lifecycle.context import Ports
from fleet.lifecycle.models import Intent
from fleet.ports.errors import MissingRight, PermanentError, TemporaryError, UnknownOutcome
from fleet.readmodels import phrases
from tests.domain.lifecycle.conftest import Build, fault
from tests.domain.lifecycle.test_drain import drain_of, put
from tests.domain.lifecycle.test_drain_jobs import evicted_at, planned_drain
from tests.domain.lifecycle.world import Crash, World, a_pod

NODE = "gpu-r01-01"
WORKER = {"ray.io/node-type": "worker", "ray.io/cluster": "llm"}


class Ray:
    """Takes what it is told, or answers as it is set to."""

    def __init__(self, world: World) -> None:
        self.world, self.told, self.fails = world, [], None  # type: ignore[var-annotated]
        self.refuses: dict[str, str] = {}
        self.at: list[float] = []

    def drain(self, namespace: str, cluster: str, ips: Sequence[str], why: str, seconds: int) -> dict[str, str]:
        self.told.append((namespace, cluster, tuple(ips), seconds))
        self.at.append(self.world.clock.monotonic())
        if self.fails is not None:
            raise self.fails
        return {ip: self.refuses.get(ip, "") for ip in ips}

    def check(self) -> list[str]:
        return []


@pytest.fixture
def ray(build: Build, monkeypatch: pytest.MonkeyPatch) -> Ray:
    world = build(NODE)
    found = Ray(world)
    ports = World.ports_of

    def ports_of(one: World, cluster: Cluster) -> Ports:
        return dataclasses.replace(ports(one, cluster), ray=found)

    monkeypatch.setattr(World, "ports_of", ports_of)
    a_worker(world, "w-0")
    return found


def a_worker(world: World, name: str, **fields: Any) -> None:
    number = len(world.pods) + 7
    put(world, a_pod(name, NODE, gang="train/llm", pod_ip=f"10.0.0.{number}", **{"labels": WORKER, **fields}))


def ray_says(world: World) -> str:
    from fleet.lifecycle.models import Workflow

    said = str(drain_of(Workflow.objects.latest("pk")).memo.get("ray", ""))
    with translation.override("ko"):
        korean = phrases.told(f"Ray moves its work away.{said}")
    assert not re.search(r"Ray (moves|was|did)|Whether|more Ray|cannot form", korean), korean
    return said


def test_ray_is_told_and_given_its_time_before_the_first_eviction(ray: Ray) -> None:
    gone = evicted_at(ray.world)
    planned_drain(ray.world, NODE)
    ray.world.run(120)
    assert ray.told == [("train", "llm", ("10.0.0.7",), 60)], "once"
    assert 60 <= gone["w-0"] - ray.at[0] <= 75
    assert "Ray was told that 1 of its nodes ends in 60 s (train/llm)" in ray_says(ray.world)
    (intent,) = Intent.objects.filter(verb="ray_drain")
    assert (intent.outcome, intent.before["pods"]) == ("done", {"10.0.0.7": "train/w-0"})


def test_a_fault_in_a_hurry_tells_ray_and_waits_for_nothing(ray: Ray) -> None:
    gone = evicted_at(ray.world)
    fault(ray.world, NODE)
    ray.world.run(15)
    assert ray.told == [("train", "llm", ("10.0.0.7",), 3)], "what is left is the pod's own grace period"
    assert gone["w-0"] - ray.at[0] <= 3


@pytest.mark.parametrize(
    ("error", "words", "outcome"),
    [
        (TemporaryError("The head is away."), "Ray was not told (train/llm): The head is away.", "failed"),
        (MissingRight("create", "pods/exec"), "may not create pods/exec", "failed"),
        (UnknownOutcome("It did not end within 20 s."), "Ray was perhaps not told", "unknown"),
    ],
)
def test_a_failure_is_told_and_stops_no_drain(ray: Ray, error: Exception, words: str, outcome: str) -> None:
    ray.fails = error  # type: ignore[assignment]
    gone = evicted_at(ray.world)
    planned_drain(ray.world, NODE)
    ray.world.run(20)
    assert "w-0" in gone and len(ray.told) == 1
    assert words in ray_says(ray.world)
    assert Intent.objects.get(verb="ray_drain").outcome == outcome


def test_a_worker_that_ray_does_not_take_is_named(ray: Ray) -> None:
    a_worker(ray.world, "w-1")
    ray.refuses = {"10.0.0.8": "Ray knows 0 living workers at 10.0.0.8"}
    planned_drain(ray.world, NODE)
    ray.world.run(10)
    assert "1 of its nodes ends" in ray_says(ray.world)
    assert "Ray did not take train/w-1: Ray knows 0 living workers" in ray_says(ray.world)


def test_work_that_is_none_of_rays_is_nothing_to_tell(ray: Ray) -> None:
    ray.world.pods.clear()
    put(ray.world, a_pod("plain", NODE))
    gone = evicted_at(ray.world)
    planned_drain(ray.world, NODE)
    ray.world.run(10)
    assert ray.told == [] and "plain" in gone and ray_says(ray.world) == ""


def test_where_it_may_not_be_told_the_drain_says_so(build: Build) -> None:
    world = build(NODE)
    a_worker(world, "w-0")
    gone = evicted_at(world)
    planned_drain(world, NODE)
    world.run(10)
    assert "w-0" in gone and "Ray was not told (train/llm)" in ray_says(world)
    assert not Intent.objects.filter(verb="ray_drain").exists()


@pytest.mark.parametrize("crashes", [1, 2])
def test_a_crash_in_the_middle_tells_ray_at_most_once_more(ray: Ray, crashes: int) -> None:
    gone = evicted_at(ray.world)
    take = ray.drain

    def dies(*args: Any) -> dict[str, str]:
        found = take(*args)
        if len(ray.told) <= crashes:
            raise Crash
        return found

    ray.drain = dies  # type: ignore[method-assign]
    planned_drain(ray.world, NODE)
    for _ in range(crashes):
        with pytest.raises(Crash):
            ray.world.run(120)
        ray.world.queue.clear()
    ray.world.run(240)
    assert len(ray.told) == 2 and "w-0" in gone
    assert not Intent.objects.filter(verb="ray_drain", resolved_at=None).exists()


def test_a_gang_that_finds_no_room_elsewhere_is_named(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = {"a": False, "b": True}
    loses = [Loses(f"ray/{name}", f"RayJob {name}", 1, 3, 4, True, again) for name, again in fits.items()]
    monkeypatch.setattr(asking, "ask", lambda *_: Answers("", (Answer(broken=tuple(loses)),)))
    planned_drain(ray.world, NODE)
    ray.world.run(10)
    assert "RayJob a cannot form again elsewhere" in ray_says(ray.world) and "RayJob b" not in ray_says(ray.world)


def test_where_the_observer_does_not_answer_the_room_elsewhere_is_not_known(
    ray: Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ask", lambda *_: None)
    planned_drain(ray.world, NODE)
    ray.world.run(10)
    assert "is not known: the observer did not answer" in ray_says(ray.world)


def test_only_the_places_that_are_named_with_an_acting_credential_may_be_told(settings: Any, cluster: Cluster) -> None:
    def told(*places: str) -> bool:
        settings.RAY_DRAIN_IN = settings.RAY_KEEP_IN = frozenset(places)
        found = wiring_gangs.ray_jobs(cluster), wiring_gangs.ray_drains(cluster)
        return found != (None, None)

    cluster.act_kubeconfig, cluster.in_cluster = "", False
    assert not told(f"{cluster.name}/train"), "no credential to act with"
    cluster.act_kubeconfig = "/nowhere/kubeconfig"
    assert not any(told(*places) for places in ([], ["other/train"], [cluster.name], [f"{cluster.name}/"]))
    with pytest.raises(PermanentError, match="kubeconfig"):
        told(f"{cluster.name}/train")
