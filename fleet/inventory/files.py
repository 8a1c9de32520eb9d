"""Inventory files as lines: CSV or YAML.

Decides what can be read of a file; each bad line is a counted sentence with its number and costs only itself, a cell
that no column could hold included. Refuses a file with unknown columns as a whole, because a misspelt column would
silently import nothing.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fleet.inventory.models import Alias, Bmc, Node
from fleet.inventory.topology import DEFAULT_KEYS
from fleet.ports import plainyaml

PLACES = tuple(scope for scope in DEFAULT_KEYS if scope != "pool")
COLUMNS = ("node", "bmc_address", "bmc_kind", "bmc_uuid", "serial", "credential_ref", "ca", "slurm", *PLACES)
BMC_KINDS = ("host", "dpu")
MAX_BYTES = 64 * 1024 * 1024
_HELD = {"node": (Node, "name"), "bmc_address": (Bmc, "address"), "bmc_uuid": (Bmc, "pinned_uuid"),
         "serial": (Bmc, "pinned_serial"), "credential_ref": (Bmc, "credential_ref"), "ca": (Bmc, "ca"),
         "slurm": (Alias, "value"), **{place: (Node, place) for place in PLACES}}  # fmt: skip
LONGEST: dict[str, int] = {
    column: getattr(model._meta.get_field(name), "max_length", 0) or 0 for column, (model, name) in _HELD.items()
}


class UnreadableFile(ValueError):
    """The file as a whole cannot be used; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry: a node and at most one of its BMCs."""

    number: int
    values: Mapping[str, str]

    def get(self, column: str) -> str:
        return self.values.get(column, "")


@dataclass(slots=True)
class Report:
    """What an import did, or in a dry run would do."""

    lines: int = 0
    errors: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    changes: list[str] = field(default_factory=list)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def refuse(self, line: int, code: str, text: str) -> None:
        self.counts[code] += 1
        self.errors.append(f"line {line}: {text}")

    def change(self, node: str, what: str, old: object, new: object) -> None:
        self.changes.append(f"{node}: {what} {old or 'nothing'} -> {new}")
        self.nodes.setdefault(node, {})[what] = [str(old or ""), str(new)]


def read_file(path: Path) -> tuple[list[Line], Report]:
    """The lines of a CSV or YAML file and what was wrong with the others. Raises UnreadableFile."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UnreadableFile(f"{path} is larger than {MAX_BYTES // 2**20} MiB.")
        raw = path.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}.") from error
    report = Report()
    if path.suffix.lower() in (".yaml", ".yml"):
        return list(_yaml_lines(raw, report)), report
    return list(_csv_lines(raw, report)), report


def _csv_lines(raw: bytes, report: Report) -> Iterable[Line]:
    """Each physical line decoded by itself, so that one in another encoding costs only that line."""
    kept: list[tuple[int, str]] = []
    for number, piece in enumerate(raw.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        try:
            kept.append((number, piece.decode()))
        except UnicodeDecodeError:
            report.refuse(number, "bad_encoding", "is not UTF-8.")
    rows = [(n, _cells(n, text, report)) for n, text in kept if text.strip() and text[0] != "#"]
    if not rows:
        raise UnreadableFile("The file has no header line.")
    (_, header), *body = rows
    names = [name.strip().lower() for name in header]
    _check_columns(names)
    for number, cells in body:
        if cells and len(cells) != len(names):
            report.refuse(number, "bad_line", f"has {len(cells)} cells, the header has {len(names)}.")
        elif cells:
            yield from _line(number, zip(names, cells, strict=True), report)


def _cells(number: int, text: str, report: Report) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text)), [])
    except csv.Error as error:
        report.refuse(number, "bad_line", f"cannot be read: {error}.")
        return []


def _line(number: int, values: Iterable[tuple[str, object]], report: Report) -> Iterable[Line]:
    """A line of the values, unless one of them could not be kept as it is."""
    kept = {name: "" if value is None else str(value).strip() for name, value in values}
    for name, text in kept.items():
        longest = LONGEST.get(name, 0)
        if not text.isprintable():
            report.refuse(number, "bad_cell", f"has signs in {name!r} that cannot be printed.")
            return
        if longest and len(text) > longest:
            report.refuse(number, "bad_cell", f"has {len(text)} signs in {name!r}; there may be {longest}.")
            return
    yield Line(number, kept)


def _check_columns(names: list[str]) -> None:
    if unknown := [name for name in names if name not in COLUMNS]:
        raise UnreadableFile(f"Unknown column {', '.join(map(repr, unknown))}. Known: {', '.join(COLUMNS)}.")
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise UnreadableFile(f"Column {', '.join(twice)} is there twice.")
    if "node" not in names:
        raise UnreadableFile("The column 'node' is missing.")


def _yaml_lines(raw: bytes, report: Report) -> Iterable[Line]:
    """A list of mappings, or one under `nodes`; a node may have a list `bmcs`, each of them a line's worth."""
    try:
        document = plainyaml.load(raw.decode())
    except UnicodeDecodeError as error:
        raise UnreadableFile("The file is not UTF-8.") from error
    except yaml.YAMLError as error:
        raise UnreadableFile(f"The file is no YAML: {str(error).splitlines()[0]}.") from error
    entries = document.get("nodes") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise UnreadableFile("The file holds no list of nodes.")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            report.refuse(number, "bad_line", "is not a mapping.")
            continue
        own = {key: value for key, value in entry.items() if key != "bmcs"}
        bmcs = entry.get("bmcs") or [{}]
        for bmc in bmcs if isinstance(bmcs, list) else [None]:
            merged = {**own, **bmc} if isinstance(bmc, dict) else {"bmcs": bmc}
            unknown = [str(key) for key in merged if key not in COLUMNS]
            if unknown or any(isinstance(value, dict | list) for value in merged.values()):
                report.refuse(number, "bad_column", f"has an unknown or nested key: {', '.join(unknown) or 'a list'}.")
                continue
            yield from _line(number, merged.items(), report)
