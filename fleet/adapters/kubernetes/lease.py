"""The Lease that says which installation may act in a cluster.

Decides who holds it: the one named in it, until it is older than its duration. Refuses to take over a live lease, and
to win a race by force: every write carries the resourceVersion that was read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.errors import refused
from fleet.ports.clock import Clock
from fleet.ports.errors import Conflict, NotFound
from fleet.ports.shapes import mapping, moment, text, whole

NAME = "muster"
_RESOURCE = "leases.coordination.k8s.io"
_RACES = 3


def claim(api: ApiServer, namespace: str, installation: str, ttl_seconds: int, clock: Clock) -> bool:
    """Take or renew the lease; False when another installation holds it."""
    collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    for race in range(_RACES):
        now = clock.now()
        try:
            current = mapping(api.get(f"{collection}/{NAME}", _RESOURCE))
        except NotFound:
            current = {}
        spec = mapping(current.get("spec"))
        if current and not may_hold(spec, installation, now):
            return False
        if race and text(spec.get("holderIdentity")) == installation and _is_live(spec, now):
            return True  # the race was won by another thread or process of this installation
        body = _renewed(current, namespace, installation, ttl_seconds, now)
        try:
            _put(api, collection, body, create=not current)
        except Conflict:
            continue
        return True
    return False


def may_hold(spec: dict[str, Any], installation: str, now: datetime) -> bool:
    holder = text(spec.get("holderIdentity"))
    if not holder or holder == installation:
        return True
    return not _is_live(spec, now)


def _is_live(spec: dict[str, Any], now: datetime) -> bool:
    renewed = moment(spec.get("renewTime")) or moment(spec.get("acquireTime"))
    return renewed is not None and now <= renewed + timedelta(seconds=whole(spec.get("leaseDurationSeconds"), 0))


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
