"""Which path leads where on the push port.

Decides nothing else. Kernel lines of Fluent Bit and Vector and service discovery are the push server's own.
"""

from __future__ import annotations

from fleet.observer.eventdoor import EventDoor
from fleet.observer.lokidoor import LokiDoor
from fleet.observer.push import Push
from fleet.observer.writedoor import WriteDoor
from fleet.telemetry.pushintake import PushIntake


def open_doors(push: Push, pushes: PushIntake) -> None:
    events = EventDoor(push)
    push.doors = {
        "/api/v1/write": WriteDoor(push.session, pushes, push.refusals).take,
        "/loki/api/v1/push": LokiDoor(push).take,
        "/ingest/events": events.take,
        "/ingest/alertmanager": events.take_alerts,
    }
