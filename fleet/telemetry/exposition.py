"""Exposition text to (series ids, values), fast.

Decides what each line of a scrape says. Almost every line of a scrape was there the scrape before with another value,
so each line is cut at its last blank, and when what is left of them are the texts of the scrape before, in their order,
so are the rows. Where they are not, each is looked up among the series of that target, and only a series not met before
is parsed. The cut is right because only complete, validated series texts are ever remembered, so a hit leaves exactly
the value. What is remembered is the text's 64-bit hash, not the text: at 10,000 nodes the texts alone would fill a
gigabyte, and the hash is keyed per process, so nobody can aim for a collision. An optional trailing timestamp makes the
first look-up miss, and a second one with one token less find it.

Refuses to raise: bad lines are counted by kind, and a body cut in the middle of a line loses that line only.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.telemetry.seriescache import SeriesCache

MAX_LINE = 16_384
MAX_LINES = 1_000_000  # of one body: 32 MiB of line ends would become a gigabyte of lines


class Labels(dict[str, str]):
    """A label set, one object for all series of a scrape that carry the same; `place` is the reader's own note."""

    __slots__ = ("place",)

    def __init__(self, *pairs: Iterable[tuple[str, str]]) -> None:
        super().__init__(*pairs)
        self.place: object = None


NewSeries = Callable[[str, Labels, str], int]  # (name, labels, declared type) -> row, or a negative reject code

_LINE = re.compile(
    rb'[ \t]*+([a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+(?:\{((?:[^"{}]++|"(?:[^"\\]++|\\.)*+")*+)\}[ \t]*+|(?<=[ \t]))'
    rb"([^ \t]++)(?:[ \t]++(-?[0-9]++)(\.[0-9]*+)?)?[ \t\r]*+(?:(?<=[ \t])# ?\{.*)?",
    re.DOTALL,
)
_QUOTED = re.compile(rb'[ \t]*+\{[ \t]*+"([^"\\]*+)"[ \t]*+(?:,(?=[^}])|(?=,?\}))')  # a name that is no plain word
_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(rb'[ \t]*+([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]++|\\.)*+)"[ \t]*+(,|$)', re.DOTALL)
_PLAIN = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"(?:,|$)')
_ESCAPE = re.compile(r'\\([\\n"])')
_TYPE = re.compile(rb"^#[ \t]+TYPE[ \t]+([^ \t]+)[ \t]+([a-z]+)", re.MULTILINE)
_FAMILY = b"\n# TYPE "


