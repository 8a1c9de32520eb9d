"""RayDashboard over HTTP: one look in a handful of requests.

Decides that a dashboard which answers nothing is an error and one that answers in part is a reading which says what is
missing; that a list which Ray cut short counts as unread where its absence would be believed (actors, jobs). Refuses to
take longer than its patience.
"""

from __future__ import annotations

import logging
import time
from typing import Any
from urllib.parse import quote

from fleet.adapters.ray import Connection, decode, train
from fleet.adapters.ray.client import Client
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.errors import PortError
from fleet.ports.ray import RayReading
from fleet.ports.shapes import items, mapping, text

log = logging.getLogger(__name__)
LIMIT = 10_000  # entries that Ray's state API lists at most
ALIVE = f"/api/v0/actors?limit={LIMIT}&detail=1&filter_keys=state&filter_predicates=%21%3D&filter_values=DEAD"
LOG_BYTES = 256 << 10  # of the end of a log


class Dashboard:
    def __init__(self, connection: Connection, clock: Clock = SYSTEM_CLOCK) -> None:
        self._connection, self._clock = connection, clock
        self._client = Client(connection)
        self.left_out = 0  # entries of the last look that had no id

    def read(self) -> RayReading:
        at = self._clock.now()
        look = _Look(self._client, time.monotonic() + self._connection.patience)
        version = text(mapping(look.need("/api/version")).get("ray_version"))
        groups = decode_all(look, "placement_groups", f"/api/v0/placement_groups?detail=1&limit={LIMIT}")
        nodes = decode_all(look, "nodes", f"/api/v0/nodes?detail=1&limit={LIMIT}")
        actors = decode_all(look, "actors", ALIVE, whole=True)
        jobs = look.jobs()
        formatted = text(mapping(mapping(look.ask("cluster_status", "/api/cluster_status?format=1")).get("data"))
                         .get("clusterStatus"))  # fmt: skip
        used, total, unused = decode.usage(formatted) or (None, None, None)
        found = RayReading(
            at,
            version=version[:64],
            healthy=look.healthy(),
            placement_groups=decode.each(groups, decode.placement_group),
            nodes=decode.each(nodes, decode.node),
            jobs=decode.each(jobs, decode.job),
            runs=look.runs(),
            live_actor_groups=frozenset(decode.each(actors, decode.group_of_actor)),
            largest_ask=decode.largest_ask(formatted),
            gpus_total=total,
            gpus_used=used,
            gpus_reserved_unused=unused,
            unread=tuple(dict.fromkeys(look.unread)),
        )
        self.left_out = sum(map(len, (groups, nodes, jobs))) - sum(
            map(len, (found.placement_groups, found.nodes, found.jobs))
        )
        return found

    def log_tail(self, submission: str, lines: int = 1000) -> str:
        """Its last bytes where the lines are very long."""
        until = time.monotonic() + self._connection.patience
        path = f"/api/v0/logs/file?submission_id={quote(submission, safe='')}&lines={int(lines)}"
        status, body = self._client.fetch(path, until)
        if status >= 400:
            answer = mapping(self._client.get(f"/api/jobs/{quote(submission, safe='')}/logs", until))
            return _end(text(answer.get("logs")), lines)
        return _end(body[-LOG_BYTES:].decode("utf-8", "replace"), lines)


def decode_all(look: _Look, name: str, path: str, *, whole: bool = False) -> list[dict[str, Any]]:
    """Entries of the state API; `whole`: a part of them says nothing."""
    answer = look.ask(name, path)
    if answer is None:
        return []
    entries, complete = decode.listed(answer)
    if not complete and (whole or not entries):
        look.unread.append(name)
        return []
    return entries


class _Look:
    """One round of requests with one patience; what fails is noted and the rest goes on."""

    def __init__(self, client: Client, until: float) -> None:
        self._client, self._until = client, until
        self.unread: list[str] = []

    def need(self, path: str) -> Any:
        return self._client.get(path, self._until)

    def ask(self, name: str, path: str) -> Any:
        try:
            return self._client.get(path, self._until)
        except PortError as error:
            log.debug("%s: %s", name, error)
            self.unread.append(name)
            return None

    def jobs(self) -> list[dict[str, Any]]:
        answer = self.ask("jobs", "/api/jobs/")
        if answer is not None and not isinstance(answer, list):
            self.unread.append("jobs")
        return items(answer)

    def runs(self) -> tuple[Any, ...]:
        """A dashboard without Ray Train, or before the first run of it, has none."""
        try:
            status, body = self._client.fetch("/api/train/v2/runs/v1", self._until)
            if status == 404 or train.UNTRACKED in body or b"Train is not installed" in body:
                return ()
            return train.runs(self._client.decoded(status, body, "/api/train/v2/runs/v1"))
        except PortError:
            self.unread.append("train")
            return ()

    def healthy(self) -> bool | None:
        try:
            status, body = self._client.fetch("/api/gcs_healthz", self._until)
        except PortError:
            return None
        return status == 200 and b"success" in body[:100]


def _end(log_text: str, lines: int) -> str:
    kept = log_text.replace("\0", "").splitlines()[-max(0, lines) :] if lines > 0 else []
    return "\n".join(kept)[-LOG_BYTES:]
