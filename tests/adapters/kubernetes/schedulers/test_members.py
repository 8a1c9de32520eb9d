"""Pods as members of gangs: what they need, what they name, and what keeps them from starting."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.kubernetes.member import meaning_of
from fleet.adapters.kubernetes.needs import need_of, quantity
from fleet.ports.gangs import Match, Need, Toleration
from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    condition,
    gang_of,
    member_in,
    pod,
    pod_spec,
    resource,
    when,
    why,
)
from tests.unit.gangs.scenes import a_room

GIB = 1024  # MiB


def asks(requests: Json | None = None, limits: Json | None = None, **facts: Any) -> Json:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"name": facts.pop("name", "main"), "image": "x", "resources": resources, **facts}


def placed(status: Json, **facts: Any) -> Json:
    return pod("llm-0", "gpu-0", status=status, **facts)


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        (pod("a", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), "gated"),
        (pod("a"), "pending"),
        (placed({"phase": "Pending"}), "placed"),
        (placed({"phase": "Unknown"}), "placed"),
        (placed({}), "placed"),
        (placed({"phase": "Running", "conditions": [condition("Ready", False)]}), "running"),
        (placed({"phase": "Running", "conditions": [condition("Ready", True)]}), "ready"),
        (placed({"phase": "Succeeded"}), "ended"),
        (placed({"phase": "Failed", "reason": "Evicted"}), "ended"),
    ],
)
def test_a_members_state_is_how_far_it_came(raw: Json, state: str) -> None:
    assert member_in(raw).state == state


RUNS: Json = {"name": "main", "state": {"running": {"startedAt": at(4)}}}
CRASHES: Json = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}}
ASIDE: Json = {"name": "logs", "state": {"running": {"startedAt": at(4)}}}
ENDED: Json = {"name": "main", "state": {"terminated": {"exitCode": 1}}}


@pytest.mark.parametrize(
    ("statuses", "gpus", "state"),
    [
        ([CRASHES], 8, "placed"),
        ([CRASHES, ASIDE], 8, "placed"),  # what has the GPUs does not run
        ([RUNS, {**CRASHES, "name": "logs"}], 8, "running"),  # a sidecar that crashes stops no work
        ([CRASHES], 0, "placed"),
        ([CRASHES, ASIDE], 0, "running"),
        ([RUNS], 8, "running"),
        ([ENDED], 8, "running"),
        ([{"name": "main"}], 8, "running"),
        ([], 8, "running"),
    ],
)
def test_a_member_that_crashes_again_and_again_has_not_started(statuses: list[Json], gpus: int, state: str) -> None:
    """Its phase stays Running between two tries, and while anything of it runs."""
    raw = pod("a", "gpu-0", gpus=gpus, status={"phase": "Running", "containerStatuses": statuses})
    assert member_in(raw).state == state


def test_a_gang_of_which_every_member_crashes_computes_nothing_and_says_so() -> None:
    status = {"phase": "Running", "containerStatuses": [CRASHES]}
    group: Json = {"labels": {"scheduling.x-k8s.io/pod-group": "llm"}}
    spec, told = {"minMember": 2}, {"phase": "Running", "running": 2}
    gang = gang_of(
        resource("scheduling.x-k8s.io/v1alpha1", "PodGroup", "llm", spec, told),
        *(pod(f"llm-{n}", f"gpu-{n}", status=status, **group) for n in range(2)),
    )
    assert (gang.state, gang.running, gang.gpus_held, gang.gpus_held_idle) == ("starting", 0, 16, 16)
    found = why(gang, a_room("gpu-0", used=8), a_room("gpu-1", used=8))
    assert (found.code, found.raw.split("; ")[0]) == ("IMAGE_OR_INIT", "train/llm-0: CrashLoopBackOff: back-off 5m0s")


def test_a_member_that_is_being_deleted_is_still_where_it_was() -> None:
    one = member_in(pod("a", "gpu-0", deletionTimestamp=at(6)))
    assert (one.ending, one.node, one.state) == (True, "gpu-0", "ready")


def test_what_its_scheduler_said_last_is_kept_until_it_is_placed() -> None:
    said = member_in(pod("a", waits="0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")).waits
    assert said is not None
    assert (said.code, said.at, said.source) == ("CAPACITY", when(4), "Pod condition PodScheduled: Unschedulable")
    old = {"phase": "Pending", "conditions": [condition("PodScheduled", False, "Unschedulable", "of before")]}
    assert member_in(placed(old)).waits is None


def test_a_gate_is_told_where_nobody_else_says_why() -> None:
    gates = [{"name": "example.com/dataset"}, {"name": "example.com/budget"}]
    said = member_in(pod("a", schedulingGates=gates)).waits
    assert said is not None
    words = "Held by the scheduling gates example.com/budget, example.com/dataset."
    assert (said.code, said.text, said.source) == ("ADMISSION_CHECK", words, "Pod spec.schedulingGates")


def test_that_there_is_a_gate_says_nothing_of_why() -> None:
    gated = {"conditions": [condition("PodScheduled", False, "SchedulingGated", "Scheduling is blocked due to gates")]}
    assert member_in(pod("a", status={"phase": "Pending", **gated})).waits is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Not enough queue quota", "QUOTA"),
        ("Not enough user quota", "QUOTA"),
        ("queue resource quota insufficient: insufficient nvidia.com/gpu", "QUOTA"),
        ("0/8 nodes are available: 8 Insufficient nvidia.com/gpu.", "CAPACITY"),
        ("0/8 nodes are available: 8 node(s) didn't match pod topology spread constraints.", "TOPOLOGY"),
        ("0/8 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "CAPACITY"),
        ("4/4 tasks in gang unschedulable: pod group is not ready", "CAPACITY"),
        ('running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded', "BIND_FAILED"),
        ("binding rejected: pods is forbidden", "BIND_FAILED"),
        ("what no release says", "UNKNOWN"),
        ("", "UNKNOWN"),
    ],
)
def test_a_schedulers_words_mean_one_thing(message: str, code: str) -> None:
    assert meaning_of(message) == code


def waiting(reason: str, message: str = "") -> Json:
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}


@pytest.mark.parametrize(
    ("status", "stuck"),
    [
        ({"containerStatuses": [waiting("ContainerCreating")]}, ""),
        ({"containerStatuses": [waiting("ImagePullBackOff", "no such image")]}, "ImagePullBackOff: no such image"),
        ({"containerStatuses": [waiting("CreateContainerError")]}, "CreateContainerError"),
        (
            {
                "initContainerStatuses": [waiting("CrashLoopBackOff")],
                "containerStatuses": [waiting("PodInitializing")],
            },
            "Init:CrashLoopBackOff",
        ),
        ({"containerStatuses": [{"name": "main", "state": {"running": {"startedAt": at(4)}}}]}, ""),
    ],
)
def test_a_member_that_is_bound_and_does_not_start_says_why(status: Json, stuck: str) -> None:
    assert member_in(placed({"phase": "Pending", **status})).stuck == stuck


def test_a_device_that_its_kubelet_calls_sick_is_named_though_the_pod_is_ready() -> None:
    told = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Healthy"}]}]
    sick = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-2", "health": "Unhealthy"}]}]
    status = {"phase": "Running", "conditions": [condition("Ready", True)]}
    for devices, expected in ((told, ""), ([*told, *sick], "nvidia.com/gpu GPU-2")):
        one = member_in(placed({**status, "containerStatuses": [{"name": "x", "allocatedResourcesStatus": devices}]}))
        assert (one.state, one.sick_device) == ("ready", expected)


@pytest.mark.parametrize(
    ("labels", "annotations", "links"),
    [
        ({"scheduling.x-k8s.io/pod-group": "g"}, {}, ["coscheduling/PodGroup/train/g"]),
        ({"pod-group.scheduling.sigs.k8s.io": "g"}, {}, ["coscheduling/PodGroup/train/g"]),
        ({}, {"scheduling.k8s.io/group-name": "g"}, ["volcano/PodGroup/train/g"]),
        ({}, {"scheduling.volcano.sh/group-name": "g"}, ["volcano/PodGroup/train/g"]),
        ({}, {"pod-group-name": "g"}, ["kai/PodGroup/train/g"]),
        ({"kueue.x-k8s.io/pod-group-name": "g"}, {}, ["kueue/Workload/train/g"]),
        ({"yunikorn.apache.org/app-id": "a"}, {}, ["yunikorn/Application//a"]),
        ({"applicationId": "a"}, {}, ["yunikorn/Application//a"]),
        (
            {"leaderworkerset.sigs.k8s.io/name": "s", "leaderworkerset.sigs.k8s.io/group-index": "2"},
            {},
            ["lws/LeaderWorkerSet/train/s-2"],
        ),
        (
            {"ray.io/cluster": "r"},
            {"scheduling.k8s.io/group-name": "g"},
            ["volcano/PodGroup/train/g", "ray/RayCluster/train/r"],
        ),
        (
            {"jobset.sigs.k8s.io/jobset-name": "j"},
            {"kueue.x-k8s.io/workload": "w"},
            ["jobset/JobSet/train/j", "kueue/Workload/train/w"],
        ),
        ({"training.kubeflow.org/job-name": "t"}, {}, ["kubeflow/PyTorchJob/train/t"]),
        ({}, {"volcano.sh/job-name": "v"}, ["volcano/Job/train/v"]),
        ({"app": "web"}, {"note": "x"}, []),
        ({"scheduling.x-k8s.io/pod-group": ""}, {}, []),
    ],
)
def test_a_pod_names_its_gang_the_schedulers_group_first(labels: Json, annotations: Json, links: list[str]) -> None:
    assert list(member_in(pod("a", labels=labels, annotations=annotations)).links) == links


def test_a_pod_knows_its_queue_owner_priority_and_what_it_stands_for() -> None:
    raw = pod(
        "tg-0",
        "gpu-0",
        labels={"yunikorn.apache.org/queue": "root.research"},
        annotations={"yunikorn.apache.org/placeholder": "true", "kueue.x-k8s.io/pod-group-total-count": "4"},
        owner=("Job", "llm", "uid-job"),
        priority=50,
    )
    one = member_in(raw)
    assert (one.queue, one.owner, one.owner_uid, one.priority) == ("root.research", "Job/llm", "uid-job", 50)
    assert (one.placeholder, one.total, one.key, one.uid) == (True, 4, "train/tg-0", "uid-tg-0")
    assert member_in(pod("a", annotations={"kueue.x-k8s.io/pod-group-total-count": "many"})).total is None


@pytest.mark.parametrize(
    ("raw", "amount"),
    [
        ("8", 8.0),
        (8, 8.0),
        (0.5, 0.5),
        ("1500m", 1.5),
        ("250000u", 0.25),
        ("500000000n", 0.5),
        ("1k", 1e3),
        ("2Gi", 2 * 2.0**30),
        ("1E", 1e18),
        ("1e3", 1e3),
        ("1Ei", 1e18),  # more than any node has: cut off
        ("-4", 0.0),
        ("8 GiB", 0.0),
        ("", 0.0),
        ("1e999", 1e18),
        (True, 0.0),
        (None, 0.0),
        ([8], 0.0),
        ("1.2.3", 0.0),
    ],
)
def test_a_quantity_is_read_in_every_unit_and_what_is_none_asks_for_nothing(raw: Any, amount: float) -> None:
    assert quantity(raw) == pytest.approx(amount)


def test_requests_count_and_a_limit_alone_is_a_request() -> None:
    need = need_of({"containers": [asks({"cpu": "2"}, {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "2"})]})
    assert (need.cpu_millis, need.memory_mib, need.gpus) == (2000, GIB, 2)


def test_init_containers_count_by_the_greediest_and_sidecars_on_top() -> None:
    gpu = {"nvidia.com/gpu": "2"}
    containers = [asks(limits={**gpu, "cpu": "4"})]
    assert need_of({"containers": containers, "initContainers": [asks(limits={"cpu": "9"})]}).cpu_millis == 9000
    side = asks(limits={"cpu": "3"}, restartPolicy="Always", name="side")
    assert need_of({"containers": containers, "initContainers": [side]}).cpu_millis == 7000
    late = asks(limits={"cpu": "5"}, name="late")
    assert need_of({"containers": containers, "initContainers": [side, late]}).cpu_millis == 8000
    assert need_of({"containers": containers, "initContainers": [late, side]}).cpu_millis == 7000
    assert need_of({"containers": containers, "overhead": {"cpu": "250m"}}).cpu_millis == 4250


def test_what_the_pod_asks_for_as_a_whole_counts_over_its_containers() -> None:
    whole = {"requests": {"cpu": "32", "memory": "64Gi"}}
    need = need_of({"containers": [asks(limits={"cpu": "4", "nvidia.com/gpu": "8"})], "resources": whole})
    assert (need.cpu_millis, need.memory_mib, need.gpus) == (32_000, 64 * GIB, 8)


def test_an_init_container_that_runs_is_told_and_a_sidecar_is_not() -> None:
    spec: Json = {"initContainers": [{"name": "logs", "restartPolicy": "Always"}, {"name": "wait-gcs-ready"}]}
    running: list[Json] = [{"name": name, "state": {"running": {}}} for name in ("logs", "wait-gcs-ready")]
    told = pod("w", "gpu-0", status={"phase": "Pending", "initContainerStatuses": running}, **spec)
    assert (member_in(told).init, member_in(told).stuck) == ("wait-gcs-ready", "")
    started = pod("w", "gpu-0", status={"phase": "Running", "initContainerStatuses": running[:1]}, **spec)
    assert member_in(started).init == ""


DEVICES = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-3g.40gb",
    "nvidia.com/mig-1g.10gb.shared",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "google.com/tpu",
    "huawei.com/Ascend910",
    "huawei.com/Ascend910B4",
    "cambricon.com/mlu370",
    "furiosa.ai/rngd",
    "rebellions.ai/ATOM",
    "habana.ai/gaudi",
    "metax-tech.com/gpu",
    "volcano.sh/vgpu-number",
    "amd.com/cpx_nps4",
]


@pytest.mark.parametrize("name", DEVICES)
def test_every_makers_device_is_a_resource_of_its_own(name: str) -> None:
    need = need_of({"containers": [asks(limits={name: "2"}), asks(limits={name: "1"}, name="b")]})
    assert (need.gpus, need.resource) == (3, name)


def test_devices_by_claims_are_counted_as_claims() -> None:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}, {"name": "channel"}]}
    assert (need_of({**pod_spec(0), **claims}).claims, need_of({**pod_spec(0), **claims}).gpus) == (2, 0)
    assert need_of(pod_spec(8)).claims == 0


def test_a_pod_without_a_device_asks_for_no_gpu() -> None:
    assert need_of(pod_spec(0)).gpus == 0
    assert need_of({"containers": [asks(limits={"nvidia.com/gpu": "0", "example.com/fpga": "3"})]}).gpus == 0
    memory = ("nvidia.com/gpumem", "nvidia.com/gpu-memory", "volcano.sh/vgpu-memory", "gpu.intel.com/memory.max")
    parts = ("nvidia.com/gpucores", "gpu.intel.com/millicores", "huawei.com/Ascend910B3-memory", "aliyun.com/gpu-mem")
    for name in (*memory, *parts, "nvidia.com/hostdev", "aws.amazon.com/efa", "gpu.intel.com/i915_monitoring"):
        assert need_of({"containers": [asks(limits={name: "3"})]}).gpus == 0


def test_where_it_may_run_is_kept_as_kubernetes_counts_it() -> None:
    terms = [
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100", "h200"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-7"]}]},
        {},
    ]
    wish = [{"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": wish,
    }
    tolerations = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"operator": "Exists"}]
    need = need_of({"nodeSelector": {"pool": "a"}, "affinity": {"nodeAffinity": affinity}, "tolerations": tolerations})
    assert need.selector == (("pool", "a"),)
    assert need.any_of == (
        (Match("gpu", "In", ("h100", "h200")),),
        (Match("metadata.name", "In", ("gpu-7",)),),
        (),
    )
    assert set(need.tolerations) == {Toleration("gpu", "Equal", "yes", "NoSchedule"), Toleration("", "Exists", "", "")}


def test_equal_needs_are_one_object() -> None:
    """Members are many and needs few: masks and counts are kept by need."""
    assert need_of(pod_spec(8)) is need_of(pod_spec(8))
    assert need_of({}) == Need()


@pytest.mark.parametrize(
    "odd", [10**30, "\ud800", float("nan"), {"1": [None]}], ids=["huge", "surrogate", "nan", "nest"]
)
def test_an_odd_value_in_a_spec_loses_nothing_else_of_what_is_asked(odd: Any) -> None:
    spec = {"containers": [asks({"nvidia.com/gpu": "8", "memory": odd})], "nodeSelector": {"pool": "a", "odd": odd}}
    assert need_of(spec).gpus == 8 and ("pool", "a") in need_of(spec).selector


def test_needs_that_differ_in_anything_that_counts_are_never_taken_for_one_another() -> None:
    """What is kept of one template is not given for another."""
    plain: Json = {"containers": [asks({"nvidia.com/gpu": "8"})]}
    others: list[Json] = [
        {"initContainers": [asks({"nvidia.com/gpu": "11"})]},
        {"initContainers": [asks({"nvidia.com/gpu": "1"}, restartPolicy="Always")]},
        {"resources": {"requests": {"nvidia.com/gpu": "10"}}},
        {"overhead": {"cpu": "1"}},
        {"nodeSelector": {"pool": "a"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]}}}},
    ]  # fmt: skip
    needs = [need_of(plain | other) for other in [{}, *others]]
    assert len(set(needs)) == len(needs)
    assert [need_of(plain | other) for other in [{}, *others]] == needs
    assert need_of(plain) is need_of({**plain, "volumes": [{"name": "x"}]})


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("pod with pgName: train/llm last failed in 3s, deny", "CAPACITY"),
        ("waiting for minCount pods from a gang to be waiting on permit", "CAPACITY"),
        ("minCount is not satisfiable: 4 needed, 1 scheduled, 2 remaining", "CAPACITY"),
        ("0/4 nodes are available: 4 cannot allocate all claims.", "CAPACITY"),
        ('waiting for the resource controller to create the resourceclaim "gpu"', "UNKNOWN"),
    ],
)
def test_words_of_gang_plugins_and_claims_mean_one_thing(words: str, code: str) -> None:
    assert meaning_of(words) == code
