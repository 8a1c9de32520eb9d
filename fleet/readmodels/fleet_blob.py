"""The nodes of a large cluster, packed by its observer and kept in Redis for the pages.

Decides from which size a cluster is worth it, and that a version travels beside the rows, so that a process which has
read them once reads only the version again. Both expire soon after the observer ends. Refuses to be a truth: what is
absent, of another form or cannot be read is answered by the query (`fleet_map.rows`).
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import orjson
import redis

from fleet.bus import outbox
from fleet.readmodels import fleet_map
from fleet.readmodels.fleet_map import NodeRow

Made = TypeVar("Made")
log = logging.getLogger(__name__)
FROM_NODES = 2_000
KEEP_SECONDS = 10
FORM = 1  # raise it with every change of NodeRow
UNTIL = NodeRow._fields.index("blocked_until")
MEMOS = 48
SILENCE_SECONDS = 5.0
_silent_until = 0.0
_lock = threading.Lock()


class Kept(list[NodeRow]):
    """Rows of one version, shared by requests and never changed, so what follows from them is worked out once."""

    def __init__(self, rows: Iterable[NodeRow] = ()) -> None:
        super().__init__(rows)
        self.memo: dict[Hashable, Any] = {}


_read: dict[int, tuple[str, Kept]] = {}


def once(rows: Sequence[NodeRow], key: Hashable, make: Callable[[], Made]) -> Made:
    """What `make` answers; for rows out of a blob the answer of the first who asked with that key."""
    if not isinstance(rows, Kept):
        return make()
    if key not in rows.memo:
        if len(rows.memo) >= MEMOS:
            rows.memo = {}
        rows.memo[key] = make()
    made: Made = rows.memo[key]
    return made


def pack(rows: Iterable[NodeRow]) -> bytes:
    return orjson.dumps([tuple(row) for row in rows])


def unpack(body: bytes) -> Kept:
    rows = Kept()
    for raw in orjson.loads(body):
        if raw[UNTIL] is not None:
            raw[UNTIL] = datetime.fromisoformat(raw[UNTIL])
        rows.append(NodeRow(*raw))
    return rows


class Publisher:
    """One cluster's, in its observer. A turn costs one query; pages hear of it when something changed."""

    def __init__(self, cluster_id: int, name: str, from_nodes: int = FROM_NODES) -> None:
        self._id, self._name, self._from = cluster_id, name, from_nodes
        self._version = ""

    def turn(self, nodes: int) -> None:
        """`nodes` is how many the cluster has; of small ones the query is as fast."""
        if nodes < self._from:
            return
        body = pack(fleet_map.rows(None, self._name))
        version = f"{FORM}:{hashlib.blake2b(body, digest_size=12).hexdigest()}"
        try:
            with outbox.connection().pipeline() as pipe:
                pipe.set(_rows_key(self._id), body, ex=KEEP_SECONDS)
                pipe.set(_version_key(self._id), version, ex=KEEP_SECONDS)
                pipe.execute()
        except redis.RedisError as error:
            log.warning("the fleet page's rows were not published: %s", error)
            return
        if version != self._version:
            self._version = version
            outbox.hint(orjson.dumps([{"topic": "fleet", "ref": self._name, "node": "", "cluster": self._id}]))


def fetch(cluster_ids: Iterable[int]) -> dict[int, Kept]:
    """The rows of those clusters that have them; the others are to be asked of the database."""
    global _silent_until
    ids = list(cluster_ids)
    if not ids or time.monotonic() < _silent_until:
        return {}
    try:
        versions: list[Any] = outbox.connection().mget([_version_key(pk) for pk in ids])
        return {
            pk: rows
            for pk, version in zip(ids, versions, strict=True)
            if version is not None and (rows := _rows(pk, version.decode())) is not None
        }
    except redis.RedisError:
        _silent_until = time.monotonic() + SILENCE_SECONDS  # one that hangs must not cost each page its time-out
        return {}


def _rows(cluster_id: int, version: str) -> Kept | None:
    known = _read.get(cluster_id)
    if known is not None and known[0] == version:
        return known[1]
    if not version.startswith(f"{FORM}:"):
        return None
    with _lock:  # one thread unpacks, the others wait for what it made
        known = _read.get(cluster_id)
        if known is not None and known[0] == version:
            return known[1]
        body: Any = outbox.connection().get(_rows_key(cluster_id))
        if body is None:
            return None
        try:
            rows = unpack(body)
        except (ValueError, TypeError, LookupError):
            return None
        _read[cluster_id] = (version, rows)
        return rows


def _rows_key(cluster_id: int) -> str:
    return f"muster:fleet:{cluster_id}:rows"


def _version_key(cluster_id: int) -> str:
    return f"muster:fleet:{cluster_id}:version"
