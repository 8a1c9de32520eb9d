"""What the control plane and the kubelets say about nodes: conditions, heartbeats, taints, evictions by taint.

It decides when a silent kubelet becomes `Unknown`, which taints follow, and that pods of an unreachable node are
deleted whatever their budgets say. It refuses to write heartbeats one by one: a live node's are made when read.
"""

from collections.abc import Iterable
from typing import Any

import orjson

from fleet.simulator import objects
from fleet.simulator.happenings import Happenings
from fleet.simulator.host import GPUS, Host
from fleet.simulator.kube.defaults import STAY_SECONDS
from fleet.simulator.kubelets import Kubelets
from fleet.simulator.store import HEARTBEAT, RENEWAL, Event, Store
from fleet.simulator.timeline import Timeline, micro_stamp, stamp

Json = dict[str, Any]

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
TAINTED = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
GRACE_SECONDS = 40.0  # of silence, when only the kubelet died
RESET_GRACE_SECONDS = 2.0  # a reset takes seconds here instead of minutes; so does noticing it
STATUS_PERIOD = 300.0  # how often a kubelet posts a status that nobody needed


class NodeController:
    def __init__(
        self, store: Store, timeline: Timeline, kubelets: Kubelets, happenings: Happenings, hosts: dict[str, Host]
    ) -> None:
        self.nodes = store["nodes"]
        self.leases = store["leases"]
        self.pods = store["pods"]
        self.timeline = timeline
        self.kubelets = kubelets
        self.happenings = happenings
        self.hosts = hosts
        self.order: list[str] = list(hosts)
        self.turn = 0

    def begin(self) -> None:
        self.nodes.listeners.append(self._node_changed)
        self.timeline.real_after(1.0, self._sweep)

    def kubelet_died(self, host: Host, grace: float = GRACE_SECONDS) -> None:
        """Silence from now on; what it means is understood only after the grace period."""
        host.kubelet = False
        host.life += 1
        life, now = host.life, self.timeline.now()
        node = self.nodes.read(host.name)
        if node is not None and _freeze(node, stamp(int(now))):
            self.nodes.put(node)
        lease = self.leases.read(f"kube-node-lease/{host.name}")
        if lease is not None and lease["spec"]["renewTime"] == RENEWAL:
            lease["spec"]["renewTime"] = micro_stamp(now)
            self.leases.put(lease)
        self.timeline.after(grace, lambda: self._unknown(host, life))

    def kubelet_came(self, host: Host, rebooted: bool) -> None:
        """It registers again: fresh heartbeat, Ready, and after a boot the new boot id."""
        host.kubelet = True
        host.life += 1
        node = self.nodes.read(host.name)
        if node is None:
            return
        was_ready = _ready(node)
        now = self.timeline.stamp()
        conditions = {c["type"]: c for c in node["status"]["conditions"]}
        for fresh in objects.conditions(now):
            old = conditions.get(fresh["type"], {})
            if old.get("status") == fresh["status"]:
                fresh["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[fresh["type"]] = fresh
        node["status"] |= {"conditions": list(conditions.values()), "nodeInfo": objects.node_info(host)}
        _offer(node, host)
        _set_taints(node, [t for t in node["spec"].get("taints") or () if t["key"] != UNREACHABLE])
        record = self.nodes.put(node)
        lease = self.leases.read(f"kube-node-lease/{host.name}")
        if lease is not None:
            lease["spec"]["renewTime"] = RENEWAL
            self.leases.put(lease)
        if rebooted:
            text = f"Node {host.name} has been rebooted, boot id: {host.boot_id}"
            self.happenings.tell("Node", record, "Rebooted", text, "kubelet", warning=True)
        if not was_ready:
            text = f"Node {host.name} status is now: NodeReady"
            self.happenings.tell("Node", record, "NodeReady", text, "kubelet")
        self.kubelets.came_back(host, rebooted)

    def offer_gpus(self, host: Host) -> None:
        """The device plugin tells the kubelet how many GPUs are left."""
        node = self.nodes.read(host.name)
        if node is not None and host.kubelet and _offer(node, host):
            self.nodes.put(node)

    def _unknown(self, host: Host, life: int) -> None:
        node = self.nodes.read(host.name)
        if host.life != life or host.kubelet or node is None:
            return
        if any(t["key"] == UNREACHABLE for t in node["spec"].get("taints") or ()):
            self.timeline.after(STAY_SECONDS, lambda: self._evict(host, life))
            return
        now = self.timeline.stamp()
        for condition in node["status"]["conditions"]:
            condition |= {"status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now}
            condition["message"] = "Kubelet stopped posting node status."
        taints = [t for t in node["spec"].get("taints") or () if t["key"] != UNREACHABLE]
        for effect in ("NoSchedule", "NoExecute"):
            taints.append({"key": UNREACHABLE, "effect": effect, "timeAdded": now})
        _set_taints(node, taints)
        record = self.nodes.put(node)
        text = f"Node {host.name} status is now: NodeNotReady"
        self.happenings.tell("Node", record, "NodeNotReady", text, "node-controller", warning=True)
        self.kubelets.lost_sight(host)
        self.timeline.after(STAY_SECONDS, lambda: self._evict(host, life))

    def _evict(self, host: Host, life: int) -> None:
        """The taint manager: deletes without asking any budget; on a dead kubelet nothing ends by that."""
        if host.life != life:
            return
        for record in self.pods.on_node(host.name):
            spec = orjson.loads(record.body)["spec"]
            if not record.deleting and not _stays(spec.get("tolerations") or ()):
                text = f"Marking for deletion Pod {record.key}"
                self.happenings.tell("Pod", record, "TaintManagerEviction", text, "taint-eviction-controller")
                self.kubelets.delete(record, None, TAINTED)

    def _node_changed(self, event: Event) -> None:
        """The cordon's own taint follows the field, as in a real cluster, a moment later."""
        if event.type == "DELETED":
            for record in self.pods.on_node(event.record.name):
                self.pods.remove(record.key)
            return
        spec = orjson.loads(event.record.body)["spec"]
        if bool(spec.get("unschedulable")) != _cordon_tainted(spec):
            name = event.record.name
            self.timeline.real_after(0.02, lambda: self._taint_cordon(name))
        if any(taint["key"] == OUT_OF_SERVICE for taint in spec.get("taints") or ()):
            gone = event.record.name
            self.timeline.real_after(0.5, lambda: self._let_go(gone))

    def _let_go(self, name: str) -> None:
        """Pod garbage collection: an out-of-service node that is not Ready loses its pods by force."""
        node = self.nodes.read(name)
        tainted = node is not None and any(t["key"] == OUT_OF_SERVICE for t in node["spec"].get("taints") or ())
        if node is None or not tainted or _ready(node):
            return
        for record in self.pods.on_node(name):
            if not _stays(orjson.loads(record.body)["spec"].get("tolerations") or ()):
                self.pods.remove(record.key)

    def _taint_cordon(self, name: str) -> None:
        node = self.nodes.read(name)
        if node is None:
            return
        wanted = bool(node["spec"].get("unschedulable"))
        if wanted == _cordon_tainted(node["spec"]):
            return
        taints = [t for t in node["spec"].get("taints") or () if t["key"] != CORDON["key"]]
        if wanted:
            taints.append(CORDON | {"timeAdded": self.timeline.stamp()})
        _set_taints(node, taints)
        self.nodes.put(node)

    def _sweep(self) -> None:
        """Every live kubelet posts its whole status once in a while; spread over the period, it is a trickle."""
        self.timeline.real_after(1.0, self._sweep)
        share = -(-len(self.order) // int(STATUS_PERIOD))
        for _ in range(min(share, len(self.order))):
            name = self.order[self.turn % len(self.order)]
            self.turn += 1
            if self.hosts[name].kubelet and (node := self.nodes.read(name)) is not None:
                self.nodes.put(node)


def _ready(node: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])


def _freeze(node: Json, now: str) -> bool:
    beating = [c for c in node["status"]["conditions"] if c.get("lastHeartbeatTime") == HEARTBEAT]
    for condition in beating:
        condition["lastHeartbeatTime"] = now
    return bool(beating)


def _offer(node: Json, host: Host) -> bool:
    offered = str(min(GPUS, host.usable_gpus()))
    changed = node["status"]["allocatable"]["nvidia.com/gpu"] != offered
    node["status"]["allocatable"]["nvidia.com/gpu"] = offered
    return bool(changed)


def _set_taints(node: Json, taints: list[Json]) -> None:
    node["spec"].pop("taints", None)
    if taints:
        node["spec"]["taints"] = taints


def _cordon_tainted(spec: Json) -> bool:
    return any(t["key"] == CORDON["key"] for t in spec.get("taints") or ())


def _stays(tolerations: Iterable[Json]) -> bool:
    """Whether a pod may stay on an unreachable node for ever, as DaemonSet pods do."""
    for toleration in tolerations:
        covers = toleration.get("key") in (None, "", UNREACHABLE)
        if covers and toleration.get("effect") in (None, "", "NoExecute") and "tolerationSeconds" not in toleration:
            return True
    return False
