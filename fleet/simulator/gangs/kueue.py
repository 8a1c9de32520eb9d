"""Kueue in small: a Workload for each RayJob of a queue, let in while the queue's quota of GPUs lasts.

It decides who is let in: by age inside a queue, and the next one where the first does not fit, unless the queue is
strict. It refuses to borrow, to preempt and to look whether there is room: quota is all that it knows.
"""

import uuid
from random import Random
from typing import Any

import orjson

from fleet.simulator.gangs.plan import Queue
from fleet.simulator.gangs.shapes import QUEUE_LABEL, gpus_of
from fleet.simulator.host import identity
from fleet.simulator.objects import owner
from fleet.simulator.store import Event, Record, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]
FLAVOR, DEVICE = "h100", "nvidia.com/gpu"
MADE_FOR = "kueue.x-k8s.io/job-uid"
ENDED = ("Complete", "Failed")


class Kueue:
    def __init__(self, store: Store, timeline: Timeline, rng: Random, queues: tuple[Queue, ...], seed: int) -> None:
        self.workloads = store["workloads"]
        self.cluster_queues = store["clusterqueues"]
        self.local_queues = store["localqueues"]
        self.jobs = store["rayjobs"]
        self.timeline = timeline
        self.rng = rng
        self.queues = {queue.name: queue for queue in queues}
        self.seed = seed
        self.planned = False

    def begin(self) -> None:
        for queue in self.queues.values():
            self.cluster_queues.put(self._named("clusterqueues", queue, _cluster_queue(queue)))
            self.local_queues.put(self._named("localqueues", queue, {"clusterQueue": queue.name}, queue.namespace))
            self._tell(queue)
        self.jobs.listeners.append(self._job_changed)
        self.workloads.listeners.append(self._workload_changed)

    def _named(self, plural: str, queue: Queue, spec: Json, namespace: str = "") -> Json:
        meta = {"name": queue.name, "uid": str(identity(self.seed, plural, queue.name)), "generation": 1}
        meta |= {"creationTimestamp": self.timeline.stamp()} | ({"namespace": namespace} if namespace else {})
        return {"metadata": meta, "spec": spec}

    def _job_changed(self, event: Event) -> None:
        if event.record.labels.get(QUEUE_LABEL) in self.queues:
            self._plan()

    def _workload_changed(self, event: Event) -> None:
        """Somebody made it inactive, or active again."""
        if event.before is not None and _active(event.before) != _active(event.record):
            self._plan()

    def _plan(self) -> None:
        if not self.planned:
            self.planned = True
            self.timeline.after(0.5, self._look)

    def _look(self) -> None:
        self.planned = False
        jobs = [orjson.loads(r.body) for r in self.jobs.records.values() if r.labels.get(QUEUE_LABEL) in self.queues]
        jobs.sort(key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
        for job in jobs:
            self._know(job)
        for record in list(self.workloads.records.values()):
            if all(f"rayjob-{job['metadata']['name']}" != record.name for job in jobs):
                self.workloads.remove(record.key)
        for queue in self.queues.values():
            self._admit(queue, [job for job in jobs if job["metadata"]["labels"][QUEUE_LABEL] == queue.name])
            self._tell(queue)

    def _know(self, job: Json) -> None:
        """Its Workload, and the job kept suspended until it is let in."""
        key = _key(job)
        over = (job.get("status") or {}).get("jobDeploymentStatus") in ENDED
        workload = self.workloads.read(key)
        if workload is None and not over:
            self.workloads.put(self._workload(job))
        elif workload is not None and over and not _is(workload, "Finished"):
            self._turn(workload, "Finished", True, "JobFinished", "Job finished")

    def _admit(self, queue: Queue, jobs: list[Json]) -> None:
        known = [(job, workload) for job in jobs if (workload := self.workloads.read(_key(job))) is not None]
        inside = [w for _, w in known if _is(w, "Admitted") and w["spec"].get("active") is not False]
        left = queue.gpus - sum(_gpus(w) for w in inside if not _is(w, "Finished"))
        stopped = False
        for job, workload in known:
            if _is(workload, "Finished"):
                continue
            asks = _gpus(workload)
            if workload["spec"].get("active") is False:
                self._put_out(workload)
                self._hold(job, True)
                continue
            if not _is(workload, "Admitted") and not stopped and asks <= left:
                left -= asks
                self._let_in(queue, workload)
                workload = self.workloads.read(_key(job)) or workload
            elif not _is(workload, "Admitted"):
                stopped = stopped or queue.strict
                reason = "ExceedsMaxQuota" if asks > queue.gpus else "WaitingForQuota"
                text = (
                    f"couldn't assign flavors to pod set worker: insufficient unused quota for {DEVICE} in flavor "
                    f"{FLAVOR}, {max(1, asks - left)} more needed"
                )
                self._turn(workload, "QuotaReserved", False, reason, text)
            self._hold(job, not _is(workload, "Admitted"))

    def _hold(self, job: Json, suspend: bool) -> None:
        if bool(job["spec"].get("suspend")) != suspend:
            job["spec"]["suspend"] = suspend
            job["metadata"]["generation"] = job["metadata"].get("generation", 1) + 1
            self.jobs.put(job)

    def _let_in(self, queue: Queue, workload: Json) -> None:
        sets = [
            {
                "name": one["name"],
                "count": one["count"],
                "flavors": {DEVICE: FLAVOR},
                "resourceUsage": {DEVICE: str(one["count"] * gpus_of(one))},
            }
            for one in workload["spec"]["podSets"]
        ]
        workload["status"]["admission"] = {"clusterQueue": queue.name, "podSetAssignments": sets}
        text = f"Quota reserved in ClusterQueue {queue.name}"
        self._turn(workload, "QuotaReserved", True, "QuotaReserved", text, put=False)
        self._turn(workload, "Admitted", True, "Admitted", "The workload is admitted")

    def _put_out(self, workload: Json) -> None:
        """Whoever makes it inactive takes its quota and its place; active again, it queues anew."""
        if _is(workload, "Admitted"):
            workload["status"].pop("admission", None)
            text = "The workload is deactivated"
            for kind in ("QuotaReserved", "Admitted"):
                self._turn(workload, kind, False, "Deactivated", text, put=False)
            self._turn(workload, "Evicted", True, "Deactivated", text)

    def _workload(self, job: Json) -> Json:
        meta, spec = job["metadata"], job["spec"]["rayClusterSpec"]
        sets = [{"name": "head", "count": 1, "template": spec["headGroupSpec"]["template"]}]
        for group in spec["workerGroupSpecs"]:
            sets.append({"name": group["groupName"], "count": group["replicas"], "template": group["template"]})
        return {
            "metadata": {
                "name": f"rayjob-{meta['name']}",
                "namespace": meta["namespace"],
                "uid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
                "creationTimestamp": self.timeline.stamp(),
                "generation": 1,
                "labels": {MADE_FOR: meta["uid"]},
                "ownerReferences": [owner("ray.io/v1", "RayJob", meta["name"], meta["uid"])],
            },
            "spec": {"active": True, "queueName": meta["labels"][QUEUE_LABEL], "priority": 0, "podSets": sets},
            "status": {},
        }

    def _turn(self, workload: Json, kind: str, good: bool, reason: str, text: str, *, put: bool = True) -> None:
        told = {c["type"]: c for c in workload["status"].get("conditions") or ()}
        old, now = told.get(kind, {}), self.timeline.stamp()
        since = old["lastTransitionTime"] if old.get("status") == str(good) else now
        told[kind] = {"type": kind, "status": str(good), "reason": reason, "message": text, "lastTransitionTime": since}
        if told[kind] != old:
            workload["status"]["conditions"] = list(told.values())
            if put:
                self.workloads.put(workload)

    def _tell(self, queue: Queue) -> None:
        """The status of both queues of a name."""
        mine = [
            workload
            for record in self.workloads.records.values()
            if (workload := orjson.loads(record.body))["spec"]["queueName"] == queue.name
            and not _is(workload, "Finished")
        ]
        inside = [workload for workload in mine if _is(workload, "Admitted")]
        used = [{"name": DEVICE, "total": str(sum(map(_gpus, inside)))}]
        counts = {
            "pendingWorkloads": len(mine) - len(inside),
            "reservingWorkloads": len(inside),
            "admittedWorkloads": len(inside),
            "conditions": [_ready(queue, self.timeline.stamp())],
        }
        usage = {name: [{"name": FLAVOR, "resources": used}] for name in ("flavorsUsage", "flavorsReservation")}
        for collection, key in (
            (self.cluster_queues, queue.name),
            (self.local_queues, f"{queue.namespace}/{queue.name}"),
        ):
            found = collection.read(key)
            before = (found or {}).get("status") or {}
            told = counts | usage
            if before.get("conditions"):
                told["conditions"] = before["conditions"]
            if found is not None and told != before:
                collection.put(found | {"status": told})


def _cluster_queue(queue: Queue) -> Json:
    resources = [{"name": DEVICE, "nominalQuota": str(queue.gpus)}]
    return {
        "queueingStrategy": "StrictFIFO" if queue.strict else "BestEffortFIFO",
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [DEVICE], "flavors": [{"name": FLAVOR, "resources": resources}]}],
    }


def _ready(queue: Queue, now: str) -> Json:
    text = "Can admit new workloads"
    return {"type": "Active", "status": "True", "reason": "Ready", "message": text, "lastTransitionTime": now}


def _key(job: Json) -> str:
    return f"{job['metadata']['namespace']}/rayjob-{job['metadata']['name']}"


def _is(workload: Json, kind: str) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def _active(record: Record) -> bool:
    return orjson.loads(record.body)["spec"].get("active") is not False


def _gpus(workload: Json) -> int:
    return sum(one["count"] * gpus_of(one) for one in workload["spec"]["podSets"])
