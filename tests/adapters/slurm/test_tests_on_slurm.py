"""Tests of a held node as jobs of Slurm: no user's job finds the node, nothing is run twice, and nothing is left.

Each holds on a real Slurm and on the fake that the next file breaks at every line. A crash is a client that remembers
nothing.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection, Scontrol, Space
from fleet.inventory import owners
from fleet.ports.cluster import HOLD_ANNOTATION, ClusterActor, HoldRequest, JobRequest, JobSeen, NodeSeen
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

        until(over)
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

        until(released)

    def log(self) -> str | None:
        return self.fresh().job_log("default", self.test)

    def clears(self) -> None:
        """A job may still be ending."""

        def cleared() -> bool:
            try:
                self.fresh().clear_tests(NODE)
            except TemporaryError:
                return False
            return True

        until(cleared)


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
    found = Hall(real, request.getfixturevalue("connection"), command, folder)
    found.fresh().hold(HoldRequest(NODE, VALUE, "", why=WHY))
    yield found
    real.cancel()
    for name in real.reservations():
        real.unreserve(name)
    shutil.rmtree(folder)


def test_a_held_node_is_tested_and_nobody_else_gets_it(hall: Hall) -> None:
    """The job of a user waits for that very node all the while."""
    wanted = hall.site.people_submit(NODE)
    hall.begins("echo for us; env | grep -c SLURM_JWT")
    said = hall.ends("failed")
    assert said.text == "Slurm: FAILED, exit code 1.", "the second command has found no token"
    assert hall.log() == "for us\n0\n"
    assert hall.site.state(NODE).startswith(("IDLE+DRAIN", "DRAIN+IDLE")) and hall.site.reason(NODE).startswith(REASON)
    hall.clears()
    assert hall.site.reservations() == [] and hall.site.jobs() == {wanted: "PENDING"}
    hall.releases()
    until(lambda: hall.site.jobs().get(wanted) == "RUNNING")


def test_whatever_was_done_last_is_found_and_done_once(hall: Hall) -> None:
    for _ in range(2):
        hall.begins("echo fine")
    assert len(hall.site.jobs()) == len(hall.site.reservations()) == 1
    hall.looks()
    assert "DRAIN" not in hall.site.state(NODE) and hall.node().annotations == {HOLD_ANNOTATION: VALUE}
    hall.begins("echo fine")
    hall.ends()
    hall.begins("echo again")
    assert hall.site.jobs() == {} and hall.log() == "fine\n"
    hall.clears()
    hall.clears()
    assert hall.site.reservations() == [] and hall.site.reason(NODE).startswith(REASON)


def test_a_test_that_is_not_wanted_any_more_leaves_nothing(hall: Hall) -> None:
    hall.begins("sleep 50")
    until(lambda: hall.looks().phase == "running")
    assert "DRAIN" in hall.site.state(NODE), "as soon as it runs, the drain is back"
    hall.fresh().delete_job("default", hall.test)
    hall.clears()
    until(lambda: not hall.site.jobs())
    assert hall.site.reservations() == [] and hall.site.reason(NODE).startswith(REASON)


def test_a_release_leaves_no_reservation_behind(hall: Hall) -> None:
    """Whatever happened in between: here a test that was to begin when its workflow ended."""
    hall.begins()
    hall.looks()
    hall.releases()
    assert hall.site.reservations() == [] and "DRAIN" not in hall.site.state(NODE)


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


def test_without_a_folder_for_what_tests_print_none_begins(hall: Hall) -> None:
    with pytest.raises(PermanentError, match="MUSTER_SLURM_TEST_OUTPUT") as caught:
        hall.begins(client=hall.fresh(output=""))
    assert caught.value.code == "slurm_no_tests" and hall.site.reservations() == []


def test_a_node_that_is_not_held_is_not_tested(hall: Hall) -> None:
    hall.releases()
    with pytest.raises(TemporaryError, match="not held"):
        hall.begins()
    assert hall.site.reservations() == [] and hall.site.jobs() == {}
