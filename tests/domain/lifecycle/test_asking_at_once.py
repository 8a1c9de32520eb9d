"""Many ask at the same moment: one worker answers, and no other worker's thread stands still for that."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, transaction

from fleet.lifecycle import grants
from fleet.lifecycle.models import Workflow
from fleet.policy import services as policy
from tests.builders import T0, TestClock, a_cluster, a_node, an_incident
from tests.patience import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


def _asked(cluster_id: int, answers: list[int], **how: Any) -> None:
    try:
        answers.append(grants.run(cluster_id, TestClock(), **how))
    finally:
        connection.close()


def test_who_asks_while_others_are_answered_does_not_wait_and_is_answered_by_the_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grants, "send", lambda task, **kwargs: None)
    monkeypatch.setattr(grants.Guards, "ask", lambda guards, asker: grants.ALLOWED)
    cluster = a_cluster()
    node = a_node(cluster, "gpu-1")
    workflow = Workflow.objects.create(
        cluster=cluster, node=node, incident=an_incident(node), playbook="reboot", plan=[{"verb": "drain"}],
        state="blocked", blocked_code=grants.ASKING, created_at=T0,
    )  # fmt: skip
    answers: list[int] = []
    asking = threading.Thread(target=_asked, args=(cluster.pk, answers), kwargs={"asked": True})
    tick = threading.Thread(target=_asked, args=(cluster.pk, answers))
    with transaction.atomic():
        policy.lock_fleet()
        asking.start()
        asking.join(PATIENCE)
        assert answers == [0] and Workflow.objects.get(pk=workflow.pk).blocked_code == grants.ASKING
        tick.start()
        tick.join(0.2)
        assert tick.is_alive(), "the tick answers beside somebody who has the lock"
    tick.join(PATIENCE)
    assert answers == [0, 1] and Workflow.objects.get(pk=workflow.pk).state == "running"


def test_who_asks_while_others_are_answered_is_answered_by_whoever_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second asks when the first has been read already; it finds the lock taken, and no tick is needed."""
    monkeypatch.setattr(grants, "send", lambda task, **kwargs: None)
    monkeypatch.setattr(grants.Guards, "ask", lambda guards, asker: grants.ALLOWED)
    cluster = a_cluster()
    rows = [
        Workflow(
            cluster=cluster, node=node, incident=an_incident(node), playbook="reboot", plan=[{"verb": "drain"}],
            state="blocked", blocked_code=grants.ASKING, created_at=T0,
        )
        for node in (a_node(cluster, "gpu-1"), a_node(cluster, "gpu-2"))
    ]  # fmt: skip
    rows[0].save()
    with transaction.atomic():
        policy.lock_fleet()  # makes the lock's row, once for an installation
    real = grants._answer
    found: list[int] = []

    def answer(*args: Any) -> list[Workflow]:
        granted = real(*args)
        if rows[1].pk is None:
            second = threading.Thread(target=_late, args=(cluster.pk, rows[1], found))
            second.start()
            second.join(60)
        return granted

    monkeypatch.setattr(grants, "_answer", answer)
    assert grants.run(cluster.pk, TestClock(), asked=True) == 2 and found == [0]
    assert set(Workflow.objects.values_list("state", flat=True)) == {"running"}


def _late(cluster_id: int, row: Workflow, found: list[int]) -> None:
    try:
        row.save(force_insert=True)
        found.append(grants.run(cluster_id, TestClock(), asked=True))
    finally:
        connection.close()
