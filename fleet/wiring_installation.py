"""Who this installation is towards the clusters that it manages, and whether it is the one that may act there.

Decides the name that stands in a cluster's Lease: the identifier in the data folder, and which PostgreSQL the database
lies in. A backup carries the first along and cannot carry the second, so that a restored copy is somebody else as long
as the original lives. Refuses to believe in the Lease for longer than a sixth of the time that it is taken for.
"""

from __future__ import annotations

import os
import secrets
import time
from functools import cache
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, OperationalError, connection, transaction

from fleet.ports.cluster import ClusterActor

LEASE_SECONDS, LEASE_RENEW = 60, 10.0
DATABASE = """SELECT system_identifier || '-' || oid FROM pg_control_system(), pg_database
WHERE datname = current_database()"""


def installation_id() -> str:
    """Made once, kept in the data folder. A restored copy elsewhere shares it."""
    path: Path = settings.INSTALLATION_ID_FILE
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = f"muster-{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(fresh)
        except FileExistsError:
            return path.read_text(encoding="utf-8").strip()
        return fresh


@cache
def holder() -> str:
    """The name in the Lease. A server that may not, or cannot, say who it is leaves the identifier alone. One that is
    away for a moment does not: all processes of an installation must come to one name."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(DATABASE)
            (database,) = cursor.fetchone()
    except OperationalError:
        raise
    except DatabaseError:
        return installation_id()
    return f"{installation_id()}/{database}"


class Lease:
    """Do we hold the Lease that lets this installation act? Asked often, renewed every ten seconds."""

    def __init__(self, acting: ClusterActor, name: str) -> None:
        self._acting, self._name = acting, name
        self._until = 0.0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now < self._until:
            return True
        if not self._acting.claim_lease(self._name, LEASE_SECONDS):
            return False
        self._until = now + LEASE_RENEW
        return True
