"""Which objects a labelSelector or fieldSelector picks.

It decides membership for the two selector languages of the API. It refuses selectors it cannot parse, as the API
server does, instead of returning everything.
"""

import re
from collections.abc import Callable
from typing import Any

import orjson

from fleet.simulator.kube.errors import bad_request
from fleet.simulator.store import Record

LabelTest = Callable[[dict[str, str]], bool]
RecordTest = Callable[[Record], bool]

_SET = re.compile(r"^\s*(\S+?)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([A-Za-z0-9][\w./-]*)\s*$")


def label_selector(text: str) -> LabelTest:
    """The string form: a=b,c!=d,e in (f,g),h,!i."""
    tests = [_label_test(part) for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    return lambda labels: all(test(labels) for test in tests)


def _label_test(part: str) -> LabelTest:
    if found := _SET.match(part):
        key, word, values = found[1], found[2], {v.strip() for v in found[3].split(",")}
        if word == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(part):
        key, sign, value = found[1], found[2], found[3]
        if sign == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        key, absent = found[2], bool(found[1])
        return lambda labels: (key in labels) is not absent
    raise bad_request(f"unable to parse requirement: found '{part.strip()}'")


def object_selector(selector: dict[str, Any] | None) -> LabelTest:
    """The structured form that PodDisruptionBudgets and Jobs hold; an empty one picks everything."""
    if selector is None:
        return lambda labels: False
    wanted = dict(selector.get("matchLabels") or {})
    tests: list[LabelTest] = [lambda labels: all(labels.get(k) == v for k, v in wanted.items())]
    for need in selector.get("matchExpressions") or ():
        key, values, word = need["key"], set(need.get("values") or ()), need["operator"]
        tests.append(_expression(key, word, values))
    return lambda labels: all(test(labels) for test in tests)


def _expression(key: str, word: str, values: set[str]) -> LabelTest:
    return {
        "In": lambda labels: labels.get(key) in values,
        "NotIn": lambda labels: labels.get(key) not in values,
        "Exists": lambda labels: key in labels,
        "DoesNotExist": lambda labels: key not in labels,
    }[word]


_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "metadata.name",
        "metadata.namespace",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("metadata.name", "spec.unschedulable"),
    "events": (
        "metadata.name",
        "metadata.namespace",
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "jobs": ("metadata.name", "metadata.namespace", "status.successful"),
    "namespaces": ("metadata.name", "status.phase"),
}


def field_selector(text: str, plural: str) -> RecordTest:
    """The few fields the API server indexes per kind; any other is refused with the server's words."""
    tests = [_field_test(part, plural) for part in text.split(",") if part.strip()]
    return lambda record: all(test(record) for test in tests)


def node_of(text: str) -> str | None:
    """The node that a pod selector pins, so that a list need not walk the whole cluster."""
    for part in text.split(","):
        found = _EQUAL.match(part)
        if found and found[1] == "spec.nodeName" and found[2] != "!=" and found[3]:
            return found[3]
    return None


def _field_test(part: str, plural: str) -> RecordTest:
    found = _EQUAL.match(part)
    if not found:
        raise bad_request(f"invalid selector: '{part.strip()}'; can't understand '{part.strip()}'")
    field, wanted, negated = found[1], found[3], found[2] == "!="
    if field not in _FIELDS.get(plural, ("metadata.name", "metadata.namespace")):
        raise bad_request(f"field label not supported: {field}")
    quick: dict[str, Callable[[Record], str]] = {
        "metadata.name": lambda r: r.name,
        "metadata.namespace": lambda r: r.namespace,
        "spec.nodeName": lambda r: r.node,
        "status.phase": lambda r: r.phase,
    }
    read = quick.get(field) or (lambda r: _dig(r, field))
    return lambda record: (read(record) == wanted) is not negated


def _dig(record: Record, field: str) -> str:
    value: Any = orjson.loads(record.body)
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if field == "spec.unschedulable" else ""
    return str(value)
