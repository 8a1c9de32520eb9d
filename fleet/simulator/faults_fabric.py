"""How the things between nodes break: InfiniBand ports and NFS mounts.

It decides port states, counters and kernel lines. It refuses to mend a cable by a boot: a dead link stays dead.
"""

from collections.abc import Callable
from random import Random

from fleet.simulator.faults import Fault, Faults
from fleet.simulator.host import PORTS, Host
from fleet.simulator.kernel_log import KernelLog
from fleet.simulator.storage import MOUNTS, Storage
from fleet.simulator.timeline import Timeline

FLAPS = 4
FLAP_SECONDS = 6.0
FLAPPING = {"ib_flap", "leaf_flap"}


class FabricFaults:
    def __init__(
        self,
        faults: Faults,
        kernel_log: KernelLog,
        timeline: Timeline,
        storage: Storage,
        hosts: dict[str, Host],
        rng: Random,
    ) -> None:
        self.kernel_log = kernel_log
        self.timeline = timeline
        self.storage = storage
        self.hosts = hosts
        self.rng = rng
        faults.teach(
            Fault("ib_down", self.link_down, self.links_up, PORTS, boot_mends=False),
            Fault("ib_flap", lambda h, d: self.flap(h, d, FLAPS), self.links_up, PORTS),
            Fault("leaf_flap", self.leaf_flap, self.leaf_up, PORTS, boot_mends=False),
            Fault("nfs_hang", self.hang, self.unhang),
            Fault("nfs_server_down", self.server_down, self.server_up, boot_mends=False),
        )

    def link_down(self, host: Host, device: int) -> None:
        port = host.port(device)
        port.up = False
        port.downed += 1
        self.kernel_log.say(host, f"mlx5_core 0000:{0x18 + device * 8:02x}:00.0 mlx5_{device}: Port: 1 Link DOWN")

    def link_up(self, host: Host, device: int) -> None:
        host.port(device).up = True
        self.kernel_log.say(host, f"mlx5_core 0000:{0x18 + device * 8:02x}:00.0 mlx5_{device}: Port: 1 Link ACTIVE")

    def links_up(self, host: Host, device: int) -> None:
        for index, port in host.ports.items():
            if not port.up and device in (-1, index):
                self.link_up(host, index)

    def flap(self, host: Host, device: int, left: int) -> None:
        """Down and up again a few times; each time the counters that only ever grow have grown."""
        if not host.faults & FLAPPING or not host.up:
            return
        port = host.port(device)
        self.link_down(host, device)
        port.recoveries += 1
        port.symbol_errors += 150

        def back() -> None:
            if host.faults & FLAPPING and host.up:
                self.link_up(host, device)
                if left > 1:
                    self.timeline.after(FLAP_SECONDS, lambda: self.flap(host, device, left - 1))

        self.timeline.after(FLAP_SECONDS / 2, back)

    def leaf_flap(self, host: Host, device: int) -> None:
        """The leaf switch above this node goes up and down: so does that port of every node below it."""
        for other in self._below(host):
            other.faults.add("leaf_flap")
            self.timeline.after(self.rng.uniform(0.0, 0.5), _flap(self, other, device))

    def leaf_up(self, host: Host, device: int) -> None:
        for other in self._below(host):
            other.faults.discard("leaf_flap")
            self.links_up(other, device)

    def _below(self, host: Host) -> list[Host]:
        return [other for other in self.hosts.values() if other.leaf == host.leaf]

    def hang(self, host: Host, device: int) -> None:
        mount = MOUNTS[device % len(MOUNTS)]
        host.hung_mounts[mount] = self.timeline.now()
        self._complain(host, mount)

    def unhang(self, host: Host, device: int) -> None:
        for mount in list(host.hung_mounts):
            del host.hung_mounts[mount]
            self._relieved(host, mount)

    def server_down(self, host: Host, device: int) -> None:
        """The server behind this node's /data stops answering, for everybody who mounts it."""
        self.storage.down[host.data_server] = self.timeline.now()
        for other in self.hosts.values():
            if other.data_server == host.data_server:
                self.timeline.after(self.rng.uniform(0.0, 5.0), _bind(self._complain, other))

    def server_up(self, host: Host, device: int) -> None:
        if self.storage.down.pop(host.data_server, None) is None:
            return
        for other in self.hosts.values():
            if other.data_server == host.data_server:
                other.faults.discard("nfs_server_down")
                self.timeline.after(self.rng.uniform(0.0, 3.0), _bind(self._relieved, other))

    def _complain(self, host: Host, mount: str) -> None:
        if not self.storage.hung_since(host, mount):
            return
        server = self.storage.server(host, mount)
        self.kernel_log.say(host, f"nfs: server {server} not responding, still trying")
        self.timeline.after(30.0, lambda: self._blocked(host, mount))

    def _blocked(self, host: Host, mount: str) -> None:
        if self.storage.hung_since(host, mount):
            self.kernel_log.say(host, "INFO: task python3:48213 blocked for more than 120 seconds.")

    def _relieved(self, host: Host, mount: str) -> None:
        self.kernel_log.say(host, f"nfs: server {self.storage.server(host, mount)} OK")


def _flap(fabric: FabricFaults, host: Host, device: int) -> Callable[[], None]:
    return lambda: fabric.flap(host, device, FLAPS)


def _bind(act: Callable[[Host, str], None], host: Host) -> Callable[[], None]:
    return lambda: act(host, "/data")
