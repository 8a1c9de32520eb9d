"""What `nvidia-smi --gpu-reset` does when a privileged program runs it on a node.

It decides which GPUs are reset, what their state is afterwards and what the driver says of it. It refuses, as the
tool does, without rights, for a GPU that is in use or off the bus, and where only a reboot helps.
"""

from typing import Any

from fleet.simulator.exporters.dcgm import gpu_uuid
from fleet.simulator.faults import Faults
from fleet.simulator.faults_gpu import REBOOT
from fleet.simulator.host import GPUS, PCI, Gpu, Host
from fleet.simulator.kernel_log import KernelLog
from fleet.simulator.node_controller import NodeController
from fleet.simulator.stats import Stats

Json = dict[str, Any]
FLAG = "--gpu-reset"


class GpuResets:
    def __init__(
        self, hosts: dict[str, Host], faults: Faults, kernel_log: KernelLog, controller: NodeController, stats: Stats
    ) -> None:
        self.hosts = hosts
        self.faults = faults
        self.kernel_log = kernel_log
        self.controller = controller
        self.stats = stats

    def run(self, node: str, container: Json) -> str | None:
        """The complaint of the tool, None when every wanted GPU was reset."""
        host, command = self.hosts[node], list(container.get("command") or ())
        if not (container.get("securityContext") or {}).get("privileged"):
            return "Insufficient Permissions"
        wanted = command[command.index("-i") + 1].split(",") if "-i" in command[:-1] else None
        chosen = [i for i in range(GPUS) if wanted is None or gpu_uuid(host, i) in wanted or str(i) in wanted]
        if wanted is not None and len(chosen) < len(wanted):
            return "No devices were found"
        for index in chosen:
            gpu = host.gpus.get(index)
            if host.owners[index]:
                return f"GPU 00000000:{PCI[index].upper()}:00.0 is currently in use by another process."
            if gpu is not None and (gpu.gone or gpu.recovery == REBOOT):
                return f"GPU Reset couldn't run because GPU 00000000:{PCI[index].upper()}:00.0 is lost"
        self.stats.gpu_resets[node] += 1
        if "stubborn" not in host.faults:
            for index in chosen:
                self._reset(host, index)
            self.controller.offer_gpus(host)
        return None

    def _reset(self, host: Host, index: int) -> None:
        """What the driver had latched is over; what is broken in the silicon or the cooling is not."""
        old = host.gpus.pop(index, Gpu())
        if old.hot_since or old.odd:
            host.gpus[index] = Gpu(hot_since=old.hot_since, odd=old.odd)
        if old.recovery:
            text = f"GPU recovery action changed from 0x{old.recovery:x} (GPU Reset Required) to 0x0 (None)"
            self.kernel_log.say(host, f"NVRM: Xid (PCI:0000:{PCI[index]}:00): 154, {text}")
        if not any(gpu.xid for gpu in host.gpus.values()):
            host.faults -= {name for name in host.faults if name.startswith("xid") or name == "ecc_dbe"}
