"""Pods: eviction under budgets, termination, replacement, and Jobs that validate a node."""

import re
from typing import Any

import pytest

from tests.patience import until
from tests.unit.simulator.client import MERGE, Client

NODE = "gpu-r01-01"


def gang_pod(fleet: Client, node: str = NODE) -> Any:
    return next(p for p in fleet.pods(fieldSelector=f"spec.nodeName={node}") if p["metadata"]["namespace"] == "train")


def key(pod: Any) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def test_an_evicted_pod_terminates_then_goes_and_its_replacement_runs_elsewhere(fleet: Client) -> None:
    fleet.patch_node(NODE, {"spec": {"unschedulable": True}})
    pod = gang_pod(fleet)
    version = fleet.get("/api/v1/pods", limit=1)["metadata"]["resourceVersion"]
    answer = fleet.evict(pod)
    assert (answer.status, answer.json["status"]) == (201, "Success")
    mine = f"metadata.name={pod['metadata']['name']}"
    first = next(fleet.watch("/api/v1/pods", resourceVersion=version, fieldSelector=mine))
    assert first["object"]["metadata"]["deletionTimestamp"]
    assert first["object"]["metadata"]["deletionGracePeriodSeconds"] == 60

    def replaced() -> bool:
        found = fleet.call("GET", key(pod))
        return found.status == 200 and found.json["metadata"]["uid"] != pod["metadata"]["uid"]

    until(replaced)
    running = until(lambda: p if (p := fleet.get(key(pod)))["status"]["phase"] == "Running" else None)
    assert running["spec"]["nodeName"] != NODE


def test_a_budget_refuses_the_second_eviction_and_yields_again(fleet: Client) -> None:
    pods = [p for p in fleet.pods() if p["metadata"]["labels"].get("app", "").startswith("tokenizer")]
    assert fleet.evict(pods[0]).status == 201
    refused = fleet.evict(pods[1])
    assert refused.status == 429
    assert refused.json["reason"] == "TooManyRequests"
    cause = refused.json["details"]["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"].startswith("The disruption budget tokenizer-1 needs")
    until(lambda: fleet.evict(pods[1]).status == 201)
    assert fleet.stats()["writes"]["create pods/eviction"] >= 3


def test_evicting_what_is_gone(fleet: Client) -> None:
    pod = gang_pod(fleet)
    pod["metadata"]["name"] = "nobody"
    assert fleet.evict(pod).status == 404


def test_a_new_budget_is_first_processed(fleet: Client) -> None:
    pod = gang_pod(fleet)
    labels = {"training.kubeflow.org/job-name": pod["metadata"]["labels"]["training.kubeflow.org/job-name"]}
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": "100%", "selector": {"matchLabels": labels}}}
    path = "/apis/policy/v1/namespaces/train/poddisruptionbudgets"
    assert fleet.call("POST", path, budget).status == 201
    status = until(lambda: s if (s := fleet.get(f"{path}/b")["status"]).get("observedGeneration") else None)
    assert status["disruptionsAllowed"] == 0
    assert status["currentHealthy"] == status["desiredHealthy"] > 0
    assert fleet.evict(pod).status == 429
    fleet.call("DELETE", f"{path}/b")
    assert fleet.evict(pod).status == 201


def test_a_pod_that_two_budgets_cover_cannot_be_evicted(fleet: Client) -> None:
    assert fleet.inject("pdb_block", NODE).status == 200
    pod = gang_pod(fleet)
    assert fleet.evict(pod).status == 429
    budget = {"metadata": {"name": "second"}, "spec": {"selector": {}}}
    fleet.call("POST", "/apis/policy/v1/namespaces/train/poddisruptionbudgets", budget)
    assert fleet.evict(pod).status == 500
    fleet.call("DELETE", "/apis/policy/v1/namespaces/train/poddisruptionbudgets/second")
    fleet.inject("pdb_block", NODE, clear=True)
    assert fleet.evict(pod).status == 201


