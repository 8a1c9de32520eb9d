"""What Slurm is told: drain, resume, another reason, requeue, cancel, a reservation.

Decides for each whether slurmrestd can (nodes from 23.02 on, reservations from 25.05, requeue from 26.05) or the
command line must. Refuses a node's or job's name that Slurm would take for several, the state DOWN, and to read yes out
of anything but the answer.
"""

from __future__ import annotations

import os
import re
import subprocess
from datetime import datetime
from typing import Any

from fleet.adapters.slurm import Connection, Scontrol
from fleet.adapters.slurm.client import Slurmrestd
from fleet.ports.errors import MissingRight, NotFound, PermanentError, PortError, TemporaryError, UnknownOutcome

NODES_BY_REST, RESERVE_BY_REST, REQUEUE_BY_REST = 39, 43, 45
_NODE, _JOB = re.compile(r"[A-Za-z0-9][\w.-]*"), re.compile(r"\d+(?:[_+]\d+)?")
_USER, _RESERVATION = re.compile(r"[A-Za-z0-9_][\w.@-]*"), re.compile(r"[A-Za-z0-9][\w.-]*")
_UNKNOWN = ("invalid node name", "invalid job id", "requested reservation is invalid")
_DENIED = ("permission denied", "access denied", "invalid user id", "authentication", "invalid account")
_AWAY = ("unable to contact", "connection refused", "communication", "timed out")
NO_REQUEUE = (
    "operation not supported",
    "operation disabled",
    "presently disabled",
    "only batch jobs",
    "not requeueable",
)


class Telling:
    def __init__(self, connection: Connection, scontrol: Scontrol | None) -> None:
        self.rest = Slurmrestd(connection)
        self._scontrol = scontrol

    def drain(self, node: str, reason: str, *, ends: bool = False) -> None:
        """`ends`: whoever drained it before set a time at which Slurm resumes it; ours has none."""
        body: dict[str, Any] = {"state": ["DRAIN"], "reason": reason}
        never = {"resume_after": {"set": True, "infinite": True, "number": 0}} if ends else {}
        also = ("resumeafter=infinite",) if ends else ()
        self._node(node, body | never, "state=drain", f"reason={reason}", *also)

    def resume(self, node: str) -> None:
        self._node(node, {"state": ["RESUME"]}, "state=resume")

    def say(self, node: str, reason: str) -> None:
        """Another reason; the state stays."""
        self._node(node, {"reason": reason}, f"reason={reason}")

    def requeue(self, job: str) -> None:
        """The job ends on all of its nodes and waits anew; one that has ended meanwhile is not run once more."""
        _checked(_JOB, job)
        if self.rest.at_least(REQUEUE_BY_REST):
            self.rest.act(f"job/{job}/requeue?Incomplete=true")
        else:
            self._run("requeue", "incomplete", job)

    def cancel(self, job: str) -> None:
        self.rest.delete(f"job/{_checked(_JOB, job)}")

    def reserve(self, name: str, node: str, user: str, now: datetime) -> None:
        """The node for that user alone, from now on and without an end, over every other reservation."""
        _checked(_RESERVATION, name), _checked(_NODE, node), _checked(_USER, user)
        if self.rest.at_least(RESERVE_BY_REST):
            start = {"set": True, "infinite": False, "number": int(now.timestamp())}
            body: dict[str, Any] = {
                "name": name,
                "node_list": [node],
                "users": [user],
                "flags": ["MAINT", "IGNORE_JOBS"],
            }
            body |= {"start_time": start, "duration": {"set": True, "infinite": True, "number": 0}}
            self.rest.post("reservation", body)
        else:
            words = (f"reservation={name}", f"nodes={node}", f"users={user}", "starttime=now", "duration=infinite")
            self._run("create", "reservation", *words, "flags=maint,ignore_jobs")

    def unreserve(self, name: str) -> None:
        """NotFound when there is none, TemporaryError while a job still runs in it."""
        _checked(_RESERVATION, name)
        if self.rest.at_least(RESERVE_BY_REST):
            self.rest.delete(f"reservation/{name}")
        else:
            self._run("delete", f"reservation={name}")

    def missing(self) -> list[str]:
        """Which of these cannot be told at all, in words."""
        if self._scontrol is not None:
            self._run("ping")
            return []
        found = []
        if not self.rest.at_least(NODES_BY_REST):
            found.append(
                "This Slurm takes no changes of nodes by REST (before 23.02): name its scontrol with --scontrol."
            )
            return found
        if not self.rest.at_least(RESERVE_BY_REST):
            found.append(
                "This Slurm takes no reservation by REST (before 25.05): without --scontrol no node is tested."
            )
        if not self.rest.at_least(REQUEUE_BY_REST):
            found.append(
                "This Slurm requeues no job by REST (before 26.05): without --scontrol a drain waits for its jobs."
            )
        return found

    def _node(self, name: str, payload: dict[str, Any], *words: str) -> None:
        _checked(_NODE, name)
        if self.rest.at_least(NODES_BY_REST):
            self.rest.post(f"node/{name}", payload)
        else:
            self._run("update", f"nodename={name}", *words)

    def _run(self, *words: str) -> None:
        found = self._scontrol
        if found is None:
            raise PermanentError(
                "This Slurm does not take that by REST, and no scontrol is named: cluster add … --scontrol PATH.",
                code="slurm_read_only",
            )
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}
        if found.config:
            environment["SLURM_CONF"] = found.config
        if token := found.token():
            environment["SLURM_JWT"] = token
        try:
            done = subprocess.run(
                [found.program, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=found.timeout, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise UnknownOutcome(f"scontrol {words[0]} did not end within {found.timeout:g} s.") from error
        except OSError as error:
            words_ = f"{found.program} cannot be started: {error.strerror}."
            raise PermanentError(words_, code="slurm_scontrol") from error
        if done.returncode != 0:
            raise self._refused(words[0], " ".join((done.stderr or done.stdout).split())[:300])

    def _refused(self, verb: str, said: str) -> PortError:
        low = said.lower()
        sentence = f"scontrol {verb}: {said or 'no word'}."
        if any(words in low for words in _UNKNOWN):
            return NotFound(sentence)
        if any(words in low for words in _DENIED):
            return MissingRight(verb, "Slurm", sentence)
        return TemporaryError(sentence, code="slurm_unreachable" if any(w in low for w in _AWAY) else "slurm_error")


def _checked(form: re.Pattern[str], name: str) -> str:
    """A list like gpu-[01-08] would reach further than anybody meant."""
    if not form.fullmatch(name):
        raise PermanentError(f"{name!r} is no name of a single node, job, user or reservation.", code="slurm_error")
    return name
