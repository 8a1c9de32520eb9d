"""The book of playbooks in force, how often each verb helped, and which playbook would answer a case.

Decides how a playbook reads: what it matches, its steps with ladder, deadline and what follows a failure. Refuses to
hide a site file that cannot be used: its problem stands on top, and the book that is shown is the one in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils.translation import gettext as _

from fleet.inventory.models import Cluster
from fleet.lifecycle import deadlines, effectiveness, shelf
from fleet.lifecycle.ladder import MIN_TRIES
from fleet.lifecycle.playbooks import Case, Match, PlannedStep, Playbook, plan_for
from fleet.readmodels import words

MOST = 200
"""Rows of the table of effectiveness; the most tried come first."""


@dataclass(frozen=True, slots=True)
class StepShown:
    label: str
    ladder: list[str]  # the remedies after the first
    bound: str  # its deadline and what follows, "" where the step bounds itself
    retries: int
    failure: str  # what follows a failure, "" where that is the usual


@dataclass(frozen=True, slots=True)
class PlaybookShown:
    playbook: Playbook
    match: list[tuple[str, str]]
    steps: list[StepShown]

    @property
    def own(self) -> bool:
        return self.playbook.source != "built in"


@dataclass(frozen=True, slots=True)
class EffectShown:
    line: effectiveness.Line
    verb: str

    @property
    def percent(self) -> int:
        return round(100 * self.line.held / self.line.tries)

    @property
    def poor(self) -> bool:
        """So seldom that the ladder leaves it out."""
        return self.line.effect.poor


@dataclass(frozen=True, slots=True)
class PlaybookPage:
    playbooks: list[PlaybookShown]
    file: str
    problem: str
    effects: list[EffectShown]
    days: int = effectiveness.WINDOW.days
    least: int = MIN_TRIES

    @property
    def own(self) -> int:
        return sum(shown.own for shown in self.playbooks)


def read(visible: frozenset[str] | None, now: datetime) -> PlaybookPage:
    """Two queries; one for who may see every cluster."""
    book = shelf.book()
    ids: list[int] | None = None
    if visible is not None:
        ids = list(Cluster.objects.filter(name__in=visible).values_list("pk", flat=True))
    effects = effectiveness.table(ids, now)[:MOST]
    return PlaybookPage(
        [shown(playbook) for playbook in book.playbooks],
        str(settings.PLAYBOOKS_FILE),
        book.problem,
        [EffectShown(line, words.word(words.VERBS, line.verb)) for line in effects],
    )


def shown(playbook: Playbook) -> PlaybookShown:
    return PlaybookShown(playbook, match_words(playbook.match), [step_words(step) for step in playbook.steps])


def match_words(match: Match) -> list[tuple[str, str]]:
    """(what, which values) of all that a match asks for; [] for one that fits every case."""
    asked: list[tuple[str, Sequence[str]]] = [
        (_("asks for"), [words.word(words.ACTION_CLASSES, one) for one in match.action]),
        (_("cause"), match.cause),
        (_("device"), match.device),
        (_("pool"), match.pool),
        (_("kind of pool"), [words.word(words.POOL_KINDS, one) for one in match.pool_kind]),
        (_("SKU"), match.sku),
    ]
    found = [(what, ", ".join(values)) for what, values in asked if values]
    if match.recurring is not None:
        found.append((_("recurring"), _("yes") if match.recurring else _("no")))
    return found


def step_words(step: PlannedStep) -> StepShown:
    bound = deadlines.of(step)
    told = ""
    if bound is not None:
        told = _("%(time)s: %(follows)s") % {
            "time": words.duration(bound[0]), "follows": words.word(words.AT_DEADLINE, bound[1]),
        }  # fmt: skip
    failure = "" if step.on_failure == "next" else words.word(words.ON_FAILURE, step.on_failure)
    ladder = [words.word(words.VERBS, verb) for verb in step.ladder[1:]]
    return StepShown(words.word(words.VERBS, step.verb), ladder, told, step.retries, failure)


@dataclass(frozen=True, slots=True)
class Answer:
    """Which playbook answers a case, or why none does."""

    name: str
    title: str
    steps: list[StepShown]
    why_not: str


def answer(case: Case) -> Answer:
    """No query: the book in force is asked as the planner asks it."""
    book = shelf.book()
    plan = plan_for(case, book)
    playbook = book.named(plan.playbook)
    title = playbook.title if playbook else ""
    return Answer(plan.playbook, title, [step_words(step) for step in plan.steps], plan.why_not)
