"""The site's rules file, read at the start and whenever it changes.

Decides by the file's time and size, once a cycle, whether to read it again. Refuses to judge by a broken file: the
rules that were read last stay, and the cluster's page says what is wrong and where.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from pathlib import Path

from fleet.health.limits import LIMITS
from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.siterules import BadRules, parse
from fleet.health.rules.tuning import Tuning
from fleet.health.rules.types import Edge

log = logging.getLogger(__name__)
Stamp = tuple[int, int, int]


class RulesFile:
    """`problem` is a sentence while the file cannot be used, else empty."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._seen: Stamp | None = None
        self.problem = ""
        self._tuning: Tuning | None = None
        self._changed: dict[str, datetime] = {}

    def changed_lately(self, now: datetime) -> dict[str, str]:
        """Rules that a new reading of the file changed a short while ago -> what happened, to go on a sentence.

        What was read at the start is no change: nothing was judged before it.
        """
        since = now - timedelta(seconds=LIMITS.changed_window)
        self._changed = {rule: at for rule, at in self._changed.items() if at > since}
        return {rule: f"its rule was changed at {at:%H:%M} UTC" for rule, at in self._changed.items()}

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
        if self._tuning is not None:
            self._changed |= dict.fromkeys(_differing(self._tuning, tuning), now)
        self._tuning = tuning
        log.info("rules read from %s", self._path)
        return engine.retune(tuning, now)

    def _complain(self, text: str) -> None:
        if text != self.problem:
            log.warning("%s", text)
        self.problem = text[:400]


def _differing(old: Tuning, new: Tuning) -> set[str]:
    """Rules that judge differently now, in any pool; what codes mean concerns every rule."""
    if old.codes != new.codes:
        return set(new.rules)
    found = {rule for rule, said in new.rules.items() if old.rules.get(rule) != said}
    for pool in old.pools.keys() | new.pools.keys():
        before, after = old.pools.get(pool, {}), new.pools.get(pool, {})
        found |= {rule for rule in before.keys() | after.keys() if before.get(rule) != after.get(rule)}
    return found
