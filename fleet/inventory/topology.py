"""Where a node belongs, read from its labels, and whether it is one that we may touch.

Decides pool, rack, leaf, rail, NVLink domain and tenant from configurable label keys, and the managed set from an
opt-in label selector (Kubernetes' grammar; `*` opts every node in, empty opts none in). Refuses control plane nodes and
nodes that were opted out, whatever the selector says. Pure: no database.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

DEFAULT_KEYS: dict[str, str] = {
    "pool": "topology.muster.dev/pool",
    "rack": "topology.muster.dev/rack",
    "leaf": "topology.muster.dev/leaf",
    "rail": "topology.muster.dev/rail",
    "nvlink_domain": "topology.muster.dev/nvlink-domain",
    "tenant": "topology.muster.dev/tenant",
}
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
OPT_OUT = ("muster.dev/managed", "false")
"""Label by which a person takes one node out of the managed set."""
EVERY_NODE = "*"

Labels = Mapping[str, str]
Term = Callable[[Labels], bool]

_SET = re.compile(r"^(?P<key>[^\s=!,()]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s=!,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s=!,()]*)$")
_EXISTS = re.compile(r"^(?P<no>!?)\s*(?P<key>[^\s=!,()]+)$")


class BadSelector(ValueError):
    """A label selector that cannot be read; the sentence names the term."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The scopes a node's labels name; an empty string means that no label says."""

    pool: str = ""
    rack: str = ""
    leaf: str = ""
    rail: str = ""
    nvlink_domain: str = ""
    tenant: str = ""


def placement(labels: Labels, keys: Mapping[str, str]) -> Placement:
    """Read the scopes under `keys` (scope -> label key), the defaults filling what `keys` leaves out."""
    return Placement(**{scope: labels.get(keys.get(scope) or key, "")[:100] for scope, key in DEFAULT_KEYS.items()})


def is_managed(labels: Labels, selector: str) -> bool:
    """May we touch a node with these labels?"""
    if any(key in labels for key in CONTROL_PLANE) or opted_out(labels):
        return False
    return all(term(labels) for term in parse_selector(selector)) if selector.strip() else False


def opted_out(labels: Labels) -> bool:
    return labels.get(OPT_OUT[0], "").lower() == OPT_OUT[1]


@lru_cache(maxsize=64)
def parse_selector(selector: str) -> tuple[Term, ...]:
    """The terms that must all hold. Raises BadSelector."""
    if selector.strip() in ("", EVERY_NODE):
        return ()
    return tuple(_term(part.strip()) for part in re.split(r",(?![^()]*\))", selector))


def _term(text: str) -> Term:
    if found := _SET.match(text):
        key, values = found["key"], frozenset(v.strip() for v in found["values"].split(","))
        if found["how"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(text):
        key, value = found["key"], found["value"]
        if found["how"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(text):
        key, absent = found["key"], bool(found["no"])
        return lambda labels: (key in labels) is not absent
    raise BadSelector(f"The selector's term {text!r} is not understood.")