def test_a_stuck_pod_stays_until_somebody_frees_it(fleet: Client) -> None:
    fleet.inject("pod_stuck", NODE)
    pod = gang_pod(fleet)
    fleet.evict(pod)
    world = fleet.simulator.world
    until(lambda: world is not None and world.kubelets.stuck)
    assert fleet.get(key(pod))["metadata"]["uid"] == pod["metadata"]["uid"]
    fleet.inject("pod_stuck", NODE, clear=True)
    until(lambda: fleet.call("GET", key(pod)).json["metadata"].get("uid") != pod["metadata"]["uid"])


def test_a_dead_kubelet_ends_no_pod(fleet: Client) -> None:
    pod = gang_pod(fleet)
    fleet.inject("not_ready", NODE)
    fleet.evict(pod)
    until(lambda: "unreachable" in str(fleet.node(NODE)["spec"].get("taints")))
    ending = fleet.get(key(pod))
    assert ending["metadata"]["uid"] == pod["metadata"]["uid"]
    assert [c["reason"] for c in ending["status"]["conditions"] if c["type"] == "DisruptionTarget"] == [
        "EvictionByEvictionAPI"
    ]
    fleet.inject("not_ready", NODE, clear=True)
    until(lambda: fleet.call("GET", key(pod)).json["metadata"].get("uid") != pod["metadata"]["uid"])


def test_a_finalizer_keeps_a_pod(fleet: Client) -> None:
    pod = gang_pod(fleet)
    fleet.call("PATCH", key(pod), {"metadata": {"finalizers": ["example.org/slow"]}}, MERGE)
    fleet.evict(pod)
    until(lambda: not ready(fleet.get(key(pod))))
    fleet.call("PATCH", key(pod), {"metadata": {"finalizers": None}}, MERGE)
    until(lambda: fleet.call("GET", key(pod)).json["metadata"].get("uid") != pod["metadata"]["uid"])


def test_daemon_pods_come_back_on_their_cordoned_node(fleet: Client) -> None:
    fleet.patch_node(NODE, {"spec": {"unschedulable": True}})
    pods = fleet.pods(fieldSelector=f"spec.nodeName={NODE}")
    pod = next(p for p in pods if p["metadata"]["labels"].get("app") == "node-exporter")
    fleet.call("DELETE", key(pod) + "?gracePeriodSeconds=0")

    def back() -> Any:
        found = fleet.pods(
            fieldSelector=f"spec.nodeName={NODE},status.phase=Running", labelSelector="app=node-exporter"
        )
        return [p for p in found if p["metadata"]["uid"] != pod["metadata"]["uid"]]

    assert len(until(back)) == 1


def ready(pod: Any) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])


def job(name: str = "muster-validate-1", **spec: Any) -> Any:
    container = {"name": "validate", "image": "registry.local/validate:1"}
    pod = {"restartPolicy": "Never", "containers": [container], "nodeName": NODE}
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {"spec": pod}} | spec}


JOBS = "/apis/batch/v1/namespaces/default/jobs"


def finished(fleet: Client, name: str = "muster-validate-1") -> Any:
    return until(lambda: j if (j := fleet.get(f"{JOBS}/{name}"))["status"].get("conditions") else None)


def test_a_validation_job_runs_on_its_cordoned_node(fleet: Client) -> None:
    fleet.patch_node(NODE, {"spec": {"unschedulable": True}})
    assert fleet.call("POST", JOBS, job()).status == 201
    status = finished(fleet)["status"]
    assert status["succeeded"] == 1
    assert status["conditions"][-1]["type"] == "Complete"
    pods = fleet.pods(labelSelector="batch.kubernetes.io/job-name=muster-validate-1")
    assert [p["spec"]["nodeName"] for p in pods] == [NODE]
    assert "all checks passed" in fleet.call("GET", key(pods[0]) + "/log").text
    fleet.call("DELETE", f"{JOBS}/muster-validate-1")
    until(lambda: not fleet.pods(labelSelector="batch.kubernetes.io/job-name=muster-validate-1"))
    assert fleet.stats()["writes"]["create jobs"] == 1


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [("gpu_lost", "GPU 2 is not on the bus"), ("ecc_dbe", "memory errors"), ("nfs_hang", "mount /data")],
)
def test_a_validation_job_fails_while_the_node_is_faulty(fleet: Client, fault: str, complaint: str) -> None:
    fleet.inject(fault, NODE, None if fault == "nfs_hang" else 2)
    fleet.call("POST", JOBS, job())
    done = finished(fleet)
    assert done["status"]["conditions"][-1]["type"] == "Failed"
    assert done["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    pod = fleet.pods(labelSelector="job-name=muster-validate-1")[0]
    assert complaint in pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]


