"""The nodes of a large cluster, packed by its observer and kept in Redis for the pages.

Decides from which size a cluster is worth it, and what is asked of the database: the nodes that hints name, and
everything once in a while, because a hint may be lost. A version travels beside the rows, and beside that what changed
since the last few versions, so that a process which has read the rows once reads only changes (`fleet_kept`). All of it
expires soon after the observer ends. Refuses to be a truth: who finds nothing here asks the query (`fleet_map.rows`).
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable
from typing import Any

import orjson
import redis
from redis.client import PubSub

from fleet.bus import outbox
from fleet.readmodels import fleet_map
from fleet.readmodels.fleet_map import NodeRow

log = logging.getLogger(__name__)
FROM_NODES = 2_000
KEEP_SECONDS = 10
ALL_EVERY = 30.0  # seconds until everything is read again
NAMED_AT_MOST = 1_000  # more nodes than that are read with all the others
CHANGES_KEPT = 16  # versions that a reader may be behind
FORM = 2  # raise it with every change of NodeRow
MARK = "rows"  # what our own hints refer to
Change = tuple[str, str, list[tuple[int, NodeRow]]]  # from version, to version, (place, row) of what differs


def pack(rows: Iterable[NodeRow]) -> bytes:
    return orjson.dumps([tuple(row) for row in rows])


class Publisher:
    """One cluster's, in its observer. Where nothing was heard of, a turn costs no query; pages hear of changes."""

    def __init__(self, cluster_id: int, name: str, from_nodes: int = FROM_NODES) -> None:
        self._id, self._name, self._from = cluster_id, name, from_nodes
        self._rows: list[NodeRow] = []
        self._places: dict[str, int] = {}
        self._changes: list[Change] = []
        self._named: set[str] = set()
        self._all_at = float("-inf")  # when everything was read
        self._ear: PubSub | None = None
        self._life, self._count = secrets.token_hex(6), 0
        self._told = False

    def turn(self, nodes: int) -> None:
        """`nodes` is how many the cluster has; of small ones the query is as fast."""
        if nodes < self._from:
            return
        try:
            self._listen()
        except (redis.RedisError, OSError) as error:
            self._deaf(error)
        differs = self._read()
        try:
            self._publish(differs)
        except redis.RedisError as error:
            self._told = False
            log.warning("the fleet page's rows were not published: %s", error)

    def _listen(self) -> None:
        """Take the names out of the hints of this cluster since the last turn."""
        if self._ear is None:
            self._all_at = float("-inf")
            self._ear = outbox.connection().pubsub()
            self._ear.subscribe(outbox.HINT_CHANNEL)
            self._ear.get_message(timeout=1)  # that it listens; what is read after that misses nothing
        while (message := self._ear.get_message(timeout=0)) is not None:
            if message["type"] == "message":
                for hint in orjson.loads(message["data"]):
                    self._hear(hint)

    def _hear(self, hint: dict[str, Any]) -> None:
        if hint.get("cluster") != self._id:
            return
        if hint["node"]:
            self._named.add(hint["node"])
        elif hint["topic"] == "fleet" and hint["ref"] != MARK:
            self._all_at = float("-inf")  # so many that they were not named

    def _deaf(self, error: Exception) -> None:
        log.warning("the hints for the fleet page are not heard: %s", error)
        if self._ear is not None:
            self._ear.close()
            self._ear = None

    def _read(self) -> bool:
        """Ask for what may have changed; whether anything has."""
        if len(self._named) > NAMED_AT_MOST or time.monotonic() - self._all_at > ALL_EVERY:
            began = time.monotonic()
            rows = fleet_map.rows(None, self._name)
            changed = self._compared(rows)
            self._all_at = began
        elif self._named:
            fresh = fleet_map.rows(None, self._name, *self._named)
            if len(fresh) == len(self._named) and all(row.name in self._places for row in fresh):
                changed = [(self._places[row.name], row) for row in fresh if self._rows[self._places[row.name]] != row]
            else:  # one came or went
                changed = self._compared(fleet_map.rows(None, self._name))
        else:
            return False
        self._named.clear()
        if changed is None:
            return True
        for place, row in changed:
            self._rows[place] = row
        if changed:
            before = self._version
            self._count += 1
            self._changes = [*self._changes, (before, self._version, changed)][-CHANGES_KEPT:]
        return bool(changed)

    def _compared(self, rows: list[NodeRow]) -> list[tuple[int, NodeRow]] | None:
        """What differs from before; None when they are other nodes, which no list of changes tells."""
        if len(rows) == len(self._rows) and all(
            row.name == old.name for row, old in zip(rows, self._rows, strict=True)
        ):
            return [(place, row) for place, row in enumerate(rows) if row != self._rows[place]]
        self._rows, self._places = rows, {row.name: place for place, row in enumerate(rows)}
        self._changes = []
        self._count += 1
        return None

    @property
    def _version(self) -> str:
        return f"{FORM}:{self._life}:{self._count}"

    def _publish(self, differs: bool) -> None:
        broker = outbox.connection()
        names = [rows_key(self._id), changes_key(self._id), version_key(self._id)]
        if not differs and self._told:
            with broker.pipeline() as pipe:
                for name in names:
                    pipe.expire(name, KEEP_SECONDS)
                if all(pipe.execute()):
                    return
        changes = orjson.dumps([(a, b, [(place, tuple(row)) for place, row in some]) for a, b, some in self._changes])
        with broker.pipeline() as pipe:
            bodies: list[bytes | str] = [pack(self._rows), changes, self._version]
            for name, body in zip(names, bodies, strict=True):
                pipe.set(name, body, ex=KEEP_SECONDS)
            pipe.execute()
        if differs or not self._told:
            self._told = True
            outbox.hint(orjson.dumps([{"topic": "fleet", "ref": MARK, "node": "", "cluster": self._id}]))


def rows_key(cluster_id: int) -> str:
    return f"muster:fleet:{cluster_id}:rows"


def changes_key(cluster_id: int) -> str:
    return f"muster:fleet:{cluster_id}:changes"


def version_key(cluster_id: int) -> str:
    return f"muster:fleet:{cluster_id}:version"
