"""Lists, pages, selectors, discovery and rights, as a client of a real API server expects them."""

import pytest

from tests.unit.simulator.client import Client


def test_lists_exactly_the_nodes_asked_for(fleet: Client) -> None:
    nodes = fleet.nodes()
    assert len(nodes) == 48
    labels = nodes[0]["metadata"]["labels"]
    for key in ("pool", "rack", "leaf", "rail", "nvlink-domain"):
        assert labels[f"topology.muster.dev/{key}"]
    assert nodes[0]["status"]["nodeInfo"]["bootID"]
    assert nodes[0]["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert "kind" not in nodes[0]
    assert fleet.node("gpu-r01-01")["kind"] == "Node"


def test_pages_come_from_one_snapshot(fleet: Client) -> None:
    first = fleet.get("/api/v1/nodes", limit=20)
    assert first["metadata"]["remainingItemCount"] == 28
    fleet.call("DELETE", "/api/v1/nodes/gpu-r03-16")
    names = [n["metadata"]["name"] for n in first["items"]]
    page = first
    while token := page["metadata"].get("continue"):
        page = fleet.get("/api/v1/nodes", **{"limit": 20, "continue": token})
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [n["metadata"]["name"] for n in page["items"]]
    assert len(names) == len(set(names)) == 48


def test_an_old_continue_token_is_gone(fleet: Client) -> None:
    token = fleet.get("/api/v1/nodes", limit=20)["metadata"]["continue"]
    fleet.inject("watch_gone")
    answer = fleet.call("GET", f"/api/v1/nodes?limit=20&continue={token}")
    assert (answer.status, answer.json["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("topology.muster.dev/rack=r01", 16),
        ("topology.muster.dev/rack in (r01,r02)", 32),
        ("topology.muster.dev/rack notin (r01,r02)", 16),
        ("topology.muster.dev/rack!=r01,nvidia.com/gpu.present", 32),
        ("!nvidia.com/gpu.present", 0),
    ],
)
def test_label_selectors(fleet: Client, selector: str, count: int) -> None:
    assert len(fleet.get("/api/v1/nodes", labelSelector=selector)["items"]) == count


def test_field_selectors(fleet: Client) -> None:
    pods = fleet.pods(fieldSelector="spec.nodeName=gpu-r01-01,status.phase=Running")
    assert len(pods) >= 5
    assert {p["spec"]["nodeName"] for p in pods} == {"gpu-r01-01"}
    refused = fleet.call("GET", "/api/v1/pods?fieldSelector=spec.priority%3D1")
    assert refused.status == 400
    assert "field label not supported: spec.priority" in refused.text


def test_exporters_are_found_from_pods(fleet: Client) -> None:
    pods = fleet.pods(fieldSelector="spec.nodeName=gpu-r01-02")
    scraped = [p for p in pods if p["metadata"].get("annotations", {}).get("prometheus.io/scrape") == "true"]
    assert len(scraped) == 2
    for pod in scraped:
        where = pod["metadata"]["annotations"]
        assert pod["status"]["podIP"] == "127.0.0.1"
        assert int(where["prometheus.io/port"]) == fleet.port
        assert fleet.call("GET", where["prometheus.io/path"]).status == 200


def test_discovery(fleet: Client) -> None:
    assert fleet.call("GET", "/version", token="").json["major"] == "1"
    groups = {g["name"] for g in fleet.get("/apis")["groups"]}
    assert {"policy", "batch", "coordination.k8s.io"} <= groups
    names = {r["name"] for r in fleet.get("/api/v1")["resources"]}
    assert {"nodes", "pods", "pods/eviction", "nodes/status"} <= names
    assert fleet.call("GET", "/apis/policy/v1beta1").status == 404


def test_who_may_do_what(fleet: Client) -> None:
    assert fleet.call("GET", "/api/v1/nodes", token="").status == 401
    assert fleet.call("GET", "/api/v1/nodes", token="nonsense").status == 401
    reader = fleet.simulator.options.read_token
    refused = fleet.call("PATCH", "/api/v1/nodes/gpu-r01-01", {}, token=reader)
    assert refused.status == 403
    assert refused.json["reason"] == "Forbidden"
    assert refused.json["message"].startswith('nodes "gpu-r01-01" is forbidden: User "')
    assert 'cannot patch resource "nodes" in API group "" at the cluster scope' in refused.json["message"]
    assert fleet.stats()["writes"] == {}


def test_access_reviews_answer_and_are_no_writes(fleet: Client) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    ask = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "eviction"}}}
    reader = fleet.simulator.options.read_token
    assert fleet.call("POST", path, ask, token=reader).json["status"]["allowed"] is False
    assert fleet.call("POST", path, ask).json["status"]["allowed"] is True
    assert fleet.stats()["writes"] == {}


def test_live_nodes_have_fresh_heartbeats(fleet: Client) -> None:
    from datetime import UTC, datetime

    ready = next(c for c in fleet.node("gpu-r01-01")["status"]["conditions"] if c["type"] == "Ready")
    age = datetime.now(UTC) - datetime.fromisoformat(ready["lastHeartbeatTime"])
    assert age.total_seconds() <= 11
    lease = fleet.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/gpu-r01-01")
    age = datetime.now(UTC) - datetime.fromisoformat(lease["spec"]["renewTime"])
    assert age.total_seconds() <= 11
