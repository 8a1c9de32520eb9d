"""The controllers of JobSets, TrainJobs and PyTorchJobs in small: what each makes, and no pods while it is suspended.

It decides what follows from the specs: a TrainJob becomes a JobSet, a JobSet its Jobs, a PyTorchJob its pods. Whoever
suspends one of them ends its pods with their own grace periods, and no budget is asked; resumed, they are made anew. It
refuses runtimes, restarts of a whole set and success policies.
"""

import uuid
from random import Random
from typing import Any

import orjson

from fleet.simulator.kube.defaults import fill
from fleet.simulator.kube.kinds import BY_PATH
from fleet.simulator.kubelets import Kubelets
from fleet.simulator.objects import owner
from fleet.simulator.store import Collection, Event, Record, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]
JOBS, PODS = BY_PATH["batch", "v1", "jobs"], BY_PATH["", "v1", "pods"]
SET_NAME, JOB_NAME = "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name"
FOLLOWS = 0.2
"""Seconds after which a controller has seen what changed."""


class Training:
    def __init__(self, store: Store, timeline: Timeline, rng: Random, kubelets: Kubelets) -> None:
        self.train, self.sets, self.torch = store["trainjobs"], store["jobsets"], store["pytorchjobs"]
        self.jobs, self.pods = store["jobs"], store["pods"]
        self.timeline = timeline
        self.rng = rng
        self.kubelets = kubelets

    def begin(self) -> None:
        self.train.listeners.append(lambda event: self._after(event, self._train_job))
        self.sets.listeners.append(lambda event: self._after(event, self._job_set))
        self.torch.listeners.append(lambda event: self._after(event, self._pytorch_job))
        self.pods.listeners.append(self._pod_changed)

    def _after(self, event: Event, follow: Any) -> None:
        self.timeline.after(FOLLOWS, lambda: follow(event.record))

    def _pod_changed(self, event: Event) -> None:
        """A lost pod of a PyTorchJob is made anew; those of Jobs are their own controller's."""
        name = event.record.labels.get(JOB_NAME)
        job = self.torch.get(f"{event.record.namespace}/{name}") if name and event.type == "DELETED" else None
        if job is not None:
            self.timeline.after(FOLLOWS, lambda: self._pytorch_job(job))

    def _train_job(self, record: Record) -> None:
        job = self._now(self.train, record)
        if job is None:
            self._remove(self.sets, record)
            return
        nodes = int((job["spec"].get("trainer") or {}).get("numNodes", 1))
        asked = (job["spec"].get("trainer") or {}).get("resourcesPerNode") or {}
        container = {"name": "node", "image": "train:1", "command": ["sleep", "infinity"], "resources": asked}
        pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        work = {"parallelism": nodes, "completions": nodes, "template": pod}
        spec = {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": work}}]}
        self._mirror(self.sets, ("trainer.kubeflow.org/v1alpha1", "TrainJob", job), record.name, spec)
        self._tell(self.train, job, job["spec"].get("suspend") is True)

    def _job_set(self, record: Record) -> None:
        found = self._now(self.sets, record)
        if found is None:
            for job in self._made_by(self.jobs, record):
                self.jobs.remove(job.key)
            return
        for one in found["spec"]["replicatedJobs"]:
            for index in range(int(one.get("replicas", 1))):
                spec = orjson.loads(orjson.dumps((one.get("template") or {}).get("spec") or {}))
                meta = spec["template"].setdefault("metadata", {})
                meta["labels"] = {**(meta.get("labels") or {}), SET_NAME: record.name}
                name = f"{record.name}-{one['name']}-{index}"
                self._mirror(self.jobs, ("jobset.x-k8s.io/v1alpha2", "JobSet", found), name, spec)
        self._tell(self.sets, found, found["spec"].get("suspend") is True)

    def _mirror(self, collection: Collection, above: tuple[str, str, Json], name: str, spec: Json) -> None:
        """What it makes exists, and is suspended when and only when the maker is."""
        version, kind, maker = above
        suspend, meta = maker["spec"].get("suspend") is True, maker["metadata"]
        there = collection.read(f"{meta['namespace']}/{name}")
        if there is None:
            labels = {SET_NAME: meta["name"]} if collection is self.jobs else {}
            made = self._meta(name, meta["namespace"], labels, owner(version, kind, meta["name"], meta["uid"]))
            obj: Json = {"metadata": made, "spec": spec | {"suspend": suspend}}
            if collection is self.jobs:
                fill(JOBS, obj)
            collection.put(obj)
        elif bool(there["spec"].get("suspend")) != suspend:
            there["spec"]["suspend"] = suspend
            there["metadata"]["generation"] = there["metadata"].get("generation", 1) + 1
            collection.put(there)

    def _pytorch_job(self, record: Record) -> None:
        job = self._now(self.torch, record)
        mine = self._made_by(self.pods, record)
        suspended = job is None or ((job["spec"].get("runPolicy") or {}).get("suspend") is True)
        if suspended:
            for pod in [one for one in mine if not one.deleting]:
                self.kubelets.delete(pod, None)
        elif job is not None:
            there = {pod.name for pod in mine}
            for role, one in job["spec"]["pytorchReplicaSpecs"].items():
                for index in range(int(one.get("replicas", 1))):
                    name = f"{record.name}-{role.lower()}-{index}"
                    if name not in there:
                        self._pod(job, role.lower(), name, one["template"])
        if job is not None:
            self._tell(self.torch, job, suspended)

    def _pod(self, job: Json, role: str, name: str, template: Json) -> None:
        meta = job["metadata"]
        labels = {
            **((template.get("metadata") or {}).get("labels") or {}),
            JOB_NAME: meta["name"],
            "training.kubeflow.org/operator-name": "pytorchjob-controller",
            "training.kubeflow.org/replica-type": role,
        }
        made_by = owner("kubeflow.org/v1", "PyTorchJob", meta["name"], meta["uid"])
        obj = {"metadata": self._meta(name, meta["namespace"], labels, made_by), "spec": dict(template["spec"])}
        fill(PODS, obj)
        self.pods.put(obj)

    def _meta(self, name: str, namespace: str, labels: Json, made_by: Json) -> Json:
        return {
            "name": name,
            "namespace": namespace,
            "uid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
            "creationTimestamp": self.timeline.stamp(),
            "generation": 1,
            "labels": labels,
            "ownerReferences": [made_by],
        }

    def _tell(self, collection: Collection, obj: Json, suspended: bool) -> None:
        conditions = (obj.get("status") or {}).get("conditions") or []
        before = any(c["type"] == "Suspended" and c["status"] == "True" for c in conditions)
        if suspended == before:
            return
        told = {"type": "Suspended", "status": str(suspended), "reason": "Suspended" if suspended else "Resumed"}
        told |= {"message": "", "lastTransitionTime": self.timeline.stamp()}
        collection.put(obj | {"status": {"conditions": [told]}})

    def _now(self, collection: Collection, record: Record) -> Json | None:
        """The object as it is, unless it is another one by now."""
        found = collection.get(record.key)
        return collection.read(record.key) if found is not None and found.uid == record.uid else None

    def _made_by(self, collection: Collection, record: Record) -> list[Record]:
        label = JOB_NAME if collection is self.pods else SET_NAME
        return [
            one
            for one in list(collection.records.values())
            if one.labels.get(label) == record.name
            and one.namespace == record.namespace
            and orjson.loads(one.body)["metadata"]["ownerReferences"][0]["uid"] == record.uid
        ]

    def _remove(self, collection: Collection, record: Record) -> None:
        there = collection.read(record.key)
        if there is not None and any(o["uid"] == record.uid for o in there["metadata"].get("ownerReferences") or ()):
            collection.remove(record.key)
