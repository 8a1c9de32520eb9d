"""Edges as rows: one signal per finding, one incident per cause, however often and in whatever order they come."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fleet.audit.models import AuditRow
from fleet.bus.models import Outbox
from fleet.health import selectors, services
from fleet.health.models import Incident, NodeVerdict, Signal
from fleet.health.rules.types import Edge
from fleet.health.services import VerdictRow
from fleet.inventory import lease
from fleet.inventory.models import Cluster, Node
from tests.builders import T0, a_cluster, a_node
from tests.domain.health.edges import an_edge

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(db: None) -> Node:
    return a_node(a_cluster())


def apply(node: Node, *edges: Edge, after: float = 1) -> list[int]:
    ids = dict(Node.objects.values_list("name", "pk"))
    return services.apply_edges(node.cluster_id, edges, ids, node.cluster.epoch, T0 + timedelta(seconds=after))


def test_a_fault_opens_one_signal_and_one_incident(node: Node) -> None:
    ids = apply(node, an_edge())
    incident = Incident.objects.get()
    assert ids == [incident.pk]
    assert (incident.cause, incident.device, incident.scope, incident.boot_id) == (
        "xid-79",
        "GPU-3",
        "device",
        node.boot_id,
    )
    assert incident.title == "GPU 3 reported Xid 79"
    assert incident.detected_at - incident.first_bad_at == timedelta(seconds=1)
    assert Signal.objects.get().incident_id == incident.pk
    assert AuditRow.objects.get(action="incident.open").node == node.name
    assert set(Outbox.objects.values_list("topic", flat=True)) == {"incident", "node"}


def test_the_same_edges_again_change_nothing_but_the_last_sight(node: Node) -> None:
    apply(node, an_edge())
    assert apply(node, an_edge(after=5), after=5) == []
    assert Incident.objects.count() == Signal.objects.count() == 1
    assert Signal.objects.get().seen_at == T0 + timedelta(seconds=5)


def test_log_and_dcgm_forms_of_one_xid_share_the_incident(node: Node) -> None:
    apply(node, an_edge())
    assert apply(node, an_edge(rule_id="xid-dcgm", source="dcgm", after=12)) == []
    assert Incident.objects.count() == 1 and Signal.objects.count() == 2


def test_after_effects_join_what_they_follow(node: Node) -> None:
    apply(node, an_edge())
    apply(node, an_edge(after=4, code="45", cause="xid-45", action_class="ignore", severity="degraded"))
    assert Signal.objects.get(code="45").incident == Incident.objects.get()


def test_an_after_effect_that_is_seen_first_is_taken_in(node: Node) -> None:
    assert apply(node, an_edge(code="43", cause="xid-43", action_class="ignore", severity="degraded")) == []
    assert not Incident.objects.exists()
    apply(node, an_edge(after=3))
    assert Signal.objects.get(code="43").incident == Incident.objects.get()


@pytest.mark.parametrize("action", ["ignore", "monitor", "restart_app"])
def test_what_asks_nobody_to_act_is_a_signal_only(node: Node, action: str) -> None:
    assert apply(node, an_edge(code="31", cause="xid-31", action_class=action, severity="degraded")) == []
    assert Signal.objects.get().incident is None and not Incident.objects.exists()


def test_a_gpu_that_falls_off_the_bus_is_one_incident_however_noticed(node: Node) -> None:
    apply(node, an_edge())
    lost = an_edge(after=600, rule_id="gpu-lost", cause="gpu-lost", code="", source="dcgm")
    assert apply(node, lost) == []
    assert Incident.objects.count() == 1


def test_two_causes_on_one_gpu_within_a_minute_are_one_fault_and_worsen_it(node: Node) -> None:
    first = an_edge(code="48", cause="xid-48", action_class="reset_gpu")
    ids = apply(node, first)
    assert apply(node, an_edge(after=30)) == ids
    incident = Incident.objects.get()
    assert (incident.cause, incident.action_class) == ("xid-48", "reboot_node")
    assert AuditRow.objects.filter(action="incident.worsen").count() == 1


def test_faults_of_two_gpus_or_of_another_hour_are_two_incidents(node: Node) -> None:
    apply(node, an_edge(code="48", cause="xid-48", action_class="reset_gpu"))
    apply(node, an_edge(device="GPU-5", after=2), an_edge(after=3600))
    assert Incident.objects.count() == 3


def test_a_server_that_hangs_is_one_incident_of_the_node(node: Node) -> None:
    hung: dict[str, Any] = {"cause": "mount-hung", "rule_id": "mount-hung", "code": ""}
    apply(node, an_edge(device="nfs:nfs-a", source="kernel_log", **hung))
    apply(node, an_edge(device="mount:/data", source="node_exporter", after=3, **hung))
    assert Incident.objects.count() == 1 and Signal.objects.count() == 2


def test_an_incident_is_quiet_when_every_signal_cleared(node: Node) -> None:
    apply(node, an_edge(), an_edge(rule_id="xid-dcgm", source="dcgm"))
    assert selectors.quiet_incidents(node.cluster_id) == []
    apply(node, an_edge(kind="cleared", after=9))
    assert Signal.objects.filter(cleared_at=None).count() == 0
    assert selectors.quiet_incidents(node.cluster_id) == [Incident.objects.get().pk]


def test_a_resolved_incident_is_not_joined_by_a_new_fault(node: Node) -> None:
    (old,) = apply(node, an_edge())
    apply(node, an_edge(kind="cleared", after=9))
    assert services.resolve_incidents([old], "Over.", T0) == [old]
    assert services.resolve_incidents([old], "Over.", T0) == []
    (new,) = apply(node, an_edge(after=100))
    assert new != old and Incident.objects.get(pk=new).state == "open"


def test_a_refresh_does_not_reopen_what_a_person_resolved(node: Node) -> None:
    (old,) = apply(node, an_edge())
    services.resolve_incidents([old], "Known and accepted.", T0, by="minseo")
    assert apply(node, an_edge(kind="refreshed", after=40)) == []
    assert Incident.objects.filter(state="open").count() == 0


def test_a_node_that_nobody_knows_is_passed_over(node: Node) -> None:
    assert apply(node, an_edge("nobody")) == []
    assert not Signal.objects.exists()


def test_a_past_epoch_writes_nothing(node: Node) -> None:
    Cluster.objects.update(epoch=5)
    with pytest.raises(lease.LeaseLost):
        apply(node, an_edge())
    assert not Signal.objects.exists()


def test_verdicts_are_stored_in_bulk_and_told(node: Node) -> None:
    row = VerdictRow(
        node.pk, "unhealthy", "GPU 3 fell off the bus.", "xid-log", T0, {"GPU-3": ["unhealthy", "", ""]}, T0
    )
    services.store_verdicts(node.cluster_id, [row], [node.pk], node.cluster.epoch, T0)
    assert NodeVerdict.objects.get().reason == "GPU 3 fell off the bus."
    assert Outbox.objects.filter(topic="node", node=node.name).count() == 1


def nvlink(gpu: int, after: float, **fields: Any) -> Edge:
    values = {"code": "74", "cause": "xid-74", "action_class": "reset_gpu", "device": f"GPU-{gpu}", **fields}
    return an_edge(after=after, **values)


def test_one_gpu_with_an_nvlink_error_is_its_own_fault(node: Node) -> None:
    apply(node, nvlink(3, 1))
    incident = Incident.objects.get()
    assert (incident.device, incident.scope, incident.action_class) == ("GPU-3", "device", "reset_gpu")


@pytest.mark.parametrize("batches", [1, 4])
def test_nvlink_errors_of_several_gpus_are_one_fault_of_what_connects_them(node: Node, batches: int) -> None:
    edges = [nvlink(gpu, 1 + gpu) for gpu in range(4)]
    for number in range(batches):
        apply(node, *edges[number::batches], after=10 + number)
    incident = Incident.objects.get()
    assert (incident.device, incident.scope, incident.cause) == ("", "node", "xid-74")
    assert (incident.severity, incident.action_class) == ("unhealthy", "reboot_node")
    assert "suspect its NVSwitch or baseboard" in incident.title
    assert set(Signal.objects.values_list("incident_id", flat=True)) == {incident.pk}


def test_an_nvswitch_that_complains_beside_its_gpus_is_the_same_fault(node: Node) -> None:
    apply(node, nvlink(3, 1), nvlink(0, 2, rule_id="sxid-log", code="20034", cause="sxid-20034", device="switch:0"))
    assert Incident.objects.get().device == ""


def test_later_nvlink_errors_join_the_fault_that_is_known_to_be_wide(node: Node) -> None:
    apply(node, nvlink(0, 1), nvlink(1, 2), after=5)
    apply(node, nvlink(5, 4000), nvlink(6, 4001), after=4002)
    assert Incident.objects.count() == 1


def test_a_gpu_that_failed_by_itself_explains_the_nvlink_errors_of_its_peers(node: Node) -> None:
    apply(node, an_edge())
    apply(node, *(nvlink(gpu, 20 + gpu) for gpu in (0, 1, 2)), after=30)
    incident = Incident.objects.get()
    assert (incident.cause, incident.device, incident.action_class) == ("xid-79", "GPU-3", "reboot_node")


def test_nvlink_errors_far_apart_are_two_faults(node: Node) -> None:
    apply(node, nvlink(0, 1))
    apply(node, nvlink(1, 4000), after=4000)
    assert sorted(Incident.objects.values_list("device", flat=True)) == ["GPU-0", "GPU-1"]


def test_what_the_driver_asks_of_one_gpu_does_not_narrow_a_wide_fault(node: Node) -> None:
    apply(node, nvlink(0, 1), nvlink(1, 2), after=5)
    asked = nvlink(1, 6, kind="refreshed", evidence={"recovery_line": "GPU Reset Required"})
    apply(node, asked, after=7)
    assert Incident.objects.get().action_class == "reboot_node"
