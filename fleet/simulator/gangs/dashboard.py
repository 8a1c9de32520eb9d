"""The dashboards of the Ray clusters: the paths and shapes of Ray's own, below `/ray/NAMESPACE/CLUSTER`.

It decides what a reader of placement groups, nodes, actors, jobs and Train runs would be told. It refuses to answer
without a head that is ready, as a Service without endpoints does.
"""

from collections import Counter
from typing import Any

import orjson

from fleet.simulator.gangs.drivers import Bundles, Driver, Drivers, Ray
from fleet.simulator.gangs.plan import Team
from fleet.simulator.gangs.shapes import HEAD, gpus_of
from fleet.simulator.host import identity
from fleet.simulator.store import Record
from fleet.simulator.web import Request, Response, json_response

Json = dict[str, Any]


class Dashboards:
    def __init__(self, drivers: Drivers) -> None:
        self.drivers = drivers

    def answer(self, request: Request) -> Response:
        _, namespace, cluster, path = (request.path.strip("/") + "///").split("/", 3)
        key, path = f"{namespace}/{cluster}", path.strip("/")
        pods = [record for record in self.drivers.operator.pods_of(key) if not record.deleting]
        if not any(record.ready and record.labels["ray.io/group"] == HEAD for record in pods):
            return Response(503, b"no endpoints available for service", "text/plain")
        ray = self.drivers.rays.get(key) or Ray(key, Team(cluster, namespace, workers=1))
        self.drivers.look(ray)
        nodes = [record for record in pods if record.ready]
        match path:
            case "api/version":
                return json_response({"version": "4", "ray_version": ray.team.version, "ray_commit": "0" * 40})
            case "api/gcs_healthz":
                return Response(200, b"success", "text/plain")
            case "api/v0/placement_groups":
                return _listing([_group(driver.group) for driver in ray.drivers])
            case "api/v0/nodes":
                return _listing([_node(record) for record in nodes])
            case "api/v0/actors":
                return _listing([actor for driver in ray.drivers for actor in _actors(driver)])
            case "api/v0/tasks":
                return _listing([])
            case "api/jobs":
                return json_response([_job(driver) for driver in ray.drivers])
            case "api/cluster_status":
                text = _status(ray, nodes)
                told = {"clusterStatus": text}
                return json_response({"result": True, "msg": "Got formatted cluster status.", "data": told})
            case "api/train/v2/runs/v1":
                return json_response({"train_runs": [_run(driver, ray) for driver in ray.drivers]})
            case "api/v0/logs/file":
                return self._log(ray, request.query.get("submission_id", ""))
        return Response(404, b"404: Not Found", "text/plain")

    def _log(self, ray: Ray, submission: str) -> Response:
        driver = next((one for one in ray.drivers if one.submission == submission), None)
        if driver is None:
            return Response(404, b"404: Not Found", "text/plain")
        lines = [f"INFO {driver.id} train.py: placement group {driver.group.name} {driver.group.state}"]
        return Response(200, "\n".join([*lines, *filter(None, [driver.message])]).encode(), "text/plain")


def _listing(entries: list[Json]) -> Response:
    counts = dict.fromkeys(("total", "num_after_truncation", "num_filtered"), len(entries))
    result = counts | {"result": entries, "partial_failure_warning": "", "warnings": None}
    return json_response({"result": True, "msg": "", "data": {"result": result}})


def _group(group: Bundles) -> Json:
    """The scheduler's word for a whole group, or for one that lacks room."""
    gone = group.state == "REMOVED"
    scheduling = "REMOVED" if gone else "FINISHED" if group.state == "CREATED" else "NO_RESOURCES"
    return {
        "placement_group_id": group.id,
        "name": group.name,
        "creator_job_id": group.job,
        "state": group.state,
        "strategy": "PACK",
        "bundles": [
            {
                "bundle_id": {"placement_group_id": group.id, "bundle_index": n},
                "unit_resources": {"GPU": float(group.gpus)} if group.gpus else {"CPU": 1.0},
                "node_id": _id(place) if place and not gone else "",
                "label_selector": {},
            }
            for n, place in enumerate(group.places)
        ],
        "is_detached": group.detached,
        "stats": {"scheduling_state": scheduling, "scheduling_attempt": 1},
    }


