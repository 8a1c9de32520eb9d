"""Many nodes, one cause: one shared incident, and nothing planned for any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet.health import detector_changes
from fleet.health.correlation_shared import Shape
from fleet.health.models import Incident, IncidentMember, Signal
from fleet.health.rules.types import Edge
from fleet.inventory import lease
from fleet.inventory import services as inventory
from fleet.inventory.models import Cluster, Mode, Node
from fleet.lifecycle.models import Workflow
from fleet.observer import judge as judging
from fleet.observer.judge import Judge
from fleet.observer.session import Session
from fleet.telemetry.frame import Frame
from fleet.telemetry.kernellog import KernelLine
from tests.builders import T0, TestClock, a_cluster, a_node
from tests.domain.health.edges import an_edge
from tests.domain.inventory.seen import LABELS, a_node_seen
from tests.domain.observer.conftest import know

pytestmark = pytest.mark.django_db
SETTLE = 25


@pytest.fixture
def cluster() -> Cluster:
    cluster = a_cluster(mode=Mode.AUTOMATE)
    for i in range(20):
        a_node(
            cluster,
            f"n{i:02}",
            leaf=f"leaf-{i // 8}",
            rack=f"r{i // 8}",
            nvlink_domain=f"nvl-{i // 4}",
            gpu_expected=None,
        )
    return cluster


@pytest.fixture
def session(cluster: Cluster, clock: TestClock, tmp_path: Path) -> Session:
    epoch = lease.take(cluster.pk, "here", T0)
    assert epoch is not None
    session = Session(cluster, epoch, clock, tmp_path, 15.0)
    session.connected_at = cluster.connected_at
    know(session)
    return session


@pytest.fixture
def judge(session: Session) -> Judge:
    judge = Judge(session, Frame())
    judge.company.shape = lambda: Shape(300, {"nfs-01": 20})  # type: ignore[method-assign]
    judge.start()
    return judge


def tell(judge: Judge, *edges: Edge) -> None:
    now = judge.session.clock.now()
    judge._queue += [replace(edge, detected_at=now, first_bad_at=min(edge.first_bad_at, now)) for edge in edges]
    while judge.commit():
        pass


def port_down(node: str, kind: str = "opened") -> Edge:
    return an_edge(
        node, kind=kind, rule_id="ib-down", cause="ib-down", device="mlx5_0/1", code="", source="node_exporter",
        action_class="inspect", title="Port %(device)s is down", args={"device": "mlx5_0/1"}, latched=False,
        evidence={},
    )  # fmt: skip


def hung(node: str) -> Edge:
    return replace(
        port_down(node), rule_id="mount-hung", cause="mount-hung", device="mount:/d", action_class="reboot_node",
        evidence={"server": "nfs-01"},
    )  # fmt: skip


def alive() -> list[Incident]:
    return list(Incident.objects.filter(state="open"))


def disrupted() -> list[Workflow]:
    return list(Workflow.objects.exclude(state="cancelled"))


@pytest.mark.parametrize("portion", [1, 3, judging.BATCH])
def test_a_leaf_that_dies_is_one_incident_with_its_nodes_and_no_plan(
    judge: Judge, clock: TestClock, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    """However many of its edges one transaction writes."""
    monkeypatch.setattr(judging, "BATCH", portion)
    tell(judge, *(port_down(f"n{i:02}") for i in range(8)))
    (incident,) = alive()
    assert (incident.scope, incident.place, incident.node) == ("leaf", "leaf-0", None)
    assert incident.members.count() == 8 and "8 nodes" in incident.title
    clock.tick(120)
    judge.settle()
    assert disrupted() == [] and alive() == [incident]


def test_those_that_came_first_become_part_of_it_and_their_plans_are_withdrawn(judge: Judge, clock: TestClock) -> None:
    for i in range(2):
        tell(judge, port_down(f"n{i:02}"))
    assert len(alive()) == 2
    clock.tick(SETTLE + 1)
    judge.settle()
    assert [w.blocked_code for w in disrupted()] == ["asking", "asking"]
    tell(judge, port_down("n02"))
    (incident,) = alive()
    assert incident.members.count() == 3
    assert {own.part_of_id for own in Incident.objects.exclude(pk=incident.pk)} == {incident.pk}
    assert disrupted() == []
    tell(judge, port_down("n03"))
    incident.refresh_from_db()
    assert alive() == [incident] and "4 nodes" in incident.title


def test_one_port_alone_settles_and_is_then_planned(judge: Judge, clock: TestClock) -> None:
    tell(judge, port_down("n00"))
    judge.settle()
    assert disrupted() == []
    clock.tick(SETTLE + 1)
    judge.settle()
    assert [w.playbook for w in disrupted()] == ["repair"]


def test_what_cleared_while_it_settled_is_not_planned(judge: Judge, clock: TestClock) -> None:
    tell(judge, port_down("n00"))
    clock.tick(5)
    tell(judge, port_down("n00", kind="cleared"))
    clock.tick(SETTLE)
    judge.settle()
    assert alive() == [] and disrupted() == []


def test_a_dead_mount_server_is_one_incident_and_no_drain(judge: Judge, clock: TestClock) -> None:
    for i in range(20):
        tell(judge, hung(f"n{i:02}"))
        clock.tick(0.5)
    clock.tick(SETTLE)
    judge.settle()
    (incident,) = alive()
    assert (incident.scope, incident.place) == ("mount_server", "nfs-01")
    assert IncidentMember.objects.count() == 20 and disrupted() == []


def test_timeouts_and_hung_mounts_of_one_server_are_the_same_incident(judge: Judge, clock: TestClock) -> None:
    timeouts = {"rule_id": "nfs-timeouts", "cause": "nfs-timeouts", "device": "export:nfs-01:/export/d", "evidence": {}}
    tell(judge, *(replace(hung(f"n{i:02}"), action_class="ticket", **timeouts) for i in range(12)))
    clock.tick(50)
    tell(judge, *(hung(f"n{i:02}") for i in range(12)))
    (incident,) = alive()
    assert (incident.scope, incident.place) == ("mount_server", "nfs-01") and disrupted() == []


def test_a_shared_incident_ends_when_all_its_signals_cleared(judge: Judge, clock: TestClock) -> None:
    tell(judge, *(port_down(f"n{i:02}") for i in range(8)))
    tell(judge, *(port_down(f"n{i:02}", kind="cleared") for i in range(8)))
    judge.settle()
    assert alive() == [] and disrupted() == []


def test_what_is_left_of_a_shared_fault_is_its_nodes_own(judge: Judge, clock: TestClock) -> None:
    tell(judge, *(port_down(f"n{i:02}") for i in range(8)))
    clock.tick(60)
    tell(judge, *(port_down(f"n{i:02}", kind="cleared") for i in range(7)))
    judge.settle()
    assert [i.scope for i in alive()] == ["leaf"]
    clock.tick(61)
    judge.settle()
    (own,) = alive()
    assert own.node is not None and own.node.name == "n07"
    assert [w.node_id for w in disrupted()] == [own.node_id]


def test_told_again_after_a_restart_it_is_still_the_shared_one(judge: Judge, clock: TestClock) -> None:
    edges = [port_down(f"n{i:02}") for i in range(8)]
    tell(judge, *edges)
    tell(judge, *edges)
    assert len(alive()) == 1 and Incident.objects.count() == 1


def xid(node: str, code: int, clock: TestClock, gpu: int = 0) -> tuple[str, KernelLine]:
    text = f"NVRM: Xid (PCI:0000:{0x1B + gpu:02x}:00): {code}, pid=4711, name=python, Ch 00000008"
    return node, KernelLine(node, clock.now(), text)


def hear(judge: Judge, lines: Sequence[tuple[str, KernelLine]]) -> None:
    judge.read_facts()
    judge.hear(lines)
    while judge.commit():
        pass


def test_a_storm_of_application_xids_plans_nothing(judge: Judge, clock: TestClock) -> None:
    for second in range(30):
        lines = [xid(f"n{i:02}", code, clock, gpu) for i in range(6) for gpu in (0, 5) for code in (31, 43, 45, 94)]
        hear(judge, lines[second % 4 :: 4])
        clock.tick(1)
    judge.settle()
    assert len(alive()) <= 1 and disrupted() == []


def test_gpus_that_fall_off_the_bus_on_many_nodes_stay_their_own(judge: Judge, clock: TestClock) -> None:
    hear(judge, [xid(f"n{i:02}", 79, clock) for i in range(12)])
    assert len(alive()) == len(disrupted()) == 12


def test_an_nvlink_domain_blames_the_node_with_a_fault_of_its_own(judge: Judge, clock: TestClock) -> None:
    hear(
        judge, [xid("n00", 79, clock), *(xid(f"n{i:02}", 74, clock, gpu=2) for i in range(1, 4)), xid("n00", 74, clock)]
    )
    domain = next(i for i in alive() if i.scope == "nvlink_domain")
    assert domain.place == "nvl-0" and domain.evidence["blamed"]["node"] == "n00"
    assert [w.node.name for w in disrupted()] == ["n00"]


def test_a_node_that_says_only_what_is_wrong_with_itself_is_blamed_too(judge: Judge, clock: TestClock) -> None:
    hear(judge, [xid("n00", 79, clock)])
    clock.tick(2)
    hear(judge, [xid("n00", 74, clock), *(xid(f"n{i:02}", 74, clock, gpu=2) for i in range(1, 4))])
    domain = next(i for i in alive() if i.scope == "nvlink_domain")
    assert domain.evidence["blamed"] == {"node": "n00", "cause": "xid-79"} and "by n00" in domain.title
    assert [w.node.name for w in disrupted()] == ["n00"]


def silent(judge: Judge, clock: TestClock, ready: bool | None, names: Sequence[str]) -> None:
    Node.objects.filter(name__in=names).update(ready=ready, ready_since=clock.now())
    for _ in range(4):
        judge.cycle()
        while judge.commit():
            pass
        judge.settle()
        clock.tick(3)


def fan(name: str) -> Edge:
    return replace(port_down(name), rule_id="psu", cause="host-fan", device="fan-1", action_class="reboot_node")


def test_a_changed_rule_that_fails_two_nodes_disrupts_neither_and_says_what_to_look_at(
    judge: Judge, clock: TestClock
) -> None:
    detector_changes.note_rules(judge.session.cluster_id, "version: 1", ["psu"], clock.now())
    tell(judge, *[fan(name) for name in ("n00", "n09")])
    (incident,) = alive()
    assert incident.title == (
        "2 nodes fail the check psu together since its rule was changed at 03:00 UTC: suspect that change"
    )
    assert incident.evidence["reason"] == "detector_changed"
    clock.tick(1200)
    assert detector_changes.forget(clock.now()) == 1
    judge.settle()
    assert alive() == [incident] and disrupted() == [], "it stays one when the change is long ago"


def become(judge: Judge, driver: str, *names: str) -> None:
    """What the API server tells after a driver was exchanged."""
    key = "nvidia.com/cuda.driver-version.full"
    session = judge.session
    for version in ("550.90", driver):
        seen = [a_node_seen(name, labels={**LABELS, key: version}) for name in names]
        updated = inventory.sync_nodes(session.cluster, seen, None, T0, session.epoch).updated
    assert {what for _, what in updated} == {f"the GPU driver became {driver}"}
    detector_changes.note_versions(session.cluster_id, updated, session.clock.now())


def test_two_nodes_that_fail_a_check_since_their_driver_became_another_accuse_the_driver_and_are_left_alone(
    judge: Judge, clock: TestClock
) -> None:
    become(judge, "570.86", "n00", "n09", "n15")
    clock.tick(300)
    tell(judge, *[fan(name) for name in ("n00", "n09")])
    (incident,) = alive()
    assert incident.title == (
        "2 nodes fail the check psu together since the GPU driver became 570.86: suspect that change"
    )
    clock.tick(SETTLE + 1)
    judge.settle()
    assert disrupted() == []


@pytest.mark.parametrize("names", [("n00", "n01", "n02", "n03"), ("n01", "n02")])
def test_nodes_that_fail_without_the_change_accuse_nobody(judge: Judge, clock: TestClock, names: Sequence[str]) -> None:
    become(judge, "570.86", "n00", "n09")
    tell(judge, *[fan(name) for name in names])
    assert [incident.node_id is None for incident in alive()] == [False] * len(names)


def test_a_restarted_observer_suspects_what_its_predecessor_would_have_suspected(
    judge: Judge, clock: TestClock
) -> None:
    detector_changes.note_rules(judge.session.cluster_id, "version: 1", ["psu"], clock.now())
    after = Judge(judge.session, Frame())
    after.start()
    clock.tick(60)
    tell(after, *[fan(name) for name in ("n00", "n09")])
    (incident,) = alive()
    assert incident.evidence["reason"] == "detector_changed" and disrupted() == []


def test_fourteen_nodes_that_blink_are_one_incident_and_no_drain(judge: Judge, clock: TestClock) -> None:
    names = [f"n{i:02}" for i in range(14)]
    silent(judge, clock, True, names)
    silent(judge, clock, None, names)
    (incident,) = alive()
    assert (incident.scope, incident.members.count()) == ("detector", 14)
    clock.tick(60)
    silent(judge, clock, None, names)
    assert alive() == [incident], "that they are not ready any more is the same event"
    clock.tick(40)
    silent(judge, clock, True, names)
    assert alive() == [] and Workflow.objects.count() == 0 and Incident.objects.count() == 1


def test_one_silent_node_is_no_shared_cause(judge: Judge, clock: TestClock) -> None:
    silent(judge, clock, True, ["n00"])
    silent(judge, clock, None, ["n00"])
    assert Signal.objects.filter(rule="telemetry-stale").count() == 0


def test_a_flapping_port_stays_open_until_it_is_quiet(judge: Judge, clock: TestClock) -> None:
    def blink(**kind: Any) -> None:
        tell(judge, port_down("n00", **kind))
        judge.settle()
        clock.tick(10)

    for _ in range(3):
        blink()
        blink(kind="cleared")
        clock.tick(600)
    (incident,) = alive()
    assert incident.open_until is not None
    clock.tick(1800)
    judge.settle()
    assert alive() == []


def test_the_fifth_time_within_a_day_is_for_people(judge: Judge, clock: TestClock) -> None:
    for time in range(5):
        hear(judge, [xid("n00", 31, clock)])
        tell(judge, *(replace(f.edge, kind="cleared") for f in judge.engine.open_findings().values()))
        judge.engine.findings.open.clear()
        judge.engine.findings.by_node.clear()
        assert len(alive()) == (1 if time == 4 else 0)
        clock.tick(3600)
    (incident,) = alive()
    assert incident.action_class == "contact_support" and incident.detected_at - T0 >= timedelta(hours=4)
