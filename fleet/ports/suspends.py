"""Jobs that can be stopped whole and started again by one field of their own, as the domain asks for it.

Decides the few facts that a suspension is judged by. Refuses policy: who suspends, when and for how long is elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from fleet.ports.cluster import PodSeen

JobKind = Literal["JobSet", "TrainJob", "PyTorchJob", "RayJob", "Job", "Workload"]
"""Kinds with such a field. Of Kueue's Workload it is `spec.active`; of a PyTorchJob `spec.runPolicy.suspend`."""
WISH = "muster.dev/suspend"
"""Annotation of a job by its owner: "true", it may be suspended; "false", it may not, whatever is configured."""
MARK = "muster.dev/suspended"
"""Annotation that goes with a suspension of ours in one patch: `<incident>/<op_id>`."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job as it was read. `generation` grows with every change of its spec, and only by that; 0: it is not told.

    `ended`: it has finished or is being deleted. `mark`: of MARK. `wish`: of WISH. `refusal`: why nobody but its keeper
    may write the field, as a part of a sentence that begins with its title; "" when nothing speaks against it.
    """

    kind: JobKind
    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    suspended: bool
    ended: bool
    mark: str = ""
    wish: str = ""
    refusal: str = ""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Suspends(Protocol):
    """By the acting credential. Raises `fleet.ports.errors`."""

    def kinds(self, namespace: str) -> frozenset[str] | None:
        """Which kinds may be suspended there without a word of their owners; None: nothing is, in that namespace."""
        ...

    def job_of(self, pod: PodSeen) -> Job | None:
        """The job that made the pod: the uppermost of its owners, or the Workload by which Kueue starts and stops it.

        None where no kind of ours made it, or what made it is gone.
        """
        ...

    def read(self, kind: JobKind, namespace: str, name: str) -> Job: ...

    def change(self, job: Job, suspend: bool | None, mark: str | None) -> None:
        """One patch on the version and the UID that were read; Conflict when either is another one by now.

        `suspend` None: the field stays. `mark` None: it is taken away.
        """
        ...

    def check(self) -> list[str]:
        """Each right proved in each namespace; sentences of what lacks."""
        ...
