"""Ray's autoscaler in small: asks for as many workers as bundles wait, and takes back those that are idle.

It decides the replicas of the first worker group. Before Ray 2.45 it takes idle workers back even while a placement
group waits for more of them, and asks again at once: the loop that ray#50783 tells of. It refuses to go beyond the
group's bounds.
"""

from typing import Any

import orjson

from fleet.simulator.gangs.drivers import Drivers
from fleet.simulator.store import Event, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]
LOOK_SECONDS = 5.0
REPAIRED = (2, 45)


class Autoscaler:
    def __init__(self, store: Store, timeline: Timeline, drivers: Drivers) -> None:
        self.clusters = store["rayclusters"]
        self.timeline = timeline
        self.drivers = drivers

    def begin(self) -> None:
        self.clusters.listeners.append(self._cluster_changed)

    def _cluster_changed(self, event: Event) -> None:
        if event.type == "ADDED" and orjson.loads(event.record.body)["spec"].get("enableInTreeAutoscaling"):
            self.timeline.after(LOOK_SECONDS, lambda: self._look(event.record.key, event.record.uid))

    def _look(self, key: str, uid: str) -> None:
        record, ray = self.clusters.get(key), self.drivers.rays.get(key)
        if record is None or record.uid != uid:
            return
        self.timeline.after(LOOK_SECONDS, lambda: self._look(key, uid))
        cluster = orjson.loads(record.body)
        if ray is None or cluster["spec"].get("suspend"):
            return
        self.drivers.look(ray)
        group = cluster["spec"]["workerGroupSpecs"][0]
        idle = self._idle(cluster, ray.idle_since)[: max(0, group["replicas"] - group["minReplicas"])]
        named = (group.get("scaleStrategy") or {}).get("workersToDelete") or []
        wanted = min(group["maxReplicas"], max(group["minReplicas"], self.drivers.asked(key)))
        if idle:
            self._scale(cluster, group["replicas"] - len(idle), idle)
        elif wanted > group["replicas"]:
            self._scale(cluster, wanted, named)
        elif named:
            self._scale(cluster, group["replicas"], [])

    def _idle(self, cluster: Json, since: dict[str, float]) -> list[str]:
        """Names of the workers to take back."""
        meta, spec = cluster["metadata"], cluster["spec"]
        version = tuple(int(part) for part in spec["rayVersion"].split(".")[:2])
        if version >= REPAIRED and self.drivers.waiting(f"{meta['namespace']}/{meta['name']}"):
            return []
        patience = spec["autoscalerOptions"]["idleTimeoutSeconds"] / self.timeline.speed
        now = self.timeline.now()
        return [key.partition("/")[2] for key, begun in since.items() if now - begun >= patience]

    def _scale(self, cluster: Json, replicas: int, named: list[str]) -> None:
        group = cluster["spec"]["workerGroupSpecs"][0]
        group |= {"replicas": replicas, "scaleStrategy": {"workersToDelete": named}}
        cluster["metadata"]["generation"] = cluster["metadata"].get("generation", 1) + 1
        self.clusters.put(cluster)
