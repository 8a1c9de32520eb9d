"""Batches of log records, as Fluent Bit and Vector post them, to kernel lines.

Decides which records are the kernel's, one line at a time where a record holds several, and when each was written: in
which unit an epoch is told, and that a line which tells an older time than its record was read late. Refuses nothing
silently: a record of another writer, without text or host, a batch cut in the middle and what comes after the
hundred-thousandth line are counted by reason, and the rest is kept. The claimed host is only a claim: the caller
resolves it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from fleet.telemetry import kernelhead, logrecords

MAX_TEXT, MAX_HOST = 8_192, 253
MAX_RECORDS = 100_000  # of one body; a real one of the largest size holds half as many
_FIRST_YEAR, _LAST_YEAR = 1970, 9000  # beyond them a clock error can no longer be added or taken away
_TIME = ("date", "timestamp", "ts", "@timestamp", "time", "realtime_timestamp", "source_realtime_timestamp")
_LINE_END = re.compile(r"(?:[\r\n]|\\x0a)+")  # /dev/kmsg spells one out
_DECODER = json.JSONDecoder()
_BETWEEN = "[], \t\r\x1e"  # what may stand between two records: an array's own signs, and the separator of RFC 7464
_BOUNDARY = re.compile(r"\}[, \t\x1e]*(?=\{)")
# How often a body may fail before less is tried: each failure may cost a look at all the rest of it.
_MAX_FAILURES_ACROSS, _MAX_FAILURES_WITHIN = 16, 1_000
# Above which an epoch number cannot be of the coarser unit: seconds, milliseconds, microseconds, nanoseconds.
_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))


@dataclass(frozen=True, slots=True)
class KernelLine:
    """`node_claim` as the shipper wrote it; `at` is None when the record tells no time (then use that of receipt).
    `others` are names of a host that the same record or line tells besides: none of them may be another node. `boot` is
    the boot that it was written in, where the journal says so."""

    node_claim: str
    at: datetime | None
    text: str
    others: tuple[str, ...] = ()
    boot: str = ""


@dataclass(slots=True)
class Batch:
    lines: list[KernelLine]
    rejected: Counter[str]


def read_batch(body: bytes) -> Batch:
    """A JSON array, JSON lines, or objects one after another. Never raises."""
    batch = Batch([], Counter())
    for record in _records(body, batch.rejected):
        take_record(record, batch)
    return batch


def take_record(record: Any, batch: Batch) -> None:
    """One record: a line, or why it is none."""
    if not isinstance(record, dict):
        batch.rejected["not_an_object"] += 1
        return
    if len(batch.lines) >= MAX_RECORDS:
        batch.rejected["too_many"] += 1
        return
    said = logrecords.named(record)
    text = logrecords.text(said)
    if not text:
        batch.rejected["no_text"] += 1
    elif not logrecords.of_kernel(said):
        batch.rejected["not_kernel"] += 1
    else:
        whole = KernelLine("", _time(said, batch.rejected), text, tuple(logrecords.hosts(said)), logrecords.boot(said))
        for line in _LINE_END.split(text) if _LINE_END.search(text) else (text,):
            _take_line(line.strip(), whole, batch)


def _take_line(text: str, whole: KernelLine, batch: Batch) -> None:
    """One line of a record's text; `whole` is what the record says of all of them."""
    if not text:
        return
    head, at = kernelhead.read(text), whole.at
    own = kernelhead.at(head.text, at) if head.end else None
    if own is not None and _FIRST_YEAR <= own.year <= _LAST_YEAR and (at is None or own < at):
        at = own
    names = whole.others if not head.host or head.host in whole.others else (*whole.others, head.host)
    if not head.kernel:
        batch.rejected["not_kernel"] += 1
    elif not names:
        batch.rejected["no_host"] += 1
    elif len(batch.lines) >= MAX_RECORDS:
        batch.rejected["too_many"] += 1
    else:
        claim, *others = (name[:MAX_HOST] for name in names)
        batch.lines.append(KernelLine(claim, at, text[:MAX_TEXT], tuple(others), whole.boot))


def _records(body: bytes, rejected: Counter[str]) -> Iterator[Any]:
    try:
        whole = orjson.loads(body)
    except orjson.JSONDecodeError:
        yield from _piecewise(body.decode("utf-8", "replace"), rejected)
        return
    if isinstance(whole, list):
        yield from whole
    else:
        yield whole


def _piecewise(text: str, rejected: Counter[str]) -> Iterator[Any]:
    """Several values, or an array that was cut. Each thing that cannot be read is counted once, and what follows it is
    read again: in the same line from the next place where one object ends and another begins, else in the next line.

    An object is looked for in its line first, so that reading stays linear however much is broken; only where a line
    ends in the middle of an object is it tried on the rest of the body.
    """
    at, across, again = 0, _MAX_FAILURES_ACROSS, _MAX_FAILURES_WITHIN
    while at < len(text):
        if rejected["cut_json"] > MAX_RECORDS:
            rejected["too_many"] += 1
            return
        end = (text.find("\n", at) + 1) or len(text)
        line, place, at = text[at:end], 0, end
        while (start := line.find("{", place)) >= 0:
            if line[place:start].strip(_BETWEEN):  # the rest of something, or a prefix that some shipper sets
                rejected["cut_json"] += 1
            try:
                record, place = _DECODER.raw_decode(line, start)
            except (ValueError, RecursionError) as error:
                pos = getattr(error, "pos", start + 1)
                if across and pos >= len(line.rstrip()):  # it may go on in the next line
                    try:
                        record, at = _DECODER.raw_decode(text, end - len(line) + start)
                    except (ValueError, RecursionError):
                        across -= 1
                    else:
                        line, place = "", 0
                        yield record
                        continue
                rejected["cut_json"] += 1
                again -= 1
                found = _BOUNDARY.search(line, max(pos, start + 1)) if again > 0 else None
                line, place = (line, found.end()) if found else ("", 0)
            else:
                yield record
        if line[place:].strip(_BETWEEN + "\n"):
            rejected["cut_json"] += 1


def _time(record: dict[str, Any], rejected: Counter[str]) -> datetime | None:
    for key in _TIME:
        if key in record:
            at = read_time(record[key])
            if at is None:
                rejected["bad_time"] += 1  # counted, yet the line itself is kept
            return at
    return None


def read_time(value: Any) -> datetime | None:
    """Epoch in s, ms, us or ns (number or digits), or RFC 3339. None when it is none of these."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return _rfc3339(value)
    if not isinstance(value, int | float) or not 0 < value < 1e20:
        return None
    for limit, scale in _UNITS:
        if value < limit:
            try:
                return datetime.fromtimestamp(value / scale, UTC)
            except (OverflowError, ValueError, OSError):
                return None
    return None


def _rfc3339(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text.strip())
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):  # the first and the last day of the calendar have no hour in every zone
        return None
    return at if _FIRST_YEAR <= at.year <= _LAST_YEAR else None
