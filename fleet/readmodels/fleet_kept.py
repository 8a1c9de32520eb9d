"""The rows that an observer published (`fleet_blob`), as one web process keeps them.

Decides that rows are unpacked once per version, or taken from the version before with what changed, and that what
follows from them is worked out once. Refuses what is of another form or cannot be read: the caller asks the database.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import orjson
import redis

from fleet.bus import outbox
from fleet.readmodels.fleet_blob import FORM, changes_key, rows_key, version_key
from fleet.readmodels.fleet_map import NodeRow

Made = TypeVar("Made")
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


def unpack(body: bytes) -> Kept:
    collects = gc.isenabled()
    gc.disable()  # ten thousand rows that stay: each look of the collector at them would be for nothing
    try:
        return Kept(map(_row, orjson.loads(body)))
    finally:
        if collects:
            gc.enable()


def _row(raw: list[Any]) -> NodeRow:
    if raw[UNTIL] is not None:
        raw[UNTIL] = datetime.fromisoformat(raw[UNTIL])
    return NodeRow(*raw)


def fetch(cluster_ids: Iterable[int]) -> dict[int, Kept]:
    """The rows of those clusters that have them; the others are to be asked of the database."""
    global _silent_until
    ids = list(cluster_ids)
    if not ids or time.monotonic() < _silent_until:
        return {}
    try:
        versions: list[Any] = outbox.connection().mget([version_key(pk) for pk in ids])
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
        try:
            rows = (_changed(cluster_id, known, version) if known is not None else None) or _whole(cluster_id)
        except (ValueError, TypeError, LookupError):
            return None
        if rows is not None:
            _read[cluster_id] = (version, rows)
        return rows


def _whole(cluster_id: int) -> Kept | None:
    body: Any = outbox.connection().get(rows_key(cluster_id))
    return None if body is None else unpack(body)


def _changed(cluster_id: int, known: tuple[str, Kept], version: str) -> Kept | None:
    """The rows that are known with what changed up to `version`; None where the changes do not reach back so far."""
    body: Any = outbox.connection().get(changes_key(cluster_id))
    at, rows = known[0], Kept(known[1])
    for before, after, some in orjson.loads(body or b"[]"):
        if before != at or at == version:
            continue
        at = after
        for place, raw in some:
            rows[place] = _row(raw)
    return rows if at == version else None
