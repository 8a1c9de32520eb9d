"""GangPoll on YuniKorn: partitions, their queues, the applications that are active, the nodes.

Decides that applications are the reading (without them there is none) and queues and nodes are beside it: what of those
cannot be read is said. Refuses applications that are long over: YuniKorn keeps them for days.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import quote

from fleet.adapters.yunikorn import Connection
from fleet.adapters.yunikorn import applications as decode
from fleet.adapters.yunikorn import queues as decode_queues
from fleet.adapters.yunikorn.client import Client
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.errors import PortError
from fleet.ports.gangs import GangObject, QueueObject, Reading, System
from fleet.ports.shapes import items, mapping, text

MOST_PARTITIONS = 16
WAITING = ("New", "Accepted", "Resuming")


class YunikornPoll:
    system: System = "yunikorn"

    def __init__(self, connection: Connection, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client, self._clock = Client(connection), clock

    def read(self) -> Reading:
        at, troubles = self._clock.now(), list[str]()
        objects: list[GangObject] = []
        queues: list[QueueObject] = []
        names = [text(one.get("name")) for one in items(self._client.get("partitions"))]
        for name in [name for name in names if name][:MOST_PARTITIONS]:
            of_partition, of_queues = self._partition(name, troubles)
            objects += of_partition
            queues += of_queues
        if not names:
            troubles.append("YuniKorn tells no partition.")
        return Reading(at, tuple(objects), queues=tuple(queues), troubles=tuple(troubles))

    def _partition(self, name: str, troubles: list[str]) -> tuple[list[GangObject], list[QueueObject]]:
        place = f"partition/{quote(_bare(name), safe='')}"
        raws = items(self._client.get(f"{place}/applications/active"))
        raws = [raw for raw in raws if text(raw.get("applicationID"))]
        tree = self._beside(f"{place}/queues", "Queues are not known", troubles)
        roots = items(tree) if isinstance(tree, list) else [mapping(tree)]
        told = items(self._beside(f"{place}/nodes", "Nodes are not known", troubles))
        nodes = frozenset(text(one.get("nodeID")) or text(one.get("hostName")) for one in told)
        full = frozenset(name for root in roots for name in decode_queues.is_full(root))
        waiting = Counter(text(raw.get("queueName")) for raw in raws if _waits(raw))
        objects = [decode.application(raw, full, nodes) for raw in raws]
        return objects, [queue for root in roots for queue in decode_queues.tree(root, _bare(name), dict(waiting))]

    def _beside(self, path: str, words: str, troubles: list[str]) -> Any:
        try:
            return self._client.get(path)
        except PortError as error:
            troubles.append(f"{words}: {error}")
            return []


def _bare(name: str) -> str:
    """`[mycluster]default` in old versions."""
    return name.rpartition("]")[2]


def _waits(raw: dict[str, Any]) -> bool:
    return text(raw.get("applicationState")) in WAITING or bool(items(raw.get("requests")))
