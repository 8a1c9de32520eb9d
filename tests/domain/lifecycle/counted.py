"""What the oracle counts by, read in one statement each: rows as they are, by SQL of its own.

Decides nothing. A judge that asked row by row would be slower than the engine that it judges.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

OPEN = "('waiting', 'running', 'blocked', 'repair')"


@dataclass(slots=True)
class Facts:
    """One workflow and all that forbids to act for it. `claims`: kinds that it holds now."""

    pk: int
    cluster_id: int
    state: str
    plan: Any
    step: int
    attempt: int
    hold_value: str
    node_uid: str
    created_by: str
    needs_approval: bool
    name: str
    mode: str
    stopped: bool
    breaker: bool
    freeze: bool
    closed: bool
    signal: bool
    verdict: str | None
    claims: list[str]

    @property
    def verb(self) -> str:
        return str(self.plan[self.step]["verb"]) if self.step < len(self.plan) else ""


FACTS = """
SELECT w.id, w.cluster_id, w.state, w.plan, w.step, w.attempt, w.hold_value, w.node_uid, w.created_by, w.needs_approval,
    n.name, c.mode,
    EXISTS (SELECT 1 FROM policy_switch WHERE stopped),
    EXISTS (SELECT 1 FROM policy_breaker b WHERE b.cluster_id = w.cluster_id
        AND (b.state = 'open' OR (b.state = 'cooling' AND b.until > %(now)s))),
    EXISTS (SELECT 1 FROM policy_window WHERE kind = 'freeze' AND begins <= %(now)s AND ends > %(now)s),
    w.incident_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM health_incident i WHERE i.id = w.incident_id AND i.state = 'open'),
    EXISTS (SELECT 1 FROM health_signal s
        WHERE s.node_id = w.node_id AND s.cleared_at IS NULL AND s.severity = 'unhealthy'),
    (SELECT verdict FROM health_nodeverdict v WHERE v.node_id = w.node_id),
    ARRAY (SELECT k.kind::text FROM policy_claim k WHERE k.workflow_id = w.id AND k.released_at IS NULL)
FROM lifecycle_workflow w JOIN inventory_node n ON n.id = w.node_id JOIN inventory_cluster c ON c.id = w.cluster_id
WHERE w.id = ANY(%(ids)s)
"""
PLACES = """
SELECT n.id, n.name, n.rack, n.leaf, n.tenant, n.pods, n.foreign_hold, n.ready, l.state, v.verdict
FROM inventory_node n LEFT JOIN lifecycle_nodelifecycle l ON l.node_id = n.id
    LEFT JOIN health_nodeverdict v ON v.node_id = n.id
WHERE n.managed AND n.gone_at IS NULL
"""
CLAIMS = """
SELECT kind, node_id, claimed_at, released_at IS NULL FROM policy_claim WHERE kind = 'in_flight' OR released_at IS NULL
"""
UNTOLD = f"""
SELECT id, state, blocked_code <> '' AND blocked_text <> '',
    blocked_since IS NOT NULL AND blocked_until IS NOT NULL, wake_at IS NOT NULL, blocked_code
FROM lifecycle_workflow WHERE state IN {OPEN}
"""
WAKES = """
SELECT min(CASE WHEN blocked_code = 'asking' THEN %(now)s + interval '1 second' ELSE wake_at END)
FROM lifecycle_workflow WHERE state IN ('running', 'blocked') AND (wake_at > %(now)s OR blocked_code = 'asking')
"""
RENEWED = """
UPDATE health_nodeverdict v SET
    telemetry_at = CASE WHEN v.node_id = ANY(%(up)s) THEN %(now)s ELSE v.telemetry_at END,
    since = CASE WHEN m.mended THEN %(now)s ELSE v.since END,
    verdict = CASE WHEN m.mended THEN 'healthy' ELSE v.verdict END
FROM (SELECT r.id, r.verdict = 'unhealthy' AND NOT EXISTS (
        SELECT 1 FROM health_signal s WHERE s.node_id = r.node_id AND s.cleared_at IS NULL) AS mended
    FROM health_nodeverdict r) m
WHERE m.id = v.id AND (m.mended OR v.node_id = ANY(%(up)s))
"""


def rows(sql: str, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


def facts(ids: Iterable[int], now: datetime) -> dict[int, Facts]:
    found = [Facts(*row) for row in rows(FACTS, ids=list(ids), now=now)]
    for row in found:
        row.plan = json.loads(row.plan)
    return {row.pk: row for row in found}


def renewed(up: Iterable[int], now: datetime) -> None:
    """The observer's word: fresh telemetry of nodes that are up; healthy is what has no open signal any more."""
    with connection.cursor() as cursor:
        cursor.execute(RENEWED, {"up": list(up), "now": now})


def soonest(now: datetime) -> datetime | None:
    """When the next sleeper wakes, or who asks is answered."""
    return rows(WAKES, now=now)[0][0]