def test_a_job_by_hostname_needs_a_toleration_on_a_cordoned_node(fleet: Client) -> None:
    fleet.patch_node(NODE, {"spec": {"unschedulable": True}})
    body = job("tolerant")
    pod = body["spec"]["template"]["spec"]
    del pod["nodeName"]
    pod["nodeSelector"] = {"kubernetes.io/hostname": NODE}
    fleet.call("POST", JOBS, body)
    unscheduled = until(lambda: [e for e in fleet.get("/api/v1/events")["items"] if e["reason"] == "FailedScheduling"])
    assert unscheduled
    body["metadata"]["name"] = "tolerant-2"
    pod["tolerations"] = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    fleet.call("POST", JOBS, body)
    assert finished(fleet, "tolerant-2")["status"]["succeeded"] == 1


def test_bad_jobs_are_refused(fleet: Client) -> None:
    body = job()
    body["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    answer = fleet.call("POST", JOBS, body)
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "spec.template.spec.restartPolicy"


def test_gangs_wait_whole(fleet: Client) -> None:
    waiting = [p for p in fleet.pods(fieldSelector="status.phase=Pending") if p["metadata"]["namespace"] == "train"]
    assert len({p["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for p in waiting}) == 2
    assert not any(p["spec"].get("nodeName") for p in waiting)


def gpu_uuids(fleet: Client) -> list[str]:
    text = fleet.call("GET", f"/nodes/{NODE}/dcgm/metrics").text
    return re.findall(r'DCGM_FI_DEV_GPU_TEMP\{gpu="\d",UUID="([^"]+)"', text)


def reset_job(name: str, uuid: str, privileged: bool = True) -> Any:
    body = job(name)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["nvidia-smi", "--gpu-reset", "-i", uuid]
    container["securityContext"] = {"privileged": privileged}
    return body


def empty(fleet: Client) -> None:
    fleet.patch_node(NODE, {"spec": {"unschedulable": True}})
    for pod in fleet.pods(fieldSelector=f"spec.nodeName={NODE}"):
        if pod["metadata"]["ownerReferences"][0]["kind"] != "DaemonSet":
            fleet.evict(pod)

    def emptied() -> bool:
        pods = fleet.pods(fieldSelector=f"spec.nodeName={NODE}")
        return all(pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet" for pod in pods)

    until(emptied)


def test_a_gpu_reset_mends_what_the_driver_latched_and_nothing_else(fleet: Client) -> None:
    uuid = gpu_uuids(fleet)[3]
    empty(fleet)
    fleet.inject("ecc_dbe", NODE, device=3)

    def offered() -> str:
        return str(fleet.node(NODE)["status"]["allocatable"]["nvidia.com/gpu"])

    until(lambda: offered() == "7")
    fleet.call("POST", JOBS, reset_job("muster-reset-a", uuid))
    assert finished(fleet, "muster-reset-a")["status"]["succeeded"] == 1
    until(lambda: offered() == "8")
    assert fleet.stats()["gpu_resets"] == {NODE: 1} and NODE not in fleet.stats()["boots"]


@pytest.mark.parametrize("why", ["in use", "lost", "Permissions", "No devices"])
def test_a_gpu_reset_that_cannot_be_is_refused_in_words(fleet: Client, why: str) -> None:
    uuid = gpu_uuids(fleet)[3] if why != "No devices" else "GPU-nobody"
    if why != "in use":
        empty(fleet)
    if why == "lost":
        fleet.inject("xid79", NODE, device=3)
    fleet.call("POST", JOBS, reset_job("muster-reset-b", uuid, why != "Permissions"))
    assert finished(fleet, "muster-reset-b")["status"]["failed"] == 1
    pod = fleet.pods(labelSelector="job-name=muster-reset-b")[0]
    assert why in pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    assert fleet.stats()["gpu_resets"] == {}
