"""Remote write 1.0 to (rows, values, times), fast.

Decides what each pushed series says. A series that was met before differs from its last sight in its last bytes only:
a sample of 18 bytes (or of 9, when the value is zero and therefore left out). So a series is cut before that tail and
what is left is looked up; the tails of a whole request are read as one array. The cut is right because only texts that
were read in full and hold labels and nothing else are cached: a hit leaves exactly one sample. Anything else (another
number of samples, histograms, exemplars, a field out of order) is read in full by `read_series`.

Refuses to raise for a bad series: it is counted. Raises BadMessage when the request itself is no message, TooLarge when
it has more series than any sender packs together.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from numpy.typing import NDArray

from fleet.telemetry import packing, protobuf
from fleet.telemetry.exposition import SeriesCache
from fleet.telemetry.protobuf import BadMessage
from fleet.telemetry.series import BAD_LABELS

NewSeries = Callable[[dict[str, str]], int]  # labels -> row, or a negative reject code
STALE: Final = 0x7FF0000000000002  # the NaN by which Prometheus ends a series
GENERATION_SECONDS = 120.0
_UNMET: Final = -(1 << 40)
_LONG, _SHORT = 18, 9
_TAIL = np.dtype(
    [("head", "<u2"), ("key", "u1"), ("value", "<f8"), ("stamp_key", "u1"), ("low", "<u4"), ("high", "<u2")]
)
_NO_STAMPS: NDArray[np.int64] = np.empty(0, dtype=np.int64)
MAX_LABELS = 128
MAX_SERIES = 200_000  # of one request
MAX_SERIES_BYTES, MAX_SAMPLES = 65_536, 1_000  # of one series: two bytes can be a sample, and cost a hundred here


@dataclass(slots=True)
class PushedSamples:
    """What one request, or a part of it, says. `rows` may hold negative reject codes; `stamps` are milliseconds."""

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    stamps: NDArray[np.int64]
    counts: Counter[str]


@dataclass(slots=True)
class PushCache(SeriesCache):
    """The cache for series of many nodes. A generation lasts two minutes, in which everything alive is seen again."""

    limit: int = 200_000
    most: int = 2_000_000
    now: float = 0.0  # set by whoever reads, in seconds
    turned: float = 0.0

    def met(self, key: int) -> int | None:
        row = self.old.pop(key, None)
        if row is not None:
            self.young[key] = row
        return row

    def settle(self, live: int) -> None:
        size = len(self.young)
        if size > self.most or (size > self.limit and self.now - self.turned >= GENERATION_SECONDS):
            self.old, self.young, self.turned = self.young, {}, self.now
            self.rotations += 1


def _messages() -> tuple[Any, Any]:
    """The request with its series left as bytes, and labels alone: all that the library is needed for."""
    proto = descriptor_pb2.FileDescriptorProto(name="muster/write1.proto", package="muster", syntax="proto3")
    outer = proto.message_type.add(name="Outer")
    outer.field.add(name="timeseries", number=1, type=12, label=3)
    label = proto.message_type.add(name="Label")
    label.field.add(name="name", number=1, type=12, label=1)
    label.field.add(name="value", number=2, type=12, label=1)
    labels = proto.message_type.add(name="Labels")
    labels.field.add(name="labels", number=1, type=11, type_name=".muster.Label", label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    found = [pool.FindMessageTypeByName(f"muster.{name}") for name in ("Outer", "Labels")]
    return message_factory.GetMessageClass(found[0]), message_factory.GetMessageClass(found[1])


_Outer, _Labels = _messages()


def split(body: bytes) -> list[bytes]:
    """The series of a request, each as it is on the wire. Metadata is passed over."""
    request = _Outer()
    try:
        request.ParseFromString(body)
    except message.DecodeError as error:
        raise BadMessage("The body is not a write request of version 1.0.") from error
    if len(request.timeseries) > MAX_SERIES:
        raise packing.TooLarge(f"A write request may have {MAX_SERIES} series.")
    return list(request.timeseries)


@dataclass(slots=True)
class OneSeries:
    """A series read in full."""

    labels: list[tuple[str, str]] = field(default_factory=list)
    samples: list[tuple[float, int]] = field(default_factory=list)
    histograms: int = 0
    exemplars: int = 0


def read_series(data: bytes) -> OneSeries:
    """One TimeSeries of version 1.0."""
    found = OneSeries()
    if len(data) > MAX_SERIES_BYTES:
        raise BadMessage("a series that is too long")
    for number, kind, value in protobuf.fields(data):
        if not isinstance(value, bytes) or kind != protobuf.BYTES:
            continue
        if number == 1:
            found.labels.append(_label(value))
        elif number == 2:
            found.samples.append(read_sample(value))
            if len(found.samples) > MAX_SAMPLES:
                raise BadMessage("a series of too many samples")
        elif number == 3:
            found.exemplars += 1
        elif number == 4:
            found.histograms += 1
    return found


def _label(data: bytes) -> tuple[str, str]:
    name = value = ""
    for number, kind, content in protobuf.fields(data):
        if isinstance(content, bytes) and kind == protobuf.BYTES:
            if number == 1:
                name = protobuf.text(content)
            elif number == 2:
                value = protobuf.text(content)
    return name, value


def read_sample(data: bytes) -> tuple[float, int]:
    """(value, milliseconds); what is left out is zero."""
    value, stamp = 0.0, 0
    for number, kind, content in protobuf.fields(data):
        if number == 1 and kind == protobuf.FIXED64 and isinstance(content, bytes):
            (value,) = struct.unpack("<d", content)
        elif number == 2 and kind == protobuf.VARINT and isinstance(content, int):
            stamp = protobuf.signed(content)
    return value, stamp


def row_of(pairs: Sequence[tuple[str, str]], new: NewSeries) -> int:
    """The row of a label set; labels without a name, or twice, are no identity."""
    labels = dict(pairs)
    if len(labels) != len(pairs) or "" in labels or not labels.get("__name__") or len(pairs) > MAX_LABELS:
        return BAD_LABELS
    return new(labels)


class _Extra:
    """Samples of series that were read in full, each with the place of its series."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.rows: list[int] = []
        self.values: list[float] = []
        self.stamps: list[int] = []

    def add(self, place: int, row: int, samples: Sequence[tuple[float, int]]) -> None:
        for value, stamp in samples:
            self.places.append(place)
            self.rows.append(row)
            self.values.append(value)
            self.stamps.append(stamp)

    def floats(self) -> NDArray[np.float64]:
        return np.array(self.values, dtype=np.float64)


