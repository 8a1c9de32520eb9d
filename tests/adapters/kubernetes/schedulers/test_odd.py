"""What no server should hand out, and some do: wrong types, missing parts, fields of a release to come.

Every place of every kind's resource is bent in turn. A reader that raises would end the stream of its whole kind.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.adapters.kubernetes import decode
from fleet.adapters.kubernetes.schedulers.watching import READERS
from fleet.gangs.counting import count
from fleet.gangs.joining import join
from fleet.ports.gangs import Spoken
from fleet.ports.shapes import MOST
from tests.adapters.kubernetes.schedulers import (
    test_bindrequest,
    test_coscheduling,
    test_hypernode,
    test_jobset,
    test_kai,
    test_kubeflow,
    test_kueue,
    test_kueue_queues,
    test_lws,
    test_native,
    test_ray,
    test_slinky,
    test_volcano,
)
from tests.adapters.kubernetes.schedulers.raw import Json, at, condition, pod, reader_of, tell

NO_NUMBERS: tuple[Any, ...] = (None, True, -1, 10**12, 10**400, 0.5, math.inf, math.nan)
NO_TEXTS: tuple[Any, ...] = ("", "x", "\0")
ODD = (*NO_NUMBERS, *NO_TEXTS, [], [None, 5, "x", []], {}, {"x": [None]}, [{}])
Path = tuple[str | int, ...]

EXAMPLES = [
    test_ray.cluster(
        test_ray.workers(scaleStrategy={"workersToDelete": ["a"]}, resources={"GPU": "8"}, numOfHosts=2),
        status={"desiredWorkerReplicas": 4, "observedGeneration": 1, "conditions": [condition("HeadPodReady", True)]},
        generation=1,
        gcsFaultToleranceOptions={"redisAddress": "redis:6379"},
        autoscalerOptions={"idleTimeoutSeconds": 60},
        annotations={"ray.io/ft-enabled": "true"},
        owner=("RayJob", "tune", "uid-tune"),
    ),
    test_ray.job({"jobDeploymentStatus": "Failed", "message": "x", "endTime": at(7), "startTime": at(4)}),
    test_ray.service(condition("Suspended", True), rayClusterName="llm"),
    test_coscheduling.group("Running", running=4, scheduleStartTime=at(3)),
    test_coscheduling.quota({"nvidia.com/gpu": "8"}, min={"nvidia.com/gpu": "8"}, max={"nvidia.com/gpu": "9"}),
    test_volcano.group(
        "Inqueue",
        test_volcano.unschedulable(),
        minTaskMember={"a": 1},
        networkTopology={"mode": "hard", "highestTierAllowed": 2},
    ),
    test_volcano.queue(weight=2, deserved={"nvidia.com/gpu": 8}, guarantee={"resource": {"nvidia.com/gpu": 4}}),
    test_volcano.job("Aborted"),
    test_kai.group(
        {
            **test_kai.waiting(test_kai.unschedulable(("OverLimit", "x"))),
            "resourcesStatus": {"allocated": {"nvidia.com/gpu": "8"}},
        },
        {"stale-podgroup-timestamp": at(6)},
        minMember=None,
        subGroups=[{"name": "a", "minSubGroup": 1}, {"name": "b", "parent": "a", "minMember": 2}],
        topologyConstraint={"topology": "t", "requiredTopologyLevel": "leaf"},
    ),
    test_kai.queue({"allocated": {"nvidia.com/gpu": 8}, "requested": {"nvidia.com/gpu": 9}}, quota=8, limit=16),
    test_kueue.workload(
        *test_kueue.admitted(),
        condition("Evicted", True, "Preempted"),
        status={
            "unhealthyNodes": [{"name": "gpu-3"}],
            **test_kueue.assigned(3),
            **test_kueue.checks("Pending", "x"),
            "reclaimablePods": [{"name": "main", "count": 1}],
            "clusterName": "west",
        },
        sets=[test_kueue.pod_set(4, minCount=2, topologyRequest={"required": "leaf"})],
        owner=("JobSet", "tune", "uid-tune"),
        active=False,
        priority=5,
    ),
    test_kueue_queues.cluster_queue(
        condition("Active", False, "Stopped"),
        status={
            "flavorsUsage": test_kueue_queues.used("8"),
            "fairSharing": {"weightedShare": 5},
            "pendingWorkloads": 1,
        },
        stopPolicy="Hold",
        fairSharing={"weight": "1"},
        cohortName="all",
        quota={"borrowingLimit": 4},
    ),
    test_kueue_queues.local_queue(condition("Active", False), stopPolicy="Hold"),
    test_native.group(test_native.unplaced(), condition("DisruptionTarget", True)),
    test_native.workload({"name": "workers", "policy": {"gang": {"minCount": 2}}}),
    test_jobset.job_set(condition("RestartingJobSet", True), jobs=[test_jobset.job(parallelism=2, completions=2)]),
    test_lws.lws(2, 2, leader=test_lws.template(0)),
    test_kubeflow.pytorch(
        condition("Running", True),
        policy={"suspend": False, "schedulingPolicy": {"minAvailable": 2, "queue": "q"}},
        elasticPolicy={"minReplicas": 1, "maxReplicas": 4},
    ),
    test_kubeflow.train(condition("Suspended", False), suspend=False),
    test_hypernode.hyper_node(
        "s0",
        1,
        test_hypernode.exact("a"),
        test_hypernode.like("^b"),
        test_hypernode.labelled({"key": "pool", "operator": "In", "values": ["a"]}, tor="1"),
        tierName="leaf",
    ),
    test_bindrequest.request("Failed", failedAttempts=2, reason="x"),
    test_slinky.node_set(4, {"drain": 1, "down": 1}, template=test_lws.template(8)),
]
IDS = [f"{raw['kind']}.{raw['apiVersion'].replace('/', '.')}" for raw in EXAMPLES]


def places(value: Any, here: Path = ()) -> Iterator[Path]:
    """Every place in a JSON document but the root."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*here, key)
        yield from places(entry, (*here, key))


