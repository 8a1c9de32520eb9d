"""What a pod asks of a node: devices, CPU, memory, labels, taints.

Decides effective requests as the scheduler counts them (Kubernetes, "Init Containers", resource sharing): the larger of
the sum of the containers and the greediest init container, sidecars on top, and the pod's overhead. Hands out one
object for equal needs. Refuses preferences and quantities it cannot read (they count as nothing asked).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from fleet.ports.devices import DEVICE
from fleet.ports.gangs import Match, Need, Toleration
from fleet.ports.shapes import MOST, items, mapping, strings, text, texts

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_QUANTITY = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")
_FACTORS = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
Amounts = Counter[str]  # resource -> devices, CPU in thousandths of a core, memory in bytes


def need_of(spec: Mapping[str, Any]) -> Need:
    """Of a pod's spec or a pod template's. Equal needs are one object.

    Pods are made of few templates, and each is read many times in its life: what was worked out once is kept.
    """
    asked = _asked(spec)
    try:
        return _kept(orjson.dumps(asked))
    except TypeError:  # a number that no quantity may have: such a pod is worked out each time
        return _of(asked)


@lru_cache(maxsize=65_536)
def _kept(asked: bytes) -> Need:
    return _of(orjson.loads(asked))


def _asked(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec without anything that no need is read of."""
    containers = [{"resources": c.get("resources")} for c in items(spec.get("containers"))]
    inits = [
        {"resources": c.get("resources"), "restartPolicy": c.get("restartPolicy")}
        for c in items(spec.get("initContainers"))
    ]
    affinity = {"nodeAffinity": mapping(spec.get("affinity")).get("nodeAffinity")}
    rest = {key: spec.get(key) for key in ("resources", "overhead", "nodeSelector", "tolerations", "resourceClaims")}
    return {"containers": containers, "initContainers": inits, "affinity": affinity, **rest}


def _of(spec: Mapping[str, Any]) -> Need:
    asked = _effective(spec)
    resource = next((name for name in sorted(asked) if DEVICE.match(name) and asked[name] > 0), GPU_RESOURCES[0])
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    return _one(
        Need(
            gpus=min(MOST, asked[resource]),
            cpu_millis=min(MOST, asked["cpu"]),
            memory_mib=min(MOST, -(-asked["memory"] // 2**20)),
            resource=resource,
            selector=tuple(sorted(texts(spec.get("nodeSelector")).items())),
            any_of=tuple(_term(term) for term in items(required.get("nodeSelectorTerms"))),
            tolerations=tuple(sorted({_toleration(t) for t in items(spec.get("tolerations"))}, key=str)),
            claims=len(items(spec.get("resourceClaims"))),
        )
    )


@lru_cache(maxsize=65_536)
def _one(need: Need) -> Need:
    return need


def amounts(resources: Mapping[str, Any]) -> Amounts:
    """A resource list: devices whole, CPU in thousandths of a core, memory in bytes; others are left out."""
    found: Amounts = Counter()
    for name, raw in resources.items():
        if name == "cpu":
            found["cpu"] = round(quantity(raw) * 1000)
        elif name == "memory":
            found["memory"] = round(quantity(raw))
        elif isinstance(name, str) and DEVICE.match(name):
            found[name] = int(quantity(raw))
    return found


def devices(resources: Mapping[str, Any]) -> dict[str, float]:
    """Of a queue: it may be due parts of one, where a pod may not."""
    return {name: quantity(raw) for name, raw in resources.items() if isinstance(name, str) and DEVICE.match(name)}


@lru_cache(maxsize=4096)
def _parsed(raw: str) -> float:
    match = _QUANTITY.match(raw)
    if match is None:
        return 0.0
    try:
        return max(0.0, min(1e18, float(match.group(1)) * _FACTORS[match.group(2) or ""]))
    except (ValueError, OverflowError):
        return 0.0


def quantity(raw: Any) -> float:
    """A Kubernetes quantity in its base unit; 0 for what is none."""
    return _parsed(str(raw)) if isinstance(raw, (str, int, float)) and not isinstance(raw, bool) else 0.0


def is_quantity(raw: Any) -> bool:
    """Whether it tells an amount at all, 0 too."""
    return isinstance(raw, (str, int, float)) and not isinstance(raw, bool) and _QUANTITY.match(str(raw)) is not None


def _effective(spec: Mapping[str, Any]) -> Amounts:
    running = _sum(items(spec.get("containers")))
    sidecars: Amounts = Counter()
    peak: Amounts = Counter()
    for container in items(spec.get("initContainers")):
        own = _asks(container)
        if container.get("restartPolicy") == "Always":
            sidecars += own
            peak |= sidecars
        else:
            peak |= own + sidecars
    total = (running + sidecars) | peak
    total |= _asks(spec)  # of the pod as a whole (since 1.32): no less than what its containers ask for
    return total + amounts(mapping(spec.get("overhead")))


def _sum(containers: Iterable[Mapping[str, Any]]) -> Amounts:
    total: Amounts = Counter()
    for container in containers:
        total += _asks(container)
    return total


def _asks(container: Mapping[str, Any]) -> Amounts:
    """Requests; for what has only a limit, the limit is the request."""
    resources = mapping(container.get("resources"))
    return amounts({**mapping(resources.get("limits")), **mapping(resources.get("requests"))})


def _term(raw: Mapping[str, Any]) -> tuple[Match, ...]:
    expressions = (*items(raw.get("matchExpressions")), *items(raw.get("matchFields")))
    return tuple(Match(text(e.get("key")), text(e.get("operator")), strings(e.get("values"))) for e in expressions)


def _toleration(raw: Mapping[str, Any]) -> Toleration:
    operator = text(raw.get("operator")) or "Equal"
    return Toleration(text(raw.get("key")), operator, text(raw.get("value")), text(raw.get("effect")))
