"""Reads what `dcgmi diag -j` prints, of DCGM 3 and of DCGM 4.

DCGM 3 nests its tests under "DCGM GPU Diagnostic" and names GPUs by `gpu_ids`; DCGM 4 says "DCGM Diagnostic" and names
an entity of the group GPU. Decides which status a result has; a word it does not know is a failure, not a pass.
Refuses a document that is cut off, that ran no test, or in which nothing at all passed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from fleet.lifecycle.validation.findings import MOST_FINDINGS, Finding, Report, Status

ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_NEAR = 400  # the root's name stands this close behind the brace that opens the document
_MOST_DOCUMENTS = 20
_ERRORS = ("runtime_error", "Error", "error")
_STATUS = {
    "pass": Status.PASS, "passed": Status.PASS, "ok": Status.PASS,
    "warn": Status.WARN, "warning": Status.WARN,
    "fail": Status.FAIL, "failed": Status.FAIL, "error": Status.FAIL,
    "skip": Status.SKIP, "skipped": Status.SKIP, "not run": Status.SKIP, "not applicable": Status.SKIP,
}  # fmt: skip
_MEASURED = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z ]{2,60}?)[ \t:=]{1,8}(?P<value>\d{1,12}(?:\.\d{1,6})?)[ \t]?"
    r"(?P<unit>GB/s|TFLOPS|GFLOPS)\b"
)
_GPU_PREFIX = re.compile(r"\bGPU \d+ ")


def parse(log: str) -> Report:
    """The findings of every complete document in the log."""
    documents = list(_documents(log))
    if not documents:
        cut = any(f'"{root}"' in log for root in ROOTS)
        return Report(problem="the diagnostics' result is cut off" if cut else "the log holds no result of diagnostics")
    findings: list[Finding] = []
    gpus: set[int] = set()
    for document in documents:
        root = next(document[name] for name in ROOTS if name in document)
        serials = _serials(document)
        findings += _errors(document, root)
        for test in _tests(root):
            for result in _dicts(test.get("results")):
                seen = _gpus(result)
                gpus |= set(seen)
                findings += _findings(str(test.get("name") or "unnamed")[:80], result, seen, serials)
    findings = findings[:MOST_FINDINGS]
    if not findings:
        return Report(problem="the diagnostics ran no test")
    if not any(finding.status in (Status.PASS, Status.FAIL) for finding in findings):
        return Report(tuple(findings), "the diagnostics tested nothing: every test was skipped", frozenset(gpus))
    return Report(tuple(findings), "", frozenset(gpus))


def _documents(log: str) -> Iterator[dict[str, Any]]:
    decoder, at, found = json.JSONDecoder(), 0, 0
    while found < _MOST_DOCUMENTS and (brace := log.find("{", at)) >= 0:
        head = log[brace : brace + _NEAR]
        if not any(f'"{root}"' in head for root in ROOTS):
            at = brace + 1
            continue
        found += 1
        try:
            document, at = decoder.raw_decode(log, brace)
        except (ValueError, RecursionError):
            at = brace + 1
            continue
        if isinstance(document, dict) and any(isinstance(document.get(root), dict) for root in ROOTS):
            yield document


def _errors(*places: dict[str, Any]) -> list[Finding]:
    """The diagnostics' own complaint that they could not run."""
    told = [str(place[key]) for place in places for key in _ERRORS if place.get(key)]
    for place in places:
        told += [str(error.get("warning") or error) for error in _dicts(place.get("global_errors"))]
    return [Finding("diagnostics", Status.FAIL, text=text[:300]) for text in told]


def _tests(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for category in _dicts(root.get("test_categories")):
        yield from _dicts(category.get("tests"))
    yield from _dicts(root.get("tests"))


def _findings(name: str, result: dict[str, Any], gpus: list[int], serials: dict[str, str]) -> list[Finding]:
    word = str(result.get("status") or "").strip().lower()
    status = _STATUS.get(word, Status.FAIL)
    said = _texts(result.get("warnings")) + _texts(result.get("info"))
    text = "; ".join(said)[:300]
    if word not in _STATUS:
        text = f"ended as {word[:40]!r}; {text}".rstrip("; ")
    if status == Status.PASS and len(gpus) > 1:
        return [Finding(name, status, text=text)]
    found = []
    places: list[int | None] = [*gpus] or [None]
    for gpu in places:
        device = "" if gpu is None else f"GPU {gpu}"
        serial = serials.get(str(gpu), "")
        told = f"{text} (serial {serial})".strip() if serial and status in (Status.FAIL, Status.WARN) else text
        found.append(Finding(name, status, device, text=told))
        found += _measured(name, device, said)
    return found


def _measured(test: str, device: str, said: list[str]) -> list[Finding]:
    """Rates that a test tells beside its status."""
    return [
        Finding(f"{test}: {' '.join(match['name'].lower().split())}", Status.PASS, device, float(match["value"]),
                match["unit"])
        for line in said
        for match in _MEASURED.finditer(_GPU_PREFIX.sub("", line[:2000]))
    ]  # fmt: skip


def _gpus(result: dict[str, Any]) -> list[int]:
    if str(result.get("entity_group", "GPU")).upper() != "GPU":
        return []
    told = next((result[key] for key in ("entity_id", "gpu_id", "gpu_ids") if result.get(key) is not None), "")
    named = [part.strip() for part in str(told).split(",")][:64]
    return [int(part) for part in named if part.isascii() and part.isdecimal() and len(part) < 4]


def _serials(document: dict[str, Any]) -> dict[str, str]:
    told = document.get("GPU Device Serials")
    found = {str(key): str(value)[:40] for key, value in told.items()} if isinstance(told, dict) else {}
    for group in _dicts(document.get("entity_groups")):
        if str(group.get("entity_group", "")).upper() == "GPU":
            for entity in _dicts(group.get("entities")):
                if entity.get("serial_num"):
                    found[str(entity.get("entity_id"))] = str(entity["serial_num"])[:40]
    return found


def _texts(told: Any) -> list[str]:
    """Warnings and information: a text, a list of texts, or a list of errors with numbers."""
    if isinstance(told, str):
        return [told] if told else []
    found = []
    for item in told if isinstance(told, list) else []:
        found.append(str(item.get("warning") or item.get("text") or "") if isinstance(item, dict) else str(item))
    return [text for text in found[:20] if text]


def _dicts(told: Any) -> list[dict[str, Any]]:
    """Of a list the mappings; DCGM itself prints nulls between its tests."""
    return [item for item in told if isinstance(item, dict)] if isinstance(told, list) else []
