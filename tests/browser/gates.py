"""The steps of a workflow, each kept from beginning until a test lets it.

Decides that a step waits where the worker writes down that it begins, so that whoever looks sees it however short it is
and however slow the machine. Refuses to change what a step does, and how long it then takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

GATE = """
CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(TG_RELID::int, NEW.index);
    RETURN NEW;
END $$;
CREATE TRIGGER gate BEFORE INSERT ON lifecycle_step FOR EACH ROW EXECUTE FUNCTION gate();
"""
SHUT = "SELECT pg_advisory_lock('lifecycle_step'::regclass::int, %s)"
OPEN = "SELECT pg_advisory_unlock('lifecycle_step'::regclass::int, %s)"


class Gates:
    """`open(2)` lets the third step begin."""

    def __init__(self, link: psycopg.Connection) -> None:
        self._link = link

    def shut(self, steps: Sequence[int]) -> None:
        for step in steps:
            self._link.execute(SHUT, [step])

    def open(self, step: int) -> None:
        self._link.execute(OPEN, [step])


@contextlib.contextmanager
def gates(var: Path, steps: Sequence[int]) -> Iterator[Gates]:
    """Shut ones at `steps` of every workflow, in the database of the Muster whose folder this is."""
    url = (var / "run" / "database.url").read_text(encoding="utf-8").strip()
    with psycopg.connect(url, autocommit=True) as link:
        link.execute(GATE)
        found = Gates(link)
        found.shut(steps)
        yield found
