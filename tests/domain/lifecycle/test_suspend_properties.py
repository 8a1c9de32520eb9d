"""Wherever the engine dies, whatever comes twice, whoever else writes the job: suspended once, started again once.

Hypothesis draws which nodes fall ill and when, where workers and the sweep die, which answers are lost, and what people
and controllers do to the job meanwhile. What is held: no write of ours without a row before it, none on a job that
somebody suspended, took over, started or made anew, and nothing of ours left suspended at the end.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from django.db import transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import engine, grants, manual
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.suspending import resuming
from fleet.lifecycle.suspending.models import Suspension
from fleet.policy.models import Cap
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import TemporaryError, UnknownOutcome
from fleet.ports.suspends import Job
from tests.builders import TestClock, a_bmc, a_cluster, a_node, a_person
from tests.domain.lifecycle.jobs_of_pods import JOB, Jobs, attach, ranks
from tests.domain.lifecycle.test_crashes import Chaos, instrument
from tests.domain.lifecycle.world import Crash, World, a_pod

NODES = ("gpu-r01-01", "gpu-r02-01")
PLACES = (
    "before suspend", "after suspend", "before resume", "after resume", "before mark", "after mark", "after intent",
    "before resolve", "before write", "after write", "before evict", "after evict",
)  # fmt: skip
UID = f"uid-{JOB}"
DEEDS = ("start", "suspend", "take over", "renew", "finish", "delete", "touch", "start and suspend")
LAST = 160
"""Seconds: what drains of pods that end in 3 s take with their back-offs, and a call's effect that may come late."""


class Watched(Jobs):
    """Jobs whose every change is judged as it is made. `ours`: we suspended it, and nobody else has had it since."""

    def __init__(self, world: World, lost: set[int]) -> None:
        super().__init__(world)
        self.lost, self.calls = lost, 0
        self.ours = False

    def job_of(self, pod: PodSeen) -> Job | None:
        self._maybe(read=True)
        return super().job_of(pod)

    def read(self, kind: str, namespace: str, name: str) -> Job:
        self._maybe(read=True)
        return super().read(kind, namespace, name)

    def _maybe(self, read: bool) -> bool:
        """Is the answer of this call lost? A read that is lost is merely tried again."""
        self.calls += 1
        if self.calls not in self.lost:
            return False
        if read:
            raise TemporaryError("It is away.")
        return True

    def change(self, job: Job, suspend: bool | None, mark: str | None) -> None:
        before = self.jobs.get(JOB)
        lost, count = self._maybe(read=False), len(self.writes)
        try:
            super().change(job, suspend, mark)
        finally:
            if len(self.writes) > count:
                self._judge(before, suspend)
        if lost:
            raise UnknownOutcome("No answer came.")

    def _judge(self, before: Job | None, suspend: bool | None) -> None:
        assert before is not None and not before.ended, "a job that was over was written"
        if suspend:
            assert not before.suspended, "what somebody had suspended was suspended by us"
            self.ours = True
        elif suspend is False:
            assert before.suspended and self.ours, "a job was started that was not ours to start"
            self.ours = False

    def deed(self, what: str) -> None:
        job = self.jobs.get(JOB)
        if job is None:
            return
        match what:
            case "start":
                self.somebody(suspended=False)
                self.ours = False
            case "suspend" if not job.mark:
                self.somebody(suspended=True)
                self.ours = False
            case "take over":
                self.somebody(suspended=True, mark="")
                self.ours = False
            case "renew":
                self.somebody(uid=f"{job.uid}+", mark=job.mark, suspended=job.suspended)
                self.ours = False
            case "finish":
                self.somebody(ended=True)
            case "delete":
                del self.jobs[JOB]
            case "start and suspend":
                self.somebody(suspended=False, mark="")
                self.somebody(suspended=True)
                self.ours = False
            case "touch":
                self.somebody()


def set_up(patch: pytest.MonkeyPatch, chaos: Chaos, lost: set[int], guarded: bool) -> Watched:
    cluster = a_cluster()
    a_person("minseo")
    for number, name in enumerate(NODES):
        a_bmc(a_node(cluster, name, rack=f"r{number}", leaf=f"l{number}", gang="train/llm"))
    a_node(cluster, "other-000", rack="o", leaf="o", pods=0)
    Cap.objects.all().delete()
    world = World(cluster, TestClock())
    world.crash = chaos
    for module in (engine, grants):
        patch.setattr(module, "send", world.send)
    instrument(patch, chaos)
    jobs = Watched(world, lost)
    attach(world, patch, jobs)
    jobs.add(*ranks(*NODES))
    if guarded:
        pod = a_pod("guarded", NODES[1], owner="ReplicaSet/x", gang="", labels={"app": "x"})
        world.pods[pod.key] = pod
        world.budgets["guarded"] = "x/one"
    return jobs