def read_slow(series: Sequence[bytes], new: NewSeries) -> PushedSamples:
    """Every series in full: what `read` is held against."""
    counts: Counter[str] = Counter()
    extra = _Extra()
    for place, data in enumerate(series):
        _read_one(data, place, new, extra, counts)
    counts["samples"] = len(extra.rows)
    return PushedSamples(
        np.array(extra.rows, dtype=np.int64), extra.floats(), np.array(extra.stamps, dtype=np.int64), counts
    )


def _read_one(data: bytes, place: int, new: NewSeries, extra: _Extra, counts: Counter[str]) -> int | None:
    """Adds what one series says; its row when it is exactly one sample after its labels, so that it may be cached."""
    try:
        found = read_series(data)
    except BadMessage:
        counts["malformed"] += 1
        return None
    counts["histograms"] += found.histograms
    counts["exemplars"] += found.exemplars
    row = row_of(found.labels, new)
    extra.add(place, row, found.samples)
    return row if len(found.samples) == 1 and not found.histograms and not found.exemplars else None


def _tails(series: Sequence[bytes]) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_], list[int]]:
    """The last sample of each series: values, times, which could be read, and where the labels end."""
    joined = b"".join([data[-_LONG:] for data in series])
    if len(joined) != _LONG * len(series):  # one is shorter than a sample: pad it, so that it is read in full
        joined = b"".join([data[-_LONG:].rjust(_LONG, b"\0") for data in series])
    tails = np.frombuffer(joined, dtype=_TAIL)
    raw = np.frombuffer(joined, dtype=np.uint8).reshape(-1, _LONG)
    low, high = tails["low"].astype(np.int64), tails["high"].astype(np.int64)
    timed = (tails["stamp_key"] == 0x10) & (low & 0x80808080 == 0x80808080) & (high & 0x8080 == 0x0080)
    full = timed & (tails["head"] == 0x1012) & (tails["key"] == 0x09)
    zero = timed & ~full & (raw[:, 9] == 0x12) & (raw[:, 10] == 0x07)
    stamps = low & 0x7F
    for part, shift in ((low, 8), (low, 16), (low, 24)):
        stamps |= (part >> shift & 0x7F) << (shift // 8 * 7)
    stamps |= (high & 0x7F) << 28
    stamps |= (high >> 8 & 0x7F) << 35
    cuts = np.where(zero, -_SHORT, -_LONG).tolist()
    return np.where(zero, 0.0, tails["value"]), stamps, full | zero, cuts


def read(series: Sequence[bytes], cache: PushCache, new: NewSeries) -> PushedSamples:
    """Read series of a request. `new` is asked once for each label text not met before."""
    counts: Counter[str] = Counter()
    if not series:
        return PushedSamples(_NO_STAMPS, np.empty(0), _NO_STAMPS, counts)
    values, stamps, good, cuts = _tails(series)
    find = cache.young.get
    rows = np.array([find(hash(data[:cut]), _UNMET) for data, cut in zip(series, cuts, strict=True)], dtype=np.int64)
    unmet = np.flatnonzero((rows == _UNMET) | ~good)
    if len(unmet):
        rows[unmet] = _UNMET
        extra = _Extra()
        for place in unmet.tolist():
            _meet(series[place], place, bool(good[place]), cuts[place], (cache, new), rows, extra, counts)
        rows, values, stamps = _merged(rows, values, stamps, extra)
    cache.settle(0)
    counts["samples"] = len(rows)
    return PushedSamples(rows, values, stamps, counts)


def _meet(
    data: bytes,
    place: int,
    good: bool,
    cut: int,
    known: tuple[PushCache, NewSeries],
    rows: NDArray[np.int64],
    extra: _Extra,
    counts: Counter[str],
) -> None:
    """A series that was not found: in the older generation, or to be read."""
    cache, new = known
    key = hash(data[:cut])
    row = cache.met(key) if good else None
    if row is None:
        pairs = _labels_only(data[:cut]) if good and len(data) <= MAX_SERIES_BYTES else None
        if pairs is None:
            _read_one(data, place, new, extra, counts)
            return
        row = cache.young[key] = row_of(pairs, new)
    rows[place] = row


def _labels_only(data: bytes) -> list[tuple[str, str]] | None:
    """The labels, when these bytes are the one plain way to write them and nothing else: then their length says so."""
    try:
        found = [(label.name, label.value) for label in _Labels.FromString(data).labels]
        pairs = [(protobuf.text(name), protobuf.text(value)) for name, value in found]
    except (message.DecodeError, BadMessage):
        return None
    plain = sum(_framed(_framed(len(name)) + _framed(len(value))) for name, value in found)
    return pairs if plain == len(data) else None


def _framed(size: int) -> int:
    """The length of a field of that size with its tag; an empty one is left out."""
    return size and size + (2 if size < 0x80 else 3 if size < 0x4000 else 4 if size < 0x200000 else 5)


def _merged(
    rows: NDArray[np.int64], values: NDArray[np.float64], stamps: NDArray[np.int64], extra: _Extra
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Hits and samples read in full, in the order of the series."""
    hit = np.flatnonzero(rows != _UNMET)
    order = np.argsort(np.concatenate([hit, np.array(extra.places, dtype=np.int64)]), kind="stable")
    return (
        np.concatenate([rows[hit], np.array(extra.rows, dtype=np.int64)])[order],
        np.concatenate([values[hit], extra.floats()])[order],
        np.concatenate([stamps[hit], np.array(extra.stamps, dtype=np.int64)])[order],
    )
