"""RayCluster, RayJob and RayService in the situations that their owners ask about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.ports.ray import NO_LIMIT, RayFacts, RayGroup
from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    condition,
    gang_of,
    gangs_of,
    pods,
    resource,
    said_by,
    tell,
    template,
    when,
    why,
    words,
)
from tests.unit.gangs.scenes import OUT, a_room

HEAD = {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": template(0)}


def workers(name: str = "h100", replicas: int = 4, **facts: Any) -> Json:
    pod = facts.pop("template", template(8))
    bounds = {"replicas": replicas, "minReplicas": 0, "maxReplicas": 2_147_483_647, "rayStartParams": {}}
    return {"groupName": name, **bounds, "template": pod, **facts}


def cluster_spec(*groups: Json, **spec: Any) -> Json:
    return {"rayVersion": "2.52.0", "headGroupSpec": HEAD, "workerGroupSpecs": list(groups or [workers()]), **spec}


def cluster(*groups: Json, status: Json | None = None, api: str = "ray.io/v1", **spec: Any) -> Json:
    meta = {key: spec.pop(key) for key in ("labels", "annotations", "owner", "generation") if key in spec}
    return resource(api, "RayCluster", "llm", cluster_spec(*groups, **spec), status, **meta)


def of_ray(placed: int, waiting: int = 0) -> list[Json]:
    head = {"ray.io/cluster": "llm", "ray.io/group": "headgroup", "ray.io/node-type": "head"}
    rest = {"ray.io/cluster": "llm", "ray.io/group": "h100", "ray.io/node-type": "worker"}
    return [*pods("llm-head", 1, gpus=0, labels=head), *pods("llm-worker", placed, waiting, labels=rest)]


def facts(raw: Json) -> RayFacts:
    found = said_by(raw).ray
    assert found is not None
    return found


def group(raw: Json) -> RayGroup:
    return facts(raw).groups[0]


def test_a_healthy_cluster_runs_all_its_workers_and_the_head() -> None:
    status = {
        "desiredWorkerReplicas": 4,
        "readyWorkerReplicas": 4,
        "state": "ready",
        "conditions": [
            condition("HeadPodReady", True, "HeadPodRunningAndReady", since=at(3, 5)),
            condition("RayClusterProvisioned", True, "AllPodRunningAndReadyFirstTime", since=at(3, 9)),
        ],
    }
    raw = cluster(status=status)
    one = said_by(raw)
    assert (one.wanted, one.minimum, one.places, one.phase, one.started_at) == (5, None, False, "ready", when(3, 9))
    assert [(part.role, part.wanted, part.minimum, part.maximum) for part in one.parts] == [
        ("head", 1, None, None),
        ("h100", 4, 0, None),
    ]
    assert (facts(raw).head_ready, facts(raw).head_changed_at, group(raw).maximum) == (True, when(3, 5), NO_LIMIT)
    gang = gang_of(raw, *of_ray(4))
    assert (gang.state, gang.ready, gang.gpus_held, gang.gpus_held_idle, gang.guarantee) == (
        "running",
        5,
        32,
        0,
        "none",
    )


def test_workers_that_came_in_part_hold_their_gpus_for_nothing() -> None:
    gang = gang_of(cluster(status={"desiredWorkerReplicas": 4}), *of_ray(2, 1))
    assert (gang.state, gang.placed, gang.minimum, gang.not_created) == ("partial", 3, 5, 1)
    assert (gang.gpus_held_idle, gang.gpus_wanted) == (16, 32)
    assert why(gang, a_room("gpu-0", used=8), a_room("gpu-1", used=8), a_room("gpu-2", used=8)).code == "EXCEEDS_MAX"


def test_a_quota_of_the_namespace_is_told_by_the_operator() -> None:
    message = 'pods "llm-worker" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8'
    raw = cluster(status={"conditions": [condition("ReplicaFailure", True, "FailedCreateWorkerPod", message)]})
    gang = gang_of(raw, *of_ray(0))
    assert (gang.state, words(gang)) == ("partial", [("QUOTA", message)])
    assert why(gang, a_room("a")).code == "QUOTA"


def test_workers_that_fit_nowhere_whole_are_told_from_workers_without_room() -> None:
    gang = gang_of(cluster(workers(replicas=1)), *of_ray(0, 1))
    assert why(gang, a_room("a", used=4), a_room("b", used=4)).code == "FRAGMENTATION"
    assert why(gang, a_room("a", used=8), a_room("b", used=8)).code == "CAPACITY"


def test_an_affinity_to_a_leaf_leaves_the_rest_of_the_fleet_out() -> None:
    near = template(8, nodeSelector={"topology.muster.dev/leaf": "leaf-1"})
    gang = gang_of(cluster(workers(replicas=1, template=near)), *of_ray(0))
    rooms = [a_room("a", used=8, labels={"topology.muster.dev/leaf": "leaf-1"}), a_room("b")]
    assert (why(gang, *rooms).code, why(gang, *rooms).free) == ("CAPACITY", 0)


def test_the_sick_node_that_a_worker_waits_for_is_named() -> None:
    reason = why(gang_of(cluster(workers(replicas=2)), *of_ray(1, 1)), a_room("gpu-0", used=8), a_room("x", out=OUT))
    assert (reason.code, [b.node for b in reason.blockers]) == ("NODE_UNHEALTHY", ["x"])


def test_a_head_that_is_down_keeps_the_moment_it_went() -> None:
    down = [condition("HeadPodReady", False, "HeadPodNotFound", since=at(6))]
    raw = cluster(gcsFaultToleranceOptions={"redisAddress": "redis:6379"}, status={"conditions": down})
    found = facts(raw)
    assert (found.head_ready, found.head_changed_at, found.fault_tolerant, found.recovery_seconds) == (
        False,
        when(6),
        True,
        600,
    )
    assert (facts(cluster()).recovery_seconds, facts(cluster()).head_ready) == (0, None)


@pytest.mark.parametrize(
    ("told", "seconds"), [((120, None), 120), ((900, None), 600), ((900, 1200), 900), ((None, None), 600)]
)
def test_the_worker_that_gives_its_head_up_first_bounds_the_recovery(
    told: tuple[int | None, ...], seconds: int
) -> None:
    """Those that nobody told anything wait as long as the operator tells them to."""
    groups = []
    for n, patience in enumerate(told):
        pod = template(8)
        if patience is not None:
            entry = {"name": "RAY_gcs_rpc_server_reconnect_timeout_s", "value": str(patience)}
            pod["spec"]["containers"][0]["env"] = [entry]
        groups.append(workers(f"g{n}", template=pod))
    assert facts(cluster(*groups, annotations={"ray.io/ft-enabled": "true"})).recovery_seconds == seconds


def test_counts_of_a_spec_that_is_gone_are_not_believed() -> None:
    """The operator has not looked yet: what it counted was wanted before."""
    status = {"desiredWorkerReplicas": 4, "observedGeneration": 1}
    assert said_by(cluster(workers(replicas=6), status=status, generation=2)).wanted == 7
    assert said_by(cluster(workers(replicas=6), status={**status, "observedGeneration": 2}, generation=2)).wanted == 5
    assert facts(cluster(workers(replicas=6), status=status, generation=2)).desired_workers is None


def test_old_operators_count_replicas_and_not_their_hosts() -> None:
    """Before KubeRay 1.4 (kuberay#3274); its pods are as many as the hosts."""
    status = {"desiredWorkerReplicas": 2}
    raw = cluster(workers(replicas=2, numOfHosts=2), status=status)
    assert (said_by(raw).wanted, facts(raw).desired_workers) == (5, 4)
    gang = gang_of(raw, *of_ray(2, 2))
    assert (gang.state, gang.minimum, gang.gpus_held_idle) == ("partial", 5, 16)


def test_a_suspended_cluster_says_since_when() -> None:
    suspended = condition("RayClusterSuspended", True, since=at(5))
    raw = cluster(suspend=True, status={"state": "suspended", "conditions": [suspended]})
    gang = gang_of(raw)
    assert (gang.state, why(gang).code, why(gang).since) == ("suspended", "SUSPENDED", when(5))
    assert gang_of(cluster(suspend=False)).state == "waiting"


@pytest.mark.parametrize(
    ("told", "replicas", "wanted"),
    [
        ({"replicas": 3, "numOfHosts": 4}, 3, 12),
        ({"replicas": 0, "minReplicas": 2}, 2, 2),
        ({"replicas": 9, "maxReplicas": 4}, 4, 4),
        ({"replicas": 3, "suspend": True}, 3, 0),
        ({"replicas": 10**9, "numOfHosts": 10**9}, 10**9, 10**9),
    ],
)
def test_a_group_is_counted_in_pods_as_the_operator_bounds_it(told: Json, replicas: int, wanted: int) -> None:
    raw = cluster({**workers(), **told})
    assert (group(raw).replicas, said_by(raw).parts[1].wanted, said_by(raw).wanted) == (replicas, wanted, wanted + 1)


def test_an_exact_maximum_and_workers_on_their_way_out_are_kept() -> None:
    raw = cluster(
        workers(minReplicas=2, maxReplicas=4, idleTimeoutSeconds=30, scaleStrategy={"workersToDelete": ["w-1", "w-2"]}),
        enableInTreeAutoscaling=True,
        autoscalerOptions={"idleTimeoutSeconds": 90},
        labels={"ray.io/gang-scheduling-enabled": ""},
    )
    assert (group(raw).minimum, group(raw).maximum, group(raw).to_delete, group(raw).idle_seconds) == (2, 4, 2, 30)
    assert (facts(raw).autoscaling, facts(raw).idle_seconds, facts(raw).gang_label) == (True, 90, True)


def test_what_ray_is_told_is_kept_beside_what_the_containers_may_use() -> None:
    assert (group(cluster()).gpus_limit, group(cluster()).gpus_declared) == (8, None)
    lies = cluster(workers(rayStartParams={"num-gpus": "4"}))
    assert group(lies).gpus_declared == 4.0
    assert group(cluster(workers(rayStartParams={"num-gpus": "4"}, resources={"GPU": "8"}))).gpus_declared == 8.0


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("nvidia.com/gpu", 4),
        ("amd.com/gpu", 4),
        ("nvidia.com/mig-1g.10gb", 4),
        ("google.com/tpu", 0),
        ("aws.amazon.com/neuroncore", 0),
    ],
)
def test_only_what_the_operator_makes_gpus_of_counts_as_rays(name: str, gpus: int) -> None:
    pod = {"spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {name: "4"}}}]}}
    assert group(cluster(workers(template=pod))).gpus_limit == gpus


def test_spot_capacity_is_seen_in_the_selector_and_in_the_affinity() -> None:
    term = {"matchExpressions": [{"key": "eks.amazonaws.com/capacityType", "operator": "In", "values": ["SPOT"]}]}
    needs = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    for spec in ({"nodeSelector": {"karpenter.sh/capacity-type": "spot"}}, {"affinity": {"nodeAffinity": needs}}):
        assert group(cluster(workers(template=template(8, **spec)))).spot
    assert not group(cluster()).spot


def test_a_cluster_of_an_old_operator_reads_alike() -> None:
    new, old = said_by(cluster()), said_by(cluster(api="ray.io/v1alpha1"))
    assert new == old


def job(status: Json, **spec: Any) -> Json:
    spec.setdefault("rayClusterSpec", cluster_spec())
    return resource("ray.io/v1", "RayJob", "tune", {"entrypoint": "python train.py", **spec}, status)


def test_a_job_waits_before_it_has_a_cluster() -> None:
    gang = gang_of(job({"jobDeploymentStatus": "Initializing"}))
    assert (gang.title, gang.state, gang.wanted, gang.gpus_wanted) == ("RayJob tune", "waiting", 5, 32)


def test_a_job_and_its_cluster_are_one_gang_that_is_counted_by_the_cluster() -> None:
    made = cluster(workers(replicas=2), owner=("RayJob", "tune", "uid-tune"))
    raw = job({"jobDeploymentStatus": "Running", "rayClusterName": "llm", "dashboardURL": "llm-head:8265"})
    gang = gang_of(raw, made, *of_ray(2))
    assert (gang.key, gang.title, gang.wanted, gang.state) == (
        "ray/RayCluster/train/llm",
        "RayJob tune",
        3,
        "running",
    )
    assert (facts(raw).cluster, facts(raw).address) == ("llm", "llm-head:8265")


def test_the_dashboard_of_a_cluster_is_at_its_heads_service() -> None:
    told = {"head": {"serviceName": "llm-head-svc"}, "endpoints": {"dashboard": "31265"}}
    assert facts(cluster(status=told)).address == "llm-head-svc.train.svc:8265", "endpoints tell node ports"
    port = {"name": "dashboard", "containerPort": 9000}
    head = {
        "template": {
            "spec": {"containers": [{"name": "ray-head", "ports": [{"name": "gcs", "containerPort": 6379}, port]}]}
        }
    }
    assert facts(cluster(status=told, headGroupSpec=head)).address == "llm-head-svc.train.svc:9000"
    assert facts(cluster(status={"head": {"serviceName": 7}})).address == ""


def test_a_failed_job_is_over_and_keeps_why() -> None:
    status = {"jobDeploymentStatus": "Failed", "reason": "AppFailed", "message": "exit 1", "endTime": at(7)}
    one = said_by(job(status, backoffLimit=2, shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=60))
    assert (one.finished, one.ended_at, words(one)) == (True, when(7), [("UNKNOWN", "exit 1")])
    assert one.ray is not None
    assert one.ray.backoff_limit == 2
    assert one.ray.retention is not None
    assert (one.ray.retention.shuts_down, one.ray.retention.ttl_seconds, one.ray.retention.history) == (True, 60, False)


def test_a_job_tried_again_waits_anew() -> None:
    one = said_by(job({"jobDeploymentStatus": "Retrying", "startTime": at(6), "failed": 1}))
    assert (one.finished, one.waits_since) == (False, when(6))


def test_a_finished_job_whose_cluster_stays_still_holds_its_gpus() -> None:
    made = cluster(owner=("RayJob", "tune", "uid-tune"))
    gang = gang_of(job({"jobDeploymentStatus": "Complete", "rayClusterName": "llm"}), made, *of_ray(4))
    assert (gang.state, gang.gpus_held) == ("running", 32)
    assert gang_of(job({"jobDeploymentStatus": "Complete", "rayClusterName": "llm"})).state == "finished"


def test_a_collector_or_a_rule_of_deletion_keeps_the_evidence() -> None:
    collects = cluster_spec(workers(template={"spec": {"containers": [{"name": "ray-history-collector"}]}}))
    rules = {
        "deletionRules": [
            {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 60}},
        ]
    }
    for raw in (job({}, rayClusterSpec=collects, deletionStrategy=rules),):
        kept = facts(raw).retention
        assert kept is not None
        assert (kept.history, kept.deletion_rules) == (True, True)


