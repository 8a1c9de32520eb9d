"""A worker that dies at a named place of the world's fakes, and the one that takes over where it left off.

Decides what dies with it: the messages it had, never the rows. Refuses a story whose place is not on its way: a death
that did not happen proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleet.lifecycle.models import Workflow
from tests.domain.lifecycle.conftest import again
from tests.domain.lifecycle.world import Crash, World

PATIENCE = 600  # seconds of the world; more than any playbook with one death needs


@dataclass
class Death:
    """At the `nth` visit of `place`, once: put in as `World.crash`."""

    place: str
    nth: int = 1
    visits: int = 0

    def __call__(self, where: str) -> None:
        if where == self.place:
            self.visits += 1
            if self.visits == self.nth:
                raise Crash(where)


def succeeds_through(death: Death, world: World, start: Callable[[World], Workflow]) -> Workflow:
    """The workflow that `start` makes, which succeeded although a worker of it died so."""
    world.crash = death
    workflow = start(world)
    succeeded = lambda: again(workflow).state == "succeeded"  # noqa: E731
    try:
        world.run(PATIENCE, succeeded)
    except Crash:
        world.queue.clear()
        world.run(PATIENCE, succeeded)
    assert death.visits >= death.nth, f"nobody died at visit {death.nth} of {death.place}"
    assert succeeded()
    return workflow
