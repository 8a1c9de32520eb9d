"""Reading exposition text: the everyday line, and everything that is not one."""

from __future__ import annotations

import math

import pytest

from fleet.telemetry.exposition import Parsed, parse
from fleet.telemetry.seriescache import SeriesCache
from tests.unit.telemetry.texts import Series, dcgm


def read(body: bytes, wanted: frozenset[bytes] | None = None) -> tuple[Parsed, Series]:
    series = Series()
    return parse(body, SeriesCache(), series.new, wanted), series


def only(body: bytes) -> tuple[str, dict[str, str], float, int | None]:
    parsed, series = read(body)
    assert len(parsed.rows) == 1, parsed.counts
    name, labels = series.named(parsed.rows.tolist())[0]
    return name, dict(labels), float(parsed.values[0]), parsed.stamps.get(0)


@pytest.mark.parametrize(
    ("line", "labels", "value", "stamp"),
    [
        (b"up 1\n", {}, 1.0, None),
        (b"up{} 1\n", {}, 1.0, None),
        (b'up{a="b c"} 2\n', {"a": "b c"}, 2.0, None),
        (b'up{a="}"} 2\n', {"a": "}"}, 2.0, None),
        (b'up{a="} 3"} 2\n', {"a": "} 3"}, 2.0, None),
        (rb'up{a="x\ny"} 2' + b"\n", {"a": "x\ny"}, 2.0, None),
        (rb'up{a="q\"q\\"} 2' + b"\n", {"a": 'q"q\\'}, 2.0, None),
        (b'up{a="b",} 2\n', {"a": "b"}, 2.0, None),
        (b'up { a = "b" , c="d" } 2\n', {"a": "b", "c": "d"}, 2.0, None),
        (b'up{a="b"} 2 1700000000000\n', {"a": "b"}, 2.0, 1700000000000),
        (b'up{a="b"} 2 -5\n', {"a": "b"}, 2.0, -5),
        (b'up{a="2 17"} 3 1700000000000\n', {"a": "2 17"}, 3.0, 1700000000000),
        (b"up\t3\n", {}, 3.0, None),
        (b"up 3\t1700000000000\n", {}, 3.0, 1700000000000),
        (b'up{a="b"} 2\r\n', {"a": "b"}, 2.0, None),
        (b'up{a="b"} 2 1700000000000\r\n', {"a": "b"}, 2.0, 1700000000000),
        (b"  up  4  \n", {}, 4.0, None),
        (b"up 1e3\n", {}, 1000.0, None),
        (b"up +Inf\n", {}, math.inf, None),
        (b"up -Inf\n", {}, -math.inf, None),
        ('up{a="한국"} 1\n'.encode(), {"a": "한국"}, 1.0, None),
        (b'up{a="b"} 2 1700000000.5\n', {"a": "b"}, 2.0, 1700000000500),  # what OpenMetrics has besides
        (b'up{a="b"} 2 # {trace="x y"} 0.5\n', {"a": "b"}, 2.0, None),
        (b'up{a="# {"} 2 1700000000 # {} 2 1700000000.25\n', {"a": "# {"}, 2.0, 1700000000),
        (b'{"up",a="b"} 2\n', {"a": "b"}, 2.0, None),
        (b'{ "up" } 2\n', {}, 2.0, None),
    ],
)
def test_a_line_is_read_whole(line: bytes, labels: dict[str, str], value: float, stamp: int | None) -> None:
    assert only(line) == ("up", labels, value, stamp)


def test_nan_is_a_value_of_the_text() -> None:
    assert math.isnan(only(b"up NaN\n")[2])


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"up\n", "malformed"),
        (b"1up 1\n", "malformed"),
        (b'up{a="b} 1\n', "malformed"),
        (b'up{a="b"} 1 2 3\n', "malformed"),
        (b"up one\n", "bad_value"),
        (b"up 1_000\n", "bad_value"),
        (b"up{a=b} 1\n", "bad_label"),
        (b'up{a="b";c="d"} 1\n', "bad_label"),
        (b'up{a="b"c="d"} 1\n', "bad_label"),
        (b'up{a="1",a="2"} 1\n', "bad_label"),
        (b'up{1a="1"} 1\n', "bad_label"),
        (b'up{a="\xff"} 1\n', "bad_encoding"),
        (b'up{a="\x00"} 1\n', "bad_encoding"),
        (b'up{a="' + b"x" * 20_000 + b'"} 1\n', "too_long"),
        (b"up 1 99999999999999999999999\n", "bad_timestamp"),
    ],
)
def test_a_bad_line_is_counted_and_its_neighbours_are_kept(line: bytes, kind: str) -> None:
    parsed, _ = read(b"before 1\n" + line + b"after 2\n")
    assert parsed.values.tolist() == [1.0, 2.0]
    assert parsed.counts[kind] == 1


