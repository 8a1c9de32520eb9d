"""The rules that this cluster is judged by, kept over a restart of its observer.

Decides nothing. Refuses to write without the observer's lease.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from fleet.audit import services as audit
from fleet.health import detector_changes, modes
from fleet.inventory import lease
from fleet.lifecycle import rule_modes
from fleet.observer.session import Session


class RulesKept:
    def __init__(self, session: Session) -> None:
        self._session = session

    def text(self) -> str | None:
        return detector_changes.rules_before(self._session.cluster_id)

    def keep(self, text: str, changed: set[str], now: datetime) -> None:
        with transaction.atomic():
            lease.guard(self._session.cluster_id, self._session.epoch)
            detector_changes.note_rules(self._session.cluster_id, text, sorted(changed), now)
            detector_changes.forget(now)

    def renew(self, mode_of: modes.ModeOf, now: datetime) -> None:
        session = self._session
        with transaction.atomic():
            lease.guard(session.cluster_id, session.epoch)
            journal: list[audit.Entry] = []
            renewed = modes.renew(session.cluster_id, mode_of, now, journal)
            if renewed.all:
                rule_modes.follow(session.cluster_id, renewed, now, session.clock)
                audit.record(audit.chain_of(session.cluster_id), journal, now)
