"""Durations and times as people read them.

Decides the two largest units and the written form of an absolute time. Refuses local time: everything is UTC here, and
a script on the page may rewrite the text in another zone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.utils.translation import gettext as _

FORMATS = {"hm": "%H:%M", "hms": "%H:%M:%S", "full": "%Y-%m-%d %H:%M:%S", "day": "%Y-%m-%d"}


def span(seconds: float) -> str:
    """`24 s`, `21 min`, `2 h 4 min`, `2 d 3 h`; below 10 s with one decimal if it has any, below 0.1 s `12 ms`."""
    seconds = max(0.0, seconds)
    if 0 < seconds < 0.1:
        return _("%(n)s ms") % {"n": max(1, round(seconds * 1000))}
    if seconds < 10 and seconds != int(seconds):
        return _("%(n)s s") % {"n": f"{seconds:.1f}"}
    whole = int(seconds)
    if whole < 60:
        return _("%(n)s s") % {"n": whole}
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if hours == 0:
        return _("%(n)s min") % {"n": minutes}
    if days == 0:
        rest = minutes % 60
        return _("%(h)s h %(m)s min") % {"h": hours, "m": rest} if rest else _("%(h)s h") % {"h": hours}
    rest = hours % 24
    return _("%(d)s d %(h)s h") % {"d": days, "h": rest} if rest and days < 7 else _("%(d)s d") % {"d": days}


def age(since: datetime, now: datetime) -> str:
    """The span from `since` to `now` in whole seconds."""
    return span(int(max(timedelta(0), now - since).total_seconds()))


def minutes_left(seconds: float) -> str:
    """A countdown as `0:24` or `1:02:03`; from two days on in words."""
    whole = max(0, int(seconds))
    if whole >= 48 * 3600:
        return span(whole)
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}"


def absolute(at: datetime, form: str = "full") -> str:
    return at.astimezone(UTC).strftime(FORMATS[form])


def iso(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
