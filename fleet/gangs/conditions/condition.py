"""One condition of one gang: a code, what it is about, and the numbers that show it.

Decides the codes and their severities' names. Refuses words for people, and to say what else is wrong with the gang.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Code = Literal[
    "deadlock",
    "guarantee_lost",
    "guarantee_none",
    "guarantee_partial",
    "guarantee_stale",
    "guarantee_unasked",
    "autoscaler_swings",
    "autoscaler_churns",
    "autoscaler_known_loop",
    "headroom_exact",
    "headroom_low",
    "elastic_beyond_max",
    "placement_stale",
    "placement_pending",
    "head_down",
    "head_lost",
    "head_unprotected",
    "gpus_declared",
    "gpus_of_node",
    "gpus_infeasible",
    "train_too_large",
    "failures_none",
    "failures_spent",
    "elastic_missing",
    "gpus_kept",
    "evidence_lost",
    "sick_node",
    "sick_device",
    "spot_too_small",
    "spot_minimum",
]
CODES: tuple[Code, ...] = get_args(Code)

Severity = Literal["critical", "warning", "notice"]
"""Work stands still or is lost now; it will with the next fault; it is worth knowing."""
WORST_FIRST: tuple[Severity, ...] = get_args(Severity)

Fact = int | float | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """`gang` is the gang's key; `about` the part that it concerns (a worker group, a node, a placement group, a run),
    "" for the gang itself. Equal conditions of two moments are equal but for their facts: see `same`."""

    code: Code
    gang: str
    severity: Severity
    about: str = ""
    facts: tuple[tuple[str, Fact], ...] = ()

    @property
    def same(self) -> tuple[str, str, str]:
        """What stays while its numbers move."""
        return self.code, self.gang, self.about

    @property
    def values(self) -> dict[str, Fact]:
        return dict(self.facts)


def found(code: Code, gang: str, severity: Severity, about: str = "", **facts: Fact) -> Condition:
    return Condition(code, gang, severity, about, tuple(facts.items()))


def rank(condition: Condition) -> tuple[int, str, int, str]:
    """The order in which conditions are told: the worst first, then by gang."""
    return WORST_FIRST.index(condition.severity), condition.gang, CODES.index(condition.code), condition.about