def bent(raw: Json, path: Path, odd: Any) -> Json:
    changed = copy.deepcopy(raw)
    at_place: Any = changed
    for key in path[:-1]:
        at_place = at_place[key]
    at_place[path[-1]] = odd
    return changed


def without(raw: Json, path: Path) -> Json:
    changed = copy.deepcopy(raw)
    at_place: Any = changed
    for key in path[:-1]:
        at_place = at_place[key]
    del at_place[path[-1]]
    return changed


def counted(spoken: Spoken) -> None:
    """Whatever a reader makes of it must be good for all that comes after: keys, joins and counts."""
    hash(spoken)
    for gang in join(spoken.objects[:3], ()).values():  # replicas of one set are alike
        found = count(gang)
        assert 0 <= found.wanted <= MOST * len(found.objects[0].parts or (1,)) + 1
    for queue in spoken.queues:
        for quota in queue.quotas:
            for told in (quota.guaranteed, quota.used, quota.reserved, quota.borrowed, quota.ceiling, quota.wanted):
                assert told is None or math.isfinite(told)


@pytest.mark.parametrize("raw", EXAMPLES, ids=IDS)
def test_no_place_of_a_resource_may_break_its_reader(raw: Json) -> None:
    decode_one = reader_of(raw).decode
    for path in places(raw):
        if path[0] in ("apiVersion", "kind"):
            continue
        for odd in ODD:
            counted(decode_one(bent(raw, path, odd)))
        counted(decode_one(without(raw, path)))


@pytest.mark.parametrize("raw", EXAMPLES, ids=IDS)
def test_a_resource_that_has_just_been_made_tells_what_it_wants(raw: Json) -> None:
    """No controller has looked at it: there is no status yet."""
    fresh = {key: value for key, value in raw.items() if key != "status"}
    spoken, told = tell(fresh), tell(raw)
    assert spoken.key == told.key
    assert [one.ref for one in spoken.objects] == [one.ref for one in told.objects]
    assert [one.minimum for one in spoken.objects] == [one.minimum for one in told.objects]
    assert not any(one.finished for one in spoken.objects)
    assert len(spoken.queues) == len(told.queues)


@pytest.mark.parametrize("raw", EXAMPLES, ids=IDS)
def test_fields_of_a_release_to_come_change_nothing(raw: Json) -> None:
    richer = copy.deepcopy(raw)
    for path in [(), *places(raw)]:
        here: Any = richer
        for key in path:
            here = here[key]
        free = isinstance(here, dict) and path[-1:] not in (("labels",), ("annotations",))
        if free and path[-1:] not in (
            ("minTaskMember",),
            ("pytorchReplicaSpecs",),
            ("matchLabels",),
        ):  # whose keys are names
            here["fieldOfTomorrow"] = {"a": [1]}
    assert reader_of(raw).decode(richer) == tell(raw)


def test_every_kind_that_can_be_watched_is_bent_here() -> None:
    """Cohorts have nothing of their own that the other kinds of their system do not have."""
    bent_here = {(reader_of(raw).group, reader_of(raw).kind) for raw in EXAMPLES}
    assert {(reader.group, reader.kind) for reader in READERS} - bent_here == {("kueue.x-k8s.io", "Cohort")}


def test_no_place_of_a_pod_may_break_its_member() -> None:
    whole = pod(
        "llm-0",
        "gpu-0",
        labels={"ray.io/cluster": "llm", "ray.io/node-type": "worker"},
        annotations={"kueue.x-k8s.io/pod-group-total-count": "4"},
        owner=("RayCluster", "llm", "uid-llm"),
        priority=5,
        status={
            "phase": "Running",
            "conditions": [condition("Ready", True), condition("PodScheduled", False, "Unschedulable", "x")],
            "containerStatuses": [
                {
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "x"}},
                    "allocatedResourcesStatus": [{"name": "g", "resources": [{"health": "Unhealthy"}]}],
                }
            ],
        },
        schedulingGroup={"podGroupName": "llm"},
        workloadRef={"name": "w", "podGroup": "g"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
        nodeSelector={"pool": "a"},
        initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        overhead={"cpu": "1"},
    )
    for path in places(whole):
        for odd in ODD:
            changed = bent(whole, path, odd)
            if not isinstance(changed["metadata"], dict) or not isinstance(changed["metadata"].get("name"), str):
                continue
            if not changed["metadata"]["name"].strip("\0"):
                continue
            member = decode.pod(changed).member
            assert member is not None
            hash(member)
