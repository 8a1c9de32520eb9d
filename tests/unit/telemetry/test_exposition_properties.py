"""Whatever comes over the wire, the fast reading says what the slow one says."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fleet.telemetry.exposition import Parsed, parse
from fleet.telemetry.seriescache import SeriesCache
from tests.unit.telemetry.texts import Sample, Series, plainly

NAMES = st.sampled_from(["up", "DCGM_FI_DEV_GPU_TEMP", "a:b", "x_total", "up_x"])
KEYS = st.sampled_from(["a", "gpu", "pod", "UUID"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12) | st.sampled_from(
    ["} 1", " ", '"', "\\", "\n", "x} 5 17", "2 1700000000000", "\\n"]
)
NUMBERS = st.floats(width=32) | st.sampled_from([0.0, 1.0, 2.0**63, 140737488355328.0])
STAMPS = st.none() | st.integers(1, 2_000_000_000_000)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(KEYS, TEXTS, max_size=3))
    inside = ",".join(f'{key}="{escaped(value)}"' for key, value in labels.items())
    value = draw(NUMBERS)
    number = "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else repr(value)
    stamp = draw(STAMPS)
    tail = "" if stamp is None else f" {stamp}"
    return (
        f"{draw(NAMES)}{{{inside}}} {number}{tail}"
        if inside or draw(st.booleans())
        else f"{draw(NAMES)} {number}{tail}"
    )


BODIES = st.lists(lines() | st.just("# TYPE up gauge") | st.just("# TYPE other gauge"), max_size=12)


def told(parsed: Parsed, series: Series) -> list[Sample]:
    names = series.named(parsed.rows.tolist())
    values = parsed.values.tolist()
    return [(name, labels, values[at], parsed.stamps.get(at)) for at, (name, labels) in enumerate(names)]


def same(one: list[Sample], other: list[Sample]) -> bool:
    return repr(one) == repr(other)  # repr, so that NaN equals NaN


@settings(max_examples=120, deadline=None)
@given(BODIES)
def test_well_formed_text_reads_as_the_official_parser_reads_it(body: list[str]) -> None:
    text = "\n".join(body) + "\n"
    series = Series()
    parsed = parse(text.encode(), SeriesCache(), series.new)
    theirs: list[Sample] = [
        (
            sample.name,
            tuple(sorted(sample.labels.items())),
            float(sample.value),
            None if sample.timestamp is None else round(float(sample.timestamp) * 1000),
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    assert sorted(map(repr, told(parsed, series))) == sorted(map(repr, theirs))
    assert set(parsed.counts) <= {"samples"}


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    body = bytearray(("\n".join(draw(BODIES)) + "\n").encode())
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(body)))
        what = draw(st.sampled_from(["cut", "drop", "put", "repeat"]))
        if what == "cut":
            del body[at:]
        elif what == "drop":
            del body[at : at + draw(st.integers(1, 8))]
        elif what == "put":
            body[at:at] = draw(
                st.binary(max_size=4) | st.sampled_from([b"\n", b'"', b"}", b" ", b"\\", b"\r\n", b"\t", b"_"])
            )
        else:
            body += bytes(body[at : at + 40])
    return bytes(body)


@settings(max_examples=200, deadline=None)
@given(st.lists(damaged(), min_size=1, max_size=3), st.sampled_from([None, frozenset({b"up", b"x_total"})]))
def test_damaged_text_reads_the_same_cold_and_warm(bodies: list[bytes], wanted: frozenset[bytes] | None) -> None:
    cache, series = SeriesCache(limit=4), Series()
    for body in [body for body in [*bodies, *bodies] for _ in range(2)]:  # after another one, and after itself
        samples, bad = plainly(body, wanted)
        parsed = parse(body, cache, series.new, wanted)
        assert same(told(parsed, series), samples), body
        if wanted is None:
            mine = sum(parsed.counts.values()) - parsed.counts["samples"]
            assert mine == sum(bad.values()), (body, parsed.counts, bad)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(st.lists(lines() | st.just("# HELP up x y"), max_size=8), min_size=1, max_size=4))
def test_lines_that_come_and_go_and_change_places_read_the_same(data: st.DataObject, pieces: list[list[str]]) -> None:
    cache, series = SeriesCache(limit=6), Series()
    for _ in range(5):
        chosen = (
            data.draw(st.permutations(pieces)) if data.draw(st.booleans()) else pieces[: data.draw(st.integers(1, 4))]
        )
        body = ("\n".join(line for piece in chosen for line in piece) + "\n").encode()
        samples, _ = plainly(body, None)
        assert same(told(parse(body, cache, series.new), series), samples), body
        assert len(cache) <= 3 * max(6, 2 * len(samples)) + len(samples)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise(body: bytes) -> None:
    series = Series()
    parse(body, SeriesCache(), series.new)
    parse(body, SeriesCache(), series.new, frozenset({b"up"}))
