"""What the arithmetic says of a gang in the world as it is, worked out once for all gangs that ask for the same.

Decides that gangs which the arithmetic cannot tell from each other (`Starter.like`) share one answer, that an answer
works out only what it is asked, and that it lasts while no node changes that any of its members may use. Refuses to
outlive its rooms: when nodes come, go or change their labels, all is asked anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fleet.gangs.diagnosis.blocking import Blocker, blockers
from fleet.gangs.diagnosis.packing import Ask, Space
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.diagnosis.starting import Starter
from fleet.gangs.form import Gang
from fleet.ports.gangs import Need


@dataclass
class Answer:
    """Of one gang, and of every other one that is like it. What was worked out stays; `space` is that of now."""

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
        self.starter, self.space = starter, space
        self._answers: dict[Hashable, Answer] = {}
        self._whole: Space | None = None
        self._most: dict[Need, int] = {}
        self._before: Answers | None = None

    @classmethod
    def after(cls, before: Answers | None, rooms: Rooms) -> Answers:
        """Of the rooms as they are now; what `before` found is taken over where it still holds and is asked again."""
        touched, space = sorted(rooms.touched), Space.now(rooms)
        rooms.touched.clear()
        if before is None or before.starter.rooms is not rooms:
            return cls(Starter(rooms), space)
        made = cls(Starter(rooms, before.starter.eligibility), space)
        before._forget(touched)
        before._before = None
        made._before = before
        return made

    def of(self, gang: Gang) -> Answer:
        like = self.starter.like(gang)
        answer = self._answers.get(like)
        if answer is None:
            answer = self._before._answers.get(like) if self._before else None
            answer = answer or Answer(self.starter, self.space, gang)
            answer.starter, answer.space = self.starter, self.space
            self._answers[like] = answer
        return answer

    def _forget(self, touched: Sequence[int]) -> None:
        """Whatever those rows may have changed."""
        asked = {need for answer in self._answers.values() for need, _ in answer.asks}
        concerned = self.starter.eligibility.using(touched, asked | self._most.keys())
        for like, answer in list(self._answers.items()):
            if any(need in concerned for need, _ in answer.asks):
                del self._answers[like]
        self._most = {need: most for need, most in self._most.items() if need not in concerned}

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
        if most is None and self._before is not None:
            most = self._before._most.get(need)
        if most is None:
            self._whole = self._whole or Space.emptied(self.starter.rooms)
            slots = self._whole.slots(need, self.starter.eligibility.of(need))
            most = int(slots.sum())
        self._most[need] = most
        return most
