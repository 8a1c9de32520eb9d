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
        asking.join(10)
        assert answers == [0] and Workflow.objects.get(pk=workflow.pk).blocked_code == grants.ASKING
        tick.start()
        tick.join(0.2)
        assert tick.is_alive(), "the tick answers beside somebody who has the lock"
    tick.join(10)
    assert answers == [0, 1] and Workflow.objects.get(pk=workflow.pk).state == "running"
