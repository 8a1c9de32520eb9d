"""A GPU reset is the narrowest remedy: only where nothing uses the GPU or its NVLinks, and once."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fleet.health.models import Signal
from fleet.inventory.models import Device, Node
from fleet.lifecycle import services
from fleet.lifecycle.models import Intent, Remedy, Workflow
from fleet.lifecycle.steps import reset_gpu
from fleet.policy.models import Claim
from fleet.ports.cluster import GPU_SERVICE_ON, GPU_SERVICES, JobSeen
from fleet.ports.errors import MissingRight, TemporaryError, UnknownOutcome
from fleet.tickets.models import Ticket
from tests.builders import T0, a_node
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.crashing import Death, succeeds_through
from tests.domain.lifecycle.world import World, a_pod

NODE, GPU = "gpu-r01-01", "GPU-0a1b2c3d-0000-4000-8000-00000000000a"
WHOLE = ("nvidia-smi", "--gpu-reset")


@pytest.fixture
def world(build: Build) -> World:
    return build(NODE, nvlink_domain="nvl-7")


def dbe(world: World, name: str = NODE, **fields: Any) -> Workflow:
    return fault(world, name, **{"cause": "xid-48", "action_class": "reset_gpu", "device": GPU, **fields})


def verbs(workflow: Workflow) -> list[str]:
    return list(workflow.steps.order_by("pk").values_list("verb", flat=True))


def test_the_gpu_of_the_fault_is_reset_and_the_node_returns_without_a_boot(world: World) -> None:
    workflow = dbe(world)
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    assert world.gpu_resets == [(NODE, (*WHOLE, "-i", GPU))]
    assert world.resets == [] and state_of(NODE) == "in_service"
    assert verbs(workflow) == ["hold", "drain", "reset_gpu", "validate", "soak", "return"]
    assert Remedy.objects.values_list("verb", "result").get() == ("reset_gpu", "held")


@pytest.mark.parametrize(
    ("device", "model", "expected"),
    [
        (GPU, "NVIDIA H100 80GB HBM3", (*WHOLE, "-i", GPU)),
        ("GPU-3", "NVIDIA H100 80GB HBM3", (*WHOLE, "-i", GPU)),
        ("gpu:3", "NVIDIA H100 80GB HBM3", (*WHOLE, "-i", GPU)),
        ("pci:0000:1b:00", "NVIDIA H100 80GB HBM3", (*WHOLE, "-i", GPU)),
        ("gpu:9", "NVIDIA H100 80GB HBM3", WHOLE),
        ("switch:0", "NVIDIA H100 80GB HBM3", WHOLE),
        ("", "NVIDIA H100 80GB HBM3", WHOLE),
        ("GPU-; reboot", "NVIDIA H100 80GB HBM3", WHOLE),
        (GPU, "Tesla V100-SXM2-32GB", WHOLE),
    ],
)
def test_all_gpus_are_reset_where_one_cannot_be_named_or_reset_alone(
    world: World, device: str, model: str, expected: tuple[str, ...]
) -> None:
    node = Node.objects.get(name=NODE)
    Node.objects.filter(pk=node.pk).update(gpu_model=model)
    for index in range(8):
        key = GPU if index == 3 else f"{GPU[:-1]}{index}"
        pci = "0000:1b:00" if index == 3 else ""
        Device.objects.create(node=node, kind="gpu", key=key, index=index, pci=pci, first_seen_at=T0)
    workflow = dbe(world, device=device)
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    assert world.gpu_resets == [(NODE, expected)]


def test_it_waits_while_its_nvlink_domain_runs_work_and_names_it(world: World) -> None:
    peer = a_node(world.cluster, "gpu-r01-09", rack="r09", nvlink_domain="nvl-7", pods=1, gang="train/llm")
    workflow = dbe(world)
    world.run(60)
    blocked = again(workflow)
    assert blocked.blocked_code == "nvlink_busy" and "gpu-r01-09 (train/llm)" in blocked.blocked_text
    assert world.gpu_resets == []
    assert not Claim.objects.filter(kind="in_flight", released_at=None).exists(), "who waits takes nobody's room"
    Node.objects.filter(pk=peer.pk).update(pods=0)
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    assert len(world.gpu_resets) == 1


def test_a_domain_that_never_becomes_free_is_for_people_and_counts_against_no_verb(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reset_gpu, "NVLINK_SECONDS", 90.0)
    a_node(world.cluster, "gpu-r01-09", rack="r09", nvlink_domain="nvl-7", pods=1)
    workflow = dbe(world)
    assert world.run(200, lambda: again(workflow).state == "repair")
    assert "nvl-7" in again(workflow).blocked_text
    assert world.gpu_resets == [] and world.resets == [] and not Remedy.objects.exists()


def test_another_domain_and_an_idle_peer_are_no_obstacle(world: World) -> None:
    a_node(world.cluster, "gpu-r01-09", rack="r09", nvlink_domain="nvl-8", pods=3)
    a_node(world.cluster, "gpu-r01-10", rack="r09", nvlink_domain="nvl-7", pods=0)
    workflow = dbe(world)
    assert world.run(120, lambda: again(workflow).state == "succeeded")


def test_a_pod_that_drain_had_to_leave_behind_is_not_reset_under(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset_gpu, "IN_USE_SECONDS", 60.0)
    world.pods["train/p"] = a_pod("p", NODE, gpus=0, finalizers=("example.com/stuck",))
    workflow = dbe(world)
    assert world.run(200, lambda: again(workflow).blocked_code == "gpu_in_use")
    assert world.gpu_resets == []
    assert world.run(200, lambda: bool(world.resets)), "a reboot passes what is stuck"
    assert world.gpu_resets == []


def test_the_operators_services_make_way_and_come_back(world: World) -> None:
    key = "nvidia.com/gpu.deploy.device-plugin"
    world.change(NODE, labels={key: GPU_SERVICE_ON, "nvidia.com/gpu.deploy.dcgm": "false"})
    app = {"app": GPU_SERVICES[key]}
    world.pods["gpu/plugin"] = a_pod("plugin", NODE, namespace="gpu", kind="daemonset", gpus=0, labels=app)
    workflow = dbe(world)
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    order = [write for write in world.writes if "muster-reset" in write or write.startswith("gpu services")]
    assert [write.split()[0] + write.split()[-1] for write in order if "services" in write] == ["gpuoff", "gpuon"]
    assert order[1].startswith("job muster-reset")
    assert world.nodes[NODE].labels == {key: GPU_SERVICE_ON, "nvidia.com/gpu.deploy.dcgm": "false"}


def test_a_person_who_takes_the_node_back_gets_the_services_too(world: World) -> None:
    key = "nvidia.com/gpu.deploy.device-plugin"
    world.change(NODE, labels={key: GPU_SERVICE_ON})
    world.reset_result = "running"
    workflow = dbe(world)
    assert world.run(60, lambda: bool(world.gpu_resets))
    world.reset_result = "failed"
    world.jobs = {name: JobSeen("failed", "in use") for name in world.jobs}
    world.change(NODE, unschedulable=False, annotations={})
    assert world.run(60, lambda: again(workflow).state == "cancelled")
    assert world.nodes[NODE].labels == {key: GPU_SERVICE_ON}


def test_a_reset_that_fails_leads_to_a_reboot(world: World) -> None:
    world.reset_result = "failed"
    workflow = dbe(world)
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert len(world.gpu_resets) == 1 and len(world.resets) == 1
    assert verbs(workflow).count("reboot") == 1


def test_a_reset_that_lies_is_found_out_by_the_tests(world: World) -> None:
    """The Job says yes, the driver still asks for a reset."""
    workflow = dbe(world)
    node = Node.objects.get(name=NODE)
    world.run(3)
    level = {"rule": "gpu-recovery-reset", "cause": "gpu-recovery-reset", "severity": "unhealthy", "source": "dcgm"}
    assert world.run(60, lambda: bool(world.gpu_resets))
    Signal.objects.create(
        node=node, cluster_id=world.cluster.pk, action_class="reset_gpu", title="The driver asks for a reset",
        first_bad_at=T0, opened_at=T0, seen_at=T0, **level,
    )  # fmt: skip
    assert world.run(300, lambda: again(workflow).state == "succeeded")
    assert len(world.gpu_resets) == 1 and len(world.resets) == 1


def test_off_metal_a_failed_reset_stops_for_a_person(world: World) -> None:
    pool = Node.objects.get(name=NODE).pool
    assert pool is not None
    pool.kind = "vm"
    pool.save()
    world.reset_result = "failed"
    workflow = dbe(world)
    assert world.run(120, lambda: again(workflow).blocked_code == "stopped_here")
    world.run(600)
    assert len(world.gpu_resets) == 1 and world.resets == [] and not Ticket.objects.exists()
    services.abort(workflow.pk, "ada", "It is replaced.", world.clock.now())
    assert world.run(60, lambda: again(workflow).state == "cancelled")
    assert not world.nodes[NODE].unschedulable


@pytest.mark.parametrize("phase", ["pending", "running"])
def test_a_job_that_never_ends_is_removed_before_anything_harsher(
    world: World, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    monkeypatch.setattr(reset_gpu, "JOB_SECONDS", 30)
    world.reset_result = phase
    workflow = dbe(world)
    assert world.run(200, lambda: bool(world.resets))
    assert not any(name.startswith("muster-reset") for name in world.jobs)
    assert world.run(200, lambda: again(workflow).state == "succeeded")


def test_a_job_that_somebody_removed_is_not_run_again(world: World) -> None:
    world.reset_result = "running"
    workflow = dbe(world)
    assert world.run(60, lambda: bool(world.gpu_resets))
    world.run(5)
    world.jobs.clear()
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert len(world.gpu_resets) == 1 and len(world.resets) == 1


@pytest.mark.parametrize("arrived", [True, False])
def test_an_answer_that_was_lost_is_looked_for_first(
    world: World, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    create, lost = world.create_job, [1]

    def losing(request: Any) -> None:
        if lost and "--gpu-reset" in request.command:
            lost.clear()
            if arrived:
                create(request)
            raise UnknownOutcome("no answer")
        create(request)

    monkeypatch.setattr(world, "create_job", losing)
    workflow = dbe(world)
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert len(world.gpu_resets) == 1 and world.resets == []
    assert Intent.objects.filter(verb="reset_gpu").count() == 1


@pytest.mark.parametrize("error", [TemporaryError("throttled", code="throttled"), MissingRight("create", "jobs")])
def test_a_refusal_is_no_reset(world: World, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    create, refusals = world.create_job, [3]

    def refusing(request: Any) -> None:
        if refusals[0] and "--gpu-reset" in request.command:
            refusals[0] -= 1
            raise error
        create(request)

    monkeypatch.setattr(world, "create_job", refusing)
    workflow = dbe(world)
    assert world.run(300, lambda: again(workflow).state == "succeeded")
    reset = isinstance(error, TemporaryError)
    assert (len(world.gpu_resets), len(world.resets)) == ((1, 0) if reset else (0, 1))


@pytest.mark.parametrize("place", ["before job", "after job", "after pause"])
def test_a_crash_between_any_two_acts_resets_nothing_twice(world: World, place: str) -> None:
    world.change(NODE, labels=dict.fromkeys(GPU_SERVICES, GPU_SERVICE_ON))
    succeeds_through(Death(place), world, dbe)
    assert len(world.gpu_resets) == 1 and world.resets == []
    assert set(world.nodes[NODE].labels.values()) == {GPU_SERVICE_ON}


def test_a_node_that_rebooted_since_needs_no_reset(world: World) -> None:
    workflow = dbe(world)
    world.nodes[NODE] = dataclasses.replace(world.nodes[NODE], boot_id="boot-another")
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    assert world.gpu_resets == [] and world.resets == []
