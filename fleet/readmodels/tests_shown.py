"""The tests of a node as a page shows them: results, and values as bars against what they were held to.

Decides the scale of each bar: the largest of value, baseline and floor fills it. Refuses to draw what was not measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from django.utils.translation import gettext_lazy as lazy

from fleet.lifecycle.validation import selectors
from fleet.lifecycle.validation.models import ValidationResult, ValidationRun
from fleet.readmodels import words

WIDTH = 600
"""The width of a bar in its own units."""
RESULTS: dict[str, words.Word] = {
    "": lazy("under way"),
    "passed": lazy("passed"),
    "failed": lazy("failed"),
    "no_result": lazy("no result"),
    "skipped": lazy("left out"),
    "stopped": lazy("stopped"),
}
BADGES = {"": "b-go", "passed": "b-ok", "failed": "b-bad", "no_result": "b-warn"}
PURPOSES: dict[str, words.Word] = {
    "validate": lazy("before the return"),
    "confirm": lazy("of a suspicion"),
    "burn_in": lazy("while it was idle"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One measured value. Places are in units of WIDTH; `floor` and `baseline` are None where there is none."""

    result: ValidationResult
    width: int
    floor: int | None
    baseline: int | None

    @property
    def tone(self) -> str:
        return {"fail": "x", "warn": "w"}.get(self.result.status, "o")


@dataclass(frozen=True, slots=True)
class Shown:
    run: ValidationRun
    good: int
    faults: list[ValidationResult] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)

    @property
    def word(self) -> words.Word:
        return RESULTS.get(self.run.result, self.run.result)

    @property
    def badge(self) -> str:
        return BADGES.get(self.run.result, "b-line")

    @property
    def purpose(self) -> words.Word:
        return PURPOSES.get(self.run.purpose, self.run.purpose)


def of_node(node_id: int) -> list[Shown]:
    """The newest tests of the node. Two queries."""
    return [_shown(tested) for tested in selectors.of_node(node_id)]


def of_workflow(workflow_id: int) -> list[Shown]:
    return [_shown(tested) for tested in selectors.of_workflow(workflow_id)]


def _shown(tested: selectors.Tested) -> Shown:
    faults = [row for row in tested.lines if row.status != "pass"]
    return Shown(tested.run, tested.good, faults, [_bar(row) for row in tested.lines if row.value is not None])


def _bar(row: ValidationResult) -> Bar:
    value = row.value or 0.0
    most = max(value, row.baseline or 0.0, row.floor or 0.0) or 1.0
    place = [None if at is None else round(WIDTH * at / most) for at in (row.floor, row.baseline)]
    return Bar(row, round(WIDTH * value / most), *place)
