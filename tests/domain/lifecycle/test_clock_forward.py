"""The wall clock is set forward by an hour or a day: nothing is given up, done twice or returned for that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.inventory.models import Bmc, Cluster
from fleet.lifecycle import alone, seen_time
from fleet.lifecycle.models import Intent, Step, Workflow
from fleet.lifecycle.outcomes import Blocked, Wait
from fleet.policy.models import Claim
from tests.builders import T0
from tests.domain.lifecycle import world as worlds
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World, a_pod
from tests.patience import until

NODE, OTHER = "gpu-r01-01", "gpu-r01-02"
HOUR, DAY = 3600, 86400
JUMPS = pytest.mark.parametrize("jump", [HOUR, DAY])


@pytest.fixture
def built(build: Build, monkeypatch: pytest.MonkeyPatch) -> World:
    """With the times of a real installation, so that an hour is long and half a minute is short."""
    timing = replace(worlds.TIMING, soak=600, reboot_timeout=1800, reboot_observe=180, drain_margin=120)
    monkeypatch.setattr(worlds, "TIMING", replace(timing, validate_deadline=900, bmc_patience=1800))
    return build(NODE, OTHER)


def set_forward(world: World, seconds: int) -> None:
    """No machine boots faster for it; the observer goes on."""
    world.clock.step(seconds)
    Cluster.objects.update(observer_until=world.clock.now() + timedelta(hours=1))
    world.boots_at = {name: at + timedelta(seconds=seconds) for name, at in world.boots_at.items()}


def at_step(world: World, workflow: Workflow, verb: str) -> Callable[[], bool]:
    return lambda: again(workflow).verb == verb


@JUMPS
@pytest.mark.parametrize("after", [1, 4, 10])
def test_a_node_that_boots_has_its_time_and_is_reset_once(built: World, jump: int, after: int) -> None:
    workflow = fault(built, NODE)
    assert built.run(60, lambda: bool(built.resets))
    built.run(after)
    set_forward(built, jump)
    built.run(3)
    assert again(workflow).state in ("running", "blocked") and again(workflow).attempt == 1
    assert Claim.objects.filter(workflow_id=workflow.pk, kind="in_flight", released_at=None).exists()
    assert built.run(1500, lambda: again(workflow).state == "succeeded"), again(workflow).blocked_text
    assert built.resets == [(NODE, "ForceRestart")]


@JUMPS
def test_a_reset_that_shows_no_effect_yet_is_not_sent_again(built: World, jump: int) -> None:
    built.bmc[NODE] = "lies"
    fault(built, NODE)
    assert built.run(60, lambda: bool(built.resets))
    built.run(5)
    set_forward(built, jump)
    built.run(60)
    assert len(built.resets) == 1
    assert built.run(300, lambda: len(built.resets) == 2), "its own patience counts still"


@JUMPS
def test_a_jump_in_the_middle_of_the_call_itself_counts_for_nothing(
    built: World, jump: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = built.reset

    def slow(*args: Any) -> Any:
        answer = send(*args)
        set_forward(built, jump)
        return answer

    monkeypatch.setattr(built, "reset", slow)
    built.bmc[NODE] = "lies"
    workflow = fault(built, NODE)
    assert built.run(60, lambda: bool(built.resets))
    monkeypatch.setattr(built, "reset", send)
    built.run(60)
    assert len(built.resets) == 1 and again(workflow).attempt == 1


@JUMPS
def test_pods_keep_their_grace_period(built: World, jump: int) -> None:
    pod = a_pod("w-0", NODE, grace_seconds=600, finalizers=("example.com/slow",))
    built.pods[pod.key] = pod
    workflow = fault(built, NODE)
    assert built.run(60, lambda: built.pods[pod.key].deleting_since is not None)
    built.run(5)
    set_forward(built, jump)
    built.run(300)
    assert again(workflow).verb == "drain" and built.resets == []
    assert built.run(600, at_step(built, workflow, "reboot")), "it ends by the pod's own time"


@JUMPS
def test_a_node_is_watched_for_the_whole_of_its_soak(built: World, jump: int) -> None:
    workflow = fault(built, NODE)
    assert built.run(600, at_step(built, workflow, "soak"))
    built.run(20)
    set_forward(built, jump)
    built.run(500)
    assert state_of(NODE) == "soaking"
    assert built.run(120, lambda: again(workflow).state == "succeeded")


@JUMPS
def test_a_drain_that_waits_asks_nobody_before_its_own_time(built: World, jump: int) -> None:
    pod = a_pod("p", NODE)
    built.pods[pod.key] = pod
    built.budgets["p"] = "train/pdb"
    workflow = fault(built, NODE)
    assert built.run(30, lambda: again(workflow).blocked_code == "pdb")
    built.run(60)
    set_forward(built, jump)
    built.run(60)
    assert again(workflow).blocked_code == "pdb"


@pytest.mark.parametrize("verb", ["reset_gpu"])
@JUMPS
def test_a_job_that_resets_a_gpu_has_its_time(built: World, jump: int, verb: str) -> None:
    built.reset_result = "running"
    workflow = fault(built, NODE, action_class=verb, cause="xid-48")
    assert built.run(60, lambda: any("muster-reset" in name for name in built.jobs))
    built.run(5)
    set_forward(built, jump)
    built.run(60)
    assert again(workflow).verb == verb and again(workflow).attempt == 1
    assert sum("muster-reset" in name for name in built.jobs) == 1


@contextmanager
def another_session() -> Any:
    """A worker elsewhere: a connection of its own."""
    other = connections.create_connection("default")
    try:
        yield other
    finally:
        other.close()


@pytest.mark.parametrize("what", ["bmc", "reset"])
def test_nobody_calls_what_another_worker_calls_though_its_deadline_has_passed(built: World, what: str) -> None:
    action = {"bmc": "reboot_node", "reset": "reset_gpu"}[what]
    workflow = fault(built, NODE, action_class=action, cause="xid-48")
    key = f"bmc {Bmc.objects.get(node__name=NODE).pk}" if what == "bmc" else f"reset {workflow.pk}"
    with another_session() as other:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [key])
        built.run(60)
        assert built.resets == [] and not any("muster-reset" in name for name in built.jobs)
        assert not Intent.objects.filter(workflow=workflow, verb__in=("reset", "reset_gpu")).exists()
        assert "nother" in Step.objects.filter(workflow=workflow).latest("pk").text
    assert built.run(900, lambda: again(workflow).state == "succeeded"), again(workflow).blocked_text


def _taken(what: str) -> bool:
    with alone.at(what) as mine:
        return mine


@pytest.mark.django_db
def test_a_worker_that_dies_in_a_call_leaves_nothing_taken() -> None:
    with another_session() as other:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(hashtextextended('bmc 7', 0))")
        with alone.at("bmc 7") as mine:
            assert not mine
    assert until(lambda: _taken("bmc 7")), "the server frees it when the session has ended"
    with alone.at("bmc 7") as mine, another_session() as other, other.cursor() as cursor:
        assert mine
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended('bmc 7', 0))")
        assert cursor.fetchone()[0] is False


@pytest.mark.django_db
def test_a_worker_whose_host_died_in_a_call_is_soon_given_up_by_the_server() -> None:
    """Nobody closes the connection then; a server that was told nothing asks after two hours whether it still lives."""
    with alone.at("bmc 7"), connection.cursor() as cursor:
        cursor.execute("SELECT inet_client_addr() IS NULL, current_setting('tcp_keepalives_idle')::int")
        by_socket, idle = cursor.fetchone()
    assert idle == (0 if by_socket else 15)


def test_a_database_whose_host_died_is_soon_given_up_by_the_client() -> None:
    options = connection.settings_dict["OPTIONS"]
    assert options["keepalives_idle"] + options["keepalives_interval"] * options["keepalives_count"] <= 60


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    waits=st.lists(st.tuples(st.floats(0, 60), st.floats(0, 25), st.sampled_from([0, 0, 0, HOUR, DAY])), max_size=30)
)
@pytest.mark.django_db
def test_what_is_seen_to_pass_is_what_passed_whatever_the_clock_was_set_to(
    waits: list[tuple[float, float, int]],
) -> None:
    """Each look may be late by a little; a jump adds no more than that."""
    step = Step(verb="reboot", memo={})
    wall = mono = 0.0
    for planned, late, forward in waits:
        at = T0 + timedelta(seconds=wall)
        seen_time.arrive(step, at)
        seen_time.leave(step, Wait(planned, "x"), (at, mono), (at, mono))
        wall, mono = wall + planned + late + forward, mono + planned + late
    seen_time.arrive(step, T0 + timedelta(seconds=wall))
    seen = wall - seen_time.lost(step, T0.timestamp() - 1)
    jumps = sum(1 for _, _, forward in waits if forward)
    assert mono - 25 * jumps - 1e-3 <= seen <= mono + seen_time.SLACK * jumps + 1e-3
    assert len(step.memo.get("unseen", [])) <= seen_time.MOST


@pytest.mark.django_db
def test_a_wait_for_a_guard_is_not_held_against_its_step() -> None:
    step = Step(verb="drain", memo={})
    seen_time.leave(step, Blocked("cap_take_out", "x", 300), (T0, 0.0), (T0, 0.0))
    seen_time.arrive(step, T0 + timedelta(hours=5))
    assert seen_time.lost(step, 0) == 0
