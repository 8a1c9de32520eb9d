"""A small KubeRay: makes and removes the pods of Ray clusters, one after the other, and says how far it is.

It decides pods by the groups' replicas, which worker goes when fewer are wanted, and the status. It refuses to place
pods, and to replace a dead worker in a group that is at its largest: there the dead one still counts, as its autoscaler
has it, until somebody allows more or takes it away.
"""

import uuid
from collections import defaultdict
from random import Random
from typing import Any

import orjson

from fleet.simulator.gangs import status
from fleet.simulator.gangs.shapes import GANG_LABEL, HEAD, pod
from fleet.simulator.happenings import Happenings
from fleet.simulator.kubelets import Kubelets
from fleet.simulator.objects import owner
from fleet.simulator.store import Event, Record, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]
CLUSTER = "ray.io/cluster"
MAKE_SECONDS = 0.5  # between two pods of one cluster


class Operator:
    def __init__(
        self, store: Store, timeline: Timeline, rng: Random, kubelets: Kubelets, happenings: Happenings
    ) -> None:
        self.clusters = store["rayclusters"]
        self.groups = store["podgroups"]
        self.pods = store["pods"]
        self.timeline = timeline
        self.rng = rng
        self.kubelets = kubelets
        self.happenings = happenings
        self.planned: set[str] = set()
        self.known: dict[str, dict[str, Record]] = defaultdict(dict)  # cluster -> its pods by key

    def begin(self) -> None:
        self.clusters.listeners.append(self._cluster_changed)
        self.pods.listeners.append(self._pod_changed)

    def pods_of(self, key: str) -> list[Record]:
        """Those of a cluster, the oldest first."""
        return sorted(self.known.get(key, {}).values(), key=lambda record: (created(record), record.name))

    def plan(self, key: str, seconds: float = 0.2) -> None:
        if key not in self.planned:
            self.planned.add(key)
            self.timeline.after(seconds, lambda: self._reconcile(key))

    def _cluster_changed(self, event: Event) -> None:
        record = event.record
        if event.type != "DELETED":
            self.plan(record.key)
            return
        self.timeline.after(0.1, lambda: self._collect(record.key))

    def _pod_changed(self, event: Event) -> None:
        name = event.record.labels.get(CLUSTER)
        if name is None:
            return
        key = f"{event.record.namespace}/{name}"
        if event.type == "DELETED":
            self.known[key].pop(event.record.key, None)
        else:
            self.known[key][event.record.key] = event.record
        self.plan(key)

    def _reconcile(self, key: str) -> None:
        self.planned.discard(key)
        cluster = self.clusters.read(key)
        if cluster is None:
            self._collect(key)
            return
        pods = self.pods_of(key)
        if cluster["spec"].get("suspend"):
            self._end(pods)
        else:
            self._group(cluster)
            if self._step(cluster, pods):
                self.plan(key, MAKE_SECONDS)
        told = status.of_cluster(cluster, self.pods_of(key), self.timeline.stamp())
        if told != cluster.get("status"):
            self.clusters.put(cluster | {"status": told})

    def _step(self, cluster: Json, pods: list[Record]) -> bool:
        """Take away what is too much, and make one pod of those that are missing; whether there may be more to do."""
        heads = [record for record in pods if record.labels["ray.io/group"] == HEAD]
        self._end([record for record in heads if dead(record)])
        if not any(alive(record) for record in heads):
            return self._make(cluster, HEAD)
        for group in cluster["spec"]["workerGroupSpecs"]:
            mine = [record for record in pods if record.labels["ray.io/group"] == group["groupName"]]
            wanted = 0 if group.get("suspend") else min(max(group["replicas"], group["minReplicas"]), _most(group))
            named = (group.get("scaleStrategy") or {}).get("workersToDelete") or ()
            self._end([record for record in mine if record.name in named])
            full = bool(cluster["spec"].get("enableInTreeAutoscaling")) and wanted >= _most(group)
            if not full:
                self._end([record for record in mine if dead(record)])
            counted = [record for record in mine if (alive(record) or (full and dead(record)))]
            counted = [record for record in counted if record.name not in named]
            self._end(sorted(counted, key=lambda record: (not record.node, created(record)))[wanted:])
            if len(counted) < wanted:
                return self._make(cluster, group["groupName"])
        return False

    def _make(self, cluster: Json, group: str) -> bool:
        meta = cluster["metadata"]
        suffix = "".join(self.rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        name = f"{meta['name']}-{'head' if group == HEAD else group + '-worker'}-{suffix}"
        uid = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        self.pods.put(pod(cluster, group, name, uid, self.timeline.stamp()))
        record = self.clusters.get(f"{meta['namespace']}/{meta['name']}")
        if record is not None:
            kind = "CreatedHeadPod" if group == HEAD else "CreatedWorkerPod"
            text = f"Created pod {meta['namespace']}/{name}"
            self.happenings.tell("RayCluster", record, kind, text, "raycluster-controller")
        return True

    def _group(self, cluster: Json) -> None:
        """Its pod group for scheduler-plugins: made once with the cluster, and never brought up to date."""
        meta = cluster["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        if GANG_LABEL not in (meta.get("labels") or {}) or self.groups.get(key) is not None:
            return
        self.groups.put(
            {
                "metadata": {
                    "name": meta["name"],
                    "namespace": meta["namespace"],
                    "uid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
                    "creationTimestamp": self.timeline.stamp(),
                    "generation": 1,
                    "ownerReferences": [owner("ray.io/v1", "RayCluster", meta["name"], meta["uid"])],
                },
                "spec": {"minMember": status.desired(cluster) + 1},
                "status": {"phase": "Pending"},
            }
        )

    def _collect(self, key: str) -> None:
        """What belongs to a cluster that is gone goes with it."""
        if self.clusters.get(key) is None:
            self._end(self.pods_of(key))
            group = self.groups.read(key)
            if group is not None and any(o["kind"] == "RayCluster" for o in group["metadata"]["ownerReferences"]):
                self.groups.remove(key)

    def _end(self, pods: list[Record]) -> None:
        """KubeRay deletes pods; it evicts none, so that no budget is asked."""
        for record in pods:
            if not record.deleting:
                self.kubelets.delete(record, None)


def created(record: Record) -> str:
    return str(orjson.loads(record.body)["metadata"]["creationTimestamp"])


def alive(record: Record) -> bool:
    return not record.deleting and not dead(record)


def dead(record: Record) -> bool:
    return record.phase in ("Failed", "Succeeded")


def _most(group: Json) -> int:
    return int(group.get("maxReplicas", 2_147_483_647))
