"""How hosts, their power supplies, their BMCs and their exporters break.

It decides what dies with what: a dead kubelet leaves pods and exporters running, a dead host leaves only its BMC.
It refuses to tell anybody; the silence is found out by others.
"""

from fleet.simulator.faults import Fault, Faults
from fleet.simulator.host import Host
from fleet.simulator.kubelets import Kubelets
from fleet.simulator.node_controller import NodeController
from fleet.simulator.store import Store

SUPPLIES = 4
SKEW_SECONDS = 120.0


def _nothing(host: Host, device: int) -> None:
    """The name in the host's set of faults is all there is to it."""


class HostFaults:
    def __init__(
        self, faults: Faults, controller: NodeController, kubelets: Kubelets, store: Store, hosts: dict[str, Host]
    ) -> None:
        self.faults = faults
        self.controller = controller
        self.kubelets = kubelets
        self.store = store
        self.hosts = hosts
        faults.teach(
            Fault("not_ready", self.kubelet_dies, self.kubelet_returns),
            Fault("host_dead", self.die, self.revive),
            Fault("isolated", self.cut_off, self.reconnect),
            Fault("psu", self.lose_supply, self.replace_supply, SUPPLIES, boot_mends=False),
            Fault("bmc_silent", _nothing, _nothing, boot_mends=False),
            Fault("bmc_lies", _nothing, _nothing, boot_mends=False),
            Fault("bmc_500", _nothing, _nothing, boot_mends=False),
            Fault("bmc_wrong_serial", _nothing, _nothing, boot_mends=False),
            Fault("exporter_garbage", _nothing, _nothing),
            Fault("exporter_wrong_host", self.claim, self.own_up),
            Fault("clock_skew", self.skew, self.set_clock),
            Fault("pod_stuck", _nothing, lambda host, device: kubelets.let_go(host.name)),
            Fault("stubborn", _nothing, self.repaired, boot_mends=False),
        )

    def kubelet_dies(self, host: Host, device: int) -> None:
        self.controller.kubelet_died(host)

    def kubelet_returns(self, host: Host, device: int) -> None:
        if host.up and not host.kubelet:
            self.controller.kubelet_came(host, rebooted=False)

    def die(self, host: Host, device: int) -> None:
        host.exporters = False
        self.controller.kubelet_died(host)

    def revive(self, host: Host, device: int) -> None:
        if host.up:
            host.exporters = True
            self.kubelet_returns(host, device)

    def cut_off(self, host: Host, device: int) -> None:
        """The network is away: nobody hears its kubelet or its exporters, and it runs on."""
        host.exporters = False
        self.controller.kubelet_died(host)

    def reconnect(self, host: Host, device: int) -> None:
        self.revive(host, device)

    def lose_supply(self, host: Host, device: int) -> None:
        host.psu_failed = device

    def replace_supply(self, host: Host, device: int) -> None:
        host.psu_failed = -1

    def claim(self, host: Host, device: int) -> None:
        """Its samples carry the name of the next node, as after a cloned image."""
        names = list(self.hosts)
        host.claims_to_be = names[(host.index + 1) % len(names)]
        host.labels = ()

    def own_up(self, host: Host, device: int) -> None:
        host.claims_to_be = ""
        host.labels = ()

    def skew(self, host: Host, device: int) -> None:
        self.store.skews[host.name] = SKEW_SECONDS

    def set_clock(self, host: Host, device: int) -> None:
        self.store.skews.pop(host.name, None)

    def repaired(self, host: Host, device: int) -> None:
        """Somebody replaced the part: everything that a boot could not mend is mended."""
        for name in sorted(host.faults):
            host.faults.discard(name)
            self.faults.known[name].mend(host, -1)
        self.faults.known["xid79"].mend(host, -1)
