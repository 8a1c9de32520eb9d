"""How one slow part slows a whole gang: all ranks wait for the slowest.

It decides the share of its speed at which each gang runs, and whether it waits for data. It refuses to look at gangs
while nothing is slow, so that a quiet fleet costs nothing.
"""

from fleet.simulator.host import Host
from fleet.simulator.timeline import Timeline

SLOW_GPU, SLOW_PORT, STARVED = 0.52, 0.65, 0.35
AGAIN_SECONDS = 30.0  # gangs move


def gang_of(host: Host) -> str:
    """The gang that has this node, or nothing."""
    name, worker, _ = host.owners[0].rpartition("-worker-")
    return name if worker else ""


class Pace:
    def __init__(self, hosts: dict[str, Host], timeline: Timeline) -> None:
        self.hosts = hosts
        self.timeline = timeline
        self.planned = False

    def spread(self) -> None:
        """Tell every node how fast its gang is."""
        pace: dict[str, float] = {}
        starved: set[str] = set()
        for host in self.hosts.values():
            own = _own(host)
            if own < 1.0:
                gang = gang_of(host) or host.name
                pace[gang] = min(own, pace.get(gang, 1.0))
                if "data_bound" in host.odd:
                    starved.add(gang)
        now = self.timeline.now()
        for host in self.hosts.values():
            gang = gang_of(host) or host.name
            host.waited, host.paced_at = waited(host, now), now
            host.pace, host.starved = pace.get(gang, 1.0), gang in starved
        if pace and not self.planned:
            self.planned = True
            self.timeline.after(AGAIN_SECONDS, self._again)

    def _again(self) -> None:
        self.planned = False
        self.spread()


def waited(host: Host, now: float) -> float:
    """Seconds in all in which the gang on this host waited instead of working."""
    return host.waited + (1 - host.pace) * (now - host.paced_at) if host.pace < 1.0 else host.waited


def _own(host: Host) -> float:
    slowest = STARVED if "data_bound" in host.odd else 1.0
    if any("grey_gpu" in gpu.odd for gpu in host.gpus.values()):
        slowest = min(slowest, SLOW_GPU)
    if any("nic_slow" in port.odd for port in host.ports.values()):
        slowest = min(slowest, SLOW_PORT)
    return slowest
