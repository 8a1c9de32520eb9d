"""The part of the operator that runs RayJobs: makes their Ray cluster, follows their driver, and cleans up at the end.

It decides the job's deployment status. It refuses retries: each would be another Ray cluster, and nobody here asks for
one.
"""

import uuid
from random import Random
from typing import Any

import orjson

from fleet.simulator.gangs import status
from fleet.simulator.gangs.drivers import Driver, Drivers
from fleet.simulator.gangs.shapes import GANG_LABEL
from fleet.simulator.objects import owner
from fleet.simulator.store import Event, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]
ENDED = ("Complete", "Failed")


class RayJobs:
    def __init__(self, store: Store, timeline: Timeline, rng: Random, drivers: Drivers, address: str) -> None:
        self.jobs = store["rayjobs"]
        self.clusters = store["rayclusters"]
        self.timeline = timeline
        self.rng = rng
        self.drivers = drivers
        self.address = address
        self.planned: set[str] = set()
        self.of_cluster: dict[str, str] = {}  # cluster -> job

    def begin(self) -> None:
        self.jobs.listeners.append(self._job_changed)
        self.clusters.listeners.append(self._cluster_changed)
        self.drivers.ended.append(self._driver_ended)

    def plan(self, key: str) -> None:
        if key not in self.planned:
            self.planned.add(key)
            self.timeline.after(0.2, lambda: self._reconcile(key))

    def _job_changed(self, event: Event) -> None:
        if event.type != "DELETED":
            self.plan(event.record.key)
            return
        name = (orjson.loads(event.record.body).get("status") or {}).get("rayClusterName")
        if name:
            self._drop(f"{event.record.namespace}/{name}")

    def _cluster_changed(self, event: Event) -> None:
        if job := self.of_cluster.get(event.record.key):
            self.plan(job)

    def _reconcile(self, key: str) -> None:
        self.planned.discard(key)
        job = self.jobs.read(key)
        if job is None:
            return
        told = dict(job.get("status") or {})
        if told.get("jobDeploymentStatus") in ENDED:
            return
        namespace = job["metadata"]["namespace"]
        cluster = f"{namespace}/{told['rayClusterName']}" if told.get("rayClusterName") else ""
        if job["spec"].get("suspend"):
            if cluster:
                self._drop(cluster)
            told = {"jobDeploymentStatus": "Suspended", "jobStatus": ""}
        elif not cluster or self.clusters.get(cluster) is None:
            told |= self._made(job)
        else:
            told |= self._followed(cluster, told)
        told["observedGeneration"] = job["metadata"].get("generation", 1)
        if told != job.get("status"):
            self.jobs.put(job | {"status": told})

    def _made(self, job: Json) -> Json:
        meta = job["metadata"]
        name = f"{meta['name']}-{''.join(self.rng.choices('bcdfghjklmnpqrstvwxz2456789', k=5))}"
        key = f"{meta['namespace']}/{name}"
        self.of_cluster[key] = f"{meta['namespace']}/{meta['name']}"
        team = self.drivers.teams.get(self.of_cluster[key])
        if team is not None:
            self.drivers.teams[key] = team
        labels = {k: v for k, v in (meta.get("labels") or {}).items() if k == GANG_LABEL}
        made = {
            "name": name,
            "namespace": meta["namespace"],
            "uid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
            "creationTimestamp": self.timeline.stamp(),
            "generation": 1,
            "labels": labels | {"ray.io/originated-from-cr-name": meta["name"], "ray.io/originated-from-crd": "RayJob"},
            "ownerReferences": [owner("ray.io/v1", "RayJob", meta["name"], meta["uid"])],
        }
        self.clusters.put({"metadata": made, "spec": job["spec"]["rayClusterSpec"]})
        dashboard = f"{self.address}/ray/{key}"
        return {"jobDeploymentStatus": "Initializing", "rayClusterName": name, "dashboardURL": dashboard,
                "startTime": self.timeline.stamp(), "jobId": f"{meta['name']}-1"}  # fmt: skip

    def _followed(self, key: str, told: Json) -> Json:
        cluster = self.clusters.read(key) or {}
        ray = self.drivers.rays.get(key)
        if not status.provisioned(cluster) or ray is None:
            return {}
        return {"jobDeploymentStatus": "Running", "jobStatus": ray.drivers[-1].status}

    def _driver_ended(self, cluster: str, driver: Driver) -> None:
        key = self.of_cluster.get(cluster, "")
        job = self.jobs.read(key) if key else None
        ray = self.drivers.rays.get(cluster)
        if job is None or (ray is not None and ray.team.resubmits and driver.status == "FAILED"):
            return
        good = driver.status == "SUCCEEDED"
        told = (job.get("status") or {}) | {
            "jobDeploymentStatus": "Complete" if good else "Failed",
            "jobStatus": driver.status,
            "reason": "" if good else "AppFailed",
            "message": driver.message,
            "endTime": self.timeline.stamp(),
        }
        self.jobs.put(job | {"status": {name: value for name, value in told.items() if value or name == "message"}})
        if job["spec"].get("shutdownAfterJobFinishes"):
            self.timeline.after(float(job["spec"].get("ttlSecondsAfterFinished") or 0), lambda: self._drop(cluster))

    def _drop(self, cluster: str) -> None:
        if self.clusters.get(cluster) is not None:
            self.clusters.remove(cluster)
