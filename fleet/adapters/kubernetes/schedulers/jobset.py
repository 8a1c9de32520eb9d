"""JobSet (`jobset.x-k8s.io/v1alpha2`).

Decides the members by the jobs it is made of: replicas times parallelism; jobs that come when others are complete
(`dependsOn`) are not members yet. Refuses its `ready` counts: they are jobs, not pods. A restart begins a new wait, and
so does the end of a suspension.
"""

from __future__ import annotations

from typing import Any

from fleet.adapters.kubernetes.needs import need_of
from fleet.adapters.kubernetes.schedulers.objects import (
    Raw,
    Reader,
    conditions_of,
    latest,
    number,
    ref_of,
    resumed_at,
    spoken,
    times,
)
from fleet.ports.gangs import GangObject, Part, Said, Spoken
from fleet.ports.shapes import items, mapping, text

_PHASES = ("Completed", "Failed", "Suspended", "RestartingJobSet")  # of several that hold the first counts


def job_set(raw: Raw) -> Spoken:
    ref, conditions = ref_of("jobset", "JobSet", raw), conditions_of(raw)
    spec = mapping(raw.get("spec"))
    told = items(mapping(raw.get("status")).get("replicatedJobsStatus"))
    ended = {text(one.get("name")): number(one.get("succeeded")) or 0 for one in told}
    jobs, is_suspended = items(spec.get("replicatedJobs")), spec.get("suspend") is True
    later = set[str]() if is_suspended else _later(jobs, ended)  # whoever lets it in lets in all of it
    now = [job for job in jobs if text(job.get("name")) not in later]
    parts = tuple(_part(job, 0) for job in now)
    left = tuple(_part(job, ended.get(text(job.get("name")), 0)) for job in now)
    over = next(
        (conditions[name] for name in ("Completed", "Failed") if name in conditions and conditions[name].status), None
    )
    restarting, suspended = conditions.get("RestartingJobSet"), conditions.get("Suspended")
    said = (suspended.said("SUSPENDED", "JobSet condition Suspended"),) if suspended and suspended.status else ()
    return spoken(
        raw,
        GangObject(
            ref,
            places=False,
            waits_since=latest(
                restarting.at if restarting is not None and restarting.status else None,
                None if is_suspended else resumed_at(suspended),
            ),
            ended_at=over.at if over else None,
            finished=over is not None,
            suspended=is_suspended,
            phase=next((n for n in _PHASES if n in conditions and conditions[n].status), ""),
            wanted=sum(part.wanted for part in left),
            done=sum(part.wanted for part in parts) - sum(part.wanted for part in left),
            later=sum(_part(job, 0).wanted for job in jobs) - sum(part.wanted for part in parts),
            parts=left,
            said=said or ((Said("SUSPENDED", "spec.suspend is true", None, "JobSet"),) if is_suspended else ()),
        ),
    )


def _later(jobs: list[dict[str, Any]], ended: dict[str, int]) -> set[str]:
    """Names of the jobs that come when others are complete, of which some are not; and of those that depend on them."""
    going = {text(job.get("name")) for job in jobs if ended.get(text(job.get("name")), 0) < _replicas(job)}
    later: set[str] = set()
    for job in jobs:  # each may depend on those before it alone
        for one in items(job.get("dependsOn")):
            name = text(one.get("name"))
            if name in later or (one.get("status") == "Complete" and name in going):
                later.add(text(job.get("name")))
    return later


def _replicas(job: dict[str, Any]) -> int:
    told = number(job.get("replicas"))
    return 1 if told is None else told


def _part(job: dict[str, Any], ended: int) -> Part:
    """Without the pods of so many of its jobs."""
    template = mapping(mapping(job.get("template")).get("spec"))
    parallel = number(template.get("parallelism"))
    pods = 1 if parallel is None else parallel
    ends_with = number(template.get("completions"))
    return Part(
        text(job.get("name")).lower(),
        times(_replicas(job) - max(0, ended), pods if ends_with is None else min(pods, ends_with)),
        need=need_of(mapping(mapping(template.get("template")).get("spec"))),
    )


READERS = (Reader("jobset", "JobSet", "jobset.x-k8s.io", "jobsets", ("v1", "v1beta1", "v1alpha2"), job_set),)
