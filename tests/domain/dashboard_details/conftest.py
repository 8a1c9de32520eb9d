"""People who look, a clock that stands, and a fleet with one of everything."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.test import Client

from dashboard import clock
from fleet.access.services import ensure_user
from fleet.audit import services as audit
from fleet.health.models import Incident, Signal
from fleet.inventory.models import Cluster, Device, Node
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent, NodeLifecycle, Step, Workflow
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.telemetry.models import NodeHistory
from fleet.tickets.models import Ticket
from tests.builders import T0, TestClock, a_bmc, a_cluster, a_node, a_workflow, an_incident

NOW = T0 + timedelta(minutes=20)


@pytest.fixture
def now() -> Iterator[TestClock]:
    standing = TestClock(NOW)
    clock.use(standing)
    yield standing
    clock.use(SYSTEM_CLOCK)


@pytest.fixture
def cluster(db: None) -> Cluster:
    return a_cluster(observer_until=NOW + timedelta(minutes=5))


def client_of(role: str, cluster: str = "") -> Client:
    """A browser in which somebody of that role is logged in."""
    name = f"{role}-{cluster or 'everywhere'}"
    user = ensure_user(name=name, password="long-enough-1", role=role, now=T0, by="test", cluster=cluster)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def viewer(now: TestClock, db: None) -> Client:
    return client_of("viewer")


@pytest.fixture
def operator(now: TestClock, db: None) -> Client:
    return client_of("operator")


def audit_row(cluster: Cluster, actor: str, action: str, thing: str, node: str = "", **detail: Any) -> None:
    from django.db import transaction

    with transaction.atomic():
        audit.record(audit.chain_of(cluster.pk), [audit.Entry(actor, action, thing, node, detail)], NOW)


def a_signal(node: Node, incident: Incident | None, **fields: Any) -> Signal:
    values: dict[str, Any] = {
        "rule": "xid-log", "cause": "xid-79", "device": "GPU-3", "code": "79", "source": "kernel_log",
        "severity": "unhealthy", "action_class": "reboot_node", "title": "Xid 79 on GPU 3",
        "evidence": {"line": "NVRM: Xid (PCI:0000:1b:00): 79"}, "first_bad_at": T0, "opened_at": T0, "seen_at": T0,
        **fields,
    }  # fmt: skip
    return Signal.objects.create(cluster_id=node.cluster_id, node=node, incident=incident, **values)


def history(node: Node, minutes: int = 10, faulty: int | None = None, bad_from: int = 5) -> None:
    """Packed rows up to NOW; GPU `faulty` gives nothing during the last `bad_from` minutes."""
    for back in range(minutes, 0, -1):
        at = NOW - timedelta(minutes=back)
        stamps = [(at + timedelta(seconds=10 * tick)).timestamp() for tick in range(6)]
        row = [None if gpu == faulty and back <= bad_from else 300 + gpu for gpu in range(8)]
        grid = [row for _ in stamps]
        data = {"at": stamps, "gpu_power": grid, "gpu_temp": grid, "gpu_util": grid, "ib_rx": [1e9 for _ in stamps]}
        NodeHistory.objects.create(cluster_id=node.cluster_id, node_id=node.pk, at=at, data=orjson.dumps(data))


def a_story(cluster: Cluster, name: str = "gpu-r01-01", **fields: Any) -> Workflow:
    """A node whose drain is blocked by a PDB, with everything that belongs to it."""
    node = a_node(cluster, name, verdict="unhealthy", hold_value="1/op", unschedulable=True, **fields)
    a_bmc(node)
    Device.objects.create(node=node, kind="gpu", key="GPU-aaaa", index=3, serial="165", first_seen_at=T0)
    Device.objects.create(node=node, kind="hca", key="mlx5_0/1", index=0, first_seen_at=T0)
    node.verdict_row.devices = {"GPU-aaaa": ["unhealthy", "off the bus", T0.isoformat()]}
    node.verdict_row.save()
    for state in (NodeState.HELD, NodeState.DRAINING):
        NodeLifecycle.objects.filter(node=node).update(state=state, since=T0, by="muster:worker")
    incident = an_incident(node)
    a_signal(node, incident)
    workflow = a_workflow(
        node, incident, state="blocked", step=1, hold_value="1/op", blocked_code="pdb",
        blocked_text="PDB serving/cache keeps serving/cache-2.", blocked_since=T0,
        blocked_until=NOW + timedelta(seconds=24),
    )  # fmt: skip
    hold = Step.objects.create(
        workflow=workflow, index=0, attempt=1, verb="hold", state="done", started_at=T0,
        ended_at=T0 + timedelta(seconds=0.6), text="Held: takes no new work.",
    )  # fmt: skip
    drain = Step.objects.create(workflow=workflow, index=1, attempt=1, verb="drain", started_at=T0, text="PDB says no.")
    Intent.objects.create(workflow=workflow, step=hold, verb="hold", target=name, created_at=T0, outcome="done")
    pods = {f"uid-{number}": f"serving/pod-{number}" for number in range(10)}
    Intent.objects.create(
        workflow=workflow, step=drain, verb="evict", target="10 pods", before={"pods": pods}, created_at=T0
    )
    Ticket.objects.create(
        cluster=cluster, node=node, incident=incident, workflow_id=workflow.pk, part="GPU-aaaa", serial="165",
        title="GPU 3 fell off the bus", opened_at=T0, evidence={"line": "NVRM: Xid"},
    )  # fmt: skip
    audit_row(cluster, "jiwoo", "workflow.retry", f"workflow:{workflow.pk}", name, reason="I am looking at it")
    history(node, faulty=3)
    return workflow
