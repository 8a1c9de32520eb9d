"""The whole simulated data centre, put together.

It decides who knows whom and in which order things begin. It refuses to contain behaviour: every part has a module.
"""

import asyncio
from random import Random

from fleet.simulator import objects
from fleet.simulator.budgets import Budgets
from fleet.simulator.control import Control
from fleet.simulator.director import Director
from fleet.simulator.exporters.serve import Exporters
from fleet.simulator.exporters.ufm import Ufm
from fleet.simulator.faults import Faults
from fleet.simulator.faults_api import ApiFaults
from fleet.simulator.faults_fabric import FabricFaults
from fleet.simulator.faults_gpu import GpuFaults
from fleet.simulator.faults_host import HostFaults
from fleet.simulator.faults_odd import OddFaults
from fleet.simulator.gangs.stage import Stage, set_apart
from fleet.simulator.gpu_reset import GpuResets
from fleet.simulator.happenings import Happenings
from fleet.simulator.host import Host, lay_out
from fleet.simulator.jobs import Jobs
from fleet.simulator.kernel_log import KernelLog
from fleet.simulator.kube.access import Access
from fleet.simulator.kube.api import KubeApi
from fleet.simulator.kube.writing import Writing
from fleet.simulator.kubelets import Kubelets
from fleet.simulator.metal3 import Metal3
from fleet.simulator.node_controller import NodeController
from fleet.simulator.options import Options
from fleet.simulator.pace import Pace
from fleet.simulator.physics import Physics
from fleet.simulator.power import Power
from fleet.simulator.programs import Programs
from fleet.simulator.redfish import Bmcs
from fleet.simulator.scenarios import Scenario
from fleet.simulator.scheduler import Scheduler
from fleet.simulator.stats import Stats
from fleet.simulator.storage import Storage
from fleet.simulator.store import Store
from fleet.simulator.timeline import Timeline
from fleet.simulator.turnover import Turnover
from fleet.simulator.workloads import Workloads


class World:
    """Built inside the running event loop; begin() starts its clock."""

    def __init__(self, options: Options, scenario: Scenario, port: int) -> None:
        rng = Random(options.seed)
        self.options = options
        self.timeline = Timeline(options.speed)
        self.store = Store(options.history, heartbeat=max(1.0, 10.0 / options.speed))
        self.stats = Stats()
        self.storage = Storage()
        layout = lay_out(options.nodes, options.seed, self.timeline.now())
        set_apart(layout, scenario.gangs)
        hosts = {h.name: h for h in layout}
        self.hosts: dict[str, Host] = hosts
        for host in hosts.values():
            self.store["nodes"].put(objects.node(host))
            self.store["leases"].put(objects.lease(host))
        run, name = options.run, options.name
        self.kernel_log = KernelLog(self.store, self.timeline, run / f"observer-{name}.url", run / f"push-{name}.token")
        happenings = Happenings(self.store, self.timeline, rng)
        self.kubelets = Kubelets(self.store, self.timeline, rng, hosts)
        self.scheduler = Scheduler(self.store, self.timeline, rng, hosts, happenings)
        self.workloads = Workloads(self.store, self.timeline, rng, hosts, port, options.seed)
        self.budgets = Budgets(self.store, self.timeline)
        physics = Physics(hosts, self.storage)
        self.controller = NodeController(self.store, self.timeline, self.kubelets, happenings, hosts)
        self.faults = Faults(hosts)
        resets = GpuResets(hosts, self.faults, self.kernel_log, self.controller, self.stats)
        self.jobs = Jobs(self.store, self.timeline, rng, self.kubelets, happenings, Programs(physics, resets).run)
        gpu_faults = GpuFaults(self.faults, self.kernel_log, self.controller, self.timeline)
        FabricFaults(self.faults, self.kernel_log, self.timeline, self.storage, hosts, rng)
        OddFaults(self.faults, self.kernel_log, self.timeline, Pace(hosts, self.timeline))
        HostFaults(self.faults, self.controller, self.kubelets, self.store, hosts)
        self.power = Power(self.timeline, self.stats, self.controller, self.faults, self.kernel_log)
        self.metal3 = Metal3(self.store, self.timeline, hosts, self.power, self.stats, self.faults)
        self.address = f"http://127.0.0.1:{port}"
        self.stage = Stage(
            self.store, self.timeline, self.kubelets, happenings, hosts, scenario.gangs, options.seed, self.address
        )
        access = Access(options.read_token, options.act_token)
        writing = Writing(self.store, self.timeline, self.kubelets, rng)
        self.api = KubeApi(self.store, access, self.stats, writing, self.budgets, options.bookmark_seconds)
        ApiFaults(self.faults, self.api, self.store)
        self.exporters = Exporters(hosts, self.storage, self.store, self.timeline.now)
        self.ufm = Ufm(hosts, self.timeline.now, options.bmc_credential)
        self.bmcs = Bmcs(hosts, self.power, self.stats, rng, options.bmc_credential, options.bmc_latency)
        self.control = Control(hosts, self.stats, self.faults, self.kernel_log, self.storage, scenario.name)
        story = Random(options.seed + 1)  # its own, so that what clients do does not change the story
        self.director = Director(scenario, self.faults, gpu_faults, self.store, self.timeline, hosts, story)
        self.turnover = Turnover(self.store, self.timeline, self.kubelets, self.workloads, story)
        self.scenario = scenario
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self.workloads.populate(self.options.pods_per_node)
        self.director.set_scene()
        self.stage.set_scene()
        self.budgets.begin()
        self.metal3.begin(self.address)
        self.controller.begin()
        self.stage.begin()
        self.store.begin()
        self.director.begin()
        self.turnover.begin(self.scenario.gang_every)
        self._tasks.append(asyncio.ensure_future(self.kernel_log.run()))

    def stop(self) -> None:
        self.api.watching.stop()
        for task in self._tasks:
            task.cancel()
