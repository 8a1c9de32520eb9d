"""Writes: the three kinds of patch, preconditions, create, replace and delete."""

import pytest

from tests.patience import until
from tests.unit.simulator.client import JSON_PATCH, MERGE, STRATEGIC, Client

NODE = "gpu-r01-01"
HOLD = "muster.dev/hold"


def test_a_hold_is_one_merge_patch_with_a_precondition(fleet: Client) -> None:
    version = fleet.node(NODE)["metadata"]["resourceVersion"]
    patch = {
        "metadata": {"resourceVersion": version, "annotations": {HOLD: "7/op-1"}},
        "spec": {"unschedulable": True},
    }
    answer = fleet.patch_node(NODE, patch)
    assert answer.status == 200
    assert answer.json["spec"]["unschedulable"] is True
    assert answer.json["metadata"]["annotations"][HOLD] == "7/op-1"
    again = fleet.patch_node(NODE, patch)
    assert (again.status, again.json["reason"]) == (409, "Conflict")
    assert "the object has been modified" in again.json["message"]


def test_the_cordon_taint_follows(fleet: Client) -> None:
    fleet.patch_node(NODE, {"spec": {"unschedulable": True}})
    key = "node.kubernetes.io/unschedulable"
    until(lambda: [t for t in fleet.node(NODE)["spec"].get("taints", []) if t["key"] == key])
    fleet.patch_node(NODE, {"spec": {"unschedulable": None}})
    until(lambda: "taints" not in fleet.node(NODE)["spec"])


def test_a_failed_test_of_a_json_patch_changes_nothing(fleet: Client) -> None:
    patch = [
        {"op": "test", "path": "/metadata/annotations/muster.dev~1hold", "value": "7/op-1"},
        {"op": "remove", "path": "/metadata/annotations/muster.dev~1hold"},
    ]
    answer = fleet.patch_node(NODE, patch, JSON_PATCH)
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    fleet.patch_node(NODE, {"metadata": {"annotations": {HOLD: "7/op-1"}}})
    assert fleet.patch_node(NODE, patch, JSON_PATCH).status == 200
    assert HOLD not in fleet.node(NODE)["metadata"]["annotations"]


def test_a_json_patch_can_test_the_version(fleet: Client) -> None:
    version = fleet.node(NODE)["metadata"]["resourceVersion"]
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/spec/unschedulable", "value": True},
    ]
    assert fleet.patch_node(NODE, patch, JSON_PATCH).status == 200
    assert fleet.patch_node(NODE, patch, JSON_PATCH).status == 422


def test_strategic_patches_merge_conditions_by_type(fleet: Client) -> None:
    condition = {"type": "MusterHold", "status": "True", "reason": "Held", "message": "x"}
    path = f"/api/v1/nodes/{NODE}/status"
    assert fleet.call("PATCH", path, {"status": {"conditions": [condition]}}, STRATEGIC).status == 200
    kinds = {c["type"]: c["status"] for c in fleet.node(NODE)["status"]["conditions"]}
    assert kinds["MusterHold"] == "True"
    assert kinds["Ready"] == "True"
    ready = next(c for c in fleet.node(NODE)["status"]["conditions"] if c["type"] == "Ready")
    assert ready["lastHeartbeatTime"].startswith("20")


def test_the_main_resource_ignores_status_and_the_status_ignores_spec(fleet: Client) -> None:
    fleet.patch_node(NODE, {"status": {"phase": "Nonsense"}})
    fleet.call("PATCH", f"/api/v1/nodes/{NODE}/status", {"spec": {"unschedulable": True}}, MERGE)
    node = fleet.node(NODE)
    assert "phase" not in node["status"]
    assert "unschedulable" not in node["spec"]


def test_a_patch_that_changes_nothing_makes_no_version(fleet: Client) -> None:
    version = fleet.node(NODE)["metadata"]["resourceVersion"]
    answer = fleet.patch_node(NODE, {"metadata": {"annotations": {"not-there": None}}})
    assert answer.json["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize(
    ("kind", "patch", "status"),
    [
        ("application/json", {}, 415),
        ("application/apply-patch+yaml", {}, 415),
        (MERGE, [], 400),
        (MERGE, {"metadata": {"labels": {"a b": "c"}}}, 422),
        (MERGE, {"spec": {"taints": [{"key": "a", "effect": "Never"}]}}, 422),
        (MERGE, {"metadata": {"name": "other"}}, 400),
    ],
)
def test_bad_patches(fleet: Client, kind: str, patch: object, status: int) -> None:
    assert fleet.patch_node(NODE, patch, kind).status == status


def test_patching_what_is_not_there(fleet: Client) -> None:
    answer = fleet.patch_node("nobody", {})
    assert (answer.status, answer.json["message"]) == (404, 'nodes "nobody" not found')


def test_put_needs_the_latest_version(fleet: Client) -> None:
    node = fleet.node(NODE)
    node["metadata"]["labels"]["tried"] = "yes"
    assert fleet.call("PUT", f"/api/v1/nodes/{NODE}", node).status == 200
    assert fleet.call("PUT", f"/api/v1/nodes/{NODE}", node).status == 409


def test_leases_are_created_renewed_and_guarded(fleet: Client) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "muster"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    made = fleet.call("POST", path, lease)
    assert made.status == 201
    assert fleet.call("POST", path, lease).json["reason"] == "AlreadyExists"
    renewed = made.json
    renewed["spec"]["holderIdentity"] = "b"
    assert fleet.call("PUT", f"{path}/muster", renewed).status == 200
    assert fleet.call("PUT", f"{path}/muster", renewed).status == 409
    assert fleet.call("PUT", f"{path}/muster", lease).status == 422
    assert fleet.stats()["writes"] == {"create leases": 2, "update leases": 3}


def test_generated_names_and_missing_namespaces(fleet: Client) -> None:
    event = {"metadata": {"generateName": "note-"}, "reason": "Held", "involvedObject": {"kind": "Node", "name": NODE}}
    made = fleet.call("POST", "/api/v1/namespaces/default/events", event).json
    assert made["metadata"]["name"].startswith("note-")
    found = fleet.get("/api/v1/events", fieldSelector=f"involvedObject.name={NODE},reason=Held")["items"]
    assert len(found) == 1
    assert fleet.call("POST", "/api/v1/namespaces/nowhere/events", event).status == 404


def test_dry_runs_store_nothing(fleet: Client) -> None:
    answer = fleet.call("PATCH", f"/api/v1/nodes/{NODE}?dryRun=All", {"spec": {"unschedulable": True}}, MERGE)
    assert answer.json["spec"]["unschedulable"] is True
    assert "unschedulable" not in fleet.node(NODE)["spec"]


def test_finalizers_hold_an_object_back(fleet: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    fleet.call("POST", path, {"metadata": {"name": "kept", "finalizers": ["muster.dev/x"]}})
    fleet.call("DELETE", f"{path}/kept")
    assert fleet.get(f"{path}/kept")["metadata"]["deletionTimestamp"]
    fleet.call("PATCH", f"{path}/kept", {"metadata": {"finalizers": None}}, MERGE)
    assert fleet.call("GET", f"{path}/kept").status == 404
