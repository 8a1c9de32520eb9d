"""Batches of log records, as Fluent Bit and Vector post them, to kernel lines.

Decides where in a record the text, the claimed host and the time are, whichever of the usual field names a shipper
uses, and in which unit an epoch is written. Refuses nothing silently: a record without text or host, or a batch cut
in the middle, is counted by reason and the rest is kept. The claimed host is only a claim: the caller resolves it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

MAX_TEXT = 8_192
_TEXT = ("log", "message", "MESSAGE", "msg")
_HOST = ("host", "hostname", "_HOSTNAME", "node", "node_name", "nodename")
_TIME = ("date", "timestamp", "ts", "@timestamp", "time")
_DECODER = json.JSONDecoder()
# Above which an epoch number cannot be of the coarser unit: seconds, milliseconds, microseconds, nanoseconds.
_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))


@dataclass(frozen=True, slots=True)
class KernelLine:
    """`node_claim` as the shipper wrote it; `at` is None when the record tells no time (then use that of receipt)."""

    node_claim: str
    at: datetime | None
    text: str


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
    text = _text(record)
    host = _host(record)
    if not text:
        batch.rejected["no_text"] += 1
    elif not host:
        batch.rejected["no_host"] += 1
    else:
        batch.lines.append(KernelLine(host, _time(record, batch.rejected), text[:MAX_TEXT]))


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
    """Several values, or an array that was cut: decode one object after another, skip to the next on trouble."""
    at = 0
    while True:
        start = text.find("{", at)
        if start < 0:
            return
        try:
            record, at = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            rejected["cut_json"] += 1
            following = text.find("\n", start)  # in JSON lines the next line may be whole again
            if following < 0:
                return
            at = following
            continue
        yield record


def _text(record: dict[str, Any]) -> str:
    for key in _TEXT:
        value = record.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip().replace("\0", "")
    return ""


def _host(record: dict[str, Any]) -> str:
    inner = record.get("kubernetes")
    if isinstance(inner, dict):
        for key in ("node_name", "host", "pod_node_name"):
            if isinstance(inner.get(key), str) and inner[key].strip():
                return str(inner[key]).strip()
    for key in _HOST:
        value = record.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _time(record: dict[str, Any], rejected: Counter[str]) -> datetime | None:
    for key in _TIME:
        if key in record:
            at = read_time(record[key])
            if at is None:
                rejected["bad_time"] += 1  # counted, yet the line itself is kept
            return at
    micros = record.get("__REALTIME_TIMESTAMP", record.get("_SOURCE_REALTIME_TIMESTAMP"))
    return None if micros is None else read_time(micros)


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
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
