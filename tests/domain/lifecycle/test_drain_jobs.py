"""One gang is interrupted once, jobs are let to their checkpoint, and Ray heads go only with a person's word."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fleet.inventory.models import Node
from fleet.lifecycle import forcing, manual, services
from fleet.lifecycle.models import GangInterruption, Step, Workflow
from fleet.policy.models import Approval, Cap, Claim
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.test_drain import drain_of, put, writes
from tests.domain.lifecycle.world import World, a_pod

NODES = ("gpu-r01-01", "gpu-r02-01", "gpu-r03-01")
GANG = "train/llm"


def gang_on(build: Build, *names: str, **fields: Any) -> World:
    """A world in which one gang runs on these nodes, each in a rack of its own."""
    world = build(fleet=60)
    from tests.builders import a_bmc, a_node

    for number, name in enumerate(names):
        node = a_node(world.cluster, name, rack=f"r0{number}", leaf=f"l{number}", gang=GANG)
        a_bmc(node)
        world.add(node)
        put(world, a_pod(f"w-{number}", name, started_at=world.clock.now() - timedelta(hours=3), **fields))
    return world


def planned_drain(world: World, name: str, by: str = "minseo") -> Workflow:
    node = Node.objects.get(name=name)
    (workflow,), _ = manual.request([node.pk], "drain", by, "firmware", world.clock.now(), world.clock)
    return workflow


def evicted_at(world: World) -> dict[str, float]:
    """pod -> second of its eviction, filled while the world runs."""
    seen: dict[str, float] = {}
    evict = world.evict

    def note(pod: Any) -> None:
        evict(pod)
        seen[pod.name] = world.clock.monotonic()

    world.evict = note  # type: ignore[method-assign]
    return seen


def test_nodes_of_one_gang_are_drained_together(build: Build) -> None:
    world = gang_on(build, *NODES)
    seen = evicted_at(world)
    for name in NODES:
        planned_drain(world, name)
        world.run(3)
    world.run(60)
    assert set(seen) == {"w-0", "w-1", "w-2"}
    assert max(seen.values()) - min(seen.values()) <= 30
    assert GangInterruption.objects.get().gang == GANG


def test_a_node_still_on_its_way_to_the_drain_is_waited_for_a_short_while(build: Build) -> None:
    world = gang_on(build, *NODES[:2])
    seen = evicted_at(world)
    first = planned_drain(world, NODES[0])
    second = Workflow.objects.get(pk=planned_drain(world, NODES[1]).pk)
    put_back = world.hold

    def slow(request: Any) -> Any:  # the second node's hold takes its time
        if request.node == NODES[1] and not seen_hold:
            raise _conflict()
        return put_back(request)

    seen_hold: list[int] = []
    world.hold = slow  # type: ignore[method-assign]
    Workflow.objects.filter(pk=second.pk).update(wake_at=world.clock.now() + timedelta(seconds=12))
    world.run(8)
    waiting = again(first)
    assert waiting.blocked_code == "gang_joining"
    assert "2 nodes of gang train/llm are to be drained" in waiting.blocked_text
    assert NODES[1] in waiting.blocked_text and seen == {}
    seen_hold.append(1)
    Workflow.objects.filter(pk=second.pk).update(wake_at=world.clock.now())
    world.run(30)
    assert max(seen.values()) - min(seen.values()) <= 3


def _conflict() -> Exception:
    from fleet.ports.errors import TemporaryError

    return TemporaryError("busy", retry_after=2)


def test_a_gang_that_starts_again_is_not_interrupted_a_second_time(build: Build) -> None:
    world = gang_on(build, *NODES[:2])
    seen = evicted_at(world)
    planned_drain(world, NODES[0])
    world.run(90)
    assert set(seen) == {"w-0"}
    second = planned_drain(world, NODES[1])
    world.run(30)
    blocked = again(second)
    assert blocked.blocked_code == "gang_resting" and "not interrupted twice" in blocked.blocked_text
    assert blocked.blocked_until is not None and set(seen) == {"w-0"}
    assert not Claim.objects.filter(workflow_id=second.pk, kind="take_out", released_at=None).exists()
    world.clock.tick(420)
    assert world.run(200, lambda: "w-1" in seen)
    assert seen["w-1"] - seen["w-0"] >= 600


def test_severity_demands_a_second_interruption_at_once(build: Build) -> None:
    world = gang_on(build, *NODES[:2])
    seen = evicted_at(world)
    planned_drain(world, NODES[0])
    world.run(90)
    fault(world, NODES[1])
    world.run(10)
    assert set(seen) == {"w-0", "w-1"}


def test_a_person_may_say_that_nobody_is_waited_for(build: Build) -> None:
    world = gang_on(build, *NODES[:2])
    seen = evicted_at(world)
    planned_drain(world, NODES[0])
    world.run(90)
    second = planned_drain(world, NODES[1])
    world.run(20)
    with pytest.raises(forcing.ForceRefused):
        forcing.wait_for_nobody(second.pk, "minseo", "  ", world.clock.now())
    forcing.wait_for_nobody(second.pk, "minseo", "the owner agreed", world.clock.now())
    world.run(10)
    assert set(seen) == {"w-0", "w-1"}
    assert drain_of(second).memo["waits_for_nobody"] == "minseo: the owner agreed"


def test_caps_that_do_not_fit_the_whole_gang_are_told(build: Build) -> None:
    world = gang_on(build, *NODES)
    Cap.objects.create(kind="take_out", scope="cluster", absolute=2)
    for name in NODES:
        planned_drain(world, name)
    world.run(60)
    told = [step.memo.get("joined", "") for step in Step.objects.filter(verb="drain")]
    assert any("The caps do not fit all nodes of the gang at once" in text for text in told)
    assert len(writes(world, "evict")) == 2


def test_a_drain_waits_for_the_checkpoint_holds_no_claim_and_shows_the_sum(build: Build) -> None:
    world = gang_on(build, *NODES[:2])
    saved = (world.clock.now() - timedelta(minutes=50)).isoformat()
    marks = {"muster.dev/last-checkpoint": saved, "muster.dev/checkpoint-interval": "1h"}
    put(world, a_pod("w-0", NODES[0], annotations=marks))
    seen = evicted_at(world)
    workflow = planned_drain(world, NODES[0])
    world.run(60)
    blocked = again(workflow)
    assert blocked.blocked_code == "job_wait" and seen == {}
    assert "Waits for the checkpoint of train/llm, expected at 03:11 UTC" in blocked.blocked_text
    assert "(16 GPUs, last checkpoint at 02:10 UTC)" in blocked.blocked_text
    assert drain_of(workflow).memo["stopping_now_loses"].endswith("GPU-h")
    assert drain_of(workflow).deadline is None
    assert not Claim.objects.filter(workflow_id=workflow.pk, kind="take_out", released_at=None).exists()
    now = world.clock.now().isoformat()
    put(world, a_pod("w-0", NODES[0], annotations={**marks, "muster.dev/last-checkpoint": now}))
    world.run(75)
    assert "w-0" in seen


def test_the_checkpoint_that_another_nodes_rank_tells_of_is_waited_for_too(build: Build) -> None:
    """Often one rank alone writes the annotations of the whole gang."""
    world = gang_on(build, *NODES[:2])
    saved = (world.clock.now() - timedelta(minutes=50)).isoformat()
    marks = {"muster.dev/last-checkpoint": saved, "muster.dev/checkpoint-interval": "1h"}
    put(world, a_pod("w-1", NODES[1], annotations=marks))
    put(
        world,
        a_pod("stranger", NODES[1], gang="other/job", annotations={"muster.dev/expected-end": "2026-11-29T03:05:00Z"}),
    )
    seen = evicted_at(world)
    workflow = planned_drain(world, NODES[0])
    world.run(60)
    assert again(workflow).blocked_code == "job_wait" and seen == {}
    assert "expected at 03:11 UTC" in again(workflow).blocked_text
    assert "(16 GPUs, last checkpoint at 02:10 UTC)" in again(workflow).blocked_text, "its GPUs are counted once"


def test_a_degraded_node_waits_as_well_and_an_unhealthy_one_does_not(build: Build) -> None:
    world = gang_on(build, *NODES[:2])
    saved = (world.clock.now() - timedelta(minutes=55)).isoformat()
    marks = {"muster.dev/last-checkpoint": saved, "muster.dev/checkpoint-interval": "1h"}
    for number, name in enumerate(NODES[:2]):
        put(world, a_pod(f"w-{number}", name, annotations=marks, gang=f"train/{number}"))
    seen = evicted_at(world)
    degraded = fault(world, NODES[0], severity="degraded")
    fault(world, NODES[1])
    world.run(30)
    assert set(seen) == {"w-1"} and again(degraded).blocked_code == "job_wait"


def test_a_gang_broken_anyway_is_not_waited_for(build: Build) -> None:
    world = gang_on(build, *NODES[:2])
    saved = (world.clock.now() - timedelta(minutes=50)).isoformat()
    marks = {"muster.dev/last-checkpoint": saved, "muster.dev/checkpoint-interval": "1h"}
    for number, name in enumerate(NODES[:2]):
        put(world, a_pod(f"w-{number}", name, annotations=marks))
    seen = evicted_at(world)
    waiting = planned_drain(world, NODES[0])
    world.run(20)
    assert again(waiting).blocked_code == "job_wait"
    fault(world, NODES[1])
    world.run(15)
    assert set(seen) == {"w-0", "w-1"} and abs(seen["w-0"] - seen["w-1"]) <= 5


def test_the_wait_has_a_limit(build: Build) -> None:
    world = gang_on(build, NODES[0])
    end = (world.clock.now() + timedelta(hours=12)).isoformat()
    put(world, a_pod("w-0", NODES[0], annotations={"muster.dev/expected-end": end}))
    seen = evicted_at(world)
    planned_drain(world, NODES[0])
    world.run(10)
    assert "w-0" in seen


def test_a_job_that_tells_nothing_is_not_waited_for_and_its_loss_is_shown(build: Build) -> None:
    world = gang_on(build, NODES[0])
    workflow = planned_drain(world, NODES[0])
    world.run(10)
    assert "Stopping its work now loses up to 24.0 GPU-h" in drain_of(workflow).memo["job"]


HEAD = {"ray.io/node-type": "head"}


def ray(world: World, saved: str | None) -> Workflow:
    marks = {} if saved is None else {"ray.io/ft-enabled": saved}
    put(world, a_pod("head-0", NODES[0], labels=HEAD, annotations=marks, gang="ray/c", gpus=0, namespace="ray"))
    return fault(world, NODES[0])


@pytest.mark.parametrize(("saved", "said"), [("true", "has fault tolerance"), (None, "does not tell whether it has")])
def test_a_ray_head_waits_for_a_person_even_on_an_unhealthy_node(build: Build, saved: str | None, said: str) -> None:
    world = build(NODES[0])
    workflow = ray(world, saved)
    world.run(20)
    blocked = again(workflow)
    assert blocked.blocked_code == "ray_head" and said in blocked.blocked_text and writes(world, "evict") == []
    assert not Claim.objects.filter(workflow_id=workflow.pk, kind="take_out", released_at=None).exists()
    row = Approval.objects.get(state=Approval.PENDING)
    assert (row.kind, row.subject, row.summary["pods"]) == ("ray_head", f"heads:{workflow.pk}", ["ray/head-0"])
    services.approve(workflow.pk, "jiwoo", world.clock.now())
    assert world.run(30, lambda: writes(world, "evict") == ["ray/head-0"])


def test_a_ray_head_without_fault_tolerance_is_never_drained(build: Build) -> None:
    world = build(NODES[0])
    workflow = ray(world, "false")
    world.run(400)
    assert again(workflow).blocked_code == "ray_head" and "loses the whole cluster" in again(workflow).blocked_text
    assert writes(world, "evict") == [] and not Approval.objects.exists()


def test_a_rejected_ray_head_is_not_asked_for_again(build: Build) -> None:
    world = build(NODES[0])
    workflow = ray(world, "true")
    world.run(20)
    services.reject(workflow.pk, "jiwoo", "a run ends at noon", world.clock.now())
    world.run(400)
    blocked = again(workflow)
    assert "rejected (jiwoo: a run ends at noon)" in blocked.blocked_text
    assert Approval.objects.count() == 1 and writes(world, "evict") == [] and blocked.state == "blocked"


def test_an_approval_names_one_head_and_not_the_next(build: Build) -> None:
    world = build(NODES[0])
    workflow = ray(world, "true")
    world.run(20)
    services.approve(workflow.pk, "jiwoo", world.clock.now())
    world.pods = {"ray/head-0": a_pod("head-0", NODES[0], uid="another", labels=HEAD, namespace="ray")}
    world.run(20)
    assert writes(world, "evict") == [] and again(workflow).blocked_code == "ray_head"
