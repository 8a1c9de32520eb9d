"""Burn-in: tests of idle nodes, never in anybody's way, and a failure that becomes a suspicion."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.health.models import Incident
from fleet.inventory.models import Mode, Node
from fleet.lifecycle import services
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.validation import burnin, idle
from fleet.lifecycle.validation.models import ValidationRun
from fleet.lifecycle.validation.suite import BurnIn
from fleet.policy import services as policy
from fleet.ports.cluster import JobRequest, JobSeen
from tests.builders import an_incident
from tests.diagnostics import dcgm4
from tests.domain.lifecycle.conftest import Build
from tests.domain.lifecycle.crashing import Death
from tests.domain.lifecycle.world import Crash, World, a_pod

POLICY = "version: 1\nburn_in: {pools: ['h100-*'], every: 7d, at_once: 2, priority_class: idle-tests}\n"


@pytest.fixture
def world(build: Build, tmp_path: Path, settings: object) -> World:
    file = tmp_path / "suites.yaml"
    file.write_text(POLICY, encoding="utf-8")
    settings.SUITES_FILE = str(file)  # type: ignore[attr-defined]
    world = build(fleet=5)
    world.job_result = "running"
    Node.objects.update(first_seen_at=world.clock.now() - timedelta(days=30))
    return world


def begin(world: World) -> list[ValidationRun]:
    return burnin.start(world.cluster, world.ports_of(world.cluster), world.clock.now())


def look(world: World) -> int:
    return burnin.watch(world.cluster, world.ports_of(world.cluster), world.clock.now())


def over(world: World, phase: str, text: str = "") -> None:
    for name in world.jobs:
        world.jobs[name] = JobSeen(phase, text)  # type: ignore[arg-type]


def test_nothing_is_tested_without_a_policy(build: Build) -> None:
    world = build(fleet=3)
    Node.objects.update(first_seen_at=world.clock.now() - timedelta(days=30))
    assert begin(world) == [] and world.writes == []


def test_never_more_at_once_than_the_policy_allows(world: World) -> None:
    assert len(begin(world)) == 2
    assert begin(world) == []
    over(world, "succeeded")
    assert look(world) == 2
    assert {run.result for run in ValidationRun.objects.all()} == {"passed"}
    assert len(begin(world)) == 2


def test_each_node_is_tested_once_in_every_round(world: World) -> None:
    for _ in range(6):
        begin(world)
        over(world, "succeeded")
        look(world)
        world.clock.tick(60)
    assert ValidationRun.objects.count() == 5 and ValidationRun.objects.values("node").distinct().count() == 5
    world.clock.tick(7 * 86400)
    world.cluster.observer_until = world.clock.now() + timedelta(days=1)
    world.cluster.save()
    assert begin(world)


@pytest.mark.parametrize(
    "fields",
    [{"pods": 1}, {"unschedulable": True}, {"ready": False}, {"managed": False}, {"gpu_expected": None}],
)
def test_a_node_with_work_or_trouble_is_left_alone(world: World, fields: dict[str, object]) -> None:
    Node.objects.update(**fields)
    assert begin(world) == []


def test_the_cluster_itself_is_asked_whether_a_node_is_free(world: World) -> None:
    for name in world.nodes:
        world.pods[f"train/{name}"] = a_pod(name, name)  # bound a moment ago: the inventory does not know yet
    assert begin(world) == []


def test_nothing_begins_while_a_pod_waits_for_gpus(world: World) -> None:
    world.pods["train/w"] = a_pod("w", "", phase="Pending")
    assert begin(world) == []


def test_nothing_begins_below_automate_under_a_stop_or_with_an_open_incident(world: World) -> None:
    for node in Node.objects.all():
        an_incident(node)
    assert begin(world) == []
    Incident.objects.all().delete()
    world.cluster.mode = Mode.RECOMMEND
    assert begin(world) == []
    world.cluster.mode = Mode.AUTOMATE
    policy.stop_all(stopped=True, by="ann", reason="power works", now=world.clock.now())
    assert begin(world) == []


@pytest.mark.parametrize("wants", [{"gpus": 8}, {"gpus": 0, "claims": True}], ids=["by number", "by resource claim"])
def test_it_is_gone_the_moment_a_pod_waits_for_gpus(world: World, wants: dict[str, Any]) -> None:
    begin(world)
    world.pods["train/w"] = a_pod("w", "", phase="Pending", **wants)
    assert look(world) == 2 and world.jobs == {}
    assert {run.result for run in ValidationRun.objects.all()} == {"stopped"}
    assert "train/w waits for GPUs" in ValidationRun.objects.all()[0].text
    del world.pods["train/w"]
    again = {run.node_id for run in begin(world)}
    tried = {run.node_id for run in ValidationRun.objects.filter(result="stopped")}
    assert not again & tried, "what was interrupted rests for an hour"


def test_it_is_gone_when_work_was_bound_or_somebody_holds_the_node(world: World) -> None:
    first, second = begin(world)
    world.pods["train/w"] = a_pod("w", first.node.name)
    world.change(second.node.name, unschedulable=True)
    assert look(world) == 2 and world.jobs == {}


def test_its_own_pod_is_no_work(world: World) -> None:
    for run in begin(world):
        pod = a_pod(f"t-{run.pk}", run.node.name, labels={"muster.dev/purpose": "burn-in"}, gang="")
        world.pods[pod.key] = pod
    assert look(world) == 0


def test_a_failure_opens_one_incident_that_a_test_must_confirm(world: World) -> None:
    begin(world)
    world.logs["burn-in"] = dcgm4(failing={3: "silent errors in the matrix product"})
    over(world, "failed", "exit code 1")
    look(world)
    found = list(Incident.objects.order_by("pk"))
    assert len(found) == 2 and {incident.action_class for incident in found} == {"confirm"}
    assert found[0].device == "GPU 3" and "silent errors" in found[0].title
    assert services.plan(world.cluster.pk, [found[0].pk], clock=world.clock)
    assert Workflow.objects.get().state == "waiting", "a suspicion takes no node out by itself"


@pytest.mark.parametrize("log", [None, "", "garbage"])
def test_no_result_accuses_nobody(world: World, log: str | None) -> None:
    begin(world)
    world.logs["burn-in"] = log
    over(world, "failed", "BackoffLimitExceeded")
    look(world)
    assert not Incident.objects.exists() and {run.result for run in ValidationRun.objects.all()} == {"no_result"}


def test_no_job_is_asked_for_before_the_run_that_names_it_is_written_down(world: World) -> None:
    """The run is the intent of its Job: whatever dies in between, the Job's name is known."""
    known: list[bool] = []
    create = world.create_job

    def look_first(request: JobRequest) -> None:
        known.append(ValidationRun.objects.filter(job=f"{request.namespace}/{request.name}", ended_at=None).exists())
        create(request)

    world.create_job = look_first  # type: ignore[method-assign]
    assert len(begin(world)) == 2 and known == [True, True]


