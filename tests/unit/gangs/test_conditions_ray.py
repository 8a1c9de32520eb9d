"""Conditions that Ray's objects and its dashboard show."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fleet.gangs.conditions.condition import Condition
from fleet.gangs.conditions.failures import failures
from fleet.gangs.conditions.head import head
from fleet.gangs.conditions.headroom import elastic_room, headroom
from fleet.gangs.conditions.mismatch import declared, infeasible, of_nodes, too_large
from fleet.gangs.conditions.oscillation import Swings, known_loop
from fleet.gangs.conditions.placement import GRACE, Waits, pending, stale
from fleet.gangs.conditions.retention import retention
from fleet.gangs.conditions.spot import spot
from fleet.ports.ray import NO_LIMIT, RayFacts, RayRetention
from tests.builders import T0
from tests.gang_builders import FULL, a_member, later
from tests.unit.gangs.ray_scenes import (
    RAY,
    a_group,
    a_placement,
    a_ray_gang,
    a_ray_job,
    a_ray_node,
    a_reading,
    a_run,
    ray_facts,
)


def codes(found: Any) -> list[str]:
    return [one.code for one in found]


# -- headroom -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "maximum", "hosts", "code"),
    [(4, 4, 1, "headroom_exact"), (5, 4, 1, "headroom_exact"), (4, 5, 1, "headroom_low"), (4, 6, 1, ""),
     (4, 5, 2, ""), (4, 4, 4, "headroom_exact"), (4, NO_LIMIT, 1, ""), (0, 0, 1, "")],
)  # fmt: skip
def test_fewer_than_two_pods_to_spare_are_too_few(replicas: int, maximum: int, hosts: int, code: str) -> None:
    facts = ray_facts(a_group(replicas=replicas, maximum=maximum, hosts=hosts))
    assert codes(headroom(RAY, facts)) == ([code] if code else [])


def test_the_headroom_that_is_named_is_enough() -> None:
    for hosts in (1, 2, 3):
        for maximum in (4, 5):
            for told in headroom(RAY, ray_facts(a_group(replicas=4, maximum=maximum, hosts=hosts))):
                enough = int(str(told.values["enough"]))
                assert list(headroom(RAY, ray_facts(a_group(replicas=4, maximum=enough, hosts=hosts)))) == []
                assert codes(headroom(RAY, ray_facts(a_group(replicas=4, maximum=enough - 1, hosts=hosts))))


def test_a_group_that_is_off_is_not_judged() -> None:
    assert list(headroom(RAY, ray_facts(a_group(maximum=4, suspended=True)))) == []


@pytest.mark.parametrize(("workers", "too_big", "beyond"), [((2, 6), False, False), ((2, 7), False, True),
                         ((7, 9), True, False), ((6, 6), False, False)])  # fmt: skip
def test_an_elastic_range_is_held_against_all_groups_at_their_largest(
    workers: tuple[int, int], too_big: bool, beyond: bool
) -> None:
    facts, runs = ray_facts(a_group(replicas=4, maximum=6)), [a_run(workers=workers)]
    assert codes(too_large(RAY, facts, runs)) == ["train_too_large"] * too_big
    assert codes(elastic_room(RAY, facts, runs)) == ["elastic_beyond_max"] * beyond
    assert codes(too_large(RAY, ray_facts(a_group(maximum=NO_LIMIT)), runs)) == []
    assert codes(too_large(RAY, facts, [a_run(workers=workers, status="ERRORED")])) == []


# -- GPU declarations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("told", "limit", "severity"), [(8.0, 4, "critical"), (4.0, 8, "warning"), (8.0, 8, ""),
                         (None, 8, ""), (0.5, 0, "critical")])  # fmt: skip
def test_what_ray_is_told_is_held_against_the_limit(told: float | None, limit: int, severity: str) -> None:
    found = list(declared(RAY, ray_facts(a_group(gpus_declared=told, gpus_limit=limit))))
    assert [one.severity for one in found] == ([severity] if severity else [])


def test_what_a_ray_node_has_is_held_against_its_pods_limit() -> None:
    reading = a_reading(
        nodes=(a_ray_node("w1", 7.0), a_ray_node("w2"), a_ray_node("w3", 0.0, alive=False), a_ray_node("else", 1.0))
    )
    members = [a_member(name, RAY, node=f"n-{name}") for name in ("w1", "w2", "w3")]
    (told,) = of_nodes(RAY, reading, members)
    assert (told.about, told.values) == ("w1", {"ray": 7.0, "limit": 8, "node": "n-w1"})


@pytest.mark.parametrize("resource", ["google.com/tpu", "aws.amazon.com/neuron", "nvidia.com/gpu.shared"])
def test_devices_that_ray_does_not_call_gpus_are_not_compared(resource: str) -> None:
    worker = a_member("w0", node="n0", need=replace(FULL, resource=resource))
    assert list(of_nodes(RAY, a_reading(nodes=(a_ray_node("w0", 0.0),)), [worker])) == []


def test_a_part_of_a_gpu_by_annotation_tells_nothing_of_what_ray_sees() -> None:
    worker = a_member("w0", node="n0", need=replace(FULL, gpus=0))
    assert list(of_nodes(RAY, a_reading(nodes=(a_ray_node("w0", 1.0),)), [worker])) == []


def test_a_bundle_larger_than_every_node_and_every_node_to_come_is_infeasible() -> None:
    asks = a_placement(state="PENDING", name="big", bundles=((("GPU", 16.0),),))
    reading = a_reading(placement_groups=(asks,), nodes=(a_ray_node("w1"),), largest_ask=16.0)
    (told,) = infeasible(RAY, ray_facts(), reading)
    assert (told.about, told.values) == ("big", {"asks": 16.0, "most": 8.0})
    assert list(infeasible(RAY, ray_facts(a_group(), a_group("large", gpus_limit=16)), reading)) == []


@pytest.mark.parametrize(("strategy", "asks"), [("STRICT_PACK", 16.0), ("PACK", None), ("STRICT_SPREAD", None)])
def test_bundles_that_must_share_a_node_are_asked_of_it_together(strategy: str, asks: float | None) -> None:
    group = a_placement(state="PENDING", strategy=strategy, bundles=((("GPU", 8.0),), (("GPU", 8.0),)))
    found = infeasible(RAY, ray_facts(), a_reading(placement_groups=(group,), nodes=(a_ray_node("w1"),)))
    assert [one.values["asks"] for one in found] == ([] if asks is None else [asks])


def test_a_waiting_task_is_judged_like_a_bundle_and_nothing_is_where_nodes_were_not_read() -> None:
    reading = a_reading(nodes=(a_ray_node("w1"),), largest_ask=9.0)
    assert [one.about for one in infeasible(RAY, ray_facts(), reading)] == [""]
    assert list(infeasible(RAY, ray_facts(), a_reading(largest_ask=9.0))) == []
    assert list(infeasible(RAY, ray_facts(), a_reading(nodes=(a_ray_node("w1"),), largest_ask=8.0))) == []


# -- placement groups ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "reading", "expected"),
    [
        ({}, {}, True),
        ({"state": "PENDING"}, {}, True),
        ({"state": "REMOVED"}, {}, False),
        ({"detached": False}, {}, False),
        ({}, {"jobs": (a_ray_job(status="RUNNING"),)}, False),
        ({}, {"jobs": ()}, False),
        ({}, {"live_actor_groups": frozenset({"pg1"})}, False),
        ({}, {"unread": ("/api/v0/actors",)}, False),
        ({}, {"unread": ("/api/jobs/",)}, False),
    ],
)
def test_a_stale_group_is_detached_without_its_job_and_without_an_actor(
    facts: dict[str, Any], reading: dict[str, Any], expected: bool
) -> None:
    group = a_placement(**{"detached": True, "name": "small-ok", **facts})
    seen = a_reading(**{"placement_groups": (group,), "jobs": (a_ray_job(),), **reading})
    assert codes(stale(RAY, seen)) == ["placement_stale"] * expected


def test_a_stale_group_tells_what_it_holds() -> None:
    seen = a_reading(placement_groups=(a_placement(detached=True),), jobs=(a_ray_job(status="FAILED"),))
    (told,) = stale(RAY, seen)
    assert (told.values["gpus"], told.values["status"], told.about) == (8.0, "FAILED", "pg1")


def test_a_group_that_waits_is_told_after_a_while_and_not_while_members_come() -> None:
    waits, group = Waits(), a_placement(state="PENDING", scheduling="NO_RESOURCES")
    first, then = a_reading(placement_groups=(group,)), a_reading(1, placement_groups=(group,))
    assert list(pending(RAY, first, waits.look(RAY, first))) == []
    assert list(pending(RAY, then, waits.look(RAY, then), coming=True)) == []
    (told,) = pending(RAY, then, waits.look(RAY, then))
    assert (told.values["waits"], told.values["scheduling"]) == (60, "NO_RESOURCES")
    assert timedelta(minutes=1) > GRACE


def test_a_wait_that_ended_begins_anew_and_a_failed_look_changes_nothing() -> None:
    waits, group = Waits(), a_placement(state="PENDING")
    waits.look(RAY, a_reading(placement_groups=(group,)))
    assert waits.look(RAY, a_reading(1, unread=("/api/v0/placement_groups",))) == {"pg1": T0}
    waits.look(RAY, a_reading(2, placement_groups=(a_placement(),)))
    assert waits.look(RAY, a_reading(3, placement_groups=(group,))) == {"pg1": later(3)}
    waits.forget(RAY)
    assert waits.look(RAY, a_reading(4, placement_groups=(group,))) == {"pg1": later(4)}


# -- head ---------------------------------------------------------------------------------------------------------


def down(minutes: float, **facts: Any) -> list[Condition]:
    told = ray_facts(head_ready=False, head_changed_at=T0, **facts)
    return list(head(a_ray_gang(told), later(minutes)))


@pytest.mark.parametrize(("minutes", "severity"), [(4.9, ""), (5, "warning"), (7.9, "warning"), (8, "critical"),
                         (60, "critical")])  # fmt: skip
def test_a_head_is_held_against_its_workers_patience(minutes: float, severity: str) -> None:
    assert [one.severity for one in down(minutes)] == ([severity] if severity else [])


def test_a_head_without_fault_tolerance_has_no_time_at_all() -> None:
    (told,) = down(0, fault_tolerant=False, recovery_seconds=0)
    assert (told.code, told.severity) == ("head_lost", "critical")


def test_a_shorter_patience_of_the_workers_counts() -> None:
    (told,) = down(1, recovery_seconds=100)
    assert told.values == {"down": 60, "budget": 100, "left": 40}


def test_the_downtime_is_remembered_where_the_condition_was_overwritten() -> None:
    gang = a_ray_gang(ray_facts(head_ready=False, head_changed_at=later(6)))
    assert codes(head(gang, later(7))) == []
    assert codes(head(gang, later(7), down_since=T0)) == ["head_down"]


@pytest.mark.parametrize("fields", [{"started_at": None}, {"suspended": True}, {"finished": True}])
def test_a_head_that_is_not_up_yet_or_not_wanted_is_not_down(fields: dict[str, Any]) -> None:
    facts = ray_facts(head_ready=False, head_changed_at=T0, fault_tolerant=False)
    assert list(head(a_ray_gang(facts, **fields), later(30))) == []
    assert list(head(a_ray_gang(ray_facts(head_ready=True)), later(30))) == []
    assert list(head(a_ray_gang(), later(30))) == []


# -- autoscaler ---------------------------------------------------------------------------------------------------


def scaling(**facts: Any) -> RayFacts:
    return ray_facts(autoscaling=True, **facts)


def swung(*counts: int, every: float = 1.0) -> Swings:
    swings = Swings()
    for n, replicas in enumerate(counts):
        swings.scaled(RAY, scaling() if replicas == 4 else ray_facts(a_group(replicas=replicas)), later(n * every))
    return swings


@pytest.mark.parametrize(
    ("counts", "swings"),
    [((4, 2, 4, 2, 4), True), ((4, 2, 4, 2), False), ((1, 2, 3, 4, 5), False), ((4, 4, 2, 2, 4, 4, 2, 2, 4), True)],
)
def test_three_alternations_are_an_oscillation(counts: tuple[int, ...], swings: bool) -> None:
    found = codes(swung(*counts, every=0.5).conditions(RAY, scaling(), later(9)))
    assert found == ["autoscaler_swings"] * swings


def test_what_lies_before_the_window_is_no_part_of_it() -> None:
    swings = swung(4, 2, 4, 2, 4)
    assert codes(swings.conditions(RAY, scaling(), later(10.9))) == ["autoscaler_swings"]
    assert codes(swings.conditions(RAY, scaling(), later(11.1))) == []
    long = scaling(idle_seconds=300)  # five idle time-outs are longer than ten minutes
    assert codes(swings.conditions(RAY, long, later(20))) == ["autoscaler_swings"]


def test_people_who_scale_without_an_autoscaler_do_not_oscillate() -> None:
    assert list(swung(4, 2, 4, 2, 4).conditions(RAY, ray_facts(), later(5))) == []


def churned(lifetime: float = 1.5, waits: tuple[bool, ...] = (True,), to_delete: int = 1, times: int = 3) -> list[str]:
    swings = Swings()
    swings.scaled(RAY, scaling() if not to_delete else ray_facts(a_group(to_delete=to_delete)), later(0))
    for n, waiting in enumerate(waits):
        swings.placement(RAY, waiting, later(n))
    for n in range(times):
        swings.worker_gone(RAY, "gpu", later(n), later(n + lifetime))
    return codes(swings.conditions(RAY, scaling(), later(6)))


def test_workers_that_are_taken_back_while_a_placement_group_waits_churn() -> None:
    assert churned() == ["autoscaler_churns"]


@pytest.mark.parametrize("changed", [{"lifetime": 2.0}, {"waits": (True, False)}, {"waits": (False,)}, {"waits": ()},
                         {"to_delete": 0}, {"times": 2}])  # fmt: skip
def test_every_part_of_the_churn_must_hold(changed: dict[str, Any]) -> None:
    assert churned(**changed) == []


def test_a_gang_that_is_gone_is_forgotten() -> None:
    swings = swung(4, 2, 4, 2, 4)
    swings.forget(RAY)
    assert list(swings.conditions(RAY, scaling(), later(5))) == []


@pytest.mark.parametrize(("version", "loops"), [("2.44.1", True), ("2.45.0", False), ("2.60", False), ("1.13.0", True),
                         ("", False), ("nightly", False)])  # fmt: skip
def test_a_ray_older_than_its_repair_has_the_known_loop(version: str, loops: bool) -> None:
    assert codes(known_loop(RAY, scaling(version=version))) == ["autoscaler_known_loop"] * loops
    assert list(known_loop(RAY, ray_facts(version=version))) == []


# -- failures, retention, spot ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "expected"),
    [({}, []), ({"max_failures": None}, ["failures_none"]), ({"max_failures": 0}, ["failures_none"]),
     ({"attempts": 3}, []), ({"attempts": 4}, ["failures_spent"]), ({"max_failures": -1, "attempts": 99}, []),
     ({"workers": (4, 4)}, ["elastic_missing"]), ({"workers": (1, 1)}, []),
     ({"max_failures": 0, "status": "FINISHED"}, [])],
)  # fmt: skip
def test_a_run_says_what_it_does_when_a_worker_dies(facts: dict[str, Any], expected: list[str]) -> None:
    assert codes(failures(RAY, [a_run(**facts)])) == expected


@pytest.mark.parametrize(
    ("shuts_down", "ttl", "rules", "history", "expected"),
    [(False, 0, False, False, ["gpus_kept"]), (False, 0, True, False, []), (True, 0, False, False, ["evidence_lost"]),
     (True, 0, False, True, []), (True, 3600, False, False, [])],
)  # fmt: skip
def test_what_is_left_of_a_job(shuts_down: bool, ttl: int, rules: bool, history: bool, expected: list[str]) -> None:
    facts = ray_facts(kind="RayJob", retention=RayRetention(shuts_down, ttl, rules, history))
    assert codes(retention(RAY, facts)) == expected
    assert list(retention(RAY, ray_facts(retention=facts.retention))) == []  # of a RayCluster nobody asks that


def test_gpus_that_are_held_after_the_end_are_worse_than_such_as_will_be() -> None:
    facts = ray_facts(kind="RayJob", retention=RayRetention(False, 0, False, False))
    (told,) = retention(RAY, facts, finished=True, held=32)
    assert (told.severity, told.values) == ("critical", {"gpus": 32})
    assert list(retention(RAY, facts, finished=True, held=0)) == []
    assert [one.severity for one in retention(RAY, facts)] == ["warning"]


@pytest.mark.parametrize(
    ("workers", "model", "firm", "expected"),
    [((2, 4), None, 2, []), ((2, 4), None, 1, ["spot_minimum"]), ((2, 4), 17.0, 2, ["spot_too_small"]),
     ((2, 4), 16.0, 2, []), ((4, 4), 64.0, 0, []), ((2, 4), None, NO_LIMIT, [])],
)  # fmt: skip
def test_the_smallest_size_on_spot_must_hold_the_model(
    workers: tuple[int, int], model: float | None, firm: int, expected: list[str]
) -> None:
    groups = a_group("cheap", spot=True), a_group("firm", replicas=min(firm, 2), maximum=firm)
    facts = ray_facts(*groups, model_gpus=model)
    assert codes(spot(RAY, facts, [a_run(workers=workers)])) == expected
    assert list(spot(RAY, ray_facts(groups[1], model_gpus=model), [a_run(workers=workers)])) == []


def test_a_manifest_without_a_run_is_judged_by_its_smallest_groups() -> None:
    facts = ray_facts(a_group("cheap", minimum=1, spot=True), autoscaling=True, model_gpus=16.0)
    (told,) = spot(RAY, facts)
    assert (told.code, told.values) == ("spot_too_small", {"least": 8, "model": 16.0})
