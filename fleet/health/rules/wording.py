"""How the numbers of a rule read: its limit with the unit, and how long it must hold.

Decides one form for each unit, in the singular and the plural, as message ids: whoever shows them brings the language.
Refuses to show a number that no site may change.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet.health.rules.types import Rule

Say = Callable[[str, str, int], str]
"""(singular, plural, count) -> the message in the reader's language, as gettext's `ngettext`."""

_UNITS: dict[str, tuple[str, str]] = {
    "%": ("%(n)s %%", "%(n)s %%"),
    "/min": ("%(n)s a minute", "%(n)s a minute"),
    "/s": ("%(n)s a second", "%(n)s a second"),
    "B": ("%(n)s byte", "%(n)s bytes"),
    "B/s": ("%(n)s B/s", "%(n)s B/s"),
    "C": ("%(n)s °C", "%(n)s °C"),
    "alerts": ("%(n)s alert", "%(n)s alerts"),
    "boots": ("%(n)s boot", "%(n)s boots"),
    "changes": ("%(n)s change", "%(n)s changes"),
    "drops": ("%(n)s drop", "%(n)s drops"),
    "errors": ("%(n)s error", "%(n)s errors"),
    "errors/h": ("%(n)s error an hour", "%(n)s errors an hour"),
    "errors/s": ("%(n)s error a second", "%(n)s errors a second"),
    "events": ("%(n)s event", "%(n)s events"),
    "events in 5 min": ("%(n)s event in 5 min", "%(n)s events in 5 min"),
    "frames/s": ("%(n)s frame a second", "%(n)s frames a second"),
    "intervals": ("%(n)s interval", "%(n)s intervals"),
    "lanes": ("%(n)s lane", "%(n)s lanes"),
    "lines": ("%(n)s line", "%(n)s lines"),
    "missing GPUs": ("%(n)s missing GPU", "%(n)s missing GPUs"),
    "nodes": ("more than %(n)s node", "more than %(n)s nodes"),
    "of its peers' clock": ("%(n)s of its peers' clock", "%(n)s of its peers' clock"),
    "packets/s": ("%(n)s packet a second", "%(n)s packets a second"),
    "pages": ("%(n)s page", "%(n)s pages"),
    "ratio": ("%(n)s", "%(n)s"),
    "ratio free": ("%(n)s of it free", "%(n)s of it free"),
    "recoveries/min": ("%(n)s recovery a minute", "%(n)s recoveries a minute"),
    "replays/min": ("%(n)s replay a minute", "%(n)s replays a minute"),
    "retries": ("%(n)s retry", "%(n)s retries"),
    "rows": ("%(n)s row", "%(n)s rows"),
    "s": ("%(n)s s", "%(n)s s"),
    "s/read": ("%(n)s s a read", "%(n)s s a read"),
    "scrapes": ("%(n)s scrape", "%(n)s scrapes"),
    "tasks": ("%(n)s task", "%(n)s tasks"),
    "time-outs/min": ("%(n)s time-out a minute", "%(n)s time-outs a minute"),
    "workloads": ("%(n)s workload", "%(n)s workloads"),
}
_WORDLESS = frozenset({"", "bits", "code", "flag", "state", "status"})  # what is compared there is no amount
_OWN = {"lanes": "its own maximum", "generation": "its own maximum", "own unit": "its own limit"}
_BEST = frozenset({"B/s", "lanes"})  # without a number of the site the best that the part ever showed is the limit
UNITS = frozenset({*_UNITS, *_WORDLESS, *_OWN})


def english(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


def _plain(say: Say, text: str) -> str:
    return say(text, text, 1)


def amount(value: float) -> str:
    """A number as people read it: 20 000 000, not 2e+07."""
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 10_000 else f"{value:g}"


def limit(rule: Rule, say: Say = english) -> str:
    """The limit with its unit; a dash where nothing is measured."""
    if "threshold" not in rule.tunes:
        return _plain(say, _OWN[rule.unit]) if rule.unit in _OWN else "–"
    if not rule.threshold and rule.unit in _BEST:
        return _plain(say, "the best it ever showed")
    if rule.unit in _WORDLESS:
        return "–"
    one, many = _UNITS[rule.unit]
    count = int(rule.threshold) if float(rule.threshold).is_integer() else 2
    return say(one, many, abs(count)) % {"n": amount(rule.threshold)}


def window(rule: Rule, say: Say = english) -> str:
    """How long, in how many scrapes, and whether it stays by itself."""
    told = []
    if rule.window:
        seconds = rule.window
        unit, size = next(
            (u, s) for u, s in (("%(n)s h", 3600), ("%(n)s min", 60), ("%(n)s s", 1)) if _fits(seconds, s)
        )
        told.append(_plain(say, unit) % {"n": f"{seconds / size:g}"})
    if rule.of > 1:
        many = "%(n)s of %(of)s scrapes"
        told.append(say(many, many, rule.of) % {"n": rule.scrapes, "of": rule.of})
    elif not rule.window:
        told.append(_plain(say, "at once"))
    if rule.latched:
        told.append(_plain(say, "latches"))
    return ", ".join(told)


def _fits(seconds: float, size: int) -> bool:
    return size == 1 or (seconds >= 2 * size and seconds % (size / 2) == 0)
