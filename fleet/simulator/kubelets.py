"""What kubelets do with pods: start what is bound to their node, end what is deleted, restart after a boot.

It decides when a pod is Running, when it is gone, and that nothing at all happens on a node whose kubelet is dead.
It refuses to place or to replace pods.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import orjson

from fleet.simulator import objects
from fleet.simulator.host import Host
from fleet.simulator.store import Event, Record, Store
from fleet.simulator.timeline import Timeline, stamp

Json = dict[str, Any]


class Kubelets:
    """All kubelets of the fleet."""

    def __init__(self, store: Store, timeline: Timeline, rng: Random, hosts: dict[str, Host]) -> None:
        self.store = store
        self.pods = store["pods"]
        self.timeline = timeline
        self.rng = rng
        self.hosts = hosts
        self.stuck: dict[str, str] = {}  # uid of a pod that never ends -> its node
        self.logs: dict[str, str] = {}  # uid of a pod -> what it printed
        self.pods.listeners.append(self._noticed)

    def delete(self, record: Record, grace: int | None, why: tuple[str, str] | None = None) -> Record:
        """The API server's part of deleting a pod; the kubelet's part follows in its time.

        `why` (reason, message) is told by the pod's condition DisruptionTarget, as whoever disrupts pods does.
        """
        obj = orjson.loads(record.body)
        meta = obj["metadata"]
        period = int(obj["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace)
        if not record.node or record.phase in ("Succeeded", "Failed"):
            period = 0
        if record.deleting and period >= meta.get("deletionGracePeriodSeconds", 0):
            return record
        if period == 0 and not meta.get("finalizers"):
            return self.pods.remove(record.key) or record
        meta["deletionTimestamp"] = stamp(int(self.timeline.now()) + period)
        meta["deletionGracePeriodSeconds"] = period
        if why is not None:
            told = {"type": "DisruptionTarget", "status": "True", "reason": why[0], "message": why[1]}
            told["lastTransitionTime"] = self.timeline.stamp()
            obj["status"].setdefault("conditions", []).append(told)
        marked = self.pods.put(obj)
        natural = self.rng.uniform(2.0, 5.0) if meta.get("labels", {}).get("scheduling.x-k8s.io/pod-group") else 2.0
        self.timeline.after(min(natural, period), lambda: self.end(record.key, record.uid))
        return marked

    def end(self, key: str, uid: str) -> None:
        """The containers have stopped: the object goes, unless the kubelet is dead or something pins it."""
        record = self.pods.get(key)
        if record is None or record.uid != uid or not record.deleting:
            return
        host = self.hosts.get(record.node)
        if host is not None and not (host.kubelet and host.up):
            return
        if host is not None and "pod_stuck" in host.faults and host.name not in self.stuck.values():
            self.stuck[uid] = host.name
        if uid in self.stuck:
            return
        obj = orjson.loads(record.body)
        if not obj["metadata"].get("finalizers"):
            self.pods.remove(key)
        elif record.ready:
            self.pods.put(obj | {"status": unready(obj["status"], "PodCompleted", self.timeline.stamp())})

    def unpinned(self, record: Record) -> None:
        """Its last finalizer is gone; if its containers have ended as well, so has the pod."""
        if not record.ready:
            self.pods.remove(record.key)
        else:
            self.timeline.after(1.0, lambda: self.end(record.key, record.uid))

    def let_go(self, node: str) -> None:
        """Whatever kept a pod of this node from ending is over."""
        for uid in [uid for uid, where in self.stuck.items() if where == node]:
            del self.stuck[uid]
        for record in self.pods.on_node(node):
            if record.deleting:
                self.end(record.key, record.uid)

    def came_back(self, host: Host, rebooted: bool) -> None:
        """A kubelet runs again: it ends what was deleted meanwhile, and after a boot starts its containers afresh."""
        if rebooted:
            self.let_go(host.name)
        for record in self.pods.on_node(host.name):
            if record.deleting:
                self.timeline.after(0.5, _bind(self.end, record))
            elif record.phase == "Pending":
                self.timeline.after(self.rng.uniform(0.5, 1.5), _bind(self.start, record))
            elif record.phase == "Running":
                self._again(record, host, rebooted)

    def _again(self, record: Record, host: Host, rebooted: bool) -> None:
        obj = orjson.loads(record.body)
        if rebooted and obj["spec"].get("restartPolicy") == "Never":
            self.finish(record.key, record.uid, 255, "the node was restarted", "Unknown")
            return
        restarts = sum(c.get("restartCount", 0) for c in obj["status"].get("containerStatuses") or ())
        self.pods.put(obj | {"status": objects.running(obj, host, self.timeline.stamp(), restarts + int(rebooted))})

    def start(self, key: str, uid: str) -> None:
        record = self.pods.get(key)
        host = self.hosts.get(record.node) if record else None
        if record is None or host is None or record.uid != uid or record.deleting or record.phase != "Pending":
            return
        if host.kubelet and host.up:
            obj = orjson.loads(record.body)
            self.pods.put(obj | {"status": objects.running(obj, host, self.timeline.stamp())})

    def finish(self, key: str, uid: str, code: int, message: str, reason: str = "", log: str = "") -> None:
        """The main container exited by itself. `log` is what it printed, when that is more than its last word."""
        record = self.pods.get(key)
        if record is None or record.uid != uid or record.phase not in ("Running", "Pending"):
            return
        if log:
            self.logs[uid] = log
        obj, now = orjson.loads(record.body), self.timeline.stamp()
        status = unready(obj["status"], "PodCompleted", now)
        status["phase"] = "Failed" if code else "Succeeded"
        ended = {"exitCode": code, "reason": reason or ("Error" if code else "Completed"), "message": message}
        for container in status.get("containerStatuses") or ():
            began = (container.get("state", {}).get("running") or {}).get("startedAt", now)
            container |= {"ready": False, "started": False}
            container["state"] = {"terminated": ended | {"startedAt": began, "finishedAt": now}}
        self.pods.put(obj | {"status": status})

    def lost_sight(self, host: Host) -> None:
        """The node controller no longer hears the kubelet: its pods do not count as ready any more."""
        for record in self.pods.on_node(host.name):
            if record.ready:
                obj = orjson.loads(record.body)
                self.pods.put(obj | {"status": unready(obj["status"], "NodeNotReady", self.timeline.stamp())})

    def _noticed(self, event: Event) -> None:
        record, before = event.record, event.before
        if event.type == "DELETED":
            self.stuck.pop(record.uid, None)
            self.logs.pop(record.uid, None)
        elif record.node and record.phase == "Pending" and (before is None or not before.node):
            self.timeline.after(self.rng.uniform(0.8, 2.2), _bind(self.start, record))


def unready(status: Json, reason: str, now: str) -> Json:
    changed = dict(status)
    changed["conditions"] = [
        entry | {"status": "False", "reason": reason, "lastTransitionTime": now}
        if entry["type"] in ("Ready", "ContainersReady") and entry["status"] == "True"
        else entry
        for entry in status.get("conditions") or ()
    ]
    return changed


def _bind(act: Callable[[str, str], None], record: Record) -> Callable[[], None]:
    return lambda: act(record.key, record.uid)