@pytest.mark.parametrize("place", ["before job", "after job"])
def test_a_crash_around_the_making_of_a_job_tests_no_node_twice_at_once(world: World, place: str) -> None:
    world.crash = Death(place)
    with suppress(Crash):
        begin(world)
    world.crash = lambda where: None
    world.clock.tick(1)
    begin(world)
    look(world)
    under_way = ValidationRun.objects.filter(ended_at=None)
    assert under_way.count() == under_way.values("node").distinct().count() == 2
    assert set(world.jobs) <= {run.job.partition("/")[2] for run in under_way}
    world.clock.tick(31)
    look(world)
    left = set(ValidationRun.objects.filter(ended_at=None).values_list("job", flat=True))
    assert {f"default/{name}" for name in world.jobs} == left, "a run without its Job ends, and no Job is without a run"


def test_a_run_whose_job_was_never_made_ends(world: World) -> None:
    begin(world)
    world.jobs.clear()
    world.clock.tick(31)
    assert look(world) == 2


def test_in_mode_observe_nothing_is_written(world: World) -> None:
    begin(world)
    world.cluster.mode = Mode.OBSERVE
    world.pods["train/w"] = a_pod("w", "", phase="Pending")
    before = dict(world.jobs)
    assert look(world) == 0 and world.jobs == before
    world.clock.tick(3 * 3600)
    assert look(world) == 2 and world.jobs == before


NIGHT = BurnIn(("*",), start=time(22), end=time(6), zone="Asia/Seoul")


def test_hours_are_those_of_the_policys_zone_and_may_span_midnight() -> None:
    assert idle.open_now(NIGHT, datetime(2026, 11, 29, 14, tzinfo=UTC))  # 23:00 in Seoul
    assert idle.open_now(NIGHT, datetime(2026, 11, 29, 20, 59, tzinfo=UTC))
    assert not idle.open_now(NIGHT, datetime(2026, 11, 29, 21, tzinfo=UTC))


@given(st.integers(1, 200), st.integers(1, 10), st.integers(0, 12))
def test_a_round_is_spread_and_bounded(nodes: int, at_once: int, running: int) -> None:
    began = datetime(2026, 11, 1, tzinfo=UTC)
    rule = BurnIn(("*",), timedelta(days=7), at_once)
    fleet = [idle.Candidate(pk, f"n{pk}", "dcgm", began, None, None) for pk in range(nodes)]
    places = [idle.due_at(one, rule) for one in fleet]
    assert all(began <= place < began + rule.every for place in places), "each is tested within the first round"
    chosen = idle.choose(fleet, rule, running, began + rule.every)
    assert len(chosen) == min(nodes, max(0, at_once - running))
    assert len({one.node_id for one in chosen}) == len(chosen)
