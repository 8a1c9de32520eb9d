"""Health events over ASGI and conditions from the watch: whose they are, and what they open."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from fleet.health.models import Incident, Signal
from fleet.observer.judge import Judge
from fleet.observer.nodeconditions import ConditionWatch, publisher_of
from fleet.observer.push import Push
from fleet.observer.session import Session
from tests.builders import T0, TestClock
from tests.domain.inventory.seen import a_node_seen as seen
from tests.domain.observer.test_push import call, push, secret
from tests.unit.telemetry.test_healthevents import alert, sentinel

pytestmark = pytest.mark.django_db(transaction=True)
NODE = "gpu-r01-01"
__all__ = ["push"]


def event(**more: Any) -> bytes:
    given = {"nodeName": NODE, "generatedTimestamp": T0.isoformat(), "processingStrategy": "EXECUTE_REMEDIATION"}
    return orjson.dumps(sentinel(**{**given, **more}))


def test_an_event_that_asks_opens_an_incident_and_its_healthy_word_ends_the_signal(
    push: Push, clock: TestClock
) -> None:
    token = secret()
    assert call(push, "/ingest/events", event(), token)[0] == 200
    assert call(push, "/ingest/events", event(), token) == (200, {"accepted": 1, "rejected": {}})
    incident = Incident.objects.get()
    assert (incident.cause, incident.action_class, incident.device) == ("event-gpumemwatch", "reset_gpu", "gpu:3")
    at = clock.tick(20).isoformat()
    assert call(push, "/ingest/events", event(id="e2", isHealthy=True, generatedTimestamp=at), token)[0] == 200
    assert Signal.objects.get().cleared_at is not None


def test_an_event_that_does_not_say_so_is_a_signal_alone(push: Push) -> None:
    assert call(push, "/ingest/events", event(processingStrategy="UNSPECIFIED"), secret())[0] == 200
    assert Signal.objects.get().severity == "degraded" and not Incident.objects.exists()


def test_an_alert_is_a_signal_and_ends_when_resolved(push: Push, clock: TestClock) -> None:
    token, labels = secret(), {"alertname": "GpuHot", "instance": f"{NODE}:9400", "severity": "critical"}
    body = orjson.dumps(alert(labels=labels, startsAt=T0.isoformat()))
    assert call(push, "/ingest/alertmanager", body, token)[0] == 200
    assert Signal.objects.get().rule == "alert" and not Incident.objects.exists()
    over = alert(status="resolved", labels=labels, startsAt=T0.isoformat(), endsAt=clock.tick(60).isoformat())
    assert call(push, "/ingest/alertmanager", orjson.dumps(over), token)[0] == 200
    assert Signal.objects.get().cleared_at is not None


def test_a_publisher_speaks_for_its_own_node(push: Push) -> None:
    status, body = call(push, "/ingest/events", event(), secret(node="gpu-r01-02"))
    assert status == 403 and "gpu-r01-02" in body["error"]
    assert call(push, "/ingest/events", event(nodeName="nobody"), secret())[1]["rejected"] == {"unknown_node": 1}
    assert call(push, "/ingest/events", b"{", secret())[0] == 400
    assert call(push, "/ingest/alertmanager", b"{}", secret())[0] == 400
    assert not Signal.objects.exists()


def test_a_condition_that_turns_bad_is_news_and_one_that_was_bad_before_us_is_shown(
    session: Session, judge: Judge
) -> None:
    watch = ConditionWatch(session, judge)
    bad, good = {"KernelDeadlock": ("True", "Hung", "docker hung")}, {"KernelDeadlock": ("False", "", "")}
    watch.look([seen("gpu-r01-01", conditions=bad), seen("gpu-r01-02", conditions=good)])
    judge.commit()
    assert not Incident.objects.exists()
    assert Signal.objects.get().action_class == "monitor"
    watch.look([seen("gpu-r01-02", conditions=bad), seen("gpu-r01-02", conditions=bad)])
    judge.commit()
    assert Incident.objects.get().node.name == "gpu-r01-02"  # type: ignore[union-attr]
    watch.look([seen("gpu-r01-02", conditions={"KernelDeadlock": ("Unknown", "", "")})])
    judge.commit()
    assert Signal.objects.filter(cleared_at=None).count() == 2
    watch.look([seen("gpu-r01-02", conditions=good), seen("gpu-r01-01", conditions=good)])
    judge.commit()
    assert Signal.objects.filter(cleared_at=None).count() == 0


def test_whose_conditions_are_known() -> None:
    assert publisher_of("ReadonlyFilesystem") == publisher_of("FrequentKubeletRestart") == "node-problem-detector"
    assert publisher_of("GpuMemWatch") == publisher_of("SysLogsXIDError") == "NVSentinel"
    assert publisher_of("DiskPressure") == "kubelet"
    assert publisher_of("Ready") == publisher_of("OurOwnThing") == ""
