"""The site's rules file, read at the start and whenever it changes.

Decides by the file's time and size, once a cycle, whether to read it again. Refuses to judge by a broken file: the
rules that were read last stay, over a restart, too, and the cluster's page says what is wrong and where. As long as a
rule's mode is limited, the open incidents are brought to it with every look, because what was found just before the
file changed is stored after it, and nodes change their pools.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from fleet.health.modes import ModeOf
from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.siterules import BadRules, parse
from fleet.health.rules.tuning import Tuning
from fleet.health.rules.types import Edge, Rule

log = logging.getLogger(__name__)
Stamp = tuple[int, int, int]


class Kept(Protocol):
    """Where the rules that are judged by are remembered over a restart."""

    def text(self) -> str | None:
        """The text that was judged by last; None where nothing was judged yet."""

    def keep(self, text: str, changed: set[str], now: datetime) -> None:
        """`text` is judged by from now on; it changed these rules."""

    def renew(self, mode_of: ModeOf, now: datetime) -> None:
        """Bring what is open to the modes that hold now."""


class RulesFile:
    """`problem` is a sentence while the file cannot be used, else empty."""

    def __init__(self, path: str, kept: Kept) -> None:
        self._path = Path(path) if path else None
        self._seen: Stamp | None = None
        self.problem = ""
        self._kept = kept
        self._known = self._path is None  # do we know which rules hold? A broken file without a predecessor says none
        self._limited = True  # may something open be in a mode below automate?

    def look(self, engine: RuleEngine, now: datetime) -> list[Edge]:
        """Give a changed file to the engine; the edges of findings that the change ended.

        The engine comes last: what the database raises before leaves the file to be read again.
        """
        read = self._read(now)
        fallback = self._before() if self.problem and not self._known and read is None else None
        tuning = read[0] if read else fallback
        holds = tuning or engine.tuning
        if (self._known or tuning is not None) and (self._limited or holds.limited):
            self._kept.renew(holds.mode_of, now)
            self._limited = holds.limited
        if tuning is None:
            return []
        if read is not None:
            self._seen, self.problem = read[1], ""
            log.info("rules read from %s", self._path)
        self._known = True
        return engine.retune(tuning, now)

    def _read(self, now: datetime) -> tuple[Tuning, Stamp] | None:
        """What a changed file says; None where it says nothing new, or nothing that can be used."""
        if self._path is None:
            return None
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._seen:
                return None
            text = self._path.read_text(encoding="utf-8")
            tuning = parse(text, str(self._path))
        except (OSError, UnicodeDecodeError) as error:
            self._complain(f"The rules file {self._path} cannot be read: {error}")
            return None
        except BadRules as error:
            self._seen = stamp
            self._complain(f"The rules file has {len(error.mistakes)} mistakes; the rules before stay. {error}")
            return None
        before = self._before()
        self._kept.keep(text, _differing(before, tuning) if before is not None else set(), now)
        return tuning, stamp

    def _before(self) -> Tuning | None:
        """What was judged by last, by this process or another; None where nothing was, or by what cannot be read."""
        text = self._kept.text()
        try:
            return parse(text, "the rules before") if text is not None else None
        except BadRules:
            return None

    def _complain(self, text: str) -> None:
        if text != self.problem:
            log.warning("%s", text)
        self.problem = text[:400]


def _differing(old: Tuning, new: Tuning) -> set[str]:
    """Rules that judge differently now, in any pool; what codes mean concerns every rule, a mode no judgement."""
    if old.codes != new.codes:
        return set(new.rules)
    found = {rule for rule, said in new.rules.items() if _judges(old.rules, rule) != _judges({rule: said}, rule)}
    for pool in old.pools.keys() | new.pools.keys():
        before, after = old.pools.get(pool, {}), new.pools.get(pool, {})
        found |= {rule for rule in before.keys() | after.keys() if _judges(before, rule) != _judges(after, rule)}
    return found


def _judges(rules: Mapping[str, Rule], rule_id: str) -> Rule | None:
    rule = rules.get(rule_id)
    return replace(rule, mode="automate") if rule else None
