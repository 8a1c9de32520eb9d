"""What stands before the kernel's own words in a line: priorities, times, a host, a tag.

Decides where the kernel's words begin, and which host and time the head names. Knows the heads of syslog (both RFCs),
journalctl, dmesg, /dev/kmsg and container runtimes, in any order. Refuses to look further: where anything else stands
before them, somebody quotes the kernel, and a quotation proves nothing of the node that it was written on.

A head without a zone or a year is read as the latest moment that it can mean, so that only what is surely old counts
as old.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

READ = 2_048  # signs of a line: the kernel writes no longer ones
WESTERNMOST = timedelta(hours=12)
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
_MONTH = r"(?:[^\W\d_]{3,10}\.?|\d{1,2}月)[ ]{1,2}\d{1,2}(?:日)?(?: \d{4})? \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: \d{4})?"
_HOST = r"(?P<%s>\w(?:[\w.:-]{0,251}\w)?)"
_HEAD = re.compile(
    r"(?:\s++"
    r"|<\d{1,3}>(?:1 )?"
    rf"|{_ISO} (?:stdout|stderr) [FP] |(?:{_ISO}|{_MONTH}|\d{{9,10}}\.\d{{1,9}})(?=\s)"
    r"|\[(?:[\s\d.<>+]{1,40}|\s{0,8}[CT]\d{1,8}|[^\[\]]{0,30}\d\d:\d\d[^\[\]]{0,20})\]"
    r"|(?P<facility>\d{1,3}),\d{1,20},\d{1,20},[^;\s]{1,64};"
    r"|kern\s{0,8}:\w{3,6}\s{0,8}:"
    rf"|(?:{_HOST % 'tagged'} )?kernel(?:\[\d{{1,8}}\])?:"
    rf"|{_HOST % 'fields'} kernel \S{{1,128}} \S{{1,32}} (?:-|\[[^\]]{{0,512}}\])(?=\s)"
    r"|message repeated \d{1,9} times: \[\s?"
    r")*+"
)
_EXACT = re.compile(_ISO)
_LOOSE = re.compile(
    r"(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2})(?: (?P<year>\d{4}))?"
    r" (?P<clock>\d\d:\d\d:\d\d)(?: (?P<later>\d{4}))?"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Head:
    """`end` is where the kernel's words begin. `kernel` is False where the head itself says that another wrote them."""

    end: int
    text: str
    host: str = ""
    kernel: bool = True


def read(text: str) -> Head:
    """The head of one line."""
    found = _HEAD.match(text, 0, READ)
    if found is None:  # pragma: no cover - the empty head always matches
        return Head(0, "")
    facility = int(found["facility"] or 0) >> 3  # below the priority's three bits; 0 is the kernel's
    return Head(found.end(), found[0], found["tagged"] or found["fields"] or "", not facility)


def at(head: str, read_at: datetime | None) -> datetime | None:
    """The latest moment that a head's time can mean; None when it tells none, or no year and nobody read it."""
    exact = _EXACT.search(head)
    if exact:
        try:
            said = datetime.fromisoformat(exact[0].replace(",", ".").replace(" +", "+").replace(" -", "-"))
        except ValueError:
            return None
        return said.replace(tzinfo=UTC) + WESTERNMOST if said.tzinfo is None else _in_utc(said)
    loose = _LOOSE.search(head)
    if loose is None or loose["month"] not in _MONTHS:
        return None
    year = loose["year"] or loose["later"]
    if year is None and read_at is None:
        return None
    years = [int(year)] if year else [read_at.year + 1, read_at.year, read_at.year - 1] if read_at else []
    for one in years:
        said_at = _local(one, _MONTHS.index(loose["month"]) + 1, int(loose["day"]), loose["clock"])
        if said_at is not None and (year or read_at is None or said_at <= read_at + timedelta(days=2)):
            return said_at
    return None


def _in_utc(said: datetime) -> datetime | None:
    try:
        return said.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _local(year: int, month: int, day: int, clock: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{year:04d}-{month:02d}-{day:02d}T{clock}+00:00") + WESTERNMOST
    except (ValueError, OverflowError):  # 29 February
        return None
