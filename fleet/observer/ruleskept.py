"""The rules that this cluster is judged by, kept over a restart of its observer.

Decides nothing. Refuses to write without the observer's lease.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from fleet.health import detector_changes
from fleet.inventory import lease
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
