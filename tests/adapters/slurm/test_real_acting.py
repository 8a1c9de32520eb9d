"""Holds, drains and reboots told to a real Slurm, and what its nodes and jobs then are.

Slurm 22.05 takes no changes by REST, so these go by its command line; what newer ones are told by REST is in
`test_told_by_rest`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection, Scontrol
from fleet.inventory import owners
from fleet.ports.cluster import HOLD_ANNOTATION, SLURM_OUT, ClusterActor, ClusterReader, HoldRequest
from fleet.ports.errors import Conflict, EvictionBlocked, MissingRight, NotFound, PermanentError, PortError
from tests.labs.slurm import Slurm
from tests.patience import until

OURS = "muster-0123456789abcdef"
VALUE = "17/1c1f6a52-6f3f-4d3c-9a52-0d3a0f5f2c11"
NODE = "gpu-02"


@pytest.fixture
def reader(connection: Connection) -> ClusterReader:
    return adapter.reader(connection)


@pytest.fixture
def command(real: Slurm) -> Scontrol:
    """By token, as Muster's host would be without a munge key; a copy of the configuration says where slurmctld is."""
    return Scontrol(shutil.which("scontrol") or "", str(real.config), real.token)


@pytest.fixture
def actor(connection: Connection, command: Scontrol) -> ClusterActor:
    return adapter.actor(connection, OURS, command)


@pytest.fixture
def hold(reader: ClusterReader, actor: ClusterActor) -> Callable[..., None]:
    def take(node: str = NODE, why: str = "Xid 79 on GPU 3 HW-101") -> None:
        actor.hold(HoldRequest(node, VALUE, reader.node(node).resource_version, why=why))

    return take


def release(actor: ClusterActor, reader: ClusterReader, node: str = NODE, uncordon: bool = True) -> None:
    actor.release(node, VALUE, reader.node(node).resource_version, uncordon)


def test_a_hold_drains_with_our_name_the_operation_and_why(real: Slurm, reader: ClusterReader, hold: Callable) -> None:
    hold()
    shown = real.scontrol("show", "node", NODE)
    assert "IDLE+DRAIN" in shown
    assert f"Reason=Muster hold {VALUE} by {OURS}: Xid 79 on GPU 3 HW-101" in shown
    node = reader.node(NODE)
    assert node.unschedulable and node.ready and node.annotations == {HOLD_ANNOTATION: VALUE}
    assert owners.on_node(node) == ()
    assert not reader.node("gpu-01").unschedulable


def test_running_jobs_run_on_and_the_node_is_drained_when_they_have_ended(
    real: Slurm, reader: ClusterReader, hold: Callable
) -> None:
    job = real.submit(2, "--nodelist=gpu-01,gpu-02")
    until(lambda: real.jobs().get(job) == "RUNNING")
    hold()
    assert real.jobs()[job] == "RUNNING"
    (rank,) = reader.pods_on(NODE)
    assert (rank.gang, rank.gpus, rank.owner, rank.node) == (f"train/{job}", 8, f"SlurmJob/{job}", NODE)
    real.cancel(job)
    until(lambda: not drained_of(reader))
    assert "IDLE+DRAIN" in real.scontrol("show", "node", NODE)


def drained_of(reader: ClusterReader) -> list[str]:
    """What is left; a node that Slurm calls busy without a job is not empty."""
    try:
        return [pod.key for pod in reader.pods_on(NODE)]
    except PortError as error:
        return [str(error)]


def test_a_release_resumes_and_a_node_that_has_not_been_pinged_yet_is_no_alarm(
    real: Slurm, reader: ClusterReader, actor: ClusterActor, hold: Callable
) -> None:
    hold()
    release(actor, reader)
    node = reader.node(NODE)
    assert node.ready and not node.unschedulable and not node.annotations
    until(real.in_service)
    assert reader.node(NODE).boot_id


def test_who_drains_it_on_top_of_us_keeps_it(
    real: Slurm, reader: ClusterReader, actor: ClusterActor, hold: Callable
) -> None:
    hold()
    real.scontrol("update", f"nodename={NODE}", "state=drain", "reason=kim: new cable")
    release(actor, reader)
    node = reader.node(NODE)
    assert node.unschedulable and "Reason=kim: new cable" in real.scontrol("show", "node", NODE)
    assert [(one.name, one.doing) for one in owners.on_node(node)] == [
        ("Slurm", "keeps it from work (DRAIN by root: kim: new cable)")
    ]


