"""A held node lent to its own tests: a drained node takes no job, so a reservation keeps it while one starts.

Decides the order, each line of which may be the last one: the reservation, seen to stand; the drain lifted; the drain
back as soon as the test runs; at the end the drain, the jobs, and only then the reservation. So the node is drained or
reserved at every instant, and no user's job finds it. Refuses to lift a drain that is not ours, to lift one beside
another maintenance (its users' jobs run there although ours stands), and to trust a reservation that it has not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from fleet.adapters.slurm import marks, reservations, seen, submitting
from fleet.adapters.slurm.reservations import Reservation
from fleet.adapters.slurm.telling import Telling
from fleet.adapters.slurm.values import number, states
from fleet.ports.clock import Clock
from fleet.ports.errors import NotFound, PermanentError, TemporaryError
from fleet.ports.shapes import items, text

OPEN = frozenset({
    "PENDING", "REQUEUED", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "RESIZING",
})  # fmt: skip
"""States of a job that is not over."""


class Lending:
    """Each reservation is for the user whose token acts, alone."""

    def __init__(self, telling: Telling, installation: str, clock: Clock) -> None:
        self._telling, self._by, self._clock = telling, installation, clock

    def prepare(self, node: str) -> tuple[str, marks.Mark, dict[str, Any]]:
        """(the name of the reservation that stands now, our hold, the node). TemporaryError when it is not ours."""
        found, raw = self.reservations(), self.node(node)
        mark = self._held(raw, found)
        if mark is None:
            raise TemporaryError(f"{node} is not held by Muster any more: no test begins.", code="slurm_error")
        self._alone(found, node)
        name = reservations.name_for(mark.value, self._by)
        if any(one.name != name for one in self._mine(found, node)):
            self.clear(node)  # what a hold before this one has left
        if all(one.name != name for one in found):
            self._telling.reserve(name, node, self._telling.rest.user, self._clock.now())
        self._standing(name, node)
        for job in self._jobs_in({name}):  # one whose submission was answered to nobody, and came late
            self.end(job)
        return name, mark, raw

    def open(self, node: str) -> None:
        """Lift the drain where our hold and the reservation stand; nothing where it is lifted, or somebody else's."""
        found, raw = self.reservations(), self.node(node)
        mark = self._held(raw, found)
        if mark is None or not _drained(raw):
            return
        self._alone(found, node)
        self._standing(reservations.name_for(mark.value, self._by), node)
        self._telling.resume(node)

    def close(self, node: str, told: Iterable[str] = ()) -> None:
        """Drain it again where only the reservation keeps it, with the mark that one of `told` is, or the reason."""
        raw = self.node(node)
        if _drained(raw):
            return
        mine = self._mine(self.reservations(), node)
        if not mine:
            return  # somebody took the node, and the reservation away: theirs
        marked = [marks.read(reason) for reason in (text(raw.get("reason")), *told)]
        same = [mark for mark in marked if mark is not None and mark.value == mine[0].value]
        self._telling.drain(node, (same or [mine[0].mark])[0].text)
        if not _drained(self.node(node)):
            raise TemporaryError(f"Slurm took the drain of {node} and does not show it.", code="slurm_error")

    def clear(self, node: str) -> None:
        """Leave nothing but the drain. TemporaryError while a job is still ending; what is gone already is no error."""
        mine = self._mine(self.reservations(), node)
        if not mine:
            return
        names = {one.name for one in mine}
        jobs = self._jobs_in(names)
        self.close(node, [submitting.said(raw)[1] for raw in jobs])
        for raw in jobs:
            self.end(raw)
        for one in mine:
            with suppress(NotFound):
                self._telling.unreserve(one.name)

    def end(self, job: dict[str, Any]) -> None:
        """Cancel it, where it is not over."""
        if states(job.get("job_state")) & OPEN:
            with suppress(NotFound):
                self._telling.cancel(str(number(job.get("job_id"))))

    def node(self, name: str) -> dict[str, Any]:
        found = [raw for raw in items(self._telling.rest.get(f"node/{name}").get("nodes")) if raw.get("name") == name]
        if not found:
            raise NotFound(f"Slurm knows no node {name}.")
        return found[0]

    def reservations(self) -> list[Reservation]:
        return [reservations.read(raw) for raw in self._telling.rest.rows("reservations")]

    def _jobs_in(self, names: set[str]) -> list[dict[str, Any]]:
        return [raw for raw in self._telling.rest.rows("jobs") if raw.get("resv_name") in names]

    def _mine(self, found: list[Reservation], node: str) -> list[Reservation]:
        return [one for one in found if one.value and one.by == self._by and node in one.nodes]

    def _held(self, raw: dict[str, Any], found: list[Reservation]) -> marks.Mark | None:
        state, name = states(raw.get("state"), raw.get("state_flags")), text(raw.get("name"))
        mark = seen.held(state, text(raw.get("reason")), reservations.ours(found, name))
        return mark if mark is not None and mark.by == self._by else None

    def _alone(self, found: list[Reservation], node: str) -> None:
        if others := reservations.beside(found, node):
            words = (
                f"{node} is in the maintenance {', '.join(others[:3])}, too, whose jobs may run there: no test begins."
            )
            raise PermanentError(words, code="slurm_reserved")

    def _standing(self, name: str, node: str) -> None:
        one = next((one for one in self.reservations() if one.name == name), None)
        weak = (
            one.weak(node, self._telling.rest.user, self._clock.now()) if one is not None else "Slurm does not show it"
        )
        if weak:
            words = f"The reservation {name} does not keep {node} for its tests: {weak}."
            raise PermanentError(words, code="slurm_reserved")


def _drained(raw: dict[str, Any]) -> bool:
    return bool(states(raw.get("state"), raw.get("state_flags")) & seen.DRAIN)
