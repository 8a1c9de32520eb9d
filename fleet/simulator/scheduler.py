"""Where pods run: binds waiting pods to nodes that are ready, not cordoned and have the GPUs.

It decides placement, by priority, and a gang that has not begun only as a whole: as many members as its PodGroup asks
for, or all where none asks. It refuses to preempt and to touch a pod that is already bound.
"""

from collections import Counter
from random import Random
from typing import Any, NamedTuple

import orjson

from fleet.simulator.happenings import Happenings
from fleet.simulator.host import LABEL, Host
from fleet.simulator.store import Event, Record, Store
from fleet.simulator.timeline import Timeline

Json = dict[str, Any]
GROUP = "scheduling.x-k8s.io/pod-group"
ASKS_GPU = b'"nvidia.com/gpu":"'  # most pods ask for none, and parsing 80,000 of them to see that takes seconds
HOSTNAME = "kubernetes.io/hostname"


class Need(NamedTuple):
    """What a waiting pod asks for."""

    order: tuple[int, int]
    uid: str
    group: str
    gpus: int
    selector: dict[str, str]
    tolerations: list[Json]
    kind: bytes  # the same for all that the same nodes are good enough for


class Scheduler:
    def __init__(
        self, store: Store, timeline: Timeline, rng: Random, hosts: dict[str, Host], happenings: Happenings
    ) -> None:
        self.pods = store["pods"]
        self.nodes = store["nodes"]
        self.groups = store["podgroups"]
        self.timeline = timeline
        self.rng = rng
        self.hosts = hosts
        self.happenings = happenings
        self.pools: dict[str, list[Host]] = {}
        for host in hosts.values():
            self.pools.setdefault(host.pool, []).append(host)
        self.roomy = {pool: {host.name: host for host in members} for pool, members in self.pools.items()}
        self.waiting: dict[str, Need] = {}
        self.explained: set[str] = set()  # uids of waiting pods that have been told why
        self.bound: dict[str, int] = {}  # gang -> bound members
        self.tainted: dict[str, list[Json]] = {}  # node -> what keeps pods away, when there is anything
        self.away: set[str] = set()  # nodes that are cordoned or not ready
        self.planned = False
        self.hopeless: set[bytes] = set()  # kinds of need for which this look has found no node at all
        self.pods.listeners.append(self._pod_changed)
        self.nodes.listeners.append(self._node_changed)

    def plan(self) -> None:
        """Look at the waiting pods soon; many reasons to look become one look."""
        if not self.planned:
            self.planned = True
            self.timeline.real_after(0.1, self._look)

    def _look(self) -> None:
        self.planned = False
        self.hopeless.clear()
        groups: dict[str, list[tuple[str, Need]]] = {}
        for key, need in sorted(self.waiting.items(), key=lambda entry: entry[1].order):
            groups.setdefault(need.group or key, []).append((key, need))
        for group, members in groups.items():
            self._look_at(group, members)

    def _look_at(self, group: str, members: list[tuple[str, Need]]) -> None:
        """One gang, or one pod that is in none."""
        begun, least = self.bound.get(group, 0), self._least(members)
        if not begun and len(members) < least:
            few = f"cannot find enough sibling pods, current pods number: {len(members)}, minMember of group: {least}"
            for key, need in members:
                self._explain(key, need, f"pod {key} {few}")
            return
        taken: Counter[str] = Counter()
        places: list[tuple[str, Host]] = []
        for number, (key, need) in enumerate(members):
            host = self._place(need, taken)
            if host is not None:
                places.append((key, host))
                taken[host.name] += need.gpus
            elif not begun and len(places) + len(members) - number - 1 < least:
                for waiting, its_need in members:
                    self._explain(waiting, its_need)
                return
            else:
                self._explain(key, need)
        for key, host in places if begun or len(places) >= least else ():
            self._bind(key, host)

    def _least(self, members: list[tuple[str, Need]]) -> int:
        """Members without which none starts."""
        key, need = members[0]
        group = self.groups.read(f"{key.partition('/')[0]}/{need.group}") if need.group else None
        return int(group["spec"]["minMember"]) if group is not None else len(members)

    def _place(self, need: Need, taken: Counter[str]) -> Host | None:
        if HOSTNAME in need.selector:
            host = self.hosts.get(need.selector[HOSTNAME])
            return host if host is not None and self._fits(host, need, taken) else None
        wanted = need.selector.get(LABEL + "pool")
        pools = [wanted] if wanted else list(self.pools)
        if need.gpus:
            if need.kind in self.hopeless:
                return None
            roomy = (host for pool in pools for host in self.roomy.get(pool, {}).values())
            found = next((host for host in roomy if self._fits(host, need, taken)), None)
            if found is None and not taken:  # nodes only fill up during one look
                self.hopeless.add(need.kind)
            return found
        candidates = self.pools.get(self.rng.choice(pools), []) if pools else []
        if not candidates:
            return None
        # a small pod fits nearly everywhere: a few throws are enough
        throws = [candidates[self.rng.randrange(len(candidates))] for _ in range(20)]
        return next((host for host in throws if self._fits(host, need, taken)), None)

    def _fits(self, host: Host, need: Need, taken: Counter[str]) -> bool:
        if host.name in self.away and not _tolerates(need.tolerations, self.tainted.get(host.name, [])):
            return False
        promised = taken[host.name]
        if need.gpus and (host.free_gpus() - promised < need.gpus or host.usable_gpus() < need.gpus):
            return False
        wanted = {k: v for k, v in need.selector.items() if k not in (HOSTNAME, LABEL + "pool")}
        record = self.nodes.get(host.name)
        return record is not None and all(record.labels.get(k) == v for k, v in wanted.items())

    def _bind(self, key: str, host: Host) -> None:
        obj = self.pods.read(key)
        if obj is None:
            return
        obj["spec"]["nodeName"] = host.name
        now = self.timeline.stamp()
        obj["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now}]
        self.pods.put(obj)

    def _explain(self, key: str, need: Need, words: str = "") -> None:
        """Once per pod, like the real one's first attempt."""
        if need.uid in self.explained:
            return
        if not words:  # siblings may come: then there is another word to say
            self.explained.add(need.uid)
        obj = self.pods.read(key)
        if obj is None or (words and obj["status"].get("conditions")):
            return
        asks = f"{need.gpus} nvidia.com/gpu" if need.gpus else "its node selector"
        text = words or f"0/{len(self.hosts)} nodes are available: none has room for {asks}."
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
            "lastTransitionTime": self.timeline.stamp(),
        }
        obj["status"]["conditions"] = [condition]
        record = self.pods.put(obj)
        self.happenings.tell("Pod", record, "FailedScheduling", text, "default-scheduler", warning=True)

    def _pod_changed(self, event: Event) -> None:
        pod, before = event.record, event.before
        ended = event.type == "DELETED" or pod.phase in ("Succeeded", "Failed")
        if ended or pod.node or pod.deleting:
            self.waiting.pop(pod.key, None)
            self.explained.discard(pod.uid)
        if pod.node and not ended and (before is None or not before.node):
            self._take(pod)
        elif pod.node and ended and (before is None or before.phase not in ("Succeeded", "Failed")):
            self._free(pod)
        elif not pod.node and not ended and before is None:
            self.waiting[pod.key] = _need(pod)
            self.plan()

    def _take(self, pod: Record) -> None:
        host = self.hosts.get(pod.node)
        if host is None or not (pod.labels.get(GROUP) or ASKS_GPU in pod.body):
            return
        need = _need(pod)
        for index in [i for i, key in enumerate(host.owners) if not key][: need.gpus]:
            host.owners[index] = pod.key
        if not host.free_gpus():
            self.roomy[host.pool].pop(host.name, None)
        if need.group:
            self.bound[need.group] = self.bound.get(need.group, 0) + 1

    def _free(self, pod: Record) -> None:
        host = self.hosts.get(pod.node)
        if host is None:
            return
        host.owners = ["" if key == pod.key else key for key in host.owners]
        if host.free_gpus():
            self.roomy[host.pool][host.name] = host
        group = pod.labels.get(GROUP)
        if group:
            self.bound[group] = self.bound.get(group, 0) - 1
        if self.waiting:
            self.plan()

    def _node_changed(self, event: Event) -> None:
        node = orjson.loads(event.record.body)
        taints = [t for t in node["spec"].get("taints") or () if t["effect"] != "PreferNoSchedule"]
        if node["spec"].get("unschedulable") and not any(t["key"].endswith("/unschedulable") for t in taints):
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        self.tainted[event.record.name] = taints
        if taints or not event.record.ready or event.type == "DELETED":
            self.away.add(event.record.name)
        else:
            self.tainted.pop(event.record.name)
            if event.record.name in self.away:
                self.away.discard(event.record.name)
                self.plan()


def _need(pod: Record) -> Need:
    obj = orjson.loads(pod.body)
    spec = obj["spec"]
    asked = 0
    for container in spec.get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        asked += int(limits.get("nvidia.com/gpu", 0))
    order = (-int(spec.get("priority") or 0), pod.rv)
    selector = dict(spec.get("nodeSelector") or {})
    tolerations = list(spec.get("tolerations") or ())
    kind = orjson.dumps([asked, selector, tolerations], option=orjson.OPT_SORT_KEYS)
    return Need(order, pod.uid, pod.labels.get(GROUP, ""), asked, selector, tolerations, kind)


def _tolerates(tolerations: list[Json], taints: list[Json]) -> bool:
    return bool(taints) and all(any(_matches(t, taint) for t in tolerations) for taint in taints)


def _matches(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", "")
