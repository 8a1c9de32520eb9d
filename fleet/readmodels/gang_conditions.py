"""Open conditions of gangs, read from rows and put in words.

Decides the severity of a condition whose row does not tell one, and that the worst come first. Refuses conditions that
are over: the gang's timeline has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count

from fleet.gangs.conditions.condition import CODES, WORST_FIRST, Code, Condition, Severity
from fleet.gangs.models import GangCondition
from fleet.readmodels import gang_words
from fleet.readmodels.gang_words import CONDITIONS, Told

CRITICAL = frozenset(
    {
        "deadlock", "guarantee_lost", "head_lost", "placement_stale", "placement_pending", "gpus_of_node",
        "gpus_infeasible", "train_too_large", "failures_spent", "sick_node", "sick_device", "autoscaler_churns",
    }
)  # fmt: skip
NOTICE = frozenset({"autoscaler_known_loop", "headroom_low", "head_unprotected", "elastic_missing", "failures_none"})
COLUMNS = ("cluster_id", "gang_key", "code", "about", "facts", "since")


@dataclass(frozen=True, slots=True)
class Shown:
    """One open condition with its words."""

    since: datetime
    severity: Severity
    told: Told


@dataclass(frozen=True, slots=True)
class Kind:
    """One code: how many gangs have it."""

    code: str
    name: str
    severity: Severity
    gangs: int
    meaning: str
    remedy: str


def severity_of(code: str, facts: Mapping[str, Any]) -> Severity:
    stated = facts.get("severity")
    if stated in WORST_FIRST:
        return stated
    return "critical" if code in CRITICAL else "notice" if code in NOTICE else "warning"


def condition(code: str, gang_key: str, about: str, facts: Mapping[str, Any]) -> Condition:
    """What the row was written from; a fact that is no fact is told as text."""
    kept = tuple((name, _fact(value)) for name, value in facts.items() if name != "severity")
    known: Code = code  # type: ignore[assignment]
    return Condition(known, gang_key, severity_of(code, facts), about, kept)


def _fact(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(str(one) for one in value)
    return value if isinstance(value, int | float | str) else str(value)


def words(code: str, gang_key: str, about: str, facts: Mapping[str, Any]) -> Told:
    """A row whose facts are not those of its sentence (an older one) keeps its name, meaning and remedy."""
    one = condition(code, gang_key, about, facts)
    try:
        return gang_words.told(one)
    except (KeyError, ValueError):
        known = CONDITIONS[one.code]
        grade = str(gang_words.SEVERITIES[one.severity])
        return Told(code, grade, gang_key, str(known.name), str(known.means), str(known.means), str(known.do))


def of_gangs(pairs: Iterable[tuple[int, str]]) -> dict[tuple[int, str], list[Shown]]:
    """(cluster id, gang key) -> its open conditions, the worst first. One query."""
    wanted = set(pairs)
    if not wanted:
        return {}
    rows = GangCondition.objects.filter(
        cluster_id__in={pk for pk, _ in wanted}, gang_key__in={key for _, key in wanted}, ended_at=None, code__in=CODES
    )
    found: dict[tuple[int, str], list[Shown]] = {}
    for cluster_id, key, code, about, facts, since in rows.values_list(*COLUMNS):
        if (cluster_id, key) in wanted:
            shown = Shown(since, severity_of(code, facts), words(code, key, about, facts))
            found.setdefault((cluster_id, key), []).append(shown)
    for some in found.values():
        some.sort(key=_rank)
    return found


def kinds(clusters: Mapping[str, Any]) -> list[Kind]:
    """Each code that is open in view with the number of its gangs, the worst and most first. One query.

    `clusters` are the filters on rows with a `cluster`.
    """
    rows = GangCondition.objects.filter(**clusters, ended_at=None, code__in=CODES)
    counted = rows.values_list("code", "facts__severity").annotate(n=Count("gang_key", distinct=True)).order_by()
    merged: dict[str, tuple[Severity, int]] = {}
    for code, stated, number in counted:
        grade = severity_of(code, {"severity": stated})
        before, sum_so_far = merged.get(code, (grade, 0))
        merged[code] = min(before, grade, key=WORST_FIRST.index), sum_so_far + number
    found = []
    for code, (grade, number) in merged.items():
        known = CONDITIONS[code]  # type: ignore[index]
        found.append(Kind(code, str(known.name), grade, number, str(known.means), str(known.do)))
    return sorted(found, key=lambda kind: (WORST_FIRST.index(kind.severity), -kind.gangs, kind.code))


def worst(clusters: Mapping[str, Any], code: str = "deadlock", most: int = 3) -> list[tuple[int, str, Shown]]:
    """The oldest open conditions of one code: (cluster id, gang key, condition). One query."""
    rows = GangCondition.objects.filter(**clusters, ended_at=None, code=code).order_by("since", "pk")
    return [
        (cluster_id, key, Shown(since, severity_of(name, facts), words(name, key, about, facts)))
        for cluster_id, key, name, about, facts, since in rows.values_list(*COLUMNS)[:most]
    ]


def _rank(shown: Shown) -> tuple[int, datetime, str]:
    return WORST_FIRST.index(shown.severity), shown.since, shown.told.code
