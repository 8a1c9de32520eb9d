"""How a view declares who may call it.

Decides nothing by itself: leaves a mark that the middleware reads. Refuses unknown rights at import time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fleet.access.rights import least_role

View = TypeVar("View", bound=Callable[..., Any])
_MARK = "muster_right"


def needs(right: str) -> Callable[[View], View]:
    """The view needs `right` in at least one cluster."""
    least_role(right)

    def mark(view: View) -> View:
        setattr(view, _MARK, right)
        return view

    return mark


def public(view: View) -> View:
    """The view is open to everybody: log-in, liveness, metrics."""
    setattr(view, _MARK, "")
    return view


def declared_right(view: Callable[..., Any]) -> str | None:
    """The right a view needs, "" if public, None if undeclared. Looks through class-based views and partials."""
    for candidate in (view, getattr(view, "view_class", None), getattr(view, "func", None)):
        mark = getattr(candidate, _MARK, None)
        if mark is not None:
            return str(mark)
    return None
