"""Savepoints that travel with the statement after them: a third of what a story sends is theirs.

Decides only when they are sent. What the server has seen before any other statement is what it would have seen;
a savepoint within which nothing was sent is never made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.utils import CursorWrapper


class Savepoints:
    """Those of one transaction. `waiting` are statements not sent yet; a name says how deep its savepoint lies."""

    def __init__(self) -> None:
        self.open: list[str] = []  # Django's names, the outermost first
        self.waiting: list[str] = []
        self.made: set[str] = set()  # those that the server has been told of, or will be with `waiting`

    def _name(self, sid: str) -> str:
        return f"deep_{self.open.index(sid)}"

    def begin(self, sid: str) -> None:
        self.open.append(sid)
        self.made.add(sid)
        self.waiting.append(f"SAVEPOINT {self._name(sid)}; ")

    def commit(self, sid: str) -> None:
        if sid in self.made:
            begun = f"SAVEPOINT {self._name(sid)}; "
            if self.waiting and self.waiting[-1] == begun:
                self.waiting.pop()
            else:
                self.waiting.append(f"RELEASE SAVEPOINT {self._name(sid)}; ")
        self._close(sid)

    def roll_back(self, sid: str) -> str:
        """The statement to send at once, or nothing. Whatever waits lies inside."""
        begun = f"SAVEPOINT {self._name(sid)}; "
        if begun in self.waiting:
            del self.waiting[self.waiting.index(begun) :]
            self.made.discard(sid)
            return ""
        self.waiting.clear()
        return f"ROLLBACK TO SAVEPOINT {self._name(sid)}"

    def _close(self, sid: str) -> None:
        del self.open[self.open.index(sid) :]
        self.made.discard(sid)

    def take(self) -> tuple[str, int]:
        """What to send before the next statement, and how many statements that is."""
        ahead, count = "".join(self.waiting), len(self.waiting)
        self.waiting.clear()
        return ahead, count


class Carrying(CursorWrapper):
    """A cursor whose first statement carries the savepoints that wait."""

    savepoints: Savepoints

    def _execute(self, sql: Any, params: Any, *ignored: Any) -> Any:
        ahead, count = self.savepoints.take()
        if ahead and isinstance(self.cursor, psycopg.ServerCursor):
            self.db.connection.execute(ahead)
            count = 0
        elif ahead:
            sql = ahead + sql
        answer = super()._execute(sql, params)  # type: ignore[misc]
        for _ in range(count):
            self.cursor.nextset()
        return answer

    def _executemany(self, sql: Any, param_list: Any, *ignored: Any) -> Any:
        ahead, _ = self.savepoints.take()
        if ahead:
            self.db.connection.execute(ahead)
        return super()._executemany(sql, param_list)  # type: ignore[misc]


@contextmanager
def carried() -> Iterator[None]:
    """Within a transaction that is rolled back at its end: what waits then is forgotten."""
    held = Savepoints()
    db: Any = connections[DEFAULT_DB_ALIAS]

    def make_cursor(cursor: Any) -> CursorWrapper:
        made = Carrying(cursor, db)
        made.savepoints = held
        return made

    def roll_back(sid: str) -> None:
        if statement := held.roll_back(sid):
            with db.cursor() as cursor:
                cursor.execute(statement)

    ours = {
        "make_cursor": make_cursor, "make_debug_cursor": make_cursor, "_savepoint": held.begin,
        "_savepoint_commit": held.commit, "_savepoint_rollback": roll_back,
    }  # fmt: skip
    try:
        for name, what in ours.items():
            setattr(db, name, what)
        yield
    finally:
        for name in ours:
            db.__dict__.pop(name, None)
