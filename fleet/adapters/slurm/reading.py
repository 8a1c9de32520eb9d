"""GangPoll on slurmrestd: jobs, nodes and partitions in one reading.

Decides that jobs and nodes are one picture and partitions are beside it: without the first there is no reading, without
the last one it says so. Nodes go by the cluster's names for them where those differ. Refuses Slurm's own statistics,
which lag behind its jobs, and our own tests, which are nobody's work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fleet.adapters.slurm import Connection, submitting
from fleet.adapters.slurm import jobs as decode_jobs
from fleet.adapters.slurm import nodes as decode_nodes
from fleet.adapters.slurm.client import Slurmrestd
from fleet.adapters.slurm.roots import with_roots
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.errors import PortError
from fleet.ports.gangs import GangObject, Reading, System


class SlurmPoll:
    system: System = "slurm"

    def __init__(
        self, connection: Connection, names: Callable[[], Mapping[str, str]] = dict, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.rest = Slurmrestd(connection)
        self._names, self._clock = names, clock

    def read(self) -> Reading:
        at, troubles = self._clock.now(), []
        every = self.rest.rows("jobs")
        raw_jobs = [raw for raw in every if decode_jobs.is_open(raw) and not submitting.is_test(raw)]
        raw_nodes = self.rest.rows("nodes")
        jobs = with_roots(decode_jobs.gang(raw) for raw in raw_jobs)
        planned = decode_nodes.planned(jobs)
        offers = tuple(decode_nodes.offer(raw, planned) for raw in raw_nodes)
        try:
            partitions = self.rest.rows("partitions")
        except PortError as error:
            partitions = []
            troubles.append(f"Partitions are not known: {error}")
        called = self._names()
        if called:
            jobs = tuple(_renamed_job(job, called) for job in jobs)
            offers = tuple(replace(one, node=called.get(one.node, one.node)) for one in offers)
        return Reading(
            at,
            objects=jobs,
            members=tuple(
                replace(member, node=called.get(member.node, member.node)) if called else member
                for raw in raw_jobs
                for member in decode_jobs.members(raw)
            ),
            queues=tuple(decode_nodes.partition(raw, jobs, offers) for raw in partitions),
            offers=offers,
            troubles=tuple(troubles),
        )


def _renamed_job(job: GangObject, called: Mapping[str, str]) -> GangObject:
    if not job.planned_nodes:
        return job
    return replace(job, planned_nodes=tuple(called.get(name, name) for name in job.planned_nodes))
