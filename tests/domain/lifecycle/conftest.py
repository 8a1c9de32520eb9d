"""The world of the engine's tests."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import engine, grants, services
from fleet.lifecycle.models import NodeLifecycle, Workflow
from fleet.policy.models import Cap
from tests.builders import TestClock, a_bmc, a_cluster, a_node, an_incident, people
from tests.domain.lifecycle.world import World

default_caps = import_module("fleet.policy.migrations.0002_default_caps")
Build = Callable[..., World]


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def cluster(db: None) -> Cluster:
    return a_cluster()


@pytest.fixture
def build(cluster: Cluster, clock: TestClock, monkeypatch: pytest.MonkeyPatch) -> Build:
    """`build(names, **node fields)`: nodes with BMCs in one rack, in a world whose queue replaces the broker.

    Caps that are a percent of the fleet would bind at once in so small a fleet; only the absolute ones are kept.
    """

    def make(*names: str, fleet: int = 3, **fields: Any) -> World:
        if not Cap.objects.exists():  # a test with real transactions may have emptied the table before this one
            default_caps.fill(apps, None)
        Cap.objects.filter(absolute=None).delete()
        people("ann", "bo", "cho", "minseo", "jiwoo")
        for name in names:
            a_bmc(a_node(cluster, name, **fields))
        for number in range(fleet):
            a_node(cluster, f"other-{number:03d}", rack=f"o{number // 16}", leaf=f"ol{number // 32}", pods=0)
        world = World(cluster, clock)
        for module in (engine, grants):
            monkeypatch.setattr(module, "send", world.send)
        return world

    return make


def fault(world: World, name: str, **fields: Any) -> Workflow:
    """An incident on the node, planned and asking for its claim as the observer would leave it."""
    node = Node.objects.get(name=name)
    incident = an_incident(node, detected_at=world.clock.now(), first_bad_at=world.clock.now(), **fields)
    ids = services.plan(world.cluster.pk, [incident.pk], clock=world.clock)
    assert ids, "nothing was planned"
    return Workflow.objects.get(pk=ids[0])


def state_of(name: str) -> str:
    return NodeLifecycle.objects.get(node__name=name).state


def again(workflow: Workflow) -> Workflow:
    return Workflow.objects.get(pk=workflow.pk)
