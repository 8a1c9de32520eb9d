"""A cluster that was never reached says so."""

from __future__ import annotations

import pytest

from fleet.inventory.models import Cluster
from fleet.observer.conditions import Conditions
from fleet.observer.cycle import Cycle
from fleet.observer.judge import Judge
from fleet.observer.scraping import Scraper
from fleet.observer.session import Session
from fleet.ports.cluster import WatchState
from fleet.telemetry.frame import Frame
from fleet.telemetry.intake import Intake
from tests.builders import T0

pytestmark = pytest.mark.django_db
AWAY = "https://10.0.0.1:6443 cannot be reached (list nodes): refused"


def test_what_keeps_a_cluster_from_ever_connecting_is_written_down(session: Session) -> None:
    session.connected_at = None
    frame, conditions = Frame(), Conditions()
    scraper = Scraper(session, Intake(frame, lambda name: name), dict, lambda: 0, lambda: False)
    conditions.watch(WatchState("nodes", False, T0, AWAY, "api_unreachable"), T0)
    Cycle(session, frame, Judge(session, frame), scraper, conditions).turn()
    assert [stated["text"] for stated in Cluster.objects.get().conditions] == [AWAY]
