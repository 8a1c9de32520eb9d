"""The job controller: makes the pods of a Job, lets them run, and says how they ended.

It decides retries, deadlines, suspension and the final condition of a Job. It refuses to judge a node: whether a run
succeeds is asked of the program that its container names. `sleep infinity` never ends by itself; of other programs the
first that succeeds completes the Job.
"""

import uuid
from collections.abc import Callable
from random import Random
from typing import Any

import orjson

from fleet.simulator import objects
from fleet.simulator.happenings import Happenings
from fleet.simulator.kubelets import Kubelets
from fleet.simulator.programs import Came
from fleet.simulator.store import Event, Record, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]
JOB_NAME = "batch.kubernetes.io/job-name"
RUN_SECONDS = 3.0
FOR_EVER = ["sleep", "infinity"]

# (node, container) -> how the program ends there
Run = Callable[[str, Json], Came]


class Jobs:
    def __init__(
        self,
        store: Store,
        timeline: Timeline,
        rng: Random,
        kubelets: Kubelets,
        happenings: Happenings,
        run: Run,
    ) -> None:
        self.jobs = store["jobs"]
        self.pods = store["pods"]
        self.timeline = timeline
        self.rng = rng
        self.kubelets = kubelets
        self.happenings = happenings
        self.run = run
        self.jobs.listeners.append(self._job_changed)
        self.pods.listeners.append(self._pod_changed)

    def _job_changed(self, event: Event) -> None:
        job = event.record
        if event.type == "DELETED":
            self.timeline.real_after(0.02, lambda: self._collect(job))
        elif event.type == "ADDED":
            self.timeline.real_after(0.05, lambda: self._begin(job.key, job.uid))
        elif event.before is not None and _suspended(event.before) != _suspended(job):
            self.timeline.real_after(0.05, lambda: self._turned(job.key, job.uid))

    def _turned(self, key: str, uid: str) -> None:
        """Suspended, its pods end with their grace periods and count as no failure; resumed, they are made anew."""
        job = self._job(key, uid)
        if job is None or _finished(job):
            return
        suspended = bool(job["spec"].get("suspend"))
        if suspended:
            job["status"].pop("startTime", None)
        told = {"type": "Suspended", "status": str(suspended), "reason": "JobSuspended" if suspended else "JobResumed"}
        told |= {"message": "", "lastTransitionTime": self.timeline.stamp()}
        others = [c for c in job["status"].get("conditions") or () if c["type"] != "Suspended"]
        job["status"] |= {"conditions": [*others, told]} | ({"active": 0, "ready": 0} if suspended else {})
        self.jobs.put(job)
        if not suspended:
            self._begin(key, uid)
            return
        for pod in self._pods_of(key, uid):
            if pod.phase in ("Pending", "Running") and not pod.deleting:
                self.kubelets.delete(pod, None)

    def _begin(self, key: str, uid: str) -> None:
        job = self._job(key, uid)
        if job is None or job["spec"].get("suspend"):
            return
        if "startTime" not in job["status"]:
            job["status"]["startTime"] = self.timeline.stamp()
            deadline = job["spec"].get("activeDeadlineSeconds")
            if deadline:
                self.timeline.real_after(float(deadline), lambda: self._late(key, uid))
        alive = [p for p in self._pods_of(key, uid) if p.phase in ("Pending", "Running") and not p.deleting]
        wanted = int(job["spec"].get("parallelism", 1))
        job["status"] |= {"active": max(wanted, len(alive)), "ready": 0}
        record = self.jobs.put(job)
        for _ in range(wanted - len(alive)):
            name = self._make(job, uid)
            self.happenings.tell("Job", record, "SuccessfulCreate", f"Created pod: {name}", "job-controller")

    def _make(self, job: Json, uid: str) -> str:
        template = job["spec"]["template"]
        name = f"{job['metadata']['name']}-{self._suffix()}"
        meta: Json = {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            "uid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
            "creationTimestamp": self.timeline.stamp(),
            "labels": dict(template["metadata"].get("labels") or {}),
            "ownerReferences": [objects.owner("batch/v1", "Job", job["metadata"]["name"], uid)],
        }
        if template["metadata"].get("annotations"):
            meta["annotations"] = template["metadata"]["annotations"]
        spec = template["spec"] | {"tolerations": list(template["spec"].get("tolerations") or ())}
        self.pods.put({"metadata": meta, "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}})
        return name

    def _pod_changed(self, event: Event) -> None:
        pod, before = event.record, event.before
        job = pod.labels.get(JOB_NAME)
        if job is None:
            return
        key, was = f"{pod.namespace}/{job}", before.phase if before else ""
        if event.type == "DELETED":
            if pod.phase in ("Pending", "Running"):
                self._settle(key, pod, False)
        elif pod.phase == "Running" and was != "Running":
            self.timeline.after(RUN_SECONDS, lambda: self._exit(pod))
        elif pod.phase in ("Succeeded", "Failed") and was != pod.phase:
            self._settle(key, pod, pod.phase == "Succeeded")

    def _exit(self, pod: Record) -> None:
        container = orjson.loads(pod.body)["spec"]["containers"][0]
        if container.get("command") == FOR_EVER:
            return
        came = self.run(pod.node, container)
        code, said = (0, "all checks passed") if came.complaint is None else (1, came.complaint)
        self.kubelets.finish(pod.key, pod.uid, code, f"node {pod.node}: {said}", log=came.log)

    def _settle(self, key: str, pod: Record, good: bool) -> None:
        uid = pod.labels.get("batch.kubernetes.io/controller-uid", "")
        job = self._job(key, uid)
        if job is None or _finished(job) or job["spec"].get("suspend"):
            return
        status = job["status"]
        status |= {"active": 0, "ready": 0}
        field = "succeeded" if good else "failed"
        status[field] = status.get(field, 0) + 1
        if good:
            self._conclude(job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif status["failed"] > job["spec"]["backoffLimit"]:
            self._conclude(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        else:
            pause = min(10.0 * 2 ** (status["failed"] - 1), 360.0)
            self.timeline.after(pause, lambda: self._begin(key, uid))
            self.jobs.put(job)

    def _late(self, key: str, uid: str) -> None:
        job = self._job(key, uid)
        if job is None or _finished(job):
            return
        text = "Job was active longer than specified deadline"
        job["status"] |= {"active": 0, "failed": job["status"].get("failed", 0) + 1}
        self._conclude(job, "Failed", "DeadlineExceeded", text)
        for pod in self._pods_of(key, uid):
            self.kubelets.delete(pod, None)

    def _conclude(self, job: Json, kind: str, reason: str, message: str) -> None:
        now = self.timeline.stamp()
        before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
        entry = {
            "status": "True",
            "reason": reason,
            "message": message,
            "lastProbeTime": now,
            "lastTransitionTime": now,
        }
        job["status"]["conditions"] = [entry | {"type": before}, entry | {"type": kind}]
        if kind == "Complete":
            job["status"]["completionTime"] = now
        record = self.jobs.put(job)
        self.happenings.tell("Job", record, kind, message, "job-controller", warning=kind == "Failed")
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is not None:
            self.timeline.real_after(float(ttl), lambda: self._expire(record))

    def _expire(self, record: Record) -> None:
        current = self.jobs.get(record.key)
        if current is not None and current.uid == record.uid:
            self.jobs.remove(record.key)

    def _collect(self, job: Record) -> None:
        """Pods of a Job that is gone go with it."""
        for pod in self._pods_of(job.key, job.uid):
            self.kubelets.delete(pod, None)

    def _pods_of(self, key: str, uid: str) -> list[Record]:
        namespace, _, name = key.partition("/")
        return [
            pod
            for pod in self.pods.records.values()
            if pod.labels.get(JOB_NAME) == name
            and pod.namespace == namespace
            and pod.labels.get("batch.kubernetes.io/controller-uid") == uid
        ]

    def _job(self, key: str, uid: str) -> Json | None:
        record = self.jobs.get(key)
        return None if record is None or record.uid != uid else orjson.loads(record.body)

    def _suffix(self) -> str:
        return "".join(self.rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))


def _suspended(record: Record) -> bool:
    return bool(orjson.loads(record.body)["spec"].get("suspend"))


def _finished(job: Json) -> bool:
    return any(c["type"] in ("Complete", "Failed") for c in job["status"].get("conditions") or ())
