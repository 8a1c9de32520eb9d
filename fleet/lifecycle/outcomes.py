"""What running a step for a moment can come to.

Decides the closed list of outcomes that the engine knows how to persist. Pure data.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleet.lifecycle.machine import NodeState


@dataclass(frozen=True, slots=True)
class Done:
    """The step is over; the next one follows at once, or the one whose verb is `goto` if it lies ahead. `state`: what
    the node is by that, in the same transaction."""

    text: str
    goto: str = ""
    state: NodeState | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do for `seconds`; `text` says what is waited for."""

    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """A guard or another party keeps it waiting. Tried again after `seconds`, which is also what `until` says."""

    code: str
    text: str
    seconds: float = 15
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The try failed. The playbook says what follows: the step again, the next rung, a ticket, or a person's word."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Repair:
    """Only people can mend it: a ticket follows now, without another attempt."""

    code: str
    text: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """The whole workflow is over."""

    state: str  # succeeded, failed, cancelled
    text: str


Outcome = Done | Wait | Blocked | Failed | Repair | Ended
