"""The page on the rules, and what people may do to an incident from its page."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from fleet.audit.models import AuditRow
from fleet.health.models import Incident
from fleet.health.rules.catalogue import DEFAULTS
from fleet.inventory.models import Cluster
from fleet.lifecycle.machine import WorkflowState
from fleet.readmodels import rules_page
from tests.builders import a_cluster, a_node, a_workflow, an_incident
from tests.domain.dashboard_details.conftest import NOW, a_signal, client_of


def test_every_rule_is_on_the_page_with_its_limit_and_source(viewer: Client, cluster: Cluster) -> None:
    text = viewer.get("/rules/").content.decode()
    for rule in DEFAULTS.values():
        assert f'id="{rule.id}"' in text
    assert "31 replays a minute" in text and "5 min" in text
    assert "90 °C" in text and "1 missing GPU<" in text and "at once" in text
    assert 'href="/rules/" aria-current="page"' in text


def test_the_page_counts_and_times_what_fired_within_thirty_days(cluster: Cluster) -> None:
    node = a_node(cluster)
    for number in range(1, 101):
        begun = NOW - timedelta(days=1)
        a_signal(
            node,
            None,
            rule="thermal",
            code=str(number),
            first_bad_at=begun,
            opened_at=begun + timedelta(seconds=number),
        )
    a_signal(node, None, rule="psu", opened_at=NOW - timedelta(days=31))
    other = a_node(a_cluster("other"), "n-other")
    a_signal(other, None, rule="fan", opened_at=NOW)
    page = rules_page.read(frozenset({cluster.name}), NOW)
    fared = {line.rule.id: line.fared for line in page.lines}
    thermal = fared["thermal"]
    assert thermal.fired == 100
    assert (thermal.p50, thermal.p95, thermal.p99) == pytest.approx((50.5, 95.05, 99.01))
    assert fared["psu"].fired == fared["fan"].fired == 0
    assert page.overall.fired == 100
    assert {line.rule.id: line.fared.fired for line in rules_page.read(None, NOW).lines}["fan"] == 1


def test_the_page_shows_what_a_site_changed(viewer: Client, cluster: Cluster, tmp_path: Path, settings: Any) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        "version: 1\nrules:\n  thermal: {threshold: 77}\n  fan: {enabled: false}\n"
        "codes:\n  xid:\n    63: {severity: unhealthy, action_class: reset_gpu}\n"
        "pools:\n  h100: {psu: {shadow: true}, codes: {sxid: {11004: {severity: none}}}}\n"
    )
    settings.RULES_FILE = str(path)
    text = viewer.get("/rules/").content.decode()
    assert "xid 63" in text and "sxid 11004" in text and text.count(">site<") == 1
    assert "77 °C" in text and "pool h100" in text and "1 are off" in text
    path.write_text("version: 1\nrules:\n  thermal: {heat: 77}\n")
    text = viewer.get("/rules/").content.decode()
    assert "rules.yaml:3:" in text and "the built-in rules are shown" in text


def test_the_page_tells_the_mode_of_a_rule_and_where_a_pool_has_another(
    viewer: Client, cluster: Cluster, tmp_path: Path, settings: Any
) -> None:
    path = tmp_path / "rules.yaml"
    settings.RULES_FILE = str(path)
    assert "Mode:" not in viewer.get("/rules/").content.decode(), "where nothing is limited, nothing is told"
    path.write_text(
        "version: 1\nrules:\n  thermal: {mode: recommend}\n"
        "pools:\n  h100: {thermal: {mode: observe}}\n  a100: {thermal: {threshold: 70}}\n"
    )
    text = viewer.get("/rules/").content.decode()
    row = text[text.index('<tr id="thermal">') :].partition("</tr>")[0]
    assert "Mode: Recommend<" in row and "pool h100: Observe<" in row and "pool a100<" in row
    korean = viewer.get("/rules/", headers={"accept-language": "ko"}).content.decode()
    assert "모드: 권고<" in korean


def test_the_pages_of_a_plan_say_which_rule_keeps_it_from_more(viewer: Client, cluster: Cluster) -> None:
    node = a_node(cluster)
    workflow = a_workflow(node, an_incident(node, mode="observe"), WorkflowState.PLANNED)
    page = viewer.get(f"/nodes/{node.name}/").content.decode()
    assert "The rule xid-log is in mode observe: nothing is written. It would do:" in page
    assert "<dt>Mode</dt><dd>Observe</dd>" in viewer.get(f"/workflows/{workflow.pk}/").content.decode()


@pytest.fixture
def incident(cluster: Cluster) -> Incident:
    return an_incident(a_node(cluster))


def post(client: Client, incident: Incident, act: str, **data: str) -> int:
    return client.post(f"/incidents/{incident.pk}/{act}/", data).status_code


def test_an_operator_acknowledges_mutes_and_unmutes(operator: Client, incident: Incident) -> None:
    page = operator.get(f"/incidents/{incident.pk}/").content.decode()
    assert "Acknowledge</button>" in page and "Confirm mute" in page
    assert post(operator, incident, "acknowledge") == 302
    assert post(operator, incident, "mute", reason="vendor looks at it", hours="4") == 302
    incident.refresh_from_db()
    assert incident.acked_by == "operator-everywhere"
    assert incident.muted_until == NOW + timedelta(hours=4)
    page = operator.get(f"/incidents/{incident.pk}/").content.decode()
    assert "vendor looks at it" in page and "Unmute</button>" in page
    assert post(operator, incident, "unmute") == 302
    incident.refresh_from_db()
    assert incident.muted_until is None
    acts = AuditRow.objects.filter(action__startswith="incident.").order_by("pk").values_list("action", flat=True)
    assert list(acts) == ["incident.acknowledge", "incident.mute", "incident.unmute"]


def test_a_mute_without_reason_or_end_is_refused_in_words(operator: Client, incident: Incident) -> None:
    for data in ({"reason": "", "hours": "4"}, {"reason": "x", "hours": "9999"}, {"reason": "x", "hours": "-1"}):
        answer = operator.post(f"/incidents/{incident.pk}/mute/", data, follow=True).content.decode()
        assert "Say why" in answer or "A mute ends within 30 days" in answer
    incident.refresh_from_db()
    assert incident.muted_until is None


def test_who_may_only_look_may_not_handle(viewer: Client, incident: Incident) -> None:
    assert "Acknowledge</button>" not in viewer.get(f"/incidents/{incident.pk}/").content.decode()
    assert post(viewer, incident, "mute", reason="x", hours="4") == 403
    assert post(client_of("operator", "elsewhere"), incident, "acknowledge") in (403, 404)
    assert viewer.get(f"/incidents/{incident.pk}/mute/").status_code in (403, 405)
    assert not Incident.objects.exclude(acked_at=None).exists()


def test_no_act_that_does_not_exist(operator: Client, incident: Incident) -> None:
    assert post(operator, incident, "explode") == 404
