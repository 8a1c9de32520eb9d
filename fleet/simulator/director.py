"""Plays a scenario: sets the scene at the start, then breaks things at their times.

It decides which nodes are hit, from the seed alone, so that two runs tell the same story. It refuses to hit a node
that is already broken or down.
"""

from random import Random

from fleet.simulator.faults import FaultRefused, Faults
from fleet.simulator.faults_gpu import GpuFaults
from fleet.simulator.host import GPUS, Host
from fleet.simulator.pace import gang_of
from fleet.simulator.scenarios import Pick, Planned, Scenario, ScenarioError
from fleet.simulator.store import Store
from fleet.simulator.timeline import Timeline, stamp

OLD_XIDS = (79, 48, 31, 95)
DAY = 86400.0


class Director:
    def __init__(
        self,
        scenario: Scenario,
        faults: Faults,
        gpus: GpuFaults,
        store: Store,
        timeline: Timeline,
        hosts: dict[str, Host],
        rng: Random,
    ) -> None:
        self.scenario = scenario
        self.faults = faults
        self.gpus = gpus
        self.store = store
        self.timeline = timeline
        self.hosts = list(hosts.values())
        self.rng = rng
        names = [event.fault for event in scenario.events] + [kind.fault for kind in scenario.kinds]
        for name in names:
            if name not in faults.known:
                known = ", ".join(sorted(faults.known))
                raise ScenarioError(f"{scenario.name}: unknown fault {name!r}; known faults: {known}")

    def set_scene(self) -> None:
        """What was there before anybody connected."""
        chosen = self.rng.sample(self.hosts, min(self.scenario.foreign_cordons, len(self.hosts)))
        for host in chosen:
            node = self.store["nodes"].read(host.name)
            if node is None:
                continue
            added = stamp(int(self.timeline.now() - 3 * DAY))
            taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": added}
            node["spec"] |= {"unschedulable": True, "taints": [taint]}
            self.store["nodes"].put(node)
        devices = [(host, index) for host in self.hosts for index in range(GPUS)]
        for host, index in self.rng.sample(devices, min(self.scenario.latched_xids, len(devices))):
            age = self.rng.uniform(DAY, 20 * DAY)
            self.gpus.latch(host, index, self.rng.choice(OLD_XIDS), age)

    def begin(self) -> None:
        for planned in self.scenario.events:
            self.timeline.after(planned.at, lambda planned=planned: self._strike(planned))  # type: ignore[misc]
        if self.scenario.kinds:
            self._later()

    def _later(self) -> None:
        self.timeline.after(self.rng.expovariate(1 / self.scenario.every), self._recur)

    def _recur(self) -> None:
        kind = self.rng.choices(self.scenario.kinds, [k.weight for k in self.scenario.kinds])[0]
        self._strike(Planned(0.0, kind.fault, clear_after=kind.clear_after))
        self._later()

    def _strike(self, planned: Planned) -> None:
        for host in self._choose(planned.nodes):
            devices = self.faults.known[planned.fault].devices
            device = planned.device
            if device is None and devices:
                device = self.rng.randrange(devices)
            delay = self.rng.uniform(0.0, planned.spread)
            self.timeline.after(delay, lambda host=host, device=device: self._hit(planned, host, device))  # type: ignore[misc]

    def _choose(self, pick: Pick) -> list[Host]:
        healthy = [host for host in self.hosts if not host.faults and host.up]
        if pick.names:
            return [host for host in healthy if host.name in pick.names]
        if pick.rack:
            racks = list(dict.fromkeys(host.rack for host in self.hosts))
            healthy = [host for host in healthy if host.rack == racks[min(pick.rack, len(racks)) - 1]]
        if pick.leaf:
            leaves = list(dict.fromkeys(host.leaf for host in self.hosts))
            healthy = [host for host in healthy if host.leaf == leaves[min(pick.leaf, len(leaves)) - 1]]
        if pick.pool:
            healthy = [host for host in healthy if host.pool == pick.pool]
        if pick.each_gang:
            return self._one_of_each(healthy, pick.count)
        count = round(pick.share * len(self.hosts)) if pick.share else pick.count
        return self.rng.sample(healthy, min(count, len(healthy)))

    def _one_of_each(self, hosts: list[Host], count: int) -> list[Host]:
        """A node of each of so many gangs (0: of all); a gang of one or two has no peers to stand out from."""
        gangs: dict[str, list[Host]] = {}
        for host in hosts:
            if gang := gang_of(host):
                gangs.setdefault(gang, []).append(host)
        large = [members for members in gangs.values() if len(members) > 2]
        chosen = self.rng.sample(large, min(count or len(large), len(large)))
        return [self.rng.choice(members) for members in chosen]

    def _hit(self, planned: Planned, host: Host, device: int | None) -> None:
        try:
            self.faults.inject(planned.fault, host.name, device)
        except FaultRefused:
            return
        if planned.clear_after:
            self.timeline.after(planned.clear_after, lambda: self._mend(planned.fault, host, device))

    def _mend(self, fault: str, host: Host, device: int | None) -> None:
        if fault in host.faults:
            self.faults.inject(fault, host.name, device, clear=True)
