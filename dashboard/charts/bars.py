"""Lengths of bars as SVG geometry: no style attribute anywhere.

Decides the width of a cap's bar and where a phase lies on the whole. Pure. Refuses more than the whole width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from dashboard.words import capital
from fleet.policy.selectors import CapUsage
from fleet.readmodels import words
from fleet.readmodels.policy_page import Use

WIDTH = 200
NAMES = 4


@dataclass(frozen=True, slots=True)
class CapLine:
    """One cap as the card shows it. `full`: the next one that asks is blocked; `mark`: where a floor lies."""

    title: str
    used: int
    limit: int
    width: float
    full: bool
    note: str
    mark: float | None = None
    over: int = 0  # more than the limit allows


def cap_line(cap: CapUsage, node: str) -> CapLine:
    scope = words.word(words.SCOPES, cap.scope)
    where = scope if cap.scope == "fleet" else f"{scope} {cap.key}"
    title = f"{words.word(words.CAP_KINDS, cap.kind)}, {where}"
    width = round(WIDTH * min(1.0, cap.used / cap.limit), 2) if cap.limit else WIDTH
    return CapLine(title, cap.used, cap.limit, width, cap.used >= cap.limit, _names(cap.names, node),
                   over=max(0, cap.used - cap.limit))  # fmt: skip


def use_line(use: Use, *, of: bool = False) -> CapLine:
    """A scope of a limit on the policy page; with `of` it says of which.

    A floor's bar is what is in service, its mark what must stay.
    """
    scope = words.word(words.SCOPES, use.scope)
    title = capital(scope if use.scope == "fleet" else f"{scope} {use.key}")
    if use.cluster and use.scope not in ("fleet", "cluster"):
        title = f"{title}, {use.cluster}"
    title = f"{words.word(words.CAP_KINDS, use.kind)}: {title}" if of else title
    whole = use.size if use.floor else use.limit
    width = round(WIDTH * min(1.0, use.used / whole), 2) if whole else WIDTH
    mark = round(WIDTH * min(1.0, use.limit / whole), 2) if use.floor and whole else None
    return CapLine(title, use.used, use.limit, width, use.full, _names(use.names, ""), mark, use.over)


def _names(names: Sequence[str], node: str) -> str:
    """Who uses it, this node told apart from the others."""
    others = [name for name in names if name != node]
    told = ", ".join(others[:NAMES])
    if len(others) > NAMES:
        told = _("%(names)s and %(n)d more") % {"names": told, "n": len(others) - NAMES}
    if node in names:
        return _("this node and %(names)s") % {"names": told} if told else _("this node")
    return told
