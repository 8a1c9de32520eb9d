"""Writes are sent once, with a precondition, and their failures are told apart."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.adapters.kubernetes import client
from fleet.adapters.kubernetes.acting import KubernetesActor
from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.decode import pod
from fleet.ports.cluster import PURPOSE_LABEL, HoldRequest, JobRequest, PodSeen
from fleet.ports.errors import (
    Conflict,
    EvictionBlocked,
    MissingRight,
    NotFound,
    PermanentError,
    TemporaryError,
    UnknownOutcome,
)
from tests.adapters.kubernetes.scripted import Script, answer, cut, hang, kubeconfig, page, status, truncated

NODE = "/api/v1/nodes/gpu-1"
EVICTION = "/api/v1/namespaces/team-a/pods/rank-0/eviction"
POD = "/api/v1/namespaces/team-a/pods/rank-0"
JOBS = "/apis/batch/v1/namespaces/muster/jobs"
HOLD = HoldRequest("gpu-1", "inc-7/op-1", "41")


def raw_node(hold: str | None, version: str = "41") -> dict[str, Any]:
    annotations = {"muster.dev/hold": hold} if hold else {}
    return {"metadata": {"name": "gpu-1", "resourceVersion": version, "annotations": annotations}, "spec": {}}


@pytest.fixture
def rank() -> PodSeen:
    return pod({"metadata": {"namespace": "team-a", "name": "rank-0", "uid": "uid-1"}})


def test_a_hold_is_one_patch_with_annotation_cordon_and_precondition(script: Script, actor: KubernetesActor) -> None:
    held = raw_node("inc-7/op-1", "42") | {"spec": {"unschedulable": True}}
    script.on(f"PATCH {NODE}", answer(200, held))
    seen = actor.hold(HOLD)
    assert seen.unschedulable and seen.resource_version == "42"
    (sent,) = script.asked
    assert sent.headers["Content-Type"] == "application/merge-patch+json"
    assert sent.body == {
        "metadata": {"annotations": {"muster.dev/hold": "inc-7/op-1"}, "resourceVersion": "41"},
        "spec": {"unschedulable": True},
    }


def test_a_hold_on_a_node_that_changed_is_a_conflict(script: Script, actor: KubernetesActor) -> None:
    script.on(f"PATCH {NODE}", status(409, "the object has been modified", "Conflict"))
    with pytest.raises(Conflict):
        actor.hold(HOLD)
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (cut, UnknownOutcome),
        (status(500, "etcd timed out"), UnknownOutcome),
        (status(504, "gateway"), UnknownOutcome),
        (truncated, UnknownOutcome),
        (answer(200, b"<html>"), UnknownOutcome),
        (status(429, "slow down", Retry_After="3"), TemporaryError),
        (status(401, "Unauthorized"), PermanentError),
        (status(403, "forbidden: cannot patch"), MissingRight),
        (status(404, "nodes gpu-1 not found", "NotFound"), NotFound),
        (status(422, "invalid"), PermanentError),
    ],
)
def test_a_write_that_fails_is_sent_once_and_named(
    script: Script, actor: KubernetesActor, behaviour: Any, expected: type[Exception]
) -> None:
    script.on(f"PATCH {NODE}", behaviour)
    with pytest.raises(expected) as caught:
        actor.hold(HOLD)
    assert type(caught.value) is expected
    assert "127.0.0.1" in str(caught.value)
    assert len(script.asked) == 1


def test_a_write_without_an_answer_has_an_unknown_outcome(
    script: Script, actor: KubernetesActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "WRITE_SECONDS", 0.3)
    script.on(f"PATCH {NODE}", hang)
    with pytest.raises(UnknownOutcome):
        actor.hold(HOLD)
    assert len(script.asked) == 1


def test_a_write_that_never_left_is_temporary(tmp_path: Path) -> None:
    nowhere = KubernetesActor(ApiServer(kubeconfig(tmp_path, "http://127.0.0.1:9"), None, frozenset()))
    with pytest.raises(TemporaryError) as caught:
        nowhere.hold(HOLD)
    assert caught.value.code == "api_unreachable"
    assert "patch nodes" in str(caught.value) and "http://127.0.0.1:9" in str(caught.value)


def test_a_release_removes_only_our_own_hold(script: Script, actor: KubernetesActor) -> None:
    script.on(f"GET {NODE}", answer(200, raw_node("inc-7/op-1")))
    script.on(f"PATCH {NODE}", answer(200, raw_node(None, "43")))
    actor.release("gpu-1", "inc-7/op-1", "41", uncordon=True)
    assert script.asked[-1].body == {
        "metadata": {"annotations": {"muster.dev/hold": None}, "resourceVersion": "41"},
        "spec": {"unschedulable": None},
    }
    actor.release("gpu-1", "inc-7/op-1", "", uncordon=False)
    assert script.asked[-1].body == {"metadata": {"annotations": {"muster.dev/hold": None}, "resourceVersion": "41"}}


def test_a_heartbeat_between_reading_and_releasing_is_no_conflict(script: Script, actor: KubernetesActor) -> None:
    script.on(f"GET {NODE}", answer(200, raw_node("inc-7/op-1")))
    modified = status(409, "the object has been modified", "Conflict")
    script.on(f"PATCH {NODE}", modified, answer(200, raw_node(None, "43")), modified)
    actor.release("gpu-1", "inc-7/op-1", "", uncordon=True)
    with pytest.raises(Conflict):
        actor.release("gpu-1", "inc-7/op-1", "41", uncordon=True)
    assert len(script.sent("PATCH", NODE)) == 3


@pytest.mark.parametrize("found", ["inc-8/op-9", None])
def test_another_hold_is_not_released(script: Script, actor: KubernetesActor, found: str | None) -> None:
    script.on(f"GET {NODE}", answer(200, raw_node(found)))
    with pytest.raises(Conflict) as caught:
        actor.release("gpu-1", "inc-7/op-1", "41", uncordon=True)
    assert caught.value.code == "hold_changed"
    assert not script.sent("PATCH", NODE)


def budget_refusal(message: str, cause: str) -> Any:
    details = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    return status(429, message, "TooManyRequests", details, Retry_After="10")


def test_an_eviction_names_the_pod_by_uid(script: Script, actor: KubernetesActor, rank: PodSeen) -> None:
    script.on(f"POST {EVICTION}", answer(201, {"kind": "Status", "status": "Success"}))
    actor.evict(rank)
    body = script.asked[0].body
    assert (body["apiVersion"], body["deleteOptions"]) == ("policy/v1", {"preconditions": {"uid": "uid-1"}})
    assert body["metadata"] == {"name": "rank-0", "namespace": "team-a"}


def test_a_budget_that_refuses_is_named(script: Script, actor: KubernetesActor, rank: PodSeen) -> None:
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    script.on(
        f"POST {EVICTION}",
        budget_refusal(text, "The disruption budget train.pdb needs 4 healthy pods and has 4 currently"),
        budget_refusal(text, "The disruption budget train.pdb is still being processed by the server."),
    )
    for _ in range(2):
        with pytest.raises(EvictionBlocked) as caught:
            actor.evict(rank)
        assert (caught.value.budget, caught.value.retry_after) == ("team-a/train.pdb", 10.0)


def test_throttling_is_not_a_budget(script: Script, actor: KubernetesActor, rank: PodSeen) -> None:
    throttled = answer(429, b"Too many requests, please try again later.\n", Retry_After="1")
    script.on(f"POST {EVICTION}", throttled)
    with pytest.raises(TemporaryError) as caught:
        actor.evict(rank)
    assert not isinstance(caught.value, EvictionBlocked)
    assert (caught.value.code, caught.value.retry_after) == ("throttled", 1.0)


def test_a_pod_that_is_gone_or_replaced_is_not_found(script: Script, actor: KubernetesActor, rank: PodSeen) -> None:
    replaced = "Precondition failed: UID in precondition: uid-1, UID in object meta: uid-2"
    script.on(f"POST {EVICTION}", status(404, "pods rank-0 not found", "NotFound"), status(409, replaced, "Conflict"))
    for _ in range(2):
        with pytest.raises(NotFound):
            actor.evict(rank)


def test_a_delete_sends_the_uid_and_leaves_the_grace_period_to_the_pod(
    script: Script, actor: KubernetesActor, rank: PodSeen
) -> None:
    replaced = "Precondition failed: UID in precondition: uid-1, UID in object meta: uid-2"
    script.on(f"DELETE {POD}", answer(200, {}), status(409, replaced, "Conflict"), status(403, "cannot delete"))
    actor.delete(rank)
    assert script.asked[0].body == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "uid-1"}}
    with pytest.raises(NotFound):
        actor.delete(rank)
    with pytest.raises(MissingRight):
        actor.delete(rank)


def test_two_budgets_on_one_pod_need_a_person(script: Script, actor: KubernetesActor, rank: PodSeen) -> None:
    said = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    script.on(f"POST {EVICTION}", status(500, said, "InternalError"))
    with pytest.raises(PermanentError) as caught:
        actor.evict(rank)
    assert caught.value.code == "pdb_many"


WEBHOOK = 'admission webhook "drain.kafka.example" denied the request: the pod will be rolled by its operator'


@pytest.mark.parametrize(
    "behaviour",
    [
        status(403, WEBHOOK, "Forbidden"),
        status(400, WEBHOOK, "BadRequest"),
        status(429, WEBHOOK, "TooManyRequests"),
        status(500, 'Internal error occurred: failed calling webhook "drain.kafka.example": connection refused'),
        status(
            403, "pods \"rank-0\" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'b' denied request: no"
        ),
    ],
)
def test_admission_that_keeps_a_pod_is_neither_a_missing_right_nor_a_busy_server(
    script: Script, actor: KubernetesActor, rank: PodSeen, behaviour: Any
) -> None:
    script.on(f"POST {EVICTION}", behaviour)
    with pytest.raises(TemporaryError) as caught:
        actor.evict(rank)
    assert caught.value.code == "eviction_denied" and "Admission refuses" in str(caught.value)


def test_admission_that_keeps_a_node_from_a_hold_is_no_missing_right(script: Script, actor: KubernetesActor) -> None:
    script.on(f"PATCH {NODE}", status(403, WEBHOOK, "Forbidden"))
    with pytest.raises(PermanentError) as caught:
        actor.hold(HOLD)
    assert caught.value.code == "api_refused" and "drain.kafka.example" in str(caught.value)


@pytest.mark.parametrize("causes", [[{"reason": "NamespaceTerminating", "message": "it ends"}], []])
def test_a_pod_whose_namespace_ends_is_asked_for_again_later(
    script: Script, actor: KubernetesActor, rank: PodSeen, causes: list[dict[str, str]]
) -> None:
    said = 'pods "rank-0" is forbidden: unable to create new content in namespace team-a because it is being terminated'
    script.on(f"POST {EVICTION}", status(403, said, "Forbidden", {"causes": causes}))
    with pytest.raises(TemporaryError) as caught:
        actor.evict(rank)
    assert caught.value.code == "namespace_terminating"


def test_a_name_that_holds_the_letters_uid_makes_no_pod_gone(script: Script, actor: KubernetesActor) -> None:
    druid = pod({"metadata": {"namespace": "team-a", "name": "druid-0", "uid": "uid-1"}})
    path = "/api/v1/namespaces/team-a/pods/druid-0/eviction"
    script.on(
        f"POST {path}", status(409, 'Operation cannot be fulfilled on pods "druid-0": it was modified', "Conflict")
    )
    with pytest.raises(Conflict):
        actor.evict(druid)


JOB = JobRequest(
    "validate-gpu-1",
    "muster",
    "gpu-1",
    "registry.local/validate:1",
    ("validate",),
    300,
    {"muster.dev/incident": "7"},
    8,
)


def test_a_validation_job_runs_once_on_its_node_whatever_the_taints(script: Script, actor: KubernetesActor) -> None:
    script.on(f"POST {JOBS}", answer(201, {}), status(409, "exists", "AlreadyExists"))
    actor.create_job(JOB)
    actor.create_job(JOB)
    sent = script.asked[0].body
    spec, template = sent["spec"], sent["spec"]["template"]["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 300)
    assert spec["ttlSecondsAfterFinished"] > 0
    assert (template["nodeName"], template["tolerations"]) == ("gpu-1", [{"operator": "Exists"}])
    assert template["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "8"}}
    assert sent["metadata"]["labels"]["muster.dev/incident"] == "7"


def test_a_reset_job_reaches_the_nodes_devices_with_the_runtime_that_it_is_told(
    script: Script, actor: KubernetesActor
) -> None:
    script.on(f"POST {JOBS}", answer(201, {}))
    labels = {PURPOSE_LABEL: "reset-gpu"}
    more: dict[str, Any] = {"privileged": True, "runtime_class": "nvidia", "env": {"NVIDIA_VISIBLE_DEVICES": "all"}}
    actor.create_job(dataclasses.replace(JOB, labels=labels, gpus=0, **more))
    pod = script.asked[0].body["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert (container["name"], container["securityContext"]) == ("reset-gpu", {"privileged": True})
    assert container["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    assert (pod["runtimeClassName"], pod["automountServiceAccountToken"]) == ("nvidia", False)


@pytest.mark.parametrize(
    ("given", "phase"),
    [
        ({}, "pending"),
        ({"active": 1, "ready": 0}, "pending"),
        ({"active": 1, "ready": 1}, "running"),
        ({"active": 1}, "running"),
        ({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}, "succeeded"),
        ({"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}, "failed"),
    ],
)
def test_a_job_is_read(script: Script, actor: KubernetesActor, given: dict[str, Any], phase: str) -> None:
    script.on(f"GET {JOBS}/validate-gpu-1", answer(200, {"status": given}))
    assert actor.job("muster", "validate-gpu-1").phase == phase


def test_a_failed_job_repeats_the_last_words_of_its_pod(script: Script, actor: KubernetesActor) -> None:
    failed = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}}
    ended = {"state": {"terminated": {"exitCode": 1, "message": "GPU 3: bandwidth 11 GB/s, wanted 40"}}}
    script.on(f"GET {JOBS}/validate-gpu-1", answer(200, failed))
    script.on("GET /api/v1/namespaces/muster/pods", page([{"status": {"containerStatuses": [ended]}}], "1"))
    assert "GPU 3: bandwidth 11 GB/s" in actor.job("muster", "validate-gpu-1").text


PODS = "/api/v1/namespaces/muster/pods"


def pod_made(name: str, at: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": at}, "spec": {"containers": [{"name": "validate"}]}}


def test_the_log_of_the_newest_pod_is_read_within_bounds(script: Script, actor: KubernetesActor) -> None:
    older, newer = pod_made("v-a", "2026-11-29T03:00:00Z"), pod_made("v-b", "2026-11-29T03:05:00Z")
    script.on(f"GET {PODS}", page([older, newer], "1"))
    script.on(f"GET {PODS}/v-b/log", answer(200, b"\x1b[32mbusbw\xff 470\n"))
    assert actor.job_log("muster", "validate-gpu-1") == "\x1b[32mbusbw\ufffd 470\n"
    asked = script.asked[-1].query
    assert asked["container"] == "validate" and asked["limitBytes"].isdecimal() and asked["tailLines"].isdecimal()


def test_a_log_that_is_gone_is_none_and_one_that_is_forbidden_is_told(script: Script, actor: KubernetesActor) -> None:
    script.on(f"GET {PODS}", page([], "1"), page([pod_made("v", "2026-11-29T03:00:00Z")], "1"))
    assert actor.job_log("muster", "validate-gpu-1") is None
    assert actor.job_log("muster", "validate-gpu-1") is None, "the pod went between the two questions"
    script.on(f"GET {PODS}/v/log", status(403, "forbidden", "Forbidden"))
    with pytest.raises(MissingRight):
        actor.job_log("muster", "validate-gpu-1")


def test_a_test_sees_the_nodes_mounts_and_gives_way_to_everybody(script: Script, actor: KubernetesActor) -> None:
    script.on(f"POST {JOBS}", answer(201, {}))
    more: dict[str, Any] = {"mounts": ("/data", "/home:ro"), "priority_class": "idle-tests"}
    actor.create_job(dataclasses.replace(JOB, **more))
    pod = script.asked[0].body["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "idle-tests"
    assert [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume] == ["/data", "/home"]
    seen = {mount["mountPath"]: mount.get("readOnly") for mount in pod["containers"][0]["volumeMounts"]}
    assert seen == {"/data": False, "/home": True, "/dev/shm": None}


def test_a_job_that_does_not_exist_is_missing_and_can_be_deleted(script: Script, actor: KubernetesActor) -> None:
    assert actor.job("muster", "validate-gpu-1").phase == "missing"
    actor.delete_job("muster", "validate-gpu-1")
    assert script.asked[-1].body["propagationPolicy"] == "Background"


def test_each_acting_right_is_proved(script: Script, actor: KubernetesActor) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    yes, no = (
        answer(201, {"status": {"allowed": True}}),
        answer(201, {"status": {"allowed": False, "reason": "no rule"}}),
    )
    script.on(f"POST {path}", yes, yes, no, yes)
    (sentence,) = actor.check()
    assert "may not create pods/eviction" in sentence and "no node can be drained" in sentence
    asked = [one.body["spec"]["resourceAttributes"] for one in script.asked]
    assert {"verb": "patch", "resource": "nodes", "group": ""} in asked
    assert any(one.get("subresource") == "eviction" for one in asked)


def test_an_eviction_in_a_namespace_that_ends_is_temporary(
    script: Script, actor: KubernetesActor, rank: PodSeen
) -> None:
    details = {"causes": [{"reason": "NamespaceTerminating"}]}
    script.on(f"POST {EVICTION}", status(403, "namespace is being terminated", "Forbidden", details))
    with pytest.raises(TemporaryError):
        actor.evict(replace(rank, uid="uid-1"))