def test_a_job_on_a_cluster_of_others_is_no_gang_of_its_own() -> None:
    raw = resource(
        "ray.io/v1",
        "RayJob",
        "probe",
        {"entrypoint": "python probe.py", "clusterSelector": {"ray.io/cluster": "llm"}},
        {"jobDeploymentStatus": "Running", "rayClusterName": "llm"},
    )
    assert tell(raw).objects == ()


def service(*conditions: Json, **active: Any) -> Json:
    spec = {"rayClusterConfig": cluster_spec(workers(replicas=2))}
    status = {"conditions": list(conditions), **({"activeServiceStatus": active} if active else {})}
    return resource("ray.io/v1", "RayService", "chat", spec, status)


def test_a_service_names_its_cluster_and_counts_like_it_until_it_has_one() -> None:
    raw = service(condition("Ready", True, "NonZeroServeEndpoints"), rayClusterName="llm")
    assert (facts(raw).cluster, said_by(raw).phase, gang_of(service()).wanted) == ("llm", "Ready", 3)
    made = cluster(workers(replicas=2), owner=("RayService", "chat", "uid-chat"))
    assert list(gangs_of(raw, made)) == ["ray/RayCluster/train/llm"]


def test_a_suspended_service_says_so() -> None:
    gang = gang_of(service(condition("Suspended", True, since=at(5))))
    assert (gang.state, why(gang).code, why(gang).since) == ("suspended", "SUSPENDED", when(5))


def test_nothing_of_a_cluster_is_made_up_where_its_spec_is_missing() -> None:
    raw = resource("ray.io/v1", "RayCluster", "bare", {"headGroupSpec": HEAD})
    assert replace(group(raw), name="") == RayGroup("", 1, 1, 1)
