"""The oracle sees each planted bug, and nothing where none is planted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.domain.lifecycle.oracle import Violation
from tests.domain.lifecycle.planted import BUGS, Bug
from tests.domain.lifecycle.story import Story, a_story

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_seen(bug: Bug) -> None:
    with pytest.MonkeyPatch.context() as patch, a_story() as story:
        bug.plant(patch)
        with pytest.raises(Violation):
            bug.show(story)


@pytest.mark.parametrize("show", {bug.show.__name__: bug.show for bug in BUGS}.values(), ids=lambda show: show.__name__)
def test_the_same_story_passes_on_the_engine_as_it_is(show: Callable[[Story], None]) -> None:
    with a_story() as story:
        show(story)
