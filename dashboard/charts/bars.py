"""Lengths of bars as SVG geometry: no style attribute anywhere.

Decides the width of a cap's bar and where a phase lies on the whole. Pure. Refuses more than the whole width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from fleet.policy.selectors import CapUsage
from fleet.readmodels import words

WIDTH = 200
NAMES = 4


@dataclass(frozen=True, slots=True)
class CapLine:
    """One cap as the card shows it. `full`: the next one that asks is blocked."""

    title: str
    used: int
    limit: int
    width: float
    full: bool
    note: str


def cap_line(cap: CapUsage, node: str) -> CapLine:
    scope = words.word(words.SCOPES, cap.scope)
    where = scope if cap.scope == "fleet" else f"{scope} {cap.key}"
    title = f"{words.word(words.CAP_KINDS, cap.kind)}, {where}"
    width = round(WIDTH * min(1.0, cap.used / cap.limit), 2) if cap.limit else WIDTH
    return CapLine(title, cap.used, cap.limit, width, cap.used >= cap.limit, _names(cap.names, node))


def _names(names: Sequence[str], node: str) -> str:
    """Who uses it, this node told apart from the others."""
    others = [name for name in names if name != node]
    told = ", ".join(others[:NAMES])
    if len(others) > NAMES:
        told = _("%(names)s and %(n)d more") % {"names": told, "n": len(others) - NAMES}
    if node in names:
        return _("this node and %(names)s") % {"names": told} if told else _("this node")
    return told
