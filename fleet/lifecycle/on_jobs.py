"""What of ours stands on jobs: those suspended for a drain, and RayJobs kept after a failure.

Decides what is listed beside the holds of nodes, by our own rows: jobs are too many to be searched for marks, and says
where nothing ends it by itself any more. Refuses to end any of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleet.gangs.models import GangMoment
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle import evidence
from fleet.lifecycle.suspending.models import Suspension


@dataclass(frozen=True, slots=True)
class OnJob:
    """`value` is our mark on the object; `text` says what we did and when it ends."""

    job: str
    value: str
    text: str


def found(cluster: Cluster) -> list[OnJob]:
    """Whatever was asked for counts, also where its answer was lost."""
    return [*_suspended(cluster), *_kept(cluster)]


def _suspended(cluster: Cluster) -> list[OnJob]:
    rows = Suspension.objects.filter(cluster_id=cluster.pk, ended_at=None).order_by("begun_at")
    return [
        OnJob(
            row.title,
            row.mark,
            f"Suspended for the drain of {', '.join(row.nodes)}; {_started_again(cluster, row)}"
            f"{f' {row.text}' if row.text else ''}",
        )
        for row in rows
    ]


def _started_again(cluster: Cluster, row: Suspension) -> str:
    """When, or that it will not be before a person says so."""
    if not cluster.removed_at and cluster.mode != Mode.OBSERVE:
        return f"started again when that is over, at {row.until:%Y-%m-%d %H:%M} UTC at the latest."
    why = "the cluster was removed" if cluster.removed_at else "its cluster is in mode observe"
    return (
        f"NOTHING STARTS IT AGAIN, for {why}: `manage.py holds release --all --cluster {cluster.name} --reason …`, "
        "or whoever owns it starts it."
    )


def _kept(cluster: Cluster) -> list[OnJob]:
    stands = [evidence.ASKED, evidence.KEPT]
    lines = GangMoment.objects.filter(cluster=cluster, kind=evidence.KIND, what__in=stands).order_by("pk")
    return [OnJob(f"{evidence.TITLE}{line.facts['job']}", line.facts["mark"], _until(line)) for line in lines]


def _until(line: GangMoment) -> str:
    end = datetime.fromisoformat(line.facts["until"])
    incident = line.facts["incident"]
    return f"Its Ray cluster stays for people until {end:%Y-%m-%d %H:%M} UTC, or until incident {incident} is over."
