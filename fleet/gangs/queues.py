"""Queues found by the names that gangs carry.

Decides that a name means the queue of the gang's own system, that a local queue stands for the one it leads to, and
that a stopped local queue stops its own alone. Refuses to add quotas of different flavors up: none stands for another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fleet.gangs.form import Gang
from fleet.ports.gangs import QueueObject

# Which system's queues a gang of another system waits in: it is admitted there and placed here.
_KINDS = ("ClusterQueue", "Queue", "Partition", "ElasticQuota")


class Queues:
    def __init__(self, queues: Iterable[QueueObject]) -> None:
        self.all = {queue.ref.key: queue for queue in queues}
        self._local = {
            (queue.ref.namespace, queue.ref.name): queue
            for queue in self.all.values()
            if queue.ref.kind == "LocalQueue"
        }
        self._found: dict[tuple[tuple[str, ...], str, str], QueueObject | None] = {}  # gangs are many, queues are few
        self._named: dict[tuple[str, str], QueueObject] = {}
        for queue in self.all.values():
            if queue.ref.kind in _KINDS:
                name = queue.ref.namespace if queue.ref.kind == "ElasticQuota" else queue.ref.name
                self._named[queue.ref.system, name] = queue  # an ElasticQuota is its namespace's, whatever it is called

    def of(self, gang: Gang) -> QueueObject | None:
        """The queue that it waits in; None where no object tells of one."""
        systems = (*(one.ref.system for one in gang.objects if one.queue == gang.queue), gang.system)
        asked = systems, gang.namespace, gang.queue
        if asked not in self._found:
            self._found[asked] = self._find(*asked)
        return self._found[asked]

    def _find(self, systems: tuple[str, ...], namespace: str, name: str) -> QueueObject | None:
        for system in dict.fromkeys(systems):
            if system == "kueue":
                local = self._local.get((namespace, name))
                if local is not None:
                    leads = self._named.get(("kueue", local.leads_to))
                    return local if leads is None else replace(leads, stopped=leads.stopped or local.stopped)
            found = self._named.get((system, name))
            if found is not None:
                return found
        return self._named.get(("coscheduling", namespace))

    def homes(self, gangs: Iterable[Gang]) -> tuple[dict[str, str], dict[str, QueueObject]]:
        """Key of each gang -> key of its queue, or the plain name where there is no object, or ""; and the queues by
        the keys that are objects."""
        keys: dict[str, str] = {}
        queues: dict[str, QueueObject] = {}
        for gang in gangs:
            queue = self.of(gang)
            keys[gang.key] = key = gang.queue if queue is None else queue.ref.key
            if queue is not None:
                queues[key] = queue
        return keys, queues
