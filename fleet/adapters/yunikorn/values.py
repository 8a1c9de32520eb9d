"""YuniKorn's values: amounts by resource, times in nanoseconds.

Decides which resources are GPUs, and that what is odd is not told. Units: `vcore` in thousandths, memory in bytes.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from fleet.ports.devices import DEVICE
from fleet.ports.gangs import Need
from fleet.ports.shapes import MOST, mapping, text

_LAST_NS = 253_370_764_800 * 10**9  # in the year 9000
_MIB = 1 << 20
_DIGITS = re.compile(r"^-?[0-9]{1,19}$")


def amount(value: Any) -> int | None:
    """Whole numbers, also where they are told as text."""
    if isinstance(value, str) and _DIGITS.match(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return int(value) if -(2**63) <= value < 2**63 else None


def count(value: Any) -> int:
    found = amount(value)
    return 0 if found is None else max(0, min(MOST, found))


def devices(raw: Any) -> dict[str, int]:
    """GPUs by resource."""
    return {text(name): count(value) for name, value in mapping(raw).items() if DEVICE.match(text(name))}


def gpus(raw: Any) -> int:
    return sum(devices(raw).values())


def need(raw: Any) -> Need:
    """What one member asks for; of several kinds of GPUs the one that it asks most of."""
    told = devices(raw)
    resource = max(told, key=lambda name: (told[name], name), default="nvidia.com/gpu")
    asked = mapping(raw)
    return Need(
        gpus=told.get(resource, 0),
        cpu_millis=count(asked.get("vcore")),
        memory_mib=max(0, (amount(asked.get("memory")) or 0)) // _MIB,
        resource=resource,
    )


def nanoseconds(value: Any) -> datetime | None:
    """0 is "never"."""
    found = amount(value)
    return None if found is None or not 0 < found < _LAST_NS else datetime.fromtimestamp(found / 1e9, UTC)
