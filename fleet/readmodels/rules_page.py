"""The rules that hold, and how they fared over the last thirty days.

Decides what a rule's line tells: the site's settings against the built-in ones, the pools that differ, how often it
fired and how long it took from the first bad sample to the signal; and which single codes mean something else to the
site than to the tables. Refuses to guess from a broken file: then the
built-in rules are shown with the file's mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.health.rules import codes, wording
from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.siterules import BadRules, parse
from fleet.health.rules.tuning import Tuning
from fleet.health.rules.types import Meaning, Rule

DAYS = 30
Visible = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Fared:
    """`p50`, `p95`, `p99` are seconds from the first bad sample to the signal; None when it never fired."""

    fired: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class RuleLine:
    rule: Rule
    title: str
    limit: str
    window: str
    changed: bool
    pools: tuple[tuple[str, str], ...]  # name, and the mode of the rule there where it is another than the site's
    fared: Fared


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A code that means something else here. `pool` is empty where it is the whole site's word."""

    family: str
    code: str
    pool: str
    here: Meaning
    by_table: Meaning


@dataclass(frozen=True, slots=True)
class RulesPage:
    lines: list[RuleLine]
    codes: list[CodeLine]
    overall: Fared
    file: str
    problem: str

    @property
    def shadowed(self) -> int:
        return sum(line.rule.shadow and line.rule.enabled for line in self.lines)

    @property
    def off(self) -> int:
        return sum(not line.rule.enabled for line in self.lines)

    @property
    def changed(self) -> int:
        return sum(line.changed for line in self.lines)


def read(visible: Visible, now: datetime) -> RulesPage:
    """One query."""
    tuning, problem = _tuning(settings.RULES_FILE)
    fared = _fared(visible, now - timedelta(days=DAYS))
    lines = [
        RuleLine(
            rule,
            _(rule.title),
            wording.limit(rule, ngettext),
            wording.window(rule, ngettext),
            rule != DEFAULTS[rule.id],
            _pools(rule, tuning),
            fared.get(rule.id, Fared()),
        )
        for rule in tuning.rules.values()
    ]
    return RulesPage(lines, _codes(tuning.codes), fared.get("", Fared()), settings.RULES_FILE, problem)


def _pools(rule: Rule, tuning: Tuning) -> tuple[tuple[str, str], ...]:
    mine = {pool: own[rule.id].mode for pool, own in tuning.pools.items() if rule.id in own}
    return tuple((pool, "" if mode == rule.mode else mode) for pool, mode in mine.items())


def _codes(said: codes.Codes) -> list[CodeLine]:
    """The site's words, then those of each pool."""
    return [
        CodeLine(family, code, pool, here, codes.by_table(family, code))
        for pool, words in (("", said.site), *said.pools.items())
        for (family, code), here in words.items()
    ]


def _tuning(file: str) -> tuple[Tuning, str]:
    if not file:
        return Tuning(), ""
    try:
        return parse(Path(file).read_text(encoding="utf-8"), file), ""
    except (OSError, UnicodeDecodeError, BadRules) as error:
        return Tuning(), str(error)


def _fared(visible: Visible, since: datetime) -> dict[str, Fared]:
    """By rule, and under "" over all rules."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT coalesce(s.rule, ''), count(*), percentile_cont(ARRAY[0.5, 0.95, 0.99])
                 WITHIN GROUP (ORDER BY greatest(extract(epoch FROM s.opened_at - s.first_bad_at), 0))
               FROM health_signal s JOIN inventory_cluster c ON c.id = s.cluster_id
               WHERE s.opened_at >= %s AND (%s OR c.name = ANY(%s))
               GROUP BY GROUPING SETS ((s.rule), ())""",
            [since, visible is None, sorted(visible or ())],
        )
        return {
            rule: Fared(count, *(map(float, shares) if shares else ())) for rule, count, shares in cursor.fetchall()
        }
