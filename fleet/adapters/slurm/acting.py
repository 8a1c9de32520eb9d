"""ClusterActor on Slurm: a hold is a drain whose reason carries our mark, and its release a resume.

Decides that each act begins with a look at the node (Slurm has no preconditions of its own, so the time between look
and act is as short as one call) and ends with one: an answer that said yes proves nothing. What a node's reason said
before us is kept in ours and comes back when we leave; nothing is resumed before what its tests have left is gone.
Refuses to set a node down, to resume one whose reason is not ours any more, and whatever needs Kubernetes; jobs are
requeued or waited for, and ended only where a person asked.
"""

from __future__ import annotations

from typing import Any

from fleet.adapters.slurm import Space, marks, seen, work
from fleet.adapters.slurm.lending import Lending
from fleet.adapters.slurm.telling import NO_REQUEUE, Telling
from fleet.adapters.slurm.testing import Testing
from fleet.adapters.slurm.values import moment, states
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.cluster import HOLD_ANNOTATION, HoldRequest, JobRequest, JobSeen, NodeSeen, PodSeen
from fleet.ports.errors import Conflict, EvictionBlocked, NotFound, TemporaryError
from fleet.ports.shapes import items, text


class SlurmActor:
    def __init__(self, telling: Telling, installation: str, space: Space, clock: Clock = SYSTEM_CLOCK) -> None:
        self._telling, self._installation, self._clock = telling, marks.name_of(installation), clock
        self._lending = Lending(telling, self._installation, clock)
        self._testing = Testing(telling, self._lending, self._installation, space, clock)
        self._alone_until = float("-inf")

    # -- holds ---------------------------------------------------------------------------------------------------

    def hold(self, request: HoldRequest) -> NodeSeen:
        """Drain. Whoever held the node before keeps a place in the reason, and running jobs run on."""
        raw = self._raw(request.node)
        node = self._seen(raw)
        if request.resource_version and node.resource_version != request.resource_version:
            raise Conflict(f"{request.node} changed since it was read.")
        old = marks.read(text(raw.get("reason")))
        before = old.before if old is not None else text(raw.get("reason")) if node.unschedulable else ""
        if not before and old is None and states(raw.get("state"), raw.get("state_flags")) & seen.DRAIN:
            before = "drained without a reason"
        mark = marks.Mark(request.value, self._installation, request.why, before)
        self._telling.drain(request.node, mark.text, ends=moment(raw.get("resume_after")) is not None)
        after = self._seen(self._raw(request.node))
        if after.annotations.get(HOLD_ANNOTATION) != request.value:
            words = f"Slurm took the drain of {request.node} and shows {after.ready_reason} without our reason."
            raise TemporaryError(words, code="slurm_error")
        return after

    def release(self, node: str, value: str, resource_version: str, uncordon: bool) -> NodeSeen:
        """Resume where only we held it; else give the reason back to whoever held it before, or to nobody."""
        raw = self._raw(node)
        now = self._seen(raw)
        if resource_version and now.resource_version != resource_version:
            raise Conflict(f"{node} changed since it was read.")
        self._lending.clear(node)
        raw = self._raw(node)
        mark = seen.held(states(raw.get("state"), raw.get("state_flags")), text(raw.get("reason")))
        if mark is None or mark.value != value:
            return self._seen(raw)  # a person resumed it, or drained it on top of us: theirs
        if mark.before:
            self._telling.say(node, mark.before)
        elif uncordon:
            self._telling.resume(node)
        else:
            self._telling.say(node, "Muster let go; somebody else keeps the node.")
        return self._seen(self._raw(node))

    def fence(self, node: str, on: bool) -> NodeSeen:
        """Slurm has requeued the jobs of a node that it calls down; there is nothing to let go."""
        return self._seen(self._raw(node))

    def pause_gpu_services(self, node: str, on: bool) -> NodeSeen:
        """Nothing of an operator runs on a node of Slurm."""
        return self._seen(self._raw(node))

    # -- jobs ----------------------------------------------------------------------------------------------------

    def evict(self, pod: PodSeen) -> None:
        """Requeue its job, which ends on all of its nodes. One that may not be requeued is waited for."""
        job, raw = self._current(pod)
        kept = EvictionBlocked(f"Job {job} may not be requeued.", budget=f"no-requeue of job {job}")
        if not work.may_requeue(raw):
            raise kept
        try:
            self._telling.requeue(work.leader_of(raw, job))
        except TemporaryError as error:
            if any(words in str(error).lower() for words in NO_REQUEUE):
                raise kept from error
            raise

    def delete(self, pod: PodSeen) -> None:
        """Cancel its job. Only what a person asked for and another one approved."""
        job, raw = self._current(pod)
        self._telling.cancel(work.leader_of(raw, job))

    def _current(self, pod: PodSeen) -> tuple[str, dict[str, Any]]:
        """The job while it is still the run that was read: a requeued one is new work."""
        job = work.job_of(pod)
        for raw in items(self._telling.rest.get(f"job/{job}").get("jobs")):
            if any(rank.uid == pod.uid for rank in work.running(raw)):
                return job, raw
        raise NotFound(f"Job {job} does not run on {pod.node} any more.")

    # -- tests ---------------------------------------------------------------------------------------------------

    def create_job(self, request: JobRequest) -> None:
        self._testing.begin(request)

    def job(self, namespace: str, name: str) -> JobSeen:
        return self._testing.look(name)

    def job_log(self, namespace: str, name: str) -> str | None:
        return self._testing.log(name)

    def delete_job(self, namespace: str, name: str) -> None:
        self._testing.end(name)

    def clear_tests(self, node: str) -> None:
        self._lending.clear(node)

    # -- who acts ------------------------------------------------------------------------------------------------

    def claim_lease(self, installation: str, ttl_seconds: int) -> bool:
        """Slurm keeps no leases: another installation shows by its holds, and then we do not act beside it.

        All nodes are read for that, so what was seen is believed for half of the time that is asked for.
        """
        now = self._clock.monotonic()
        if now < self._alone_until:
            return True
        found = self._telling.rest.rows("nodes")
        owners = {
            mark.by
            for raw in found
            if (mark := seen.held(states(raw.get("state"), raw.get("state_flags")), text(raw.get("reason"))))
        }
        owners |= {one.by for one in self._lending.reservations() if one.value}
        alone = owners <= {marks.name_of(installation)}
        self._alone_until = now + ttl_seconds / 2 if alone else float("-inf")
        return alone

    def check(self) -> list[str]:
        """Reaches the server, and says what it can not be told. Whether the user is an operator only an act shows."""
        missing = self._telling.missing()
        if not self.claim_lease(self._installation, 0):
            missing.append("Another installation of Muster holds nodes of this Slurm: this one does not act beside it.")
        return missing

    def _raw(self, name: str) -> dict[str, Any]:
        return self._lending.node(name)

    def _seen(self, raw: dict[str, Any]) -> NodeSeen:
        return seen.node(raw, self._clock.now(), self._lending.reservations())
