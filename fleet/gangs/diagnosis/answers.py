"""What the arithmetic says of a gang in the world as it is, worked out once for all gangs that ask for the same.

Decides that gangs which the arithmetic cannot tell from each other (`Starter.like`) share one answer, and that an
answer works out only what it is asked. Refuses to outlive its world: whoever changes a room makes new answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from fleet.gangs.diagnosis.blocking import Blocker, blockers
from fleet.gangs.diagnosis.packing import Ask, Space
from fleet.gangs.diagnosis.starting import Starter
from fleet.gangs.form import Gang
from fleet.ports.gangs import Need


@dataclass(frozen=True)
class Answer:
    """Of one gang, and of every other one that is like it."""

    starter: Starter
    space: Space
    gang: Gang

    @cached_property
    def fits(self) -> bool:
        return self.starter.could(self.gang, self.space)

    @cached_property
    def fits_anywhere(self) -> bool:
        """As if it required no topology."""
        return self.starter.could(self.gang, self.space, anywhere=True)

    @cached_property
    def blockers(self) -> tuple[Blocker, ...]:
        return blockers(self.starter, self.gang, self.space)

    @cached_property
    def asks(self) -> list[Ask]:
        return self.starter.asks(self.gang)

    @cached_property
    def needs(self) -> int:
        """GPUs to reach its minimum."""
        return sum(need.gpus * count for need, count in self.asks)

    @cached_property
    def free(self) -> int:
        """GPUs that are free on nodes it may use, however they lie."""
        return self.starter.free_gpus(self.gang, self.space)

    @cached_property
    def slots(self) -> int:
        """Members of its largest kind that would fit now."""
        need, _ = max(self.asks, key=lambda ask: ask[0].gpus)
        return int(self.space.slots(need, self.starter.eligibility.of(need)).sum())


class Answers:
    def __init__(self, starter: Starter, space: Space) -> None:
        self.starter, self._space = starter, space
        self._answers: dict[Hashable, Answer] = {}
        self._whole: Space | None = None
        self._most: dict[Need, int] = {}

    def of(self, gang: Gang) -> Answer:
        like = self.starter.like(gang)
        answer = self._answers.get(like)
        if answer is None:
            answer = self._answers[like] = Answer(self.starter, self._space, gang)
        return answer

    def ever(self, gang: Gang) -> bool:
        """Whether all members of its minimum, each kind by itself, would fit were every node whole and empty."""
        asks: Counter[Need] = Counter()
        for need, count in self.starter.asks(gang):
            asks[need] += count
        for member in gang.members:
            if member.node and not member.ending:
                asks[member.need] += 1
        return all(count <= self._at_most(need) for need, count in asks.items())

    def _at_most(self, need: Need) -> int:
        most = self._most.get(need)
        if most is None:
            self._whole = self._whole or Space.emptied(self.starter.rooms)
            slots = self._whole.slots(need, self.starter.eligibility.of(need))
            most = self._most[need] = int(slots.sum())
        return most
