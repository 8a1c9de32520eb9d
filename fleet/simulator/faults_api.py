"""How the cluster's API gets in the way: budgets that never yield, watches cut, history gone, rights withdrawn.

It decides which of them need a node. It refuses to break reads of single objects: those stay truthful.
"""

from fleet.simulator.faults import Fault, FaultRefused, Faults
from fleet.simulator.host import Host
from fleet.simulator.kube.api import KubeApi
from fleet.simulator.store import Store


class ApiFaults:
    def __init__(self, faults: Faults, api: KubeApi, store: Store) -> None:
        self.api = api
        self.store = store
        faults.teach(
            Fault("pdb_block", self.block, self.unblock, boot_mends=False),
            Fault("watch_cut", lambda h, d: self._cut(), lambda h, d: None, fleet_wide=True),
            Fault("watch_gone", lambda h, d: self._gone(), lambda h, d: None, fleet_wide=True),
            Fault("token_expired", lambda h, d: self._expire(True), lambda h, d: self._expire(False), fleet_wide=True),
            Fault("no_patch_right", lambda h, d: self._deny(True), lambda h, d: self._deny(False), fleet_wide=True),
        )

    def block(self, host: Host, device: int) -> None:
        """A budget on one pod of this node that allows no disruption whatever happens."""
        for pod in self.store["pods"].on_node(host.name):
            daemon = pod.labels.get("app") and "pod-template-hash" not in pod.labels
            if daemon or pod.deleting or self.api.budgets.covering(pod):
                continue
            budget = self.api.writing.create(
                self.store["poddisruptionbudgets"].kind,
                pod.namespace,
                {
                    "metadata": {"name": f"never-yields-{host.name}"},
                    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": dict(pod.labels)}},
                },
            )
            self.api.budgets.recount(budget.key)
            return
        raise FaultRefused(f"no pod on {host.name} that a new budget could keep: all are covered or of a DaemonSet")

    def unblock(self, host: Host, device: int) -> None:
        budgets = self.store["poddisruptionbudgets"]
        for record in list(budgets.records.values()):
            if record.name == f"never-yields-{host.name}":
                budgets.remove(record.key)

    def _cut(self) -> None:
        self.api.watching.cut_all()

    def _gone(self) -> None:
        """Compaction while every watch breaks: who comes back with an old version gets 410 over HTTP."""
        self.api.compact()
        self.api.watching.refuse_next = 1
        self.api.watching.cut_all()

    def _expire(self, expired: bool) -> None:
        self.api.access.expired = expired

    def _deny(self, denied: bool) -> None:
        (self.api.access.denied.add if denied else self.api.access.denied.discard)("patch nodes")
