"""The Lease that says which installation may act in a cluster.

Decides who holds it: the one named in it, until we have seen it stand still for its whole duration, by our own clock
that only goes forward. Refuses to compare the time that another wrote with ours, since either clock may be wrong and
both would act then; and to win a race by force: every write carries the resourceVersion that was read.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.errors import refused
from fleet.ports.clock import Clock
from fleet.ports.errors import Conflict, NotFound
from fleet.ports.shapes import mapping, text, whole

NAME = "muster"
_RESOURCE = "leases.coordination.k8s.io"
_RACES = 3


class Watched:
    """Since when the Lease of another has been seen unchanged: one of each process and server, which knows nothing at
    first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[str, ...] = ()
        self._since = 0.0

    def ran_out(self, spec: dict[str, Any], ttl_seconds: int) -> bool:
        """Has it stood still for longer than it was taken for? One that does not tell counts as ours would."""
        seen = tuple(str(spec.get(part)) for part in ("holderIdentity", "acquireTime", "renewTime", "leaseTransitions"))
        now = self._clock.monotonic()
        with self._lock:
            if seen != self._seen:
                self._seen, self._since = seen, now
            return now - self._since > max(whole(spec.get("leaseDurationSeconds"), 0), ttl_seconds)


def claim(api: ApiServer, namespace: str, installation: str, ttl_seconds: int, clock: Clock, watched: Watched) -> bool:
    """Take or renew the lease; False when another installation holds it, or may still."""
    collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    for race in range(_RACES):
        try:
            current = mapping(api.get(f"{collection}/{NAME}", _RESOURCE))
        except NotFound:
            current = {}
        spec = mapping(current.get("spec"))
        holder = text(spec.get("holderIdentity"))
        if holder not in ("", installation) and not watched.ran_out(spec, ttl_seconds):
            return False
        if race and holder == installation:
            return True  # the race was won by another thread or process of this installation
        body = _renewed(current, namespace, installation, ttl_seconds, clock.now())
        try:
            _put(api, collection, body, create=not current)
        except Conflict:
            continue
        return True
    return False


def _renewed(
    current: dict[str, Any], namespace: str, installation: str, ttl_seconds: int, now: datetime
) -> dict[str, Any]:
    stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    before = mapping(current.get("spec"))
    spec = {**before, "holderIdentity": installation, "leaseDurationSeconds": ttl_seconds, "renewTime": stamp}
    if text(before.get("holderIdentity")) != installation:
        spec["acquireTime"] = stamp
        spec["leaseTransitions"] = whole(before.get("leaseTransitions"), 0) + (1 if before else 0)
    meta = mapping(current.get("metadata")) or {"name": NAME, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


def _put(api: ApiServer, collection: str, body: dict[str, Any], create: bool) -> None:
    call = api.call("create" if create else "update", _RESOURCE)
    path = collection if create else f"{collection}/{NAME}"
    answer = api.write(call, "POST" if create else "PUT", path, body)
    if not answer.ok:
        raise refused(call, answer)
