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
from itertools import repeat
from operator import getitem
from typing import Any, Final

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from numpy.typing import NDArray

from fleet.telemetry import packing, protobuf
from fleet.telemetry.protobuf import BadMessage
from fleet.telemetry.series import BAD_LABELS

NewSeries = Callable[[dict[str, str]], int]  # labels -> row, or a negative reject code
STALE: Final = 0x7FF0000000000002  # the NaN by which Prometheus ends a series
GENERATION_SECONDS = 120.0
_UNMET: Final = -(1 << 40)
_LONG, _SHORT = 18, 9
# The last 18 bytes of a series, by what they are when its sample is the full one, or the short one.
_TAIL = np.dtype(
    {
        "names": ["head", "short", "value", "word"],
        "formats": ["<u4", "<u2", "<f8", "<u8"],  # word: a byte, the stamp's key, and its six bytes
        "offsets": [0, 9, 3, 10],
        "itemsize": _LONG,
    }
)
_HEAD_MASK, _FULL_HEAD, _ZERO_HEAD = 0xFFFFFF, 0x091012, 0x0712
_STAMP_MASK, _STAMP = np.uint64(0x808080808080FF00), np.uint64(0x0080808080801000)  # six bytes, all but the last go on
_ODD, _EVEN, _14 = np.uint64(0x007F007F007F), np.uint64(0x7F007F007F00), np.uint64(0x3FFF)
_1, _16 = np.uint64(1), np.uint64(16)
_CUTS = np.array([slice(None, -_LONG), slice(None, -_SHORT)], dtype=object)
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
class PushCache:
    """Labels -> row for series of many nodes, bounded under churn.

    Two generations: one lasts two minutes, in which everything alive is seen again, unless it grows beyond `most`.
    """

    limit: int = 200_000
    most: int = 2_000_000
    young: dict[int, int] = field(default_factory=dict)
    old: dict[int, int] = field(default_factory=dict)
    rotations: int = 0
    now: float = 0.0  # set by whoever reads, in seconds
    turned: float = 0.0

    def met(self, key: int) -> int | None:
        row = self.old.pop(key, None)
        if row is not None:
            self.young[key] = row
        return row

    def forget(self, row: int) -> None:
        """All series with this row (a reject code): they are met anew."""
        self.young = {key: known for key, known in self.young.items() if known != row}
        self.old = {key: known for key, known in self.old.items() if known != row}

    def settle(self) -> None:
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
    label.field.add(name="name", number=1, type=9, label=1)
    label.field.add(name="value", number=2, type=9, label=1)
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


def _tails(series: Sequence[bytes]) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_], list[slice]]:
    """The last sample of each series: values, times, which could be read, and where the labels are."""
    joined = b"".join([data[-_LONG:] for data in series])
    if len(joined) != _LONG * len(series):  # one is shorter than a sample: pad it, so that it is read in full
        joined = b"".join([data[-_LONG:].rjust(_LONG, b"\0") for data in series])
    tails = np.frombuffer(joined, dtype=_TAIL)
    word = tails["word"].copy()
    timed = word & _STAMP_MASK == _STAMP
    full = timed & (tails["head"] & _HEAD_MASK == _FULL_HEAD)
    zero = timed & ~full & (tails["short"] == _ZERO_HEAD)
    word >>= _16  # seven bits in each byte become fourteen in two, and then one number
    word = word & _ODD | (word & _EVEN) >> _1
    stamps = word & _14 | (word >> _16 & _14) << np.uint64(14) | (word >> np.uint64(32)) << np.uint64(28)
    cuts: list[slice] = _CUTS[zero.astype(np.intp)].tolist()
    return np.where(zero, 0.0, tails["value"]), stamps.astype(np.int64), full | zero, cuts


def read(series: Sequence[bytes], cache: PushCache, new: NewSeries) -> PushedSamples:
    """Read series of a request. `new` is asked once for each label text not met before."""
    counts: Counter[str] = Counter()
    if not series:
        return PushedSamples(_NO_STAMPS, np.empty(0), _NO_STAMPS, counts)
    values, stamps, good, cuts = _tails(series)
    keys = map(hash, map(getitem, series, cuts))
    rows = np.fromiter(map(cache.young.get, keys, repeat(_UNMET)), dtype=np.int64, count=len(series))
    unmet = np.flatnonzero((rows == _UNMET) | ~good)
    if len(unmet):
        rows[unmet] = _UNMET
        extra = _Extra()
        for place in unmet.tolist():
            _meet(series[place], place, bool(good[place]), cuts[place], (cache, new), rows, extra, counts)
        rows, values, stamps = _merged(rows, values, stamps, extra)
    cache.settle()
    counts["samples"] = len(rows)
    return PushedSamples(rows, values, stamps, counts)


def _meet(
    data: bytes,
    place: int,
    good: bool,
    cut: slice,
    known: tuple[PushCache, NewSeries],
    rows: NDArray[np.int64],
    extra: _Extra,
    counts: Counter[str],
) -> None:
    """A series that was not found: in the older generation, or to be read."""
    cache, new = known
    text = data[cut]
    key = hash(text)
    row = cache.met(key) if good else None
    if row is None:
        pairs = _labels_only(text) if good and len(data) <= MAX_SERIES_BYTES else None
        if pairs is None:
            _read_one(data, place, new, extra, counts)
            return
        row = cache.young[key] = row_of(pairs, new)
    rows[place] = row


def _labels_only(data: bytes) -> list[tuple[str, str]] | None:
    """The labels, when these bytes are the one plain way to write them and nothing else: then their length says so."""
    try:
        pairs = [(label.name, label.value) for label in _Labels.FromString(data).labels]
    except message.DecodeError:
        return None
    short = sum([len(name) + len(value) + 6 for name, value in pairs if name and value])
    if short == len(data) and data.isascii() and b"\0" not in data:  # texts after two bytes each, and labels too
        return pairs
    if any("\0" in name or "\0" in value for name, value in pairs):
        return None
    plain = sum(_framed(_framed(len(name.encode())) + _framed(len(value.encode()))) for name, value in pairs)
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
