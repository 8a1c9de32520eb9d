"""Every fault the fleet can suffer, by name: how it begins, how it is mended, and what a boot does to it.

It decides which faults exist and on which device they make sense. It refuses unknown names, nodes and devices with
the list of what is known. The physics of each family lives beside this file.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fleet.simulator.host import Gpu, Host

Act = Callable[[Host, int], None]


class FaultRefused(Exception):
    """The request names something that does not exist here."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`devices` is how many devices of the kind a node has; 0 means that the fault has no device."""

    name: str
    begin: Act
    mend: Act
    devices: int = 0
    boot_mends: bool = True
    fleet_wide: bool = False  # needs no node


class Faults:
    """The catalogue and what is broken now."""

    def __init__(self, hosts: dict[str, Host]) -> None:
        self.hosts = hosts
        self.known: dict[str, Fault] = {}
        self.after_boot_acts: list[Callable[[Host], None]] = []

    def teach(self, *faults: Fault) -> None:
        self.known |= {fault.name: fault for fault in faults}

    def inject(self, name: str, node: str, device: int | None = None, clear: bool = False) -> Host | None:
        fault = self.known.get(name)
        if fault is None:
            raise FaultRefused(f"unknown fault {name!r}; known faults: {', '.join(sorted(self.known))}")
        host = self.hosts.get(node)
        if host is None and not (fault.fleet_wide and not node):
            names = list(self.hosts)
            shown = ", ".join(names[:3]) + f", ... {names[-1]}" if len(names) > 4 else ", ".join(names)
            raise FaultRefused(f"unknown node {node!r}; the {len(names)} nodes are {shown}")
        if device is not None and fault.devices and not 0 <= device < fault.devices:
            raise FaultRefused(f"{name} has devices 0 to {fault.devices - 1}, not {device}")
        target = host or next(iter(self.hosts.values()))
        if clear:
            target.faults.discard(name)
            fault.mend(target, -1 if device is None else device)
        else:
            target.faults.add(name)
            try:
                fault.begin(target, device or 0)
            except FaultRefused:
                target.faults.discard(name)
                raise
        return host

    def survived_boot(self, host: Host) -> None:
        """Mend what a boot mends; on a stubborn host it mends nothing."""
        if "stubborn" in host.faults:
            return
        for name in sorted(host.faults):
            fault = self.known[name]
            if fault.boot_mends:
                host.faults.discard(name)
                fault.mend(host, -1)
        host.gpus = {index: Gpu(odd=gpu.odd) for index, gpu in host.gpus.items() if gpu.odd}
        for port in host.ports.values():
            port.downed = port.recoveries = port.symbol_errors = 0

    def after_boot(self, host: Host) -> None:
        for act in self.after_boot_acts:
            act(host)
