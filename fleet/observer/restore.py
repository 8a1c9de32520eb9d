"""What the rules remember over a restart.

Decides that the saved state and the open signals must say the same: a finding whose signal was not committed is told
again, a signal whose finding is not in the state becomes one. Refuses to drop either in silence: the first would lose a
fault, the second would leave a signal that nothing ever clears.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fleet.health.models import RuleState, Signal
from fleet.health.rules.engine import STATE_VERSION, RuleEngine
from fleet.health.rules.types import Edge


def load(engine: RuleEngine, cluster_id: int) -> list[Edge]:
    """Fill a new engine; the edges that still have to become rows."""
    rows = RuleState.objects.filter(cluster_id=cluster_id, node__gone_at=None).values_list("node__name", "state")
    saved = dict(rows.iterator(chunk_size=1000))
    engine.import_state({"version": STATE_VERSION, "nodes": saved})
    signals = list(Signal.objects.filter(cluster_id=cluster_id, cleared_at=None).select_related("node"))
    known = engine.open_findings()
    present = {(s.node.name, s.device, s.cause) for s in signals}
    for signal in signals:
        if (signal.node.name, signal.device, signal.cause) not in known:
            engine.findings.load(signal.node.name, [_finding(signal, engine)])
    return [replace(finding.edge, kind="opened") for key, finding in known.items() if key not in present]


def _finding(signal: Signal, engine: RuleEngine) -> dict[str, Any]:
    rule = engine.rules.get(signal.rule)
    said = signal.evidence.get("said") or {"id": signal.title.replace("%", "%%"), "args": {}}
    edge = {
        "kind": "opened",
        "rule_id": signal.rule,
        "node": signal.node.name,
        "device": signal.device,
        "code": signal.code,
        "cause": signal.cause,
        "severity": signal.severity,
        "action_class": signal.action_class,
        "title": said["id"],
        "args": said["args"],
        "first_bad_at": signal.first_bad_at.isoformat(),
        "detected_at": signal.opened_at.isoformat(),
        "source": signal.source,
        "latched": bool(rule and rule.latched),
        "evidence": {key: value for key, value in signal.evidence.items() if key != "said"},
    }
    seen = signal.seen_at.isoformat()
    return {"edge": edge, "boot_id": "", "seen_at": seen, "told_at": seen, "count": 1, "expires": 0.0}


def save(cluster_id: int, states: Mapping[str, Any], node_ids: Mapping[str, int]) -> None:
    """Write the state of the nodes given, in the caller's transaction."""
    rows = [
        RuleState(node_id=node_ids[name], cluster_id=cluster_id, state=state)
        for name, state in sorted(states.items())
        if name in node_ids
    ]
    RuleState.objects.bulk_create(
        rows, batch_size=1000, update_conflicts=True, unique_fields=["node"], update_fields=["state"]
    )


def export(engine: RuleEngine, nodes: Iterable[str]) -> dict[str, Any]:
    """State of the nodes given. One that the cycle is just changing is left out: the cycle saves it right after."""
    states: dict[str, Any] = {}
    for node in nodes:
        try:
            states[node] = engine.export_state([node])["nodes"][node]
        except (IndexError, KeyError, RuntimeError):
            continue
    return states
