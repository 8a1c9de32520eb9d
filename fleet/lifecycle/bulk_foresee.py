"""What the guards would say to each node of a batch, before anything begins.

Decides per node: may begin now, would wait (for which guard, with its numbers), or is refused; those that may begin
count for those after them, as they would in truth. Refuses to write anything: it asks the same guards that grants ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import grants, manual
from fleet.lifecycle.asked import Asked
from fleet.lifecycle.askers import Asker
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import CLAIMS, RELEASE
from fleet.policy.rules import ALLOWED, Decision

NOW, WAITS, REFUSED = "now", "waits", "refused"


@dataclass(frozen=True, slots=True)
class Foreseen:
    node: Node
    answer: str  # NOW, WAITS or REFUSED
    why: Decision = ALLOWED


class Foresight:
    """The guards of one cluster, asked for whole plans: every claim that the action will need must fit."""

    def __init__(self, cluster: Cluster, nodes: Sequence[Node], now: datetime) -> None:
        self.guards = grants.Guards.read(cluster, now)
        self.working = manual.working_on([node.pk for node in nodes])

    def ask(self, node: Node, asked: Asked, spare_jobs: bool = False) -> Foreseen:
        """The answer for `node` (cluster and pool loaded). What may begin is counted at once."""
        said = manual.refusal(node, asked)
        if said:
            return Foreseen(node, REFUSED, Decision("mode" if manual.only_looks(node) else "refused", said))
        other = self.working.get(node.pk)
        busy = manual.busy(node, asked.action, other)
        if asked.action == RELEASE:
            return Foreseen(node, REFUSED, Decision("refused", busy)) if busy else Foreseen(node, NOW)
        if busy:
            return Foreseen(node, WAITS, Decision("busy", busy))
        if spare_jobs and node.gang:
            return Foreseen(node, WAITS, Decision("job", f"Waits until the gang {node.gang} has ended."))
        return self._guarded(node, asked)

    def _guarded(self, node: Node, asked: Asked) -> Foreseen:
        wanted = [
            Workflow(cluster_id=node.cluster_id, node=node, plan=[{"verb": step.verb}])
            for step in asked.steps
            if step.verb in CLAIMS
        ]
        for workflow in wanted:
            decision = self.guards.ask(Asker.of(workflow))
            if not decision.allowed:
                return Foreseen(node, WAITS, decision)
        for workflow in wanted:
            self.guards.take(workflow.node_id, workflow.verb)
        return Foreseen(node, NOW)

    def expect(self, workflow: Workflow) -> None:
        """Count the claims that a workflow under way has yet to ask for."""
        asked = workflow.step + (workflow.state != WorkflowState.BLOCKED)
        for step in workflow.plan[asked:]:
            self.guards.take(workflow.node_id, step["verb"])


def foresee(
    cluster: Cluster, nodes: Sequence[Node], asked: Asked, now: datetime, spare_jobs: bool = False
) -> list[Foreseen]:
    """The answers in the order of `nodes`."""
    sight = Foresight(cluster, nodes, now)
    return [sight.ask(node, asked, spare_jobs) for node in nodes]
