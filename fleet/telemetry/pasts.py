"""Which keeper of the past answers.

Decides: up to two hours our own samples, which are what the rules saw; beyond that the metrics API where the cluster
has one, and our own roll-ups where it has none or fails. Either stands in for the other, and says so. Refuses to turn a
store's trouble into an empty chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fleet.ports.errors import PortError
from fleet.ports.history import History, Past, Whose
from fleet.telemetry.embedded import SLACK
from fleet.telemetry.history import KEEP


@dataclass(frozen=True, slots=True)
class Pasts:
    own: History
    remote: History | None = None

    def past(self, whose: Whose, since: datetime, until: datetime, measures: Sequence[str] = ()) -> Past:
        if self.remote is None:
            return self.own.past(whose, since, until, measures)
        if until - since <= KEEP + SLACK:
            found = self.own.past(whose, since, until, measures)
            return found if found.rows else self._remote(self.remote, found, whose, since, until, measures)
        return self._remote(self.remote, None, whose, since, until, measures)

    def _remote(
        self,
        remote: History,
        own: Past | None,
        whose: Whose,
        since: datetime,
        until: datetime,
        measures: Sequence[str],
    ) -> Past:
        note = ""
        try:
            found = remote.past(whose, since, until, measures)
            if found.rows:
                return found
        except PortError as error:
            note = str(error)
        own = own or self.own.past(whose, since, until, measures)
        return replace(own, notes=(*own.notes, note)) if note else own
