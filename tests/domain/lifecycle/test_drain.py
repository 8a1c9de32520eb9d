"""What a drain does with each kind of pod, and what it says about each."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from fleet.lifecycle import context
from fleet.lifecycle.context import Timing
from fleet.lifecycle.models import EvictionBucket, Intent, Step, Workflow
from fleet.ports.errors import PermanentError, TemporaryError, UnknownOutcome
from tests.domain.lifecycle import world as worlds
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"


def put(world: World, *pods: Any) -> World:
    for pod in pods:
        world.pods[pod.key] = pod
    return world


def drain_of(workflow: Workflow) -> Step:
    return Step.objects.get(workflow=workflow, verb="drain")


def writes(world: World, verb: str) -> list[str]:
    return [write.split(" ", 1)[1] for write in world.writes if write.startswith(f"{verb} ")]


def drained(workflow: Workflow) -> Any:
    return lambda: drain_of(workflow).state == "done" if Step.objects.filter(verb="drain").exists() else False


@pytest.fixture
def timing(monkeypatch: pytest.MonkeyPatch) -> Any:
    def change(**fields: Any) -> Timing:
        changed = dataclasses.replace(worlds.TIMING, **fields)
        monkeypatch.setattr(worlds, "TIMING", changed)
        return changed

    return change


def test_daemonset_mirror_and_finished_pods_stay(build: Build) -> None:
    world = put(
        build(NODE),
        a_pod("w-0", NODE),
        a_pod("exporter", NODE, kind="daemonset", gang=""),
        a_pod("static", NODE, kind="mirror", gang=""),
        a_pod("job-done", NODE, phase="Succeeded"),
    )
    workflow = fault(world, NODE)
    assert world.run(60, drained(workflow))
    assert writes(world, "evict") == ["train/w-0"]


def test_a_pod_that_shows_no_gpu_is_evicted_as_well(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE, gpus=0, claims=True))
    workflow = fault(world, NODE)
    assert world.run(60, drained(workflow))
    assert writes(world, "evict") == ["train/w-0"]


def test_local_data_and_pods_without_an_owner_are_named(build: Build) -> None:
    world = put(
        build(NODE),
        a_pod("notebook", NODE, kind="bare", owner="", gang="", finalizers=("x/y",)),
        a_pod("cache-0", NODE, local_data=True, gang="", finalizers=("x/y",)),
    )
    workflow = fault(world, NODE)
    world.run(5)
    step = drain_of(workflow)
    assert step.memo["without_owner"] == ["train/notebook"] and step.memo["local_data"] == ["train/cache-0"]
    intent = Intent.objects.get(workflow=workflow, verb="evict")
    assert intent.before["bare"] == ["train/notebook"] and intent.before["local_data"] == ["train/cache-0"]


def test_budgets_that_refuse_are_asked_more_and_more_seldom_and_the_rest_goes(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE), a_pod("cache-7", NODE, gang="", owner="ReplicaSet/cache"))
    world.budgets["cache-7"] = "serving/cache"
    asked: list[float] = []
    evict = world.evict

    def counting(pod: Any) -> None:
        if pod.name == "cache-7":
            asked.append(world.clock.monotonic())
        evict(pod)

    world.evict = counting  # type: ignore[method-assign]
    workflow = fault(world, NODE)
    world.run(130)
    blocked = again(workflow)
    assert (blocked.blocked_code, blocked.blocked_text) == ("pdb", "PDB serving/cache keeps train/cache-7.")
    assert writes(world, "evict") == ["train/w-0"]
    gaps = [round(later - sooner) for sooner, later in itertools.pairwise(asked)]
    assert gaps == sorted(gaps) and gaps[0] < 5 and gaps[-1] == 30 and len(asked) < 12
    del world.budgets["cache-7"]
    assert world.run(60, lambda: drain_of(workflow).state == "done")


def test_a_budget_that_said_no_is_not_asked_for_its_other_pods_in_the_same_round(build: Build) -> None:
    pods = [a_pod(f"cache-{n}", NODE, gang="", owner="ReplicaSet/cache") for n in range(8)]
    world = put(build(NODE), *pods)
    world.budgets = {pod.name: "serving/cache" for pod in pods}
    asked: list[str] = []
    evict = world.evict
    world.evict = lambda pod: (asked.append(pod.name), evict(pod))[1]  # type: ignore[method-assign]
    workflow = fault(world, NODE)
    assert world.run(10, lambda: again(workflow).blocked_code == "pdb")
    first = len(asked)
    world.run(20)
    assert first == 8 and len(asked) - first <= 4
    assert "train/cache-0, train/cache-1, train/cache-2 and 5 more" in again(workflow).blocked_text


def cached(*numbers: int, **fields: Any) -> list[Any]:
    """Pods of one Deployment: no budget can tell them apart."""
    labels = {"app": "cache"}
    return [
        a_pod(f"cache-{n}", NODE, gang="", owner="ReplicaSet/cache", labels=labels, **{"uid": f"c-{n}", **fields})
        for n in numbers
    ]


def test_one_of_the_pods_that_share_a_budget_asks_for_all_of_them(build: Build, timing: Any) -> None:
    timing(evictions_per_second=0, evictions_at_once=8)
    alone = a_pod("tool-0", NODE, gang="", labels={"app": "tool"})
    unready = cached(8, ready=False)[0]
    world = put(build(NODE), *cached(*range(8)), unready, alone)
    world.budgets = {pod.name: "serving/cache" for pod in cached(*range(8))}
    asked: list[str] = []
    evict = world.evict
    world.evict = lambda pod: (asked.append(pod.name), evict(pod))[1]  # type: ignore[method-assign]
    workflow = fault(world, NODE)
    assert world.run(10, lambda: again(workflow).blocked_code == "pdb")
    assert sorted(asked) == ["cache-0", "cache-8", "tool-0"]
    assert (
        again(workflow).blocked_text
        == "PDB serving/cache keeps train/cache-0, train/cache-1, train/cache-2 and 5 more."
    )
    asked.clear()
    world.budgets.clear()
    assert world.run(60, lambda: drain_of(workflow).state == "done")
    assert sorted(asked) == [f"cache-{n}" for n in range(8)] and "Not evicted by us" not in drain_of(workflow).text


def test_a_pod_that_its_budget_has_let_go_is_found_whoever_asked_before(build: Build) -> None:
    world = put(build(NODE), *cached(*range(4)))
    world.budgets = {pod.name: "serving/cache" for pod in cached(*range(4))}
    workflow = fault(world, NODE)
    assert world.run(10, lambda: again(workflow).blocked_code == "pdb")
    del world.budgets["cache-2"]  # its labels were changed
    assert world.run(120, lambda: writes(world, "evict") == ["train/cache-2"])
    world.run(60)
    assert again(workflow).blocked_text == "PDB serving/cache keeps train/cache-0, train/cache-1, train/cache-3."


def test_two_budgets_on_one_pod_block_only_that_pod(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE), a_pod("w-1", NODE))
    evict = world.evict

    def two(pod: Any) -> None:
        if pod.name == "w-0":
            raise PermanentError("The pod cannot be evicted until a person removes a budget.", code="pdb_many")
        evict(pod)

    world.evict = two  # type: ignore[method-assign]
    workflow = fault(world, NODE)
    world.run(20)
    assert again(workflow).blocked_code == "pdb" and "removes a budget" in again(workflow).blocked_text
    assert writes(world, "evict") == ["train/w-1"]


def test_a_missing_right_is_told_and_everything_accepted_before_it_is_remembered(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE))

    def refuse(pod: Any) -> None:
        raise PermanentError("The credential may not create pods/eviction.", code="missing_right")

    world.evict = refuse  # type: ignore[method-assign]
    workflow = fault(world, NODE)
    world.run(10)
    assert again(workflow).blocked_code == "missing_right"
    assert "may not create pods/eviction" in again(workflow).blocked_text


def test_a_server_that_throttles_is_left_in_peace(build: Build) -> None:
    world = put(build(NODE), *[a_pod(f"w-{n}", NODE) for n in range(5)])
    evict, calls = world.evict, [0]

    def throttle(pod: Any) -> None:
        calls[0] += 1
        if calls[0] == 3:
            raise TemporaryError("throttled", code="throttled", retry_after=7)
        evict(pod)

    world.evict = throttle  # type: ignore[method-assign]
    workflow = fault(world, NODE)
    world.run(6)
    assert calls[0] == 3
    assert world.run(60, drained(workflow)) and len(writes(world, "evict")) == 5


def test_an_answer_that_is_lost_is_observed(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE))
    evict, lost = world.evict, [True]

    def lose(pod: Any) -> None:
        evict(pod)
        if lost.pop() if lost else False:
            raise UnknownOutcome("no answer")

    world.evict = lose  # type: ignore[method-assign]
    workflow = fault(world, NODE)
    assert world.run(60, drained(workflow)) and writes(world, "evict") == ["train/w-0"]


def test_pods_that_come_during_the_drain_are_evicted_and_their_owner_named_when_they_do_not_stop(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE))
    workflow = fault(world, NODE)
    settle, count = world.settle, [0]

    def respawn() -> None:
        settle()
        if not any(pod.owner == "StatefulSet/agent" for pod in world.pods.values()) and again(workflow).step == 1:
            count[0] += 1
            put(world, a_pod("agent-0", NODE, uid=f"agent-{count[0]}", owner="StatefulSet/agent", gang=""))

    world.settle = respawn  # type: ignore[method-assign]
    world.run(120)
    blocked = again(workflow)
    assert blocked.blocked_code == "pods_return"
    assert "Pods of StatefulSet/agent come back to this node although it is held" in blocked.blocked_text
    assert 3 <= writes(world, "evict").count("train/agent-0") <= 4
    world.settle = settle  # type: ignore[method-assign]
    del world.pods["train/agent-0"]
    assert world.run(90, lambda: drain_of(workflow).state == "done")


def test_owners_of_one_name_in_several_namespaces_are_counted_apart(build: Build) -> None:
    """Five namespaces with an agent each, all of which come back once: nobody comes back again and again."""
    world = put(build(NODE), a_pod("kept-0", NODE, gang=""))
    world.budgets["kept-0"] = "train/pdb"
    workflow = fault(world, NODE)
    assert world.run(60, lambda: again(workflow).blocked_code == "pdb")
    for namespace in "abcde":
        put(world, a_pod("agent-0", NODE, uid=namespace, namespace=namespace, owner="ReplicaSet/agent", gang=""))
        assert world.run(60, lambda: f"evict {namespace}/agent-0" in world.writes), again(workflow).blocked_text  # noqa: B023


def test_the_taint_managers_deletions_are_not_counted_as_our_evictions(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE), a_pod("cache-7", NODE, gang=""))
    world.budgets["cache-7"] = "serving/cache"
    workflow = fault(world, NODE)
    world.run(20)
    assert again(workflow).blocked_code == "pdb"
    kept = world.pods["train/cache-7"]
    tainted: dict[str, Any] = {"disruption": "DeletionByTaintManager", "finalizers": ("slow/end",)}
    put(world, dataclasses.replace(kept, deleting_since=world.clock.now(), **tainted))
    assert world.run(60, lambda: drain_of(workflow).state == "done")
    assert writes(world, "evict") == ["train/w-0"] and writes(world, "delete") == []
    said = drain_of(workflow).text
    assert "Not evicted by us: train/cache-7 (ended by the taint manager, which asks no budget)." in said


def test_a_kept_pod_that_vanishes_between_two_looks_went_by_somebody_elses_hand(build: Build) -> None:
    world = put(build(NODE), a_pod("cache-7", NODE, gang=""))
    world.budgets["cache-7"] = "serving/cache"
    workflow = fault(world, NODE)
    world.run(20)
    del world.pods["train/cache-7"]
    assert world.run(60, lambda: drain_of(workflow).state == "done")
    assert "train/cache-7 (ended by somebody else)" in drain_of(workflow).text


def test_a_pod_deleted_between_the_list_and_the_eviction_does_not_end_the_workflow(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE), a_pod("w-1", NODE))
    evict = world.evict

    def race(pod: Any) -> None:
        world.pods.pop("train/w-1", None)
        evict(pod)

    world.evict = race  # type: ignore[method-assign]
    workflow = fault(world, NODE)
    assert world.run(60, drained(workflow))
    assert again(workflow).state != "cancelled"


def test_the_rate_of_a_cluster_is_shared_by_all_its_drains(build: Build, timing: Any) -> None:
    timing(evictions_per_second=2)
    names = [f"gpu-r0{n}-01" for n in range(1, 4)]
    world = build(fleet=60)
    for number, name in enumerate(names):
        worlds_node(world, name, rack=f"r0{number}")
        put(world, *[a_pod(f"{name}-{n}", name, gang="") for n in range(10)])
    for name in names:
        fault(world, name)
    done: list[int] = []
    for _ in range(40):
        world.run(1)
        done.append(len(writes(world, "evict")))
    per_second = [later - sooner for sooner, later in zip([0, *done], done, strict=False)]
    assert sum(per_second) == 30 and max(per_second) <= 4 + 2
    assert all(done[n] <= 4 + 2 * (n + 1) for n in range(40))
    assert "gets 2 evictions a second" in " ".join(
        Step.objects.filter(verb="drain").values_list("text", flat=True)
    ) or (done[-1] == 30)


def worlds_node(world: World, name: str, **fields: Any) -> None:
    from tests.builders import a_bmc, a_node

    node = a_node(world.cluster, name, **fields)
    a_bmc(node)
    world.add(node)


def test_a_lifted_rate_touches_no_row(build: Build, timing: Any) -> None:
    timing(evictions_per_second=0)
    world = put(build(NODE), *[a_pod(f"w-{n}", NODE) for n in range(50)])
    workflow = fault(world, NODE)
    assert world.run(30, drained(workflow))
    assert not EvictionBucket.objects.exists() and len(writes(world, "evict")) == 50


def test_evictions_side_by_side_do_what_one_after_the_other_do(build: Build, timing: Any) -> None:
    timing(evictions_per_second=0, evictions_at_once=8)
    world = put(build(NODE), *[a_pod(f"w-{n:02d}", NODE, gang="") for n in range(30)])
    world.budgets = {"w-03": "train/a", "w-04": "train/a"}
    workflow = fault(world, NODE)
    assert world.run(20, lambda: again(workflow).blocked_code == "pdb")
    assert sorted(writes(world, "evict")) == [f"train/w-{n:02d}" for n in range(30) if n not in (3, 4)]
    assert again(workflow).blocked_text == "PDB train/a keeps train/w-03, train/w-04."
    world.budgets.clear()
    assert world.run(60, lambda: drain_of(workflow).state == "done")


def test_a_drain_stops_when_its_incident_is_closed(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE))
    world.budgets["w-0"] = "train/a"
    workflow = fault(world, NODE)
    world.run(10)
    incident = again(workflow).incident
    assert incident is not None
    type(incident).objects.filter(pk=incident.pk).update(state="resolved")
    assert world.run(60, lambda: again(workflow).state == "cancelled")
    assert writes(world, "evict") == [] and not world.nodes[NODE].unschedulable


def test_what_a_person_wrote_into_a_steps_memory_is_not_written_over(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    step = Step.objects.create(
        workflow=workflow, index=0, attempt=1, verb="hold", started_at=world.clock.now(), memo={"a": 1}
    )
    ctx = context.Context(workflow, step, None, None, None, world.clock, worlds.TIMING)  # type: ignore[arg-type]
    Step.objects.filter(pk=step.pk).update(memo={"a": 1, "person": "minseo"})
    ctx.remember(b=[1, {"c": 2}])
    step.refresh_from_db()
    assert step.memo == {"a": 1, "person": "minseo", "b": [1, {"c": 2}]}


def test_slow_pods_are_looked_at_less_often_the_longer_they_take(build: Build) -> None:
    world = put(build(NODE), a_pod("w-0", NODE, grace_seconds=600, finalizers=("slow/end",)))
    workflow = fault(world, NODE)
    looks, pods_on = [0], world.pods_on

    def counted(node: str) -> Any:
        looks[0] += 1
        return pods_on(node)

    world.pods_on = counted  # type: ignore[method-assign]
    world.run(300)
    assert looks[0] < 50 and state_of(NODE) == "draining"
    assert "Draining, not drained: 1 pod is ending (train/w-0)." in drain_of(workflow).text
