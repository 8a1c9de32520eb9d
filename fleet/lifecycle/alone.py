"""One caller at a time at a BMC or a provider, whatever the clocks say.

Decides by a lock that its database session holds: it lasts exactly as long as the caller lives and calls. The
deadlines of intents say the same by the wall clock, for callers that died; a clock that is set forward makes those pass
early, and then this still keeps a second caller away from the first. Refuses to wait: who finds it taken looks again
later; and to let the lock of a worker whose host died last until the server's system gives the connection up, which
takes hours by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

TAKE = """SELECT set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false),
set_config('tcp_keepalives_count', '3', false), pg_try_advisory_lock(hashtextextended(%s, 0))"""
GIVE_BACK = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"


@contextmanager
def at(what: str) -> Iterator[bool]:
    """Is nobody else calling `what` now? If so, nobody else does before this ends."""
    mine = _ask(TAKE, what)
    try:
        yield mine
    finally:
        if mine:
            _ask(GIVE_BACK, what)


def _ask(statement: str, what: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, [what])
        return bool(cursor.fetchone()[-1])
