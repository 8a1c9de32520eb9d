"""What is pushed in Loki's form to kernel lines.

Decides where stream labels, times and texts are, in JSON and in the snappy-packed protobuf that Promtail, Alloy and
Fluent Bit send. A line that is a record itself (Fluent Bit's `line_format json`) is read as one, with the stream's
labels filling in what it lacks. Refuses nothing silently: what cannot be read is counted by reason, and a damaged entry
or label set costs itself alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from fleet.telemetry import logrecords, protobuf
from fleet.telemetry.exposition import BadLine, read_labels
from fleet.telemetry.kernellog import Batch, take_record
from fleet.telemetry.protobuf import BadMessage

_INSTANCE = ("instance", "host_name", "k8s_node_name")  # stream labels that name a host besides a record's own
Labels = dict[str, str]


def read_json(body: bytes) -> Batch:
    """`{"streams": [{"stream": {...}, "values": [["<ns>", "line"], ...]}]}`. Never raises."""
    batch = Batch([], Counter())
    try:
        whole = orjson.loads(body)
    except orjson.JSONDecodeError:
        batch.rejected["cut_json"] += 1
        return batch
    streams = whole.get("streams") if isinstance(whole, dict) else None
    if not isinstance(streams, list):
        batch.rejected["not_an_object"] += 1
        return batch
    for stream in streams:
        if not isinstance(stream, dict) or not isinstance(stream.get("values"), list):
            batch.rejected["not_an_object"] += 1
            continue
        given = stream.get("stream")
        labels = {key: text for key, text in given.items() if isinstance(text, str)} if isinstance(given, dict) else {}
        for value in stream["values"]:
            if isinstance(value, list) and len(value) >= 2 and isinstance(value[1], str):
                _take(labels, value[1], value[0], batch)
            else:
                batch.rejected["not_an_object"] += 1
    return batch


def read_protobuf(plain: bytes) -> Batch:
    """An unpacked PushRequest. Raises BadMessage when nothing of it could be read as one."""
    batch = Batch([], Counter())
    read = 0
    try:
        for number, stream in _blocks(plain):
            if number == 1:
                _stream(stream, batch)
                read += 1
    except BadMessage:
        if not read:
            raise
        batch.rejected["malformed"] += 1
    return batch


def _stream(data: bytes, batch: Batch) -> None:
    labels: Labels = {}
    entries: list[bytes] = []
    try:
        for number, content in _blocks(data):
            if number == 1:
                labels = _labels(content, batch)
            elif number == 2:
                entries.append(content)
    except BadMessage:
        batch.rejected["malformed"] += 1
    for entry in entries:
        _entry(labels, entry, batch)


def _labels(text: bytes, batch: Batch) -> Labels:
    try:
        return read_labels(text.strip().removeprefix(b"{").removesuffix(b"}"))
    except BadLine:
        batch.rejected["bad_label"] += 1  # counted, yet a line that names its host itself is kept
        return {}


def _entry(labels: Labels, data: bytes, batch: Batch) -> None:
    line, seconds = "", 0.0
    try:
        for number, content in _blocks(data):
            if number == 1:
                for part, _, value in protobuf.fields(content):
                    if isinstance(value, int):
                        seconds += value if part == 1 else value / 1e9 if part == 2 else 0.0
            elif number == 2:
                line = content.decode("utf-8", "replace")
    except BadMessage:
        batch.rejected["malformed"] += 1
        return
    _take(labels, line, seconds, batch)


def _blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, kind, value in protobuf.fields(data):
        if kind == protobuf.BYTES and isinstance(value, bytes):
            yield number, value


def _take(labels: Labels, line: str, at: Any, batch: Batch) -> None:
    if not logrecords.of_kernel(logrecords.named(labels)):  # whatever the line says of itself
        batch.rejected["not_kernel"] += 1
        return
    record: dict[str, Any] = {"log": line}
    if line.startswith("{"):
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            found = None
        record = found if isinstance(found, dict) else record
    host = next((labels[key] for key in _INSTANCE if labels.get(key)), "")
    take_record({"date": at, **({"host": host} if host else {}), **labels, **record}, batch)
