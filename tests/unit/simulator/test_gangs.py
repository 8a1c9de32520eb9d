"""Teams that share GPUs: what a client of the API and of the dashboards sees of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.simulator.embed import running
from fleet.simulator.options import Options
from fleet.simulator.scenarios import ScenarioError, load
from tests.patience import until
from tests.unit.simulator.client import MERGE, Client

Json = dict[str, Any]
SCENARIO: Json = {
    "gangs": {
        "pools": [{"name": "shared", "nodes": 3}, {"name": "other", "nodes": 2, "cordoned": 1}],
        "queues": [{"name": "team", "namespace": "team-a", "gpus": 16}],
        "teams": [
            {"name": "first", "namespace": "team-a", "pool": "shared", "workers": 2, "queue": "team", "ends_after": 60,
             "ttl": 5},
            {"name": "second", "namespace": "team-a", "pool": "shared", "at": 2, "workers": 2, "queue": "team"},
            {"name": "large", "namespace": "team-b", "pool": "other", "at": 2, "workers": 2},
        ],
    }
}  # fmt: skip


@pytest.fixture
def teams(tmp_path: Path) -> Iterator[Client]:
    file = tmp_path / "teams.yaml"
    file.write_text(yaml.safe_dump(SCENARIO))
    with running(Options(nodes=16, var=tmp_path, scenario=str(file), speed=50)) as simulator:
        yield Client(simulator)


def job(fleet: Client, name: str, namespace: str = "team-a") -> Json:
    return dict(fleet.get(f"/apis/ray.io/v1/namespaces/{namespace}/rayjobs/{name}"))


def phase(fleet: Client, name: str, namespace: str = "team-a") -> str:
    found = [one for one in fleet.get("/apis/ray.io/v1/rayjobs")["items"] if one["metadata"]["name"] == name]
    return str((found[0].get("status") or {}).get("jobDeploymentStatus", "")) if found else ""


def pods(fleet: Client, name: str) -> list[Json]:
    """Of the Ray cluster of a job."""
    return [p for p in fleet.pods() if p["metadata"]["labels"].get("ray.io/cluster", "").startswith(name)]


def ask(fleet: Client, name: str, path: str) -> Any:
    address = job(fleet, name)["status"]["dashboardURL"].removeprefix(fleet.simulator.address)
    return fleet.call("GET", f"{address}{path}", token="")


def test_a_job_of_a_queue_starts_when_its_quota_is_there_and_the_next_when_it_ends(teams: Client) -> None:
    until(lambda: phase(teams, "first") == "Running")
    until(lambda: phase(teams, "second") == "Suspended")
    (queue,) = teams.get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues")["items"]
    assert queue["status"]["flavorsUsage"][0]["resources"] == [{"name": "nvidia.com/gpu", "total": "16"}]
    waiting = teams.get("/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/workloads/rayjob-second")
    (told,) = waiting["status"]["conditions"]
    assert (told["type"], told["status"], told["reason"]) == ("QuotaReserved", "False", "WaitingForQuota")
    assert not pods(teams, "second")
    until(lambda: phase(teams, "first") == "Complete")
    until(lambda: phase(teams, "second") == "Running")
    assert not pods(teams, "first"), "its cluster went with its time to live"


def test_a_gang_is_placed_whole_or_not_at_all(teams: Client) -> None:
    until(lambda: len(pods(teams, "large")) == 3)
    until(lambda: phase(teams, "first") == "Running")
    assert not any(pod["spec"].get("nodeName") for pod in pods(teams, "large")), "one node is free, and it needs two"
    groups = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team-b/podgroups"
    told = [(group["spec"]["minMember"], group["status"]["phase"]) for group in teams.get(groups)["items"]]
    assert told == [(3, "Pending")]
    (cordoned,) = (node["metadata"]["name"] for node in teams.nodes() if node["spec"].get("unschedulable"))
    teams.patch_node(cordoned, {"spec": {"unschedulable": None}})
    until(lambda: phase(teams, "large") == "Running")
    until(lambda: [group["status"]["phase"] for group in teams.get(groups)["items"]] == ["Running"])


def test_a_suspended_job_gives_its_nodes_back(teams: Client) -> None:
    until(lambda: phase(teams, "first") == "Running")
    path = "/apis/ray.io/v1/namespaces/team-b/rayjobs/large"
    until(lambda: phase(teams, "large"))
    assert teams.call("PATCH", path, {"spec": {"suspend": True}}, MERGE).status == 200
    until(lambda: phase(teams, "large") == "Suspended" and not pods(teams, "large"))
    assert teams.call("PATCH", path, {"spec": {"suspend": False}}, MERGE).status == 200
    until(lambda: len(pods(teams, "large")) == 3)


def test_a_dashboard_tells_of_groups_nodes_jobs_and_runs_and_is_gone_with_its_head(teams: Client) -> None:
    until(lambda: phase(teams, "first") == "Running")
    told = ask(teams, "first", "/api/v0/placement_groups?detail=1&limit=10").json["data"]["result"]["result"]
    assert [(group["state"], len(group["bundles"])) for group in told] == [("CREATED", 2)]
    nodes = ask(teams, "first", "/api/v0/nodes?detail=1").json["data"]["result"]["result"]
    assert sorted(node["resources_total"].get("GPU", 0) for node in nodes) == [0, 8.0, 8.0]
    assert [one["status"] for one in ask(teams, "first", "/api/jobs/").json] == ["RUNNING"]
    (run,) = ask(teams, "first", "/api/train/v2/runs/v1").json["train_runs"]
    assert run["run_settings"]["scaling_config"]["num_workers"] == 2
    assert ask(teams, "first", "/api/nothing").status == 404
    address = job(teams, "first")["status"]["dashboardURL"].removeprefix(teams.simulator.address)
    teams.call("DELETE", "/apis/ray.io/v1/namespaces/team-a/rayjobs/first")
    until(lambda: teams.call("GET", f"{address}/api/version", token="").status == 503)


def test_a_cluster_that_a_client_makes_is_run_like_the_scenarios(teams: Client) -> None:
    until(lambda: phase(teams, "first") == "Running")
    made = job(teams, "first")["spec"]["rayClusterSpec"]
    made["workerGroupSpecs"][0] |= {"replicas": 1, "minReplicas": 1}
    teams.call("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "own"}, "spec": made}
    assert teams.call("POST", "/apis/ray.io/v1/namespaces/mine/rayclusters", body).status == 201
    cluster = until(lambda: _ready(teams.get("/apis/ray.io/v1/namespaces/mine/rayclusters/own")))
    assert cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"]


def _ready(cluster: Json) -> Json | None:
    return cluster if (cluster.get("status") or {}).get("state") == "ready" else None


@pytest.mark.parametrize(
    ("gangs", "said"),
    [
        ({"teems": []}, "unknown teems; possible are least_nodes, pools, queues, teams"),
        ({"teams": [{"name": "a", "namespace": "n"}]}, r"teams\[0\]: .*workers"),
        ({"teams": [{"name": "a", "namespace": "n", "workers": 4, "most": 2}]}, "a: least <= workers <= most"),
        ({"teams": [{"name": "a", "namespace": "n", "workers": 4, "kind": "set"}]}, "a: kind 'set': job or cluster"),
        ({"pools": [{"name": "p", "nodes": "many"}]}, "a value of another kind than expected"),
        ({"pools": [{"name": "p", "nodes": 2, "cordoned": 3}]}, "p: nodes: .* cordoned: not more"),
        ({"queues": [{"name": "q", "namespace": "n", "gpus": -1}]}, "q: gpus"),
        ({"pools": [{"name": "p"}]}, r"pools\[0\]: .*nodes"),
    ],
)
def test_a_mistake_about_teams_says_where(tmp_path: Path, gangs: Json, said: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"gangs": gangs}))
    with pytest.raises(ScenarioError, match=said):
        load(str(file))


def test_a_fleet_that_is_too_small_has_no_teams(tmp_path: Path) -> None:
    with running(Options(nodes=16, var=tmp_path, scenario="day", speed=50)) as simulator:
        fleet = Client(simulator)
        assert fleet.get("/apis/ray.io/v1/rayjobs")["items"] == []
        assert {node["metadata"]["labels"]["topology.muster.dev/pool"] for node in fleet.nodes()} == {
            "h100-train",
            "h100-serve",
        }
