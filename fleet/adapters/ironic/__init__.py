"""Ironic as a provisioner: its REST API, rebuilds in place.

Decides the shape of a connection. Refuses nothing by itself: see `driver`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.adapters.ironic.driver import IronicProvisioner


@dataclass(frozen=True, slots=True)
class Connection:
    """`authorization` gives the header's value anew for every request: "Basic ...", "Bearer TOKEN", or nothing."""

    url: str
    authorization: Callable[[], str]
    verify: bool | str = True
    timeout: float = 15.0


def provisioner(connection: Connection) -> IronicProvisioner:
    """A ProvisionPort."""
    from fleet.adapters.ironic.driver import IronicProvisioner

    return IronicProvisioner(connection)
