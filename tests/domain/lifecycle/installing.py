"""Whoever installs images, for a whole fleet in a storm: one provider a node, each request judged and counted.

Decides which of a node's requests is the second of one reprovision, and tells the oracle what took effect, never what
was merely sent. Refuses nothing that the provider of the engine's tests does not refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.inventory.models import Cluster
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import remedy_index
from fleet.ports.provision import ProvisionSeen, ProvisionTarget
from tests.domain.lifecycle.oracle import SECOND, Act
from tests.domain.lifecycle.provider import Provider
from tests.domain.lifecycle.world import a_pod

if TYPE_CHECKING:
    from tests.domain.lifecycle.storm import Storm

REPROVISION = "reprovision"


class Counted(Provider):
    def __init__(self, storm: Storm, stages: int, recreates: bool) -> None:
        super().__init__(storm, stages, recreates)
        self.storm = storm

    def _begin(self, node: str, op_id: str) -> None:
        self.storm.oracle.took(node, REPROVISION if self.state == "provisioned" else SECOND)
        super()._begin(node, op_id)


class Installing:
    """`stages`: requests of one reprovision, one (Ironic) or two (Metal3). `recreates`: the Node object goes and comes
    back as another, on which work is placed before it is held; else the same one goes NotReady and boots."""

    def __init__(self, storm: Storm, stages: int, recreates: bool) -> None:
        self.storm = storm
        Cluster.objects.filter(pk=storm.cluster.pk).update(provisioner="metal3" if stages == 2 else "ironic")
        self._of = {name: Counted(storm, stages, recreates) for name in storm.nodes}
        for name, provider in self._of.items():
            provider.uuid_back = f"machine-{name}"
            provider.pod_first = a_pod(f"early-{name}", name)
            storm.change(name, system_uuid=f"machine-{name}", provider_id=f"host:///{name}")
        storm.provision = self

    def check(self) -> list[str]:
        return []

    def observe(self, target: ProvisionTarget) -> ProvisionSeen:
        self.storm.point()
        return self._of[target.node].observe(target)

    def submit(self, target: ProvisionTarget, op_id: str, seen: ProvisionSeen) -> None:
        provider = self._of[target.node]
        act = Act("provision", target.node, SECOND if provider.state == "available" else REPROVISION)
        self.storm.call(act, lambda: provider.submit(target, op_id, seen), lambda: None)


def on_the_last_rung() -> None:
    """Gentler remedies are known to be in vain for all who wait: their ladders begin at the top."""
    for workflow in Workflow.objects.filter(ended_at=None):
        index = remedy_index(workflow.plan)
        assert index is not None
        workflow.plan[index]["verb"] = workflow.plan[index]["ladder"][-1]
        Workflow.objects.filter(pk=workflow.pk).update(plan=workflow.plan)
