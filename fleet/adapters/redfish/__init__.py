"""Redfish BMCs as a power port: the entry point that `fleet.wiring` calls.

Decides only when sushy is imported. Refuses to keep anything between calls: a BMC's answer is true for one reading.
No module here may be called `power`: importing it would hide the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.adapters.redfish.driver import RedfishPower


def power() -> RedfishPower:
    """A PowerPort over Redfish. Thread-safe; holds no connection."""
    from fleet.adapters.redfish.driver import RedfishPower

    return RedfishPower()
