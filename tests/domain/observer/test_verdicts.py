"""When a node is quiet, and which verdicts are worth a write."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.bus.models import Outbox
from fleet.health.models import NodeVerdict
from fleet.health.rules.types import Verdict
from fleet.inventory.models import Node
from fleet.lifecycle.models import NodeLifecycle
from fleet.observer.facts import FactsReader
from fleet.observer.session import Session
from fleet.observer.verdicts import VerdictBook
from fleet.telemetry.frame import Frame
from tests.builders import T0, TestClock

pytestmark = pytest.mark.django_db
NODE = "gpu-r01-01"


def answered(frame: Frame, clock: TestClock) -> None:
    target = frame.target(NODE, "dcgm", 15.0, clock.monotonic())
    frame.t.wall[target.index] = clock.now().timestamp()
    frame.t.mono[target.index] = clock.monotonic()


def is_quiet(frame: Frame, session: Session) -> bool:
    reader = FactsReader(frame)
    facts = reader.read(session.cluster_id, T0 - timedelta(hours=1), session.clock.now())
    assert (NODE in reader.unheard) <= facts[NODE].in_remediation
    return facts[NODE].in_remediation


def test_a_node_is_quiet_while_it_is_remediated(session: Session) -> None:
    frame = Frame()
    assert not is_quiet(frame, session)
    for state in ("held", "remediating"):
        NodeLifecycle.objects.filter(node__name=NODE).update(state=state)
    assert is_quiet(frame, session)


def test_after_a_remediation_it_is_quiet_until_its_exporters_answered(session: Session, clock: TestClock) -> None:
    frame = Frame()
    answered(frame, clock)
    NodeLifecycle.objects.filter(node__name=NODE).update(remediated_at=clock.tick(5))
    clock.tick(1)
    assert is_quiet(frame, session)
    answered(frame, clock)
    assert not is_quiet(frame, session)


def test_an_exporter_that_never_comes_back_does_not_keep_it_quiet(session: Session, clock: TestClock) -> None:
    frame = Frame()
    answered(frame, clock)
    Node.objects.filter(name=NODE).update(boot_since=clock.tick(5))
    clock.tick(44)
    assert is_quiet(frame, session)
    clock.tick(2)
    assert not is_quiet(frame, session)


@pytest.fixture
def book(session: Session) -> VerdictBook:
    book = VerdictBook(session, Frame())
    book.load()
    return book


def tell(book: VerdictBook, session: Session, verdict: Verdict) -> int:
    reader = FactsReader(Frame())
    facts = reader.read(session.cluster_id, T0 - timedelta(hours=1), session.clock.now())
    return book.update({NODE: verdict}, facts, reader.ids)


def test_only_a_changed_verdict_is_written_and_told(book: VerdictBook, session: Session) -> None:
    sick = Verdict("unhealthy", "GPU 3 fell off the bus.", "xid-log", T0)
    before = Outbox.objects.count()
    assert tell(book, session, sick) == 1
    assert tell(book, session, sick) == 0
    assert NodeVerdict.objects.get(node__name=NODE).verdict == "unhealthy"
    assert Outbox.objects.count() == before + 1


def test_a_reason_that_only_counts_seconds_is_not_rewritten(book: VerdictBook, session: Session) -> None:
    assert tell(book, session, Verdict("unknown", "No data from dcgm for 46 s.", "telemetry-stale", T0)) == 1
    assert tell(book, session, Verdict("unknown", "No data from dcgm for 48 s.", "telemetry-stale", T0)) == 0


def test_a_restart_keeps_since_when_a_verdict_holds(book: VerdictBook, session: Session) -> None:
    old = NodeVerdict.objects.get(node__name=NODE)
    assert tell(book, session, Verdict("healthy", "", "", T0 + timedelta(hours=2))) == 0
    assert NodeVerdict.objects.get(node__name=NODE).since == old.since


def test_the_first_word_after_a_remediation_is_written_at_once(session: Session, clock: TestClock) -> None:
    frame = Frame()
    book = VerdictBook(session, frame)
    book.load()
    healthy = Verdict("healthy", "", "", T0)
    clock.tick(2)
    answered(frame, clock)
    assert tell(book, session, healthy) == 0
    NodeLifecycle.objects.filter(node__name=NODE).update(remediated_at=clock.tick(1))
    clock.tick(1)
    answered(frame, clock)
    assert tell(book, session, healthy) == 1
    assert NodeVerdict.objects.get(node__name=NODE).telemetry_at == clock.now()


@pytest.mark.parametrize(
    ("labels", "capacity", "divided", "advertised"),
    [
        ({}, 8, False, True),
        ({"nvidia.com/mig.config": "all-disabled", "nvidia.com/gpu.sharing-strategy": "none"}, 8, False, True),
        ({"nvidia.com/mig.config": "all-1g.10gb"}, 56, True, True),
        ({"nvidia.com/gpu.sharing-strategy": "time-slicing"}, 32, True, True),
        ({"nvidia.com/gpu.sharing-strategy": "mps"}, 32, True, True),
        ({"nvidia.com/gpu.workload.config": "vm-passthrough"}, 0, True, True),
        ({"nvidia.com/gpu.deploy.device-plugin": "true"}, 8, False, True),
        ({"nvidia.com/gpu.deploy.device-plugin": "false"}, 0, False, False),
        ({"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"}, 0, False, False),
    ],
)
def test_what_kubernetes_counts_is_judged_only_where_it_counts_whole_gpus(
    session: Session, labels: dict[str, str], capacity: int, divided: bool, advertised: bool
) -> None:
    Node.objects.filter(name="gpu-r01-01").update(labels=labels, gpu_capacity=capacity, gpu_allocatable=capacity)
    facts = FactsReader(Frame()).read(session.cluster_id, T0, T0)["gpu-r01-01"]
    assert (facts.gpus_divided, facts.gpus_advertised) == (divided, advertised)
    assert facts.gpus_elsewhere == ("vm-passthrough" in labels.values())


def test_the_gang_of_a_node_is_the_workload_that_its_rules_know(session: Session) -> None:
    Node.objects.filter(name="gpu-r01-01").update(gang="train/llm-7")
    facts = FactsReader(Frame()).read(session.cluster_id, T0, T0)
    assert (facts["gpu-r01-01"].workload, facts["gpu-r01-02"].workload) == ("train/llm-7", "")
