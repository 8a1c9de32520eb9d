"""The states of a node and of a workflow, and every edge between them, as data.

Decides which transitions exist at all; the body of the database function that refuses any other edge and the diagram
in the docs are generated from here. Refuses to know why a transition is taken: that is the engine's business.
No Django here, not even indirectly.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class NodeState(StrEnum):
    IN_SERVICE = "in_service"
    SUSPECT = "suspect"
    HELD = "held"
    DRAINING = "draining"
    DRAINED = "drained"
    REMEDIATING = "remediating"
    VALIDATING = "validating"
    SOAKING = "soaking"
    AWAITING_REPAIR = "awaiting_repair"
    RELEASED = "released"
    UNMANAGED = "unmanaged"
    RETIRED = "retired"


class WorkflowState(StrEnum):
    PLANNED = "planned"  # observe mode: what would be done
    WAITING = "waiting"  # recommend mode: waits for a person's approval
    RUNNING = "running"
    BLOCKED = "blocked"  # a guard or another party keeps it waiting
    REPAIR = "repair"  # a ticket is open; people work
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_WORKFLOW_STATES = (
    WorkflowState.WAITING,
    WorkflowState.RUNNING,
    WorkflowState.BLOCKED,
    WorkflowState.REPAIR,
)
AWAKE = (WorkflowState.RUNNING, WorkflowState.BLOCKED)
"""Those that a message may advance."""
ENDED_WORKFLOW_STATES = (WorkflowState.SUCCEEDED, WorkflowState.FAILED, WorkflowState.CANCELLED)

NODE_SENTENCES: dict[NodeState, str] = {
    NodeState.IN_SERVICE: "Takes new work.",
    NodeState.SUSPECT: "Something looks wrong; it still takes work while it is confirmed.",
    NodeState.HELD: "Takes no new work; what runs is untouched.",
    NodeState.DRAINING: "Its pods are being evicted.",
    NodeState.DRAINED: "No work is left on it.",
    NodeState.REMEDIATING: "A reset, reboot or reprovision is under way.",
    NodeState.VALIDATING: "It is back and is being tested.",
    NodeState.SOAKING: "It passed the tests and is being watched before it returns.",
    NodeState.AWAITING_REPAIR: "People must repair it; a ticket is open.",
    NodeState.RELEASED: "A person took it back from us; we leave it alone.",
    NodeState.UNMANAGED: "Outside the managed set: seen, never touched.",
    NodeState.RETIRED: "Gone from the cluster.",
}

S = NodeState
NODE_EDGES: dict[tuple[NodeState, NodeState], str] = {
    (S.IN_SERVICE, S.SUSPECT): "A grey failure is suspected.",
    (S.SUSPECT, S.IN_SERVICE): "The suspicion was not confirmed.",
    (S.IN_SERVICE, S.HELD): "An incident or a person holds it.",
    (S.SUSPECT, S.HELD): "The suspicion was confirmed, or a person holds it.",
    (S.RELEASED, S.HELD): "A new incident or a person holds it again.",
    (S.HELD, S.DRAINING): "The take-out was granted; evictions begin.",
    (S.DRAINING, S.DRAINED): "The last pod is gone.",
    (S.DRAINED, S.REMEDIATING): "The disruptive verb was granted.",
    (S.DRAINED, S.VALIDATING): "Nothing was to be mended, or a person did; it is tested before it returns.",
    (S.HELD, S.REMEDIATING): "Nothing ran on it and the disruptive verb was granted.",
    (S.REMEDIATING, S.VALIDATING): "The verb's effect was proved.",
    (S.REMEDIATING, S.DRAINED): "The verb had no effect; the next try waits for its grant.",
    (S.VALIDATING, S.SOAKING): "Every check passed.",
    (S.VALIDATING, S.DRAINED): "A check failed; the next try waits for its grant.",
    (S.SOAKING, S.DRAINED): "The fault came back while it was watched.",
    (S.SOAKING, S.IN_SERVICE): "The soak is over, the cause is clear.",
    (S.HELD, S.AWAITING_REPAIR): "Only people can mend it.",
    (S.DRAINING, S.AWAITING_REPAIR): "It turned out that only people can mend it.",
    (S.DRAINED, S.AWAITING_REPAIR): "Attempts ran out, or a part must be replaced.",
    (S.REMEDIATING, S.AWAITING_REPAIR): "The verb failed for good.",
    (S.VALIDATING, S.AWAITING_REPAIR): "Attempts ran out.",
    (S.SOAKING, S.AWAITING_REPAIR): "Attempts ran out.",
    (S.AWAITING_REPAIR, S.VALIDATING): "The ticket was closed; the repair is tested.",
    (S.HELD, S.IN_SERVICE): "The hold was released without remediation.",
    **{
        (state, S.RELEASED): "A person took the node back, or cancelled the workflow."
        for state in (S.HELD, S.DRAINING, S.DRAINED, S.REMEDIATING, S.VALIDATING, S.SOAKING, S.AWAITING_REPAIR)
    },
    (S.RELEASED, S.IN_SERVICE): "It is schedulable and healthy again.",
    **{(state, S.RETIRED): "The node left the cluster." for state in S if state is not S.RETIRED},
    (S.RETIRED, S.IN_SERVICE): "A node of this name is back.",
    (S.RETIRED, S.UNMANAGED): "A node of this name is back, outside the managed set.",
    (S.UNMANAGED, S.IN_SERVICE): "It joined the managed set.",
    **{(state, S.UNMANAGED): "It left the managed set." for state in (S.IN_SERVICE, S.SUSPECT, S.RELEASED)},
}

W = WorkflowState
WORKFLOW_EDGES: dict[tuple[WorkflowState, WorkflowState], str] = {
    (W.PLANNED, W.RUNNING): "The mode now allows it; current health still asks for it.",
    (W.PLANNED, W.WAITING): "The mode now allows to ask for approval.",
    (W.PLANNED, W.CANCELLED): "The plan was discarded.",
    (W.WAITING, W.RUNNING): "A person approved it.",
    (W.WAITING, W.CANCELLED): "Rejected, expired, or no longer needed.",
    (W.RUNNING, W.BLOCKED): "A guard or another party keeps it waiting.",
    (W.BLOCKED, W.RUNNING): "What kept it waiting is gone.",
    (W.RUNNING, W.REPAIR): "People must act; a ticket is open.",
    (W.BLOCKED, W.REPAIR): "People must act; a ticket is open.",
    (W.REPAIR, W.RUNNING): "The ticket was closed.",
    (W.RUNNING, W.SUCCEEDED): "The node is back in service.",
    (W.RUNNING, W.FAILED): "It cannot go on, and says why.",
    (W.BLOCKED, W.FAILED): "It cannot go on, and says why.",
    **{
        (state, W.CANCELLED): "A person, the mode or a vanished cause ended it."
        for state in (W.RUNNING, W.BLOCKED, W.REPAIR)
    },
}

OUT_STATES = frozenset({S.DRAINING, S.DRAINED, S.REMEDIATING, S.VALIDATING, S.SOAKING, S.AWAITING_REPAIR})
"""States in which a node of ours counts as out of service. A node merely held still serves what runs on it."""


class IllegalEdge(Exception):
    """A transition that the machine does not have."""


def check_node_edge(old: NodeState, new: NodeState) -> str:
    """The sentence of the edge old -> new; IllegalEdge if there is none."""
    try:
        return NODE_EDGES[old, new]
    except KeyError:
        raise IllegalEdge(f"A node cannot go from {old} to {new}.") from None


def _sql_values(edges: Iterable[tuple[StrEnum, StrEnum]]) -> str:
    return ", ".join(f"('{old.value}','{new.value}')" for old, new in sorted(edges))


def guard_sql(table: str, function: str, edges: Iterable[tuple[StrEnum, StrEnum]]) -> str:
    """DDL of the trigger that refuses every edge not listed; the edges are compiled into the function body."""
    return f"""
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
  IF NEW.state IS DISTINCT FROM OLD.state
     AND NOT ((OLD.state::text, NEW.state::text) IN ({_sql_values(edges)})) THEN
    RAISE EXCEPTION 'illegal edge % -> % in {table}', OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $body$;
DROP TRIGGER IF EXISTS {function} ON {table};
CREATE TRIGGER {function} BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}();
"""


def diagram() -> str:
    """The machine as a Mermaid state diagram for the docs."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {old.value} --> {new.value}: {text}" for (old, new), text in NODE_EDGES.items()]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page of the docs: states with their sentences, and the diagram."""
    states = "\n".join(f"| `{state.value}` | {text} |" for state, text in NODE_SENTENCES.items())
    return f"""# The life of a node

Made from `fleet/lifecycle/machine.py` by `python -m fleet.lifecycle.machine > docs/lifecycle.md`. The database refuses
every edge that is not drawn here.

| State | Meaning |
|---|---|
{states}

```mermaid
{diagram()}```
"""


if __name__ == "__main__":
    print(page(), end="")
