"""Whatever measures was exchanged on some nodes, and they fail together: the change is suspected, not the nodes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from fleet.health import detector_changes
from fleet.observer.judge import Judge
from fleet.telemetry.frame import Frame
from tests.builders import TestClock
from tests.domain.observer.test_company import (  # noqa: F401  the fleet of those tests
    SETTLE,
    alive,
    cluster,
    disrupted,
    fan,
    judge,
    session,
    tell,
)

pytestmark = pytest.mark.django_db


def rolled_out(judge: Judge, version: str, *names: str) -> None:  # noqa: F811
    """What the exporters' own series tell when another version of them answers."""
    for told in ("1.8.2", version):
        for name in names:
            judge.frame.versions.of_metric(name, "node", "node_exporter_build_info", {"version": told})


def test_two_nodes_that_fail_a_check_since_their_exporter_became_another_accuse_it_and_are_left_alone(
    judge: Judge,  # noqa: F811
    clock: TestClock,
) -> None:
    rolled_out(judge, "1.9.0", "n00", "n09", "n15", "stranger")
    tell(judge, *[fan(name) for name in ("n00", "n09")])
    (incident,) = alive()
    assert incident.title == (
        "2 nodes fail the check psu together since the node exporter became 1.9.0: suspect that change"
    )
    clock.tick(SETTLE + 1)
    judge.settle()
    assert disrupted() == [] and judge.frame.versions.changed() == []


def test_a_rollout_is_remembered_although_nothing_failed_when_it_was_seen(judge: Judge, clock: TestClock) -> None:  # noqa: F811
    rolled_out(judge, "1.9.0", "n00", "n09")
    assert judge.commit() and not judge.commit()
    after = Judge(judge.session, Frame())
    after.start()
    clock.tick(300)
    tell(after, *[fan(name) for name in ("n00", "n09")])
    (incident,) = alive()
    assert incident.evidence["reason"] == "detector_changed"


def test_a_rollout_that_could_not_be_written_is_written_later(
    judge: Judge,  # noqa: F811
    clock: TestClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rolled_out(judge, "1.9.0", "n00", "n09")

    def away(*args: Any, **how: Any) -> None:
        raise OperationalError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(detector_changes, "note_versions", away)
        with pytest.raises(OperationalError):
            judge.commit()
    tell(judge, *[fan(name) for name in ("n00", "n09")])
    assert [incident.node for incident in alive()] == [None]
