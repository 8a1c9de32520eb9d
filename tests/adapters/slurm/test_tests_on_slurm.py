"""Tests of a held node as jobs of Slurm: no user's job finds the node, nothing is run twice, and nothing is left.

What hangs on Slurm holds on a real one and on the fake, which another file breaks at every line. A crash is a client
that remembers nothing.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pytest

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection, Scontrol, Space
from fleet.inventory import owners
from fleet.ports.cluster import HOLD_ANNOTATION, JOB_DEADLINE, ClusterActor, HoldRequest, JobRequest, JobSeen, NodeSeen
from fleet.ports.errors import PermanentError, TemporaryError
from tests.adapters.slurm.fake_rest import running
from tests.adapters.slurm.fake_site import US, FakeSite
from tests.labs.slurm import Slurm
from tests.patience import until

OURS, VALUE, NODE = "muster-0123456789abcdef", "17/1c1f6a52-6f3f-4d3c-9a52-0d3a0f5f2c11", "gpu-02"
WHY = "Xid 79 on GPU 3"
REASON = f"Muster hold {VALUE} by {OURS}: {WHY}"


class Site(Protocol):
    """What a test asks of the real and of the fake Slurm."""

    def jobs(self) -> dict[int, str]: ...
    def reservations(self) -> list[str]: ...
    def state(self, node: str) -> str: ...
    def reason(self, node: str) -> str: ...
    def people_submit(self, node: str) -> int: ...
    def reserve(self, name: str, node: str, user: str) -> None: ...
    def unreserve(self, name: str) -> None: ...


@dataclass
class Hall:
    """A Slurm with one node held by us. `fresh` is a client that remembers nothing; `test` a name of its own, for Slurm
    remembers those of before."""

    site: Site
    connection: Connection
    command: Scontrol | None
    output: Path
    every: float = 0.0  # between two looks: a real slurmctld that is asked all the time does not schedule
    test: str = field(default_factory=lambda: f"muster-validate-{secrets.token_hex(4)}-1-dcgm")

    def begins(self, command: str = "echo fine", client: ClusterActor | None = None) -> None:
        asked = JobRequest(self.test, "default", NODE, "", ("sh", "-c", command), 60, gpus=8)
        (client or self.fresh()).create_job(asked)

    def looks(self) -> JobSeen:
        return self.fresh().job("default", self.test)

    def fresh(self, output: str | None = None) -> ClusterActor:
        return adapter.actor(self.connection, OURS, self.command, Space(str(self.output) if output is None else output))

    def node(self) -> NodeSeen:
        return adapter.reader(self.connection).node(NODE)

    def ends(self, phase: str = "succeeded") -> JobSeen:
        """Looked at by one client, until it is over; at each look the node is held, and nobody else's."""
        actor, seen = self.fresh(), [JobSeen("pending")]

        def over() -> bool:
            node = self.node()
            assert node.annotations == {HOLD_ANNOTATION: VALUE} and node.unschedulable, node
            assert owners.on_node(node) == ()
            seen.append(actor.job("default", self.test))
            return seen[-1].phase in ("succeeded", "failed")

        until(over, every=self.every)
        assert seen[-1].phase == phase, seen[-1]
        return seen[-1]

    def releases(self) -> None:
        """From now on the node is everybody's."""

        def released() -> bool:
            if isinstance(self.site, FakeSite):
                self.site.kept = ""
            try:
                return not self.fresh().release(NODE, VALUE, self.node().resource_version, True).annotations
            except TemporaryError:
                return False

        until(released, every=self.every)

    def log(self) -> str | None:
        return self.fresh().job_log("default", self.test)

    def clears_once(self) -> None:
        self.fresh().clear_tests(NODE)

    def clears(self) -> None:
        """A job may still be ending."""

        def cleared() -> bool:
            try:
                self.clears_once()
            except TemporaryError:
                return False
            return True

        until(cleared, every=self.every)


fake_alone = pytest.mark.parametrize("hall", ["fake"], indirect=True)
"""Where only our own answer counts, not what Slurm does."""


@pytest.fixture(params=["fake", "real"])
def hall(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hall]:
    if request.param == "fake":
        with running(FakeSite()) as fake:
            found = Hall(fake, Connection(fake.url, US, lambda: "a.b.c"), None, tmp_path)
            found.fresh().hold(HoldRequest(NODE, VALUE, "", why=WHY))
            fake.kept = NODE
            yield found
            assert fake.broken == []
        return
    real: Slurm = request.getfixturevalue("real")
    folder = real.folder / "tests"
    folder.mkdir(exist_ok=True)
    command = Scontrol(shutil.which("scontrol") or "", str(real.config), real.token)
    found = Hall(real, request.getfixturevalue("connection"), command, folder, every=0.2)
    found.fresh().hold(HoldRequest(NODE, VALUE, "", why=WHY))
    yield found
    real.cancel()
    for name in real.reservations():
        real.unreserve(name)
    shutil.rmtree(folder)


