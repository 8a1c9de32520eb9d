"""Writes outbox rows and tells others after the commit.

Decides that hints and task messages leave only after the commit, and that failing to send them is no failure: the
tick and the next page load find the same rows. Refuses to carry state in a message beyond ids.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import orjson
import redis
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.bus.models import Outbox

log = logging.getLogger(__name__)
HINT_CHANNEL = "muster:hints"
SILENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Notice:
    """`topic` (workflow, node, incident, ticket, mode, policy) and `ref` say what changed; `node` whose page cares."""

    topic: str
    ref: str
    node: str = ""


@cache
def connection() -> redis.Redis:
    """Without the library's own retries: they would hold up whoever has just committed for seconds."""
    once = Retry(NoBackoff(), 0)
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2, retry=once)


def publish(cluster_id: int | None, notices: Sequence[Notice], now: datetime) -> None:
    """Write outbox rows in the caller's transaction; after its commit send one hint that names them."""
    if not notices:
        return
    rows = [
        Outbox(cluster_id=cluster_id, topic=n.topic, ref=n.ref, node=n.node, created_at=now)
        for n in dict.fromkeys(notices)
    ]
    Outbox.objects.bulk_create(rows)
    body = orjson.dumps([{"topic": r.topic, "ref": r.ref, "node": r.node, "cluster": cluster_id} for r in rows])
    transaction.on_commit(lambda: hint(body), robust=True)


_silent_until = 0.0


def hint(body: bytes) -> None:
    """After a failure nothing is tried for a second: a server that hangs must not cost each commit its time-out."""
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    try:
        connection().publish(HINT_CHANNEL, body)
    except redis.RedisError as error:
        _silent_until = time.monotonic() + SILENCE_SECONDS
        log.warning("live hint not sent: %s", error)


def send(task: str, *, can_wait: bool = False, **kwargs: Any) -> None:
    """Send a Celery message by task name now; a broker that is away costs latency only.

    What can wait is taken when nothing else is there to be done.
    """
    from fleet.bus.broker import AT_ONCE, LATER, app  # Celery is not needed by processes that never send

    try:
        app.send_task(task, kwargs=kwargs, retry=False, ignore_result=True, priority=LATER if can_wait else AT_ONCE)
    except Exception as error:  # kombu raises a zoo of transport errors; none of them may undo a committed change
        log.warning("message %s not sent: %s", task, error)


def later_waits() -> bool:
    """Are there messages that can wait and nobody has taken yet? Not if the broker does not tell."""
    from fleet.bus.broker import LATER_LIST

    if time.monotonic() < _silent_until:
        return False
    try:
        return bool(connection().llen(LATER_LIST))
    except redis.RedisError as error:
        log.warning("the messages that wait cannot be counted: %s", error)
        return False
