"""The book of playbooks in force: those Muster brings, and the site's own file before them.

Decides by the file's time and size whether to read it again, at most once a second. Refuses to plan by a broken file:
the book read last stays, and `problem` says what is wrong and where. Until a site's file was read once, nothing is
planned at all: it may be there to forbid what we would do.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

from django.conf import settings

from fleet.lifecycle.playbook_file import BadPlaybooks, parse
from fleet.lifecycle.playbooks import Book, Playbook

log = logging.getLogger(__name__)
BUILT_IN = Path(__file__).with_name("playbooks.yaml")
LOOK_EVERY = 1.0


def built_in() -> tuple[Playbook, ...]:
    return parse(BUILT_IN.read_text(encoding="utf-8"), BUILT_IN.name, "built in")


def merged(own: tuple[Playbook, ...]) -> tuple[Playbook, ...]:
    """The site's first; one of the same name stands in for ours."""
    names = {playbook.name for playbook in own}
    return (*own, *(playbook for playbook in built_in() if playbook.name not in names))


class Shelf:
    """One process's view of the file at `path` ("" for none)."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._stamp: tuple[int, int, int] | None = None
        self._looked = float("-inf")
        self._book = Book(()) if self._path else Book(built_in())

    def book(self) -> Book:
        """The book in force now."""
        if self._path is None or time.monotonic() - self._looked < LOOK_EVERY:
            return self._book
        self._looked = time.monotonic()
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return self._book
            own = parse(self._path.read_text(encoding="utf-8"), str(self._path))
            self._stamp, self._book = stamp, Book(merged(own))
            log.info("playbooks read from %s", self._path)
        except (OSError, UnicodeDecodeError, BadPlaybooks) as error:
            problem = f"The playbooks file {self._path} cannot be used; the book before stays. {error}"[:600]
            if problem != self._book.problem:
                log.warning("%s", problem)
            self._book = Book(self._book.playbooks, problem)
        return self._book


_shelves: dict[str, Shelf] = {}


def book() -> Book:
    """The book of this installation (setting PLAYBOOKS_FILE)."""
    path = str(settings.PLAYBOOKS_FILE)
    if path not in _shelves:  # making one reads the built-in book, which takes as long as planning for hundreds
        _shelves[path] = Shelf(path)
    return _shelves[path].book()
