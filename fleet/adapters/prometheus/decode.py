"""From the JSON of a query to columns.

Decides what an answer must look like, down to labels that are texts and times that are times. Python's cycle collector
is held off while a large answer is read: it would walk hundreds of thousands of young dictionaries again and again and
find nothing. Refuses whatever is no answer of the query API, by an error that says what came instead.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import orjson

from fleet.adapters.prometheus.errors import bad_answer, refused
from fleet.ports.metrics import Curve, Curves, Floats, Vector

HOLD_OFF_BYTES = 256 * 1024
LAST_TIME = 1e11  # seconds
_lock = threading.Lock()
_holding = 0
_was_on = False


@contextmanager
def collector_held_off(body: bytes) -> Iterator[None]:
    """No collection of cycles inside, however many threads are; small answers do not bother."""
    global _holding, _was_on
    if len(body) < HOLD_OFF_BYTES:
        yield
        return
    with _lock:
        if _holding == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _holding += 1
    try:
        yield
    finally:
        with _lock:
            _holding -= 1
            if _holding == 0 and _was_on:
                gc.enable()


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_answer(body) from error
    if not isinstance(document, dict) or document.get("status") not in ("success", "error"):
        raise bad_answer(body)
    if document["status"] == "error":
        raise refused(200, document)
    return document


def _noted(document: dict[str, Any]) -> tuple[tuple[str, ...], bool]:
    """(what the store warns of, whether it is incomplete). A remark about the expression itself is no hole."""
    found = document.get("warnings")
    warnings = tuple(text[:300] for text in found if isinstance(text, str)) if isinstance(found, list) else ()
    holes = [text for text in warnings if not text.startswith("PromQL ")]
    return warnings, bool(document.get("isPartial") or holes)


def _result(body: bytes, document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    data = document.get("data")
    if not isinstance(data, dict) or data.get("resultType") != kind or not isinstance(data.get("result"), list):
        raise bad_answer(body)
    result: list[dict[str, Any]] = data["result"]
    return result


def _labels(found: list[Any]) -> list[dict[str, str]]:
    if set(map(type, found)) - {dict} or set(map(type, chain.from_iterable(map(dict.values, found)))) - {str}:
        raise TypeError("labels that are no texts")
    return found


def _floats(texts: Sequence[str]) -> Floats:
    return np.array(list(map(float, texts)), dtype=np.float64)


def vector(body: bytes) -> Vector:
    """An instant query's answer. A scalar is a vector of one series without labels."""
    with collector_held_off(body):
        document = _document(body)
        warnings, partial = _noted(document)
        data = document.get("data")
        try:
            if isinstance(data, dict) and data.get("resultType") == "scalar":
                at, value = data["result"]
                return Vector([{}], _floats([value]), np.array([float(at)]), warnings, partial)
            result = _result(body, document, "vector")
            found = [series for series in result if "value" in series]
            labels = _labels([series["metric"] for series in found])
            points = [series["value"] for series in found]
            values = _floats([point[1] for point in points])
            stamps = np.array([point[0] for point in points], dtype=np.float64)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise bad_answer(body) from error
        return Vector(labels, values, stamps, warnings, partial, len(result) - len(found))


def curves(body: bytes) -> Curves:
    """A range query's answer."""
    with collector_held_off(body):
        document = _document(body)
        warnings, partial = _noted(document)
        try:
            found = []
            for series in _result(body, document, "matrix"):
                if "values" not in series:
                    continue
                points = series["values"]
                stamps = np.array([point[0] for point in points], dtype=np.float64)
                if not ((stamps > 0) & (stamps < LAST_TIME)).all():
                    raise ValueError("a time that is none")
                found.append(Curve(_labels([series["metric"]])[0], stamps, _floats([point[1] for point in points])))
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise bad_answer(body) from error
        return Curves(found, warnings, partial)
