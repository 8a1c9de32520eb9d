"""A test on Slurm broken off at every line: what was told to Slurm last may have been heard or not.

The fake holds each instant against what must be true: the node is drained or in our reservation, and nobody else's job
starts on it. That the fake is like a real Slurm is what `test_tests_on_slurm` holds.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection, Space
from fleet.ports.cluster import HOLD_ANNOTATION, ClusterActor, HoldRequest, JobRequest
from fleet.ports.errors import PortError
from tests.adapters.slurm.fake_rest import running
from tests.adapters.slurm.fake_site import US, FakeSite

OURS, VALUE, NODE, TEST = "muster-0123456789abcdef", "17/1c1f6a52", "gpu-02", "muster-validate-7-1-dcgm"
WRITES = 7  # reserve, submit, resume, drain, unreserve, and the release's two
LOOKS = 40


class Story:
    """A held node is tested and given back by clients that forget everything whenever a call fails."""

    def __init__(self, site: FakeSite, output: Path, aborted: bool) -> None:
        self.site, self.output, self.aborted = site, output, aborted
        self.connection = Connection(site.url, US, lambda: "a.b.c")
        self.actor = self.client()
        self.actor.hold(HoldRequest(NODE, VALUE, "", why="Xid 79"))
        site.kept, site.writes, self.cuts = NODE, 0, 0

    def client(self) -> ClusterActor:
        return adapter.actor(self.connection, OURS, None, Space(str(self.output)))

    def tested(self) -> bool:
        """As a step of the engine does: look, begin what is missing, clear when it is over."""
        seen = self.actor.job("default", TEST)
        if seen.phase == "missing":
            self.actor.create_job(JobRequest(TEST, "default", NODE, "", ("echo", "fine"), 60, gpus=8))
            return False
        if seen.phase in ("pending", "running") and not self.aborted:
            return False
        if self.aborted:
            self.actor.delete_job("default", TEST)
        self.actor.clear_tests(NODE)
        return True

    def runs(self) -> None:
        done = False
        for _ in range(LOOKS):
            held = adapter.reader(self.connection).node(NODE)
            assert held.annotations == {HOLD_ANNOTATION: VALUE} and held.unschedulable
            try:
                done = self.tested()
            except PortError:
                self.cuts += 1
                self.actor = self.client()
            if done:
                break
        assert done, "it goes on whatever was cut off"

    def returned(self) -> None:
        for _ in range(LOOKS):
            node = adapter.reader(self.connection).node(NODE)
            if not node.annotations:
                return
            with suppress(PortError):
                self.site.kept = "" if not self.site.reservations() else NODE
                self.actor.release(NODE, VALUE, node.resource_version, True)
        raise AssertionError("it was never given back")


@pytest.mark.parametrize("aborted", [False, True], ids=["tested", "aborted"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("cut", range(1, WRITES + 1))
def test_the_node_is_nobody_else_s_and_nothing_is_left_or_done_twice(
    tmp_path: Path, cut: int, when: str, aborted: bool
) -> None:
    with running(FakeSite()) as site:
        story = Story(site, tmp_path, aborted)
        wanted = site.people_submit(NODE)
        site.cut_at = (cut, when)
        story.runs()
        assert site.reservations() == [] and site.jobs() == {wanted: "PENDING"}
        assert len(site.submitted) == 1 or aborted, "run once, however often it was asked for"
        assert "Xid 79" in site.reason(NODE), "what people read is there again"
        story.returned()
        assert site.broken == [] and site.writes >= cut - 1
        assert site.jobs() == {wanted: "RUNNING"}


def test_a_result_is_there_although_slurm_has_forgotten_the_job(tmp_path: Path) -> None:
    with running(FakeSite()) as site:
        story = Story(site, tmp_path, aborted=False)
        story.tested()
        while site.jobs():
            story.actor.job("default", TEST)
        site.forget_jobs()
        story.actor = story.client()
        assert story.actor.job("default", TEST).phase == "succeeded"
        assert story.actor.job_log("default", TEST) == "fine\n"
        assert story.tested() and site.submitted == [f"{TEST}.{OURS}"] and site.reservations() == []
