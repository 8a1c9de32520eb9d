"""The Events that controllers of the simulated cluster write about what they did.

It decides their shape and how many are kept. It refuses to repeat one without end: the oldest leave.
"""

import uuid
from collections import deque
from random import Random

from fleet.simulator.store import Record, Store
from fleet.simulator.timeline import Timeline

KEPT = 1000


class Happenings:
    def __init__(self, store: Store, timeline: Timeline, rng: Random) -> None:
        self.events = store["events"]
        self.timeline = timeline
        self.rng = rng
        self.keys: deque[str] = deque()

    def tell(self, kind: str, about: Record, reason: str, message: str, source: str, warning: bool = False) -> None:
        now = self.timeline.stamp()
        namespace = about.namespace or "default"
        involved = {"kind": kind, "apiVersion": "v1", "name": about.name, "uid": about.uid}
        if about.namespace:
            involved["namespace"] = about.namespace
        record = self.events.put(
            {
                "metadata": {
                    "name": f"{about.name}.{self.rng.getrandbits(64):016x}",
                    "namespace": namespace,
                    "uid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
                    "creationTimestamp": now,
                },
                "involvedObject": involved,
                "reason": reason,
                "message": message,
                "type": "Warning" if warning else "Normal",
                "source": {"component": source},
                "reportingComponent": source,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
        )
        self.keys.append(record.key)
        while len(self.keys) > KEPT:
            self.events.remove(self.keys.popleft())