class BadLine(ValueError):
    """A line that cannot be a sample; `kind` is what it is counted as."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(slots=True)
class Parsed:
    """One body. `rows` may hold negative reject codes; `stamps` (position -> ms) is sparse because stamps are rare."""

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    stamps: dict[int, int]
    counts: Counter[str]


def _unescape(text: bytes) -> str:
    try:
        plain = text.decode()
    except UnicodeDecodeError as error:
        raise BadLine("bad_encoding") from error
    if "\0" in plain:
        raise BadLine("bad_encoding")
    if "\\" not in plain:
        return plain
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], plain)


def read_labels(text: bytes) -> Labels:
    """`a="x",b="y"` (a trailing comma is legal) to a mapping."""
    if b"\\" not in text and b"\0" not in text and text.isascii():
        pairs = _PLAIN.findall(text.decode())
        covered = sum(len(name) + len(value) + 4 for name, value in pairs) - (not text.endswith(b","))
        if covered == len(text):  # nothing lies between them
            labels = Labels(pairs)
            if len(labels) == len(pairs):
                return labels
    labels = Labels()
    at = 0
    while at < len(text) and text[at:].strip(b" \t"):
        found = _LABEL.match(text, at)
        if not found:
            raise BadLine("bad_label")
        name = found[1].decode()
        if name in labels:
            raise BadLine("bad_label")
        labels[name] = _unescape(found[2])
        at = found.end()
    return labels


def read_value(token: bytes) -> float:
    if b"_" in token:  # float() takes digit separators, the format does not
        raise BadLine("bad_value")
    try:
        return float(token)
    except ValueError as error:
        raise BadLine("bad_value") from error


def read_line(line: bytes) -> tuple[str, Labels, bytes, int | None]:
    """One sample line whole: (name, labels, value token, timestamp in ms or None). Raises BadLine."""
    if len(line) > MAX_LINE:
        raise BadLine("too_long")
    found = _LINE.fullmatch(line) or _LINE.fullmatch(_QUOTED.sub(rb"\1{", line, 1))
    if not found:
        raise BadLine("malformed")
    if found[4] and len(found[4]) > 19:
        raise BadLine("bad_timestamp")
    stamp = int(found[4]) if found[4] else None
    if stamp is not None and found[5]:  # OpenMetrics tells seconds, with a fraction
        stamp = round(float(found[4] + found[5]) * 1000)
    return found[1].decode(), read_labels(found[2] or b""), found[3].rstrip(b"\r"), stamp


class _Body:
    """The slow half of one parse: everything a cache hit does not settle."""

    def __init__(self, body: bytes, cache: SeriesCache, new: NewSeries, wanted: frozenset[bytes] | None) -> None:
        self.body, self.cache, self.new, self.wanted = body, cache, new, wanted
        self.counts: Counter[str] = Counter()
        self.types: dict[bytes, bytes] | None = None
        self.labels: dict[bytes, Labels] = {}  # label texts already read in this body

    def lines(self) -> list[bytes]:
        """Complete lines, less whole families that nobody wants."""
        end = self.body.rfind(b"\n")
        tail = self.body[end + 1 :].strip()
        if tail and tail != b"# EOF":
            self.counts["cut_line"] += 1
        text = self.body[: max(end, 0)]
        if self.wanted is None:
            return text.split(b"\n")
        head, *families = (b"\n" + text).split(_FAMILY)
        lines = head.split(b"\n")[1:]
        for family in families:
            name = family[: family.find(b" ")]
            if name not in self.wanted:
                inside = family.count(b"\n")
                own = family.count(b"\n" + name + b"{") + family.count(b"\n" + name + b" ")
                if own + family.count(b"\n#") == inside:
                    self.counts["unwanted"] += own
                    continue
            lines += family.split(b"\n")[1:]
        return lines

    def declared(self, name: str) -> str:
        if self.types is None:
            self.types = dict(_TYPE.findall(self.body))
        return self.types.get(name.encode(), b"").decode()

    def miss(self, line: bytes, series: bytes, token: bytes) -> tuple[int, bytes, int | None] | None:
        """What a line that was not found says: (row, value token, stamp), or None for no sample."""
        row = self.cache.recall(series)
        if row is not None:
            return row, token, None
        if not line or line[:1] == b"#":
            return None
        if token.isdigit() and len(token) < 20:
            shorter, _, value = series.rpartition(b" ")
            row = self.cache.young.get(hash(shorter))
            if row is not None and value:  # else two blanks stand before a value, and no time is there
                return row, value, int(token)
        return self._read(line, series, token)

    def _known_labels(self, series: bytes, token: bytes) -> tuple[str, Labels, bytes, int | None] | None:
        """The line when its label text was read before in this body: only the name is new."""
        brace = series.find(b"{")
        labels = self.labels.get(series[brace + 1 : -1]) if brace > 0 and series.endswith(b"}") else None
        if labels is None or not _NAME.fullmatch(series, 0, brace):
            return None
        return series[:brace].decode(), labels, token.rstrip(b"\r"), None

    def _whole(self, line: bytes, series: bytes) -> tuple[str, Labels, bytes, int | None]:
        found = read_line(line)
        brace = series.find(b"{")
        if found[3] is None and brace > 0 and series.endswith(b"}"):
            self.labels[series[brace + 1 : -1]] = found[1]
        return found

    def _read(self, line: bytes, series: bytes, token: bytes) -> tuple[int, bytes, int | None] | None:
        bare = line.strip(b" \t\r")
        if not bare or bare[:1] == b"#":
            return None
        try:
            whole = b" #" in line and b"{" in line[line.find(b" #") :]  # an exemplar may stand behind the value
            name, labels, value, stamp = (
                read_line(line) if whole else self._known_labels(series, token) or self._whole(line, series)
            )
            read_value(value)
        except BadLine as error:
            self.counts[error.kind] += 1
            return None
        if self.wanted is not None and name.encode() not in self.wanted:
            self.counts["unwanted"] += 1
            return None
        row = self.new(name, labels, self.declared(name))
        if whole:
            return row, value, stamp
        if stamp is None and token.rstrip(b"\r") == value:
            self.cache.put(series, row)
        elif stamp is not None and token == str(stamp).encode():
            shorter, _, before = series.rpartition(b" ")
            if before == value:
                self.cache.put(shorter, row)
        return row, value, stamp


def _one_by_one(
    tokens: list[bytes], stamps: dict[int, int], counts: Counter[str]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Some value is no number: find which. Returns the values and which of them to keep."""
    values = np.zeros(len(tokens))
    keep = np.ones(len(tokens), dtype=bool)
    for at, token in enumerate(tokens):
        parts = [part for part in token.rstrip(b"\r").split(b"\t") if part]
        if len(parts) == 2 and parts[1].isdigit() and len(parts[1]) < 20:  # a tab before the timestamp
            stamps[at] = int(parts[1])
            token = parts[0]
        try:
            values[at] = read_value(token)
        except BadLine as error:
            counts[error.kind] += 1
            keep[at] = False
    return values, keep


