"""What a RayCluster, RayJob or RayService manifest will run into, found before it is submitted.

Decides the conditions that a manifest alone shows, and the line of each. Refuses what only a running cluster can show,
documents of other kinds (they are counted and left out), and to judge a manifest whose shape is wrong: its mistakes are
told instead. Reads text that anybody may hand in, within the bounds of `plainyaml`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from fleet.gangs.conditions.condition import Code, Condition, rank
from fleet.gangs.conditions.guarantee import guarantee_asked
from fleet.gangs.conditions.head import unprotected
from fleet.gangs.conditions.headroom import headroom
from fleet.gangs.conditions.mismatch import declared
from fleet.gangs.conditions.oscillation import known_loop
from fleet.gangs.conditions.rayfacts import HEAD
from fleet.gangs.conditions.retention import retention
from fleet.gangs.conditions.spot import spot
from fleet.ports import plainyaml
from fleet.ports.manifests import Manifest, ManifestReader, Path
from fleet.ports.ray import RayFacts

MAX_CHARS = 2_000_000
_TEMPLATE = " It looks like a template: render it first (helm template, jinja) and check what comes out."
_FIELDS: Mapping[Code, tuple[str, ...]] = {
    "guarantee_partial": ("enableInTreeAutoscaling",),
    "autoscaler_known_loop": ("rayVersion",),
    "headroom_exact": ("maxReplicas",),
    "headroom_low": ("maxReplicas",),
    "gpus_declared": ("rayStartParams", "num-gpus"),
}
"""Where in the cluster's spec, or in the group that it is about, a condition is made."""
_OF_JOB: Mapping[Code, Path] = {
    "gpus_kept": ("spec", "shutdownAfterJobFinishes"),
    "evidence_lost": ("spec", "ttlSecondsAfterFinished"),
    "guarantee_unasked": ("metadata", "labels"),
}


@dataclass(frozen=True, slots=True)
class Wrong:
    """Text that is no manifest, or not one that could be submitted. Lines count from 1."""

    line: int
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    line: int
    path: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class Report:
    """`looked`: keys of the manifests that were judged; `skipped`: kinds that are not read, once for each document."""

    looked: tuple[str, ...]
    skipped: tuple[str, ...]
    wrong: tuple[Wrong, ...]
    found: tuple[Found, ...]


def lint(key: str, facts: RayFacts) -> list[Condition]:
    """The worst first."""
    found = (
        *guarantee_asked(key, facts),
        *known_loop(key, facts),
        *headroom(key, facts),
        *unprotected(key, facts),
        *declared(key, facts),
        *retention(key, facts),
        *spot(key, facts),
    )
    return sorted(found, key=rank)


def check(text: str, read: ManifestReader) -> Report:
    """All documents of a file. Never raises for what the text holds."""
    if len(text) > MAX_CHARS:
        return Report((), (), (Wrong(1, "", f"The file is longer than {MAX_CHARS} characters."),), ())
    try:
        documents = plainyaml.documents(_untabbed(text), keys_once=True)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or str(error)
        said = f"This is no YAML: {said}.{_TEMPLATE if '{{' in text or '{%' in text else ''}"
        return Report((), (), (Wrong(mark.line + 1 if mark else 1, "", said),), ())
    looked: list[str] = []
    skipped: list[str] = []
    wrong: list[Wrong] = []
    found: list[Found] = []
    for at, document, lines in _each(documents):
        manifest = read(document)
        if manifest is None:
            skipped.append(_kind(document))
            continue
        looked.append(manifest.key)
        for mistake in manifest.mistakes:
            wrong.append(Wrong(_line(lines, (*at, *mistake.path)), _told(mistake.path), mistake.text))
        facts = manifest.object.ray if manifest.object is not None else None
        if not manifest.mistakes and facts is not None:
            for condition in lint(manifest.key, facts):
                place = _place(condition, manifest, facts)
                found.append(Found(_line(lines, (*at, *place)), _told(place), condition))
    return Report(tuple(looked), tuple(skipped), tuple(wrong), tuple(found))


def _untabbed(text: str) -> str:
    """JSON may be indented with tabs, YAML may not; in JSON none stands inside a text."""
    if "\t" not in text or not text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return text
    try:
        json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return text
    return text.replace("\t", " ")


Lines = Mapping[tuple[object, ...], int]


def _each(documents: list[tuple[Any, dict[tuple[object, ...], int]]]) -> Iterator[tuple[Path, Any, Lines]]:
    """The documents, and those that a List holds. Empty ones are left out."""
    for document, lines in documents:
        if isinstance(document, dict) and _kind(document).endswith("List") and isinstance(document.get("items"), list):
            yield from ((("items", n), item, lines) for n, item in enumerate(document["items"]))
        elif document is not None:
            yield (), document, lines


def _kind(document: Any) -> str:
    kind = document.get("kind") if isinstance(document, dict) else None
    return kind if isinstance(kind, str) and kind else "no kind"


def _place(condition: Condition, manifest: Manifest, facts: RayFacts) -> Path:
    if condition.code in _OF_JOB:
        return _OF_JOB[condition.code]
    field = _FIELDS.get(condition.code, ())
    if condition.about == HEAD:
        return (*manifest.spec_at, "headGroupSpec", *field)
    names = [group.name for group in facts.groups if group.name != HEAD]
    if condition.about in names:
        return (*manifest.spec_at, "workerGroupSpecs", names.index(condition.about), *field)
    return (*manifest.spec_at, *field)


def _line(lines: Lines, path: Path) -> int:
    """Of the value, or of the nearest around it that is written down."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _told(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
