"""Ray's dashboard: the entry points that `fleet.wiring` calls.

Decides what a connection consists of. Refuses to choose where a dashboard is asked and who may have a token: whoever
calls has judged the address before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.adapters.ray.reading import Dashboard


@dataclass(frozen=True, slots=True)
class Connection:
    """`ip`, where given, is what is connected to, whatever the name of `url` means by now. `token` is sent where
    there is one. `timeout` is for one answer, `patience` for one look (seconds)."""

    url: str
    ip: str = ""
    token: str = ""
    verify: bool | str = True
    timeout: float = 3.0
    patience: float = 8.0
    max_bytes: int = 32 << 20


def dashboard(connection: Connection) -> Dashboard:
    """A RayDashboard of one Ray cluster."""
    from fleet.adapters.ray.reading import Dashboard

    return Dashboard(connection)
