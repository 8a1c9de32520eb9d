"""The controller of scheduler-plugins' PodGroups: their phase and counts, and those of the training gangs.

It decides the phase by the pods that carry the group's label. It refuses to place: the scheduler looks at `minMember`
itself.
"""

from typing import Any

from fleet.simulator.gangs.shapes import POD_GROUP
from fleet.simulator.host import identity
from fleet.simulator.store import Event, Record, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]


class PodGroups:
    def __init__(self, store: Store, timeline: Timeline) -> None:
        self.groups = store["podgroups"]
        self.pods = store["pods"]
        self.timeline = timeline
        self.members: dict[str, dict[str, Record]] = {}
        self.planned: set[str] = set()

    def begin(self) -> None:
        for record in self.pods.records.values():
            self._count(record, gone=False)
        for key in list(self.members):
            self._tell(key)
        self.pods.listeners.append(self._pod_changed)
        self.groups.listeners.append(self._group_changed)

    def _group_changed(self, event: Event) -> None:
        if event.type == "ADDED":
            self._plan(event.record.key)

    def _pod_changed(self, event: Event) -> None:
        key = self._count(event.record, gone=event.type == "DELETED")
        if key:
            self._plan(key)

    def _count(self, record: Record, *, gone: bool) -> str:
        name = record.labels.get(POD_GROUP)
        if not name:
            return ""
        key = f"{record.namespace}/{name}"
        members = self.members.setdefault(key, {})
        if gone:
            members.pop(record.key, None)
        else:
            members[record.key] = record
        return key

    def _plan(self, key: str) -> None:
        if key not in self.planned:
            self.planned.add(key)
            self.timeline.real_after(0.2, lambda: self._tell(key))

    def _tell(self, key: str) -> None:
        self.planned.discard(key)
        group = self.groups.read(key)
        if group is None:
            return
        members = self.members.get(key, {}).values()
        told = _status(group, list(members), self.timeline.stamp())
        if told != group.get("status"):
            self.groups.put(group | {"status": told})


def of_gang(seed: int, namespace: str, name: str, least: int, created: str) -> Json:
    """As a training gang brings it along."""
    meta = {"name": name, "namespace": namespace, "uid": str(identity(seed, "podgroups", namespace, name))}
    return {
        "metadata": meta | {"creationTimestamp": created, "generation": 1},
        "spec": {"minMember": least, "scheduleTimeoutSeconds": 600},
        "status": {"phase": "Pending"},
    }


def _status(group: Json, members: list[Record], now: str) -> Json:
    before, least = group.get("status") or {}, group["spec"]["minMember"]
    running = sum(record.phase == "Running" for record in members)
    succeeded = sum(record.phase == "Succeeded" for record in members)
    failed = sum(record.phase == "Failed" for record in members)
    bound = sum(bool(record.node) for record in members)
    if members and succeeded == len(members):
        phase = "Finished"
    elif running >= least:
        phase = "Running"
    elif bound >= least:
        phase = "Scheduling"
    else:
        phase = "Pending"
    told: Json = {"phase": phase, "running": running, "succeeded": succeeded, "failed": failed}
    if phase in ("Running", "Scheduling", "Finished"):
        told["scheduleStartTime"] = before.get("scheduleStartTime", now)
    return told
