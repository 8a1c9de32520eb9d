"""May this job be suspended for the drain of a node, and by whose word?

Decides by the kinds that a place names, the owner's annotation, and what the job itself says. Pure. Refuses what
somebody else starts and stops, what is suspended already, and a job that somebody started again in the same drain.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fleet.ports.suspends import Job

YES, NO = "true", "false"


@dataclass(frozen=True, slots=True)
class Not:
    """It is not suspended, its pods are evicted. `why`: the sentence for people, "" where nobody expects otherwise."""

    why: str = ""


def choose(job: Job, kinds: Collection[str], before: bool) -> Not | None:
    """None: suspend it. `kinds`: those of its namespace; `before`: we did so in this drain, and it was started."""
    asked = job.kind in kinds or (job.wish == YES and job.kind != "Workload")
    if job.ended or job.wish == NO:
        return Not()
    if job.kind == "Workload" and not asked:
        kept = f"Kueue starts and stops it by {job.title}, and this place does not name Workload"
        return Not(f"The job is not suspended: {kept}." if job.wish == YES else "")
    if not asked:
        return Not()
    if job.refusal:
        return Not(f"{job.title} is not suspended: it {job.refusal}.")
    if job.suspended:
        return Not(f"{job.title} is not suspended by us: it was suspended already.")
    if before:
        return Not(f"{job.title} was started again in this drain: it is not suspended twice.")
    return None
