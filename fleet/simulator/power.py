"""Power: what a reset does to a host, how long a boot takes, and what has changed after it.

It decides when a host is out and when it is back with a new boot id. It refuses verbs that make no sense in the
present state, as BMCs do.
"""

from typing import Final

from fleet.simulator.faults import Faults
from fleet.simulator.host import Host, identity
from fleet.simulator.kernel_log import KernelLog
from fleet.simulator.node_controller import RESET_GRACE_SECONDS, NodeController
from fleet.simulator.stats import Stats
from fleet.simulator.timeline import Timeline

VERBS: Final = ("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle")
BOOT_SECONDS = 20.0
SHUTDOWN_SECONDS = 3.0
EXPORTER_SECONDS = 1.0


class PowerRefused(Exception):
    """The verb does not fit the present power state."""


class Power:
    def __init__(
        self,
        timeline: Timeline,
        stats: Stats,
        controller: NodeController,
        faults: Faults,
        kernel_log: KernelLog,
    ) -> None:
        self.timeline = timeline
        self.stats = stats
        self.controller = controller
        self.faults = faults
        self.kernel_log = kernel_log

    def reset(self, host: Host, verb: str) -> None:
        off = host.power == "Off"
        if verb == "On":
            if off:
                self._boot(host)
        elif verb in ("ForceOff", "GracefulShutdown"):
            if not off:
                self._switch_off(host, SHUTDOWN_SECONDS if verb == "GracefulShutdown" and host.up else 0.0)
        elif off and verb != "PowerCycle":
            raise PowerRefused(f"{verb} is not possible while the system is off")
        else:
            self._down(host)
            self._boot(host)

    def _down(self, host: Host) -> None:
        self.stats.went_out(host.name, host.scopes())
        host.exporters = False
        host.last_reset_at = self.timeline.now()
        self.controller.kubelet_died(host, RESET_GRACE_SECONDS)

    def _switch_off(self, host: Host, delay: float) -> None:
        def off() -> None:
            self._down(host)
            host.power, host.booting = "Off", False

        if delay:
            self.timeline.after(delay, off)
        else:
            off()

    def _boot(self, host: Host) -> None:
        self.stats.boots[host.name] += 1
        host.power, host.booting = "On", True
        host.last_reset_at = self.timeline.now()
        self.controller.kubelet_died(host, RESET_GRACE_SECONDS)
        life = host.life
        self.timeline.after(BOOT_SECONDS, lambda: self._booted(host, life))

    def _booted(self, host: Host, life: int) -> None:
        if not host.booting or host.power != "On" or host.life != life:
            return
        host.booted_at = host.paced_at = self.timeline.now()
        host.waited = 0.0
        host.boot_id = str(identity(host.uuid, "boot", self.stats.boots[host.name], host.boot_id))
        host.boot_override = "None"
        self.faults.survived_boot(host)
        host.booting = False
        self.stats.came_back(host.name, host.scopes())
        if not host.up:
            return
        self.kernel_log.say(host, "Linux version 6.8.0-79-generic (buildd@lcy02) #79-Ubuntu SMP PREEMPT_DYNAMIC")
        self.kernel_log.say(host, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.172.08")
        self.faults.after_boot(host)
        self.timeline.after(EXPORTER_SECONDS, lambda: self._exporters(host))
        if "not_ready" not in host.faults:
            self.controller.kubelet_came(host, rebooted=True)

    @staticmethod
    def _exporters(host: Host) -> None:
        host.exporters = host.up