def test_a_held_node_is_tested_once_and_nobody_else_gets_it(hall: Hall) -> None:
    """The job of a user waits for that very node all the while, and each line is asked for by one who knows nothing."""
    wanted = hall.site.people_submit(NODE)
    for _ in range(2):
        hall.begins("echo for us; env | grep -c SLURM_JWT")
    assert len(hall.site.jobs()) == 2 and len(hall.site.reservations()) == 1
    hall.looks()
    assert "DRAIN" not in hall.site.state(NODE) and hall.node().annotations == {HOLD_ANNOTATION: VALUE}
    hall.begins("echo again")
    said = hall.ends("failed")
    assert said.text == "Slurm: FAILED, exit code 1.", "the second command has found no token"
    hall.begins("echo again")
    assert hall.log() == "for us\n0\n"
    assert "DRAIN" in hall.site.state(NODE) and hall.site.reason(NODE) == REASON
    hall.clears()
    hall.clears()
    assert hall.site.reservations() == [] and hall.site.jobs() == {wanted: "PENDING"}
    hall.releases()
    until(lambda: hall.site.jobs().get(wanted) == "RUNNING", every=hall.every)


@fake_alone
def test_a_test_that_is_not_wanted_any_more_leaves_nothing(hall: Hall) -> None:
    hall.begins("sleep 50")
    until(lambda: hall.looks().phase == "running", every=hall.every)
    assert "DRAIN" in hall.site.state(NODE), "as soon as it runs, the drain is back"
    hall.fresh().delete_job("default", hall.test)
    hall.clears()
    until(lambda: not hall.site.jobs())
    assert hall.site.reservations() == [] and hall.site.reason(NODE).startswith(REASON)


def test_a_release_leaves_no_test_and_no_reservation_behind(hall: Hall) -> None:
    """Whatever happened in between: here its workflow ended without a word while the test ran."""
    hall.begins("sleep 50")
    until(lambda: hall.looks().phase == "running", every=hall.every)
    assert "DRAIN" in hall.site.state(NODE), "as soon as it runs, the drain is back"
    hall.releases()
    assert hall.site.reservations() == [] and "DRAIN" not in hall.site.state(NODE)
    until(lambda: not hall.site.jobs())


@fake_alone
def test_beside_another_maintenance_no_drain_is_lifted(hall: Hall) -> None:
    """Its users' jobs may run on the node although ours stands."""
    hall.site.reserve("dimm", NODE, "nobody")
    with pytest.raises(PermanentError, match="in the maintenance dimm") as caught:
        hall.begins()
    assert caught.value.code == "slurm_reserved" and hall.site.reservations() == ["dimm"]
    hall.site.unreserve("dimm")
    hall.begins()
    hall.site.reserve("dimm", NODE, "nobody")
    with pytest.raises(PermanentError, match="in the maintenance dimm"):
        hall.looks()
    assert "DRAIN" in hall.site.state(NODE)
    hall.clears()
    assert hall.site.reservations() == ["dimm"] and hall.site.jobs() == {}


@fake_alone
def test_who_drained_the_node_before_us_finds_his_reason_again(hall: Hall) -> None:
    """Also where Slurm drops a reason with the drain: the job bears it meanwhile."""
    assert isinstance(hall.site, FakeSite)
    hall.site.node(NODE)["reason"] += " | before: kim: new cable"
    hall.begins()
    hall.ends()
    assert hall.site.reason(NODE) == f"{REASON} | before: kim: new cable"
    hall.begins("echo other", hall.fresh())
    hall.clears()
    hall.fresh().release(NODE, VALUE, "", True)
    assert hall.site.reason(NODE) == "kim: new cable" and "DRAIN" in hall.site.state(NODE)


@fake_alone
@pytest.mark.parametrize("folder", ["", "/nowhere/at/all"])
def test_without_a_folder_for_what_tests_print_none_begins(hall: Hall, folder: str) -> None:
    with pytest.raises(PermanentError, match="MUSTER_SLURM_TEST_OUTPUT") as caught:
        hall.begins(client=hall.fresh(output=folder))
    assert caught.value.code == "slurm_no_tests" and hall.site.reservations() == []


