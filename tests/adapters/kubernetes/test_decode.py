"""Foreign objects in the port's words, whatever their shape."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.adapters.kubernetes import decode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NODE_PARTS = ("labels", "annotations", "creationTimestamp", "taints", "conditions", "addresses", "capacity", "nodeInfo")
POD_PARTS = (
    "labels", "ownerReferences", "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds", "containers",
    "volumes", "conditions", "terminationGracePeriodSeconds", "workloadRef", "schedulingGroup", "phase",
)  # fmt: skip


def raw_pod(meta: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "team-a", "name": "rank-0", **(meta or {})}, "spec": spec or {}, "status": status}


def test_a_node_is_read() -> None:
    seen = decode.node(
        {
            "metadata": {
                "name": "gpu-1",
                "uid": "u1",
                "resourceVersion": "7",
                "creationTimestamp": "2026-11-01T00:00:00Z",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "muster.dev/hold": "i/o"},
            },
            "spec": {
                "unschedulable": True,
                "providerID": "aws:///i-1",
                "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
            },
            "status": {
                "capacity": {"nvidia.com/gpu": "8", "cpu": "96"},
                "allocatable": {"nvidia.com/gpu": "7"},
                "nodeInfo": {"bootID": "b1", "systemUUID": "S1", "kernelVersion": "6.8"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "lastHeartbeatTime": "2026-11-29T12:00:00Z",
                        "lastTransitionTime": "2026-11-02T00:00:00+01:00",
                    }
                ],
            },
        }
    )
    assert (seen.name, seen.unschedulable, seen.ready, seen.boot_id) == ("gpu-1", True, True, "b1")
    assert (seen.gpu_capacity, seen.gpu_allocatable) == (8, 7)
    assert seen.ready_since == datetime(2026, 11, 1, 23, 0, tzinfo=UTC)
    assert seen.heartbeat_at == datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
    assert seen.annotations == {"muster.dev/hold": "i/o"}
    assert seen.taints == (("node.kubernetes.io/unschedulable", "", "NoSchedule"),)
    assert seen.addresses == (("InternalIP", "10.0.0.1"),)


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", None), (None, None)])
def test_ready_has_three_values(status: str | None, ready: bool | None) -> None:
    conditions = [{"type": "Ready", "status": status}] if status else []
    assert decode.node({"metadata": {"name": "n"}, "status": {"conditions": conditions}}).ready is ready


def test_gpus_not_advertised_differ_from_none_left() -> None:
    assert decode.node({"metadata": {"name": "n"}, "status": {"capacity": {}}}).gpu_capacity is None
    assert decode.node({"metadata": {"name": "n"}, "status": {"capacity": {"nvidia.com/gpu": "0"}}}).gpu_capacity == 0


@pytest.mark.parametrize(
    ("meta", "kind", "owner"),
    [
        (
            {"ownerReferences": [{"kind": "DaemonSet", "name": "dcgm", "controller": True}]},
            "daemonset",
            "DaemonSet/dcgm",
        ),
        ({"ownerReferences": [{"kind": "Node", "name": "n", "controller": True}]}, "mirror", "Node/n"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "mirror", ""),
        ({"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]}, "workload", "Job/j"),
        ({"ownerReferences": [{"kind": "ConfigMap", "name": "c"}]}, "bare", ""),
        ({}, "bare", ""),
    ],
)
def test_a_pod_is_classified_by_its_controller(meta: dict[str, Any], kind: str, owner: str) -> None:
    seen = decode.pod(raw_pod(meta))
    assert (seen.kind, seen.owner) == (kind, owner)


@pytest.mark.parametrize(
    ("meta", "spec", "gang"),
    [
        ({"labels": {"scheduling.x-k8s.io/pod-group": "pg"}}, {}, "team-a/pg"),
        ({"annotations": {"scheduling.k8s.io/group-name": "vol"}}, {}, "team-a/vol"),
        ({"annotations": {"pod-group-name": "kai"}}, {}, "team-a/kai"),
        ({"labels": {"kueue.x-k8s.io/pod-group-name": "kq"}}, {}, "team-a/kq"),
        ({"labels": {"yunikorn.apache.org/app-id": "app"}}, {}, "team-a/app"),
        ({"labels": {"training.kubeflow.org/job-name": "tj"}}, {}, "team-a/tj"),
        ({"labels": {"jobset.sigs.k8s.io/jobset-name": "js"}}, {}, "team-a/js"),
        ({"labels": {"ray.io/cluster": "ray"}}, {}, "team-a/ray"),
        ({"labels": {"ray.io/cluster": "ray", "scheduling.x-k8s.io/pod-group": "pg"}}, {}, "team-a/pg"),
        (
            {"labels": {"leaderworkerset.sigs.k8s.io/name": "lws", "leaderworkerset.sigs.k8s.io/group-index": "2"}},
            {},
            "team-a/lws-2",
        ),
        ({}, {"schedulingGroup": {"podGroupName": "native"}}, "team-a/native"),
        ({}, {"workloadRef": {"name": "w", "podGroup": "g"}}, "team-a/w.g"),
        ({"labels": {"app": "web"}}, {}, ""),
    ],
)
def test_a_gang_is_known_by_the_marks_of_its_scheduler(meta: dict[str, Any], spec: dict[str, Any], gang: str) -> None:
    assert decode.pod(raw_pod(meta, spec)).gang == gang


def test_a_pod_is_read() -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "4"}}, "ports": [{"containerPort": 9400}]}
    spec = {
        "nodeName": "gpu-1",
        "containers": [gpu, gpu, {"resources": {"requests": {"nvidia.com/gpu": 1}}}, {}],
        "volumes": [{"emptyDir": {}}],
        "terminationGracePeriodSeconds": 60,
    }
    meta = {
        "deletionTimestamp": "2026-11-29T12:01:00Z",
        "deletionGracePeriodSeconds": 60,
        "finalizers": ["example.com/keep"],
    }
    seen = decode.pod(raw_pod(meta, spec, phase="Running", podIP="10.1.0.9"))
    assert (seen.gpus, seen.local_data, seen.grace_seconds, seen.ports) == (9, True, 60, (9400, 9400))
    assert seen.deleting_since == datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
    assert (seen.finalizers, seen.pod_ip, seen.node, seen.phase) == (
        ("example.com/keep",),
        "10.1.0.9",
        "gpu-1",
        "Running",
    )


def test_who_ends_a_pod_when_it_began_and_when_it_must_end_are_read() -> None:
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
    ]
    seen = decode.pod(
        {
            "metadata": {"name": "rank-0"},
            "spec": {"activeDeadlineSeconds": 3600, "resourceClaims": [{"name": "gpus"}]},
            "status": {"startTime": "2026-11-29T03:00:00Z", "conditions": conditions},
        }
    )
    assert (seen.ready, seen.disruption, seen.claims, seen.gpus) == (False, "DeletionByTaintManager", True, 0)
    assert seen.started_at is not None and seen.ends_at is not None
    assert (seen.ends_at - seen.started_at).total_seconds() == 3600


def test_an_event_is_read_with_its_latest_time() -> None:
    seen = decode.event(
        {
            "metadata": {"namespace": "default"},
            "involvedObject": {"kind": "Node", "name": "gpu-1"},
            "reason": "NodeNotReady",
            "firstTimestamp": "2026-11-29T11:00:00Z",
            "lastTimestamp": "2026-11-29T12:00:00Z",
        }
    )
    assert (seen.name, seen.reason, seen.at) == ("gpu-1", "NodeNotReady", datetime(2026, 11, 29, 12, 0, tzinfo=UTC))


@pytest.mark.parametrize("raw", [None, 3, "x", [], {}, {"metadata": None}, {"metadata": {"name": 3}}])
def test_only_an_object_without_a_name_is_refused(raw: Any) -> None:
    for read in (decode.node, decode.pod):
        with pytest.raises(decode.Undecodable):
            read(raw)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(NODE_PARTS), JSON), st.booleans())
def test_no_odd_field_makes_a_node_unreadable(parts: dict[str, Any], whole: bool) -> None:
    raw = {"metadata": {"name": "n", **parts}, "spec": parts if whole else [], "status": parts}
    assert decode.node(raw).name == "n"


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(POD_PARTS), JSON), st.booleans())
def test_no_odd_field_makes_a_pod_unreadable(parts: dict[str, Any], whole: bool) -> None:
    raw = {"metadata": {"name": "p", **parts}, "spec": parts if whole else "odd", "status": parts}
    assert decode.pod(raw).name == "p"
