"""How GPUs break: Xids, uncorrectable memory errors, a GPU off the bus, heat.

It decides kernel lines, latched DCGM codes and counters of each. It refuses to tell the API server anything but what
the device plugin would: fewer allocatable GPUs.
"""

from fleet.simulator.faults import Fault, Faults
from fleet.simulator.host import GPUS, PCI, Gpu, Host
from fleet.simulator.kernel_log import KernelLog
from fleet.simulator.node_controller import NodeController
from fleet.simulator.timeline import Timeline

NONE, RESET, REBOOT = 0, 1, 2
TEXTS = {
    31: "pid=48213, name=python3, Ch 0000000c, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted",
    43: "pid=48213, name=python3, Ch 0000000c",
    45: "pid=48213, name=python3, Ch 0000000c",
    48: "pid='<unknown>', name=<unknown>, DBE (double bit error) ECC Error has occurred",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    94: "pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No",
    95: "pid='<unknown>', name=<unknown>, Uncontained: FBHUB. RST: Yes, D-RST: No",
}
ACTIONS = {RESET: "GPU Reset Required", REBOOT: "Node Reboot Required"}


def xid_line(device: int, code: int) -> str:
    return f"NVRM: Xid (PCI:0000:{PCI[device]}:00): {code}, {TEXTS[code]}"


class GpuFaults:
    def __init__(self, faults: Faults, kernel_log: KernelLog, controller: NodeController, timeline: Timeline) -> None:
        self.kernel_log = kernel_log
        self.controller = controller
        self.timeline = timeline
        faults.after_boot_acts.append(self._missing_at_boot)
        faults.teach(
            Fault("xid79", lambda h, d: self.xid(h, d, 79, REBOOT, gone=True), self.mend, GPUS),
            Fault("xid48", lambda h, d: self.xid(h, d, 48, RESET, dbe=1), self.mend, GPUS),
            Fault("xid31", lambda h, d: self.xid(h, d, 31, NONE), self.mend, GPUS),
            Fault("xid43", lambda h, d: self.xid(h, d, 43, NONE), self.mend, GPUS),
            Fault("xid45", lambda h, d: self.xid(h, d, 45, NONE), self.mend, GPUS),
            Fault("xid94", lambda h, d: self.xid(h, d, 94, NONE), self.mend, GPUS),
            Fault("xid_storm", self.storm, self.mend, GPUS),
            Fault("ecc_dbe", lambda h, d: self.xid(h, d, 95, RESET, dbe=2), self.mend, GPUS),
            Fault("gpu_lost", self.lost, self.mend, GPUS),
            Fault("thermal", self.heat, self.mend, GPUS),
        )

    def xid(self, host: Host, device: int, code: int, recovery: int, gone: bool = False, dbe: int = 0) -> None:
        gpu = host.gpu(device)
        gpu.xid = code
        gpu.xid_times.append(self.timeline.now())
        gpu.gone = gpu.gone or gone
        gpu.dbe += dbe
        gpu.remap_pending = gpu.remap_pending or dbe > 0
        self.kernel_log.say(host, xid_line(device, code))
        if recovery:
            gpu.recovery = max(gpu.recovery, recovery)
            self.timeline.after(1.5, lambda: self._announce(host, device, recovery, host.boot_id))
            self.timeline.after(1.0, lambda: self.controller.offer_gpus(host))

    def storm(self, host: Host, device: int) -> None:
        """What one broken application leaves on a node: a fault of its own and the two codes of its end."""
        for step, code in enumerate((94 if host.index % 4 == 0 else 31, 43, 45)):
            self.timeline.after(step * 0.4, lambda code=code: self.xid(host, device, code, NONE))  # type: ignore[misc]

    def lost(self, host: Host, device: int) -> None:
        """Gone without an Xid: only the missing series and the PCIe slot tell."""
        host.gpu(device).gone = True
        self.kernel_log.say(host, f"pcieport 0000:{PCI[device]}:00.0: pciehp: Slot({device + 1}): Link Down")
        self.timeline.after(1.0, lambda: self.controller.offer_gpus(host))

    def heat(self, host: Host, device: int) -> None:
        host.gpu(device).hot_since = self.timeline.now()

    def mend(self, host: Host, device: int) -> None:
        """A negative device means all of them. A GPU that is back has no latched code: its driver was reloaded."""
        for index in list(host.gpus) if device < 0 else [device]:
            gpu = host.gpus.pop(index, None)
            if gpu is not None and gpu.odd:
                host.gpus[index] = Gpu(odd=gpu.odd)
        self.controller.offer_gpus(host)

    def latch(self, host: Host, device: int, code: int, age: float) -> None:
        """An old code that DCGM still shows, with its old line; nothing is wrong with the GPU."""
        host.gpus[device] = Gpu(xid=code)
        self.kernel_log.say(host, xid_line(device, code), age=age)

    def _announce(self, host: Host, device: int, recovery: int, boot_id: str) -> None:
        """Recent drivers say what they want done, as an Xid 154 of its own."""
        if host.boot_id == boot_id and host.gpus.get(device) is not None:
            text = f"GPU recovery action changed from 0x0 (None) to 0x{recovery:x} ({ACTIONS[recovery]})"
            self.kernel_log.say(host, f"NVRM: Xid (PCI:0000:{PCI[device]}:00): 154, {text}")

    def _missing_at_boot(self, host: Host) -> None:
        for device, gpu in host.gpus.items():
            if gpu.gone:
                self.kernel_log.say(
                    host, f"NVRM: GPU 0000:{PCI[device]}:00.0: RmInitAdapter failed! (0x24:0xffff:1436)"
                )
