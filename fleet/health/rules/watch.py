"""How a rule over one metric looks at it, as data.

Decides the few kinds of condition that nearly every published limit is one of: a value against a limit, a value among
some, bits, growth of a counter, a rate over a full window, and a number of events within it. Refuses thresholds: those
are the rule's, which a site may change; what is here is the meaning of the metric, which it may not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet.health.rules.types import ActionClass, Rule, Severity

How = Literal[
    "at_least", "above", "at_most", "below", "not", "is", "bits", "silent", "grows", "rate", "count", "changes"
]  # fmt: skip
LEVELS = frozenset({"at_least", "above", "at_most", "below", "not", "is", "bits", "silent"})


@dataclass(frozen=True, slots=True)
class Watch:
    """`title` is a message id; its arguments are `part`, `value`, `limit`, `minutes` and `sub`."""

    how: How
    metric: str
    title: str
    values: tuple[float, ...] = ()  # for `is`
    mask: int = 0  # for `bits`
    sub: str = ""  # only rows of this sub-series
    plus: str = ""  # this metric of the same device is added
    scale: float = 1.0  # factor to the rule's unit
    over: str = ""  # the value is divided by this metric of the same device
    against: str = ""  # the limit is this metric of the same device, where it is told
    active: str = ""  # judged only while this metric of the same device is at least `active_from`
    active_from: float = 0.0
    own_best: bool = False  # the limit is the best this part ever showed, unless the rule's threshold is more
    seen_good: bool = False  # judged only after it was good once
    gone_is_good: bool = False  # the exporter leaves the series out when all is well
    per: float = 1.0  # seconds in the unit of a rate
    lanes: bool = False  # the limit of a rate is by PCIe generation and width


def numbers_of(watch: Watch) -> frozenset[str]:
    """Which numbers of a rule mean something to this way of looking."""
    if watch.how in LEVELS:
        fixed = watch.how in ("is", "bits", "not") or bool(watch.against)
        return frozenset({"window", "scrapes", "of", "clear"} | (set() if fixed else {"threshold"}))
    return frozenset({"threshold"} if watch.how == "grows" else {"threshold", "window"})


@dataclass(frozen=True, slots=True)
class Watched:
    """A rule made from data: what a site may change, and what it looks at. Several watches are several sources."""

    rule: Rule
    watches: tuple[Watch, ...]


def exporter_rule(
    id: str, title: str, metrics: tuple[str, ...], severity: Severity, action: ActionClass, origin: str, unit: str,
    threshold: float = 0.0, **more: float | int | bool,
) -> Rule:  # fmt: skip
    """A rule on what an exporter other than DCGM's tells."""
    source = "node_exporter" if metrics[0].startswith("node_") else "exporter"
    return Rule(id, title, metrics, source, severity, action, origin, threshold, unit, **more)  # type: ignore[arg-type]
