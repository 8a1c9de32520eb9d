"""Is anybody working? Each tick that a worker has run leaves a mark in Redis, which is forgotten soon.

Decides how long a mark counts. Refuses to be a fact: a flushed Redis says "nobody" until the next tick, and nothing is
decided upon it; people and the start are told.
"""

from __future__ import annotations

import contextlib

import redis

from fleet.bus.outbox import connection

KEY, SECONDS = "muster:tick", 15


def beat() -> None:
    """A worker has run a tick, so beat, broker and worker do their part."""
    with contextlib.suppress(redis.RedisError):
        connection().set(KEY, "1", ex=SECONDS)


def is_felt() -> bool:
    """Has there been a tick lately? Raises RedisError."""
    return bool(connection().exists(KEY))
