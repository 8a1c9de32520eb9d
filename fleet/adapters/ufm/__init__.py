"""UFM, its telemetry, and InfiniBand exporters: links, alarms and the counters of the switches' ports.

Decides what a connection needs. Refuses to hold a secret: the credential is read anew for every request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleet.ports.fabric import FabricReader


@dataclass(frozen=True, slots=True)
class Connection:
    """`url` is a UFM's address, empty where there is only an exporter; `authorization` gives the header, or ''.

    The credential goes to `url` alone: the telemetry endpoints take none.
    """

    url: str
    authorization: Callable[[], str] = lambda: ""
    verify: bool | str = True  # False, True or the path of a CA bundle
    telemetry: str = ""
    sharp: str = ""
    timeout: float = 30.0  # seconds for one request in all: a sweep of a hundred switches takes ten
    max_bytes: int = 256 * 1024 * 1024


def reader(connection: Connection) -> FabricReader:
    """A FabricReader."""
    from fleet.adapters.ufm.client import UfmReader

    return UfmReader(connection)
