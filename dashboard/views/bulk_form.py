"""Reads the form of a bulk action or of a planned maintenance.

Decides what each field means and which sentence a wrong one gets. Refuses what it cannot read instead of guessing.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import QueryDict
from django.utils.translation import gettext as _

from fleet.lifecycle.maintenance_pace import Pace
from fleet.policy.windows import OPENING, Window
from fleet.readmodels.fleet_map import Filters
from fleet.readmodels.selection import Selection

FIELDS = (*Filters.NAMES, "labels", "names", "action", "playbook", "reason", "at_once", "stop_after", "zone", "start",
          "minutes", "begins", "ends")  # fmt: skip
MOST_NAMES = 10_000


class BadForm(Exception):
    """A field cannot be read; the text says which and why."""


def selection(form: QueryDict) -> Selection:
    names = tuple(dict.fromkeys(name for name in re.split(r"[\s,]+", form.get("names", "")) if name))
    if len(names) > MOST_NAMES:
        raise BadForm(_("More than %(n)s names.") % {"n": MOST_NAMES})
    filters = Filters(**{name: form.get(name, "").strip()[:253] for name in Filters.NAMES})
    return Selection(filters, form.get("labels", "").strip()[:1000], names)


def pace(form: QueryDict, windowed: bool) -> Pace:
    stop_after = _number(form, "stop_after", _("Failures that pause it"))
    return Pace(_number(form, "at_once", _("At once")), stop_after, _window(form) if windowed else None)


def _number(form: QueryDict, name: str, label: str) -> int | None:
    text = form.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 6:
        raise BadForm(_("%(field)s: a whole number.") % {"field": label})
    return int(text)


def _window(form: QueryDict) -> Window:
    days = frozenset(int(day) for day in form.getlist("days") if day in "1234567" and len(day) == 1)
    try:
        start = time.fromisoformat(form.get("start", ""))
    except ValueError as error:
        raise BadForm(_("Starts at: a time such as 02:00.")) from error
    zone, minutes = form.get("zone", "").strip(), _number(form, "minutes", _("Minutes"))
    begins, ends = _day(form, "begins", zone), _day(form, "ends", zone)
    ends = ends + timedelta(days=1) if ends else None  # the last day is part of it
    window = Window(OPENING, "", zone, days, start.replace(tzinfo=None, second=0, microsecond=0), minutes or 0,
                    begins=begins, ends=ends)  # fmt: skip
    problem = window.problem()
    if problem:
        raise BadForm(problem)
    return window


def _day(form: QueryDict, name: str, zone: str) -> datetime | None:
    """Midnight of that day in the zone."""
    text = form.get(name, "").strip()
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        if not 2000 <= day.year <= 9000:
            raise ValueError(text)
        return datetime.combine(day, time.min, ZoneInfo(zone))
    except (ZoneInfoNotFoundError, OSError) as error:
        raise BadForm(_("There is no time zone %(zone)s.") % {"zone": zone}) from error
    except ValueError as error:
        raise BadForm(_("A day such as 2026-12-31.")) from error
