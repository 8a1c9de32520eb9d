"""Slurm through slurmrestd: the entry points that `fleet.wiring` calls.

Decides what a connection consists of. Refuses to run without a token: slurmrestd answers nobody who is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.adapters.slurm.reading import SlurmPoll


@dataclass(frozen=True, slots=True)
class Connection:
    """`token` gives the JWT at each call, for it expires; `verify` is False, True or the authorities' file."""

    url: str
    user: str
    token: Callable[[], str]
    verify: bool | str = True
    timeout: float = 8.0
    max_bytes: int = 256 << 20


def poll(connection: Connection) -> SlurmPoll:
    """A GangPoll of one slurmctld."""
    from fleet.adapters.slurm.reading import SlurmPoll

    return SlurmPoll(connection)
