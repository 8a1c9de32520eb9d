"""What a step gets: its rows, its ports, its clock and its durations.

Decides nothing. Ports are arguments, so that a step runs the same against a real cluster, the simulator and a fake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from django.db.models import F, JSONField, Value
from django.db.models.expressions import CombinedExpression

from fleet.health.models import Incident
from fleet.inventory.models import Bmc, Cluster
from fleet.lifecycle import seen_time
from fleet.lifecycle.models import NodeLifecycle, Step, Workflow
from fleet.ports.clock import Clock
from fleet.ports.cluster import ClusterActor, ClusterReader
from fleet.ports.power import BmcTarget, PowerPort
from fleet.ports.provision import ProvisionPort
from fleet.ports.ray import RayDrains
from fleet.ports.suspends import Suspends


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds."""

    soak: float = 600
    reboot_timeout: float = 1800
    reprovision_timeout: float = 5400  # then it is stalled and people are asked
    reboot_observe: float = 180  # a BMC that accepted a reset has this long to show any effect
    drain_margin: float = 120  # beyond the pods' grace periods (a kubelet's own clean-up)
    validate_deadline: float = 900
    poll: float = 1.0
    bmc_patience: float = 1800  # how long an unreachable BMC is tried before people are asked
    job_wait: float = 4 * 3600  # the longest wait for a job's checkpoint or end
    gang_join: float = 30  # nodes of one gang that are drained within this time share one interruption
    gang_rest: float = 600  # what a gang gets to start again before it may be interrupted anew
    ray_drain: float = 60  # what Ray gets to move its work away before its workers are evicted
    suspend_wait: float = 60  # within which the pods of a suspended job must begin to end; then they are evicted
    suspend_most: float = 3600  # a job that we suspended is started again then, whatever its nodes do
    evictions_per_second: float = 20  # of one cluster, all workers together; 0 lifts the limit
    evictions_at_once: int = 1  # of one drain
    holds_at_once: int = 1  # of one message


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where a Job of ours runs and of what. An empty runtime class is the node's usual one."""

    image: str = ""
    namespace: str = "default"
    runtime_class: str = ""


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside of one cluster. `target` turns a BMC row into a target with its credential; raises PermanentError."""

    reader: ClusterReader
    actor: ClusterActor
    power: PowerPort
    target: Callable[[Bmc], BmcTarget]
    lease: Callable[[], bool]  # do we hold the Lease in that cluster? renews it when due (one write)
    validation_image: str = ""
    validation_namespace: str = "default"
    gpu_reset: JobPlace = JobPlace()
    provision: ProvisionPort | None = None
    ray: RayDrains | None = None  # hears of drains of its nodes; None where the cluster does not allow to tell it
    suspends: Suspends | None = None  # jobs that are stopped whole; None where no place allows it
    shows_why: bool = False  # the scheduler shows people the line that a hold carries
    tests_on_host: bool = False  # tests are the host's own programs, need no image, and run one at a time


class PortsOf(Protocol):
    def __call__(self, cluster: Cluster) -> Ports: ...


@dataclass(slots=True)
class Context:
    workflow: Workflow
    step: Step
    lifecycle: NodeLifecycle
    incident: Incident | None
    ports: Ports
    clock: Clock
    timing: Timing

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def node_name(self) -> str:
        return self.workflow.node.name

    def elapsed(self) -> float:
        """Seconds since this step began."""
        return self.since(self.step.started_at)

    def since(self, moment: datetime | float) -> float:
        """Seconds that this step has seen pass since then, whatever the clock was set to meanwhile."""
        at = moment.timestamp() if isinstance(moment, datetime) else float(moment)
        return self.now.timestamp() - at - seen_time.lost(self.step, at)

    def remember(self, **memo: object) -> None:
        """Keep facts for the next message of this step (one row, no fence: they are observations).

        Added to what stands in the row, so that what a person wrote there meanwhile stays.
        """
        self.step.memo = {**self.step.memo, **memo}
        added = CombinedExpression(F("memo"), "||", Value(memo, JSONField()))
        Step.objects.filter(pk=self.step.pk).update(memo=added)
