"""Slurm's tokens: signed texts that tell themselves when they end.

Decides from the token alone that it is over or that it is none. Refuses to check its signature, which only Slurm can,
and to put anything of it into a sentence except the time.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime

import orjson


def ends_at(token: str) -> float | None:
    """Seconds since 1970; None for one that tells no end or is no JSON Web Token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        body = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (orjson.JSONDecodeError, binascii.Error, ValueError):
        return None
    end = body.get("exp") if isinstance(body, dict) else None
    return float(end) if isinstance(end, int) and not isinstance(end, bool) else None


def expired(token: str, now: float) -> str:
    """Why it is of no use any more, without a full stop; "" as long as it may be."""
    if not token.isprintable() or not token:
        return "there is none"
    end = ends_at(token)
    if end is None or end > now:
        return ""
    try:
        return f"it ended at {datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "it ended long ago"
