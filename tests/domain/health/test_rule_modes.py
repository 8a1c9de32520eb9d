"""How far an incident may go: as far as the rule that opened it, or as a higher one that joins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fleet.audit import services as audit
from fleet.health import modes, services
from fleet.health.models import Incident, Signal
from fleet.health.rules.siterules import parse
from fleet.health.rules.types import Edge
from fleet.inventory.models import Node, Pool
from tests.builders import T0, a_cluster, a_node
from tests.domain.health.edges import an_edge

pytestmark = pytest.mark.django_db
LOST: dict[str, Any] = {"rule_id": "gpu-lost", "cause": "gpu-lost", "code": "", "source": "dcgm"}
HOT: dict[str, Any] = {"rule_id": "thermal", "cause": "thermal", "code": "", "source": "dcgm"}


@pytest.fixture
def node(db: None) -> Node:
    return a_node(a_cluster())


def apply(node: Node, *edges: Edge) -> Incident:
    ids = dict(Node.objects.values_list("name", "pk"))
    services.apply_edges(node.cluster_id, edges, ids, node.cluster.epoch, T0)
    return Incident.objects.get()


def renew(node: Node, rules: str) -> modes.Renewed:
    journal: list[audit.Entry] = []
    found = modes.renew(node.cluster_id, parse(f"version: 1\n{rules}", "r").mode_of, T0, journal)
    assert len(journal) == len(found.all), "who changed what is told"
    return found


@pytest.mark.parametrize("mode", modes.ORDER)
def test_an_incident_opens_in_the_mode_of_its_rule(node: Node, mode: Any) -> None:
    assert apply(node, an_edge(mode=mode)).mode == mode
    assert Signal.objects.get().mode == mode


@pytest.mark.parametrize("at_once", [True, False])
def test_it_rises_with_a_signal_of_a_higher_rule_and_asks_what_that_asks(node: Node, at_once: bool) -> None:
    first = an_edge(mode="observe", action_class="fence_node")
    second = an_edge(after=5, mode="recommend", action_class="contact_support", **LOST)
    for edges in [(first, second)] if at_once else [(first,), (second,)]:
        incident = apply(node, *edges)
    assert (incident.mode, incident.rule, incident.action_class) == ("recommend", "gpu-lost", "contact_support")
    assert apply(node, an_edge(after=9, kind="refreshed", mode="observe", action_class="fence_node")).action_class == (
        "contact_support"
    ), "nothing is done on the word of a rule in a lower mode"


def test_what_is_found_at_once_is_as_bad_as_what_is_found_one_after_another(node: Node) -> None:
    incident = apply(node, an_edge(), an_edge(after=2, action_class="replace_part", **LOST))
    assert incident.action_class == "replace_part"


def test_a_rule_in_a_lower_mode_neither_hinders_nor_worsens_the_incident_of_another(node: Node) -> None:
    apply(node, an_edge())
    incident = apply(node, an_edge(after=5, mode="observe", action_class="replace_part", **LOST))
    assert (incident.mode, incident.rule, incident.action_class) == ("automate", "xid-log", "reboot_node")


def test_what_asks_for_nothing_raises_nothing(node: Node) -> None:
    apply(node, an_edge(mode="observe"))
    incident = apply(node, an_edge(after=2, severity="degraded", action_class="monitor", **HOT))
    assert (Signal.objects.filter(incident=incident).count(), incident.mode) == (2, "observe")
    assert renew(node, "rules:\n  xid-log: {mode: observe}\n").all == ()


def test_open_incidents_follow_the_site_s_rules_though_their_signals_have_cleared(node: Node) -> None:
    incident = apply(node, an_edge())
    apply(node, an_edge(after=9, kind="cleared"))
    assert renew(node, "rules:\n  xid-log: {mode: observe}\n").lowered == (incident.pk,)
    assert renew(node, "rules:\n  xid-log: {mode: observe}\n").all == ()
    assert (Incident.objects.get().mode, Signal.objects.get().mode) == ("observe", "observe")
    assert renew(node, "").raised == (incident.pk,)
    services.resolve_incidents([incident.pk], "over", T0)
    assert renew(node, "rules:\n  xid-log: {mode: observe}\n").all == (), "what is over stays as it was"


def test_a_pool_s_mode_holds_for_its_nodes(node: Node) -> None:
    incident = apply(node, an_edge())
    rules = "rules:\n  xid-log: {mode: recommend}\npools:\n  h100:\n    xid-log: {mode: automate}\n"
    assert renew(node, rules).lowered == (incident.pk,)
    Node.objects.update(pool=Pool.objects.create(cluster=node.cluster, name="h100"))
    assert renew(node, rules).raised == (incident.pk,), "its node came into a pool that trusts the rule"


def test_lowering_the_rule_that_asked_for_most_is_not_undone_by_one_that_asks_for_less(node: Node) -> None:
    apply(node, an_edge(action_class="reboot_node"))
    apply(node, an_edge(after=5, action_class="contact_support", **LOST))
    renew(node, "rules:\n  xid-log: {mode: observe}\n")
    incident = Incident.objects.get()
    assert (incident.mode, incident.rule) == ("observe", "xid-log")
    renew(node, "rules:\n  xid-log: {mode: observe}\n  gpu-lost: {action_class: reboot_node}\n")
    Signal.objects.filter(rule="gpu-lost").update(action_class="reboot_node")
    renew(node, "rules:\n  xid-log: {mode: observe}\n")
    incident.refresh_from_db()
    assert (incident.mode, incident.rule) == ("automate", "gpu-lost"), "another rule asks for as much"


def test_a_stale_finding_does_not_bring_back_the_mode_that_was_lowered(node: Node) -> None:
    apply(node, an_edge())
    renew(node, "rules:\n  xid-log: {mode: observe}\n")
    told = an_edge(kind="refreshed", detected_at=T0 + timedelta(minutes=9), action_class="replace_part")
    assert apply(node, told).mode == "observe"


def test_a_fault_that_comes_back_again_and_again_stays_for_people_though_it_asks_for_a_boot(node: Node) -> None:
    for number in range(4):
        apply_all(node, an_edge(after=600 * number + 1), an_edge(after=600 * number + 9, kind="cleared"))
        services.resolve_incidents(Incident.objects.values_list("pk", flat=True), "over", T0)
    apply_all(node, an_edge(after=2401), an_edge(after=2500, kind="refreshed"))
    assert Incident.objects.get(state="open").action_class == "contact_support"


def apply_all(node: Node, *edges: Edge) -> None:
    ids = dict(Node.objects.values_list("name", "pk"))
    for edge in edges:
        services.apply_edges(node.cluster_id, [edge], ids, node.cluster.epoch, edge.detected_at)
