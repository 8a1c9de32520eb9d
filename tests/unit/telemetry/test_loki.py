"""Loki's push form, in both of its spellings, means the same kernel lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.telemetry import loki, protobuf
from fleet.telemetry.kernellog import Batch
from fleet.telemetry.protobuf import BadMessage
from tests.unit.telemetry.writes import block, number

AT = datetime(2026, 5, 1, 12, 0, 0, 500_000, tzinfo=UTC)
LINE = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."


def as_json(labels: dict[str, str], *lines: str) -> bytes:
    stamp = str(int(AT.timestamp() * 1e9))
    return json.dumps({"streams": [{"stream": labels, "values": [[stamp, line] for line in lines]}]}).encode()


def as_protobuf(labels: dict[str, str], *lines: str) -> bytes:
    text = "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
    seconds = int(AT.timestamp())
    stamp = b"\x08" + number(seconds) + b"\x10" + number(500_000_000)
    entries = b"".join(block(2, block(1, stamp) + block(2, line.encode())) for line in lines)
    return block(1, block(1, text.encode()) + entries)


def says(batch: Batch) -> list[tuple[str, str, datetime | None]]:
    return [(line.node_claim, line.text, line.at) for line in batch.lines]


@pytest.mark.parametrize("label", ["host", "hostname", "node", "node_name", "instance"])
def test_both_spellings_mean_the_same_line(label: str) -> None:
    labels = {"job": "kernel", label: "n1"}
    for batch in (loki.read_json(as_json(labels, LINE)), loki.read_protobuf(as_protobuf(labels, LINE))):
        assert says(batch) == [("n1", LINE, AT)]


def test_a_line_that_is_a_record_is_read_as_one() -> None:
    line = json.dumps({"MESSAGE": LINE, "_HOSTNAME": "n2"})
    assert says(loki.read_json(as_json({"job": "kernel"}, line))) == [("n2", LINE, AT)]
    assert says(loki.read_json(as_json({"host": "n1"}, "{ no record"))) == [("n1", "{ no record", AT)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "cut_json"),
        (b"[]", "not_an_object"),
        (b'{"streams": [7]}', "not_an_object"),
        (b'{"streams": [{"stream": {"host": "n1"}, "values": [["1"]]}]}', "not_an_object"),
        (as_json({"job": "kernel"}, LINE), "no_host"),
    ],
)
def test_what_cannot_be_read_is_counted(body: bytes, reason: str) -> None:
    batch = loki.read_json(body)
    assert (batch.lines, dict(batch.rejected)) == ([], {reason: 1})


def test_a_bad_stream_costs_itself_alone() -> None:
    batch = loki.read_protobuf(block(1, block(1, b'{host="n1')) + as_protobuf({"host": "n1"}, LINE))
    assert (len(batch.lines), dict(batch.rejected)) == (1, {"bad_label": 1})


def test_a_damaged_entry_or_a_cut_stream_costs_itself_alone() -> None:
    whole = as_protobuf({"host": "n1"}, LINE, LINE)
    (inner,) = (value for _, _, value in protobuf.fields(whole) if isinstance(value, bytes))
    broken = block(1, inner + block(2, b"\x0a\x7f") + block(2, b"\xff"))
    batch = loki.read_protobuf(broken + as_protobuf({"host": "n2"}, LINE))
    assert [line.node_claim for line in batch.lines] == ["n1", "n1", "n2"]
    assert batch.rejected == {"malformed": 2}
    batch = loki.read_protobuf(as_protobuf({"host": "n1"}, LINE) + as_protobuf({"host": "n2"}, LINE)[:-5])
    assert ([line.node_claim for line in batch.lines], dict(batch.rejected)) == (["n1"], {"malformed": 1})


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=120),
    st.recursive(
        st.none() | st.floats() | st.text(max_size=5),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["streams", "stream", "values", "host"]), x),
    ),
    st.integers(0, 80),
)
def test_no_body_raises_but_to_say_that_it_is_none(body: bytes, shape: Any, at: int) -> None:
    loki.read_json(body)
    loki.read_json(json.dumps({"streams": shape}).encode())
    for data in (body, as_protobuf({"host": "n1"}, LINE)[:at] + body):
        try:
            loki.read_protobuf(data)
        except BadMessage as error:
            assert str(error)
