"""Which clusters there are, for the supervisor.

Decides nothing: two plain queries, because the supervisor must stay small and loads no Django. Refuses to wait for a
database that does not answer within two seconds.
"""

from __future__ import annotations

import psycopg

CLUSTERS = "SELECT name FROM inventory_cluster WHERE removed_at IS NULL ORDER BY name"
WATCHED = "SELECT name FROM inventory_cluster WHERE removed_at IS NULL AND observer_until > now()"


class ClusterList:
    """Keeps one connection; a lost one is opened again at the next question."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._link: psycopg.Connection[tuple[str]] | None = None

    def names(self) -> frozenset[str] | None:
        """Clusters that want an observer; None when the database does not say."""
        return self._ask(CLUSTERS)

    def watched(self) -> frozenset[str] | None:
        """Clusters whose observer holds its lease now."""
        return self._ask(WATCHED)

    def _ask(self, question: str) -> frozenset[str] | None:
        try:
            if self._link is None or self._link.closed:
                options = "-c statement_timeout=2000 -c application_name=muster-supervisor"
                self._link = psycopg.connect(self._url, connect_timeout=2, options=options, autocommit=True)
            return frozenset(str(row[0]) for row in self._link.execute(question.encode()))
        except psycopg.Error:
            self.close()
            return None

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
