"""The site's rules file, read at the start and whenever it changes.

Decides by the file's time and size, once a cycle, whether to read it again. Refuses to judge by a broken file: the
rules that were read last stay, and the cluster's page says what is wrong and where.
"""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.siterules import BadRules, parse
from fleet.health.rules.types import Edge

log = logging.getLogger(__name__)
Stamp = tuple[int, int, int]


class RulesFile:
    """`problem` is a sentence while the file cannot be used, else empty."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._seen: Stamp | None = None
        self.problem = ""

    def look(self, engine: RuleEngine, now: datetime) -> list[Edge]:
        """Give a changed file to the engine; the edges of findings that the change ended."""
        if self._path is None:
            return []
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._seen:
                return []
            tuning = parse(self._path.read_text(encoding="utf-8"), str(self._path))
        except (OSError, UnicodeDecodeError) as error:
            self._complain(f"The rules file {self._path} cannot be read: {error}")
            return []
        except BadRules as error:
            self._seen = stamp
            self._complain(f"The rules file has {len(error.mistakes)} mistakes; the rules before stay. {error}")
            return []
        self._seen, self.problem = stamp, ""
        log.info("rules read from %s", self._path)
        return engine.retune(tuning, now)

    def _complain(self, text: str) -> None:
        if text != self.problem:
            log.warning("%s", text)
        self.problem = text[:400]
