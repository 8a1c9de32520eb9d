"""YuniKorn through its REST API: the entry points that `fleet.wiring` calls.

Decides what a connection consists of. Refuses a credential: its API knows none, and whoever guards it does so in front.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.adapters.yunikorn.reading import YunikornPoll


@dataclass(frozen=True, slots=True)
class Connection:
    """`verify` is False, True or the authorities' file; `timeout` is for one answer (seconds)."""

    url: str
    verify: bool | str = True
    timeout: float = 8.0
    max_bytes: int = 256 << 20


def poll(connection: Connection) -> YunikornPoll:
    """A GangPoll of one YuniKorn."""
    from fleet.adapters.yunikorn.reading import YunikornPoll

    return YunikornPoll(connection)
