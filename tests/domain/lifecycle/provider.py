"""A provider of images in the world of the engine's tests, with one request per reprovision or two.

It keeps the promises that the contract tests hold the real ones to: a request on a state that has changed is a
conflict, an operation takes time, and the node comes back with a new boot, as the same object or as another.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fleet.health.models import Signal
from fleet.inventory.models import Node
from fleet.lifecycle import services
from fleet.ports.errors import Conflict, IdentityMismatch, UnknownOutcome
from fleet.ports.provision import Phase, ProvisionSeen, ProvisionTarget
from tests.domain.lifecycle.world import World

TAKES = 30


class Provider:
    def __init__(self, world: World, stages: int = 1, recreates: bool = False) -> None:
        self.world, self.stages, self.recreates = world, stages, recreates
        self.state, self.mark, self.op_id = "provisioned", 0, ""
        self.requests: list[str] = []
        self.installed: list[str] = []
        self.behaviour = ""  # lies, fails, lost_before, lost_after, wrong_serial, busy
        self.uuid_back = "machine-1"
        self.pod_first: Any = None
        self.refusals: tuple[str, ...] = ()
        self._done_at: Any = None
        self._node = ""
        world.provision = self

    def check(self) -> list[str]:
        return []

    def observe(self, target: ProvisionTarget) -> ProvisionSeen:
        self._settle()
        if self.behaviour == "wrong_serial":
            raise IdentityMismatch("serial X is not the pinned one")
        assert target.serial or target.bmc_addresses, "nothing is told to find the host by"
        phase = {"provisioned": Phase.PROVISIONED, "available": Phase.HALFWAY, "deploy failed": Phase.FAILED}
        return ProvisionSeen(
            "host-1", phase.get(self.state, Phase.WORKING), self.state, str(self.mark), str(self.mark),
            self.op_id if self.stages == 2 else "", "no disk" if self.state == "deploy failed" else "", "img.qcow2",
            self.refusals,
        )  # fmt: skip

    def submit(self, target: ProvisionTarget, op_id: str, seen: ProvisionSeen) -> None:
        self.world.crash("before request")
        if self.behaviour == "lost_before":
            self.behaviour = ""
            raise UnknownOutcome("timed out")
        if self.behaviour == "busy" or seen.version != str(self.mark):
            raise Conflict("the host is locked", code="provider_locked")
        self.requests.append(op_id)
        if self.behaviour != "lies":
            self._begin(target.node, op_id)
        self.world.crash("after request")
        if self.behaviour == "lost_after":
            self.behaviour = ""
            raise UnknownOutcome("timed out after sending")

    def _begin(self, node: str, op_id: str) -> None:
        first = self.state == "provisioned"
        self.state = "deprovisioning" if first and self.stages == 2 else "deploying"
        self.mark, self.op_id, self._node = self.mark + 1, op_id, node
        self._done_at = self.world.clock.now() + timedelta(seconds=TAKES)
        if first and node in self.world.nodes:
            self._take_down(node)

    def _take_down(self, name: str) -> None:
        if not self.recreates:
            self.world.change(name, ready=None)
            return
        gone = self.world.nodes.pop(name)
        self._last = gone
        row = Node.objects.get(name=name)
        Node.objects.filter(pk=row.pk).update(gone_at=self.world.clock.now(), ready=None)
        services.retire_nodes(self.world.cluster.pk, [row.pk], self.world.clock.now())

    def _settle(self) -> None:
        now = self.world.clock.now()
        if self._done_at is None or now < self._done_at:
            return
        self._done_at, self.mark = None, self.mark + 1
        if self.state == "deprovisioning":
            self.state = "available"
        elif self.behaviour == "fails":
            self.state = "deploy failed"
        else:
            self.state = "provisioned"
            self._come_back(self._node)

    def _come_back(self, name: str) -> None:
        now = self.world.clock.now()
        self.installed.append(name)
        boot = f"boot-{name}-image-{len(self.installed)}"
        Signal.objects.filter(node__name=name, cleared_at=None).update(cleared_at=now)
        if not self.recreates:
            self.world.change(name, ready=True, boot_id=boot, heartbeat_at=now)
            return
        uid = f"uid-{name}-{len(self.installed)}"
        Node.objects.filter(name=name).update(gone_at=None, uid=uid, ready=True)
        self.world.nodes[name] = self._last
        self.world.change(
            name, uid=uid, ready=True, boot_id=boot, heartbeat_at=now, unschedulable=False, annotations={},
            system_uuid=self.uuid_back,
        )  # fmt: skip
        if self.pod_first is not None:
            self.world.pods[self.pod_first.key] = self.pod_first
