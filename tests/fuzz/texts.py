"""Harnesses of the text and JSON that is scraped, pushed and watched.

Each takes any bytes and asserts what must hold of every input: nothing raised but the refusals that are named here,
what was read and what was rejected add up to what came, and whatever was read fits the columns that will hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from fleet.ports.errors import PortError
from fleet.telemetry import kernelsignals, loki
from fleet.telemetry.exposition import parse
from fleet.telemetry.frame import Frame
from fleet.telemetry.healthevents import EventBatch, read_alerts, read_events
from fleet.telemetry.intake import Intake
from fleet.telemetry.kernellog import MAX_HOST, MAX_TEXT, Batch, read_batch, read_time
from fleet.telemetry.logrecords import plain
from fleet.telemetry.series import REJECTS
from fleet.telemetry.seriescache import SeriesCache
from tests.unit.telemetry.texts import Series, plainly

WALL = 1_800_000_000.0
EXPOSITION = {
    "cut_line", "too_long", "malformed", "bad_value", "bad_label", "bad_encoding", "bad_timestamp", "unwanted",
    "too_many_lines",
}  # fmt: skip
RECORDS = {
    "cut_json", "not_an_object", "no_text", "no_host", "not_kernel", "bad_time", "too_many", "malformed", "bad_label",
}  # fmt: skip
EVENTS = {"cut_json", "not_an_object", "unknown_event", "no_host", "bad_time", "no_id", "no_verdict", "too_many"}
WANTED = frozenset({b"up", b"DCGM_FI_DEV_GPU_TEMP", b"a"})


def storable(text: str, longest: int) -> None:
    """Postgres takes it: no NUL, no half character, not too long."""
    assert "\0" not in text and len(text) <= longest, repr(text[:80])
    text.encode()


def exposition(data: bytes) -> None:
    """The fast reading says what the slow one says, cold and warm, and every line is a sample or counted."""
    wanted = WANTED if data[:1] < b"\x80" else None
    body = data[1:]
    cache, series = SeriesCache(), Series()
    samples, bad = plainly(body)
    for _ in range(2):
        parsed = parse(body, cache, series.new)
        named = series.named(parsed.rows.tolist())
        told = [(*named[at], value, parsed.stamps.get(at)) for at, value in enumerate(parsed.values.tolist())]
        assert repr(told) == repr(samples)
        assert parsed.counts["samples"] == len(samples) and set(parsed.counts) <= EXPOSITION | {"samples"}
        assert sum(bad.values()) == sum(count for kind, count in parsed.counts.items() if kind != "samples")
    assert set(parse(body, SeriesCache(), Series().new, wanted).counts) <= EXPOSITION | {"samples"}


def scrape(data: bytes) -> None:
    """A scrape goes into the frame, or is counted; the frame holds numbers and times that are some."""
    frame = Frame(64)
    intake = Intake(frame, {"n1": "n1", "n2": "n2"}.get)
    target = frame.target("n1", "dcgm", 15.0)
    for _ in range(2):
        taken = intake.scraped(target, data, 1000.0, WALL)
        assert 0 <= taken <= frame.r.size
    known = {*EXPOSITION, *REJECTS.values(), "duplicate", "infinite", "absurd_value", "clock_skew"}
    assert set(target.rejects) <= known, set(target.rejects) - known
    size = frame.r.size
    assert not ((frame.r.mono[:size] > 0) & ~(abs(frame.r.source[:size] - WALL) <= 300)).any()


def _lines(batch: Batch) -> None:
    assert set(batch.rejected) <= RECORDS, set(batch.rejected)
    for line in batch.lines:
        storable(line.node_claim, MAX_HOST)
        storable(line.text, MAX_TEXT)
        assert line.node_claim and line.text
        assert line.at is None or 1970 <= line.at.year <= 9000
        _signal(line.text)


def _signal(text: str) -> None:
    found = kernelsignals.match(text)
    if found is not None:
        int(found.code or 0) if found.kind in ("xid", "sxid") else None
        storable(found.device, 2_100)
        storable(found.detail, 2_100)


def kernel_records(data: bytes) -> None:
    """Of a whole JSON array no entry is lost: each is a line (or, with line ends in its text, several) or rejected."""
    batch = read_batch(data)
    _lines(batch)
    try:
        whole = orjson.loads(data)
    except orjson.JSONDecodeError:
        assert batch.lines or batch.rejected or not data.decode("utf-8", "replace").strip("[], \t\r\n\x1e")
        return
    count = len(whole) if isinstance(whole, list) else 1
    taken = len(batch.lines) + sum(batch.rejected.values()) - batch.rejected["bad_time"]
    assert taken >= count if b"\\" in data or b"[" in data[1:] else taken == count


def kernel_line(data: bytes) -> None:
    _signal(plain(data.decode("utf-8", "replace"))[:MAX_TEXT])
    read_time(data.decode("utf-8", "surrogateescape"))


def loki_json(data: bytes) -> None:
    batch = loki.read_json(data)
    _lines(batch)
    assert batch.lines or batch.rejected or b"[]" in data.replace(b" ", b"") or len(orjson.loads(data)["streams"]) >= 0


def _events(batch: EventBatch) -> None:
    assert set(batch.rejected) <= EVENTS, set(batch.rejected)
    for event in batch.events:
        assert event.node_claims and event.check and event.at is not None
        for name in event.node_claims:
            storable(name, MAX_HOST)
        for kind, value in event.parts:
            storable(kind, 200)
            storable(value, 200)
        for text, longest in ((event.id, 900), (event.check, 401), (event.publisher, 200), (event.text, 400),
                              (event.code, 32), (event.cause, 100)):  # fmt: skip
            storable(text, longest)


def health_events(data: bytes) -> None:
    """Structured, batch or (an odd first byte) with the event in the headers."""
    headers = {"type": "t", "id": "h", "source": "s", "specversion": "1.0"} if data[:1] > b"\x7f" else {}
    body = data[1:]
    batch = read_events(body, headers)
    _events(batch)
    assert batch.events or batch.rejected or _empty(body)


def _empty(body: bytes) -> bool:
    """A batch of nothing is no mistake, and neither are states of nothing."""
    whole = orjson.loads(body)
    return whole == [] or b"[]" in body.replace(b" ", b"").replace(b"\n", b"").replace(b"\t", b"").replace(b"\r", b"")


def alerts(data: bytes) -> None:
    batch = read_alerts(data)
    _events(batch)
    try:
        given = orjson.loads(data)["alerts"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return
    if isinstance(given, list) and not batch.rejected["unknown_event"]:
        assert len(batch.events) + sum(batch.rejected.values()) == len(given)


def refusing(read: Callable[[bytes], Any], data: bytes) -> Any:
    """What an adapter reads, or None when it refuses in the words of its port."""
    try:
        return read(data)
    except PortError as error:
        assert str(error) and len(str(error)) < 2_000
        return None