@fake_alone
def test_where_slurm_is_away_every_line_says_so(hall: Hall) -> None:
    hall.begins()
    hall.connection = replace(hall.connection, url="http://127.0.0.1:9")
    away: list[Callable[[], object]] = [hall.begins, hall.looks, hall.clears_once]
    away.append(lambda: hall.fresh().delete_job("default", hall.test))
    for line in away:
        with pytest.raises(TemporaryError, match="cannot be reached") as caught:
            line()
        assert caught.value.code == "slurm_unreachable"


@fake_alone
@pytest.mark.parametrize(
    ("state", "said"),
    [("TIMEOUT", f"{JOB_DEADLINE}: Slurm ended it at its time limit."), ("CANCELLED", "Slurm: CANCELLED."),
     ("NODE_FAIL", "Slurm: NODE_FAIL."), ("OUT_OF_MEMORY", "Slurm: OUT_OF_MEMORY."), ("ODD_NEW", "Slurm: ODD_NEW.")],
)  # fmt: skip
def test_a_run_that_slurm_ended_is_no_success_whatever_it_printed(hall: Hall, state: str, said: str) -> None:
    hall.begins("sleep 50")
    until(lambda: hall.looks().phase == "running")
    assert isinstance(hall.site, FakeSite)
    (job,) = hall.site.data["jobs"]
    job["job_state"] = [state]
    Path(job["standard_output"].replace("%j", str(job["job_id"]))).write_text("half of it\n", encoding="utf-8")
    assert hall.looks() == JobSeen("failed", said) and hall.log() == "half of it\n"


@fake_alone
@pytest.mark.parametrize("why", ["launch_failed_requeued_held", "JobHeldAdmin", "JobHoldMaxRequeue"])
def test_for_a_job_that_slurm_does_not_start_no_drain_is_lifted(hall: Hall, why: str) -> None:
    """Such as one whose prolog failed."""
    hall.begins()
    assert isinstance(hall.site, FakeSite)
    hall.site.data["jobs"][0]["state_reason"] = why
    assert hall.looks() == JobSeen("failed", f"Slurm does not start it: {why}.") and hall.log() is None
    assert "DRAIN" in hall.site.state(NODE)
    hall.clears()
    assert hall.site.jobs() == {} and hall.site.reservations() == []


@fake_alone
def test_a_reservation_that_somebody_changed_lifts_no_drain(hall: Hall) -> None:
    hall.begins()
    assert isinstance(hall.site, FakeSite)
    (booked,) = hall.site.data["reservations"]
    good = dict(booked)
    for change in (
        {"node_list": "gpu-02,gpu-03"}, {"users": f"{US},kim"}, {"users": ""}, {"accounts": "llm"}, {"groups": "ml"},
        {"flags": ["SPEC_NODES"]}, {"end_time": good["start_time"] + 3600}, {"start_time": good["start_time"] + 3600},
    ):  # fmt: skip
        booked.clear()
        booked.update(good | change)
        with pytest.raises(PermanentError) as caught:
            hall.looks()
        assert caught.value.code == "slurm_reserved" and "DRAIN" in hall.site.state(NODE), change
    booked.clear()
    booked.update(good)
    hall.ends()


@fake_alone
def test_what_a_run_printed_is_waited_for_a_while_and_then_is_no_result(hall: Hall) -> None:
    """The file comes late through a shared file system, or never."""
    hall.begins()
    assert isinstance(hall.site, FakeSite)
    hall.ends()
    (file,) = hall.output.iterdir()
    file.unlink()
    assert hall.looks() == JobSeen("running", "It has ended; its output is not here yet.")
    hall.site.data["jobs"][0]["end_time"] -= 61
    assert hall.looks().phase == "succeeded" and hall.log() is None


@fake_alone
def test_a_node_that_is_not_held_is_not_tested(hall: Hall) -> None:
    hall.releases()
    with pytest.raises(TemporaryError, match="not held"):
        hall.begins()
    assert hall.site.reservations() == [] and hall.site.jobs() == {}


@fake_alone
def test_no_privileged_job_is_started(hall: Hall) -> None:
    """A GPU is reset by a reboot here."""
    with pytest.raises(PermanentError, match="privileged"):
        hall.fresh().create_job(JobRequest("muster-reset-1", "default", NODE, "", ("true",), 60, privileged=True))
    assert hall.site.reservations() == [] and hall.site.jobs() == {}
