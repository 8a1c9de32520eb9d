"""Tests of a held node as jobs of Slurm.

Decides how a job of a test is found again (by its name, and by what it has left where Slurm has forgotten it), what its
states mean, and when its node is lent to it. What is to be done next is read from Slurm alone, so that a second call of
each line finds what the first one did. Refuses to submit what is there, to hand on what was printed before its last
line can have come, and whatever needs more rights than the user's who acts.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from fleet.adapters.slurm import Space, scripts, submitting
from fleet.adapters.slurm.lending import OPEN, Lending
from fleet.adapters.slurm.telling import Telling
from fleet.adapters.slurm.values import moment, number, states, words
from fleet.ports.clock import Clock
from fleet.ports.cluster import JOB_DEADLINE, JobRequest, JobSeen
from fleet.ports.errors import NotFound, PermanentError, TemporaryError
from fleet.ports.shapes import items, text

RUNS = OPEN - {"PENDING", "REQUEUED", "CONFIGURING"}
HELD = ("held", "hold")
"""In the reason of a job that waits for a person: its launch or its prolog failed, or somebody holds it."""
ARRIVES = timedelta(seconds=60)
"""A shared file system shows a file of another host as late as this."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,120}")


class Testing:
    """`space` is where and as what its jobs run; without one, nothing begins."""

    __test__ = False

    def __init__(self, telling: Telling, lending: Lending, installation: str, space: Space, clock: Clock) -> None:
        self._telling, self._lending, self._by = telling, lending, installation
        self._space, self._clock = space, clock
        self._numbers: dict[str, int] = {}

    def begin(self, request: JobRequest) -> None:
        """Reserve the node, then submit; a look at the job lifts the drain for it. Idempotent by name."""
        if request.privileged:
            raise PermanentError(f"No privileged Job can be started on {request.node}: it is a node of Slurm alone.")
        if not self._space.output or not Path(self._space.output).is_dir():
            lacks = f"{self._space.output} is none here" if self._space.output else "none is set"
            raise PermanentError(
                "Tests on Slurm need a folder that the nodes and Muster's workers see at the same path "
                f"(MUSTER_SLURM_TEST_OUTPUT): {lacks}. Until then a person tests the node and skips the step.",
                code="slurm_no_tests",
            )
        name = self._name(request.name)
        if self._jobs(name) or self._left(name)[1] is not None:
            return
        reservation, mark, raw = self._lending.prepare(request.node)
        partition = next(iter(words(raw.get("partitions"))), "")
        version = int(self._telling.rest.version.rsplit(".", 1)[1])
        body = submitting.payload(request, name, reservation, partition, mark.text, self._space, version)
        try:
            self._telling.rest.post("job/submit", body)
        except TemporaryError:  # 22.05 calls it an error that the node is drained now, and takes the job
            if not self._jobs(name):
                raise

    def look(self, job: str) -> JobSeen:
        """How it is. Its node's drain is lifted for a job that waits, and back before any other word is said of it."""
        name = self._name(job)
        found = self._jobs(name)
        if not found:
            code = self._left(name)[1]
            forgotten = f"Slurm has forgotten the job, exit code {code}."
            return JobSeen("missing") if code is None else _judged(code, forgotten)
        first, *more = found
        for raw in more:  # the answer to a submission was lost, and it came after all
            self._lending.end(raw)
        state = states(first.get("job_state"))
        node, mark = submitting.said(first)
        if not node:
            raise TemporaryError(f"Job {number(first.get('job_id'))} does not tell its node.", code="slurm_error")
        waits, why = bool(state & OPEN and not state & RUNS), text(first.get("state_reason")) or "it waits"
        if waits and not any(word in why.lower() for word in HELD):
            self._lending.open(node)
            return JobSeen("pending", f"Slurm: {why}.")
        self._lending.close(node, (mark,))
        if waits:
            return JobSeen("failed", f"Slurm does not start it: {why}.")
        return JobSeen("running") if state & RUNS else self._ended(name, first, state)

    def log(self, job: str) -> str | None:
        return self._left(self._name(job))[0]

    def end(self, job: str) -> None:
        """Cancel it. What was set up for it on the node stays until `Lending.clear`."""
        for raw in self._jobs(self._name(job)):
            self._lending.end(raw)

    def _name(self, job: str) -> str:
        if not _NAME.fullmatch(job):
            raise PermanentError(f"{job!r} is no name of a test.", code="slurm_error")
        return f"{job}.{self._by}"

    def _left(self, name: str) -> tuple[str | None, int | None]:
        folder = self._space.output
        return scripts.left(folder, name, self._numbers.get(name)) if folder else (None, None)

    def _jobs(self, name: str) -> list[dict[str, Any]]:
        """Those of that name that Slurm still knows, the oldest first. All jobs are asked for until it is known."""
        known = self._numbers.get(name)
        if known is not None:
            with suppress(NotFound):
                told = items(self._telling.rest.get(f"job/{known}").get("jobs"))
                if mine := [raw for raw in told if text(raw.get("name")) == name]:
                    return mine
            del self._numbers[name]
        every = [raw for raw in self._telling.rest.rows("jobs") if text(raw.get("name")) == name]
        found = sorted(every, key=lambda raw: number(raw.get("job_id")) or 0)
        if found:
            self._numbers[name] = number(found[0].get("job_id")) or 0
        return found

    def _ended(self, name: str, raw: dict[str, Any], state: frozenset[str]) -> JobSeen:
        word = "+".join(sorted(state))
        if state & {"TIMEOUT", "DEADLINE"}:
            return JobSeen("failed", f"{JOB_DEADLINE}: Slurm ended it at its time limit.")
        code = self._left(name)[1]
        if code is not None and state & {"COMPLETED", "FAILED"}:
            return _judged(code, f"Slurm: {word}, exit code {code}.")
        ended = moment(raw.get("end_time"))
        if state & {"COMPLETED", "FAILED"} and (ended is None or self._clock.now() - ended < ARRIVES):
            return JobSeen("running", "It has ended; its output is not here yet.")
        return JobSeen("succeeded") if "COMPLETED" in state else JobSeen("failed", f"Slurm: {word}.")


def _judged(code: int, said: str) -> JobSeen:
    return JobSeen("succeeded") if code == 0 else JobSeen("failed", said)
