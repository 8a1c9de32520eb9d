"""What people do to incidents, and what a rule in shadow does not do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.audit.models import AuditRow
from fleet.bus.models import Outbox
from fleet.health import handling, services
from fleet.health.models import Incident, Signal
from fleet.inventory.models import Node
from tests.builders import T0, a_cluster, a_node, an_incident
from tests.domain.health.edges import an_edge

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def incident(db: None) -> Incident:
    return an_incident(a_node(a_cluster()))


def test_a_rule_in_shadow_leaves_its_signal_and_opens_nothing(db: None) -> None:
    node = a_node(a_cluster())
    ids = dict(Node.objects.values_list("name", "pk"))
    assert services.apply_edges(node.cluster_id, [an_edge(shadow=True)], ids, node.cluster.epoch, T0) == []
    signal = Signal.objects.get()
    assert (signal.incident_id, signal.evidence["shadow"]) == (None, True)
    assert not Incident.objects.exists()


def test_the_first_acknowledgement_stands(incident: Incident) -> None:
    handling.acknowledge(incident.pk, "ann", T0)
    with pytest.raises(handling.Refused, match="acknowledged by ann already"):
        handling.acknowledge(incident.pk, "bob", T0 + HOUR)
    incident.refresh_from_db()
    assert (incident.acked_by, incident.acked_at) == ("ann", T0)
    assert AuditRow.objects.get(action="incident.acknowledge").actor == "ann"
    assert Outbox.objects.filter(topic="incident").exists()


def test_a_mute_has_a_reason_and_an_end(incident: Incident) -> None:
    for reason, until, says in (
        (" ", T0 + HOUR, "Say why"),
        ("x", T0, "not in the past"),
        ("x", T0 + timedelta(days=31), "within 30 days"),
    ):
        with pytest.raises(handling.Refused, match=says):
            handling.mute(incident.pk, "ann", reason, until, T0)
    handling.mute(incident.pk, "ann", "vendor looks", T0 + HOUR, T0)
    incident.refresh_from_db()
    assert (incident.muted_until, incident.muted_by, incident.muted_reason) == (T0 + HOUR, "ann", "vendor looks")
    with pytest.raises(handling.Refused, match="not muted"):
        handling.unmute(incident.pk, "ann", T0 + 2 * HOUR)


def test_a_resolved_incident_cannot_be_handled(incident: Incident) -> None:
    services.resolve_incidents([incident.pk], "over", T0)
    with pytest.raises(handling.Refused, match="is resolved"):
        handling.mute(incident.pk, "ann", "x", T0 + HOUR, T0)
