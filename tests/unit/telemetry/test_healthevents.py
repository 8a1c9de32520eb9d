"""Other tools' words on a node's health, in one form, whatever is sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.telemetry.healthevents import HealthEvent, read_alerts, read_events

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def sentinel(**more: Any) -> dict[str, Any]:
    said = {
        "version": 1, "agent": "gpu-health-monitor", "componentClass": "GPU", "checkName": "GpuMemWatch",
        "isFatal": True, "isHealthy": False, "message": "row remap failed", "recommendedAction": "COMPONENT_RESET",
        "errorCode": ["DCGM_FR_X"], "entitiesImpacted": [{"entityType": "GPU", "entityValue": "3"}],
        "generatedTimestamp": "2026-05-01T12:00:00.123456789Z", "nodeName": "n1", "id": "e1", **more,
    }  # fmt: skip
    return {
        "specversion": "1.0", "type": "com.nvidia.nvsentinel.health.v1", "source": "nvsentinel", "id": "c1",
        "data": {"version": "1.0", "healthEvent": said},
    }  # fmt: skip


def alert(**more: Any) -> dict[str, Any]:
    one = {
        "status": "firing", "labels": {"alertname": "GpuHot", "instance": "n1:9400", "severity": "critical"},
        "annotations": {"summary": "GPU is hot"}, "startsAt": "2026-05-01T12:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z", "fingerprint": "f1", **more,
    }  # fmt: skip
    return {"version": "4", "status": one["status"], "groupKey": "{}", "alerts": [one]}


def only(body: Any, headers: dict[str, str] | None = None) -> HealthEvent:
    batch = read_events(json.dumps(body).encode(), headers or {})
    assert not batch.rejected
    return batch.events[0]


@pytest.mark.parametrize("strategy", [None, "UNSPECIFIED", 0, "STORE_ONLY", 2])
def test_a_sender_that_does_not_ask_is_watched_only(strategy: Any) -> None:
    assert only(sentinel(processingStrategy=strategy)).action == "monitor"


@pytest.mark.parametrize(
    ("asked", "action"),
    [
        ("COMPONENT_RESET", "reset_gpu"), (2, "reset_gpu"), ("RESTART_BM", "reboot_node"), (15, "reboot_node"),
        ("CONTACT_SUPPORT", "contact_support"), ("NONE", "monitor"), (99, "monitor"), ("x", "monitor"), ([], "monitor"),
    ],
)  # fmt: skip
def test_what_a_sender_asks_for(asked: Any, action: str) -> None:
    event = only(sentinel(processingStrategy="EXECUTE_REMEDIATION", recommendedAction=asked))
    assert event.action == action
    assert (event.id, event.node_claims, event.check, event.cause) == (
        "e1",
        ("n1",),
        "GpuMemWatch",
        "event-gpumemwatch",
    )
    assert (event.parts, event.fatal, event.healthy, event.code) == ((("GPU", "3"),), True, False, "DCGM_FR_X")
    assert event.at is not None and event.at.replace(microsecond=0) == AT


def test_an_event_in_the_headers_in_a_batch_and_with_a_spelled_out_time() -> None:
    whole = sentinel(id="", generatedTimestamp={"seconds": str(int(AT.timestamp())), "nanos": 5})
    headers = {key: whole[key] for key in ("specversion", "type", "source", "id")}
    assert only(whole["data"], headers) == only(whole)
    assert only(whole).id == "nvsentinel/c1" and only(whole).at == AT
    assert len(read_events(json.dumps([whole, whole]).encode(), {}).events) == 2


def test_states_of_gpud_are_watched() -> None:
    state = {"time": "2026-05-01T12:00:00Z", "health": "Unhealthy", "reason": "xid 79", "name": "error_xid"}
    event = only({"node": "n1", "component": "accelerator-nvidia-error-xid", "states": [state]})
    assert (event.publisher, event.fatal, event.action) == ("gpud", True, "monitor")
    assert only({"machine_id": "n1", "component": "x", "states": [{**state, "health": "Healthy"}]}).healthy


def test_an_alert_is_known_by_fingerprint_and_start() -> None:
    fired = read_alerts(json.dumps(alert()).encode()).events[0]
    assert (fired.node_claims, fired.action, fired.fatal, fired.at) == (("n1",), "monitor", True, AT)
    again = read_alerts(json.dumps(alert(annotations={"summary": "still"})).encode()).events[0]
    assert fired.id == again.id
    over = read_alerts(json.dumps(alert(status="resolved", endsAt="2026-05-01T12:09:00Z")).encode()).events[0]
    assert over.healthy and over.id != fired.id and over.cause == fired.cause == "alert-gpuhot"
    asking = read_alerts(json.dumps(alert(annotations={"muster_action": "ticket"})).encode()).events[0]
    assert asking.action == "ticket"
    bold = read_alerts(json.dumps(alert(annotations={"muster_action": "rm -rf"})).encode()).events[0]
    assert bold.action == "monitor"


@pytest.mark.parametrize(
    ("state", "fatal"),
    [
        ({"health": "Degraded"}, False),
        ({"healthy": False}, True),
        ({"type": "Fatal"}, True),
        ({"type": "Critical"}, True),
        ({"type": "Warning"}, False),
        ({"health": "Initializing"}, None),
        ({"health": ""}, None),
        ({"health": "Sleeping"}, None),
        ({"type": "Info"}, None),
        ({"type": "Unknown"}, None),
        ({}, None),
    ],
)
def test_what_is_no_verdict_of_gpud_opens_and_ends_nothing(state: dict[str, Any], fatal: bool | None) -> None:
    whole = {"node": "n1", "component": "x", "states": [{"time": "2026-05-01T12:00:00Z", "reason": "r", **state}]}
    batch = read_events(json.dumps(whole).encode(), {})
    if fatal is None:
        assert (batch.events, dict(batch.rejected)) == ([], {"no_verdict": 1})
        return
    (event,) = batch.events
    assert (event.healthy, event.fatal) == (False, fatal)


def test_the_webhook_of_grafana_is_read_as_well() -> None:
    whole = {**alert(annotations={"summary": "hot", "muster_action": "ticket"}), "version": "1", "orgId": 1}
    (fired,) = read_alerts(json.dumps(whole).encode()).events
    assert (fired.check, fired.action, fired.healthy) == ("GpuHot", "ticket", False)
    assert read_alerts(json.dumps({**whole, "version": "3"}).encode()).rejected == {"unknown_event": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"alertname": "DatasourceNoData", "instance": "n1:9400", "severity": "critical"}},
        {"labels": {"alertname": "DatasourceError", "instance": "n1:9400", "severity": "critical"}},
        {"annotations": {"muster_action": "reboot_node", "grafana_state_reason": "NoData"}},
    ],
)
def test_who_had_no_data_asks_and_ends_nothing(change: dict[str, Any]) -> None:
    more = {"annotations": {"muster_action": "reboot_node"}, **change}
    (fired,) = read_alerts(json.dumps(alert(**more)).encode()).events
    assert fired.action == "monitor"
    batch = read_alerts(json.dumps(alert(**more, status="resolved")).encode())
    assert (batch.events, dict(batch.rejected)) == ([], {"no_verdict": 1})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "cut_json"), ("7", "not_an_object"), ("{}", "unknown_event"), ('{"type": "x"}', "unknown_event"),
        (json.dumps(sentinel(nodeName="")), "no_host"), (json.dumps(sentinel(generatedTimestamp="x")), "bad_time"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_counted(body: str, reason: str) -> None:
    batch = read_events(body.encode(), {})
    assert (batch.events, dict(batch.rejected)) == ([], {reason: 1})


keys = st.sampled_from(
    ["type", "specversion", "data", "healthEvent", "nodeName", "checkName", "id", "generatedTimestamp", "alerts",
     "labels", "annotations", "alertname", "startsAt", "status", "states", "node", "time", "version"]
)  # fmt: skip
leaves = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4) | st.just("2026-05-01T12:00:00Z")


@settings(max_examples=80, deadline=None)
@given(st.recursive(leaves, lambda x: st.lists(x, max_size=3) | st.dictionaries(keys, x, max_size=6)), st.binary())
def test_no_body_raises(shape: Any, raw: bytes) -> None:
    body = json.dumps(shape).encode()
    read_events(body, {})
    read_events(body, {"type": "x", "id": "1"})
    read_alerts(body)
    for data in (raw, json.dumps({**sentinel(), "data": {"healthEvent": shape}}).encode()):
        read_events(data, {})
    if isinstance(shape, dict):
        read_events(json.dumps(sentinel(**shape)).encode(), {})
        read_alerts(json.dumps(alert(**shape)).encode())
