"""Builders: the smallest true rows of the domain, for tests.

Each takes only what the test is about; the rest is plausible. Nothing here is random.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.access.models import Grant, User
from fleet.health.models import Incident, NodeVerdict
from fleet.inventory.models import Alias, Bmc, Cluster, Mode, Node, Pool
from fleet.lifecycle.machine import NodeState, WorkflowState
from fleet.lifecycle.models import NodeLifecycle, Workflow

T0 = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


class TestClock:
    """A clock that moves only when told."""

    __test__ = False

    def __init__(self, now: datetime = T0) -> None:
        self._now = now
        self._mono = 1000.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._mono

    def tick(self, seconds: float) -> datetime:
        self._now += timedelta(seconds=seconds)
        self._mono += seconds
        return self._now

    def step(self, seconds: float) -> None:
        """The wall clock jumps; monotonic time does not."""
        self._now += timedelta(seconds=seconds)


def a_cluster(name: str = "demo", mode: str = Mode.AUTOMATE, **fields: Any) -> Cluster:
    values = {"mode": mode, "mode_since": T0, "created_at": T0, "connected_at": T0 - timedelta(hours=1)}
    watched = {"observer": "test", "observer_until": T0 + timedelta(days=1)}
    values.update(watched | fields)
    return Cluster.objects.create(name=name, **values)


def a_node(
    cluster: Cluster,
    name: str = "gpu-r01-01",
    *,
    rack: str = "r01",
    leaf: str = "leaf-01",
    pool: str = "h100-train",
    state: str = NodeState.IN_SERVICE,
    verdict: str = "healthy",
    **fields: Any,
) -> Node:
    pool_row, _ = Pool.objects.get_or_create(cluster=cluster, name=pool)
    values: dict[str, Any] = {
        "uid": f"uid-{name}",
        "managed": True,
        "ready": True,
        "ready_since": T0 - timedelta(days=1),
        "heartbeat_at": T0,
        "boot_id": f"boot-{name}-1",
        "resource_version": "100",
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "gpu_expected": 8,
        "gpu_capacity": 8,
        "gpu_allocatable": 8,
        "pods": 2,
        "first_seen_at": T0 - timedelta(days=1),
        "seen_at": T0,
        **fields,
    }
    node = Node.objects.create(cluster=cluster, name=name, rack=rack, leaf=leaf, pool=pool_row, **values)
    NodeLifecycle.objects.create(node=node, cluster_id=cluster.pk, state=state, since=T0 - timedelta(days=1))
    NodeVerdict.objects.create(
        node=node, cluster_id=cluster.pk, verdict=verdict, since=T0 - timedelta(days=1), telemetry_at=T0
    )
    Alias.objects.create(cluster=cluster, node=node, kind="name", value=name)
    return node


def a_person(name: str, role: str = "operator", cluster: str = "") -> User:
    """An account that cannot log in, with one role."""
    user, _ = User.objects.get_or_create(username=name)
    Grant.objects.get_or_create(user=user, role=role, cluster=cluster)
    return user


def people(*names: str) -> None:
    """Operators of those names, in as few statements as a world that is built for each test can afford."""
    User.objects.bulk_create([User(username=name) for name in names], ignore_conflicts=True)
    users = User.objects.filter(username__in=names)
    Grant.objects.bulk_create([Grant(user=user, role="operator") for user in users], ignore_conflicts=True)


def a_bmc(node: Node, address: str = "http://127.0.0.1:9/bmc", **fields: Any) -> Bmc:
    values = {"credential_ref": "env:TEST_BMC", "pinned_serial": f"SN-{node.name}", **fields}
    return Bmc.objects.create(node=node, address=address, **values)


def an_incident(node: Node, cause: str = "xid-79", **fields: Any) -> Incident:
    values: dict[str, Any] = {
        "rule": "xid-log",
        "severity": "unhealthy",
        "action_class": "reboot_node",
        "title": "GPU 3 fell off the bus (Xid 79)",
        "device": "GPU-3",
        "boot_id": node.boot_id,
        "first_bad_at": T0,
        "detected_at": T0 + timedelta(seconds=1),
        "evidence": {"line": "NVRM: Xid (PCI:0000:1b:00): 79"},
        **fields,
    }
    return Incident.objects.create(cluster=node.cluster, node=node, cause=cause, **values)


FULL_PLAN = [{"verb": verb} for verb in ("hold", "drain", "reboot", "validate", "soak", "return")]


def a_workflow(
    node: Node, incident: Incident | None = None, state: str = WorkflowState.RUNNING, **fields: Any
) -> Workflow:
    values: dict[str, Any] = {
        "playbook": "reboot",
        "plan": FULL_PLAN,
        "created_at": T0,
        "started_at": T0,
        "wake_at": T0,
        "node_uid": node.uid,
        **fields,
    }
    return Workflow.objects.create(cluster=node.cluster, node=node, incident=incident, state=state, **values)
