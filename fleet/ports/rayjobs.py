"""How long a RayJob that failed keeps its Ray cluster, as the domain asks for it.

Decides the few facts that an extension is judged by. Refuses policy: who extends, and for how long, is elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

MARK = "muster.dev/evidence"
"""Annotation that goes with an extension of ours in one patch: `<incident>/<op_id>/<seconds before>`."""


@dataclass(frozen=True, slots=True)
class FailedJob:
    """`shuts_down`: its operator deletes the Ray cluster `ttl` seconds after `ended_at`. `mark`: of MARK."""

    uid: str
    version: str
    failed: bool
    shuts_down: bool
    ttl: int
    ended_at: datetime | None
    mark: str


class RayJobs(Protocol):
    """One write each, by the acting credential. Raises `fleet.ports.errors`."""

    def allows(self, namespace: str) -> bool: ...

    def read(self, namespace: str, name: str) -> FailedJob: ...

    def change(self, namespace: str, name: str, version: str, ttl: int | None, mark: str | None) -> None:
        """`ttl` None: it stays. `mark` None: it is taken away. Conflict when the job is no longer at `version`."""
        ...

    def check(self) -> list[str]: ...
