"""Verdicts into rows, only where they changed.

Decides what counts as changed: a verdict, its rule, its devices, or its reason apart from numbers that count up. A
verdict that was the same before a restart keeps its beginning. Refuses to write the time of the newest sample more than
four times a minute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from fleet.health import selectors
from fleet.health import services as health
from fleet.health.rules.types import NodeFacts, Verdict
from fleet.health.services import VerdictRow
from fleet.observer.facts import since_when
from fleet.observer.session import Session
from fleet.telemetry.frame import Frame

TOLD_EVERY = timedelta(seconds=15)
BATCH = 100  # rows in one transaction: a fatal line waits for the lease's row no longer than that takes
PORTION = 50  # verdicts compared between two looks at who else wants to compute
_NUMBERS = re.compile(r"\bfor \d+ s\b")


class VerdictBook:
    """What the rows say, kept beside them. One thread."""

    def __init__(self, session: Session, frame: Frame) -> None:
        self._session, self._frame = session, frame
        self._rows: dict[int, VerdictRow] = {}

    def load(self) -> None:
        for row in selectors.verdicts_of(self._session.cluster_id).iterator(chunk_size=2000):
            self._rows[row.node_id] = VerdictRow(
                row.node_id, row.verdict, row.reason, row.rule, row.since, row.devices, row.telemetry_at
            )

    def update(
        self, verdicts: Mapping[str, Verdict], facts: Mapping[str, NodeFacts], node_ids: Mapping[str, int]
    ) -> int:
        """Write the rows that changed; how many."""
        heard = self._heard()
        changed: list[tuple[VerdictRow, bool]] = []
        for number, (name, verdict) in enumerate(verdicts.items()):
            if number % PORTION == 0:
                self._session.way.give()
            node_id = node_ids.get(name)
            if node_id is None:
                continue
            old = self._rows.get(node_id)
            new = _row(node_id, verdict, heard.get(name))
            if old is not None and (old.verdict, old.rule) == (new.verdict, new.rule) and old.since <= new.since:
                new = replace(new, since=old.since)
            if old is None or _shape(old) != _shape(new):
                changed.append((new, True))
            elif _is_newer(new.telemetry_at, old.telemetry_at, facts.get(name)):
                changed.append((new, False))
        session = self._session
        for at in range(0, len(changed), BATCH):
            session.way.give()
            batch = changed[at : at + BATCH]
            rows, told = [row for row, _ in batch], [row.node_id for row, tell in batch if tell]
            session.once(
                lambda rows=rows, told=told: health.store_verdicts(  # type: ignore[misc]
                    session.cluster_id, rows, told, session.epoch, session.clock.now()
                )
            )
            self._rows.update({row.node_id: row for row in rows})
        return len(changed)

    def _heard(self) -> dict[str, datetime]:
        """Node -> when any of its exporters last answered."""
        frame, t = self._frame, self._frame.t
        size = t.size
        wall, node = t.wall[:size], t.node[:size]
        newest = np.zeros(len(frame.nodes) + 1)
        np.maximum.at(newest, node, wall)
        return {
            name: datetime.fromtimestamp(at, UTC)
            for name, at in zip(list(frame.nodes), newest.tolist(), strict=False)
            if at > 0
        }


def _row(node_id: int, verdict: Verdict, heard: datetime | None) -> VerdictRow:
    devices: dict[str, Any] = {
        key: [device.verdict, device.reason, device.since.isoformat()] for key, device in verdict.devices.items()
    }
    return VerdictRow(node_id, verdict.verdict, verdict.reason, verdict.rule, verdict.since, devices, heard)


def _shape(row: VerdictRow) -> tuple[Any, ...]:
    return row.verdict, row.rule, _NUMBERS.sub("#", row.reason[:300]), dict(row.devices)


def _is_newer(new: datetime | None, old: datetime | None, facts: NodeFacts | None) -> bool:
    """Worth a write: much newer, or the first word since a boot or a remediation, for which a validation waits."""
    if new is None or old is None:
        return new is not None
    since = since_when(facts) if facts else None
    return new - old >= TOLD_EVERY or (since is not None and old <= since < new)