def _node(record: Record) -> Json:
    head = record.labels["ray.io/group"] == HEAD
    pod = orjson.loads(record.body)
    gpus = gpus_of({"template": pod})
    total = {"CPU": 4.0 if head else 16.0, "memory": 16.0e9} | ({"GPU": float(gpus)} if gpus else {})
    return {
        "node_id": _id(record.key),
        "node_ip": pod["status"].get("podIP", ""),
        "is_head_node": head,
        "state": "ALIVE",
        "node_name": record.name,
        "resources_total": total,
        "labels": {"ray.io/node-id": _id(record.key), "ray.io/node-group": record.labels["ray.io/group"]},
        "end_time_ms": 0,
    }


def _actors(driver: Driver) -> list[Json]:
    """A worker of the run on each bundle, while its driver lives."""
    living = driver.status == "RUNNING" and driver.group.state == "CREATED"
    return [
        {
            "actor_id": f"{driver.group.id[:24]}{n:08x}",
            "class_name": "RayTrainWorker",
            "state": "ALIVE",
            "job_id": driver.id,
            "node_id": _id(place),
            "placement_group_id": driver.group.id,
        }
        for n, place in enumerate(driver.group.places if living else ())
    ]


def _job(driver: Driver) -> Json:
    return {
        "type": "SUBMISSION",
        "job_id": driver.id,
        "submission_id": driver.submission,
        "status": driver.status,
        "message": driver.message or None,
        "start_time": int(driver.started_at * 1000),
        "end_time": int(driver.ended_at * 1000),
        "metadata": {},
        "runtime_env": {},
    }


def _run(driver: Driver, ray: Ray) -> Json:
    team = ray.team
    whole = driver.group.state == "CREATED"
    status = {"RUNNING": "RUNNING" if whole else "SCHEDULING", "SUCCEEDED": "FINISHED", "FAILED": "ERRORED"}
    scaling: Json = {"num_workers": [team.elastic, team.workers] if team.elastic else team.workers, "use_gpu": True}
    scaling["resources_per_worker"] = {"GPU": float(team.gpus)}
    settings = {"scaling_config": scaling, "run_config": {"failure_config": {"max_failures": team.max_failures}}}
    return {
        "id": f"run-{driver.submission}",
        "name": team.name,
        "job_id": driver.id,
        "status": status[driver.status],
        "run_settings": settings,
        "attempts": [{"attempt_id": str(n), "status": "RUNNING"} for n in range(driver.attempts)],
    }


def _status(ray: Ray, nodes: list[Record]) -> str:
    workers = [record.key for record in nodes if record.labels["ray.io/group"] != HEAD]
    reserved: Counter[str] = Counter()
    used = 0
    for driver in ray.drivers:
        places = [place for place in driver.group.places if place and driver.group.state != "REMOVED"]
        reserved.update(dict.fromkeys(places, driver.group.gpus))
        used += driver.group.gpus * len(places) if _actors(driver) else 0
    total, held = ray.team.gpus * len(workers), sum(reserved.values())
    waits = [group for group in ray.groups if group.state != "CREATED"]
    demands = [
        f" {{'GPU': {float(group.gpus)}}} * {group.places.count('')} (PACK): 1+ pending placement groups"
        for group in waits
    ]
    return (
        "======== Autoscaler status ========\nNode status\nActive:\n"
        f" {len(nodes)} node\nResources\nTotal Usage:\n"
        f" {float(held)}/{float(total)} GPU ({float(used)} used of {float(held)} reserved in placement groups)\n\n"
        "Pending Demands:\n" + ("\n".join(demands) or " (no resource demands)")
    )


def _id(key: str) -> str:
    return identity("ray-node", key).hex
