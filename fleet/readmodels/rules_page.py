"""The rules that hold, and how they fared over the last thirty days.

Decides what a rule's line tells: the site's settings against the built-in ones, the pools that differ, how often it
fired and how long it took from the first bad sample to the signal. Refuses to guess from a broken file: then the
built-in rules are shown with the file's mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection

from fleet.health.rules import manual
from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.siterules import BadRules, parse
from fleet.health.rules.tuning import Tuning
from fleet.health.rules.types import Rule

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
    limit: str
    window: str
    changed: bool
    pools: tuple[str, ...]
    fared: Fared


@dataclass(frozen=True, slots=True)
class RulesPage:
    lines: list[RuleLine]
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
            manual.limit(rule),
            manual.window(rule),
            rule != DEFAULTS[rule.id],
            tuple(pool for pool, own in tuning.pools.items() if rule.id in own),
            fared.get(rule.id, Fared()),
        )
        for rule in tuning.rules.values()
    ]
    return RulesPage(lines, fared.get("", Fared()), settings.RULES_FILE, problem)


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