def test_who_drained_it_before_us_has_it_back_with_his_reason(
    real: Slurm, reader: ClusterReader, actor: ClusterActor, hold: Callable
) -> None:
    real.scontrol("update", f"nodename={NODE}", "state=drain", "reason=kim: new cable")
    assert SLURM_OUT in reader.node(NODE).annotations
    hold()
    assert reader.node(NODE).annotations == {HOLD_ANNOTATION: VALUE}
    release(actor, reader)
    assert real.state(NODE) == "IDLE+DRAIN"
    assert "Reason=kim: new cable" in real.scontrol("show", "node", NODE)


def test_who_resumed_it_meanwhile_is_respected(
    real: Slurm, reader: ClusterReader, actor: ClusterActor, hold: Callable
) -> None:
    hold()
    real.scontrol("update", f"nodename={NODE}", "state=resume")
    node = reader.node(NODE)
    assert not node.unschedulable and HOLD_ANNOTATION not in node.annotations
    release(actor, reader)
    assert "DRAIN" not in real.state(NODE)


def test_a_hold_on_another_state_than_the_one_read_is_a_conflict(
    real: Slurm, reader: ClusterReader, actor: ClusterActor
) -> None:
    read = reader.node(NODE).resource_version
    real.scontrol("update", f"nodename={NODE}", "state=drain", "reason=kim: new cable")
    with pytest.raises(Conflict):
        actor.hold(HoldRequest(NODE, VALUE, read))
    assert "Reason=kim: new cable" in real.scontrol("show", "node", NODE)


def test_a_host_that_boots_while_it_is_held_is_proved_by_its_boot_time_and_stays_held(
    real: Slurm, reader: ClusterReader, actor: ClusterActor, hold: Callable
) -> None:
    hold()
    before = reader.node(NODE)
    real.restart(NODE)
    until(lambda: reader.node(NODE).boot_id not in ("", before.boot_id))
    after = reader.node(NODE)
    assert after.ready and after.unschedulable and after.annotations == {HOLD_ANNOTATION: VALUE}
    assert after.heartbeat_at is not None and after.heartbeat_at != before.heartbeat_at
    release(actor, reader)
    until(real.in_service)


def test_a_reboot_that_slurm_carries_out_is_proved_alike(
    real: Slurm, reader: ClusterReader, hold: Callable, actor: ClusterActor
) -> None:
    """As a person would, of a node that we hold: without ASAP, which would give it back before it was tested."""
    hold()
    before = reader.node(NODE).boot_id
    real.scontrol("reboot", NODE)
    until(lambda: reader.node(NODE).boot_id not in ("", before))
    until(lambda: real.state(NODE) == "IDLE+DRAIN")
    assert reader.node(NODE).annotations[HOLD_ANNOTATION] == VALUE


def test_a_host_that_boots_by_itself_is_not_ready_and_nobody_holds_it(real: Slurm, reader: ClusterReader) -> None:
    real.restart(NODE)
    until(lambda: real.state(NODE) == "DOWN")
    node = reader.node(NODE)
    assert node.ready is False and not node.unschedulable and owners.on_node(node) == ()


def test_an_urgent_drain_requeues_the_job_whole(
    real: Slurm, reader: ClusterReader, actor: ClusterActor, hold: Callable
) -> None:
    job = real.submit(2, "--nodelist=gpu-01,gpu-02")
    until(lambda: real.jobs().get(job) == "RUNNING")
    hold()
    (rank,) = reader.pods_on(NODE)
    actor.evict(rank)
    until(lambda: not drained_of(reader))
    until(lambda: real.jobs()[job] == "PENDING")  # on its other node it may still be ending
    assert [pod.name for pod in reader.unscheduled_pods()] == [f"{job}.0"]
    with pytest.raises(NotFound):  # it is new work now
        actor.evict(rank)


