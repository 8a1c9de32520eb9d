"""From a kernel line to a committed plan; nothing is lost to a database that is away or to a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from fleet.audit.models import AuditRow
from fleet.health.models import Incident, RuleState, Signal
from fleet.health.rules.types import Edge
from fleet.inventory.models import Node
from fleet.lifecycle.models import NodeLifecycle, Workflow
from fleet.observer import judge as judging
from fleet.observer.judge import Judge
from fleet.observer.session import Session, Stopping
from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.kernellog import KernelLine
from fleet.telemetry.series import Part
from tests.builders import TestClock

pytestmark = pytest.mark.django_db
NODE = "gpu-r01-01"


def xid(clock: TestClock, code: int = 79, age: float = 0) -> tuple[str, KernelLine]:
    text = f"NVRM: Xid (PCI:0000:1b:00): {code}, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    return NODE, KernelLine(NODE, clock.now() - timedelta(seconds=age), text)


def on(node: str, told: tuple[str, KernelLine]) -> tuple[str, KernelLine]:
    return node, replace(told[1], node_claim=node)


def restarted(session: Session) -> Judge:
    judge = Judge(session, Frame())
    judge.start()
    return judge


def test_a_fatal_line_is_an_incident_and_a_plan_in_one_commit(judge: Judge, clock: TestClock) -> None:
    judge.hear([xid(clock)])
    assert not Incident.objects.exists()
    assert judge.commit()
    assert Incident.objects.get().cause == "xid-79"
    assert Workflow.objects.get().playbook == "reboot"
    assert RuleState.objects.get(node__name=NODE).state["findings"]
    actions = set(AuditRow.objects.values_list("action", flat=True))
    assert {"incident.open", "workflow.plan"} <= actions


def test_a_line_from_before_the_connection_is_history(judge: Judge, session: Session, clock: TestClock) -> None:
    judge.hear([xid(clock, age=7200)])
    judge.commit()
    assert not Incident.objects.exists()


def test_a_line_from_before_the_last_remediation_is_history(judge: Judge, clock: TestClock) -> None:
    NodeLifecycle.objects.filter(node__name=NODE).update(remediated_at=clock.now() - timedelta(seconds=10))
    judge.read_facts()
    judge.hear([xid(clock, age=20)])
    judge.commit()
    assert not Incident.objects.exists()


def test_the_same_line_twice_is_one_incident(judge: Judge, clock: TestClock) -> None:
    judge.hear([xid(clock), xid(clock)])
    judge.commit()
    assert Incident.objects.count() == 1


def test_edges_stay_queued_while_the_database_is_away(
    judge: Judge, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> list[int]:
        raise OperationalError("server closed the connection unexpectedly")

    judge.hear([xid(clock)])
    with monkeypatch.context() as patch:
        patch.setattr("fleet.observer.judge.health.apply_edges", away)
        with pytest.raises(OperationalError):
            judge.commit()
    assert judge.waiting == 1
    assert judge.commit() and Incident.objects.count() == 1


def test_an_edge_that_no_table_takes_does_not_hold_up_the_others(
    judge: Judge, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fleet.health import services as health

    apply = health.apply_edges

    def picky(cluster_id: int, edges: Sequence[Edge], *rest: Any) -> list[int]:
        if any(edge.code == "48" for edge in edges):
            raise ValueError("cannot be stored")
        return apply(cluster_id, edges, *rest)

    monkeypatch.setattr("fleet.observer.judge.health.apply_edges", picky)
    judge.hear([xid(clock, 48), xid(clock, 79)])
    judge.commit()
    assert list(Incident.objects.values_list("cause", flat=True)) == ["xid-79"]
    assert judge.waiting == 0


def test_a_finding_that_was_not_committed_is_told_after_a_restart(
    judge: Judge, session: Session, clock: TestClock
) -> None:
    judge.hear([xid(clock)])
    judge.commit()
    Signal.objects.all().delete()
    Incident.objects.all().delete()
    again = restarted(session)
    again.commit()
    assert Incident.objects.get().cause == "xid-79"


def test_a_signal_that_the_state_lacks_is_remembered_and_cleared_by_a_boot(
    judge: Judge, session: Session, clock: TestClock
) -> None:
    judge.hear([xid(clock)])
    judge.commit()
    RuleState.objects.all().delete()
    again = restarted(session)
    clock.tick(60)
    Node.objects.filter(name=NODE).update(boot_id="boot-2", boot_since=clock.now())
    again.cycle()
    again.commit()
    assert Signal.objects.get().cleared_at is not None


def test_a_restart_tells_nothing_twice(judge: Judge, session: Session, clock: TestClock) -> None:
    judge.hear([xid(clock)])
    judge.commit()
    again = restarted(session)
    again.hear([xid(clock)])
    again.commit()
    assert Incident.objects.count() == Signal.objects.count() == 1


def test_a_quiet_incident_waits_for_the_workflow_that_works_on_it(
    judge: Judge, session: Session, clock: TestClock
) -> None:
    judge.hear([xid(clock)])
    judge.commit()
    clock.tick(30)
    Node.objects.filter(name=NODE).update(boot_id="boot-2", boot_since=clock.now())
    judge.cycle()
    judge.commit()
    assert judge.settle() == [] and Incident.objects.get().state == "open"
    Workflow.objects.all().delete()
    assert judge.settle() == [Incident.objects.get().pk]
    assert Incident.objects.get().state == "resolved"


def test_whoever_lost_the_lease_writes_nothing_and_ends(judge: Judge, session: Session, clock: TestClock) -> None:
    session.epoch -= 1
    judge.hear([xid(clock)])
    with pytest.raises(Stopping):
        session.once(judge.commit)
    assert session.stopping() and not Incident.objects.exists()


def test_a_fatal_line_saves_only_the_memory_of_its_own_node(judge: Judge) -> None:
    judge.commit()
    judge.remember({"gpu-r01-02"})
    assert not judge.commit_at_once({NODE})  # nothing was found: that memory can wait for the cycle
    assert judge.commit() and not judge.commit()


def test_a_fatal_line_waits_for_nothing_that_was_found_elsewhere(judge: Judge, clock: TestClock) -> None:
    judge.hear([on("gpu-r01-02", xid(clock, 48)), xid(clock)])
    assert judge.commit_at_once({NODE}) and not judge.commit_at_once({NODE})
    assert Incident.objects.get().node.name == NODE  # type: ignore[union-attr]
    assert list(RuleState.objects.values_list("node__name", flat=True)) == [NODE]
    assert judge.waiting == 1
    assert judge.commit() and judge.waiting == 0 and Incident.objects.count() == 2


def test_what_was_found_on_one_node_is_stored_in_its_order(judge: Judge, clock: TestClock) -> None:
    """A fault that was over before the line came must not be ended by that news afterwards."""
    judge.hear([xid(clock)])
    judge.commit()
    clock.tick(30)
    Node.objects.filter(name=NODE).update(boot_id="boot-2", boot_since=clock.now())
    judge.cycle()  # its news that the fault is over waits
    clock.tick(5)
    judge.hear([xid(clock)])
    assert judge.commit_at_once({NODE}) and judge.waiting == 0
    assert list(Signal.objects.order_by("id").values_list("cleared_at", flat=True))[1:] == [None]


def test_a_large_event_is_stored_in_portions_that_a_line_can_wait_for(
    judge: Judge, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "BATCH", 2)
    monkeypatch.setattr(judging, "OTHERS", 1)
    judge.hear([xid(clock, code) for code in (48, 79, 95, 62, 119)])
    portions = 0
    while judge.commit():
        portions += 1
    assert judge.waiting == 0 and Signal.objects.count() == 5
    assert portions >= 3


def test_memory_that_was_not_saved_is_saved_later(
    judge: Judge, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    judge.commit()
    judge.remember({"gpu-r01-02"})
    with monkeypatch.context() as patch:
        patch.setattr("fleet.observer.judge.restore.save", away)
        with pytest.raises(OperationalError):
            judge.commit()
    assert judge.commit() and not judge.commit()
    assert RuleState.objects.filter(node__name="gpu-r01-02").exists()


@pytest.mark.parametrize(("gone", "ends"), [("left-long-ago", True), (NODE, False)])
def test_what_is_kept_begins_anew_when_a_third_of_it_is_of_nodes_that_left(
    judge: Judge, session: Session, clock: TestClock, monkeypatch: pytest.MonkeyPatch, gone: str, ends: bool
) -> None:
    monkeypatch.setattr(judging, "GONE_ROWS", 4)
    for node, rows in ((NODE, 8), (gone, 4)):
        target = judge.frame.target(node, "node-exporter", 15.0)
        for number in range(rows):
            port = judge.frame.place(target, Part(f"mlx5_{number}/1", "port"))
            judge.frame.row(target, names.METRICS[names.IB_STATE], port)
    judge.cycle()
    assert not session.stopping(), "not right after a start"
    clock.tick(judging.GONE_PATIENCE)
    judge.cycle()
    assert session.stopping() is ends
    assert ("4 of 12 series" in session.why) is ends
