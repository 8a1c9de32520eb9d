"""What a real Slurm tells of its jobs and nodes, as the gangs and rooms that are made of it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection
from fleet.adapters.slurm.tokens import ends_at
from fleet.ports.errors import MissingRight, NotFound, TemporaryError
from fleet.ports.gangs import GangObject, Offer, Reading, Said
from tests.labs.metrics_servers import free_port
from tests.labs.slurm import Slurm
from tests.patience import until


def read(connection: Connection) -> Reading:
    return adapter.poll(connection).read()


def job(reading: Reading, number: int) -> GangObject:
    return next(one for one in reading.objects if one.ref.name == str(number))


def offer(reading: Reading, node: str) -> Offer:
    return next(one for one in reading.offers if one.node == node)


def test_a_job_that_runs_is_a_gang_whose_ranks_are_its_nodes(real: Slurm, connection: Connection) -> None:
    number = real.submit(3)
    until(lambda: real.jobs().get(number) == "RUNNING")
    seen = read(connection)
    assert (job(seen, number).wanted, job(seen, number).minimum, job(seen, number).queue) == (3, 3, "train")
    assert job(seen, number).started_at is not None
    mine = [member for member in seen.members if job(seen, number).ref.key in member.links]
    assert len({member.node for member in mine}) == 3 and {member.need.gpus for member in mine} == {8}
    assert sorted(one.gpus_used for one in seen.offers) == [0, 8, 8, 8]
    (queue,) = seen.queues
    assert (queue.running, queue.waiting, queue.quotas[0].used, queue.quotas[0].ceiling) == (1, 0, 24, 32)


def test_a_job_waits_for_a_drained_node_and_says_so_in_its_words(real: Slurm, connection: Connection) -> None:
    real.scontrol("update", "nodename=gpu-02", "state=drain", "reason=xid 79 HW-101")
    number = real.submit(4)
    until(lambda: job(read(connection), number).said)
    seen = read(connection)
    assert job(seen, number).started_at is None and not any(m.node for m in seen.members)
    assert offer(seen, "gpu-02").out == "DRAIN+IDLE: xid 79 HW-101" and not offer(seen, "gpu-01").out
    told: Said | None = until(
        lambda: next((s for s in job(read(connection), number).said if s.code == "NODE_UNHEALTHY"), None)
    )
    assert told and ("DRAINED" in told.text or "gpu-02" in told.text)  # whichever of its two schedulers looked last


def test_who_waits_behind_is_told_the_job_that_is_really_stuck(real: Slurm, connection: Connection) -> None:
    """One node is drained and one is busy, so A lacks one of three; B would fit now and end too late for A."""
    real.scontrol("update", "nodename=gpu-02", "state=drain", "reason=xid 79 HW-101")
    real.submit(1, "--time=30", "--nodelist=gpu-01", name="x")
    until(lambda: real.state("gpu-01") == "MIXED")
    stuck, behind = real.submit(3, name="a"), real.submit(1, name="b")
    until(lambda: all(one.said for one in read(connection).objects if one.started_at is None))
    until(lambda: job(read(connection), behind).said[0].source.endswith("Priority"))
    seen = read(connection)
    assert job(seen, behind).ahead == job(seen, stuck).ref.key
    assert [job(seen, number).position for number in (stuck, behind)] == [0, 1]
    assert job(seen, stuck).said[0].code in ("CAPACITY", "NODE_UNHEALTHY")


def test_a_requeued_job_waits_anew(real: Slurm, connection: Connection) -> None:
    number = real.submit(2)
    until(lambda: real.jobs().get(number) == "RUNNING")
    before = job(read(connection), number).waits_since
    real.scontrol("requeue", str(number))
    until(lambda: real.jobs().get(number) == "PENDING")
    seen = job(read(connection), number)
    assert seen.started_at is None and seen.waits_since is not None and before is not None
    assert seen.waits_since > before and seen.said[0].code == "ADMISSION_CHECK"  # BeginTime
    until(lambda: real.jobs().get(number) == "RUNNING")


def test_a_held_job_blocks_nobody(real: Slurm, connection: Connection) -> None:
    held = real.submit(4, "--hold")
    number = real.submit(4)
    until(lambda: real.jobs().get(number) == "RUNNING")
    assert job(read(connection), held).suspended


def test_a_refused_token_is_told_and_never_shown(real: Slurm, connection: Connection) -> None:
    """This version says of it what it says of a slurmctld that is away; so do we."""
    with pytest.raises(TemporaryError, match="refuses the token of root") as caught:
        read(replace(connection, token=lambda: "eyJhbGciOiJIUzI1NiJ9.e30.secretsecret"))
    assert "secretsecret" not in str(caught.value)


def test_a_token_that_has_ended_is_a_missing_right(real: Slurm, connection: Connection) -> None:
    short = real.token(seconds=1)
    until(lambda: time.time() > (ends_at(short) or 0))
    with pytest.raises(MissingRight, match="it ended at"):
        read(replace(connection, token=lambda: short))


def test_an_unknown_node_is_not_found(real: Slurm, connection: Connection) -> None:
    with pytest.raises(NotFound):
        adapter.poll(connection).rest.get("node/nobody")


def test_nobody_at_the_address_is_temporary(connection: Connection) -> None:
    with pytest.raises(TemporaryError):
        read(replace(connection, url=f"http://127.0.0.1:{free_port()}"))
