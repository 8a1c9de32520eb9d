"""Remote write: the fast reading says byte for byte what the full one says, whatever is sent."""

from __future__ import annotations

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.telemetry import packing, protobuf, remotewrite, remotewrite2
from fleet.telemetry.protobuf import BadMessage
from fleet.telemetry.remotewrite import PushCache, PushedSamples
from tests.unit.telemetry import writes

NOW = 1_796_000_000_000


class Rows:
    """Gives out rows, and refuses some series as the real one does."""

    def __init__(self) -> None:
        self.of: dict[tuple[tuple[str, str], ...], int] = {}
        self.asked = 0

    def new(self, labels: dict[str, str]) -> int:
        self.asked += 1
        key = tuple(sorted(labels.items()))
        return -2 if labels["__name__"].startswith("x") else self.of.setdefault(key, len(self.of))


def same(left: PushedSamples, right: PushedSamples) -> None:
    assert left.rows.tolist() == right.rows.tolist()
    assert left.values.tobytes() == right.values.tobytes()
    assert left.stamps.tolist() == right.stamps.tolist()
    assert +left.counts == +right.counts


names = st.sampled_from(["a", "b", "x", "__name__", "job", "", "é"])
pairs = st.lists(st.tuples(names, st.text(max_size=6)), max_size=4)
values = st.one_of(st.floats(), st.just(0.0), st.just(writes.STALE_NAN))
stamps = st.one_of(st.just(NOW), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**42))
plain = st.builds(
    lambda more, samples: writes.series([("__name__", "m"), *more], samples),
    pairs,
    st.lists(st.tuples(values, stamps), min_size=1, max_size=1),
)
odd = st.builds(writes.series, pairs, st.lists(st.tuples(values, stamps), max_size=3))


def cut(data: bytes, at: int, junk: bytes) -> bytes:
    return data[: at % (len(data) + 1)] + junk


broken = st.builds(cut, plain, st.integers(0, 200), st.binary(max_size=20))
extra = st.builds(
    lambda data, field, content: data + writes.block(field, content), plain, st.integers(1, 9), st.binary(max_size=9)
)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.one_of(plain, odd, broken, extra, st.binary(max_size=40)), max_size=12), st.integers(0, 2))
def test_fast_and_full_reading_agree(series: list[bytes], limit: int) -> None:
    rows, cache = Rows(), PushCache(limit=limit, most=limit)
    for _ in range(3):  # unmet, met, and after the generations turned
        same(remotewrite.read(series, cache, rows.new), remotewrite.read_slow(series, rows.new))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.dictionaries(names, st.text(max_size=5), max_size=4), st.lists(st.tuples(values, stamps)))),
    st.integers(0, 300),
    st.binary(max_size=12),
)
def test_version_two_agrees_too(
    many: list[tuple[dict[str, str], list[tuple[float, int]]]], at: int, junk: bytes
) -> None:
    rows, cache = Rows(), PushCache()
    for body in (writes.second_plain(many), cut(writes.second_plain(many), at, junk)):
        try:
            request = remotewrite2.Request(body)
        except BadMessage:
            continue
        for _ in range(2):
            fast = request.read(0, len(request), cache, rows.new)
            try:
                full = remotewrite2.read_slow(body, rows.new)
            except BadMessage:
                return  # the library is more lenient with fields that it does not know
            if not junk:
                same(fast, full)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_words_or_read(body: bytes) -> None:
    rows = Rows()
    for data in (body, bytes(cramjam.snappy.compress_raw(body))):
        try:
            unpacked = packing.snappy(data, 1000)
            remotewrite.read(remotewrite.split(unpacked), PushCache(), rows.new)
            request = remotewrite2.Request(unpacked)
            request.read(0, len(request), PushCache(), rows.new)
        except (packing.NotPacked, packing.TooLarge, BadMessage) as error:
            assert str(error).endswith(".")


def test_a_series_met_before_is_not_asked_for_again() -> None:
    rows, cache = Rows(), PushCache()
    for value in (1.5, 0.0, 2.5):
        series = [writes.series([("__name__", "m"), ("gpu", str(gpu))], [(value, NOW)]) for gpu in range(3)]
        read = remotewrite.read(series, cache, rows.new)
        assert (read.rows.tolist(), read.values.tolist()) == ([0, 1, 2], [value] * 3)
        assert set(read.stamps.tolist()) == {NOW}
    assert rows.asked == 3


def test_metadata_is_passed_over_and_histograms_are_counted() -> None:
    one = writes.series([("__name__", "m")], []) + writes.block(4, b"\x08\x01") + writes.block(3, b"")
    series = remotewrite.split(writes.block(3, b"\x08\x01") + writes.block(1, one))
    read = remotewrite.read(series, PushCache(), Rows().new)
    assert (len(read.rows), read.counts["histograms"], read.counts["exemplars"]) == (0, 1, 1)


def test_the_stale_marker_keeps_its_bits() -> None:
    series = [writes.series([("__name__", "m")], [(writes.STALE_NAN, NOW)])]
    cache, rows = PushCache(), Rows()
    for _ in range(2):
        read = remotewrite.read(series, cache, rows.new)
        assert read.values.view(np.int64).tolist() == [remotewrite.STALE]


def test_a_bomb_is_not_unpacked() -> None:
    packed = bytes(cramjam.snappy.compress_raw(b"\0" * 5_000_000))
    with pytest.raises(packing.TooLarge):
        packing.snappy(packed, 1_000_000)
    with pytest.raises(packing.NotPacked):
        packing.snappy(b"\xff\xff\xff\xff\xff\xff")


def test_the_cache_forgets_what_churned_and_keeps_what_is_alive() -> None:
    rows, cache = Rows(), PushCache(limit=100)
    alive = [writes.series([("__name__", "x"), ("pod", str(n))], [(1.0, NOW)]) for n in range(400)]
    for turn in range(40):
        cache.now = 30.0 * turn
        pod = [writes.series([("__name__", "x"), ("pod", f"job-{turn}-{n}")], [(1.0, NOW)]) for n in range(50)]
        before = rows.asked
        remotewrite.read(alive + pod, cache, rows.new)
        assert rows.asked - before == (450 if turn == 0 else 50)
    assert len(cache.young) + len(cache.old) <= 1000
    flooded = PushCache(limit=100, most=200)
    for at in range(0, 4000, 50):
        series = [writes.series([("__name__", "x"), ("pod", str(at + n))], [(1.0, NOW)]) for n in range(50)]
        remotewrite.read(series, flooded, rows.new)
    assert len(flooded.young) + len(flooded.old) <= 500
    assert protobuf.signed((1 << 64) - 1) == -1
