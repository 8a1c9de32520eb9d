"""The machine as data, the function in the database made from it, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import DatabaseError, transaction
from django.db.models import Model

from fleet.inventory.models import Cluster
from fleet.lifecycle import machine
from fleet.lifecycle.machine import NODE_EDGES, WORKFLOW_EDGES, NodeState, WorkflowState
from fleet.lifecycle.models import NodeLifecycle, Workflow
from tests.builders import a_node, a_workflow

DOC = Path(__file__).resolve().parents[3] / "docs" / "lifecycle.md"


def _taken(model: type[Model], pk: int, state: str) -> bool:
    """Whether the database takes that state; the row stays as it was."""
    try:
        with transaction.atomic():
            model._default_manager.filter(pk=pk).update(state=state)
            transaction.set_rollback(True)
    except DatabaseError:
        return False
    return True


def test_the_database_takes_exactly_the_edges_of_a_node(cluster: Cluster) -> None:
    for old in NodeState:
        row = NodeLifecycle.objects.get(node=a_node(cluster, f"gpu-{old}", state=old))
        for new in set(NodeState) - {old}:
            assert _taken(NodeLifecycle, row.pk, new) is ((old, new) in NODE_EDGES), f"{old} -> {new}"


def test_the_database_takes_exactly_the_edges_of_a_workflow(cluster: Cluster) -> None:
    for old in WorkflowState:
        row = a_workflow(a_node(cluster, f"gpu-{old}"), state=old)
        for new in set(WorkflowState) - {old}:
            assert _taken(Workflow, row.pk, new) is ((old, new) in WORKFLOW_EDGES), f"{old} -> {new}"


def test_every_state_has_a_sentence_and_a_way_in_and_out() -> None:
    for state in NodeState:
        assert machine.NODE_SENTENCES[state].endswith(".")
        assert any(new == state for _, new in NODE_EDGES)
        assert any(old == state for old, _ in NODE_EDGES)


def test_the_page_shows_the_machine_as_it_is() -> None:
    assert machine.diagram() in DOC.read_text(encoding="utf-8"), (
        "run: python -m fleet.lifecycle.machine > docs/lifecycle.md"
    )


def test_an_edge_that_is_not_there_has_no_sentence() -> None:
    with pytest.raises(machine.IllegalEdge):
        machine.check_node_edge(NodeState.IN_SERVICE, NodeState.REMEDIATING)
