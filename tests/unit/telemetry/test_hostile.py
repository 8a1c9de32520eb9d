"""Whatever comes from outside is read or rejected by reason, damage costs only what it hit, and bombs stay small."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.telemetry import exposition, kernellog, loki, packing, protobuf, remotewrite, remotewrite2
from fleet.telemetry.exposition import parse
from fleet.telemetry.frame import MAX_ROWS_PER_TARGET, Frame
from fleet.telemetry.healthevents import MAX_EVENTS, read_alerts, read_events
from fleet.telemetry.intake import Intake
from fleet.telemetry.kernellog import read_batch, read_time
from fleet.telemetry.kernelsignals import match
from fleet.telemetry.pushintake import EVERYDAY
from fleet.telemetry.remotewrite import MAX_SERIES, PushCache
from fleet.telemetry.series import REJECTS
from fleet.telemetry.seriescache import SeriesCache
from tests.fuzz.harnesses import HARNESSES
from tests.fuzz.seeds import seeds
from tests.fuzz.texts import EVENTS, EXPOSITION, RECORDS
from tests.unit.telemetry.test_healthevents import alert, sentinel
from tests.unit.telemetry.test_kernellog import FLUENT, LINE
from tests.unit.telemetry.texts import Series, labels_of
from tests.unit.telemetry.writes import block, gpu, labels, number, sample, series

SEEDS = seeds()
MIB = 1 << 20
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from(["cut", "drop", "twice", "put"]), st.binary(max_size=3)), max_size=4
)


@contextmanager
def bounded(mib: int, seconds: float = 20.0) -> Iterator[None]:
    """The work inside allocates and lasts no more than this. Tracing alone makes it several times slower."""
    tracemalloc.start()
    began = time.process_time()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < mib * MIB, f"{peak / MIB:.0f} MiB"
    assert time.process_time() - began < seconds


def test_every_harness_has_shapes_to_start_from() -> None:
    assert SEEDS.keys() == HARNESSES.keys()


@pytest.mark.parametrize("name", HARNESSES)
def test_known_shapes_are_read_or_rejected_by_reason(name: str) -> None:
    for seed in SEEDS[name]:
        HARNESSES[name](seed)


@pytest.mark.parametrize("name", HARNESSES)
def test_damaged_shapes_are_read_or_rejected_by_reason(name: str) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.sampled_from(SEEDS[name]), EDITS)
    def damaged(body: bytes, edits: list[tuple[float, str, bytes]]) -> None:
        for where, how, more in edits:
            at = int(where * len(body))
            rest = {"cut": b"", "drop": body[at + 1 :], "twice": body[at // 2 :], "put": more + body[at + len(more) :]}[
                how
            ]
            body = body[:at] + rest
        HARNESSES[name](body)

    damaged()


# -- damage costs only what it hit ------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 4), st.floats(0, 1), st.binary(min_size=1, max_size=3))
def test_a_damaged_line_of_a_scrape_costs_itself_alone(which: int, where: float, put: bytes) -> None:
    lines = [f'up{{pod="p{n}"}} {n}'.encode() for n in range(5)]
    hit = lines[which]
    at = int(where * len(hit))
    whole = [*lines[:which], hit[:at] + put + hit[at + 1 :], *lines[which + 1 :]]
    rows = Series()
    parsed = parse(b"\n".join(whole) + b"\n", SeriesCache(), rows.new)
    named = {  # damage may make one line say what another says, too
        (dict(pairs).get("pod"), value)
        for (_, pairs), value in zip(rows.named(parsed.rows.tolist()), parsed.values, strict=True)
    }
    assert all((f"p{n}", n) in named for n in range(5) if n != which)


@pytest.mark.parametrize("join", [b"\n", b"", b", "])
@settings(max_examples=200, deadline=None)
@given(
    which=st.integers(0, 4),
    where=st.floats(0, 1),
    put=st.sampled_from([b"", b"\0", b'"', b"{", b"\\", b"\xff", b"x", b":"]),
)
def test_a_damaged_record_costs_itself_and_at_most_its_neighbour(
    join: bytes, which: int, where: float, put: bytes
) -> None:
    """In JSON lines it is alone; run together it may take the next one with it, because its end is not to be found."""
    records = [json.dumps({"host": f"n{n}", "date": 1_800_000_000 + n, "log": LINE}).encode() for n in range(5)]
    hit = records[which]
    at = int(where * len(hit))
    records[which] = hit[:at] + put + hit[at + 1 :]
    batch = read_batch(join.join(records))
    read = {line.node_claim for line in batch.lines}
    lost = {n for n in range(5) if n != which and f"n{n}" not in read}
    assert lost <= (set() if join == b"\n" else {which + 1, which - 1}) and len(lost) <= 1, (lost, batch.rejected)
    assert batch.rejected or len(batch.lines) >= 5  # a damaged escape may end a line


def test_an_object_over_several_lines_is_read_among_broken_ones() -> None:
    pretty = json.dumps(FLUENT, indent=2)
    batch = read_batch(f"{pretty}\n{{broken\n{pretty}{pretty}\nrubbish\n{json.dumps(FLUENT)}".encode())
    assert (len(batch.lines), dict(batch.rejected)) == (4, {"cut_json": 2})


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 4), st.floats(0, 0.99), st.integers(0, 255))
def test_a_damaged_series_costs_itself_alone(which: int, where: float, put: int) -> None:
    """Inside its frame a series may be anything."""
    whole = [bytearray(series(sorted(gpu("n1", n).items()), [(float(n), 1000 + n)])) for n in range(5)]
    whole[which][int(where * len(whole[which]))] = put
    body = b"".join(block(1, bytes(one)) for one in whole)
    known: list[dict[str, str]] = []

    def new(found: dict[str, str]) -> int:
        known.append(found)
        return len(known) - 1

    read = remotewrite.read(remotewrite.split(body), PushCache(), new)
    uuids = {known[row]["UUID"] for row in read.rows.tolist() if row >= 0 and "UUID" in known[row]}
    assert {f"GPU-n1-{n}" for n in range(5) if n != which} <= uuids


@pytest.mark.parametrize("between", [" ", "  ", "\t", " \t", "\t ", "   "])
@pytest.mark.parametrize("before_stamp", [" ", "  ", "\t"])
def test_any_blanks_between_the_parts_of_a_sample_mean_the_same(between: str, before_stamp: str) -> None:
    """Cold, and after the series is known by the usual single blank."""
    lines = [f"up{between}5", f"up{between}6{before_stamp}1700000000000", f'up{{a="b"}}{between}7']
    for text in ("\n".join(lines), "\n".join(["up 1", 'up{a="b"} 1', *lines])):
        parsed = parse(text.encode() + b"\n", SeriesCache(), Series().new)
        assert parsed.values.tolist()[-3:] == [5.0, 6.0, 7.0]
        assert list(parsed.stamps.items()) == [(len(parsed.values) - 2, 1_700_000_000_000)]


@pytest.mark.parametrize("odd", ["\v", "\f", "\x1c", "\x85", "\u2003"])
def test_what_only_python_calls_a_blank_parts_nothing(odd: str) -> None:
    text = f"up 1_0\nup 1{odd}9\nup 2\n"
    parsed = parse(text.encode(), SeriesCache(), Series().new)
    assert (parsed.values.tolist(), parsed.stamps, parsed.counts["bad_value"]) == ([2.0], {}, 2)


# -- texts and times that no column takes -----------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["n\\u0000", "\\ud800n", "n\\udfff"])
def test_no_text_is_read_that_a_database_refuses(host: str) -> None:
    whole = f'{{"host":"{host}","log":"{host} x"}}'
    for body in (whole, f"{whole}\n{whole}", f"[{whole},{{"):
        for line in read_batch(body.encode()).lines:
            assert "\0" not in line.node_claim + line.text
            (line.node_claim + line.text).encode()
    batch = read_events(json.dumps(sentinel(nodeName="n\0", message="\0")).encode(), {})
    assert [(event.node_claims, event.text) for event in batch.events] == [(("n",), "")]


@pytest.mark.parametrize(
    "said",
    ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z",
     "1e999", "nan", "-1", "0", 1e300, -5, True, [], "9" * 400, 1e20],
)  # fmt: skip
def test_what_is_no_time_is_none(said: Any) -> None:
    assert read_time(said) is None


@pytest.mark.parametrize("scale", [1, 1_000, 1_000_000, 1_000_000_000])
def test_a_time_is_read_in_every_unit(scale: int) -> None:
    at = read_time(1_800_000_000 * scale)
    assert at is not None and at.timestamp() == 1_800_000_000


@pytest.mark.parametrize("deep", [900, 1_000, 1_020, 1_100, 100_000])
def test_values_inside_each_other_are_no_code(deep: int) -> None:
    nest = b"[" * deep + b"]" * deep
    odd = json.dumps(sentinel(errorCode=7777)).encode().replace(b"7777", nest)
    batch = read_events(odd, {})
    assert len(batch.events) + sum(batch.rejected.values()) == 1
    assert all(event.code == "" for event in batch.events)
    assert read_alerts(b'{"version":' + nest + b',"alerts":[]}').rejected
    loki.read_json(b'{"streams":[{"values":[["1","' + b"{" * 9 + b'"]]}]}')
    assert sum(read_batch(b'{"log":' + nest + b"}").rejected.values()) == 1


@pytest.mark.parametrize("odd", [True, 1.0, [1], {"a": 1}, None])
def test_only_the_words_themselves_ask_for_something(odd: Any) -> None:
    """`true` equals 1 in Python, and 1 asks for a remediation."""
    (event,) = read_events(
        json.dumps(sentinel(processingStrategy=odd, recommendedAction="RESTART_VM")).encode(), {}
    ).events
    assert event.action == "monitor" or (odd == 1.0 and odd is not True)


def test_checks_in_another_script_are_told_apart() -> None:
    causes = {
        read_events(json.dumps(sentinel(checkName=name)).encode(), {}).events[0].cause for name in ("온도", "전력")
    }
    assert len(causes) == 2


# -- bombs ------------------------------------------------------------------------------------------------------------


def test_a_body_of_line_ends_or_of_invented_devices_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exposition.MAX_LINES <= 1_000_000
    monkeypatch.setattr(exposition, "MAX_LINES", 30_000)
    with bounded(8):
        parsed = parse(b"\n" * (2 * MIB), SeriesCache(), Series().new)
        assert parsed.counts["too_many_lines"] == 2 * MIB - 30_000
    frame = Frame()
    intake, target = Intake(frame), frame.target("n1", "dcgm", 15.0)
    for turn in range(3):
        text = "".join(f"DCGM_FI_DEV_GPU_TEMP{{{labels_of('n1', 0, UUID=f'{turn}-{n}')}}} 1\n" for n in range(15_000))
        intake.scraped(target, text.encode(), 1.0, 1_800_000_000.0)
    assert len(frame.devices) <= MAX_ROWS_PER_TARGET + 1
    assert target.rejects["too_many_series"] == 45_000 - MAX_ROWS_PER_TARGET


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (b"\x0a\x00" * (4 * MIB), remotewrite.split),
        (b"\x2a\x00" * (4 * MIB), remotewrite2.Request),
        (b"\x22\x00" * (4 * MIB), remotewrite2.Request),
    ],
)
def test_a_request_of_empty_series_is_too_large(body: bytes, read: Callable[[bytes], Any]) -> None:
    with bounded(32), pytest.raises(packing.TooLarge, match=str(MAX_SERIES)):
        read(body)


@pytest.mark.parametrize(
    "one",
    [
        labels([("a", "b")]) * 200_000,
        b"\x0a\x00" * MIB + sample(1.0, 1_800_000_000_000).join((b"\x12\x10", b"")),
        labels([("__name__", "up")]) + b"\x12\x00" * MIB,
        labels([("__name__", "up")]) + block(2, sample(1.0, 5)) * 2_000,
        labels([("__name__", "up"), ("a", "x" * 70_000)]) + block(2, sample(1.0, 1_800_000_000_000)),
    ],
)
def test_a_series_of_too_much_is_malformed_and_costs_the_others_nothing(one: bytes) -> None:
    good = series(sorted(gpu("n1").items()), [(1.0, 1_800_000_000_000)])
    body = block(1, good) + block(1, one) + block(1, series([("__name__", "up")], [(2.0, 5)]))
    with bounded(40):
        read = remotewrite.read(remotewrite.split(body), PushCache(), lambda found: 7)
    assert (read.rows.tolist(), read.counts["malformed"]) == ([7, 7], 1)


@pytest.mark.parametrize(
    "one",
    [
        block(1, b"\x01\x02" * MIB),
        block(1, b"\x01\x02") + b"\x12\x00" * 2_000,
        block(1, number(1) + number(1 << 31)),
        b"\x12\x00",
    ],
)
def test_a_series_of_version_2_of_too_much_is_malformed(one: bytes) -> None:
    texts = b"".join(block(4, text) for text in (b"", b"__name__", b"up"))
    body = texts + block(5, block(1, b"\x01\x02") + block(2, sample(1.0, 5))) + block(5, one)
    with bounded(40):
        request = remotewrite2.Request(body)
        read = request.read(0, len(request), PushCache(), lambda found: 7)
    assert (read.rows.tolist(), read.counts["malformed"]) == ([7], 1)


def test_more_records_and_events_than_one_body_may_hold_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernellog.MAX_RECORDS <= 100_000
    monkeypatch.setattr(kernellog, "MAX_RECORDS", 2_000)
    record = json.dumps({"host": "n1", "log": "x"}).encode()
    for body in (b"[" + b",".join([record] * 2_009) + b"]", b"\n".join([record] * 2_009)):
        batch = read_batch(body)
        assert (len(batch.lines), dict(batch.rejected)) == (2_000, {"too_many": 9})
    batch = read_batch(b"{x\n" * 9_000)
    assert dict(batch.rejected) == {"cut_json": 2_001, "too_many": 1}
    whole = json.dumps([sentinel()] * (MAX_EVENTS + 9)).encode()
    batch_of_events = read_events(whole, {})
    assert (len(batch_of_events.events), dict(batch_of_events.rejected)) == (MAX_EVENTS, {"too_many": 9})
    one = alert()
    alerts = read_alerts(json.dumps({**one, "alerts": one["alerts"] * (MAX_EVENTS + 9)}).encode())
    assert (len(alerts.events), dict(alerts.rejected)) == (MAX_EVENTS, {"too_many": 9})


@pytest.mark.parametrize(
    "piece", [b"{\n", b'{"a":\n', b'{"a":[1,\n', b"{x\n", b'{"a"}', b'{"a":{},', b'{"a\\"}', b'{"a":"', b"[", b"\x1e"]
)
def test_reading_broken_records_takes_time_in_proportion(piece: bytes) -> None:
    began = time.process_time()
    batch = read_batch(piece * (MIB // len(piece)))
    assert time.process_time() - began < 6.0
    assert batch.rejected or not piece.strip(b"[\x1e")


@pytest.mark.parametrize(
    "text",
    ["mlx5_core " * 900, "NVRM: " * 1400, "NVRM: 0000:00:00" * 500, "XFS (a): shut down " * 430, "nvme nvme0: " * 700,
     "read-only" + "-fs (device a): " * 500, "of memory: Killed process 1 (" * 280, "EDAC a: 1 " * 800,
     "NVRM: Xid (PCI:0000:00:00): 1, " + "name=," * 1300, "INFO: task " * 700 + "blocked for more than"],
)  # fmt: skip
def test_no_line_takes_long_to_match(text: str) -> None:
    began = time.process_time()
    for _ in range(20):
        match(text[:8192])
    assert time.process_time() - began < 0.5


def test_gzip_is_read_whole_or_refused() -> None:
    plain = json.dumps(FLUENT).encode()
    member = gzip.compress(plain)
    assert packing.gzip(member) == plain
    assert packing.gzip(member + gzip.compress(b"\n" + plain) + b"\0\0") == plain + b"\n" + plain
    assert packing.gzip(gzip.compress(b"")) == b""
    assert packing.gzip(gzip.compress(b"a" * 100), 100) == b"a" * 100
    for broken in (b"", member[:-1], member[:20], member + b"x", b"\x1f\x8b", plain):
        with pytest.raises(packing.NotPacked):
            packing.gzip(broken)
    bomb = gzip.compress(b"\0" * (64 * MIB))
    with bounded(20):
        for body in (bomb, gzip.compress(b"a" * MIB) * 9, gzip.compress(b"") * 100_000):
            with pytest.raises(packing.TooLarge):
                packing.gzip(body, 8 * MIB)


def test_many_entries_of_nothing_are_counted() -> None:
    with bounded(60):
        batch = loki.read_protobuf(block(1, b"\x12\x00" * 40_000))
    assert (batch.lines, dict(batch.rejected)) == ([], {"no_text": 40_000})
    assert protobuf.varint(b"\x05", 0) == (5, 1)


def test_every_reason_stands_in_the_manual() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text(encoding="utf-8")
    table = manual.partition("## What is rejected")[2].partition("\n## ")[0]
    told = EXPOSITION | RECORDS | EVENTS | EVERYDAY | set(REJECTS.values()) | {"not_judged", "infinite", "absurd_value"}
    assert sorted(reason for reason in told if f"`{reason}`" not in table) == []
