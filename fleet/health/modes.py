"""The modes of rules, as the signals and incidents of a cluster bear them.

Decides how far an incident may go: as far as the rule that opened it. It rises with a signal that asks for something by
a rule in a higher mode, and then asks for what that signal asks, so that nothing is ever done on the word of a rule in
a lower mode; such a rule's signal joins the incident without making it worse. When the site's rules change, the mode is
the highest among the signals that ask for at least as much as the incident does, and without one that of its rule.
Refuses to know the rules themselves: only the observer does, and the workers read the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from django.db.models import Q

from fleet.audit import services as audit
from fleet.bus import outbox
from fleet.health import correlation
from fleet.health.models import Incident, Signal
from fleet.health.rules.types import ModeWord
from fleet.health.work import ACTOR, BATCH

ORDER: tuple[str, ...] = get_args(ModeWord)
ModeOf = Callable[[str, str], str]
"""(rule, pool or "") -> its mode there."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """Ids of incidents whose mode is another now."""

    raised: tuple[int, ...] = ()
    lowered: tuple[int, ...] = ()

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.raised, *self.lowered)


def reaches(incident: Incident, signal: Signal) -> bool:
    """May the signal's rule go at least as far as the incident?"""
    return ORDER.index(signal.mode) >= ORDER.index(incident.mode)


def join(incident: Incident, signal: Signal, seen: correlation.Observed, wider: bool = False) -> bool:
    """Let the incident know what a signal that joins it asks for; does it ask for more than before?

    `seen` is the edge of the signal, or the signal itself. `wider`: it was just found to be a fault of several parts,
    which says by itself what to do. What comes back again and again is for people, whatever it asks for once more.
    """
    settled = wider or "recurring" in incident.evidence
    rises = (
        signal.mode != incident.mode and reaches(incident, signal) and correlation.asks_for_action(seen.action_class)
    )
    worse = reaches(incident, signal) and correlation.worse(seen, incident) and "recurring" not in incident.evidence
    if worse or (rises and not settled):
        incident.severity, incident.action_class = seen.severity, seen.action_class
    if rises:
        incident.mode, incident.rule = signal.mode, signal.rule
    return worse or rises


def renew(cluster_id: int, mode_of: ModeOf, now: datetime, journal: list[audit.Entry]) -> Renewed:
    """Bring open signals and incidents to the modes that hold now, inside the fence of the observer.

    Two queries where nothing changed. The audit entries are appended to the journal: the chain's lock comes last.
    """
    found = Incident.objects.filter(cluster_id=cluster_id, state=Incident.OPEN, node__isnull=False)
    rows = list(found.select_related("node__pool").order_by("id"))
    signs = _signals(cluster_id, mode_of)
    raised: list[int] = []
    lowered: list[int] = []
    told = []
    for row in rows:
        pool = row.node.pool.name if row.node and row.node.pool else ""
        mode, rule = _mode(row, mode_of(row.rule, pool), signs.get(row.pk, ()))
        if mode == row.mode:
            continue
        (raised if ORDER.index(mode) > ORDER.index(row.mode) else lowered).append(row.pk)
        name = row.node.name if row.node else ""
        detail = {"from": row.mode, "to": mode, "rule": rule}
        journal.append(audit.Entry(ACTOR, "incident.mode", f"incident:{row.pk}", node=name, detail=detail))
        told.append(outbox.Notice("incident", str(row.pk), name))
        row.mode, row.rule = mode, rule
    Incident.objects.bulk_update([row for row in rows if row.pk in {*raised, *lowered}], ["mode", "rule"], BATCH)
    outbox.publish(cluster_id, told, now)
    return Renewed(tuple(raised), tuple(lowered))


Sign = tuple[str, str, tuple[int, int]]
"""Mode, rule, and how much it asks for."""


def _signals(cluster_id: int, mode_of: ModeOf) -> dict[int, list[Sign]]:
    """Of each incident, what its signals ask for and how far their rules may go; their rows are put right."""
    live = Q(cleared_at=None) | Q(incident__state=Incident.OPEN)
    fields = ("pk", "incident_id", "rule", "node__pool__name", "mode", "severity", "action_class")
    found: dict[int, list[Sign]] = defaultdict(list)
    wrong: dict[str, list[int]] = defaultdict(list)
    for pk, incident, rule, pool, known, severity, action in (
        Signal.objects.filter(live, cluster_id=cluster_id).order_by("pk").values_list(*fields)
    ):
        mode = mode_of(rule, pool or "")
        if mode != known:
            wrong[mode].append(pk)
        if incident is not None and correlation.asks_for_action(action):
            found[incident].append((mode, rule, correlation.rank(severity, action)))
    for mode, pks in wrong.items():
        Signal.objects.filter(pk__in=pks).update(mode=mode)
    return found


def _mode(incident: Incident, own: str, signs: Iterable[Sign]) -> tuple[str, str]:
    """The mode, and the rule that has it: the incident's own where that goes as far as any other."""
    asked = correlation.rank(incident.severity, incident.action_class)
    equal = [(mode, rule) for mode, rule, asks in signs if asks >= asked]
    best = max(equal, key=lambda sign: ORDER.index(sign[0]), default=(own, incident.rule))
    mine = [mode for mode, rule in equal if rule == incident.rule]
    return (best[0], incident.rule) if own == best[0] and (mine or not equal) else best
