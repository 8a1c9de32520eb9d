"""Why a job of a real Slurm waits, which node would start it, and whether Slurm then agrees."""

from __future__ import annotations

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection
from fleet.gangs import board
from fleet.gangs.board import Board
from fleet.gangs.diagnosis.whatif import draining, returning
from fleet.gangs.roster import Roster
from fleet.observer.gangrooms import RoomBook
from fleet.ports.gangs import key_of
from tests.labs.slurm import Slurm
from tests.patience import until

DRAINED = "gpu-02"


def looked_at(connection: Connection) -> Board:
    """As the observer does: nodes from the reader, jobs from the poll."""
    roster = Roster()
    roster.reading(adapter.poll(connection).read(), "slurm")
    nodes = {node.name: node for node in adapter.reader(connection).nodes()}
    return board.read(roster.gangs(), roster.queues(), RoomBook().rooms(nodes, roster, {}))


def key(job: int) -> str:
    return key_of("slurm", "Job", "train", str(job))


def starts_by(seen: Board, *nodes: str) -> tuple[str, ...]:
    return returning(seen.starter, seen.space, seen.turns, nodes).starts


def test_a_drained_node_is_named_its_return_foretold_and_slurm_starts_the_job(
    real: Slurm, connection: Connection
) -> None:
    real.scontrol("update", f"nodename={DRAINED}", "state=drain", "reason=xid 79 HW-101")
    whole = real.submit(4)
    until(lambda: looked_at(connection).reasons[key(whole)].code == "NODE_UNHEALTHY")
    seen = looked_at(connection)
    assert [blocker.node for blocker in seen.reasons[key(whole)].blockers] == [DRAINED]
    assert starts_by(seen, "gpu-01") == () and starts_by(seen, DRAINED) == (key(whole),)
    real.scontrol("update", f"nodename={DRAINED}", "state=resume")
    until(lambda: real.jobs().get(whole) == "RUNNING")
    assert looked_at(connection).gangs[key(whole)].nodes == tuple(real.names)


def test_who_waits_behind_is_told_the_one_in_front_and_the_node_that_frees_both(
    real: Slurm, connection: Connection
) -> None:
    """One node is drained, one busy: A lacks one of three, and B, of which Slurm says "Priority", waits behind A."""
    real.scontrol("update", f"nodename={DRAINED}", "state=drain", "reason=xid 79 HW-101")
    real.submit(1, "--time=30", "--nodelist=gpu-01", name="x")
    until(lambda: real.state("gpu-01") == "MIXED")
    a, b = real.submit(3, name="a"), real.submit(1, name="b")
    until(lambda: looked_at(connection).reasons[key(b)].raw == "Priority")
    seen = looked_at(connection)
    reason = seen.reasons[key(b)]
    assert (reason.code, list(reason.ahead)) == ("PRIORITY_BEHIND", [key(a)])
    assert seen.reasons[key(a)].code == "NODE_UNHEALTHY"
    assert [blocker.node for blocker in seen.reasons[key(a)].blockers] == [DRAINED]
    assert starts_by(seen, DRAINED)[0] == key(a)
    real.scontrol("update", f"nodename={DRAINED}", "state=resume")
    until(lambda: real.jobs().get(a) == "RUNNING")


def test_a_drain_names_the_job_that_it_would_break(real: Slurm, connection: Connection) -> None:
    job, bound = real.submit(2), real.submit(1, "--nodelist=gpu-04")
    until(lambda: set(real.jobs().values()) == {"RUNNING"})
    seen = looked_at(connection)
    lost = lambda node: draining(seen.starter, seen.space, seen.turns, seen.gangs.values(), [node]).broken  # noqa: E731
    (broken,) = lost(seen.gangs[key(job)].nodes[0])
    assert (broken.key, broken.loses, broken.breaks, broken.again) == (key(job), 1, True, True)  # one node is free
    (broken,) = lost("gpu-04")
    assert (broken.key, broken.again) == (key(bound), False)  # it wants that node and no other


def test_slurm_s_own_foresight_agrees(real: Slurm, connection: Connection) -> None:
    """`sbatch --test-only` says when a job would start and starts none: now, where we say that it would fit."""
    real.scontrol("update", f"nodename={DRAINED}", "state=drain", "reason=xid 79 HW-101")
    busy = real.submit(1, "--nodelist=gpu-01", "--time=30")
    until(lambda: real.jobs().get(busy) == "RUNNING")
    assert [real.starts_now(nodes, "--time=30") for nodes in (1, 2, 3)] == [True, True, False]
    three = real.submit(3, "--time=30")
    until(lambda: looked_at(connection).reasons.get(key(three)))
    seen = looked_at(connection)
    assert seen.reasons[key(three)].slots == 2 and starts_by(seen, DRAINED) == (key(three),)
    real.cancel(three)
    real.scontrol("update", f"nodename={DRAINED}", "state=resume")
    until(real.in_service)
    assert real.starts_now(3, "--time=30") and not real.starts_now(4, "--time=30")
