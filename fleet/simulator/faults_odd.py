"""Faults that last and show only in series and kernel lines: links, memory, disks, file systems, slow parts.

It decides which there are, which device they sit on, whether a boot mends them and what the kernel says when they
begin. It refuses to stop anything: what they do to the numbers is the exporters' affair.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from fleet.simulator.faults import Fault, Faults
from fleet.simulator.host import GPUS, PCI, PORTS, Host
from fleet.simulator.kernel_log import KernelLog
from fleet.simulator.pace import Pace
from fleet.simulator.timeline import Timeline

SWITCHES = 4


@dataclass(frozen=True, slots=True)
class Oddity:
    on: Literal["gpu", "port", "host"]
    boot_mends: bool = True
    line: str = ""  # {pci} and {device} are those of the device


ODDITIES: Mapping[str, Oddity] = {
    "pcie_replay": Oddity("gpu", boot_mends=False),
    "pcie_width": Oddity("gpu", boot_mends=False),
    "nvlink_errors": Oddity("gpu"),
    "row_pending": Oddity("gpu", line="NVRM: Xid (PCI:0000:{pci}:00): 63, Row Remapper: New row marked for remapping"),
    "row_remap": Oddity(
        "gpu", boot_mends=False, line="NVRM: Xid (PCI:0000:{pci}:00): 64, Row Remapper: failed to record the row"
    ),
    "grey_gpu": Oddity("gpu", boot_mends=False),
    "ib_symbol": Oddity("port", boot_mends=False),
    "ib_rate": Oddity("port", boot_mends=False),
    "nic_slow": Oddity("port", boot_mends=False),
    "data_bound": Oddity("host", boot_mends=False),
    "nfs_slow": Oddity("host", boot_mends=False),
    "fs_full": Oddity("host", boot_mends=False),
    "fs_readonly": Oddity("host", line="EXT4-fs (nvme0n1p2): Remounting filesystem read-only"),
    "nvme_wear": Oddity("host", boot_mends=False),
    "nvme_media": Oddity("host", boot_mends=False, line="blk_update_request: critical medium error, dev nvme1n1"),
    "edac": Oddity("host", boot_mends=False, line="EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0"),
    "edac_ue": Oddity("host", line="EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0"),
}
SLOWS = ("grey_gpu", "nic_slow", "data_bound")
# A line and nothing more
LINES = {
    "aer": "pcieport 0000:{pci}:00.0: AER: Uncorrected (Non-Fatal) error received: 0000:{pci}:00.0",
    "oom": "Out of memory: Killed process 48213 (python3) total-vm:214748364kB, anon-rss:104857600kB",
    "nvme_timeout": "nvme nvme1: I/O 512 QID 3 timeout, reset controller",
    "mce": "mce: [Hardware Error]: Machine check events logged",
    "hung_task": "INFO: task python3:48213 blocked for more than 120 seconds.",
    "mlx5_health": "mlx5_core 0000:18:00.0: poll_health: device's health poll failed",
}


class OddFaults:
    def __init__(self, faults: Faults, kernel_log: KernelLog, timeline: Timeline, pace: Pace) -> None:
        self.kernel_log = kernel_log
        self.timeline = timeline
        self.pace = pace
        count = {"gpu": GPUS, "port": PORTS, "host": 0}
        for name, oddity in ODDITIES.items():
            begin, mend = self._begin(name), self._mend(name)
            faults.teach(Fault(name, begin, mend, count[oddity.on], oddity.boot_mends))
        for name, line in LINES.items():
            devices = GPUS if "{pci}" in line else 0
            faults.teach(Fault(name, self._line(line), lambda h, d: None, devices))
        faults.teach(
            Fault("fabric_manager", self._fabric_manager_dies, self._mend("fabric_manager")),
            Fault("sxid", self._sxid, self._mend("sxid"), SWITCHES),
        )

    def _begin(self, name: str) -> Callable[[Host, int], None]:
        oddity = ODDITIES[name]

        def begin(host: Host, device: int) -> None:
            now = self.timeline.now()
            if oddity.on == "gpu":
                host.gpu(device).odd[name] = now
            elif oddity.on == "port":
                host.port(device).odd[name] = now
            else:
                host.odd[name] = now
            if oddity.line:
                self.kernel_log.say(host, oddity.line.format(pci=PCI[device % GPUS], device=device))
            if name in SLOWS:
                self.pace.spread()

        return begin

    def _mend(self, name: str) -> Callable[[Host, int], None]:
        def mend(host: Host, device: int) -> None:
            host.odd.pop(name, None)
            for parts in ({i: g.odd for i, g in host.gpus.items()}, {i: p.odd for i, p in host.ports.items()}):
                for index, odd in parts.items():
                    if device in (-1, index):
                        odd.pop(name, None)
            if name in SLOWS:
                self.pace.spread()

        return mend

    def _line(self, line: str) -> Callable[[Host, int], None]:
        return lambda host, device: self.kernel_log.say(host, line.format(pci=PCI[device % GPUS]))

    def _fabric_manager_dies(self, host: Host, device: int) -> None:
        for index in range(GPUS):
            host.gpu(index).odd["fabric_manager"] = self.timeline.now()

    def _sxid(self, host: Host, device: int) -> None:
        """A fatal error of an NVSwitch: its line, and the last fatal code in its series."""
        host.odd["sxid"] = self.timeline.now()
        text = "20034, Fatal, Link 30 LTSSM Fault Up"
        self.kernel_log.say(host, f"nvidia-nvswitch{device}: SXid (PCI:0000:{0xC1 + device:02x}:00.0): {text}")
