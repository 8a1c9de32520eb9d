"""A small world around the real engine: a fake cluster, fake BMCs, a clock, and a queue instead of the broker.

The fakes keep the promises that the contract tests of the adapters hold the real ones to: preconditions on the
resource version, evictions by UID, resets that take time and change the boot id.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db.models import Q

from fleet.health.models import NodeVerdict, Signal
from fleet.inventory.models import Bmc, Cluster, Node
from fleet.lifecycle import engine, grants
from fleet.lifecycle.clock_back import LONGEST
from fleet.lifecycle.context import Ports, Timing
from fleet.lifecycle.machine import AWAKE
from fleet.lifecycle.models import Step, Workflow
from fleet.ports.cluster import (
    GPU_SERVICE_ON,
    GPU_SERVICE_PAUSED,
    GPU_SERVICES,
    HOLD_ANNOTATION,
    OUT_OF_SERVICE,
    HoldRequest,
    JobRequest,
    JobSeen,
    NodeSeen,
    PodSeen,
    RequestSeen,
)
from fleet.ports.errors import Conflict, EvictionBlocked, IdentityMismatch, NotFound, UnknownOutcome
from fleet.ports.power import BmcTarget, PowerSeen, PowerState, PowerVerb
from fleet.ports.provision import ProvisionPort
from tests.builders import TestClock
from tests.diagnostics import dcgm4

TIMING = Timing(
    soak=10, reboot_timeout=300, reboot_observe=60, drain_margin=20, validate_deadline=60, poll=2, bmc_patience=60
)
BOOT_SECONDS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Holds:
    """The message of holds that go together."""

    pairs: tuple[tuple[int, int], ...]


Message = tuple[int, int] | Holds
"""Of one step as (workflow, version), or of many holds."""


class Crash(BaseException):
    """The process died here. Not an Exception: nothing may catch it."""


def a_pod(name: str, node: str, **fields: Any) -> PodSeen:
    values: dict[str, Any] = {
        "namespace": "train",
        "name": name,
        "uid": f"uid-{name}",
        "node": node,
        "phase": "Running",
        "ready": True,
        "kind": "workload",
        "owner": "Job/llm",
        "gang": "train/llm",
        "gpus": 8,
        "grace_seconds": 3,
        "deleting_since": None,
        "finalizers": (),
        "local_data": False,
        "labels": {},
        "annotations": {},
    }
    return PodSeen(**{**values, **fields})


class World:
    """Nodes of the database mirrored as a cluster that answers, and everything that was done to it."""

    def __init__(self, cluster: Cluster, clock: TestClock) -> None:
        self.cluster, self.clock = cluster, clock
        self.nodes: dict[str, NodeSeen] = {}
        self.pods: dict[str, PodSeen] = {}
        self.jobs: dict[str, JobSeen] = {}
        self.budgets: dict[str, str] = {}  # pod name -> PDB that refuses it
        self.requests: dict[str, list[RequestSeen]] = {}  # other controllers' own objects, by node
        self.writes: list[str] = []
        self.resets: list[tuple[str, str]] = []
        self.boots_at: dict[str, Any] = {}
        self.rebooting_most = 0
        self.off: set[str] = set()
        self.fenced_while_on: list[str] = []
        self.lies: set[str] = set()  # what the API server says yes to and does not do: release, unfence
        self.bmc: dict[str, str] = {}  # node -> lies | silent | no_answer | wrong_serial
        self.job_result = "succeeded"
        self.reset_result = "succeeded"
        self.provision: ProvisionPort | None = None
        self.logs: dict[str, str | None] = {}  # part of a Job's name -> what it printed; None: its log is gone
        self.cleared: list[str] = []  # nodes from which what tests had set up was taken
        self.gpu_resets: list[tuple[str, tuple[str, ...]]] = []  # each reset that a Job did, by its command
        self.queue: list[Message] = []
        self._seconds = 0
        self.crash: Callable[[str], None] = lambda place: None
        for node in Node.objects.filter(cluster=cluster):
            self.add(node)

    def add(self, node: Node) -> None:
        self.nodes[node.name] = NodeSeen(
            name=node.name,
            uid=node.uid,
            resource_version="1",
            unschedulable=node.unschedulable,
            ready=True,
            ready_reason="KubeletReady",
            ready_since=None,
            heartbeat_at=self.clock.now(),
            boot_id=node.boot_id,
            machine_id="",
            system_uuid="",
            provider_id="",
            kernel="",
            os_image="",
            kubelet="",
            addresses=(),
            labels={},
            annotations={},
            taints=(),
            conditions={},
            gpu_capacity=8,
            gpu_allocatable=8,
            created_at=None,
        )

    def change(self, name: str, **fields: Any) -> NodeSeen:
        old = self.nodes[name]
        version = str(int(old.resource_version) + 1)
        self.nodes[name] = dataclasses.replace(old, resource_version=version, **fields)
        return self.nodes[name]

    # -- time ---------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """What the data centre and the observer do by themselves: boots end, pods end, verdicts are renewed."""
        now = self.clock.now()
        for name, at in list(self.boots_at.items()):
            if now >= at:
                del self.boots_at[name]
                self.change(name, ready=True, boot_id=f"boot-{name}-{len(self.resets)}-new", heartbeat_at=now)
                Signal.objects.filter(node__name=name, cleared_at=None).update(cleared_at=now)
        for key, pod in list(self.pods.items()):
            if pod.deleting_since and not pod.finalizers and now >= pod.deleting_since + timedelta(seconds=2):
                del self.pods[key]
        up = [name for name, node in self.nodes.items() if node.ready]
        self.renew(up)
        for name in up:
            self.nodes[name] = dataclasses.replace(self.nodes[name], heartbeat_at=now)

    def renew(self, up: list[str]) -> None:
        NodeVerdict.objects.filter(node__name__in=up).update(telemetry_at=self.clock.now())

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass: ticks, messages, physics. True as soon as `until` holds.

        It passes second by second where something is due, and in one go where nothing is.
        """
        left = int(seconds)
        while left > 0:
            idle = min(self._idle(), left - 1)
            self._seconds += idle
            self.clock.tick(idle + 1)
            left -= idle + 1
            self.settle()
            self.work()
            if until is not None and until():
                return True
        return until is None

    def pass_time(self, seconds: float) -> None:
        """As long a wait, in which each step was looked at as often as it meant to be, and nothing came of it."""
        self.clock.tick(seconds)
        for step in Step.objects.filter(ended_at=None, memo__has_key="looked"):
            Step.objects.filter(pk=step.pk).update(memo={**step.memo, "looked": step.memo["looked"] + seconds})

    def _idle(self) -> int:
        """Whole seconds from now in which no wait ends, no boot, no pod, and nobody sweeps."""
        now, due = self.clock.now(), [*self.boots_at.values()]
        ending = [pod for pod in self.pods.values() if not pod.finalizers]
        due += [pod.deleting_since + timedelta(seconds=2) for pod in ending if pod.deleting_since]
        if self.queue:
            return 0
        waits = Workflow.objects.filter(Q(blocked_code=grants.ASKING) | Q(state__in=AWAKE, wake_at__isnull=False))
        for code, wake in waits.values_list("blocked_code", "wake_at"):
            if code == grants.ASKING or wake is None or wake - now > LONGEST:
                return 0
            due.append(wake)
        sweep = 10 - self._seconds % 10
        return max(min([sweep, *(math.ceil((at - now).total_seconds()) for at in due)]) - 1, 0)

    def work(self) -> None:
        """What tick does each second, and sweep each tenth."""
        self._seconds += 1
        if self._seconds % 10 == 0 or Workflow.objects.filter(blocked_code=grants.ASKING).exists():
            grants.run(self.cluster.pk, self.clock)
        engine.claim_due(self.clock)
        self.deliver()

    def deliver(self) -> None:
        while self.queue:
            self.take(self.queue.pop(0), TIMING)

    def take(self, message: Message, timing: Timing) -> None:
        if isinstance(message, Holds):
            engine.hold(message.pairs, self.ports_of, self.clock, timing)
        else:
            engine.advance(*message, self.ports_of, self.clock, timing)

    def send(self, task: str, **kwargs: Any) -> None:
        if task == "tasks.advance":
            self.queue.append((kwargs["workflow_id"], kwargs["version"]))
        elif task == "tasks.hold":
            self.queue.append(Holds(tuple((pk, version) for pk, version in kwargs["holds"])))

    def ports_of(self, cluster: Cluster) -> Ports:
        return Ports(
            reader=self,  # type: ignore[arg-type]
            actor=self,  # type: ignore[arg-type]
            power=self,
            target=self.target,
            lease=lambda: True,
            provision=self.provision,
        )

    # -- reader and actor -----------------------------------------------------------------------------------------

    def node(self, name: str) -> NodeSeen:
        if name not in self.nodes:
            raise NotFound(f"node {name} not found")
        return self.nodes[name]

    def requests_on(self, node: str) -> list[RequestSeen]:
        return self.requests.get(node, [])

    def unscheduled_pods(self) -> list[PodSeen]:
        return [pod for pod in self.pods.values() if not pod.node]

    def pods_on(self, node: str) -> list[PodSeen]:
        return [pod for pod in self.pods.values() if pod.node == node]

    def hold(self, request: HoldRequest) -> NodeSeen:
        node = self.node(request.node)
        if node.resource_version != request.resource_version:
            raise Conflict("the node changed")
        self.crash("before hold")
        self.writes.append(f"hold {node.name}")
        marks = {**node.annotations, HOLD_ANNOTATION: request.value}
        seen = self.change(node.name, unschedulable=True, annotations=marks)
        self.crash("after hold")
        return seen

    def release(self, name: str, value: str, resource_version: str, uncordon: bool) -> NodeSeen:
        node = self.node(name)
        if node.resource_version != resource_version:
            raise Conflict("the node changed")
        self.crash("before release")
        self.writes.append(f"release {name} {'uncordon' if uncordon else 'keep'}")
        if "release" in self.lies:
            return node
        marks = {key: mark for key, mark in node.annotations.items() if key != HOLD_ANNOTATION}
        seen = self.change(name, annotations=marks, unschedulable=node.unschedulable and not uncordon)
        self.crash("after release")
        return seen

    def fence(self, name: str, on: bool) -> NodeSeen:
        """As the pod garbage collector does, the pods of an out-of-service node go at once."""
        if on and name not in self.off:
            self.fenced_while_on.append(name)
        self.crash("before fence" if on else "before unfence")
        others = tuple(taint for taint in self.node(name).taints if taint[0] != OUT_OF_SERVICE[0])
        self.writes.append(f"fence {name} {'on' if on else 'off'}")
        if not on and "unfence" in self.lies:
            return self.node(name)
        if on:
            self.pods = {key: pod for key, pod in self.pods.items() if pod.node != name}
        seen = self.change(name, taints=(*others, OUT_OF_SERVICE) if on else others)
        self.crash("after fence" if on else "after unfence")
        return seen

    def evict(self, pod: PodSeen) -> None:
        found = self.pods.get(pod.key)
        if found is None or found.uid != pod.uid:
            raise NotFound(pod.key)
        if pod.name in self.budgets:
            raise EvictionBlocked("would violate the budget", budget=self.budgets[pod.name])
        self.crash("before evict")
        self.writes.append(f"evict {pod.key}")
        self.pods[pod.key] = dataclasses.replace(
            found, deleting_since=self.clock.now(), disruption="EvictionByEvictionAPI"
        )
        self.crash("after evict")

    def delete(self, pod: PodSeen) -> None:
        found = self.pods.get(pod.key)
        if found is None or found.uid != pod.uid:
            raise NotFound(pod.key)
        self.writes.append(f"delete {pod.key}")
        self.pods[pod.key] = dataclasses.replace(found, deleting_since=self.clock.now())
        self.crash("after delete")

    def pause_gpu_services(self, name: str, on: bool) -> NodeSeen:
        """The operator's pods leave a paused node and come back to one that is not."""
        old, new = (GPU_SERVICE_ON, GPU_SERVICE_PAUSED) if on else (GPU_SERVICE_PAUSED, GPU_SERVICE_ON)
        labels = {key: new if value == old else value for key, value in self.node(name).labels.items()}
        self.writes.append(f"gpu services {name} {'off' if on else 'on'}")
        if on:
            services = {key for key, pod in self.pods.items() if pod.labels.get("app") in GPU_SERVICES.values()}
            self.pods = {key: pod for key, pod in self.pods.items() if key not in services or pod.node != name}
        seen = self.change(name, labels=labels)
        self.crash("after pause")
        return seen

    def create_job(self, request: JobRequest) -> None:
        """Made once for each name; a second request of the same name changes nothing."""
        self.crash("before job")
        self.writes.append(f"job {request.name}")
        resets = "--gpu-reset" in request.command
        if request.name not in self.jobs:
            self.jobs[request.name] = JobSeen(self.reset_result if resets else self.job_result)  # type: ignore[arg-type]
            if resets:
                self.gpu_resets.append((request.node, request.command))
            if resets and self.reset_result == "succeeded":
                Signal.objects.filter(node__name=request.node, cleared_at=None).update(cleared_at=self.clock.now())
        self.crash("after job")

    def delete_job(self, namespace: str, name: str) -> None:
        self.jobs.pop(name, None)

    def clear_tests(self, node: str) -> None:
        self.cleared.append(node)

    def job(self, namespace: str, name: str) -> JobSeen:
        return self.jobs.get(name, JobSeen("missing"))

    def job_log(self, namespace: str, name: str) -> str | None:
        said = [log for part, log in self.logs.items() if part in name]
        if said:
            return said[0]
        return dcgm4() if self.jobs[name].phase == "succeeded" else dcgm4(failing={3: "uncorrectable memory errors"})

    # -- power ----------------------------------------------------------------------------------------------------

    def target(self, row: Bmc) -> BmcTarget:
        return BmcTarget(row.pk, row.node.name, row.address, "u", "p", True, row.pinned_uuid, row.pinned_serial)

    def observe(self, target: BmcTarget, deadline_seconds: float) -> PowerSeen:
        return self._seen(target)

    def _seen(self, target: BmcTarget) -> PowerSeen:
        if self.bmc.get(target.node) == "wrong_serial":
            raise IdentityMismatch("serial X is not the pinned one")
        count = sum(1 for name, _ in self.resets if name == target.node)
        booting = target.node in self.boots_at and self.resets[-1][1] != "On"
        state = PowerState.OFF if target.node in self.off or booting else PowerState.ON
        last = "never" if self.bmc.get(target.node) == "lies" else str(count)
        return PowerSeen(state, last, "", target.pinned_serial, ("ForceRestart", "PowerCycle"), self.clock.now())

    def reset(self, target: BmcTarget, verb: PowerVerb, deadline_seconds: float) -> PowerSeen:
        seen = self._seen(target)
        self.crash("before reset")
        self.resets.append((target.node, verb))
        if verb == PowerVerb.FORCE_OFF:
            if self.bmc.get(target.node) != "lies":
                self.off.add(target.node)
                self.change(target.node, ready=None)
            self.crash("after reset")
            return seen
        self.off.discard(target.node)
        if self.bmc.get(target.node) != "lies":
            if self.nodes[target.node].ready is not None:
                self.change(target.node, ready=False)
            self.boots_at[target.node] = self.clock.now() + timedelta(seconds=BOOT_SECONDS)
            self.rebooting_most = max(self.rebooting_most, len(self.boots_at))
        self.crash("after reset")
        if self.bmc.get(target.node) == "no_answer":
            raise UnknownOutcome("timed out after sending")
        return seen
