"""Remote write 2.0 to (rows, values, times).

Decides what each pushed series says when its labels are numbers into a table of texts that the request brings along.
The numbers mean something else in the next request, so a series is looked up by the texts they stand for; each text is
hashed once in a request. Native histograms and exemplars are counted and not kept; metadata is passed over.

Refuses numbers outside the table: such a series is counted as malformed. Raises BadMessage when the request is none,
TooLarge when it has more series or texts than any sender packs together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from fleet.telemetry import packing, protobuf
from fleet.telemetry.protobuf import BadMessage
from fleet.telemetry.remotewrite import (
    MAX_LABELS,
    MAX_SAMPLES,
    MAX_SERIES,
    NewSeries,
    PushCache,
    PushedSamples,
    read_sample,
    row_of,
)
from fleet.telemetry.series import BAD_LABELS

_DOUBLE, _INT64, _STRING, _MESSAGE, _BYTES, _UINT32 = 1, 3, 9, 11, 12, 13
_ONE, _MANY = 1, 3
MAX_PLAIN = 16 * 1024 * 1024  # unpacked: the table makes it a fraction of what version 1.0 needs for the same


def _request() -> Any:
    proto = descriptor_pb2.FileDescriptorProto(name="muster/write2.proto", package="muster", syntax="proto3")
    sample = proto.message_type.add(name="Sample")
    sample.field.add(name="value", number=1, type=_DOUBLE, label=_ONE)
    sample.field.add(name="timestamp", number=2, type=_INT64, label=_ONE)
    series = proto.message_type.add(name="Series")
    series.field.add(name="labels_refs", number=1, type=_UINT32, label=_MANY)
    series.field.add(name="samples", number=2, type=_MESSAGE, type_name=".muster.Sample", label=_MANY)
    series.field.add(name="histograms", number=3, type=_BYTES, label=_MANY)
    series.field.add(name="exemplars", number=4, type=_BYTES, label=_MANY)
    request = proto.message_type.add(name="Request")
    request.field.add(name="symbols", number=4, type=_BYTES, label=_MANY)
    request.field.add(name="timeseries", number=5, type=_MESSAGE, type_name=".muster.Series", label=_MANY)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("muster.Request"))


_Request = _request()


class Request:
    """One request, parsed; `read` may be called for one part of its series after another."""

    def __init__(self, body: bytes) -> None:
        request = _Request()
        try:
            request.ParseFromString(body)
        except message.DecodeError as error:
            raise BadMessage("The body is not a write request of version 2.0.") from error
        if len(request.timeseries) > MAX_SERIES or len(request.symbols) > 5 * MAX_SERIES:
            raise packing.TooLarge(f"A write request may have {MAX_SERIES} series.")
        self.symbols: list[bytes] = list(request.symbols)
        self._series = request.timeseries

    def __len__(self) -> int:
        return len(self._series)

    def read(self, start: int, end: int, cache: PushCache, new: NewSeries) -> PushedSamples:
        counts: Counter[str] = Counter()
        rows: list[int] = []
        values: list[float] = []
        stamps: list[int] = []
        symbols, find = self.symbols, cache.young.get
        for series in self._series[start:end]:
            refs = series.labels_refs
            if len(refs) < 2 or len(refs) % 2 or len(refs) > 2 * MAX_LABELS or len(series.samples) > MAX_SAMPLES:
                counts["malformed"] += 1
                continue
            try:
                texts: tuple[bytes, ...] = itemgetter(*refs)(symbols)
            except IndexError:
                counts["malformed"] += 1
                continue
            key = hash(texts)
            row = find(key)
            if row is None:
                row = cache.met(key)
            if row is None:
                row = cache.young[key] = _row(texts, new)
            if len(series.histograms) or len(series.exemplars):
                counts["histograms"] += len(series.histograms)
                counts["exemplars"] += len(series.exemplars)
            for sample in series.samples:
                rows.append(row)
                values.append(sample.value)
                stamps.append(sample.timestamp)
        cache.settle()
        counts["samples"] = len(rows)
        return _made(rows, values, stamps, counts)


def _row(texts: Sequence[bytes], new: NewSeries) -> int:
    try:
        plain = [protobuf.text(text) for text in texts]
    except BadMessage:
        return BAD_LABELS
    return row_of(list(zip(plain[::2], plain[1::2], strict=True)), new)


def _made(rows: list[int], values: list[float], stamps: list[int], counts: Counter[str]) -> PushedSamples:
    return PushedSamples(
        np.array(rows, dtype=np.int64), np.array(values, dtype=np.float64), np.array(stamps, dtype=np.int64), counts
    )


def read_slow(body: bytes, new: NewSeries) -> PushedSamples:
    """The same by hand, field by field: what `Request.read` is held against."""
    symbols: list[bytes] = []
    series: list[bytes] = []
    for number, kind, value in protobuf.fields(body):
        if isinstance(value, bytes) and kind == protobuf.BYTES and number in (4, 5):
            (symbols if number == 4 else series).append(value)
    counts: Counter[str] = Counter()
    rows: list[int] = []
    values: list[float] = []
    stamps: list[int] = []
    for data in series:
        refs, samples = _by_hand(data, counts)
        bad = len(refs) < 2 or len(refs) % 2 or len(refs) > 2 * MAX_LABELS or max(refs) >= len(symbols)
        if bad or len(samples) > MAX_SAMPLES:
            counts["malformed"] += 1
            continue
        row = _row([symbols[ref] for ref in refs], new)
        rows += [row] * len(samples)
        values += [sample[0] for sample in samples]
        stamps += [sample[1] for sample in samples]
    counts["samples"] = len(rows)
    return _made(rows, values, stamps, counts)


def _by_hand(data: bytes, counts: Counter[str]) -> tuple[list[int], list[tuple[float, int]]]:
    refs: list[int] = []
    samples: list[tuple[float, int]] = []
    for number, kind, value in protobuf.fields(data):
        if number == 1 and isinstance(value, int):
            refs.append(value & 0xFFFFFFFF)
        elif number == 1 and kind == protobuf.BYTES and isinstance(value, bytes):
            at = 0
            while at < len(value):
                ref, at = protobuf.varint(value, at)
                refs.append(ref & 0xFFFFFFFF)
        elif number == 2 and kind == protobuf.BYTES and isinstance(value, bytes):
            samples.append(read_sample(value))
        elif number in (3, 4) and kind == protobuf.BYTES:
            counts["histograms" if number == 3 else "exemplars"] += 1
    return refs, samples