def test_a_bad_value_of_a_known_series_loses_only_itself() -> None:
    cache, series = SeriesCache(), Series()
    parse(b"a 1\nb 2\nc 3 1700000000000\n", cache, series.new)
    parsed = parse(b"a 1_0\nb x\nb 5\nc 4 1700000000001\n", cache, series.new)
    assert parsed.values.tolist() == [5.0, 4.0]
    assert parsed.stamps == {1: 1700000000001}
    assert parsed.counts["bad_value"] == 2


@pytest.mark.parametrize("cut", range(1, 60))
def test_text_cut_in_the_middle_of_a_line_loses_that_line(cut: int) -> None:
    body = dcgm("n1", {"DCGM_FI_DEV_GPU_TEMP": 61})
    parsed, _ = read(body[:-cut])
    assert len(parsed.rows) == 7
    assert parsed.counts["cut_line"] == 1


def test_a_cut_value_is_not_taken_for_a_smaller_one() -> None:
    parsed, _ = read(b"temp 10\npower 700")
    assert parsed.values.tolist() == [10.0]


def test_the_end_mark_of_openmetrics_is_no_cut_line() -> None:
    parsed, _ = read(b"up 1\n# EOF")
    assert parsed.counts["cut_line"] == 0


def test_no_text_at_all() -> None:
    for body in (b"", b"\n", b"\n\n\r\n", b"# HELP x y\n", b"garbage"):
        assert len(read(body)[0].rows) == 0


def test_a_known_series_is_not_asked_about_again() -> None:
    cache, series = SeriesCache(), Series()
    body = dcgm("n1", {"DCGM_FI_DEV_GPU_TEMP": 61, "DCGM_FI_DEV_POWER_USAGE": 600})
    parse(body, cache, series.new)
    asked = series.asked
    parsed = parse(body.replace(b" 61\n", b" 62\n"), cache, series.new)
    assert series.asked == asked == 16
    assert parsed.values[:8].tolist() == [62.0] * 8


def test_timestamped_lines_find_their_series_too() -> None:
    cache, series = SeriesCache(), Series()
    parse(b'up{a="b"} 1 1700000000000\n', cache, series.new)
    parsed = parse(b'up{a="b"} 2 1700000000001\n', cache, series.new)
    assert (series.asked, parsed.values.tolist(), parsed.stamps) == (1, [2.0], {0: 1700000000001})


@pytest.mark.parametrize("end", [b' # {a="b"} 4 5', b" # {} 2", b" 5 # {} 2 5", b" 1700000000.5"])
def test_what_stands_behind_a_value_is_never_taken_for_one(end: bytes) -> None:
    cache, series = SeriesCache(), Series()
    for value in (2, 3):
        body = b'up{a="b"} %d%s\nother{a="b"} 7\n' % (value, end)
        parsed = parse(body, cache, series.new)
        assert parsed.values.tolist() == [value, 7.0]
    assert parse(b'up{a="b"} 9\n', cache, series.new).values.tolist() == [9.0]
    assert len(series.named([0, 1])) == 2


def test_unwanted_families_cost_nothing_and_wanted_ones_between_them_are_found() -> None:
    body = (
        b'# TYPE go_gc_seconds summary\ngo_gc_seconds{q="0"} 1\ngo_gc_seconds_sum 2\n'
        b"# TYPE up gauge\nup 1\n"
        b"# TYPE other gauge\nother 5\nup_untyped_neighbour 3\nup 2\n"
        b"# TYPE last gauge\nlast 6\n"
    )
    parsed, series = read(body, frozenset({b"up"}))
    assert [name for name, _ in series.ids] == ["up"]
    assert parsed.values.tolist() == [1.0, 2.0]
    assert parsed.counts["unwanted"] == 5


def test_the_declared_type_reaches_the_reader() -> None:
    declared: list[str] = []

    def new(name: str, labels: dict[str, str], kind: str) -> int:
        declared.append(kind)
        return 0

    parse(b"# TYPE a counter\na 1\nb 2\n# TYPE c gauge\nc 3\n", SeriesCache(), new)
    assert declared == ["counter", "", "gauge"]


def test_the_cache_is_bounded_while_labels_churn() -> None:
    cache, series = SeriesCache(limit=100), Series()
    for turn in range(200):
        body = "".join(f'up{{pod="p{turn}-{pod}",gpu="{pod}"}} 1\n' for pod in range(20)) + "steady 1\n"
        parse(body.encode(), cache, series.new)
    assert len(cache) <= 2 * 121
    assert cache.rotations > 10


def test_a_series_in_use_survives_the_churn() -> None:
    cache, series = SeriesCache(limit=50), Series()
    for turn in range(100):
        asked = series.asked
        parse(f'steady 1\nup{{pod="p{turn}"}} 1\n'.encode(), cache, series.new)
        assert turn == 0 or series.asked == asked + 1
