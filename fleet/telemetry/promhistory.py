"""The past of a node from a metrics API.

Decides the queries: a GPU's slot is its `gpu` label, a node is known by any name its exporters used, and a row that
stands for longer than a minute is a mean with its lowest and highest. Refuses names that could break out of a query:
they are quoted as literal text of a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.ports.history import Past, Rows, Whose
from fleet.ports.metrics import Curves, MetricsReader
from fleet.telemetry import promql
from fleet.telemetry.history import GPU_MEASURES, MAX_GPUS, TRAFFIC

MAX_ROWS = 300
FINEST = 15.0
SPREAD_FROM = 60.0
NAMED = ("node", "Hostname", "hostname")
MAX_NAMES = 12
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


@dataclass(frozen=True, slots=True)
class PromqlHistory:
    reader: MetricsReader
    match: str = ""

    def past(self, whose: Whose, since: datetime, until: datetime, measures: Sequence[str] = ()) -> Past:
        wanted = [name for name in (*GPU_MEASURES, *TRAFFIC) if not measures or name in measures]
        step = max(FINEST, -(-(until - since).total_seconds() // MAX_ROWS))
        spread = step >= SPREAD_FROM and len(wanted) <= 2  # lows and highs cost as much again, twice
        stats = ("avg", "min", "max") if spread else ("avg",)
        asked = [(name, stat) for stat in stats for name in wanted]
        expressions = [self.expression(name, whose, stat, step) for name, stat in asked]
        first = until - timedelta(seconds=(until - since).total_seconds() // step * step)  # so that the last row is now
        answers = self.reader.overs(expressions, first, until, step)
        found: dict[str, dict[float, dict[str, Any]]] = {stat: {} for stat in ("avg", "min", "max")}
        for (name, stat), answer in zip(asked, answers, strict=True):
            _fill(found[stat], name, answer)
        notes = {text for answer in answers if answer.partial for text in answer.warnings}
        mean, low, high = (_rows(found[stat]) for stat in ("avg", "min", "max"))
        return Past(mean, step, "promql", low, high, tuple(sorted(notes)))

    def expression(self, measure: str, whose: Whose, stat: str, step: float) -> str:
        """One measure of one node over time."""
        window = f"[{int(max(step, 60))}s]"
        if measure in TRAFFIC:
            rate = _either(TRAFFIC[measure], whose, self.match, lambda text: f"rate({text}{window})")
            return f"sum({rate})"
        spread = step >= SPREAD_FROM
        over = (lambda text: f"{stat}_over_time({text}{window})") if spread else (lambda text: text)
        return f"{stat} by (gpu) ({_either(GPU_MEASURES[measure], whose, self.match, over)})"


def _either(metric: str, whose: Whose, match: str, over: Callable[[str], str]) -> str:
    """The metric in every spelling under every label that may name the node; `or` keeps each series once."""
    named = dict.fromkeys((whose.name, *whose.names[:MAX_NAMES]))
    known = "|".join(_SPECIAL.sub(r"\\\g<0>", name) for name in named)
    quoted = known.replace("\\", "\\\\").replace('"', '\\"')
    labels = [f'{label}=~"{quoted}"' for label in NAMED]
    if metric.startswith("node_"):
        labels = [labels[0], f'instance=~"(?:{quoted})(?::[0-9]+)?"']
    inside = [f"{label},{match}" if match else label for label in labels]
    told = [over(f"{spelled}{{{text}}}") for spelled in promql.spellings(metric) for text in inside]
    for name, factor in promql.scaled(metric):
        told += [f"{over(f'{name}{{{text}}}')} * {factor:.12g}" for text in inside]
    return " or ".join(told)


def _fill(rows: dict[float, dict[str, Any]], name: str, answer: Curves) -> None:
    for curve in answer.curves:
        slot = curve.labels.get("gpu", "0")
        if name in GPU_MEASURES and not (slot.isdecimal() and len(slot) < 4 and int(slot) < MAX_GPUS):
            continue
        for stamp, value in zip(curve.stamps.tolist(), curve.values.tolist(), strict=True):
            row = rows.setdefault(stamp, {})
            known = None if value != value else round(value, 2)
            if name in TRAFFIC:
                row[name] = known
                continue
            slots = row.setdefault(name, [])
            slots += [None] * (int(slot) + 1 - len(slots))
            slots[int(slot)] = known


def _rows(found: dict[float, dict[str, Any]]) -> Rows:
    return [(datetime.fromtimestamp(stamp, UTC), found[stamp]) for stamp in sorted(found)]