def live(jobs: Watched, sick: dict[str, int], deeds: dict[int, str], again_every: int, switched: int | None) -> None:
    """`deeds` of others by the seconds since the job was first suspended by us."""
    world = jobs.world
    since = LAST  # not yet
    for second in range(0, LAST, 2):
        world.clock.tick(2)
        world.settle()
        for name, at in sick.items():
            if at in (second, second + 1):
                with suppress(Crash):
                    manual.request(
                        [Node.objects.get(name=name).pk], "drain", "minseo", "why", world.clock.now(), world.clock
                    )
        if since == LAST and jobs.writes:
            since = second
        for at in (second, second + 1):
            if at - since in deeds:
                jobs.deed(deeds[at - since])
        if switched in (second, second + 1):
            Cluster.objects.update(mode="observe")
        if switched is not None and second >= switched + 40:
            Cluster.objects.update(mode="automate")
        if second == 100:
            world.budgets.clear()
        before = len(jobs.writes)
        with suppress(Crash):
            world.work()
        if again_every and second // 2 % again_every == 0:
            world.queue += [(w.pk, w.version) for w in Workflow.objects.all()]
            with suppress(Crash):
                world.deliver()
            with suppress(Crash):
                resuming.sweep(Cluster.objects.get(pk=world.cluster.pk), jobs, world.clock.now())
        observing = Cluster.objects.get(pk=world.cluster.pk).mode == "observe"
        assert not observing or len(jobs.writes) == before, "mode observe wrote"


def settle(jobs: Watched) -> None:
    """Nobody dies any more, and nothing is lost: what is still ours comes to its end."""
    world = jobs.world
    world.crash, jobs.lost = (lambda place: None), set()
    Cluster.objects.update(mode="automate")
    world.budgets.clear()
    for _ in range(60):
        world.clock.tick(10)
        world.settle()
        world.work()
        if not Suspension.objects.filter(ended_at=None).exists():
            return


@settings(
    max_examples=int(os.environ.get("MUSTER_SCHEDULES", "5")), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(
    sick=st.dictionaries(st.sampled_from(NODES), st.integers(0, 60), min_size=1),
    plan=st.dictionaries(st.sampled_from(PLACES), st.integers(1, 4), max_size=5),
    lost=st.sets(st.integers(1, 20), max_size=4),
    deeds=st.dictionaries(st.integers(0, 14), st.sampled_from(DEEDS), max_size=3),
    again_every=st.sampled_from([0, 1, 3]),
    guarded=st.booleans(),
    switched=st.none() | st.integers(0, 60),
)
@example({NODES[0]: 0, NODES[1]: 0}, {}, set(), {4: "take over"}, 3, True, None)
@example({NODES[0]: 0, NODES[1]: 0}, {"after suspend": 1}, {3}, {4: "renew"}, 3, True, None)
@pytest.mark.django_db
def test_suspended_once_and_started_again_once_and_never_what_is_others(
    sick: dict[str, int],
    plan: dict[str, int],
    lost: set[int],
    deeds: dict[int, str],
    again_every: int,
    guarded: bool,
    switched: int | None,
) -> None:
    chaos = Chaos(plan)
    with pytest.MonkeyPatch.context() as patch, transaction.atomic():
        jobs = set_up(patch, chaos, lost, guarded)
        live(jobs, sick, deeds, again_every, switched)
        jobs.world.crash = lambda place: None
        chaos.left.clear()
        settle(jobs)
        check(jobs, deeds)
        transaction.set_rollback(True)


def check(jobs: Watched, deeds: dict[int, str]) -> None:
    open_ = list(Suspension.objects.filter(ended_at=None))
    assert open_ == [], "a suspension of ours that nobody ended"
    job, set_to = jobs.jobs.get(JOB), jobs.set_to()
    if job is not None and not job.ended and job.uid == UID:  # one made anew is not ours, whatever it carries
        assert not (jobs.ours and job.suspended), "left suspended by us"
        assert not (job.mark and job.suspended), "left with our mark"
    assert set_to.count(False) <= set_to.count(True), "started again more often than suspended"
    if not deeds:
        assert set_to.count(True) == set_to.count(False) <= len(Suspension.objects.all())
        assert set_to.count(True) <= 2, "two drains, each once at most"