def _one_line_at_a_time(
    lines: list[bytes], hashes: array[int], slow: _Body, stamps: dict[int, int]
) -> tuple[NDArray[np.int64], list[bytes]]:
    """A scrape that is not like the last one: rows and value tokens of its samples."""
    cache = slow.cache
    cache.open()
    rows: list[int] = []
    tokens: list[bytes] = []
    found: list[int | None] | None = []  # by line, while all that was met can be remembered by its text
    find = cache.young.get
    for line, key in zip(lines, hashes, strict=True):
        row = find(key)
        token = line[line.rfind(b" ") + 1 :]
        if row is None:
            series = line[: max(line.rfind(b" "), 0)]
            sample = slow.miss(line, series, token)
            if sample is None:
                found = _noted(found, None) if series[:1] == b"#" else None
                continue
            row, token, stamp = sample
            if stamp is not None:
                stamps[len(rows)] = stamp
            if find(key) != row:
                found = None
        found = _noted(found, row)
        rows.append(row)
        tokens.append(token)
    cache.close(len(rows), hashes.tobytes(), found)
    return np.array(rows, dtype=np.int64), tokens


def _noted(found: list[int | None] | None, row: int | None) -> list[int | None] | None:
    if found is not None:
        found.append(row)
    return found


def parse(body: bytes, cache: SeriesCache, new: NewSeries, wanted: frozenset[bytes] | None = None) -> Parsed:
    """Read one scrape. `new` is asked once for each series text not met before; `wanted` names the metrics to keep."""
    more = max(0, body.count(b"\n") - MAX_LINES) if len(body) > MAX_LINES else 0
    if more:
        body = b"\n".join(body.split(b"\n", MAX_LINES)[:MAX_LINES]) + b"\n"
    slow = _Body(body, cache, new, wanted)
    if more:
        slow.counts["too_many_lines"] += more
    lines = slow.lines()
    stamps: dict[int, int] = {}
    hashes = array("q", [hash(line.rpartition(b" ")[0]) for line in lines])
    known = cache.rows(hashes.tobytes())
    if known is not None:
        ids, tokens = known.astype(np.int64), cache.samples([line[line.rfind(b" ") + 1 :] for line in lines])
    else:
        ids, tokens = _one_line_at_a_time(lines, hashes, slow, stamps)
    try:
        if b"_" in b" ".join(tokens):
            raise ValueError
        values = np.array(list(map(float, tokens)), dtype=np.float64)
    except ValueError:
        values, keep = _one_by_one(tokens, stamps, slow.counts)
        places = np.cumsum(keep) - 1
        stamps = {int(places[at]): ms for at, ms in stamps.items() if keep[at]}
        ids, values = ids[keep], values[keep]
    slow.counts["samples"] += len(ids)
    return Parsed(ids, values, stamps, slow.counts)
