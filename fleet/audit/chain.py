"""How an audit row's hash is computed.

Decides the canonical bytes: each row's hash covers its content and the hash before it. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def row_hash(prev: str, fields: Mapping[str, Any]) -> str:
    """SHA-256 in hex over `prev` and the canonical JSON of `fields` (keys sorted, datetimes as UTC ISO with µs)."""
    body = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)
    return hashlib.sha256(f"{prev}\n{body}".encode()).hexdigest()


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    raise TypeError(f"{type(value).__name__} cannot be audited")