def test_a_job_that_may_not_be_requeued_is_waited_for(
    real: Slurm, reader: ClusterReader, actor: ClusterActor, hold: Callable
) -> None:
    job = real.submit(1, "--no-requeue", f"--nodelist={NODE}")
    until(lambda: real.jobs().get(job) == "RUNNING")
    hold()
    (rank,) = reader.pods_on(NODE)
    with pytest.raises(EvictionBlocked) as caught:
        actor.evict(rank)
    assert caught.value.budget == f"no-requeue of job {job}" and real.jobs()[job] == "RUNNING"
    actor.delete(rank)  # two people agreed
    until(lambda: job not in real.jobs())


def test_an_interactive_job_is_waited_for_and_a_heterogeneous_one_goes_whole(
    real: Slurm, reader: ClusterReader, actor: ClusterActor
) -> None:
    real.run("salloc", "--no-shell", "--nodes=1", "--nodelist=gpu-03")
    (rank,) = reader.pods_on("gpu-03")
    with pytest.raises(EvictionBlocked):
        actor.evict(rank)
    parts = ("--nodelist=gpu-01", "--requeue", "--output=/dev/null", ":", "--nodelist=gpu-04")
    first = int(real.run("sbatch", "--parsable", "--nodes=1", *parts, "--wrap=exec sleep 600"))
    until(lambda: real.jobs().get(first + 1) == "RUNNING")
    (rank,) = reader.pods_on("gpu-04")
    actor.evict(rank)
    until(lambda: {real.jobs()[first], real.jobs()[first + 1]} == {"PENDING"})
    real.run("scancel", str(first))
    until(lambda: not {first, first + 1} & set(real.jobs()))


def test_no_name_reaches_further_than_one_node(real: Slurm, actor: ClusterActor) -> None:
    for name in ("gpu-[01-04]", "gpu-01,gpu-02", "ALL gpu-01", ""):
        with pytest.raises(PortError):
            actor.hold(HoldRequest(name, VALUE, ""))
    assert real.in_service()


def test_an_unknown_node_is_not_found(actor: ClusterActor, reader: ClusterReader) -> None:
    for ask in (lambda: reader.node("gpu-99"), lambda: actor.hold(HoldRequest("gpu-99", VALUE, ""))):
        with pytest.raises(NotFound):
            ask()


def test_a_user_who_is_no_operator_is_a_missing_right(
    real: Slurm, connection: Connection, command: Scontrol, reader: ClusterReader
) -> None:
    nobody = lambda: real.token("nobody")  # noqa: E731
    weak = adapter.actor(replace(connection, user="nobody", token=nobody), OURS, replace(command, token=nobody))
    with pytest.raises(MissingRight):
        weak.hold(HoldRequest(NODE, VALUE, reader.node(NODE).resource_version))
    assert real.in_service()


def test_without_a_command_line_this_version_cannot_be_told_and_says_so(
    connection: Connection, reader: ClusterReader, real: Slurm
) -> None:
    silent = adapter.actor(connection, OURS)
    assert "--scontrol" in silent.check()[0]
    with pytest.raises(PermanentError, match="no scontrol is named"):
        silent.hold(HoldRequest(NODE, VALUE, reader.node(NODE).resource_version))


def test_holds_of_another_installation_keep_us_from_acting(
    actor: ClusterActor, connection: Connection, command: Scontrol, hold: Callable
) -> None:
    twin = adapter.actor(connection, "muster-fedcba9876543210", command)
    assert actor.claim_lease(OURS, 60) and actor.check() == [] and twin.check() == []
    hold()
    assert actor.claim_lease(OURS, 60) and not twin.claim_lease("muster-fedcba9876543210", 60)


def test_what_changes_is_told_like_the_events_of_a_watch(real: Slurm, reader: ClusterReader, hold: Callable) -> None:
    states: list[bool] = []
    stream = reader.watch_nodes(lambda: False, lambda state: states.append(state.connected))
    first = [next(stream) for _ in range(5)]
    assert [change.kind for change in first] == ["added"] * 4 + ["synced"]
    assert first[-1].names == frozenset(real.names) and states == [True]
    hold()
    change = next(stream)
    assert change.kind == "modified" and change.item is not None
    assert getattr(change.item, "name", "") == NODE and getattr(change.item, "unschedulable", False)
